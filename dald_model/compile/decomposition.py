"""Decomposition of a model: one subproblem a client, and back to the user's objects."""

from __future__ import annotations

import time
from collections.abc import (
    Collection,
    Hashable,
    ItemsView,
    Iterable,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model._cvxpy import value_of
from dald_model.compile.coupling_split import take_apart
from dald_model.compile.lowering import Lowering
from dald_model.compile.recovered import Copies, Recovered
from dald_model.compile.stacked_forms import Batch, StackedForms
from dald_model.compile.stacked_sides import StackedSides
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.affine import stacked_map
from dald_model.declare.consensus import Edge
from dald_model.declare.consensus_form import consensus_form, owners_of
from dald_model.declare.declaration import Declaration
from dald_model.errors import ResultError
from dald_model.gc_pause import gc_paused
from dald_model.not_picklable import NotPicklable
from dald_model.schedule.network import HierarchicalNetwork, Levels, safest
from dald_model.text import listed
from dald_model.values import flat, holding


class Decomposition(NotPicklable, Mapping[Hashable, Subproblem]):
    r"""A model taken apart: one :class:`Subproblem` for each client and server.

    ``compiled["hospital 0"]`` is a subproblem; iterating gives the names, servers last. Vectors
    over all edges, such as the multipliers :math:`\mu`, hold the edges one after the other in the
    order of :attr:`edges`; ``size`` is their length.

    Attributes
    ----------
    model : Declaration
        As it was when it was compiled.
    edges : list of Edge
        The consensus constraints.
    servers, couplings : tuple
        The names of those, as far as they are no edges.
    averages : tuple
        The servers that only average: not one that holds its clients' rules in common.
    sense : int
        +1 where the all-in-one problem is a minimisation, -1 where it is a maximisation.
    order : dict
        Client -> its position.
    layout : list
        The clients in the order in which their variables lie in the vector of all of them: level
        by level of the default order.
    places : dict
        Client -> its position there.
    columns : dict
        Client -> where its variables lie there.
    origins : dict
        Id of a client's own copy of a variable -> id of the user's variable.
    served : dict
        Id of a server's copy of a variable -> id of the user's variable.
    arrays : ByEntry
        The declaration over pieces of arrays of which clients use different entries.
    derived : dict
        Id of a variable that the compiler made for couplings -> its value as an expression in the
        user's variables.
    seconds : float
        Time that compiling took.
    resting : object
        What a run leaves to the next, as its solvers' factorisations.
    """

    elsewhere = f"{NotPicklable.elsewhere}; a client travels by dald_model.pack(compiled[name])"
    again = "compile a model of its own, copy.copy(model).compile()"

    @gc_paused
    def __init__(self, model: Declaration) -> None:
        begun = time.perf_counter()
        self.arrays = model.by_entry
        owners = owners_of(self.arrays.clients.values())
        apart = take_apart(list(self.arrays.couplings.values()), self.arrays.clients, owners)
        clients = apart.joined(self.arrays.clients)
        form = consensus_form(
            clients,
            self.arrays.agreements,
            model.graph,
            apart.links,
            served=model.is_served,
            may_part=model.may_part,
        )
        self.derived = apart.derived
        self.model = model
        self.form = form
        self.sense = -1 if model.maximises else 1
        self.edges: list[Edge] = form.edges
        stops = list(accumulate(edge.size for edge in form.edges))
        parts = list(map(slice, [0, *stops[:-1]], stops))
        self.size = stops[-1]
        self.slots: dict[tuple[Hashable, Hashable], slice] = {
            edge.ends: part for edge, part in zip(form.edges, parts, strict=True)
        }
        self.servers = tuple(name for name, c in form.clients.items() if c.is_hub)
        self.averages = tuple(name for name in self.servers if form.clients[name].is_server)
        self.couplings = tuple(name for name, c in form.clients.items() if c.is_coupling)
        touching = _touching(form.clients, form.edges, parts)
        self._lowering = Lowering()
        self._subproblems = {
            name: Subproblem(client, *touching[name], self._lowering)
            for name, client in form.clients.items()
        }
        self.order: dict[Hashable, int] = {name: at for at, name in enumerate(self)}
        # Clients that are solved side by side lie side by side, so that they are one slice.
        self.layout = [name for level in self.levels for name in level]
        self.places: dict[Hashable, int] = {name: at for at, name in enumerate(self.layout)}
        stops = [0, *accumulate(self._subproblems[name].size for name in self.layout)]
        parts = map(slice, stops[:-1], stops[1:])
        self.columns: dict[Hashable, slice] = dict(zip(self.layout, parts, strict=True))
        self.origins = {
            local.id: key for key, homes in form.homes.items() for local in homes.values()
        }
        self.served = {
            homes[name].id: key
            for key, homes in form.homes.items()
            for name in self.servers
            if name in homes and homes[name].id != key
        }
        self._stacked: StackedSides | None = None
        self.resting: Any = None
        self._moving: list[Subproblem] | None = None  # who has Parameters of the user's
        self.instantiate()
        self.seconds = time.perf_counter() - begun

    @property
    def graph(self) -> nx.Graph:
        """The consensus graph, servers included."""
        return self.form.graph

    @cached_property
    def network(self) -> HierarchicalNetwork:
        """The order that is used by default; its ``matrix`` is the hierarchical matrix."""
        return safest(self.graph, self.servers)

    @cached_property
    def levels(self) -> Levels:
        """The levels of that order."""
        hub = self.form.hub
        if self.servers == (hub,):
            return [[name for name in self.form.clients if name != hub], [hub]]
        return self.network.levels

    @cached_property
    def is_convex(self) -> bool:
        """Whether no client was declared with ``nonconvex=True``."""
        return all(first.client.is_convex for first, *_ in self.kinds)

    @cached_property
    def kinds(self) -> list[list[Subproblem]]:
        """Clients that differ in numbers alone, as far as is known, in the order of the first."""
        found: dict[int, list[Subproblem]] = {}
        for sub in self.values():
            like = sub if sub.is_new else getattr(sub.lowered, "representative", sub)
            found.setdefault(id(like), []).append(sub)
        return list(found.values())

    @cached_property
    def batches(self) -> list[Batch]:
        """Clients alike that were lowered at once: their numbers stay."""
        found: dict[int, tuple[StackedForms, list[Hashable], list[int]]] = {}
        for subs in self.kinds:
            for sub in subs:
                if not sub.is_new and (lowered := sub.lowered) and lowered.together:
                    forms, at = lowered.together
                    _, names, places = found.setdefault(id(forms), (forms, [], []))
                    names.append(sub.name)
                    places.append(at)
        return [Batch(*one) for one in found.values()]

    @cached_property
    def owners(self) -> np.ndarray:
        """The place in the layout of whose each entry of the vector of all variables is."""
        return np.repeat(np.arange(len(self)), [self[name].size for name in self.layout])

    def __getitem__(self, name: Hashable) -> Subproblem:
        try:
            return self._subproblems[name]
        except (KeyError, TypeError) as error:
            raise ResultError(
                f"compiled: {name!r} is no client of {self.model.name!r}; expected one of "
                f"{listed(self._subproblems)}"
            ) from error

    def __iter__(self):
        return iter(self._subproblems)

    def __len__(self) -> int:
        return len(self._subproblems)

    # What a mapping makes of the three above, which a round asks for often

    def keys(self) -> KeysView[Hashable]:
        """The names, servers last."""
        return self._subproblems.keys()

    def values(self) -> ValuesView[Subproblem]:
        """The subproblems, those of servers last."""
        return self._subproblems.values()

    def items(self) -> ItemsView[Hashable, Subproblem]:
        """Both."""
        return self._subproblems.items()

    @gc_paused
    def instantiate(self) -> None:
        """Make every client's numbers that are not made yet or whose user's Parameters changed."""
        if self._moving is not None:
            for sub in self._moving:
                sub.instantiate()
            return
        alike: dict[Hashable, list[Subproblem]] = {}
        for sub in self.values():
            if sub.client.alike is not None:
                alike.setdefault(sub.client.alike, []).append(sub)
        for subs in alike.values():
            found = self._lowering.together([sub.client for sub in subs])
            for sub, lowered in zip(subs, found, strict=True):
                sub.take(lowered)
        for subs in self.kinds:
            is_made = len(subs) > 1 and subs[0].is_complete
            for sub in subs:
                if not is_made or sub.side_parameters:
                    sub.instantiate()
        alone = (subs[0] for subs in self.kinds if subs[0].client.parameters)
        beside = (sub for subs in self.kinds for sub in subs if sub.side_parameters)
        self._moving = list(dict.fromkeys(chain(alone, beside)))

    def reset(self, penalties: np.ndarray) -> None:
        """Set the penalties, shape (size,); multipliers and neighbour values become zero."""
        for sub in self.values():
            sub.reset(penalties[sub.entries])

    def recover(
        self,
        points: Mapping[Hashable, np.ndarray],
        duals: Mapping[Hashable, Any],
        mu: np.ndarray,
        left: Collection[Hashable] = (),
    ) -> Recovered:
        """From the clients' iterates to the user's variables and constraints.

        Parameters
        ----------
        points : dict
            Client -> vector of its local variables.
        duals : dict
            Client -> for each of its constraints the values of the ``dual_variables``.
        mu : ndarray, shape (size,)
            The multipliers of the consensus constraints.
        left : collection
            Clients whose copies of shared variables do not count any more.
        """
        values: dict[int, np.ndarray] = {}
        for key, (among, shape, is_symmetric) in self._copies.items():
            copies = {n: points[n][part].reshape(shape, order="F") for n, part in among.items()}
            agreed = self.agreed(copies, left)
            # A server's mean has the skew part of the prices, which are of no consequence
            values[key] = (agreed + agreed.T) / 2 if is_symmetric else agreed
        values = self.arrays.with_arrays(values)
        at_clients = Copies(self, points, self._spread)
        gathered: dict[int, list[Any]] = {}
        stated = self.stated_duals(duals, left)
        for name, client in self.model.stated.items():
            # Nothing is known of who was never solved, or of a solver that gives no multipliers;
            # bounds that the compiler added for couplings come last and are nobody's
            told = stated.get(name, ())
            for rule, dual in zip(client.constraints if told else (), told, strict=False):
                gathered.setdefault(rule.id, []).append(dual)
        # One constraint object may stand in several clients; the AIO problem has it once and its
        # multiplier there is the sum.
        found = {key: tuple(map(_sum, zip(*each, strict=True))) for key, each in gathered.items()}
        for edge, part in self.declared_parts:
            dual = part.sign * mu[self.slots[edge.ends]][part.start : part.stop]
            shape = part.agreement.left.shape
            found[part.agreement.constraint.id] = (dual.reshape(shape, order="F"),)
        return Recovered(values, at_clients, found, duals)

    def _spread(self, name: Hashable, point: np.ndarray) -> dict[int, np.ndarray]:
        """The values of the user's variables at a client, in the user's order."""
        local = self[name].spread(point).items()
        found = {self.origins[key]: x for key, x in local}
        found |= {self.served[key]: x for key, x in local if key in self.served}
        order = self.order_of_variables
        found = {key: found[key] for key in sorted(found, key=order.__getitem__)}
        return self.arrays.with_arrays(found, absent=np.nan)

    @cached_property
    def _copies(self) -> dict[int, tuple[dict[Hashable, slice], tuple[int, ...], bool]]:
        """Of each variable who tells its value and where in its own, its shape, if symmetric."""
        found = {}
        for key, homes in self.form.homes.items():
            server = next((name for name in self.servers if name in homes), None)
            among = homes if server is None else {server: homes[server]}
            first, *_ = among.values()
            is_symmetric = first.ndim == 2 and any(v.is_symmetric() for v in homes.values())
            parts = {name: self[name].part(v) for name, v in among.items()}
            found[key] = parts, first.shape, is_symmetric
        return found

    @cached_property
    def declared_parts(self) -> list[tuple[Edge, Any]]:
        """The parts of edges that are equalities of the user's, each with its edge."""
        parts = ((edge, part) for edge in self.edges for part in edge.parts)
        return [(edge, part) for edge, part in parts if part.agreement.constraint is not None]

    @cached_property
    def as_declared(self) -> dict[Hashable, Subproblem]:
        """The clients as declared of whose objectives a server holds a part."""
        return {name: self[name].of(client) for name, client in self.form.as_declared.items()}

    @cached_property
    def holder(self) -> Hashable:
        """The server that holds rules in common; None without."""
        return next((name for name in self.servers if name not in self.averages), None)

    def stated(self, name: Hashable) -> list[cp.Constraint]:
        """A client's or server's constraints in order, as the user stated them."""
        common = self.form.common
        if common.clients and name == self.holder:
            return list(common.rules)
        given = self.model.stated[name].constraints
        return [given[at] for at in common.kept(name, len(given))]

    def stated_duals(
        self, duals: Mapping[Hashable, Any], left: Collection[Hashable] = ()
    ) -> Mapping[Hashable, Any]:
        """Client -> dual values of the constraints that it states, wherever they are held."""
        return self.form.common.duals(duals, self.holder, left)

    def agreed(
        self, copies: Mapping[Hashable, np.ndarray], left: Collection[Hashable] = ()
    ) -> np.ndarray:
        """One value for a variable with several copies: the server's, or their mean."""
        if len(copies) == 1:
            return next(iter(copies.values())).copy()
        servers = [name for name in copies if name in self.servers]
        if servers:
            return copies[servers[0]]
        counted = [value for name, value in copies.items() if name not in left]
        first, *others = counted or list(copies.values())
        return sum(others, first) / (1 + len(others))

    def gather(self, recovered: Recovered) -> dict[Hashable, np.ndarray]:
        """The inverse of :meth:`recover`: client -> vector of its local variables."""
        copies = recovered.at_clients
        return {
            name: copies.points[name]
            if isinstance(copies, Copies) and not copies.is_made(name)
            else np.concatenate([flat(copies[name][self.origins[v.id]]) for v in sub.variables])
            for name, sub in self.items()
        }

    def called(self, name: Hashable, at: int) -> str:
        """What the user calls entry ``at`` of a client's vector of variables, such as ``w[3]``."""
        names, place = {v.id: v.name() for v in self.model.variables}, self.arrays.place()
        for variable in self[name].variables:
            if at < variable.size:
                break
            at -= variable.size
        else:
            raise IndexError(at)
        key = self.origins.get(variable.id, variable.id)
        shape, said = variable.shape, names.get(key, variable.name())
        if key in place:
            array, entries = place[key]
            at, shape, said = entries[at], array.shape, array.name()
        where = ", ".join(map(str, np.unravel_index(at, shape, order="F")))
        return f"{said}[{where}]" if where else said

    def sides(self, points: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        """The values of all sides at the clients' points: row 0 tails, row 1 heads, (2, size)."""
        return self.stacked.at(np.concatenate([points[name] for name in self.layout]))

    @cached_property
    def order_of_variables(self) -> dict[int, int]:
        """Id of a user's variable -> its place among all."""
        return {key: at for at, key in enumerate(self.form.homes)}

    @cached_property
    def limited(self) -> dict[Hashable, list[cp.Constraint]]:
        """Client -> where it is defined, of those that are not defined everywhere."""
        found: dict[Hashable, list[cp.Constraint]] = {}
        for subs in self.kinds:
            # What is asked of the first is told of all that have its structure
            for sub in subs if subs[0].client.domains else ():
                if rules := sub.client.domains:
                    found[sub.name] = rules
        return {name: found[name] for name in self if name in found} if found else found

    def shared(self, vectors: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """What couplings share where the user's variables are these vectors, by id of variable."""
        known = [v for v in self._makers if v.id in vectors]
        found: dict[int, np.ndarray] = {}
        affine, rest = self._made
        if len(known) < len(self._makers):
            affine, rest = None, self.derived
        if affine is not None:
            parts, (matrix, offset) = affine
            values = matrix @ np.concatenate([vectors[v.id] for v in known]) + offset
            found |= {key: values[part] for key, part in parts.items()}
        if rest:
            at = [(v, vectors[v.id].reshape(v.shape, order="F")) for v in known]
            with holding(at):
                found |= {key: flat(value_of(expression)) for key, expression in rest.items()}
        return found

    @cached_property
    def _makers(self) -> list[cp.Variable]:
        """The user's variables that what couplings share is made of."""
        return list({v.id: v for e in self.derived.values() for v in e.variables()}.values())

    @cached_property
    def _made(self) -> tuple[Any, dict[int, cp.Expression]]:
        """What couplings share as one affine map of these; and what is none, or has Parameters."""
        each = self.derived.items()
        affine = {k: e for k, e in each if e.is_affine() and e.is_real() and not e.parameters()}
        if not all(v.is_real() for v in self._makers):
            affine = {}
        rest = {key: e for key, e in each if key not in affine}
        if not affine:
            return None, rest
        stops = zip(affine.items(), accumulate(e.size for e in affine.values()), strict=True)
        parts = {key: slice(stop - e.size, stop) for (key, e), stop in stops}
        return (parts, stacked_map([*affine.values()], self._makers)), rest

    @cached_property
    def constrained(self) -> frozenset[Hashable]:
        """The clients that have constraints of their own."""
        held = (subs for subs in self.kinds if subs[0].is_constrained)
        return frozenset(sub.name for subs in held for sub in subs)

    @property
    def stacked(self) -> StackedSides:
        """The sides of all edges as one map; made anew with one of them."""
        if self._stacked is None or not self._stacked.holds:
            self._stacked = StackedSides(list(self.values()), [self.columns[name] for name in self])
        return self._stacked


def _touching(
    names: Iterable[Hashable], edges: Sequence[Edge], parts: Sequence[slice]
) -> dict[Hashable, tuple[list[Edge], list[np.ndarray]]]:
    """Client -> its edges, and where the entries of each lie in the vectors over all edges."""
    found: dict[Hashable, tuple[list[Edge], list[np.ndarray]]] = {n: ([], []) for n in names}
    every = np.arange(parts[-1].stop)
    for edge, part in zip(edges, parts, strict=True):
        entries = every[part]
        for name in edge.ends:
            mine, places = found[name]
            mine.append(edge)
            places.append(entries)
    return found


def _sum(parts: tuple[Any, ...]) -> Any:
    return sum(parts[1:], start=parts[0])
