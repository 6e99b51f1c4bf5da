"""Models that are solved again and again with other Parameters, each beside its AIO problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm


@dataclass
class Resolving:
    """A model, the same as one cvxpy problem of the same Parameters, and how these change.

    ``step`` sets the Parameters of a step; from the second on the step before was solved.
    """

    model: dm.Model
    costs: Sequence[Any]
    rules: Sequence[Any]
    step: Callable[[int], None]
    steps: int

    @cached_property
    def problem(self) -> cp.Problem:
        """All in one."""
        return cp.Problem(cp.Minimize(sum(self.costs)), list(self.rules))

    @property
    def parameters(self) -> list[cp.Parameter]:
        """In the order in which they were declared."""
        found = {p.id: p for part in (*self.costs, *self.rules) for p in part.parameters()}
        return [found[key] for key in sorted(found)]


def regularisation_path(kind: str = "lasso", clients: int = 10, size: int = 10) -> Resolving:
    """Fifty weights from 10 to 0.1 for what all clients pay."""
    rng = np.random.default_rng(0)
    x, weight = cp.Variable(size, name="x"), cp.Parameter(nonneg=True, name="weight")
    truth, weights = rng.normal(size=size), np.geomspace(10, 0.1, 50)
    paid = cp.norm1(x) if kind == "lasso" else cp.sum_squares(x)
    model, costs = dm.Model(f"{kind} path"), []
    for i in range(clients):
        A = rng.normal(size=(50, size))
        b = A @ truth + 0.5 * rng.normal(size=50)
        loss: Any = cp.sum_squares(A @ x - b)
        if kind == "logistic":
            loss = cp.sum(cp.logistic(-cp.multiply(np.sign(b), A @ x)))
        costs.append(loss + weight * paid)
        model.client(i, costs[-1])

    def step(at: int) -> None:
        weight.value = weights[at]

    return Resolving(model, costs, [], step, len(weights))


def predictive_control(tanks: int = 5, horizon: int = 8, steps: int = 100) -> Resolving:
    """Tanks in a row with flows between neighbours, controlled over a receding horizon."""
    rng = np.random.default_rng(1)
    start = [cp.Parameter(name=f"s{i}") for i in range(tanks)]
    flow = [cp.Variable(horizon, name=f"flow {i}") for i in range(tanks - 1)]
    level = [cp.Variable(horizon + 1, name=f"level {i}") for i in range(tanks)]
    pump = [cp.Variable(horizon, name=f"pump {i}") for i in range(tanks)]
    model, costs, rules = dm.Model("tanks"), [], []
    for i in range(tanks):
        inflow = (flow[i - 1] if i else 0) - (flow[i] if i < tanks - 1 else 0)
        own: list[Any] = [
            level[i][0] == start[i],
            level[i][1:] == 0.95 * level[i][:-1] + pump[i] + inflow,
            cp.abs(pump[i]) <= 0.3,
        ]
        cost = cp.sum_squares(level[i] - 1) + 0.1 * cp.sum_squares(pump[i])
        if i < tanks - 1:
            cost = cost + 0.05 * cp.sum_squares(flow[i])
        model.client(i, cost, own)
        costs.append(cost)
        rules += own
    first = rng.uniform(0, 2, size=tanks)

    def step(at: int) -> None:
        for i, one in enumerate(start):
            after: Any = level[i].value
            one.value = first[i] if at == 0 else after[1] + 0.05 * rng.normal()

    return Resolving(model, costs, rules, step, steps)


def rolling_budget(clients: int = 12, months: int = 50) -> Resolving:
    """A budget over all, and wishes, that are others each month."""
    rng = np.random.default_rng(2)
    x = [cp.Variable(2, name=f"x{i}") for i in range(clients)]
    wish = [cp.Parameter(2, name=f"wish {i}") for i in range(clients)]
    budget = cp.Parameter(name="budget")
    model, costs = dm.Model("budget"), []
    for i, v in enumerate(x):
        costs.append((1 + i) * cp.sum_squares(v - wish[i]))
        model.client(i, costs[-1], [v >= 0])
    rule: Any = cp.sum(sum(x)) <= budget
    model.couple(rule, name="budget")

    def step(at: int) -> None:
        budget.value = 20 + 5 * np.sin(at / 5)
        for one in wish:
            before: Any = one.value
            one.value = rng.uniform(1, 2, size=2) if at == 0 else before + rng.normal(size=2) / 20

    rules = [v >= 0 for v in x]
    return Resolving(model, costs, [*rules, rule], step, months)
