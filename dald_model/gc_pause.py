"""A pause of garbage collection, for work that makes many objects which all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Suspend garbage collection.

    Python's collector goes through all objects again and again while their number grows: it took
    60 % of the time of compiling 10,000 clients, and found nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
