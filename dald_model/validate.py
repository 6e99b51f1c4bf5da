"""Validate: checks of the numbers that a user gives, each with what was expected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dald_model.errors import OptionError


def check_positive(algorithm: Any, what: str, given: Any, note: str = "") -> None:
    """Refuse what is no positive finite number."""
    if isinstance(given, bool) or not (
        isinstance(given, float | int | np.number) and 0 < given < math.inf
    ):
        raise OptionError(
            f"{type(algorithm).__name__}: given {what}={given!r}, expected a positive number{note}"
        )


def check_whole(algorithm: Any, what: str, given: Any, least: int = 1) -> None:
    """Refuse what is no whole number from ``least`` on."""
    is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_whole or given < least:
        raise OptionError(
            f"{type(algorithm).__name__}: given {what}={given!r}, expected a whole number from "
            f"{least}"
        )


def check_draws(algorithm: Any, k: Any, seed: Any) -> None:
    """Refuse what says nothing of how many clients are drawn, and how."""
    check_whole(algorithm, "k", k)
    check_whole(algorithm, "seed", seed, 0)
