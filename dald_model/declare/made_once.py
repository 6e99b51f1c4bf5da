"""What was made of matrices that are never written to, known by these very matrices.

Couplings of one kind, such as the norms on the edges of a graph, are made of the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

KEPT = 256
"""How much is known at most."""
SMALL = 4096
"""Entries up to which matrices are held for it."""


class MadeOnce:
    """What was made, beside the matrices that it was made of, whose ids so stay theirs."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Sequence[Any], Any]] = {}

    def of(self, key: Hashable, matrices: Sequence[Any], make: Callable[[], Any]) -> Any:
        """What was made for this key, in which the matrices stand by their ids."""
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = make()
        if sum(one.size for one in matrices) <= SMALL:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[key] = matrices, found
        return found
