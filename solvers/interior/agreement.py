"""Which variables of all clients are one, where a consensus says they agree.

Consensus constraints that say that two variables are equal make them one; the others stay as rows,
and their multipliers are those of the interior point. The multipliers of the ones that vanished
follow from the clients' prices along a spanning forest of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.sparse.linalg import splu

from dald_model.sizes import SUMMED


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
        is_same = np.abs(apart.data[one] + apart.data[two]) <= SUMMED * sizes
        is_same &= right[pairs] == 0
        pairs, one, two = pairs[is_same], one[is_same], two[is_same]
        width = apart.shape[1]
        ends = apart.indices[one], apart.indices[two]
        graph = sp.csr_array((np.ones(pairs.size), ends), shape=(width, width))
        self.count, self.of = connected_components(graph, directed=False)
        is_left = np.ones(half, dtype=bool)
        is_left[pairs] = False
        self._rest = np.flatnonzero(is_left)
        self.rows, self.right = apart[self._rest], right[self._rest]
        self._tree = pairs
        if pairs.size == width - self.count:  # no more than it takes: a forest
            return
        # A spanning forest, in which each pair has a number that its edge is found by
        numbers = sp.coo_array((np.arange(1.0, pairs.size + 1), ends), shape=(width, width))
        numbers.sum_duplicates()
        found = minimum_spanning_tree(sp.csr_array(numbers)).data.astype(int) - 1
        self._tree = pairs[found[found < pairs.size]]

    @classmethod
    def of_sides(cls, sides: Any) -> Agreement:
        """That of a model's sides, made once."""
        return sides.known("agreement", lambda: cls(sides.matrix, sides.offset))

    @cached_property
    def seen(self) -> np.ndarray:
        """Which variables others than one client see: several have them, or a row is left of them.

        Shape (count,).
        """
        found = np.bincount(self.of, minlength=self.count) > 1
        found[self.of[self.rows.indices]] = True
        return found

    def prices(self, clients: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """The multipliers of all consensus constraints, from each variable's price, (n,).

        The price is what the client's own slopes leave: C' mu of it.
        """
        found = np.zeros(self._all.shape[0])
        found[self._rest] = rest
        if self._tree.size:
            kept, solve = self._forest
            found[self._tree] = solve((clients - self._across @ rest)[kept])
        return found

    @cached_property
    def _across(self) -> Any:
        return self.rows.T

    @cached_property
    def _forest(self) -> tuple[np.ndarray, Any]:
        """All variables in the forest but one of each tree, and a solve for their prices.

        The one with the most edges is left out, a server's of a star, as its price follows from the
        others': what is left has as many entries as edges, where a product of the rows is dense.
        """
        is_whole = self._tree.size == self._all.shape[0]
        tree = self._all if is_whole else self._all[self._tree]
        degree = np.bincount(tree.indices, minlength=tree.shape[1])
        order = np.argsort(-degree, kind="stable")
        roots = order[np.unique(self.of[order], return_index=True)[1]]
        is_kept = degree > 0
        is_kept[roots] = False
        kept = np.flatnonzero(is_kept)
        ends = is_kept[tree.indices]
        if np.count_nonzero(ends) == kept.size:
            # Stars, in which each edge has one end besides the middle
            places = (np.cumsum(is_kept) - 1)[tree.indices[ends]]
            sizes = tree.data[ends]
            return kept, lambda right: right[places] / sizes
        return kept, splu(sp.csc_array(sp.csc_array(tree)[:, kept].T)).solve
