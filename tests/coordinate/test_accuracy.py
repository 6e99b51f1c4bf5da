"""How exactly solvers are asked, against the formula, and that the answer is none the worse."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED
from tests.coordinate.chain import MEAN, TAKEN, Spy, chain
from tests.expect import NEAR, near


@pytest.mark.parametrize("given", [1e-2, 1e-5, np.float64(1e-9), np.float32(1e-4)])
def test_a_given_accuracy_is_what_every_solver_is_asked_for(given: float) -> None:
    model, x = chain()
    spy = Spy(NAMED["conic"])
    result = model.solve(solver=spy, accuracy=given, max_rounds=50)
    assert set(spy.tolerances) == {given}
    if given < NEAR:
        assert result[x[0]] == near(MEAN)


def test_an_inner_loop_to_a_tolerance_ends_while_the_clients_are_far_apart() -> None:
    """An accuracy in step with the primal residual would keep the dual above its tolerance."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i, one in enumerate(x):
        cost = cp.sum(cp.exp(one - i)) + cp.norm(one + i, 2) + cp.sum_squares(one)
        model.client(i, cost, [one <= 3 + i])
    model.consensus(x[0] == x[1])
    result = model.solve(acceleration=None, solver="conic", stopping=dm.FixedTolerance())
    assert result.status == "optimal"
    assert result.value == pytest.approx(model.monolithic().solve(solver="CLARABEL"), rel=1e-5)


@pytest.mark.parametrize("eps", [(1e-3, 1e-3), (1e-6, 1e-6), (1e-4, 1e-6), (1e-8, 1e-5)])
def test_the_default_accuracy_follows_the_residuals(eps: tuple[float, float]) -> None:
    """The formula at ``Accuracy``, from the residuals that the history tells."""
    model, _ = chain()
    spy = Spy(NAMED["conic"])
    result = model.solve(acceleration=None, solver=spy, eps_pri=eps[0], eps_dual=eps[1])
    assert result.status == "optimal"
    turns = result.rounds * [("a", "c"), ("b",)]
    assert spy.turns == turns
    asked = np.array(spy.tolerances).reshape(-1, 2)
    assert (asked[:, 0] == asked[:, 1]).all(), "one accuracy a round"
    scaled = result.history[["primal_scaled", "dual_scaled"]].to_numpy() / np.array(eps)
    goes_on = result.history["inner"].to_numpy()[1:] > 1  # only the dual has to fall meanwhile
    worst = min(eps) * np.where(goes_on, scaled[:-1, 1], scaled[:-1].max(axis=1))
    assert asked[0, 0] == 1e-3
    low = 1e-3 * min(eps)
    assert asked[1:, 0] == pytest.approx(np.clip(1e-2 * worst, low, 1e-3), rel=1e-12)
    assert asked[-1, 0] <= 0.1 * min(eps), "coarse answers end no run"


@pytest.mark.parametrize("rho", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("eps", [(1e-2, 1e-8), (1e-3, 1e-6), (1e-6, 1e-3), (1e-8, 1e-2)])
def test_exact_solvers_end_where_both_residuals_allow(eps: Any, rho: float) -> None:
    """``factor`` is exact whatever it is asked for, so no other round is needed."""
    model, _ = chain()
    history = model.solve(eps_pri=eps[0], eps_dual=eps[1], rho=rho).history
    met = (history.primal_scaled <= eps[0]) & (history.dual_scaled <= eps[1])
    assert met.idxmax() == len(history)
    result = model.solve(eps_pri=eps[0], eps_dual=eps[1], rho=rho)
    assert (result.status, result.rounds) == ("optimal", len(history))


def test_the_answer_does_not_suffer_from_coarse_first_rounds() -> None:
    """A run at full accuracy throughout is the measure."""
    for make, optimum in TAKEN.values():
        model, x = make()
        exact = model.solve(solver="conic", accuracy=1e-9)
        result = model.solve(solver="conic")
        assert (result.status, exact.status) == ("optimal", "optimal")
        assert result[x] == near(optimum)
        assert result.value == near(exact.value)
