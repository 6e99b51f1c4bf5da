"""Curvature that equality rows carry, against stiffnesses in closed form."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.scaling.stiffness import carried
from tests.front.couplings import ZOO


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
