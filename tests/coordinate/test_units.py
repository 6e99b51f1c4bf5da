"""Natural units: verdicts, rounds and accuracies that the user's units are without consequence for.

Every optimum is a closed form, or the least of a convex function of one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import dald_model as dm

POWERS = (-6, -3, -1, 1, 3, 6)
GAP = 1e-4
"""What an "optimal" answer may be off, relative to what the objective varies by."""

Array = np.ndarray[Any, Any]


# --- the same model in seven units -------------------------------------------------------------


def together(costs: list[Callable[[Any], Any]], size: int, unit: float, shift: float) -> dm.Model:
    """A chain of clients whose variables are y = unit x + shift, so that x has ordinary units."""
    model = dm.Model()
    copies = [cp.Variable(size, name=f"y{i}") for i in range(len(costs))]
    for i, (cost, y) in enumerate(zip(costs, copies, strict=True)):
        model.client(i, cost((y - shift) / unit))
    model.consensus(*(a == b for a, b in pairwise(copies)))
    return model


def squares(x: Any, i: int) -> Any:
    return (i + 1) * cp.sum_squares(x - np.array([i, -2.0 * i]))


def absolute(x: Any, i: int) -> Any:
    return cp.norm1(x - np.array([i, 3.0 * i]))


def lasso(x: Any, i: int) -> Any:
    return cp.sum_squares(x - np.array([i, 0.2])) + 0.5 * cp.norm1(x)


def logistic(x: Any, i: int) -> Any:
    rows = np.random.default_rng(i).normal(size=(12, 2))
    return cp.sum(cp.logistic(rows @ x)) + 0.1 * cp.sum_squares(x)


def balls(x: Any, i: int) -> Any:
    return cp.norm(x - np.array([i, i**2]), 2)


def separable(x: Any, i: int) -> Any:
    """A logistic loss without a ridge, flat far away to either side."""
    return cp.sum(cp.logistic(np.random.default_rng(100 + i).normal(size=(20, 2)) @ x))


def exponential(x: Any, i: int) -> Any:
    return cp.sum(cp.exp(np.random.default_rng(100 + i).normal(size=(6, 2)) @ x))


def largest(x: Any, i: int) -> Any:
    rows = np.random.default_rng(100 + i).normal(size=(6, 2))
    return cp.log_sum_exp(cp.hstack([rows @ x, cp.sum(x), -cp.sum(x)]))


def hinge(x: Any, i: int) -> Any:
    rows = np.random.default_rng(100 + i).normal(size=(12, 2))
    return cp.sum(cp.pos(1 - rows @ x)) + 0.05 * cp.sum_squares(x)


BENT = (logistic, separable, exponential, largest)
MODELS = {f.__name__: f for f in (squares, absolute, lasso, hinge, balls, *BENT)}
OFFSETS = (-1e6, -1e3, 1e1, 1e4, 1e6)


@cache
def least(name: str) -> float:
    """Of the three objectives together, by another solver."""
    x = cp.Variable(2)
    found: Any = cp.Problem(cp.Minimize(sum(MODELS[name](x, i) for i in range(3)))).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return found


@cache
def rounds_and_gap(name: str, scale: float, unit: float, shift: float) -> tuple[int, float]:
    """Of a solve; the gap relative to what the objective changes by over a step of one."""
    cost = MODELS[name]
    model = together([lambda x, i=i: scale * cost(x, i) for i in range(3)], 2, unit, shift)
    result = model.solve()
    assert result.status == "optimal", (name, scale, unit, shift, str(result))
    return result.rounds, abs(result.value / scale - least(name))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["objective", "variable"])
@pytest.mark.parametrize("name", MODELS)
def test_seven_units_take_the_same_rounds_to_the_same_accuracy(name: str, kind: str) -> None:
    rounds, gap = rounds_and_gap(name, 1.0, 1.0, 0.0)
    for power in POWERS:
        scale, unit = (10.0**power, 1.0) if kind == "objective" else (1.0, 10.0**power)
        there, far = rounds_and_gap(name, scale, unit, 0.0)
        assert abs(there - rounds) <= max(1, 0.1 * rounds), (kind, power)
        assert far <= max(3 * gap, GAP / 10), (kind, power)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_an_origin_a_million_spreads_away_is_without_consequence(name: str) -> None:
    """Of kinks, which solvers have fewer digits of there, the answer; of others also the rounds."""
    rounds, _ = rounds_and_gap(name, 1.0, 1.0, 0.0)
    for shift in OFFSETS:
        there, far = rounds_and_gap(name, 1.0, 1.0, shift)
        assert far <= GAP, shift
        if name in ("squares", *(f.__name__ for f in BENT)):
            assert abs(there - rounds) <= max(1, 0.1 * rounds), shift


@pytest.mark.parametrize(
    ("centre", "spread"), [(1e6, 1.0), (1.7e9, 1.0), (1.7e9, 1e3), (0.0, 1e-6), (0.0, 1e-8)]
)
def test_clocks_agree_on_the_mean_however_late_it_is(centre: float, spread: float) -> None:
    model = dm.Model("clocks")
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    for i in range(3):
        model.client(i, cp.square((x[i] - (centre + spread * i)) / spread))
    model.consensus(x[0] == x[1], x[1] == x[2])
    result = model.solve()
    assert result.status == "optimal"
    away = [(float(result[v]) - (centre + spread)) / spread for v in x]
    # What doubles of this size resolve of the spread
    assert np.abs(away).max() <= max(1e-5, 1e-15 * centre / spread)


# --- small variables and objectives ---------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_small_variables_are_not_taken_for_zero(unit: float) -> None:
    """Three medians: the sum of distances from -1, 0 and 4 is 5."""
    model = dm.Model()
    x = cp.Variable(name="x")
    for at in (-1.0, 0.0, 4.0):
        model.client(at, cp.norm(cp.hstack([x / unit - at, 0.0])))
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(5.0, abs=1e-4)


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e6])
def test_a_linear_programme_over_the_simplex_finds_the_least_cost(unit: float) -> None:
    cost = unit * np.random.default_rng(0).normal(size=(3, 4))
    model, x = dm.Model(), cp.Variable(4)
    for i in range(3):
        model.client(i, cost[i] @ x, [x >= 0, cp.sum(x) == 1] if i == 0 else [])
    result = model.solve()
    best, width = cost.sum(axis=0).min(), np.ptp(cost.sum(axis=0))
    assert result.status == "optimal"
    assert abs(result.value - best) <= GAP * width
    assert result.verify().ok


@pytest.mark.parametrize("weight", [1e4, 1e6])
def test_a_heavy_term_does_not_hide_a_light_one(weight: float) -> None:
    cost = np.random.default_rng(1).normal(size=(3, 4))
    model, x, y = dm.Model(), cp.Variable(3), cp.Variable(4)
    for i in range(3):
        rules = [y >= 0, cp.sum(y) == 1] if i == 0 else []
        model.client(i, weight * cp.sum_squares(x - 1) + cost[i] @ y, rules)
    result = model.solve()
    assert result.status == "optimal"
    assert abs(result.value - cost.sum(axis=0).min()) <= GAP


@pytest.mark.parametrize("weight", [10, 50, 200, 1000])
def test_optimal_is_verified_whatever_a_kink_weighs(weight: float) -> None:
    model, x = dm.Model(), cp.Variable(3)
    model.client("a", weight * cp.norm1(x - 3))
    model.client("b", cp.sum_squares(x - 2))
    result = model.solve()
    assert result.status == "optimal"
    assert abs(result.value - 3) <= GAP * 3  # at x = 3
    assert result.verify().ok


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_kinks_alone_tell_a_penalty_in_any_unit(unit: float) -> None:
    """Who bends has no answer alone, and who has one has but kinks: max(x, 0) + 1 / (x1 x2)."""
    y, model = cp.Variable(2), dm.Model()
    x = unit * y
    model.client("flat", cp.sum(cp.pos(x)), [x >= -4, x <= 4])
    model.client("falls", cp.inv_prod(x))
    result = model.solve()
    assert result.status == "optimal"
    assert abs(result.value - 3) <= GAP * 3  # at x = (1, 1)
    assert result.rounds <= 12


# --- large penalties, and what a start brings along -----------------------------------------------


@pytest.mark.parametrize(("rho", "scale"), [(1e3, 1.0), (1e5, 1.0), (1e6, 1.0), (1e2, 1e-6)])
def test_a_large_penalty_ends_optimal_only_at_the_optimum(rho: float, scale: float) -> None:
    """Logistic clients under penalties far beyond their curvature: three digits are not enough."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 30, 4))
    labels = np.sign(rows @ np.ones(4) + rng.normal(size=(3, 30)))
    model, w = dm.Model(), [cp.Variable(4, name=f"w{i}") for i in range(3)]
    for i in range(3):
        loss = cp.sum(cp.logistic(-cp.multiply(labels[i], rows[i] @ w[i])))
        model.client(i, scale * (loss + 0.5 * cp.sum_squares(w[i])))
    model.consensus(w[0] == w[1], w[1] == w[2])
    whole = model.monolithic()
    ordinary: Any = cp.Problem(cp.Minimize(whole.objective.expr / scale), whole.constraints)
    best = scale * ordinary.solve(solver=cp.CLARABEL)
    result = model.solve(rho=rho, max_rounds=200)
    off = abs(result.value - best) / best
    assert result.status != "optimal" or off <= GAP
    assert off <= GAP or not result.verify().ok


def test_a_small_objective_under_a_large_penalty_is_not_called_optimal_far_off() -> None:
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 6))
    model, x = dm.Model(), cp.Variable(4)
    for i in range(3):
        cost = 1e-5 * (cp.sum_squares(rows[i] @ x - target[i]) + cp.norm1(x))
        model.client(i, cost, [x >= 0, cp.sum(x) == 1] if i == 0 else [])
    best: Any = model.monolithic().solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_feas=1e-12)
    result = model.solve(rho=10.0)
    assert result.status != "optimal" or abs(result.value / best - 1) <= 1e-3


@pytest.mark.parametrize("options", [{}, {"rho": 10.0}], ids=["default", "rho of 10"])
def test_a_portfolio_of_daily_variances_is_of_least_variance(options: dict[str, Any]) -> None:
    """An objective of size 1e-4; the optimum is that of the same in ordinary units."""
    rng = np.random.default_rng(0)
    model, w = dm.Model("minimum variance"), cp.Variable(8, name="weights")
    total: Any = 0.0
    whole: list[Any] = [w >= 0, cp.sum(w) == 1]
    for i in range(3):
        returns = rng.normal(size=(250, 8)) * rng.uniform(0.003, 0.03, 8)
        model.client(i, cp.sum_squares(returns @ w) / 250, whole if i == 0 else [])
        total += cp.sum_squares(1e2 * returns @ w) / 250
    best: Any = cp.Problem(cp.Minimize(total), whole).solve(solver=cp.CLARABEL)
    result = model.solve(**options)
    assert result.status == "optimal"
    assert abs(1e4 * result.value / best - 1) <= GAP
    assert result.verify().ok


def test_a_start_from_a_larger_problem_does_not_bring_its_scales() -> None:
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(3, 9, 4)), rng.normal(size=(3, 9))
    weight, centre, x = cp.Parameter(nonneg=True), cp.Parameter(4), cp.Variable(4)
    model = dm.Model()
    for i in range(3):
        fit = weight * cp.sum_squares(rows[i] @ x - target[i])
        model.client(i, fit + cp.norm1(x - centre))
    weight.value, centre.value = 1e7, np.zeros(4)
    before = model.solve()
    weight.value, centre.value = 1e-2, np.full(4, 2.0)
    best: Any = model.monolithic().solve(solver=cp.CLARABEL)
    for result in (model.solve(start=before), model.solve()):
        assert result.status == "optimal"
        assert abs(result.value - best) <= GAP * best


# --- bounded problems -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e2, 3e4, 1e5, 1e6, 1e8])
def test_a_median_of_large_numbers_is_bounded(size: float) -> None:
    prices = size * np.array([2.5, 3.1, 4.2])
    model, x = dm.Model(), cp.Variable(name="median price")
    for i, price in enumerate(prices):
        model.client(i, cp.abs(x - price))
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(1.7 * size, rel=GAP)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e5, 1e6, 1e8])
def test_a_linear_programme_with_wide_bounds_is_bounded(size: float) -> None:
    model, x = dm.Model("three plants"), [cp.Variable(name=f"x{i}") for i in range(3)]
    for i, slope in enumerate((-1.0, -2.0, 1.0)):
        model.client(i, slope * x[i], [x[i] >= 0, x[i] <= size])
    model.consensus(x[0] == x[1], x[1] == x[2])
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(-2 * size, rel=GAP)


@pytest.mark.parametrize("slope", [1e-2, 1e-3, 1e-4])
def test_hinges_of_small_features_are_bounded(slope: float) -> None:
    model, x = dm.Model(), cp.Variable(name="weight")
    for i in range(3):
        model.client(i, cp.pos(1 - slope * (i + 1) * x))
    result = model.solve()
    assert result.status == "optimal"
    assert 0 <= result.value <= GAP


@pytest.mark.parametrize("unit", [1, 10, 100, 1000])
def test_absolute_losses_of_a_small_slope_do_not_stall(unit: float) -> None:
    model, x = dm.Model(), cp.Variable(name="median")
    for i in range(3):
        model.client(i, cp.abs(x - unit * (i + 1)) / 100)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(2 * unit / 100, rel=GAP)


# --- answers that are zero ------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [-158489.0, 3e5])
@pytest.mark.parametrize("power", [-2, 0, 2])
def test_a_cone_client_far_from_zero_does_not_keep_the_units_of_a_first_guess(
    origin: float, power: int
) -> None:
    """Which are how far zero is: a stationarity relative to these never meets the tolerances."""
    unit = 10.0**power
    copies = [cp.Variable(2, name=f"y{i}") for i in range(2)]
    one, two = (y / unit - origin for y in copies)
    model = dm.Model()
    cost = 1.43 * cp.sum_squares(one + 0.5)
    model.client("cone", cost, [cp.sum(cp.logistic(one)) <= 3.0])
    cost = 0.5 * cp.sum_squares(two - 1.5) - cp.sum(cp.log1p(two))
    model.client("log", cost, [two >= 0.05])
    model.consensus(copies[0] == copies[1])
    result = model.solve()

    def each(x: float) -> float:
        return 1.43 * (x + 0.5) ** 2 + 0.5 * (x - 1.5) ** 2 - math.log1p(x)

    best: Any = minimize_scalar(each, bounds=(0.05, 2.0), options={"xatol": 1e-10})
    assert result.status == "optimal"
    assert result.rounds < 50
    assert result.value == pytest.approx(2 * best.fun, abs=GAP)


@pytest.mark.parametrize("offset", [0.0, -1e3, 1e5, -1e6])
@pytest.mark.parametrize("weight", [0.8, 5.0])
def test_a_norm_of_a_difference_is_shared_wherever_the_clients_are(
    offset: float, weight: float
) -> None:
    r"""Of :math:`|x - a|^2 + |y - b|^2 + w |x - y|` each end gives way by w / 2 at most."""
    a, b = np.array([0.3, -0.7]), np.array([1.5, 0.9])
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("x", cp.sum_squares(x - (a + offset)))
    model.client("y", cp.sum_squares(y - (b + offset)))
    model.couple(objective=weight * cp.norm(x - y))
    result = model.solve()
    apart = np.linalg.norm(b - a)
    way = min(weight / 2, apart / 2) * (b - a) / apart
    assert result.status == "optimal"
    assert np.asarray(result["x"][x]) - offset == pytest.approx(a + way, abs=1e-5)
    assert np.asarray(result["y"][y]) - offset == pytest.approx(b - way, abs=1e-5)
    assert result.verify().ok, str(result.verify())


def small(unit: float) -> dm.Result:
    """Eigenvalues of matrices that are bounded below, in units of the objective."""
    targets = [np.diag([1.0, -1.0]), np.diag([-0.5, 2.0])]
    x = [cp.Variable((2, 2), symmetric=True, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for v, target in zip(x, targets, strict=True):
        model.client(v.name(), unit * cp.lambda_max(v - 2 * target), [v >> target])
    model.consensus(x[0] == x[1])
    return model.solve()


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e5])
def test_a_small_objective_of_a_cone_client_is_measured_alike(unit: float) -> None:
    ours, ordinary = small(unit), small(1.0)
    assert ours.state is not None
    assert ordinary.state is not None
    assert ours.status == ordinary.status == "optimal"
    assert ours.state.units.lengths == pytest.approx(ordinary.state.units.lengths, rel=1e-2)
    assert ours.state.units.slopes == pytest.approx(unit * ordinary.state.units.slopes, rel=1e-2)


# --- domains that leave zero out ------------------------------------------------------------------

MEAN = np.array([0.3, -0.2])
ROOT = (18 + math.sqrt(324 + 48)) / 12
EDGED: dict[str, tuple[Callable[[Any, int], Any], float]] = {
    # Five of -log z + (1 + i) z: 5 / z = 15
    "logarithm": (lambda z, i: (1 + i) * cp.sum(z) - cp.sum(cp.log(z)), 10 * (math.log(3) + 1)),
    # Five of z log z + b z: log z = -1 - b
    "entropy": (lambda z, i: (i / 2 * MEAN) @ z - cp.sum(cp.entr(z)), -5 * np.exp(-1 - MEAN).sum()),
    # Two of -log z and three of (z - 3)^2: 6 (z - 3) = 2 / z
    "mixed": (
        lambda z, i: cp.sum_squares(z - 3) if i % 2 == 0 else -cp.sum(cp.log(z)),
        6 * (ROOT - 3) ** 2 - 4 * math.log(ROOT),
    ),
}


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("name", EDGED)
def test_where_a_domain_is_entered_is_without_consequence(name: str, unit: float) -> None:
    """Zero says nothing of a logarithm; the point inside that stands for it has units, A x >= 1.

    Only where clients are held first comes from it: the rounds are the same.
    """
    cost, optimum = EDGED[name]
    result = together([lambda z, i=i: cost(z, i) for i in range(5)], 2, unit, 0.0).solve()
    usual = together([lambda z, i=i: cost(z, i) for i in range(5)], 2, 1.0, 0.0).solve()
    assert result.status == "optimal"
    assert result.rounds == usual.rounds
    assert [result.value, usual.value] == pytest.approx([optimum] * 2, rel=1e-7)


@pytest.mark.parametrize("seed", [0, 3, 5, 11])
def test_a_coupling_that_does_not_bind_along_an_edge_gives_it_no_length(seed: int) -> None:
    """There it answers as its client does but for what solvers leave, 1e-9: seed 5 stalled."""
    rng = np.random.default_rng(seed)
    model, x = dm.Model("ties"), [cp.Variable(3, name=f"x{i}") for i in range(4)]
    for i in range(4):
        rows, signs = rng.normal(size=(20, 3)), np.sign(rng.normal(size=20))
        margin = cp.multiply(signs, rows @ x[i])
        model.client(i, cp.sum(cp.logistic(-margin)) + 0.1 * cp.sum_squares(x[i]))
    model.couple(*[cp.abs(x[i][0] - x[j][0]) <= 0.3 for i in range(4) for j in range(i)])
    result = model.solve()
    assert (result.status, result.verify().ok) == ("optimal", True)
    assert result.rounds <= 30


def test_what_cancels_but_for_rounding_gives_no_length() -> None:
    """An intercept is in a difference of two means by 4e-16, which made it 1e15 lengths long."""
    rng = np.random.default_rng(0)
    model, gaps = dm.Model("gaps of rates"), []
    first, second = np.full(49, 1 / 49), np.full(11, 1 / 11)
    for i in range(4):
        rows, signs = rng.normal(size=(60, 3)), np.sign(rng.normal(size=60))
        x, intercept = cp.Variable(3, name=f"x{i}"), cp.Variable(name=f"c{i}")
        score = rows @ x + intercept
        loss = cp.sum(cp.logistic(-cp.multiply(signs, score)))
        model.client(i, loss + 0.1 * cp.sum_squares(x))
        gaps.append(first @ score[:49] - second @ score[49:])
    model.couple(*[cp.abs(one - other) <= 0.1 for one, other in combinations(gaps, 2)])
    result = model.solve()
    assert 0 < abs(result.compiled[0].sides[0].toarray()[0, -1]) < 1e-15
    assert (result.status, result.verify().ok) == ("optimal", True)
    assert result.rounds <= 30


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_what_is_on_no_edge_has_units_of_its_own(unit: float) -> None:
    """A kink of it was as sharp as if it were as long as what is on edges."""

    def length_of_own(unit: float) -> float:
        x, z = cp.Variable(name="x"), cp.Variable(name="z")
        model = dm.Model("private")
        model.client(0, cp.square(x / unit - 1) + cp.square(z - x / unit) + 0.5 * cp.abs(z))
        model.client(1, cp.square(x / unit + 2))
        state = model.solve(max_rounds=2).state
        assert state is not None
        compiled = model.compile()
        at = [v.name() for v in compiled[0].variables].index("z")
        return float(state.units.point_lengths[compiled.columns[0]][at])

    assert length_of_own(unit) == pytest.approx(length_of_own(1.0), rel=1e-6)


@pytest.mark.parametrize("shift", [-2e3, 2e5])
def test_a_quadratic_with_many_answers_far_from_zero_gives_a_near_one(shift: float) -> None:
    """Held at zero its answer was 2e4 away along the entry it hardly sees, and a verdict wrong.

    Energies, which are squares of lengths, were 1e6 and 1e10 times those near zero.
    """
    a = np.array([-0.18, 0.96, 0.02, 0.74])

    def energy(shift: float) -> float:
        x = cp.Variable(4, name="x")
        model = dm.Model("flat")
        model.client(0, cp.sum_squares(x - shift - [-1.7, -0.7, 0.3, -0.1]), [x <= shift])
        model.client(1, cp.square(a @ (x - shift) - 0.3))
        result = model.solve()
        assert result.verify()
        assert result.state is not None
        return float(result.state.units.lengths @ result.state.units.slopes)

    assert 0.1 <= energy(shift) / energy(0.0) <= 10


@pytest.mark.xfail(reason="right, but in 177 rounds for 30: its minimiser at zero is told")
@pytest.mark.parametrize("shift", [-3e3, 1e5])
def test_who_has_many_answers_is_not_told_a_mean_that_has_its_own_at_zero(shift: float) -> None:
    """A spread is flat along all entries alike: it answers at zero, and a server's mean halfway."""
    power: Any = 1.5

    def run(shift: float) -> tuple[int, float]:
        x = cp.Variable(4, name="x")
        model = dm.Model("spread")
        for name, wish in {"a": [0.3, 0.4, 0.6, 1.3], "b": [0.5, 0.5, 0.6, 0.7]}.items():
            cost = cp.pnorm(x - shift - wish, power)
            model.client(name, cost, [x <= shift + 4, x >= shift - 4])
        model.client("c", cp.std(x))
        result = model.solve()
        assert result.verify()
        assert result.state is not None
        units = result.state.units
        return result.rounds, float(units.lengths @ units.slopes)

    (rounds, energy), (there, then) = run(0.0), run(shift)
    assert there <= 2 * rounds
    assert 0.1 <= then / energy <= 10


# --- where others are, an objective has no end ----------------------------------------------------


@pytest.mark.parametrize("least", [0.1, 0.01, 1e-3, 1e-5, 0.0])
@pytest.mark.parametrize("weight", [1e-3, 1.0, 100.0])
def test_a_pole_where_others_are_makes_no_units(weight: float, least: float) -> None:
    """Along an eigenvector (l - t)^2 + w / l is least where 2 l^3 - 2 t l^2 = w."""
    one = np.array([[0.3], [0.954]]) / math.hypot(0.3, 0.954)
    two = np.array([one[1], -one[0]])
    near, pole = cp.Variable((2, 2), PSD=True), cp.Variable((2, 2), symmetric=True)
    model = dm.Model()
    model.client("near", cp.sum_squares(near - one @ one.T - least * two @ two.T))
    model.client("pole", weight * cp.tr_inv(pole))
    model.consensus(near == pole)
    best = 0.0
    for target in (1.0, least):
        roots = np.roots([2.0, -2.0 * target, 0.0, -weight])
        there = roots[np.abs(roots.imag) < 1e-9].real.max()
        best += (there - target) ** 2 + weight / there
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(best, rel=GAP)
    found = result.certificate()
    assert found.ok
    assert found.bound <= best * (1 + 1e-9)
    # The wrong answer was a thousand times this, and the natural energy 1e9 times
    units = result.measured.units
    assert units.lengths @ units.slopes < 100 * best
