"""The smooth parts of clients, against numpy and the values of cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from dald_model.solvers.arrays.smooth import Smooth
from dald_model.values import number
from tests.solvers.known import (
    Known,
    everything,
    logistic,
    make_sub,
    orders,
    quartic,
)

EXACT = 1e-12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.slow
@pytest.mark.parametrize("foreign", [False, True])
def test_smooth_parts_are_those_of_numpy_for_any_clients_in_any_order(
    rng: np.random.Generator, foreign: bool
):
    known = [*everything(rng), *([quartic()] if foreign else [])]
    smooth = Smooth([one.sub for one in known])
    for which in orders(len(known), rng):
        points = [rng.normal(size=known[at].size) for at in which]
        flat = np.concatenate(points)
        pairs = [(known[at], x) for at, x in zip(which, points, strict=True)]
        values = [one.value(x) for one, x in pairs]
        assert smooth.objectives(which, flat) == pytest.approx(np.array(values), rel=EXACT)
        gradients = np.concatenate([one.gradient(x) for one, x in pairs])
        assert smooth.gradients(which, flat) == pytest.approx(gradients, abs=EXACT * 100)
        solid = np.array([at for at in which if known[at].hessian])
        if solid.size == which.size:
            hessians = smooth.hessians(which, flat)
            for (one, x), found in zip(pairs, hessians, strict=True):
                assert one.hessian
                assert found == pytest.approx(one.hessian(x), abs=EXACT * 100)


def test_gradients_and_hessians_are_finite_differences_of_cvxpys_values(rng: np.random.Generator):
    known = everything(rng)
    smooth = Smooth([one.sub for one in known])
    for at, one in enumerate(known):
        x, which = rng.normal(size=one.size), np.array([at])

        def value(y: np.ndarray, one: Known = one) -> float:
            for v in one.sub.variables:
                v.value = one.sub.spread(y)[v.id]
            return number(one.sub.client.cost.value)

        direction = rng.normal(size=one.size)
        near, far = (value(x + h * direction) - value(x - h * direction) for h in (1e-5, 1e-6))
        slope = smooth.gradients(which, x) @ direction
        assert slope == pytest.approx(near / 2e-5, rel=1e-6, abs=1e-7)
        assert slope == pytest.approx(far / 2e-6, rel=1e-5, abs=1e-6)
        ahead, behind = (smooth.gradients(which, x + h * direction) for h in (1e-5, -1e-5))
        turned = smooth.hessians(which, x)[0] @ direction
        assert turned == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-6)


@pytest.mark.slow
def test_many_shapes_of_few_entries_share_a_matrix(rng: np.random.Generator):
    known = [logistic(rng, rows, size) for rows in range(2, 6) for size in range(2, 6)]
    smooth = Smooth([one.sub for one in known])
    # Not a group for each of the shapes
    assert len(smooth._groups) == 1
    points = [rng.normal(size=one.size) for one in known]
    found = smooth.gradients(np.arange(len(known)), np.concatenate(points))
    wanted = [one.gradient(x) for one, x in zip(known, points, strict=True)]
    assert found == pytest.approx(np.concatenate(wanted), abs=EXACT)


def test_objectives_are_those_of_cvxpy_with_terms_that_have_no_gradient(rng: np.random.Generator):
    x, y, z = cp.Variable(4), cp.Variable(3), cp.Variable(300)
    B = rng.normal(size=(2, 4))
    costs = [
        cp.norm1(B @ x - 1) + cp.sum_squares(x) + 2,
        cp.norm(y) + 2 * cp.norm(y[:2] - 1) + cp.sum(cp.logistic(y)),
        0.1 * cp.norm1(z) + cp.sum_squares(z[:3]),
        cp.norm1(z - 2),
    ]
    subs = [make_sub(cost) for cost in costs]
    smooth = Smooth(subs)
    for which in (np.arange(4), np.array([3, 1]), np.array([2])):
        points = [rng.normal(size=subs[at].size) for at in which]
        found = smooth.objectives(which, np.concatenate(points))
        for at, point, value in zip(which, points, found, strict=True):
            subs[at].variables[0].value = point
            assert value == pytest.approx(costs[at].value, rel=EXACT)
