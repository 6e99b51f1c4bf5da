"""A model of two clients, and what a solve has left in a variable."""

from typing import Any

import cvxpy as cp

import dald_model as dm


def at(v: cp.Variable) -> Any:
    return v.value


def pair(x: cp.Variable, f: Any, y: cp.Variable, g: Any) -> dm.Model:
    """Two clients that agree in everything; with ``x is y`` through a server."""
    model = dm.Model()
    model.client("f", f)
    model.client("g", g)
    if x is not y:
        model.consensus(x == y)
    return model
