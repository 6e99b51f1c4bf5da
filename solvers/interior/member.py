"""Clients of an interior point where their data are, and what they answer at the end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.solvers.base import NOTHING, Encoding
from dald_model.solvers.interior.assembly import Assembly, are_read
from dald_model.solvers.interior.forms import batches_of, of_each
from dald_model.solvers.interior.participant import Participant
from dald_model.solvers.interior.programme import EQUAL, Programme


class Answer(NamedTuple):
    """Where clients are, in the user's units, one after the other.

    Attributes
    ----------
    points : ndarray
        Their variables.
    prices : ndarray
        What the slopes of each leave of its Lagrangian, for its consensus constraints to balance.
    multipliers : ndarray
        Those of their own constraints, and of their kinks where these are told.
    rest : ndarray
        Those of rows that are no client's.
    losses, spare : ndarray
        Of each client, where kinks are told; see :class:`dald_model.solvers.base.Tangents`.
    """

    points: np.ndarray
    prices: np.ndarray
    multipliers: np.ndarray
    rest: np.ndarray
    losses: np.ndarray = NOTHING
    spare: np.ndarray = NOTHING


class Sizes(NamedTuple):
    """Of members: unknowns that they show, entries of their points, multipliers of their own."""

    k: int
    points: int
    rows: int


class Seen(NamedTuple):
    """What a coordinator is told of members before the first round.

    Attributes
    ----------
    multipliers : int
        How many of the unknowns that they show are multipliers, after the variables.
    is_linear : bool
    encodings, heights : list
        Of each client, and how many multipliers of its own it has.
    """

    multipliers: int
    is_linear: bool
    encodings: list[Encoding]
    heights: list[int]


class Member(Participant):
    """Clients that are one participant: one by messages, in one process all of them.

    Parameters
    ----------
    forms : dict
        Client -> its form.
    columns : dict
        Client -> the numbers of its variables, (m,).
    seen : ndarray of bool, (n,)
        Which of these variables others see.
    agreed : tuple or None
        Rows and right side over the variables that are no client's.
    tells_kinks : bool
        Whether they answer with the multipliers of the arguments of kinks and balls, which may be
        one for each record of data.
    takes_jumps : bool
        See :class:`.assembly.Assembly`.

    Raises
    ------
    NotImplementedError
        Naming a cone that there is no interior point for.
    """

    def __init__(
        self,
        forms: Mapping[Hashable, Form],
        columns: Mapping[Hashable, np.ndarray],
        seen: np.ndarray,
        agreed: tuple[Any, np.ndarray] | None = None,
        *,
        tells_kinks: bool = False,
        takes_jumps: bool = False,
    ) -> None:
        self._forms, self._of, self._size = forms, columns, seen.size
        self._agreement, self._agreed = agreed, 0 if agreed is None else agreed[1].size
        self._tells_kinks, self._takes_jumps = tells_kinks, takes_jumps
        programme = self._assembled(forms)
        # All is shared in one process, where one participant has the rows of all
        beyond = np.full(programme.size - seen.size, bool(seen.all()) and len(forms) > 1)
        shown = np.concatenate([seen, beyond])
        shared = np.concatenate([shown, _shown_multipliers(programme, shown)])
        super().__init__(programme, shared)
        self._told = {
            name: [p for p in programme.places[name][1] if tells_kinks or not p.is_argument]
            for name in forms
        }
        heights = [[p.rows.size for p in places] for places in self._told.values()]
        self.seen = Seen(
            int(shared[shown.size :].sum()),
            self.is_linear,
            [programme.places[name][0] for name in forms],
            [sum(each) for each in heights],
        )
        width = sum(own.size for own in columns.values())
        self.sizes = Sizes(int(shared.sum()), width, sum(self.seen.heights))

    def _assembled(self, forms: Mapping[Hashable, Form]) -> Programme:
        """The program of all clients."""
        assembly = Assembly(self._size, self._takes_jumps)
        assembly.enter(forms, self._of)
        if self._agreement is not None:
            assembly.equate(*self._agreement, np.arange(self._size))
        return assembly.programme()

    def take(self, forms: Mapping[Hashable, Form]) -> bool:
        """Take other numbers of the same clients; whether nothing else is other."""
        before, alone = self._alone, None
        numbers, together = before.numbers, batches_of(forms)
        if numbers is not None and all(one in together for one in numbers.batches):
            now, then = ([one[name] for name in numbers.names] for one in (forms, self._forms))
            alone = before.again(now, then)
            if alone is not None and before.smooth:
                is_read = are_read(now, takes_jumps=self._takes_jumps)
                # Defined at zero as before
                alone = alone if np.array_equal(numbers.is_read, is_read) else None
        if alone is not None:
            beyond = np.arange(alone.size - self._numbered.size)
            of = np.concatenate([self._numbered, self._size + beyond])
            self.programme = self.programme.with_numbers(alone, before, of)
        else:
            alone = self._by_itself(forms)
            if not (alone.is_like(before) and self.renew(self._assembled(forms))):
                return False
            self.__dict__.pop("_is_split", None)
        self._forms, self._alone = forms, alone
        return True

    def answer(self, tau: float) -> Answer:
        """What the clients have at this point over tau, in the user's units."""
        program = self.programme
        equal, groups = self.multipliers(tau)
        equal = equal[: equal.size - program.split]
        kept = equal.size - self._agreed
        equal, rest = equal[:kept], equal[kept:]
        x = self.x * self.columns / tau
        points, extra = x[self._numbered], x[self._size : x.size - program.split]
        groups = self._alone.limited({**groups, EQUAL: equal})
        rows, signs = self._told_rows
        told = np.concatenate([*groups.values()])[rows] * signs
        if not self._tells_kinks:
            slopes = self._alone.slopes(np.concatenate([points, extra]), groups)
            return Answer(points, -slopes[: points.size], told, rest)
        slopes, losses, spare = self._alone.tangents(points, groups)
        losses = np.where(self._is_split, losses, np.nan)
        return Answer(points, -slopes, told, rest, losses, spare)

    def weights(self) -> np.ndarray:
        """Of each client how much its multipliers prove of all right sides."""
        equal, groups = self.multipliers(1.0)
        groups = {**groups, EQUAL: equal}
        rights = {key: group.right for key, group in self.programme.groups.items()}
        rights[EQUAL] = self.programme.equal_right
        found = [
            sum(
                float(np.abs(groups[p.key][p.rows] * rights[p.key][p.rows]).sum())
                for p in self.programme.places[name][1]
                if p.rows.size and not p.is_argument
            )
            for name in self._forms
        ]
        return np.array(found)

    @cached_property
    def _numbered(self) -> np.ndarray:
        """The numbers of the clients' variables, one client after the other."""
        return np.concatenate([np.zeros(0, dtype=int), *self._of.values()])

    @cached_property
    def _told_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the groups' multipliers, equalities' last, those that clients tell, and the signs."""
        heights = {key: group.right.size for key, group in self.programme.groups.items()}
        stops = np.cumsum([0, *heights.values()]).tolist()
        starts = dict(zip([*heights, EQUAL], stops, strict=True))
        told = [place for places in self._told.values() for place in places if place.rows.size]
        rows = [starts[place.key] + place.rows for place in told]
        signs = [np.full(place.rows.size, -1.0 if place.is_argument else 1.0) for place in told]
        nothing = np.zeros(0, dtype=int)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *signs])

    @cached_property
    def _alone(self) -> Programme:
        """The program of the clients with variables of their own, to tell their slopes apart."""
        return self._by_itself(self._forms)

    @cached_property
    def _is_split(self) -> list[bool]:
        """Of each client whether its objective is all in quadratic and terms of its own variables.

        Of these forms, which :meth:`take` makes others.
        """
        return of_each(
            self._forms,
            lambda form: form.valued and all(t.matrix.shape[1] == form.size for t in form.terms),
        )

    def _by_itself(self, forms: Mapping[Hashable, Form]) -> Programme:
        stops = np.cumsum([0, *(own.size for own in self._of.values())])
        assembly = Assembly(int(stops[-1]), self._takes_jumps)
        each, ends = np.arange(stops[-1]), stops.tolist()
        apart = [each[at:to] for at, to in pairwise(ends)]
        assembly.enter(forms, dict(zip(self._of, apart, strict=True)))
        return assembly.programme(is_apart=True)


def _shown_multipliers(programme: Programme, shown: np.ndarray) -> np.ndarray:
    """Of which equalities the multipliers are shown: those that hold no variable that is not.

    All of them where the hidden variables do not determine them, which could not be eliminated.
    """
    count = programme.equal_right.size
    if shown.all() or not count:
        return np.ones(count, dtype=bool)
    hidden = programme.equal.matrix[:, np.flatnonzero(~shown)]
    dense = hidden.toarray() if sp.issparse(hidden) else np.asarray(hidden)
    found: np.ndarray = np.logical_not(dense.any(axis=1))
    if np.linalg.matrix_rank(dense[~found]) < np.count_nonzero(~found):
        return np.ones(count, dtype=bool)
    return found
