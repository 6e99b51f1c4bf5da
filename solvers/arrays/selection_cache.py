"""LRU cache keyed by a selection of clients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

KEPT = 1024
"""How many selections of clients are kept ready."""

COPIED = 2
"""How many times over they may hold the clients, so that memory stays within this factor."""

Which = TypeVar("Which", np.ndarray, tuple[Hashable, ...])
Made = TypeVar("Made")


class SelectionCache(Generic[Which, Made]):
    """LRU cache keyed by a selection of clients, filled when a selection is seen again.

    Parameters
    ----------
    make : callable
        From an array of positions, or a tuple of names.
    size : int
        How many clients there are.
    copied : int
        How many times over the clients may be held.
    """

    def __init__(self, make: Callable[[Which], Made], size: int, copied: int = COPIED) -> None:
        self._make, self._room, self._held = make, copied * size, 0
        self._found: OrderedDict[Hashable, tuple[Made, int]] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, which: Which) -> bool:
        """Whether this is the first time that the selection is seen, which it is from now on."""
        return self._is_new(hash(_key(which)))

    def _is_new(self, key: int) -> bool:
        if key in self._seen:
            self._seen.move_to_end(key)
            return False
        self._seen[key] = None
        if len(self._seen) > 2 * KEPT:
            self._seen.popitem(last=False)
        return True

    def __call__(self, which: Which) -> Made:
        """Make it, or find it."""
        key = _key(which)
        known = self._found.get(key)
        if known is not None:
            self._found.move_to_end(key)
            return known[0]
        made = self._make(which)
        if not self._is_new(hash(key)):
            self._found[key] = made, len(which)
            self._held += len(which)
            while len(self._found) > KEPT or self._held > self._room:
                _, (_, dropped) = self._found.popitem(last=False)
                self._held -= dropped
        return made


def _key(which: np.ndarray | tuple[Hashable, ...]) -> Hashable:
    return which.tobytes() if isinstance(which, np.ndarray) else which
