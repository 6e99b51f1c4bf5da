"""Textbook problems of cvxpy by ``method="dald"``: right, or refused with the way out."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.problems.textbook import PROBLEMS

ONE_PIECE = {"matrix completion", "experiment design", "infinity norm fit"}
"""One function of one variable: nothing divides it, and the error says so."""
BOTH = sorted(PROBLEMS.keys() - ONE_PIECE)


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
