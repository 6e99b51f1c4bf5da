"""Search along steps of many clients for where the slopes of convex objectives are nearly zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dald_model.sizes import HALVINGS

FLATTER_SLOPE = 0.1
"""Share of the slope that a step begins with which it may end with: Fletcher's fairly accurate
search (1987, section 2.6). With 0.5 kinks of data took up to 1.5 times the rounds."""

LEFT_AT_EDGE = 0.05
"""Share of the way to the edge of a domain that is left where the objective falls up to it, as
interior point methods leave 0.01 to 0.1: the next step is not short."""


def flattened(
    slope: Callable[[np.ndarray], np.ndarray],
    first: np.ndarray,
    last: np.ndarray,
    zero: Callable[..., np.ndarray] | None = None,
) -> np.ndarray:
    """Lengths in (0, 1] at which the slopes are at most ``FLATTER_SLOPE`` of those at 0, (k,).

    By regula falsi between a point before and one beyond the minimum, where the slope at an end
    that stays is halved (the Illinois rule), or by ``zero``, and by halves each third time and
    where the slope at the end is infinite, as beyond a domain.

    Parameters
    ----------
    slope : callable
        The slopes at lengths of shape (k,), not decreasing.
    first, last : ndarray, shape (k,)
        Those at 0, which are negative, and at 1.
    zero : callable
        From two lengths and the slopes there, four arrays (k,), to where it is about zero between
        them, if more is known of the slopes than these two: as where their kinks are.
    """
    allowed = FLATTER_SLOPE * np.abs(first)
    low, high, below, above = np.zeros(first.size), np.ones(first.size), first, last
    found, is_open = high.copy(), last > allowed
    was_low = np.zeros(first.size, dtype=bool)
    for turn in range(HALVINGS):
        if not is_open.any():
            break
        halves = ~np.isfinite(above) | (turn % 3 == 2)
        top = np.where(halves, 0.0, above)
        with np.errstate(divide="ignore", invalid="ignore"):  # of lengths that are found already
            line = (zero or _straight)(low, high, below, top)
        found = np.where(is_open, np.where(halves, (low + high) / 2, line), found)
        here = slope(found)
        is_low, stays = here < 0, (here < 0) == was_low
        low, high = np.where(is_low, found, low), np.where(is_low, high, found)
        kept = np.where(is_low, above, below)
        if zero is None:
            kept *= np.where(stays & (turn > 0), 0.5, 1.0)
        below, above = np.where(is_low, here, kept), np.where(is_low, kept, here)
        is_open, was_low = is_open & (np.abs(here) > allowed), is_low
        is_edge = is_open & np.isinf(above) & (high <= (1 + LEFT_AT_EDGE) * low)
        found, is_open = np.where(is_edge, low, found), is_open & ~is_edge
    return found


def _straight(
    low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray
) -> np.ndarray:
    """Where slopes that are linear between two lengths are zero."""
    return low - below / (above - below) * (high - low)


def turned(
    first: np.ndarray, steady: np.ndarray, bends: np.ndarray, spans: np.ndarray
) -> np.ndarray:
    """Lengths in (0, 1] at which slopes that are piecewise linear are zero, (k,).

    Parameters
    ----------
    first, steady : ndarray, shape (k,)
        The slopes at 0, which are negative, and what each rises by along all of its step.
    bends, spans : ndarray, shapes (k, R) and (2, k, R)
        What rows add to this, and between which lengths.
    """
    each = np.arange(first.size)[:, None]
    at = np.concatenate(np.minimum(np.maximum(np.sort(spans, axis=0), 0.0), 1.0), axis=1)
    order = at.argsort(axis=1)
    ends = np.concatenate([at[each, order], np.ones(each.shape)], axis=1)
    turns = np.concatenate([bends, -bends], axis=1)[each, order]
    rates = np.add.accumulate(np.concatenate([steady[:, None], turns], axis=1), axis=1)
    widths = ends.copy()
    widths[:, 1:] -= ends[:, :-1]
    slopes = first[:, None] + np.add.accumulate(rates * widths, axis=1)
    place = each, (slopes >= 0).argmax(axis=1)[:, None]
    return (ends[place] - slopes[place] / rates[place])[:, 0]
