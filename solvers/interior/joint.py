"""The program of all clients at once: shared variables are one where a consensus says they agree.

Consensus constraints that say that two variables are equal make them one; the others stay as rows,
and their multipliers are those of the interior point. The multipliers of the ones that vanished
follow from the clients' prices along a spanning forest of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.sparse.linalg import splu

from dald_model.solvers.interior.coordinator import Aggregator, Coordinator
from dald_model.solvers.interior.participant import Participant
from dald_model.solvers.interior.programme import EQUAL, Assembly, Programme

SAME = 1e-12
"""Relative difference of two coefficients that are the same number."""


class Agreement:
    """Which variables of all clients are one.

    Attributes
    ----------
    count : int
        Variables after those that agree became one.
    of : ndarray of int, (n,)
        The number of each variable of a client.
    rows, right : csr_array and ndarray
        What else is agreed, over the clients' variables.
    """

    def __init__(self, matrix: Any, offset: np.ndarray) -> None:
        half = offset.size // 2
        apart: Any = sp.csr_array(matrix[:half] - matrix[half:])
        self._all = apart
        right = offset[half:] - offset[:half]
        apart.eliminate_zeros()
        pairs = np.flatnonzero(np.diff(apart.indptr) == 2)
        one, two = apart.indptr[pairs], apart.indptr[pairs] + 1
        sizes = np.abs(apart.data[one])
        is_same = np.abs(apart.data[one] + apart.data[two]) <= SAME * sizes
        is_same &= right[pairs] == 0
        pairs, one, two = pairs[is_same], one[is_same], two[is_same]
        width = apart.shape[1]
        ends = apart.indices[one], apart.indices[two]
        graph = sp.csr_array((np.ones(pairs.size), ends), shape=(width, width))
        self.count, self.of = connected_components(graph, directed=False)
        self._rest = np.setdiff1d(np.arange(half), pairs)
        self.rows, self.right = apart[self._rest], right[self._rest]
        # A spanning forest, in which each pair has a number that its edge is found by
        numbers = sp.coo_array((np.arange(1.0, pairs.size + 1), ends), shape=(width, width))
        numbers.sum_duplicates()
        found = minimum_spanning_tree(sp.csr_array(numbers)).data.astype(int) - 1
        self._tree = pairs[found[found < pairs.size]]

    def prices(self, clients: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """The multipliers of all consensus constraints, from each variable's price, (n,).

        The price is what the client's own slopes leave: C' mu of it.
        """
        found = np.zeros(self._all.shape[0])
        found[self._rest] = rest
        if self._tree.size:
            kept, solve = self._forest
            found[self._tree] = solve((clients - self.rows.T @ rest)[kept])
        return found

    @cached_property
    def _forest(self) -> tuple[np.ndarray, Any]:
        """All variables in the forest but one of each tree, and a solve for their prices.

        The one with the most edges is left out, a server's of a star, as its price follows from the
        others': what is left has as many entries as edges, where a product of the rows is dense.
        """
        tree = sp.csc_array(self._all[self._tree])
        degree = np.diff(tree.indptr)
        order = np.argsort(-degree, kind="stable")
        roots = order[np.unique(self.of[order], return_index=True)[1]]
        kept = np.setdiff1d(np.flatnonzero(degree), roots)
        return kept, splu(sp.csc_array(tree[:, kept].T)).solve


class Joint:
    """The interior point of a compiled model, in this process.

    Parameters
    ----------
    compiled : Decomposition
    is_apart : bool
        Whether each client is a participant of its own, as by messages; else one has all rows.
    """

    def __init__(
        self, compiled: Any, *, is_apart: bool = False, aggregator: Aggregator | None = None
    ) -> None:
        stacked, self._columns = compiled.stacked, compiled.columns
        self._told: dict[tuple[Hashable, ...], Programme] = {}
        self.agreement = agreement = Agreement(stacked.matrix, stacked.offset)
        self._members: list[tuple[Participant, np.ndarray, list[Hashable]]] = []
        self._forms = forms = {n: sub.form for n, sub in compiled.items() if sub.form is not None}
        count, of = agreement.count, agreement.of
        variables = np.arange(of.size)
        merged = sp.csr_array((np.ones(of.size), (variables, of)), shape=(of.size, count))
        rows = sp.csr_array(agreement.rows @ merged)
        seen = np.ones(count, dtype=bool)
        if is_apart:
            seen = np.bincount(of, minlength=count) > 1
            seen[rows.indices] = True
        self._index = np.cumsum(seen) - 1
        self._is_multiplier = [np.zeros(int(seen.sum()), dtype=bool)]
        self._places: list[np.ndarray] = []
        for names in [[name] for name in forms] if is_apart else [list(forms)]:
            own = [of[compiled.columns[name]] for name in names]
            known = np.unique(own[0]) if is_apart else np.arange(count)
            assembly = Assembly(known.size)
            for name, columns in zip(names, own, strict=True):
                assembly.add(name, forms[name], np.searchsorted(known, columns))
            if not is_apart and agreement.right.size:
                assembly.equate(rows, agreement.right, known)
            self._join(assembly.programme(), known, seen[known], names)
        if is_apart and agreement.right.size:
            known = np.flatnonzero(seen)
            assembly = Assembly(known.size)
            assembly.equate(rows[:, known], agreement.right, np.arange(known.size))
            self._join(assembly.programme(), known, seen[known], [])
        self._aggregator = aggregator

    @cached_property
    def coordinator(self) -> Coordinator:
        """Who adds, with all that was told before the first round."""
        return Coordinator(
            [one for one, _, _ in self._members],
            self._places,
            np.concatenate(self._is_multiplier),
            self._aggregator,
        )

    def _join(
        self, programme: Programme, known: np.ndarray, seen: np.ndarray, names: list[Hashable]
    ) -> None:
        """Number what a participant shows; what is beyond its variables others do not know of."""
        more, equal = programme.size - known.size, programme.equal_right.size
        beyond = np.full(more, bool(seen.all()) and len(names) > 1)
        shown = np.concatenate([seen, beyond])
        shared = np.concatenate([shown, _shown_multipliers(programme, shown)])
        new = np.concatenate([np.zeros(int(beyond.sum()), bool), np.ones(equal, bool)])
        new = new[np.concatenate([beyond[beyond], shared[programme.size :]])]
        first = sum(part.size for part in self._is_multiplier)
        at = np.concatenate([self._index[known[seen]], first + np.arange(new.size)])
        self._is_multiplier.append(new)
        self._places.append(at)
        self._members.append((Participant(programme, shared), known, names))

    @property
    def shown(self) -> dict[Hashable, int]:
        """Of the first client of each participant the number of unknowns that it shows."""
        return {names[0]: int(one.shared.sum()) for one, _, names in self._members if names}

    def point(self) -> np.ndarray:
        """The clients' variables, in the layout."""
        full = np.zeros(self.agreement.count)
        for one, known, _ in self._members:
            full[known] = (one.x * one.columns)[: known.size] / self.coordinator.tau
        return full[self.agreement.of]

    def multipliers(self) -> tuple[dict[Hashable, tuple[Any, np.ndarray]], np.ndarray]:
        """Of each client those of its own constraints, and those of all consensus constraints."""
        found: dict[Hashable, tuple[Any, np.ndarray]] = {}
        prices = np.zeros(self.agreement.of.size)
        rest = np.zeros(0)
        count = self.agreement.right.size
        for one, known, names in self._members:
            equal, groups = one.multipliers(self.coordinator.tau)
            split = one.programme.split
            equal = equal[: equal.size - split]
            if count and (len(self._members) == 1 or not names):
                rest = equal[equal.size - count :]
                equal = equal[: equal.size - count]
            groups = {**groups, EQUAL: equal}
            for name in names:
                encoding, places = one.programme.places[name]
                values = [groups[p.key][p.rows] for p in places if p.rows.stop > p.rows.start]
                found[name] = encoding, np.concatenate([np.zeros(0), *values])
            x = one.x * one.columns / self.coordinator.tau
            extra = x[known.size : x.size - split]
            mine = np.concatenate([[], *(self.agreement.of[self._columns[n]] for n in names)])
            where = np.searchsorted(known, mine.astype(int))
            slopes = self._alone(names).slopes(np.concatenate([x[where], extra]), equal, groups)
            at = 0
            for name in names:
                part = self._columns[name]
                size = part.stop - part.start
                prices[part] = -slopes[at : at + size]
                at += size
        return found, self.agreement.prices(prices, rest)

    def _alone(self, names: list[Hashable]) -> Programme:
        """The program of clients with variables of their own each, to tell their slopes apart."""
        key = tuple(names)
        if key not in self._told:
            sizes = [self._columns[name].stop - self._columns[name].start for name in names]
            assembly, at = Assembly(sum(sizes)), 0
            for name, size in zip(names, sizes, strict=True):
                assembly.add(name, self._forms[name], np.arange(at, at + size))
                at += size
            self._told[key] = assembly.programme(is_sparse=True)
        return self._told[key]

    def heaviest(self) -> Hashable:
        """The client with most of what multipliers prove of all right sides."""
        found: dict[Hashable, float] = {}
        for one, _, names in self._members:
            equal, groups = one.multipliers(1.0)
            groups = {**groups, EQUAL: equal}
            rights = {key: group.right for key, group in one.programme.groups.items()}
            rights[EQUAL] = one.programme.equal_right
            for name in names:
                _, places = one.programme.places[name]
                found[name] = sum(
                    float(np.abs(groups[p.key][p.rows] * rights[p.key][p.rows]).sum())
                    for p in places
                    if p.rows.stop > p.rows.start
                )
        return max(found, key=found.__getitem__)


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
