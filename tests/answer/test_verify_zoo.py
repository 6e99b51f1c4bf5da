"""Verification on the zoo: the honest result passes, and one entry off by a thousandth fails.

A thousandth of what is said here and not by the verification: of how far the clients' own answers,
found by plain cvxpy, are from the known optimum, and of what agreeing costs by them. Of n clients
with m variables each, a multiplier has the scale of its share of that, :math:`V / (n m S)`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.values import flat, preserved
from tests.zoo import GRAPHS, PROBLEMS, Built

CORRUPT = 1e-3


class Solved(NamedTuple):
    """A solved problem; its spread by variable and the cost of agreeing, found independently."""

    built: Built
    result: dm.Result
    spread: dict[int, float]
    cost: float


def _solved(name: str) -> Solved:
    built = PROBLEMS[name]().on(GRAPHS["chain"]())
    result = built.model.solve()
    spread: dict[int, float] = {}
    cost = -built.value if built.model.maximises else -built.value
    for client in built.model.clients.values():
        variable = built.variables[client.name]
        with preserved([variable, *(d for c in client.constraints for d in c.dual_variables)]):
            alone = cp.Problem(cp.Minimize(client.cost), list(client.constraints))
            alone.solve(solver="CLARABEL")
            own = flat(variable.value)
        cost += float(alone.value)
        spread[variable.id] = float(np.abs(own - flat(built.points[client.name])).max())
    return Solved(built, result, dict.fromkeys(spread, max(spread.values())), abs(cost))


def _moved(value: Any, entry: int, by: float) -> np.ndarray:
    found = flat(value).copy()
    found[entry] += by
    return found.reshape(np.shape(value), order="F")


def _values(case: Solved) -> Iterator[tuple[str, dm.Result]]:
    recovered = case.result.recovered
    for key, value in recovered.values.items():
        for entry in range(np.size(value)):
            by = CORRUPT * case.spread[key]
            values = recovered.values | {key: _moved(value, entry, by)}
            yield f"value {entry}", replace(case.result, recovered=replace(recovered, values=values))


def _clients(case: Solved) -> Iterator[tuple[str, dm.Result]]:
    recovered = case.result.recovered
    for name, own in recovered.at_clients.items():
        for key, value in own.items():
            for entry in range(np.size(value)):
                by = CORRUPT * case.spread[key]
                held = recovered.at_clients | {name: own | {key: _moved(value, entry, by)}}
                yield (
                    f"{name!r} {entry}",
                    replace(case.result, recovered=replace(recovered, at_clients=held)),
                )
