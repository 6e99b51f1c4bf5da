"""The sum of objectives alike over stacked data has the value of the sum of all."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.declare.stacked_sum import stacked_sum

w, c = cp.Variable(4, name="w"), cp.Variable(name="c")
OBJECTIVES: dict[str, Callable[..., Any]] = {
    "squares": lambda A, y, t, q: cp.sum_squares(A @ w - y),
    "mean squares, ridge": lambda A, y, t, q: (
        cp.sum_squares(A @ w + c - y) / len(y) + cp.norm1(w) / 9
    ),
    "weighed, negative": lambda A, y, t, q: (
        -(-t * cp.sum_squares(A @ w - y)) + 0.1 * cp.sum_squares(w)
    ),
    "logistic": lambda A, y, t, q: (
        t * cp.sum(cp.logistic(cp.multiply(-y, A @ w + c))) + cp.norm1(w)
    ),
    "hinge": lambda A, y, t, q: cp.sum(cp.pos(1 - cp.multiply(y, A @ w))) / t,
    "huber": lambda A, y, t, q: cp.sum(cp.huber(A @ w - y, 2)),
    "absolute": lambda A, y, t, q: -2 * (-t * cp.norm1(A @ w - y)),
    "mean": lambda A, y, t, q: cp.mean(cp.square(A @ w - y)),
    "quantile": lambda A, y, t, q: cp.sum(cp.maximum(0.3 * (y - A @ w), -0.7 * (y - A @ w))),
    "poisson": lambda A, y, t, q: cp.sum(cp.exp(A @ w)) - t * (y @ (A @ w)),
    "linear": lambda A, y, t, q: q @ w + cp.norm1(A @ w),
}


def own(seed: int, count: int = 7) -> dict[int, Any]:
    rng = np.random.default_rng(seed)
    rows = rng.integers(3, 6, size=count)
    return {
        at: (
            rng.normal(size=(k, 4)),
            rng.choice([-1.0, 1.0], size=k),
            rng.random() + 0.1,
            rng.normal(size=4),
        )
        for at, k in enumerate(rows)
    }


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("is_traced", [True, False])
def test_the_stacked_sum_is_the_sum(name: str, is_traced: bool):
    data, function = own(len(name)), OBJECTIVES[name]
    model, rng = dm.Model(), np.random.default_rng(1)
    if is_traced:
        model.clients(data, lambda rows: function(*rows))
    else:
        for at, rows in data.items():
            model.client(at, function(*rows))
    total = stacked_sum(model.clients.values())
    assert total is not None
    assert total.is_convex()
    for _ in range(3):
        w.value, c.value = rng.normal(size=4), rng.normal()
        expected = sum(function(*rows).value for rows in data.values())
        assert total.value == pytest.approx(expected, rel=1e-12)


def test_a_thousand_logistic_losses_are_one_atom():
    data, model = own(0, 1000), dm.Model()
    model.clients(data, lambda rows: cp.sum(cp.logistic(cp.multiply(-rows[1], rows[0] @ w))))
    total = stacked_sum(model.clients.values())
    assert total is not None
    found: list[Any] = [total]
    for node in found:
        found += node.args
    assert sum(isinstance(node, cp.logistic) for node in found) == 1


def test_what_is_no_sum_over_rows_is_left():
    model = dm.Model()
    model.clients(own(0), lambda rows: cp.norm(rows[0] @ w - rows[1]))
    assert stacked_sum(model.clients.values()) is None


def test_owners_of_other_variables_are_left():
    x, model = [cp.Variable(4) for _ in range(3)], dm.Model()
    for at, rows in own(0, 3).items():
        model.client(at, cp.sum_squares(rows[0] @ x[at] - rows[1]))
    assert stacked_sum(model.clients.values()) is None
