"""One client and a term without a gradient, (62) to (64), against numpy's ISTA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.textbook import (
    Array,
    Loss,
    alone,
    clients,
    dimension,
    follow,
    iterates,
    lipschitz,
    same,
    shrunk,
    smooth,
    total,
)


def _ista(loss: Loss, step: float, prox: Callable[[Array], Array], size: int) -> list[Array]:
    return follow(lambda x, k: prox(x - step * loss.gradient(x)), np.zeros(size))


@smooth
@pytest.mark.parametrize(
    ("rest", "prox"),
    [
        pytest.param(
            lambda x: 0.05 * cp.norm1(x), lambda v, a: shrunk(v, 0.05 * a), id="absolute values"
        ),
        pytest.param(
            lambda x: 0.1 * cp.norm(x),
            lambda v, a: max(0.0, 1 - 0.1 * a / max(np.linalg.norm(v), 1e-300)) * v,
            id="norm",
        ),
        pytest.param(lambda x: 0, lambda v, a: v, id="nothing"),
    ],
)
def test_the_proximal_gradient_method(
    kind: str, rest: Callable[[Any], Any], prox: Callable[[Array, float], Array]
) -> None:
    whole, size = total(clients(kind)), dimension(kind)
    step = 1 / lipschitz(whole, size)
    model, x, z = alone(whole, size, rest)
    by_hand = _ista(whole, step, lambda v: prox(v, step), size)
    seen = iterates(model, dm.ProximalGradient(step), x, z)
    same(seen, [np.tile(v, 2) for v in by_hand])


@smooth
@pytest.mark.parametrize(
    ("rules", "project"),
    [
        pytest.param(lambda x: [x <= 0], lambda v: np.minimum(v, 0), id="signs"),
        pytest.param(lambda x: [x >= -0.05, x <= 0.1], lambda v: np.clip(v, -0.05, 0.1), id="box"),
        pytest.param(
            lambda x: [cp.norm(x) <= 0.2],
            lambda v: v * min(1.0, 0.2 / max(np.linalg.norm(v), 1e-300)),
            id="ball",
        ),
    ],
)
def test_projected_gradients(
    kind: str, rules: Callable[[Any], Any], project: Callable[[Array], Array]
) -> None:
    """Constraints count as the part without a gradient: its prox is the projection."""
    whole, size = total(clients(kind)), dimension(kind)
    step = 1 / lipschitz(whole, size)
    x, z = cp.Variable(size, name="x"), cp.Variable(size, name="z")
    model = dm.Model("one client")
    model.client("all", whole.express(x), rules(x))
    model.consensus(z == x)
    by_hand = _ista(whole, step, project, size)
    same(iterates(model, dm.ProximalGradient(step), z), by_hand)
