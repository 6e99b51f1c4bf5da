"""What the judge sees of an answer: points, multipliers, value and status, nothing measured."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.status import Status
from dald_model.declare.client import all_in_one
from dald_model.values import flat, holding


@dataclass(frozen=True, eq=False)
class Claim:
    r"""An answer as it is judged.

    Attributes
    ----------
    compiled : Decomposition
    values : dict
        Variable id -> the value that the user reads; empty where clients left or edges were
        dropped, as then there need not be one value for all.
    own : dict
        Client -> the vector of its own variables, its copies of shared ones included.
    copies : dict
        Client or server -> {id of a user's variable: the value that it holds}.
    multipliers : ndarray, shape (Q,)
        Of the consensus constraints.
    value : float
        The objective that is claimed, in the user's sense.
    status : Status
    live : tuple
        The clients that are still there.
    off : ndarray of bool, shape (Q,)
        The entries of edges that do not count any more.
    """

    compiled: Decomposition
    values: Mapping[int, Any]
    own: Mapping[Hashable, np.ndarray]
    copies: Mapping[Hashable, Mapping[int, np.ndarray]]
    multipliers: np.ndarray
    value: float
    status: Status
    live: tuple[Hashable, ...]
    off: np.ndarray

    @classmethod
    def of(cls, result: Answer) -> Claim:
        """What a result claims."""
        compiled = result.compiled
        off = np.zeros(compiled.size, dtype=bool)
        for edge in compiled.edges:
            gone = edge.ends in result.dropped or set(edge.ends) & set(result.left)
            off[compiled.slots[edge.ends]] = bool(gone)
        is_whole = not (result.left or result.dropped)
        has_point = bool(result.recovered.values)
        multipliers = np.zeros(compiled.size)
        for ends, held in result.multipliers.items():
            multipliers[compiled.slots[ends]] = held
        return cls(
            compiled,
            result.recovered.values if is_whole else {},
            compiled.gather(result.recovered) if has_point else {},
            result.recovered.at_clients,
            multipliers,
            float(result.value),
            result.status,
            tuple(name for name in compiled if name not in result.left),
            off,
        )

    @property
    def is_whole(self) -> bool:
        """Whether everybody is there, and agrees with everybody."""
        return not self.off.any() and len(self.live) == len(self.compiled)

    @cached_property
    def points(self) -> dict[Hashable, np.ndarray]:
        """Client -> its variables at the values that the user reads, or else its own."""
        if not self.values:
            return {name: self.own[name] for name in self.live}
        return self.split(self.values)

    def split(self, values: Mapping[int, Any]) -> dict[Hashable, np.ndarray]:
        """Values of the user's variables -> the vector of each client's local variables."""
        compiled = self.compiled
        known = compiled.arrays.with_pieces(values)
        made = compiled.derived  # what couplings share is computed from what the user reads
        users = {v.id: v for e in made.values() for v in e.variables() if v.id in known}
        with holding((v, known[key]) for key, v in users.items()):
            known |= {key: expression.value for key, expression in made.items()}
        homes = compiled.form.homes.items()  # a server's own variable has one of its own beside
        users = {v.id: key for key, local in homes for v in local.values() if v.id != key}
        return {
            name: np.concatenate(
                [flat(known[users.get(v.id, v.id)]) for v in compiled[name].variables]
            )
            for name in self.live
        }

    @cached_property
    def problem(self) -> cp.Problem:
        """The all-in-one problem of the clients and edges that are still there."""
        compiled = self.compiled
        if self.is_whole:
            return compiled.model.monolithic()
        live = {name: compiled.form.clients[name] for name in self.live}
        rules = [rule for client in live.values() for rule in client.constraints]
        for edge in compiled.edges:
            if not self.off[compiled.slots[edge.ends]].any():
                pairs = zip(edge.given(edge.tail), edge.given(edge.head), strict=True)
                rules += [one == two for one, two in pairs]
        return all_in_one(live.values(), rules, compiled.sense < 0)

    @cached_property
    def cost(self) -> cp.Expression:
        """What :attr:`problem` minimises: its objective or the negative."""
        return self.compiled.sense * self.problem.objective.expr

    @cached_property
    def answer(self) -> dict[int, np.ndarray]:
        """Variable id of :attr:`problem` -> the value that is claimed."""
        if self.values:
            return {key: np.asarray(value, float) for key, value in self.values.items()}
        spread = [self.compiled[name].spread(self.own[name]) for name in self.live]
        return {key: value for parts in spread for key, value in parts.items()}
