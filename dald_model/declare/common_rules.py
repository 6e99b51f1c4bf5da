"""Rules in common: constraints on shared variables that every client repeats.

N copies of one constraint have N multipliers of which only the sum is determined, and N active sets
to settle; one copy at the server has one. A constraint is held once if every client that uses its
variables states it, with the same numbers, and if what is left of each of these clients is bounded
below and bends. On 220 drawn models of 2 to 100 clients that took 0.94 to 0.60 times the rounds;
where objectives are hinges, flat without constraints, up to eight times as many, so these keep
theirs. Without a server constraints stay with the clients, too: held by one of them alone they took
as many rounds on rings, grids and chains of 20 and 100 clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cvxpy as cp

from dald_model._cvxpy import arguments
from dald_model.declare.client import Client
from dald_model.declare.consensus import Owners
from dald_model.declare.couplings import Coupling
from dald_model.declare.structure_key import frozen

OWN = -1
"""The place of a constraint that its client keeps."""


class CommonRules(NamedTuple):
    """Constraints that are held once for all clients that state them.

    Attributes
    ----------
    rules : tuple of cp.Constraint
        As the first of the clients states them.
    places : dict
        Client -> for each of its constraints the place among these rules, or :data:`OWN`.
    clients : dict
        The same clients with the constraints and the summands that they keep.
    cost : cp.Expression or None
        What is held of what they minimise, see :mod:`dald_model.declare.common_objective`.
    """

    rules: tuple[cp.Constraint, ...] = ()
    places: Mapping[Hashable, tuple[int, ...]] = {}
    clients: Mapping[Hashable, Client] = {}
    cost: cp.Expression | None = None

    def kept(self, name: Hashable, count: int) -> list[int]:
        """Which of its constraints, ``count`` that it states, a client keeps."""
        places = self.places.get(name, (OWN,) * count)
        return [at for at in range(count) if places[at] == OWN]

    def duals(
        self, own: Mapping[Hashable, Any], holder: Hashable, left: Collection[Hashable]
    ) -> Mapping[Hashable, Any]:
        """Client -> dual values of all that it states, from those of what it keeps.

        Those of a rule that is held for several clients are shared out equally among the clients
        that have not left.
        """
        if not self.rules:
            return own
        live = {name: places for name, places in self.places.items() if name not in left}
        counts = Counter(at for places in live.values() for at in places)
        held = own.get(holder, ())
        shares = [tuple(one / max(counts[at], 1) for one in rule) for at, rule in enumerate(held)]
        found = dict(own)
        for name, places in live.items():
            mine = own.get(name, ())
            if len(held) < len(self.rules) or len(mine) < places.count(OWN):
                found[name] = ()  # nothing is known of who was not solved
            else:
                kept = iter(mine)
                found[name] = tuple([next(kept) if at == OWN else shares[at] for at in places])
        return found


NOTHING = CommonRules()


@dataclass(frozen=True, eq=False, repr=False)
class RuleServer(Client):
    """A server that holds the rules that its clients have in common."""

    kind: ClassVar[str] = "server"


def common_rules(clients: Iterable[Client], owners: Owners) -> CommonRules:
    """The constraints that every client repeats, see the module.

    A client that would be left without one of its variables keeps its own copy as well. A site's
    constraints are its own: what it states is not known here, so nobody's are held for it; nor are
    those of a client that is not convex.
    """
    declared = {c.name: c for c in clients if c.kind != Coupling.kind}
    perhaps = {
        name: c.perhaps_common if c.is_convex else (None,) * len(c.constraints)
        for name, c in declared.items()
        if c.is_constrained
    }
    if not perhaps:
        return NOTHING
    shared = {key: [n for n in names if n in declared] for key, names in owners.items()}
    shared = {key: names for key, names in shared.items() if len(names) > 1}
    reader = Reader(shared)
    # Clients alike state the same objects
    alike: dict[int, list[Hashable]] = {}
    for name, stated in perhaps.items():
        alike.setdefault(id(stated), []).append(name)
    keys: dict[int, list[Hashable]] = {}
    stating: dict[Hashable, list[Hashable]] = {}
    rules: dict[Hashable, cp.Constraint] = {}
    for same, names in alike.items():
        stated = perhaps[names[0]]
        keys[same] = [None if rule is None else reader.key(rule) for rule in stated]
        for key, rule in zip(keys[same], stated, strict=True):
            if key is not None and rule is not None:
                stating.setdefault(key, []).extend(names)
                rules.setdefault(key, rule)
    places: dict[Hashable, int] = {}
    for key, names in stating.items():
        users = {name for v in rules[key].variables() for name in shared[v.id]}
        if users == set(names) and all(declared[name].does_without for name in names):
            places[key] = len(places)
    where = {
        same: tuple(OWN if key is None else places.get(key, OWN) for key in found)
        for same, found in keys.items()
        if not places.keys().isdisjoint(found)
    }
    kept = {
        same: tuple(at for at, place in enumerate(found) if place == OWN)
        for same, found in where.items()
    }
    held = {name: where[id(stated)] for name, stated in perhaps.items() if id(stated) in where}
    left = {name: declared[name].keeping(kept[id(perhaps[name])]) for name in held}
    whole = [n for n, c in left.items() if len(c.variables) == len(declared[n].variables)]
    if not whole:
        return NOTHING
    given = {name: held[name] for name in whole}, {name: left[name] for name in whole}
    return CommonRules(tuple(rules[key] for key in places), *given)


class Reader:
    """Keys of what is on shared variables: equal for those that say the same."""

    def __init__(self, shared: Collection[int]) -> None:
        self._shared = shared
        self._known: dict[int, tuple[Any, Hashable]] = {}

    def key(self, rule: Any) -> Hashable:
        """The key of a constraint or an expression; None if it is on other variables."""
        known = self._known.get(id(rule))
        if known is None:
            variables = rule.variables()
            is_shared = bool(variables) and all(v.id in self._shared for v in variables)
            known = self._known[id(rule)] = rule, self._of(rule) if is_shared else None
        return known[1]

    def _of(self, part: Any) -> Hashable:
        if isinstance(part, cp.Variable | cp.Parameter):
            return part.id
        if isinstance(part, cp.Constant):
            return frozen(part.value)
        data = arguments(part) if isinstance(part, cp.Constraint) else part.get_data()
        return type(part), part.shape, frozen(data), *map(self._of, part.args)
