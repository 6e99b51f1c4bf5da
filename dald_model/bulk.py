"""Work that makes many objects which all stay, such as those of 100,000 clients."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 1_000_000
"""Blocks of memory in use from which on it takes long to go through them: thousands of clients."""

SHARE = 0.25
"""By how much they may become more until all are gone through, as in Python's own rule."""


class _Known:
    """What is known of the collector: blocks in use after it went through all, and at our end."""

    collected, left = 0, 0
    is_spared = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Have Python not look for unreachable circles meanwhile; there are hardly any to be found.

    It would go through all objects again and again while they become more: of 10,000 clients that
    are compiled it took 60 % of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _Known.is_spared:
            gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def spared() -> Iterator[None]:
    """Have Python look for unreachable circles only among objects that are made meanwhile.

    Only where there are many, and nobody else has frozen some. The rounds of 100,000 clients make
    few of them, but enough that the millions of objects of the clients would be gone through
    several times, for 11 of 62 seconds of their solve. As Python does not count objects that were
    spared, the next such solve goes through all if they have become many more.
    """
    used = sys.getallocatedblocks()
    if used < MANY or _Known.is_spared or not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    if _Known.left > (1 + SHARE) * _Known.collected:
        gc.collect()
        _Known.collected = sys.getallocatedblocks()
    gc.freeze()
    _Known.is_spared = True
    try:
        yield
    finally:
        _Known.is_spared = False
        gc.unfreeze()
        _Known.left = sys.getallocatedblocks()
