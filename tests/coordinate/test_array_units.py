"""Penalties of entries that rows alone make costly: those of one array are of one size."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.stats import gmean

import dald_model as dm
from dald_model.coordinate.scaling.array_units import alike_in_arrays


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
