"""Models of two clients at most, and the algorithms by kind, for what these say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import pytest

import dald_model as dm
from dald_model.errors import OptionError

Build = Callable[[], dm.Model]

STAR: list[Any] = [
    dm.GradientDescent(0.1),
    dm.NewtonMethod(),
    dm.MiniBatchGradientDescent(0.1),
    dm.StochasticGradientDescent(0.1),
    dm.StochasticNewton(),
    dm.DistributedProximal(1.0),
    dm.FedProx(1.0),
    dm.FedAvg(0.1),
    dm.ProximalPoint(1.0),
    dm.ProximalGradient(0.1),
]
"""The algorithms of a server."""

GOSSIP: list[Any] = [dm.DGD(0.1), dm.AsynchronousDGD(0.1)]


def kind(algorithm: Any) -> str:
    return type(algorithm).__name__


def named(algorithms: list[Any]) -> Any:
    return pytest.mark.parametrize("algorithm", algorithms, ids=map(kind, algorithms))


def refused(model: dm.Model, algorithm: Any, said: str, **options: Any) -> None:
    with pytest.raises(OptionError) as caught:
        model.solve(algorithm=algorithm, max_rounds=3, **options)
    assert str(caught.value) == said


# --- models ---------------------------------------------------------------------------------------


def shared(
    cost: Callable[[Any], Any] = cp.sum_squares, rules: Any = None, **attributes: bool
) -> dm.Model:
    """Two clients share w; ``cost`` and ``rules`` are those of the second."""
    w = cp.Variable(2, name="w", **attributes)
    model = dm.Model("shared")
    model.client("one", cp.sum_squares(w - 1))
    model.client("two", cost(w), rules(w) if rules else [])
    return model


def peers(*args: Any, **options: Any) -> dm.Model:
    model = shared(*args, **options)
    model.topology(nx.path_graph(["one", "two"]))
    return model


def private() -> dm.Model:
    w, p = cp.Variable(2, name="w"), cp.Variable(name="p")
    model = dm.Model("private")
    model.client("one", cp.sum_squares(w - 1))
    model.client("two", cp.sum_squares(w) + cp.square(p))
    return model


def agreed(agreement: Callable[..., list[Any]]) -> dm.Model:
    """Two clients with x and y, and z that no client has."""
    x, y, z = (cp.Variable(2, name=name) for name in "xyz")
    model = dm.Model("agreed")
    model.client("one", cp.sum_squares(x - 1))
    model.client("two", cp.sum_squares(y))
    model.consensus(*agreement(x, y, z))
    return model


def alone(cost: Callable[[Any], Any], rules: Any = None) -> dm.Model:
    x, z = cp.Variable(2, name="x"), cp.Variable(2, name="z")
    model = dm.Model("alone")
    model.client("two", cost(x), rules(x) if rules else [])
    model.consensus(z == x)
    return model
