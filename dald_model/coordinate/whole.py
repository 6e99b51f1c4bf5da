"""What a run knows of the whole where each process has a part of it: norms, sums and ends.

In one process the part is the whole. Where processes are peers, each has the state of its own
clients and of the edges that touch them, and what the loop decides is decided of numbers that all
have: then every process follows the same rounds, and none has the state of all.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dald_model.coordinate.status import Termination


class Whole(Protocol):
    """What the loop asks of all clients and edges, wherever they are."""

    def largest(self, table: np.ndarray) -> np.ndarray:
        """The largest entry of each row, shape (rows, 1)."""
        ...

    def norm(self, values: np.ndarray) -> np.floating:
        """The Euclidean norm of values at all edges, (Q,), or at both ends of all, (2, Q)."""
        ...

    def products(self, tables: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The inner products of tables (k, 2, Q) with values at both ends of all edges, (k,)."""
        ...

    def any(self, flag: bool) -> bool:
        """Whether it holds anywhere."""
        ...

    def agreed(self, termination: Termination) -> Termination:
        """What ends the run everywhere, where a client failed somewhere."""
        ...


class Here:
    """All is in this process."""

    def largest(self, table: np.ndarray) -> np.ndarray:
        """See :class:`Whole`."""
        return np.maximum.reduce(table, axis=1, keepdims=True)

    def norm(self, values: np.ndarray) -> np.floating:
        """See :class:`Whole`."""
        return np.linalg.norm(values)

    def products(self, tables: np.ndarray, values: np.ndarray) -> np.ndarray:
        """See :class:`Whole`."""
        return tables.reshape(len(tables), -1) @ values.reshape(-1)

    def any(self, flag: bool) -> bool:
        """See :class:`Whole`."""
        return flag

    def agreed(self, termination: Termination) -> Termination:
        """See :class:`Whole`."""
        return termination


HERE = Here()
