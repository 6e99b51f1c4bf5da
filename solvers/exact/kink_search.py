r"""Exact searches along steps of many clients whose objectives are piecewise quadratic.

Along a step the slope of :math:`\tfrac12 x^\top H x + c^\top x + \sum_t e_t(x)`, see
:mod:`dald_model.solvers.exact.kinks`, is

.. math:: f(t) = f_0 + b t + \sum_r \delta_r \operatorname{clip}(p_r + \sigma_r t, \; l_r, \; h_r)

with :math:`\sigma_r \delta_r \ge 0`: it rises, linearly between the points where a row begins or
ceases to move. With these in order its zero is found at once, however stiff some rows are; halving
an interval took 20 evaluations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Rows of k clients along their steps, every array of shape (k, R).

    Attributes
    ----------
    pulled, stiff : ndarray
        The forces p before they are clipped, and how they change.
    change : ndarray
        How the values of the rows change.
    low, high : ndarray
        The limits of the forces.
    """

    pulled: np.ndarray
    stiff: np.ndarray
    change: np.ndarray
    low: np.ndarray
    high: np.ndarray


def zeros(first: np.ndarray, bend: np.ndarray, rows: Rows) -> np.ndarray:
    """Where within (0, 1] the slopes are zero, (k,); 1 where they are negative all the way.

    ``first`` are the slopes at 0, which are negative, and ``bend`` what they rise by without the
    rows.
    """
    moves = rows.stiff != 0
    scale = np.where(moves, rows.stiff, 1.0)
    ends = (rows.low - rows.pulled) / scale, (rows.high - rows.pulled) / scale
    begins, ceases = np.minimum(*ends), np.maximum(*ends)
    gains = np.where(moves, rows.stiff * rows.change, 0.0)
    rises = bend + (gains * ((begins <= 0) & (ceases > 0))).sum(axis=1)
    at, jumps = _in_order(
        np.concatenate([begins, ceases], axis=1), np.concatenate([gains, -gains], axis=1)
    )
    rises = np.concatenate([rises[:, None], rises[:, None] + np.cumsum(jumps, axis=1)], axis=1)
    lengths = np.diff(at, axis=1, prepend=0.0, append=1.0)
    slopes = first[:, None] + np.cumsum(rises * lengths, axis=1)
    own, last = np.arange(first.size), (slopes >= 0).argmax(axis=1)
    stop = np.concatenate([at, np.ones((first.size, 1))], axis=1)[own, last]
    over, rise = slopes[own, last], rises[own, last]
    back = np.divide(over, rise, out=np.zeros(first.size), where=(over >= 0) & (rise > 0))
    return np.where(over >= 0, stop - np.minimum(back, lengths[own, last]), 1.0)


def _in_order(at: np.ndarray, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of the points that lie within (0, 1), in order, with their jumps; then ones and zeros.

    Both of shape (k, the most points of a client).
    """
    clients, columns = np.nonzero((at > 0) & (at < 1) & (jumps != 0))
    counts = np.bincount(clients, minlength=len(at))
    where = clients, np.arange(clients.size) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.ones((len(at), int(counts.max(initial=0))))
    own = np.zeros_like(found)
    found[where], own[where] = at[clients, columns], jumps[clients, columns]
    order = np.argsort(found, axis=1)
    return np.take_along_axis(found, order, 1), np.take_along_axis(own, order, 1)
