r"""A result of one model as a result of the same model in other units.

The model in other units is over :math:`y = o + u \circ x` and says :math:`s f((y - o) / u)` where
the first says :math:`f(x)`. So y, multipliers and dual values follow from those of the first.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm

Share = Callable[[int, cp.Expression], tuple[cp.Expression, list[cp.Constraint]]]
"""(client, its variable) -> objective and constraints."""


class Units(NamedTuple):
    """Factor of the objective, units of the variable (a number or one an entry), its origin."""

    objective: float = 1.0
    units: Any = 1.0
    origin: Any = 0.0


def declared(share: Share, clients: int, size: int, units: Units) -> dm.Model:
    """Clients 0, 1, ... in a chain, each with a variable of its own."""
    y = [cp.Variable(size, name=f"y{i}") for i in range(clients)]
    model = dm.Model("translated")
    scale, origin = np.full(size, units.units), np.full(size, units.origin)
    for i in range(clients):
        cost, rules = share(i, cp.multiply(1 / scale, y[i] - origin))
        model.client(i, units.objective * cost, rules)
    model.consensus(*[y[i] == y[i + 1] for i in range(clients - 1)])
    return model


def translated(result: dm.Result, model: dm.Model, units: Units) -> dm.Result:
    """The result of a model in ordinary units, as one of the same model in others."""
    compiled, before = model.compile(), result.compiled
    theirs = dict(zip([v.id for v in model.variables], before.model.variables, strict=True))

    def moved(value: Any) -> np.ndarray:
        return units.origin + units.units * np.asarray(value)

    values = {key: moved(result.recovered.values[v.id]) for key, v in theirs.items()}
    at_clients = {
        name: {key: moved(own[v.id]) for key, v in theirs.items() if v.id in own}
        for name, own in result.recovered.at_clients.items()
    }
    price = units.objective / np.asarray(units.units)
    multipliers = {ends: mu * price for ends, mu in result.multipliers.items()}
    local = {
        name: tuple(tuple(units.objective * np.asarray(part) for part in share) for share in shares)
        for name, shares in result.recovered.local_duals.items()
    }
    duals = {
        rule.id: share
        for name, shares in local.items()
        for rule, share in zip(model.clients[name].constraints, shares, strict=True)
    }
    for agreement, (ends, mu) in zip(model.agreements, multipliers.items(), strict=True):
        assert compiled.slots[ends] == before.slots[ends]
        duals[agreement.constraint.id] = (mu,)
    recovered = replace(
        result.recovered, values=values, at_clients=at_clients, duals=duals, local_duals=local
    )
    return dm.Result(
        **{
            name: getattr(result, name)
            for name in (
                "status",
                "rounds",
                "answer_round",
                "history",
                "seconds",
                "eps_pri",
                "eps_dual",
            )
        },
        value=units.objective * result.value,
        recovered=recovered,
        multipliers=multipliers,
        compiled=compiled,
    )
