"""One number a node, pulled to 1, 2, 3, ...: the mean wins, and each round is known by hand."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

EXACT = 1e-12
"""What is left of numbers of size 1 after a few rounds of doubles."""
RING = nx.cycle_graph("abcd")
ONE = dm.FixedBudget(1)
BY_HAND: dict[str, Any] = {
    "rho": 1.0,
    "sequence": dm.Sequence.natural(),
    "eps_pri": 0.0,
    "eps_dual": 0.0,
}


@dataclass(frozen=True)
class Every:
    """An outer loop is ``v`` inner loops, whatever the residuals are."""

    v: int

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return inner >= self.v


def on(graph: nx.Graph) -> tuple[dm.Model, dict[Hashable, cp.Variable]]:
    """One number a node, pulled to 1, 2, 3, ..."""
    x = {node: cp.Variable(name=f"x{node}") for node in graph}
    model = dm.Model("numbers")
    for t, (node, v) in enumerate(x.items(), start=1):
        model.client(node, cp.square(v - t))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model, x


def model_on(graph: nx.Graph) -> dm.Model:
    return on(graph)[0]


def best(*targets: float) -> float:
    """The least sum of squared distances to numbers."""
    return float(np.sum((np.array(targets) - np.mean(targets)) ** 2))


def shared() -> tuple[dm.Model, cp.Variable]:
    """Clients a to d share one number, pulled to 1, 2, 3, 4."""
    w = cp.Variable(name="w")
    model = dm.Model("shared")
    for t, name in enumerate("abcd", start=1):
        model.client(name, cp.square(w - t))
    return model, w


def values(x: dict[Hashable, cp.Variable]) -> dict[str, Callable[[dm.Iterate], Any]]:
    """The metric of each variable, under the name of its client."""
    return {f"{node}": lambda at, v=v: at[v].item() for node, v in x.items()}


def exactly(value: Any) -> Any:
    return pytest.approx(value, rel=EXACT, abs=EXACT)
