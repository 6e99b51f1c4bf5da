"""Deadline of a solve: the option ``time_limit``, asked between clients, told to native calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter as clock

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class TimeUpError(BaseException):
    """The time limit has passed; no ordinary exception, which a fallback would answer."""


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeUpError` from what asks, once so many seconds have passed; None is never.

    Examples
    --------
    >>> with within(1e-9):
    ...     try:
    ...         check_time()
    ...     except TimeUpError:
    ...         print("time is up")
    time is up
    """
    before = _deadline.get()
    token = _deadline.set(before if seconds is None else min(before, clock() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def is_limited() -> bool:
    """Whether there is a deadline."""
    return _deadline.get() < math.inf


def seconds_left() -> float:
    """Seconds to the deadline; infinite where there is none."""
    deadline = _deadline.get()
    return deadline if deadline == math.inf else deadline - clock()


def check_time() -> None:
    """Raise :class:`TimeUpError` where the deadline has passed."""
    if seconds_left() <= 0:
        raise TimeUpError
