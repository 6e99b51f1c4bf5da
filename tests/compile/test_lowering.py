r"""Clients as arrays, against cvxpy's own values, violations, minimisers and dual values.

Nothing here knows how a form is found. A form says what a client is, so at every point its
objective and its violation are cvxpy's; and with any augmented terms added the minimiser and the
multipliers are those of cvxpy's solve of the user's problem. A function that is taken for another
is a wrong answer, hence the many that are nearly one of those that are known.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model._cvxpy import domain_of_atoms, has_domain
from dald_model.coordinate.scaling.curvature import curvature
from dald_model.solvers import Turn
from tests.compile.both_ways import GAP, by_clarabel, by_cvxpy, compiled, first_answer, turn, whole
from tests.compile.clients import CLIENTS, DUALS, FITS, LONG, fit
from tests.duals import duals as values
from tests.expect import flat, largest


@cache
def client(name: str) -> dm.Subproblem:
    """Made once, as several tests ask it."""
    return whole(CLIENTS[name][1])


@cache
def known(name: str, seed: int) -> Any:
    """Cvxpy's answer to a turn of a client."""
    sub = client(name)
    return by_cvxpy(sub, turn(sub, seed))


def allowed(given: Turn, value: float) -> float:
    r"""How far two points may be apart, both within GAP of the optimum.

    The augmented terms make it strongly convex with modulus :math:`2 \min \rho^2`.
    """
    modulus = 2 * given.rho.min() ** 2
    return 2 * np.sqrt(2 * 10 * GAP * max(1.0, abs(value)) / modulus)


def compare_duals(ours: Any, theirs: Any, atol: float = 2e-4) -> None:
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs, strict=True):
        assert len(one) == len(two)
        for a, c in zip(one, two, strict=True):
            assert np.shape(a) == np.shape(c)
            np.testing.assert_allclose(flat(a), flat(c), atol=atol, rtol=1e-3)


def points_of(sub: dm.Subproblem, count: int = 30) -> Any:
    """Random points of several sizes that attributes allow, half of them positive."""
    rng = np.random.default_rng(11)
    for at in range(count):
        scale = (0.1, 1.0, 10.0)[at % 3]
        for v in sub.variables:
            raw = scale * rng.normal(size=v.shape)
            v.save_value(v.project(np.abs(raw) if at % 2 else raw))
        yield np.concatenate([flat(v.value) for v in sub.variables])


def is_plain(sub: dm.Subproblem) -> bool:
    """Whether the form describes the client at every point, without further variables."""
    form = sub.form
    is_like_cvxpy = form is not None and form.complete and not getattr(form, "extra", 0)
    return is_like_cvxpy and has_domain(sub.client.cost)  # an indicator becomes constraints


@pytest.mark.parametrize(
    "name", [name for name, (kinds, _) in CLIENTS.items() if kinds is not None]
)
def test_a_known_client_is_recognised(name: str) -> None:
    kinds, sub = CLIENTS[name][0], client(name)
    assert sub.form is not None
    assert sub.form.complete
    assert {term.kind.name for term in sub.form.terms} == kinds


@pytest.mark.parametrize("name", CLIENTS)
def test_a_recognised_client_has_the_values_and_violations_of_cvxpy(name: str) -> None:
    sub = client(name)
    if not is_plain(sub):
        assert CLIENTS[name][0] is None
        return
    form = sub.form
    assert form is not None
    with np.errstate(all="ignore"):
        for point in points_of(sub):
            value = sub.client.cost.value
            theirs = np.nan if value is None else float(flat(value)[0])
            if any(largest(rule.residual) > 0 for rule in domain_of_atoms(sub.client.cost)):
                theirs = np.nan  # cvxpy says 1/u of a negative u for inv_pos(u)
            ours = form.objective(point)
            if np.isfinite(theirs):
                assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-10)
            elif name in DOMAINS and form.violation(point) > 0:
                continue
            else:
                assert not np.isfinite(ours)
            # cvxpy's `violation` of its class NonNeg is a norm; what a row misses is meant
            stated = [largest(rule.residual) for rule in sub.client.constraints]
            assert form.violation(point) == pytest.approx(
                max(stated, default=0), abs=1e-10, rel=1e-10
            )


@pytest.mark.parametrize("name", CLIENTS)
def test_the_cone_program_of_a_client_has_the_answer_of_cvxpy(name: str) -> None:
    sub = client(name)
    if sub.form is None:
        assert CLIENTS[name][0] is None
        return
    if name == "zero weight outside of a domain":
        pytest.skip("nothing holds its cone: Clarabel gives three digits, whoever asks it")
    given = turn(sub, 3)
    point, value, duals = known(name, 3)
    mine, objective, multipliers = by_clarabel(sub, given)
    assert objective == pytest.approx(value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(mine, point, rtol=0, atol=allowed(given, value))
    found = sub.cone_duals(multipliers)
    if name in DUALS:
        compare_duals(found, duals)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_solver_of_a_client_has_the_answer_of_cvxpy(name: str) -> None:
    sub = client(name)
    given = turn(sub, 3)
    point, value, duals = known(name, 3)
    answers = first_answer(sub, given, 1e-7)
    assert answers.statuses[0] in ("optimal", "optimal_inaccurate")
    np.testing.assert_allclose(answers.points, point, rtol=0, atol=allowed(given, value) + 1e-6)
    if name in DUALS:
        compare_duals(values(sub, answers), duals, atol=1e-3)


def test_few_rows_keep_their_root() -> None:
    x = cp.Variable(6)
    form: Any = compiled(cp.sum_squares(LONG @ x - 1), [])["client"].form
    root = form.quadratic.root
    assert form.quadratic.matrix is None
    assert root is not None
    assert root.shape == (2, 6)
    np.testing.assert_allclose(root.T @ root, 2 * LONG.T @ LONG, rtol=1e-12)


DOMAINS = ("kl_div_to_counts", "log_that_counts_for_nothing")
"""Clients of which rows say where the objective is finite, as no constraint does."""
SMOOTH = [
    name
    for name, (kinds, _) in CLIENTS.items()
    if kinds is not None and kinds <= {"logistic", "logsumexp", "exp"}
]


@pytest.mark.parametrize("name", SMOOTH)
def test_the_curvature_of_a_form_is_that_of_cvxpys_gradients(name: str) -> None:
    sub = client(name)
    h = 1e-3

    def gradient(at: np.ndarray) -> np.ndarray:
        for v, value in zip(sub.variables, sub.spread(at).values(), strict=True):
            v.save_value(value)
        found = sub.client.cost.grad
        # cvxpy leaves out a variable that the objective does not have; a scalar has a number
        return np.concatenate(
            [np.broadcast_to(flat(found.get(v, 0.0)), v.size) for v in sub.variables]
        )

    # A central difference errs by the square of the step times a fourth derivative
    bent = np.array([gradient(h * unit) - gradient(-h * unit) for unit in np.eye(sub.size)]) / (
        2 * h
    )
    known, diagonal = curvature(sub), np.diag(bent)
    np.testing.assert_allclose(known.diagonal, diagonal, rtol=1e-4, atol=1e-5)
    live = known.diagonal > 0
    if not live.any():
        assert known.spread == 1
        return
    root = np.sqrt(diagonal[live])
    values = np.linalg.eigvalsh(bent[np.ix_(live, live)] / np.outer(root, root))
    least, most = values[values > 1e-7 * values[-1]][0], values[-1]
    assert known.spread == pytest.approx(np.sqrt(max(least, 1e-4 * most) * most), rel=1e-3)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_to_several_variables_goes_to_the_solver_of_quadratics(name: str) -> None:
    chosen = {n: one.solver for one in compiled(*fit(name)).explain() for n in one.clients}
    assert chosen["client"] == "factor"


@pytest.mark.parametrize("centre", [0.0, -316e3, 1e6])
def test_a_quadratic_of_a_bounded_variable_is_one_wherever_it_is(centre: float) -> None:
    """Between bounds far from zero squares that are multiplied out agree to few digits."""
    x = cp.Variable(3, bounds=[centre - 5.0, centre + 5.0])
    model = dm.Model("bounded")
    model.client("a", 0.5 * cp.sum_squares(x - centre - [1.0, -2.0, 0.5]))
    model.client("b", cp.sum_squares(x - centre))
    form = model.compile()["a"].form
    assert form is not None
    np.testing.assert_allclose(form.quadratic.full, np.eye(3), rtol=1e-12)
