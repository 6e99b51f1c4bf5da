"""Answers that are none: where a solver's patience ended, of what falls for ever."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dald_model._cvxpy import Equality, Inequality
from dald_model.compile.subproblem import Subproblem
from dald_model.values import entries, evaluated, preserved, violated

SETTLED = 0.1
"""By how much an answer may differ when asked for less accurately, relative to itself; what it may
break its rules by, of how far they move; and a fall behind it, of the fall before it."""
NOISE = 1e-7
"""Of the fall on the way to an answer: what a solver does not resolve."""


def goes_on(sub: Subproblem, point: np.ndarray, start: np.ndarray | None = None) -> bool:
    """Whether the objective of a client falls behind an answer about as before it.

    Parameters
    ----------
    sub : Subproblem
    point : np.ndarray, (m,)
        What a solver called the client's answer.
    start : np.ndarray, (m,)
        From where the way to it is measured, default zero.

    Returns
    -------
    bool
        Whether twice the way keeps the constraints as well, and gains a share of ``SETTLED`` of
        what the second half of the way gained. A convex objective with a minimum gains nothing
        behind it; one such as -log x gains as much with each doubling.
    """
    begin = np.zeros(sub.size) if start is None else start
    away = point - begin
    first, half, here, twice = (_cost(sub, begin + share * away) for share in (0.0, 0.5, 1.0, 2.0))
    before = here - twice > SETTLED * (half - here) > 0.0
    # A start outside of the domain has no cost, and what is gained since then is not known
    is_noise = bool(np.isfinite(first) and here - twice <= NOISE * (first - here))
    return before and not is_noise and not breaks_rules(sub, begin + 2 * away, begin)


def breaks_rules(sub: Subproblem, point: np.ndarray, start: np.ndarray | None = None) -> bool:
    """Whether a constraint is broken by a share of how far it moves from the start, or zero."""
    begin = np.zeros(sub.size) if start is None else start
    worst = 0.0
    for rule in sub.client.constraints:
        parts = [rule.expr] if isinstance(rule, Inequality | Equality) else rule.args
        with _at(sub, begin):
            before = [entries(part) for part in parts]
        with _at(sub, point):
            moves = [np.abs(entries(p) - b).max() for p, b in zip(parts, before, strict=True)]
            broken, moved = float(np.max(violated(rule))), max(moves, default=0.0)
        if moved > 0:
            worst = max(worst, broken / moved)
    return worst > SETTLED


def _cost(sub: Subproblem, point: np.ndarray) -> float:
    with _at(sub, point):
        return evaluated(sub.client.cost)


@contextmanager
def _at(sub: Subproblem, point: np.ndarray) -> Iterator[None]:
    """Give a client's variables values for a while, and evaluate in silence."""
    with preserved(sub.variables), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for v in sub.variables:
            v.save_value(sub.spread(point)[v.id])
        yield
