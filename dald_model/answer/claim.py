"""What the judge sees of an answer: points, multipliers and value, nothing that was measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.domains import clients_inside, settle
from dald_model.answer.rescaling import cost_at
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.objectives import batch_objectives, objectives
from dald_model.compile.recovered import Recovered
from dald_model.coordinate.state import State
from dald_model.declare.client import Client, Problem, all_in_one, unique_variables
from dald_model.declare.stacked_sum import stacked_sum
from dald_model.sizes import SAME
from dald_model.solvers.base import Encoding
from dald_model.values import flat

Points = Mapping[Hashable, np.ndarray]
"""Client -> vector of its local variables."""


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
        The objective that is claimed, in the user's sense; NaN of an iterate.
    live : tuple
        The clients that are still there.
    off : ndarray of bool, shape (Q,)
        The entries of edges that do not count any more.
    own_multipliers : dict
        Client -> those of its own constraints and kinks, where it told them as rows.
    """

    compiled: Decomposition
    values: Mapping[int, Any]
    own: Mapping[Hashable, np.ndarray]
    copies: Mapping[Hashable, Mapping[int, np.ndarray]]
    multipliers: np.ndarray
    value: float
    live: tuple[Hashable, ...]
    off: np.ndarray
    own_multipliers: Mapping[Hashable, np.ndarray] = field(default_factory=dict)

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
            tuple(name for name in compiled if name not in result.left),
            off,
            _own_multipliers(compiled, result.state),
        )

    @classmethod
    def of_state(cls, compiled: Decomposition, state: State) -> Claim:
        """That an iterate is optimal, with the multipliers that its clients balance."""
        points, found = recovered(compiled, state, state.estimate)
        everybody, nothing = tuple(compiled), np.zeros(compiled.size, dtype=bool)
        copies = found.at_clients
        return cls(
            compiled,
            found.values,
            points,
            copies,
            state.estimate,
            float("nan"),
            everybody,
            nothing,
            _own_multipliers(compiled, state),
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
        return split(self.compiled, self.values, self.live)

    @cached_property
    def vector(self) -> np.ndarray:
        """The points, all variables one after the other; zeros of clients that left."""
        whole = np.zeros(sum(sub.size for sub in self.compiled.values()))
        for name, point in self.points.items():
            whole[self.compiled.columns[name]] = point
        return whole

    @cached_property
    def rules(self) -> list[cp.Constraint]:
        """The constraints of :attr:`problem`."""
        compiled = self.compiled
        if self.is_whole:
            return compiled.model.constraints
        rules = [rule for client in self._clients for rule in client.constraints]
        for edge in compiled.edges:
            if not self.off[compiled.slots[edge.ends]].any():
                pairs = zip(edge.given(edge.tail), edge.given(edge.head), strict=True)
                rules += [one == two for one, two in pairs]
        return rules

    @cached_property
    def variables(self) -> list[cp.Variable]:
        """The variables of :attr:`problem`, of which many clients' need no expression."""
        known: dict[int, cp.Variable] = {}
        for client in self._clients:
            own = client.variables
            if client.held:  # of which none need be in the problem
                own = unique_variables([client.objective, *client.constraints])
            known |= {v.id: v for v in own}
        return list(known.values()) + [v for v in unique_variables(self.rules) if v.id not in known]

    @cached_property
    def problem(self) -> cp.Problem:
        """The all-in-one problem of the clients and edges that are still there.

        As one would write it by hand, over the stacked data of clients alike.
        """
        is_maximum = self.compiled.sense < 0
        total = stacked_sum(self._clients) if self.values else None
        if total is None or not self._is_sum(total):
            return all_in_one(self._clients, self.rules, is_maximum)
        return Problem(cp.Maximize(-total) if is_maximum else cp.Minimize(total), self.rules)

    def _is_sum(self, total: cp.Expression) -> bool:
        """Whether it is the sum of the clients' own costs at two points."""
        beyond = {key: x + (1 + np.abs(x)) / 2 for key, x in self.answer.items()}
        for at, points in ((self.answer, self.points), (beyond, split(self.compiled, beyond))):
            costs = np.array([*client_costs(self.compiled, points, self.live).values()])
            size = SAME * np.abs(costs).sum()
            if not np.isclose(cost_at(total, at), costs.sum(), 0.0, size, equal_nan=True):
                return False
        return True

    @property
    def _clients(self) -> Collection[Client]:
        """Those that are still there."""
        if self.is_whole:
            return self.compiled.model.stated.values()
        return [self.compiled.form.clients[name] for name in self.live]

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


def _own_multipliers(compiled: Decomposition, state: State | None) -> dict[Hashable, np.ndarray]:
    """Those that clients told as rows."""
    if state is None:
        return {}
    pairs = zip(compiled.layout, state.held, strict=True)
    return {name: told for name, (encoding, told) in pairs if encoding == Encoding.ROWS}


def recovered(
    compiled: Decomposition,
    state: State,
    mu: np.ndarray,
    duals: Callable[[Hashable], Any] | None = None,
    left: Collection[Hashable] = (),
) -> tuple[dict[Hashable, np.ndarray], Recovered]:
    """The clients' points of an iterate, inside of all domains, and what a user reads of them."""
    lengths = state.units.point_lengths
    points = {name: state.points[part] for name, part in compiled.columns.items()}
    points = clients_inside(compiled, points, lengths)
    told = {} if duals is None else {name: duals(name) for name in points}
    found = compiled.recover(points, told, mu, left)
    settle(compiled, found, lengths)
    return points, found


def split(
    compiled: Decomposition, values: Mapping[int, Any], names: Collection[Hashable] | None = None
) -> dict[Hashable, np.ndarray]:
    """Values of the user's variables -> the vector of each client's local variables."""
    vectors = {k: flat(value) for k, value in compiled.arrays.with_pieces(values).items()}
    vectors |= compiled.shared(vectors)
    users = compiled.origins | compiled.served  # a server's own variable has one of its own beside
    found: dict[Hashable, np.ndarray] = {}
    for name in compiled if names is None else names:
        parts = [vectors[users.get(v.id, v.id)] for v in compiled[name].variables]
        found[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return found


def client_costs(
    compiled: Decomposition, points: Points, names: Collection[Hashable] | None = None
) -> dict[Hashable, float]:
    """Each client's objective, as minimised, at its point.

    From the affine pieces of the user's expressions, for all alike clients at once, or by cvxpy.
    A server has 0. NaN outside of the domain, and for a client whose objective is at a site.
    """
    subs = [compiled[name] for name in (compiled if names is None else names)]
    found = objectives(subs, [points[sub.name][None] for sub in subs])[:, 0]
    return dict(zip((sub.name for sub in subs), found.tolist(), strict=True))


def costs_at(
    compiled: Decomposition, vectors: Sequence[np.ndarray], names: Collection[Hashable]
) -> np.ndarray:
    """The same at several points of all variables one after the other, (points, clients)."""
    whole, known = np.stack(vectors), dict[Hashable, np.ndarray]()
    if len(names) == len(compiled):
        for batch in compiled.batches:
            starts = np.array([compiled.columns[name].start for name in batch.names])
            at = whole.T[starts[:, None] + np.arange(batch.forms.like.size)].swapaxes(1, 2)
            each = batch_objectives(compiled, batch, at)
            if np.isfinite(each).all():
                known |= zip(batch.names, each, strict=True)
    subs = [compiled[name] for name in names if name not in known]
    found = objectives(subs, [whole[:, compiled.columns[sub.name]] for sub in subs])
    if not known:
        return found.T
    known |= zip((sub.name for sub in subs), found, strict=True)
    return np.array([known[name] for name in names]).T
