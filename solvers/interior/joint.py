"""The program of all clients at once, and the coordinator that solves it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import ranges
from dald_model.solvers.base import NOTHING, Encoding, Multipliers, Tangents
from dald_model.solvers.interior.agreement import Agreement
from dald_model.solvers.interior.clients import Aggregator, Clients, Here
from dald_model.solvers.interior.coordinator import Coordinator
from dald_model.solvers.interior.forms import Forms
from dald_model.solvers.interior.member import Member, Seen, Sizes


class Opening(NamedTuple):
    """A client that is to be reached by messages: numbers of its variables, and which are seen."""

    columns: np.ndarray
    seen: np.ndarray


def opened(agreement: Agreement, part: slice) -> tuple[np.ndarray, Opening]:
    """Which variables a client has, and how they are its own."""
    mine = agreement.of[part]
    known = np.unique(mine)
    return known, Opening(np.searchsorted(known, mine), agreement.seen[known])


Reach = Callable[[Mapping[Hashable, Opening], Sequence[Member]], tuple[list[Seen], Clients]]
"""Opens clients that are elsewhere; gives what they tell, and how they and the members of this
process, which come after them, are reached."""


class _Place(NamedTuple):
    """Clients of one participant, and what they told."""

    names: list[Hashable]
    seen: Seen
    at: np.ndarray


class _Layout(NamedTuple):
    """Of each participant its clients and the columns of these; of what they told the multipliers.

    ``rows`` brings these into the layout, where each client has ``lengths`` in its ``encodings``.
    """

    places: list[tuple[np.ndarray, np.ndarray]]
    rows: np.ndarray
    lengths: np.ndarray
    encodings: np.ndarray


class Joint:
    """The interior point of a compiled model.

    Parameters
    ----------
    compiled : Decomposition
    aggregator : Aggregator or None
    kept : dict or None
        Of a coordinator whose run goes on.
    is_apart : bool
        Whether each client is a participant of its own, as by messages; else one has all rows.
    elsewhere : sequence of names
        Clients that are reached by messages, and
    reach : callable or None
        how.
    takes_jumps : bool
        See :class:`.assembly.Assembly`.

    Attributes
    ----------
    clients : Clients
    """

    def __init__(
        self,
        compiled: Any,
        aggregator: Aggregator | None = None,
        kept: Mapping[str, Any] | None = None,
        *,
        is_apart: bool = False,
        elsewhere: Sequence[Hashable] = (),
        reach: Reach | None = None,
        takes_jumps: bool = False,
    ) -> None:
        self.takes_jumps = takes_jumps
        self._columns, self._aggregator, self._kept = compiled.columns, aggregator, kept
        self.agreement = agreement = Agreement.of_sides(compiled.stacked)
        forms = forms_of(compiled)
        self._one: Member | None = None
        count, of = agreement.count, agreement.of
        merged = sp.csr_array((np.ones(of.size), (np.arange(of.size), of)), shape=(of.size, count))
        rows = sp.csr_array(agreement.rows @ merged)
        self.clients: Clients
        self._places: list[_Place] = []
        if is_apart:
            far = [name for name in compiled if name in set(elsewhere)]
            self._take_apart(forms, rows, far, reach)
        else:
            self._take_together(forms, rows)

    def _take_together(self, forms: Mapping[Hashable, Any], rows: sp.csr_array) -> None:
        """One participant that has all rows."""
        agreement = self.agreement
        own = {name: agreement.of[self._columns[name]] for name in forms}
        agreed = (rows, agreement.right) if agreement.right.size else None
        everything = np.ones(agreement.count, dtype=bool)
        how = {"tells_kinks": True, "takes_jumps": self.takes_jumps}
        one = Member(forms, own, everything, agreed, **how)
        self._one = one
        self.clients = Here([one])
        shown = int(one.shared.sum())
        self._places.append(_Place(list(forms), one.seen, np.arange(shown)))
        self._is_multiplier = np.arange(shown) >= shown - one.seen.multipliers

    def _take_apart(
        self,
        forms: Mapping[Hashable, Any],
        rows: sp.csr_array,
        far: Sequence[Hashable],
        reach: Reach | None,
    ) -> None:
        """A participant for each client, and one for what they agree on."""
        agreement, seen = self.agreement, self.agreement.seen
        index = np.cumsum(seen) - 1
        here: list[Member] = []
        openings: dict[Hashable, Opening] = {}
        places, names = [], []
        for name in [*far, *(name for name in forms if name not in far)]:
            known, opening = opened(agreement, self._columns[name])
            if name in far:
                openings[name] = opening
            else:
                here.append(Member({name: forms[name]}, {name: opening.columns}, opening.seen))
            places.append(index[known[seen[known]]])
            names.append([name])
        if agreement.right.size:
            known = np.flatnonzero(seen)
            agreed = (rows[:, known], agreement.right)
            here.append(Member({}, {}, np.ones(known.size, dtype=bool), agreed))
            places.append(index[known])
            names.append([])
        told: list[Seen] = []
        self.clients = Here(here)
        if reach is not None:
            told, self.clients = reach(openings, here)
        first = int(seen.sum())
        for mine, at, one in zip(names, places, [*told, *(m.seen for m in here)], strict=True):
            stop = first + one.multipliers
            self._places.append(_Place(mine, one, np.concatenate([at, np.arange(first, stop)])))
            first = stop
        self._is_multiplier = np.arange(first) >= int(seen.sum())

    @cached_property
    def coordinator(self) -> Coordinator:
        """Who adds, with all that was told before the first round."""
        places = [place.at for place in self._places]
        known = (self.clients, places, self._is_multiplier, self._aggregator)
        return Coordinator(*known, self._kept)

    @property
    def shown(self) -> dict[Hashable, Sizes]:
        """Of the first client of each participant what it shows."""
        found = {}
        for place in self._places:
            if place.names:
                parts = [self._columns[name] for name in place.names]
                points = sum(part.stop - part.start for part in parts)
                sizes = Sizes(place.at.size, points, sum(place.seen.heights))
                found[place.names[0]] = sizes
        return found

    def points(self) -> tuple[np.ndarray, ...]:
        """Where each participant is, if all are in this process and an active set says it."""
        if not isinstance(self.clients, Here):
            return ()
        return self.clients.points(self.coordinator.tau)

    @property
    def _sizes(self) -> list[int]:
        """Those of :meth:`points`; none where no active set says where cones are met."""
        return self.clients.sizes if isinstance(self.clients, Here) else []

    @property
    def iterate(self) -> tuple[float, tuple[Any, ...]] | None:
        """Where it is, for :meth:`go_back`; None where not all is one participant."""
        return None if self._one is None else (self.coordinator.tau, self._one.iterate)

    def go_back(self, iterate: tuple[float, tuple[Any, ...]]) -> None:
        """Be where it was before in this run."""
        assert self._one is not None
        self.coordinator.tau, its = iterate
        self._one.go_back(its)

    def renew(self, forms: Mapping[Hashable, Form]) -> bool:
        """Take other numbers of the same clients, if all are one; whether nothing else is other."""
        return self._one is not None and self._one.take(forms)

    def restart(self) -> None:
        """Begin in the middle of the constraints, in units of its own."""
        if self._one is None or not isinstance(self.clients, Here):
            raise TypeError("only a joint of one participant begins anew")
        is_balanced = self._one.restart()
        self.clients.renewed(keeps_units=is_balanced)
        self.coordinator.begin(is_balanced=is_balanced)

    def resume(self, points: Sequence[np.ndarray], at: np.ndarray) -> bool:
        """Hold the active set of an earlier run that ended at these variables, if it told its own.

        What it told of the same participants is taken; jumps begin at the variables alone.
        """
        if not points:
            return False
        coordinator = self.coordinator  # with which the participants have units
        sizes = self._sizes
        if not sizes:
            return False
        if [one.size for one in points] != sizes:
            if self._one is None or not self.takes_jumps:
                return False
            agreed = np.zeros(self.agreement.count)
            agreed[self.agreement.of] = at
            points = (self._one.around(agreed),)
        if self._one is not None and isinstance(self.clients, Here):
            self.clients.renewed(keeps_units=True)
            coordinator.rescale()
        coordinator.resume(points)
        return True

    def answer(self) -> tuple[Tangents, Multipliers, np.ndarray]:
        """The clients' variables in the layout with what is proved there.

        And the multipliers of their own constraints, in the layout, and those of all consensus
        constraints.
        """
        tau, agreement = self.coordinator.tau, self.agreement
        points, prices = np.zeros(agreement.of.size), np.zeros(agreement.of.size)
        shared = np.zeros(agreement.count)
        proved = np.zeros((2, len(self._columns)))
        told = self.clients.ask([[("answer", tau)] for _ in self._places])
        rest, layout = NOTHING, self._layout
        for (mine, columns), (one,) in zip(layout.places, told, strict=True):
            rest = one.rest if one.rest.size else rest
            proved[:, mine] = (one.losses, one.spare) if one.losses.size else [[np.nan], [0.0]]
            points[columns], prices[columns] = one.points, one.prices
            shared[agreement.of[columns]] = one.points
        values = np.concatenate([NOTHING, *(one.multipliers for (one,) in told)])[layout.rows]
        # A server has no variable of its own
        points = shared[agreement.of]
        held = Multipliers(values, layout.lengths, layout.encodings)
        return Tangents(points, -prices, *proved), held, agreement.prices(prices, rest)

    @cached_property
    def _layout(self) -> _Layout:
        """Where what clients answer lies."""
        order = {name: at for at, name in enumerate(self._columns)}
        found = []
        for place in self._places:
            parts = [self._columns[name] for name in place.names]
            starts = np.array([part.start for part in parts], dtype=int)
            columns = ranges(starts, np.array([part.stop for part in parts], dtype=int) - starts)
            found.append((np.array([order[name] for name in place.names], dtype=int), columns))
        places = np.concatenate([np.zeros(0, dtype=int), *(mine for mine, _ in found)])
        heights = np.array([n for place in self._places for n in place.seen.heights], dtype=int)
        lengths = np.zeros(len(order), dtype=int)
        encodings = np.full(len(order), Encoding.ROWS, dtype=np.uint8)
        lengths[places] = heights
        encodings[places] = [e for place in self._places for e in place.seen.encodings]
        by_place, starts = np.argsort(places), np.cumsum(heights) - heights
        return _Layout(found, ranges(starts[by_place], heights[by_place]), lengths, encodings)

    def heaviest(self) -> Hashable:
        """The client with most of what multipliers prove of all right sides."""
        told = self.clients.ask([[("weights",)] for _ in self._places])
        found = {
            name: float(weight)
            for place, (weights,) in zip(self._places, told, strict=True)
            for name, weight in zip(place.names, weights, strict=True)
        }
        return max(found, key=found.__getitem__)


def forms_of(compiled: Any) -> Forms:
    """The numbers of the clients that have any here."""
    pairs = ((name, sub.lowered) for name, sub in compiled.items())
    plain = [one for one in compiled.batches if one.forms.is_plain]
    return Forms({name: lowered for name, lowered in pairs if lowered is not None}, plain)
