"""Reductions over all clients and edges: maxima, norms, products and flags.

In one process they are numpy's. Where processes are peers, each has the state of its own clients
and of the edges that touch them, and reduces with all others (:mod:`dald_model.coordinate.peers`):
the loop decides by such numbers alone, so every process follows the same rounds, and none has the
state of all.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dald_model.coordinate.status import Termination


class Reductions(Protocol):
    """Reductions that the loop needs."""

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
        """Whether a flag holds in any process."""
        ...

    def agreed(self, termination: Termination) -> Termination:
        """The end of the run in all processes, where a client failed in one."""
        ...


class LocalReductions:
    """Reductions where all clients are in this process."""

    def largest(self, table: np.ndarray) -> np.ndarray:
        return np.maximum.reduce(table, axis=1, keepdims=True)

    def norm(self, values: np.ndarray) -> np.floating:
        return np.linalg.norm(values)

    def products(self, tables: np.ndarray, values: np.ndarray) -> np.ndarray:
        return tables.reshape(len(tables), -1) @ values.reshape(-1)

    def any(self, flag: bool) -> bool:
        return flag

    def agreed(self, termination: Termination) -> Termination:
        return termination


LOCAL = LocalReductions()
