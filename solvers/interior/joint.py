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
            tree, solve = self._forest
            found[self._tree] = solve(tree @ (clients - self.rows.T @ rest))
        return found

    @cached_property
    def _forest(self) -> tuple[Any, Any]:
        """The rows of the forest, and a solve with their products."""
        tree = sp.csr_array(self._all[self._tree])
        return tree, splu(sp.csc_array(tree @ tree.T)).solve


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
        groups = [[name] for name in forms] if is_apart else [list(forms)]
        rows = sp.csr_array(
            agreement.rows
            @ sp.csr_array(
                (np.ones(agreement.of.size), (np.arange(agreement.of.size), agreement.of)),
                shape=(agreement.of.size, agreement.count),
            )
        )
        size, places, is_multiplier = agreement.count, [], [np.zeros(agreement.count, bool)]
        for names in groups:
            known = np.arange(agreement.count)
            if is_apart:
                known = np.unique(agreement.of[compiled.columns[names[0]]])
            assembly = Assembly(known.size)
            for name in names:
                columns = np.searchsorted(known, agreement.of[compiled.columns[name]])
                assembly.add(name, forms[name], columns)
            if not is_apart and agreement.right.size:
                assembly.equate(rows, agreement.right, known)
            programme = assembly.programme()
            more = programme.size - known.size
            shared = np.ones(programme.size + programme.equal_right.size, bool)
            if is_apart:
                shared[known.size : programme.size] = False
                at, count = known, programme.equal_right.size
            else:
                at = np.concatenate([known, size + np.arange(more)])
                is_multiplier.append(np.zeros(more, bool))
                size, count = size + more, programme.equal_right.size
            at = np.concatenate([at, size + np.arange(count)])
            is_multiplier.append(np.ones(count, bool))
            size += count
            self._members.append((Participant(programme, shared), known, names))
            places.append(at)
        if is_apart and agreement.right.size:
            assembly = Assembly(agreement.count)
            assembly.equate(rows, agreement.right, np.arange(agreement.count))
            programme = assembly.programme()
            count = agreement.right.size
            shared = np.ones(agreement.count + count, bool)
            self._members.append((Participant(programme, shared), np.arange(agreement.count), []))
            places.append(np.concatenate([np.arange(agreement.count), size + np.arange(count)]))
            is_multiplier.append(np.ones(count, bool))
        self.coordinator = Coordinator(
            [one for one, _, _ in self._members],
            places,
            np.concatenate(is_multiplier),
            aggregator,
        )

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
            if count and (len(self._members) == 1 or not names):
                rest = equal[equal.size - count :]
                equal = equal[: equal.size - count]
            groups = {**groups, EQUAL: equal}
            for name in names:
                encoding, places = one.programme.places[name]
                values = [groups[p.key][p.rows] for p in places if p.rows.stop > p.rows.start]
                found[name] = encoding, np.concatenate([np.zeros(0), *values])
            x = one.x * one.columns / self.coordinator.tau
            extra = x[known.size :]
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
