"""Textbook problems of cvxpy by ``method="dald"``: right, or refused with the way out."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.problems.textbook import PROBLEMS

ONE_PIECE = {"matrix completion", "experiment design", "infinity norm fit"}
"""One function of one variable: nothing divides it, and the error says so."""
UNPROVED = {"water filling"}
"""Right to eight digits, but nobody pays for the consensus, so that no gap is small beside that."""
BOTH = sorted(PROBLEMS.keys() - ONE_PIECE - UNPROVED)


def made(name: str) -> cp.Problem:
    return PROBLEMS[name](np.random.default_rng(7))


@pytest.mark.parametrize("name", BOTH)
def test_right(name: str) -> None:
    problem, reference = made(name), made(name)
    value = problem.solve(method="dald")
    assert problem.status in ("optimal", "optimal_inaccurate")
    wanted = reference.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert max((np.max(rule.violation()) for rule in problem.constraints), default=0.0) <= 1e-5


@pytest.mark.parametrize("name", sorted(ONE_PIECE))
def test_what_is_one_piece_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(dm.DecompositionError, match=r"one piece.*expected.*; declare"):
        made(name).solve(method="dald")


@pytest.mark.parametrize("name", sorted(UNPROVED))
def test_what_is_right_but_not_proved_says_so(name: str) -> None:
    problem = made(name)
    with pytest.warns(UserWarning, match=r"stopped without convergence.*the objective may be"):
        found = problem.solve(method="dald")
    assert problem.status == "user_limit"
    wanted = made(name).solve(solver=cp.CLARABEL)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert problem.solve(method="dald", disclose="curvature") == pytest.approx(wanted, rel=1e-6)
    assert problem.status in ("optimal", "optimal_inaccurate")
