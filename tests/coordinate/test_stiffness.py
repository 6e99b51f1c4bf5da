"""How stiff objectives are over a length, against closed forms."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import gmean

import dald_model as dm
from dald_model.compile.affine_maps import Sight
from dald_model.coordinate.scaling.array_units import alike_in_arrays
from dald_model.coordinate.scaling.curvature import curvature
from dald_model.coordinate.scaling.local_minimisers import LocalSearch
from dald_model.coordinate.scaling.stiffness import (
    alike_in_matrices,
    carried,
    kinks_of_bounds,
    probed,
)
from dald_model.engines.dispatch import SolverLayer
from dald_model.models.matrix_completion import completed
from tests.front.couplings import ZOO


def stiffness(objective: cp.Expression, at: float, length: float) -> float:
    """Of an objective of the one variable in it, beside another client."""
    (x,) = objective.variables()
    model = dm.Model()
    model.client("probed", objective)
    model.client("other", cp.square(x - 1))
    sub = model.compile()["probed"]
    return float(probed(sub, np.array([at]), np.array([length]), np.zeros(1))[0][0])


def test_a_quadratic_is_as_stiff_as_its_second_derivative_over_any_length() -> None:
    x = cp.Variable()
    for length in (1e-3, 1.0, 1e3):
        assert stiffness(1.5 * cp.square(x - 2), 2.0, length) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("at", [1e-3, 1e-6, 1e-9])
def test_a_singularity_where_it_begins_does_not_count(at: float) -> None:
    """1 / x falls by 1 from 1/2 to 1; a quadratic that does has 3/8 of its curvature for it."""
    assert stiffness(cp.inv_pos(cp.Variable()), at, 1.0) == pytest.approx(8 / 3, rel=1e-2)


def bounded(x: cp.Variable, cost: cp.Expression, rules: list[Any], own: list[float]) -> np.ndarray:
    """The kinks that bounds make of a client at its minimiser."""
    model = dm.Model()
    model.client("held", cost, rules)
    model.client("other", cp.sum_squares(x - 1))
    sub = model.compile()["held"]
    return kinks_of_bounds(sub, curvature(sub), np.array(own), np.full(len(own), 1e-9))[0]


@pytest.mark.parametrize("h", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("way", [0.5, 3.0])
def test_between_two_bounds_a_client_turns_as_at_a_kink_if_it_hardly_bends(
    h: float, way: float
) -> None:
    x, g = cp.Variable(2), 4.0
    cost = g * cp.sum(x) + h / 2 * cp.sum_squares(x)
    found = bounded(x, cost, [x >= 0, x[0] <= way, x[1] - x[0] <= 2 * way], [0.0, 0.0])
    assert found == pytest.approx([g**2 / (g + h * way), g**2 / (g + 2 * h * way)])
    mirrored = bounded(x, cp.sum(-g * x) + h / 2 * cp.sum_squares(x), [x <= 0, x >= -way], [0, 0])
    assert mirrored == pytest.approx(2 * [g**2 / (g + h * way)])


def test_bounds_that_nothing_ends_or_that_do_not_hold_make_no_kink() -> None:
    x = cp.Variable(2)
    cost = cp.sum(x) + cp.sum_squares(x)
    assert not bounded(x, cost, [x >= 0], [0.0, 0.0]).any()
    assert not bounded(x, cp.sum_squares(x - 1), [x >= 0, x <= 2], [1.0, 1.0]).any()
    # An entropy has no slope there
    assert not bounded(x, -cp.sum(cp.entr(x)) + cost, [x >= 0, x <= 2], [0.0, 0.0]).any()
    # At a bound, where the objective does not slope
    assert not bounded(x, cp.sum_squares(x), [x >= 0, x <= 2], [0.0, 0.0]).any()
    # Of a variable that no other client knows, whose price is nobody's: as power within an area
    y = cp.Variable()
    inner = bounded(x, cp.sum(x) + y, [x >= 0, x <= 1, y >= 0, y <= 1], [0.0, 0.0, 0.0])
    assert inner == pytest.approx([1.0, 1.0, 0.0])


def test_what_rows_of_several_variables_hold_is_not_held_by_bounds() -> None:
    """Of x0 + 2 x1 with x0 + x1 = 1 the row pays 1 for either, and the bound 1 for the second."""
    x = cp.Variable(2)
    cost = x[0] + 2 * x[1] + 0 * cp.sum_squares(x)
    found = bounded(x, cost, [x >= 0, x <= 3, cp.sum(x) == 1], [1.0, 0.0])
    assert found == pytest.approx([0.0, 1.0])


def dispatch(seed: int) -> dm.Model:
    """A day of five plants, of which two cost a little more the more they make."""
    rng, hours, model = np.random.default_rng(seed), np.arange(24), dm.Model("dispatch")
    demand = 100 + 30 * np.sin(hours / 24 * 2 * np.pi) + 3 * rng.normal(size=24)
    made = [cp.Variable(24, name=f"made {k}") for k in range(5)]
    for k, power in enumerate(made):
        price, rise = rng.uniform(5, 40), rng.uniform(0, 0.05) * (k % 2)
        rules = [power >= 0, power <= rng.uniform(30, 60)]
        rules.append(cp.abs(cp.diff(power)) <= rng.uniform(3, 10))
        model.client(f"plant {k}", price * cp.sum(power) + rise * cp.sum_squares(power), rules)
    model.couple(sum(made) == demand, name="balance")
    return model


@pytest.mark.parametrize("seed", [5, 7, 103, 107])
def test_plants_of_little_curvature_agree_in_few_rounds(seed: int) -> None:
    """They stalled, or took more than 600 rounds, in penalties of their curvature alone."""
    model = dispatch(seed)
    result = model.solve(max_rounds=200)
    assert result.status == "optimal"
    assert result.value == pytest.approx(model.monolithic().solve(solver="CLARABEL"), rel=1e-5)


@pytest.mark.parametrize("centre", [1e2, 1e4, 1e6])
def test_one_client_alone_has_a_minimiser(centre: float) -> None:
    """Of (w - c)^2 - w the minimum is at c + 1/2, far from zero."""
    w, model = cp.Variable(name="w"), dm.Model()
    model.client("curved", cp.square(w - centre))
    model.client("straight", -w)
    result = model.solve()
    assert result.status == "optimal"
    assert result["w"] - centre == pytest.approx(0.5, abs=1e-6)


def makers(price: float, count: int = 70) -> dm.Model:
    """Many who make what is sent at costs |g|, a priced want, and who receives it."""
    made, want = cp.Variable(count, name="made"), cp.Variable(name="want", nonneg=True)
    sent = cp.Variable(name="sent")
    model = dm.Model()
    cost = cp.norm1(made) + cp.sum_squares(made) + price * want
    model.client("makers", cost, [cp.sum(made) == sent + 1 - want])
    model.client("other", cp.square(sent - 3))
    return model


@pytest.mark.parametrize("price", [1e1, 1e3, 1e5])
def test_variables_are_probed_by_themselves_where_rows_carry_their_costs(price: float) -> None:
    """|g| + g^2 rises by L + L^2 over L: that is as stiff as 2 + 2 / L. In means all are alike."""
    sub = makers(price).compile()["makers"]
    length = 0.5
    found = probed(sub, np.zeros(sub.size), np.full(sub.size, length), np.zeros(sub.size))[0]
    made, want, sent = sub.spread(found).values()
    assert made == pytest.approx(2 + 2 / length)
    assert want == pytest.approx(2 * price / length)
    assert sent == 0


@pytest.mark.parametrize("costs", [[1.0], [2.0, 3.0], [0.5, 1.0, 4.0]])
def test_what_is_sent_is_as_stiff_as_all_who_make_it_together(costs):
    """Of sum c g^2 with sum g = s + 1 the least is (s + 1)^2 / sum(1 / c)."""
    made, sent, other = cp.Variable(len(costs)), cp.Variable(), cp.Variable()
    model = dm.Model()
    model.client("a", cp.sum(cp.multiply(costs, cp.square(made))), [cp.sum(made) == sent + 1])
    model.client("b", cp.square(other))
    model.consensus(sent == other)
    sub = model.compile()["a"]
    found = sub.spread(carried(sub, np.diag(sub.form.quadratic.full)))
    assert found[sent.id] == pytest.approx(2 / np.sum(1 / np.array(costs)))


def test_a_power_flow_takes_few_rounds():
    """50 rounds where the flows between areas had the curvature of angles."""
    case = ZOO["power_flow"]()
    result = case.model.solve()
    best = case.model.monolithic().solve(solver="CLARABEL")
    assert result.status == "optimal"
    assert result.value == pytest.approx(best, rel=1e-6)
    assert result.rounds <= 20


def test_prices_of_wants_say_nothing_of_flows_of_many_hours():
    """Three plants an area, ramps, unserved demand at a price: 112 rounds where that counted."""
    rng, hours, model = np.random.default_rng(0), 16, dm.Model("dispatch")
    flows = [cp.Variable(hours) for _ in range(5)]
    for at, out in enumerate(flows):
        made, unserved = cp.Variable((3, hours), nonneg=True), cp.Variable(hours, nonneg=True)
        demand = 5 + 3 * np.sin(np.arange(hours) / 4 + rng.uniform(0, 6)) + rng.uniform(0, 1, hours)
        costs, slopes = rng.uniform(0.1, 1, (3, 1)), rng.uniform(1, 5, 3)
        model.client(
            at,
            cp.sum(cp.multiply(costs, cp.square(made)))
            + cp.sum(slopes @ made)
            + 200 * cp.sum(unserved),
            [
                cp.sum(made, axis=0) + unserved + flows[at - 1] - out == demand,
                cp.abs(cp.diff(made, axis=1)) <= 1.5,
                made <= 4,
                cp.abs(out) <= 2,
            ],
        )
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(model.monolithic().solve(solver="CLARABEL"), rel=1e-6)
    assert result.rounds <= 50


@pytest.mark.parametrize(
    ("row", "curvatures", "found"),
    [
        ([1.0, 0.0], [3.0, 5.0], 3.0),  # the side is the variable
        ([2.0, 0.0], [3.0, 5.0], 3.0 / 4),  # it moves half as far as the side
        ([1.0, 1.0], [4.0, 4.0], 2.0),  # both move by half
        ([1.0, 10.0], [3.0, 0.0], 3.0),  # what is free says nothing of the size
        ([1.0, 10.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [3.0, 5.0], 0.0),  # a constant side
    ],
)
def test_a_side_is_as_stiff_as_what_moves_with_it(
    row: list[float], curvatures: list[float], found: float
) -> None:
    sight = Sight(sp.csr_array(np.array([row])))
    assert sight.curvatures(np.array(curvatures)) == pytest.approx([found])


@pytest.mark.parametrize("seed", [0, 1, 8, 9])
def test_a_fall_of_rounding_is_none(seed: int) -> None:
    """Areas that import all they use for nothing: minimisers cost nothing but for rounding."""
    rng, model, count = np.random.default_rng(seed), dm.Model("areas"), 12
    D = np.diff(np.eye(count), axis=0)
    angles = [cp.Variable(count, name=f"angles{i}") for i in range(2)]
    for i, angle in enumerate(angles):
        made, use = cp.Variable(4, name=f"made{i}"), rng.uniform(1.0, 3.0, count)
        flows = cp.multiply(rng.uniform(3.0, 40.0, count - 1), D @ angle)
        balance = [(D.T @ flows)[k] == (made[k] if k < 4 else 0.0) - use[k] for k in range(9)]
        cost = 1e3 * rng.uniform(1.0, 4.0, 4) @ made + 1e2 * cp.sum_squares(made)
        model.client(i, cost, [*balance, cp.abs(flows) <= 90.0, made >= 0, made <= 9])
    model.consensus(angles[0][9:] == angles[1][9:])
    compiled = model.compile()
    search = LocalSearch(compiled, SolverLayer(compiled, None))
    search.of_all()
    for i in range(2):
        form = compiled[i].form
        assert form is not None
        at = search.of(i).point
        np.testing.assert_allclose(form.equalities.matrix @ at, form.equalities.rhs, atol=1e-6)


def test_entries_of_a_matrix_have_one_length_in_its_units() -> None:
    X, y, units = cp.Variable((3, 2)), cp.Variable(2), np.array([1.0, 10.0, 0.1])
    model = dm.Model()
    model.client("rank", 2 * cp.normNuc(np.diag(units) @ X) + cp.norm1(y))
    model.client("other", cp.sum_squares(X - 1) + cp.sum_squares(y))
    lengths = np.array([3.0, 0.01, 1.0, 0.2, 0.5, 1.0, 0.7, 1e-3])
    found = alike_in_matrices(model.compile()["rank"], lengths)
    np.testing.assert_allclose(found[:6] * np.tile(units, 2), 5.0)  # of entry (1, 1)
    np.testing.assert_array_equal(found[6:], lengths[6:])


@pytest.mark.parametrize("outlier", [False, True])
def test_a_small_rating_is_no_stiff_one(outlier: bool) -> None:
    """Completion in any unit, where ratings are near zero by chance: 26 to 56 rounds if it is."""
    rng = np.random.default_rng(2)
    ratings = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 6))
    if outlier:
        ratings[0, 0] = 60.0
    known = rng.random((9, 6)) < 0.7
    at, before = np.zeros((9, 6)), np.ones((9, 6))
    while np.abs(at - before).max() > 1e-12:  # proximal gradient steps of length one
        left, sizes, right = np.linalg.svd(np.where(known, ratings, at), full_matrices=False)
        before, at = at, left * np.maximum(sizes - 1, 0) @ right
    value = np.sum((at - ratings)[known] ** 2) / 2 + np.linalg.svd(at, compute_uv=False).sum()
    for unit in (1e-4, 1.0, 1e4):
        result = completed(np.where(known, unit * ratings, np.nan), weight=unit).solve()
        assert result.status == "optimal"
        assert result.rounds <= 22
        assert result.value == pytest.approx(unit**2 * value, rel=1e-6)


def stages(units: np.ndarray) -> dm.Model:
    """Stages that steer a state from one point to another; states cost nothing but their way."""
    draw, model, size = np.random.default_rng(1), dm.Model("stages"), units.size
    step, push = np.eye(size) + 0.3 * draw.normal(size=(size, size)), draw.normal(size=(size, size))
    step, push = units[:, None] * step / units, units[:, None] * push
    state = [cp.Variable(size, name=f"x{t}") for t in range(9)]
    for t in range(8):
        control = cp.Variable(size, name=f"u{t}")
        rules = [state[t + 1] == step @ state[t] + push @ control, cp.abs(control) <= 1.5]
        rules += [state[0] == units * draw.normal(size=size)] if t == 0 else []
        rules += [state[8] == units * 0.3 * draw.normal(size=size)] if t == 7 else []
        model.client(t, cp.sum_squares(control), rules)
    return model


@pytest.mark.parametrize("unit", [1e-3, 10.0, 1e3])
def test_an_array_may_have_several_units(unit: float) -> None:
    plain, mixed = stages(np.ones(3)).solve(), stages(np.array([1.0, unit, unit])).solve()
    assert mixed.value == pytest.approx(plain.value, rel=1e-5)
    assert mixed.rounds <= plain.rounds + 2
    assert mixed.verify().ok


def grid(seed: int, areas: int = 4, buses: int = 40) -> dm.Model:
    """A ring with chords under direct current: what angles cost is told by their balances alone."""
    draw, model = np.random.default_rng(seed), dm.Model("grid")
    lines = [(i, (i + 1) % buses) for i in range(buses)]
    lines += [tuple(draw.choice(buses, 2, replace=False)) for _ in range(buses // 2)]
    area, stiff = np.arange(buses) * areas // buses, draw.uniform(5, 50, len(lines))
    load, made = draw.uniform(0.2, 1.5, buses), draw.choice(buses, buses // 3, replace=False)
    angles: dict[tuple[int, int], Any] = {}
    for a in range(areas):
        near = [k for k, ends in enumerate(lines) if a in area[list(ends)]]
        mine = np.flatnonzero(area == a).tolist()
        beyond = sorted({b for k in near for b in lines[k] if area[b] != a})
        angle = cp.Variable(len(mine) + len(beyond), name=f"angle{a}")
        own = {bus: angle[at] for at, bus in enumerate([*mine, *beyond])}
        angles |= {(a, bus): x for bus, x in own.items()}
        plants = [b for b in mine if b in made] or mine[:1]
        power = cp.Variable(len(plants), name=f"p{a}", nonneg=True)
        flow = {k: stiff[k] * (own[lines[k][0]] - own[lines[k][1]]) for k in near}
        rules = [cp.abs(one) <= 8 for one in flow.values()] + [power <= 9 * load.mean()]
        for b in mine:
            out = sum((flow[k] if lines[k][0] == b else -flow[k]) for k in near if b in lines[k])
            rules.append(out == (power[plants.index(b)] if b in plants else 0) - load[b])
        rules += [angle[0] == 0] if a == 0 else []
        prices = draw.uniform(1, 9, len(plants))
        model.client(a, draw.uniform(0.5, 3) * cp.sum_squares(power) + prices @ power, rules)
    shared = [(a, b) for a, b in angles if area[b] != a]
    model.consensus(*(angles[a, b] == angles[int(area[b]), b] for a, b in shared))
    return model


def test_an_array_has_the_geometric_mean_of_its_penalties_or_of_its_energies() -> None:
    """Of who is asked; the others, and what is in several units but for these, stay as they are."""
    compiled = grid(0).compile()
    draw, size = np.random.default_rng(2), compiled.size
    given, units = draw.lognormal(size=size), 10.0 ** draw.uniform(-3, 3, size)
    is_asked = np.arange(size) % 3 > 0
    plain = alike_in_arrays(compiled, given, np.ones(size), is_asked)
    assert plain[is_asked] == pytest.approx(gmean(given[is_asked]))
    assert (plain[~is_asked] == given[~is_asked]).all()
    mixed = alike_in_arrays(compiled, given / units**2, units, is_asked)
    assert mixed * units**2 == pytest.approx(plain)


@pytest.mark.parametrize("seed", range(4))
def test_angles_of_a_grid_have_penalties_of_one_size(seed: int) -> None:
    """What balances carry to one angle while all others stand differs 8 to 29 times.

    Lengths are rounded to powers of two, and so penalties may differ by these.
    """
    model = grid(seed)
    penalties = dm.ResidualBalancing().init(model.compile())
    powers = np.log2(penalties / penalties.min())
    assert powers == pytest.approx(np.round(powers), abs=1e-9)
    assert powers.max() <= 2 + 1e-9
    result = model.solve()
    assert result.status == "optimal"
    assert result.verify().ok
