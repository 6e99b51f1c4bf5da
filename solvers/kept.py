"""What is made of selections of clients, kept from the second time on that one is seen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from dald_model.solvers.factor import selection

KEPT = 1024
"""How many selections of clients are kept ready."""

COPIED = 2
"""How many times over they may hold the clients, so that memory stays within this factor."""

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """What is made of a selection of clients, kept where the selection is seen again.

    Parameters
    ----------
    make : callable
        From an array of positions.
    size : int
        How many clients there are.
    """

    def __init__(self, make: Callable[[np.ndarray], Made], size: int) -> None:
        self._make, self._size, self._held = make, size, 0
        self._found: OrderedDict[bytes, tuple[Made, int]] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, which: np.ndarray) -> bool:
        """Whether this is the first time that the selection is seen, which it is from now on."""
        key = hash(which.tobytes())
        if key in self._seen:
            self._seen.move_to_end(key)
            return False
        self._seen[key] = None
        if len(self._seen) > 2 * KEPT:
            self._seen.popitem(last=False)
        return True

    def __call__(self, which: np.ndarray) -> Made:
        """Make it, or find it."""
        key = which.tobytes()
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key][0]
        made = self._make(which)
        if not self.is_new(which):
            self._found[key] = made, which.size
            self._held += which.size
            while len(self._found) > KEPT or self._held > COPIED * self._size:
                _, (_, dropped) = self._found.popitem(last=False)
                self._held -= dropped
        return made


def is_run(which: np.ndarray) -> bool:
    """Whether the positions follow each other without a gap."""
    at = selection(which)
    return isinstance(at, slice) and (which.size == 1 or at.step == 1)
