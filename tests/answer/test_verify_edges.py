"""Right results where a verification used to fail or to raise, and wrong ones that it let pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.indicator import indicator

import dald_model as dm
from dald_model.answer import reference
from dald_model.answer.rescaling import Measure, Solved, minimise
from tests.expect import says


def _two(one: Callable[[cp.Variable], cp.Expression], other: Callable, size: int = 3) -> dm.Model:
    x = cp.Variable(size, name="x")
    model = dm.Model()
    model.client("a", one(x))
    model.client("b", other(x))
    return model


def test_an_optimum_at_the_edge_of_the_domain_of_an_atom() -> None:
    """x^1.5 has no value at -1e-9, where a solver's zero may be; F = 2 at zero."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("a", cp.sum(cp.power(x[0], 1.5)) + cp.sum(x[0]))
    model.client("b", cp.sum_squares(x[1] + 1))
    model.consensus(x[0] == x[1])
    check = model.solve().verify()
    assert check.ok, str(check)
    assert check.aio_value == pytest.approx(2.0, abs=1e-4)


def test_everybody_at_the_edge_of_a_sign() -> None:
    x = cp.Variable(2, pos=True, name="x")
    model = dm.Model()
    model.client("a", cp.sum(cp.power(x, 1.5)) + cp.sum(x))
    model.client("b", cp.sum_squares(x + 1))
    check = model.solve().verify()
    assert check.ok, str(check)


ATOMS: dict[str, Callable] = {
    "cvar": lambda x: cp.cvar(x, 0.6),
    "sum_largest": lambda x: cp.sum_largest(x, 3),
}


@pytest.mark.parametrize("atom", ATOMS)
def test_an_atom_that_cvxpy_canonicalises_wrongly_where_values_are_set(atom: str) -> None:
    result = _two(ATOMS[atom], lambda x: cp.sum_squares(x - 1)).solve()
    assert result.verify().ok
    assert result.verify().ok, "also when asked again"


def test_a_constraint_on_nothing() -> None:
    x = cp.Variable(3, name="x")
    model = dm.Model()
    model.client("a", cp.sum_squares(x), [np.zeros((0, 3)) @ x <= np.zeros(0)])
    model.client("b", cp.sum_squares(x - 1))
    assert model.solve().verify().ok


def test_a_violation_that_is_not_a_number_fails() -> None:
    """(-1, 1) is outside of the domain of the geometric mean, by one; and x <= 5 holds."""
    x = cp.Variable(2, name="x")
    model, goal = dm.Model(), cp.sum_squares(x - np.array([-1.0, 1.0]))
    model.client("a", goal, [cp.geo_mean(x) >= -1, x <= 5])
    model.client("b", goal)
    result = model.solve()
    for found in (result.recovered.values, *result.recovered.at_clients.values()):
        for key in found:
            found[key] = np.array([-1.0, 1.0])
    row = result.verify()["constraint violation"]
    assert not row.ok
    says(row.where, "geo_mean")


def test_noise_in_the_price_of_a_bound_that_is_far_away() -> None:
    x = cp.Variable(3, name="x")
    model = dm.Model()
    rules = [x <= 1e6, x >= -1e6]
    model.client("a", cp.norm(x, 2) + cp.sum(cp.exp(x)), rules)
    model.client("b", cp.sum_squares(x - 1))
    result = model.solve()
    assert result.verify().ok, str(result.verify())


def test_an_all_in_one_solution_that_its_solver_ended_early() -> None:
    """Variables of size 1e6: the optimum is that of ordinary units."""
    generator = np.random.default_rng(0)
    data = [(generator.normal(size=(8, 3)), generator.normal(size=8)) for _ in range(3)]

    def made(unit: float) -> dm.Model:
        x = [cp.Variable(3, name=f"x{i}") for i in range(3)]
        model = dm.Model()
        for i, (A, b) in enumerate(data):
            model.client(i, cp.sum_squares(A / unit @ x[i] - b), [x[i] <= 0.1 * unit])
        model.consensus(x[0] == x[1], x[1] == x[2])
        return model

    known = made(1.0).monolithic().solve(solver="CLARABEL")
    assert made(1e6).solve().verify().aio_value == pytest.approx(known, rel=1e-6)


def rough(monkeypatch: pytest.MonkeyPatch, by: float, status: str) -> None:
    """Clarabel's all-in-one solutions are off by so much in every entry, and called so."""

    def early(*given: Any, **named: Any) -> Solved:
        found = minimise(*given, **named)
        if not any(isinstance(one, str) and one == "CLARABEL" for one in (*given, *named.values())):
            return found
        values = {key: value + by for key, value in found.values.items()}
        return found._replace(status=status, values=values)

    monkeypatch.setattr(reference, "minimise", early)


def test_an_all_in_one_solution_that_is_low_for_the_budget_it_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five clients (x_i - i)^2 share 5: x_i = i - 1, F = 5; a point 1e-4 over it has 4.999."""
    x = [cp.Variable(name=f"x{i}") for i in range(5)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.square(v - i))
    model.couple(sum(x) <= 5)
    result = model.solve()
    rough(monkeypatch, 1e-4, "optimal_inaccurate")
    check = result.verify()
    assert check.ok, str(check)
    assert check.aio_value < 5.0 - 9e-4, "what it breaks is charged at its price, 2"


@pytest.mark.parametrize(("count", "is_bent"), [(50, False), (10, True)])
def test_a_budget_that_costs_nobody_anything(count: int, is_bent: bool) -> None:
    """All have what they want, so there are no regrets but what solvers leave of zero."""
    rng = np.random.default_rng(count + is_bent)
    wanted, price = 1 + 10 * rng.normal(size=(count, 3)), rng.uniform(0.5, 2, size=(count, 3))
    bent = 10.0 ** rng.uniform(-1, 1, size=(count, 3)) if is_bent else np.ones((count, 3))
    model, x = dm.Model(), [cp.Variable(3, name=f"x{i}") for i in range(count)]
    for i, v in enumerate(x):
        cost = cp.sum(cp.multiply(bent[i], cp.square(v - wanted[i])))
        model.client(i, cost, [v <= 1.5])
    model.couple(sum(p @ v for p, v in zip(price, x, strict=True)) <= 0.4 * count)
    result = model.solve()
    assert (price * np.minimum(wanted, 1.5)).sum() < 0.4 * count
    assert result.value == pytest.approx((bent * np.maximum(wanted - 1.5, 0) ** 2).sum(), rel=1e-9)
    assert result.verify().ok, str(result.verify())


@pytest.mark.parametrize("seed", [10, 14, 46])
def test_prices_are_right_where_the_all_in_one_solution_has_three_digits(seed: int) -> None:
    """Clients e^z - z / e^c with z = (x - c) / 100 that all want c: F is flat, prices are zero."""
    rng = np.random.default_rng(seed)
    count, size = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.integers(-4, 5)
    wanted = 10.0 ** rng.integers(-2, 3) * rng.normal(size=size)
    model, x = dm.Model(), [cp.Variable(size, name=f"x{i}") for i in range(count)]
    for i, v in enumerate(x):
        cost = cp.sum(cp.exp(v / 100 - wanted / 100)) - cp.sum(v) / 100
        model.client(i, scale * cost)
    model.consensus(*[x[i] == x[i + 1] for i in range(count - 1)])
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(scale * count * (size - wanted.sum() / 100), rel=1e-9)
    assert result.verify().ok, str(result.verify())


def test_a_parameter_that_has_changed_since_is_named() -> None:
    x, target = cp.Variable(2, name="x"), cp.Parameter(name="target", value=2.0)
    model = dm.Model()
    model.client("a", cp.sum_squares(x - target))
    model.client("b", cp.sum_squares(x))
    result = model.solve()
    assert result.verify().note == ""
    target.value = 4.0
    check = result.verify()
    assert check.ok, "of the problem that was solved"
    says(check.note, "'target' has another value by now than at the time of the solve")
    assert target.value == 4.0


def test_the_value_keeps_its_digits() -> None:
    """Of the user's expressions at the clients' own variables: squares of 1e-4, not 1 - 2 + 1."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.square(1e6 * x[i] - 1e6))
    model.consensus(x[0] == x[1])
    result = model.solve(max_rounds=2)
    own = [float(result[i][x[i]]) for i in range(2)]
    assert result.value == sum((1e6 * value - 1e6) ** 2 for value in own)


def test_a_constraint_in_which_the_variables_cancel_is_broken_by_rounding_only() -> None:
    x = cp.Variable(4, name="x")
    candidates = np.random.default_rng(0).uniform(0, 1, (50, 4))
    sums = np.hstack([candidates, 1 - candidates]).sum(axis=1)
    target = candidates[np.flatnonzero(sums != 4.0)[0]]
    model = dm.Model()
    rule = cp.Zero(cp.sum(cp.hstack([x, 1 - x])) - 4)
    model.client("a", cp.sum_squares(x - target), [rule])
    model.client("b", cp.sum_squares(x - target))
    result = model.solve()
    for found in (result.recovered.values, *result.recovered.at_clients.values()):
        for key in found:
            found[key] = target
    assert result.verify()["constraint violation"].ok, str(result.verify())


@pytest.mark.parametrize("seed", [0, 3, 6, 9])
def test_both_sides_of_a_limit_are_zero_up_to_rounding(seed: int) -> None:
    """Lasso by limits abs(x) <= t: where x is 1e-50 and t is -1e-60, nothing is broken."""
    rng = np.random.default_rng(seed)
    model, x = dm.Model(), [cp.Variable(6) for _ in range(3)]
    limits = [cp.Variable(6) for _ in range(3)]
    for i, (w, t) in enumerate(zip(x, limits, strict=True)):
        A = rng.normal(size=(12, 6))
        b = A @ (rng.normal(size=6) * (rng.random(6) < 0.4)) + 0.1 * rng.normal(size=12)
        model.client(i, cp.sum_squares(A @ w - b) + 3 * cp.sum(t), [cp.abs(w) <= t])
    model.consensus(x[0] == x[1], x[1] == x[2])
    result = model.solve()
    assert result.verify().ok, str(result.verify())
    values = result.recovered.values
    values[limits[0].id] = values[limits[0].id] - 1e-3
    assert not result.verify()["constraint violation"].ok


def test_a_bounded_variable_is_measured_from_where_it_is() -> None:
    """One of size 5e8 that moves by 1e6."""
    unit, origin = 6.3e5, 794.0
    y = cp.Variable(2, bounds=[unit * (origin - 2), unit * (origin + 2)])
    t = y / unit - origin
    around = {y.id: Measure(np.full(2, unit * origin), np.full(2, unit))}
    costs: list[Any] = [cp.sum(cp.square(t - 1 / 3)), cp.sum(t)]
    for cost, wanted in zip(costs, (1 / 3, -2.0), strict=True):
        found = minimise(cost, [], around)
        assert found.status == "optimal"
        np.testing.assert_allclose(found.values[y.id] / unit - origin, wanted, atol=1e-8)


def test_a_constraint_on_an_indicator_is_compared() -> None:
    """Whose arguments are no expressions with values."""
    x = cp.Variable(2, name="x")
    model = dm.Model()
    held = indicator([x <= 0.5])
    model.client("a", cp.sum_squares(x - 1), [held <= 0.59])
    model.client("b", cp.sum_squares(x - 1))
    check = model.solve().verify()
    assert check.ok, str(check)
    assert check.aio_value == pytest.approx(1.0, abs=1e-6)


def agreed_at_zero(unit: float) -> tuple[dm.Result, list[cp.Variable]]:
    """Norms of y = unit x, all least at zero: nothing that solvers find there is a scale."""
    x = [cp.Variable((2, 3), nonneg=True, name=f"x{i}") for i in range(2)]
    z = [v / unit for v in x]
    model = dm.Model()
    model.client("a", cp.normNuc(z[0]), [z[0] <= 3.4])
    model.client("b", 0.76 * cp.norm(z[1], 2), [cp.exp(cp.sum(z[1])) <= 4])
    model.consensus(x[0] == x[1])
    return model.solve(), x


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_all_want_zero_and_a_thousandth_beside_it_is_seen(unit: float) -> None:
    result, x = agreed_at_zero(unit)
    assert abs(result.value) < 1e-5
    assert result.verify().ok, str(result.verify())
    recovered = result.recovered
    off = unit * 1e-3 * np.ones((2, 3))
    values = {v.id: np.asarray(result.recovered.values[v.id]) + off for v in x}
    held = {name: {x[i].id: values[x[i].id]} for i, name in enumerate("ab")}
    moved = replace(
        result,
        recovered=replace(recovered, values=recovered.values | values, at_clients=held),
    )
    assert not moved.verify()["objective gap"].ok
    one = recovered.at_clients | {"a": held["a"]}
    apart = replace(result, recovered=replace(recovered, at_clients=one))
    assert not apart.verify()["consensus violation"].ok


def test_a_bound_of_a_trace_of_an_inverse_has_a_reach() -> None:
    """It is infinite at any matrix that is not symmetric."""
    x = [cp.Variable((2, 2), PSD=True, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("a", cp.sum_squares(x[0] - 0.1 * np.eye(2)), [cp.tr_inv(x[0]) <= 1.0])
    model.client("b", cp.sum_squares(x[1]))
    model.consensus(x[0] == x[1])
    result = model.solve()
    # Of tr X^-1 <= 1 the nearest multiple of the identity to zero is 2 I
    assert np.asarray(result["a"][x[0]]) == pytest.approx(2 * np.eye(2), abs=1e-5)
    assert result.verify().ok, str(result.verify())


@pytest.mark.parametrize(("skew", "wrong", "is_ok"), [(1e4, 0.0, True), (1e4, 1e-2, False)])
def test_a_skew_part_of_prices_hides_no_error(skew: float, wrong: float, is_ok: bool) -> None:
    """Symmetric matrices do not feel it, and it is no size that an error is small beside."""
    C = np.array([[1.0, 0.3], [0.3, -2.0]])
    x = [cp.Variable((2, 2), symmetric=True, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("a", cp.sum_squares(x[0] - C))
    model.client("b", cp.sum_squares(x[1] + C) + 0.1 * cp.lambda_max(x[1]))
    model.consensus(x[0] == x[1])
    result = model.solve()
    edge = result.compiled.edges[0]
    added = np.array([0.0, skew + wrong, -skew + wrong, 0.0])
    mu = result.multipliers[edge.ends] + added
    (part,) = edge.parts
    rule = part.agreement.constraint
    dual = (part.sign * mu).reshape((2, 2), order="F")
    assert rule is not None
    given = replace(
        result,
        multipliers=result.multipliers | {edge.ends: mu},
        recovered=replace(result.recovered, duals=result.recovered.duals | {rule.id: (dual,)}),
    )
    assert given.verify()["multipliers"].ok == is_ok


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
def test_utilities_that_grow_for_ever_make_no_endless_scale(unit: float) -> None:
    """Nobody has an own answer, but a solver ends at 1e13, beside which every error is nothing."""
    weights = 1.0 + np.arange(4)
    x = [cp.Variable(nonneg=True, name=f"flow{i}") for i in range(4)]
    model = dm.Model()
    for i, weight in enumerate(weights):
        model.client(f"user {i}", cp.Maximize(weight * cp.log(x[i] / unit + 0.1)))
    model.couple(cp.sum(cp.hstack(x)) <= 2 * unit, name="link")
    result = model.solve()
    best = 2.4 * weights / weights.sum() - 0.1  # w / (x + 0.1) is the price of all
    recovered = result.recovered
    found = np.array([float(recovered.values[v.id]) for v in x])
    assert found / unit == pytest.approx(best, abs=1e-5)
    assert result.verify().ok, str(result.verify())
    for i in range(4):
        off = {x[i].id: np.asarray(found[i] + 1e-3 * best[i] * unit)}
        wrong = replace(result, recovered=replace(recovered, values=recovered.values | off))
        assert not wrong.verify().ok


@pytest.mark.parametrize("seed", [20, 24])
def test_a_market_of_which_most_buy_nothing_of_most_goods(seed: int) -> None:
    """What a solver leaves of nothing is no scale, nor is where it ends in a half-space.

    Source of the model: E. Eisenberg and D. Gale, Consensus of subjective probabilities, 1959: all
    budgets are spent at its prices.
    """
    rng, buyers, goods = np.random.default_rng(seed), 8 + seed % 7, 3 + seed % 5
    supply, used, budgets = 10 ** rng.uniform(3, 6, goods), [], []
    model = dm.Model("market")
    for i in range(buyers):
        x = cp.Variable(goods, name=f"bought{i}", nonneg=True)
        worth = rng.uniform(0, 1, goods) / supply * (rng.random(goods) < 0.7) * 1e4
        worth[i % goods] += 1e4 / supply[i % goods]
        budgets.append(10 ** rng.uniform(2, 5))
        model.client(f"buyer {i}", cp.Maximize(budgets[-1] * cp.log(worth @ x)))
        used.append(x)
    model.couple(market := sum(used[1:], used[0]) <= supply, name="goods")
    result = model.solve()
    assert market.dual_value @ supply == pytest.approx(sum(budgets), rel=1e-5)
    assert result.verify().ok, str(result.verify())
    recovered, most = result.recovered, used[int(np.argmax(budgets))]
    at = np.asarray(recovered.values[most.id])
    off = {most.id: at * np.where(at == at.max(), 1.01, 1.0)}
    wrong = replace(result, recovered=replace(recovered, values=recovered.values | off))
    assert not wrong.verify().ok


def off(result: dm.Result, moved: dict[cp.Variable, Any]) -> dm.Result:
    """The same with other values, also at the clients, which are peers."""
    recovered = result.recovered
    values = dict(recovered.values) | {v.id: np.asarray(value) for v, value in moved.items()}
    own = {
        name: {key: values[key] for key in found} for name, found in recovered.at_clients.items()
    }
    return replace(result, recovered=replace(recovered, values=values, at_clients=own))


@pytest.mark.parametrize(
    ("most", "share", "is_ok"),
    [(25, 1.0, True), (2, 1.0, True), (2, 0.3, False), (2, 0.97, False)],
)
def test_a_divergence_is_broken_by_far_less_than_values_are_known_to(
    most: float, share: float, is_ok: bool
) -> None:
    """kl_div(y, z) = y log(y / z) - y + z is about 25 at z = y exp(-1 - 25 / y), here 1e-22.

    Where 2 is the most, z is 0.0034, and three hundredths of it are seen.
    """
    y, z, w = (cp.Variable(name=name) for name in "yzw")
    model = dm.Model()
    model.client("a", z + cp.square(y - 1), [cp.kl_div(y, z) <= most])
    model.client("b", cp.square(w))
    model.consensus(y == w)
    result = model.solve()
    assert result.verify().ok
    moved = {y: 0.5, w: 0.5, z: share * 0.5 * np.exp(-1 - (most - 0.01) / 0.5)}
    check = off(result, moved).verify()["constraint violation"]
    assert check.ok == is_ok, str(check)


def test_a_consensus_whose_parameter_is_zero_ties_its_other_side_to_zero() -> None:
    """With x of 1 and y of 0 it is 2 (0 - 2)^2 = 8. It stalled, by a length in units of zero."""
    weight = cp.Parameter(value=0.0)
    model, x, y = dm.Model("zero"), cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model.client("a", cp.sum_squares(x - 1))
    model.client("b", cp.sum_squares(y - 2))
    model.consensus(weight * x == y)
    result = model.solve()
    assert (result.status, result.value) == ("optimal", pytest.approx(8.0, rel=1e-6))
    assert result.verify().ok


def test_where_nobody_pays_a_certificate_says_what_gaps_are_measured_by() -> None:
    """All want 3: the clients pay nothing, which is no measure of a gap."""
    model, w = dm.Model("agreed"), cp.Variable(name="w")
    for i in range(3):
        model.client(i, cp.square(w - 3) + 1)
    said = str(model.solve().certificate())
    assert "measure of gaps" in said
    assert "what is not seen of F, over 1e-4; the clients pay" in said
    assert "cost of consensus" not in said
