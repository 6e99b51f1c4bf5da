"""Objectives of many clients at once, from their affine pieces, against cvxpy's own."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.lowered import values


def test_many_clients_have_their_own_values() -> None:
    """Data, numbers and rows of their own; quadratics of a full matrix, kinks, and constraints."""
    rng = np.random.default_rng(0)
    x, weight, shift = cp.Variable(3), cp.Parameter(nonneg=True), cp.Parameter(3)
    weight.value, shift.value = 0.7, rng.normal(size=3)
    P = rng.normal(size=(3, 3))
    costs, rules = [], {}
    for at in range(9):
        A, b = rng.normal(size=(4 + at % 2, 3)), rng.normal(size=4 + at % 2)
        r = A @ (x - shift) - b
        costs += [
            cp.sum_squares(r) + weight * cp.norm1(x) + 2,
            (1 + at) * cp.sum_squares(x - shift) + b[:3] @ x,
            cp.sum(cp.huber(r)) + weight * cp.quad_form(x, P @ P.T),
        ]
        rules[len(costs) - 1] = [x >= -9, cp.sum(x) == 1]
    costs.append(cp.norm(x) + cp.lambda_max(cp.diag(x)))  # of which cvxpy alone knows the value
    model = dm.Model()
    for at, cost in enumerate(costs):
        model.client(at, cost, rules.get(at, []))
    compiled = model.compile()
    clients = [compiled[at].lowered for at in range(len(costs))]
    for _ in range(2):
        points = rng.normal(size=(len(costs), 3))
        found = values(clients, list(points))
        for cost, value, point in zip(costs[:-1], found, points, strict=False):
            x.value = point
            assert value == pytest.approx(cost.value, rel=1e-12)
        assert math.isnan(found[-1])
        weight.value, shift.value = 1.3, rng.normal(size=3)
        clients = [compiled[at].lowered for at in range(len(costs))]
