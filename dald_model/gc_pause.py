"""A pause of garbage collection, for work that makes many objects which all stay."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


def gc_paused(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Suspend garbage collection while a function runs.

    Python's collector goes through all objects again and again while their number grows: it took
    60 % of the time of compiling 10,000 clients, and found nothing.
    """

    @wraps(function)
    def paused(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return paused
