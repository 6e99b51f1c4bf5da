"""OSBDO: a bundle method over oracles of value and slope, with the rest as a cvxpy problem."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import Any

import cvxpy as cp
import numpy as np

from tests.benchmarks.peers.tasks import Answer

ROUNDS, GAP, FAR = 60, 1e-6, 10.0


def least_squares(task: Any) -> Answer:
    def told(A: Any, b: Any, v: Any) -> Any:
        return ((A @ v - b) ** 2).sum(), 2 * A.T @ (A @ v - b)

    return solved(task.blocks, told, 0.0, lambda x: 0)


def logistic(task: Any) -> Answer:
    def told(A: Any, b: Any, v: Any) -> Any:
        return np.logaddexp(0, -b * (A @ v)).sum(), -A.T @ (b / (1 + np.exp(b * (A @ v))))

    return solved(task.blocks, told, -FAR, lambda x: task.weight * cp.norm1(x))


def solved(blocks: Any, told: Any, least: float, extra: Any) -> Answer:
    """Every owner has its own copy of x; the coupling makes the copies equal."""
    package: Any = import_module("osbdo")

    class Owner(package.Agent):
        def _construct_params(self) -> None:
            self.A, self.b = self.params["data"]

        def query(self, *, v: Any, solver: str = "") -> Any:
            value, slope = told(self.A, self.b, v)
            return package.Point(x=v, q=slope, f=value)

        def get_init_minorant(self) -> Any:
            return cp.Constant(0)

    box = {"dimension": 10, "lower_bound": least * np.ones(10), "upper_bound": FAR * np.ones(10)}
    owners = [Owner(box | {"data": block}) for block in blocks]
    same = [owners[0].x == each.x for each in owners[1:]]
    function = cp.Constant(0) + extra(owners[0].x)
    coupling = package.Coupling(agents=owners, function=function, domain=same)
    problem = package.Problem(agents=owners, g=coupling)
    with contextlib.redirect_stdout(io.StringIO()):
        found, _ = problem.solve(rel_gap=GAP, abs_gap=0.0, max_iter=ROUNDS, solver="CLARABEL")
    upper, lower = problem.upper_bnd[-1], problem.lower_bnd[-1]
    return Answer(found[0], len(problem.upper_bnd) - 1, f"gap {(upper - lower) / abs(lower):.0e}")


PEERS = {"OSBDO": {each.__name__: each for each in (least_squares, logistic)}}
