"""Places of the entries of arrays, column by column, and of those that a selection takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=64)
def places(shape: tuple[int, ...]) -> np.ndarray:
    """Each entry's place in the flat column-major array, in an array of this shape."""
    found = np.arange(int(np.prod(shape))).reshape(shape, order="F")
    found.flags.writeable = False
    return found


def selected(node: Any) -> np.ndarray:
    """The places of the entries that a selection takes of its argument, in its own shape."""
    return np.asarray(node.numeric([places(node.args[0].shape)])).reshape(node.shape)
