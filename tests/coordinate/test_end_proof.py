"""Runs end "optimal" with a proof of their gap, and go on or say so where there is none."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.end_test import end_test
from tests.answer.families import redrawn


def least_squares(A: list[np.ndarray], b: list[np.ndarray]) -> float:
    """The least sum of squares of all rows, by numpy's SVD of columns of norm 1."""
    whole, right = np.vstack(A), np.concatenate(b)
    sizes = np.linalg.norm(whole, axis=0)
    best = np.linalg.lstsq(whole / sizes, right, rcond=1e-15)[0] / sizes
    return float(np.sum((whole @ best - right) ** 2))


def far_windows() -> tuple[dm.Model, float]:
    """Three owners fit 1, t, t^2 to windows of t a thousand apart; and the least squares of all.

    Their own fits are far apart along a direction that hardly matters to them, beside a stiff one:
    what the run measures before its first round is 1e17 where agreeing costs 1.05.
    """
    rng = np.random.default_rng(1)
    t = [rng.uniform(0, 1, 40) + 1000 * i for i in range(3)]
    A = [np.vander(one, 3, increasing=True) for one in t]
    b = [1 + 0.3 * (one - 1000 * i) + 0.1 * rng.normal(size=40) for i, one in enumerate(t)]
    w, model = cp.Variable(3, name="w"), dm.Model("years")
    for i in range(3):
        model.client(f"c{i}", cp.sum_squares(A[i] @ w - b[i]))
    return model, least_squares(A, b)


def spreads(ratio: float, seed: int) -> tuple[dm.Model, float]:
    """Two owners whose spreads of the second feature differ by a ratio."""
    rng = np.random.default_rng(seed)
    root = np.sqrt(ratio)
    A = [rng.normal(size=(20, 2)) * [1, root**e] for e in (-1, 1)]
    b = [rng.normal(size=20) for _ in A]
    w, model = cp.Variable(2, name="w"), dm.Model("two")
    for i in range(2):
        model.client(f"c{i}", cp.sum_squares(A[i] @ w - b[i]))
    return model, least_squares(A, b)


def test_owners_whose_own_fits_are_far_apart() -> None:
    model, optimum = far_windows()
    result = model.solve()
    assert result.status == "optimal", result.detail
    assert result.value == pytest.approx(optimum, rel=1e-4)
    check = result.verify()
    assert check.ok, str(check)
    assert check.aio_value == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("ratio", [1e3, 1e4, 1e5, 1e6, 1e7, 1e8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_owners_of_unequal_spreads(ratio: float, seed: int) -> None:
    model, optimum = spreads(ratio, seed)
    result = model.solve()
    assert result.status == "optimal", result.detail
    assert result.value == pytest.approx(optimum, rel=1e-4)


def test_a_run_that_may_not_go_on_says_what_is_proved() -> None:
    """After nine rounds the residuals are small beside what the run measured, and F is 9e8."""
    drawn = redrawn("polynomials", 271126000023)
    assert drawn is not None
    result = drawn.build().solve(max_rounds=9)
    assert result.status == "round_limit"
    assert result.value > 2 * drawn.optimum
    assert "of the cost of consensus" in result.detail
    assert not result.verify().ok
    assert not result.certificate().ok


def test_a_larger_tolerance_asks_for_less_of_a_proof() -> None:
    model, optimum = spreads(1e2, 0)
    result = model.solve(eps_pri=1e-3, eps_dual=1e-3)
    assert result.status == "optimal"
    assert result.value == pytest.approx(optimum, rel=1e-1)


def test_data_without_a_minimiser_are_a_finding() -> None:
    """Source of the data: cvxpy/cvxpy#1755; no dose of those who fell ill is below the others'."""
    dose = np.array([2.0, 4, 5, 5, 5, 7, 10] + [0] * 18 + [1] * 10)
    ill = np.r_[np.ones(7), -np.ones(28)]
    b, model = cp.Variable(2, name="b"), dm.Model("separated")
    for i in range(3):
        some = slice(i, None, 3)
        rows = np.c_[np.ones(len(dose)), dose][some]
        model.client(i, cp.sum(cp.logistic(cp.multiply(-ill[some], rows @ b))))
    result = model.solve()
    assert result.status == "no_minimiser"
    assert "bound the variables" in str(result.diagnose())


def test_a_run_does_not_end_with_prices_that_its_clients_do_not_balance() -> None:
    """The gap is of second order in prices: 2 % of them were 3e-6 of the cost of consensus.

    Five owners whose spreads of a feature differ by 1e4, by a seed of the drawn families.
    """
    model = redrawn("unequal spreads", 14000022)
    assert model is not None
    result = model.build().solve()
    assert result.status == "optimal"
    assert result.certificate()["multipliers"].ok, str(result.certificate())


def test_a_constraint_that_costs_nothing_is_asked_at_the_end() -> None:
    """Of z = 10 in norm((z, 1)) <= y <= 3 no objective says anything: the gap stays proved."""
    x, z, y = (cp.Variable(name=name) for name in "xzy")
    model = dm.Model()
    model.client("one", cp.square(x - 1), [cp.norm(cp.hstack([z, 1])) <= y, y <= 3])
    model.client("two", cp.square(x + 1))
    result = model.solve()
    assert result.state is not None
    state, proof = result.state.snapshot(), end_test(result.compiled, 1e-6)
    assert proof(state).is_proved
    at = [v.id for v in result.compiled["one"].variables].index(z.id)
    state.points = state.points.copy()
    state.points[result.compiled.columns["one"].start + at] = 10.0
    found = proof(state)
    assert not found.is_proved
    assert "<= y is violated by 8" in found.said  # sqrt(101) less y, which is 2.09
