r"""A better point than an answer, along the valley of all smooth clients together: a refutation.

What is proved of an answer is proved within a box. Where curvature is small some way the objective
may fall for longer than any box reaches, by as little as no slope shows: with g the slopes of
:math:`F = \sum_i f_i` along what clients have in common, H its Hessian there and D the roots of its
diagonal, F is tried along

.. math:: d = -D^{-1} (D^{-1} H D^{-1} + \delta I)^{-1} D^{-1} g

at many times d. A point that is better by more than a gap may be proves an answer wrong, whatever
box and slopes say. Nothing is said where a client has constraints or kinks, where edges are more
than ties of single entries, or of more than a thousand entries.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts
from dald_model.compile.decomposition import Decomposition

DAMPED = 1e-10
"""delta, with diagonals of one. Of three valleys of Huber losses (condition 1e8 to 1e12) 1e-8 and
1e-10 find half of what there is to gain and more; with 1e-12 the way is of rounding in two."""
ROUNDED = 1e-12
"""How far the two ends of an edge may move apart, as a share of how far they move."""
MOST = 1_000
"""Entries up to which a valley is sought: the matrix is dense."""
TIMES = 4.0 ** np.arange(-8, 16)
"""How many times d are tried: short of what no curvature would have ended, and far beyond."""


def fall_along_valley(
    compiled: Decomposition, parts: Parts, at: np.ndarray, enough: float
) -> float:
    """By how much a point is better than another for certain, or zero.

    Zero where it gains no more than ``enough``; not sought where Newton's step at the point would
    gain no more.
    """
    ties = Alike.by_edges(compiled)
    if parts.cones or not parts.groups or ties.count > MOST:
        return 0.0
    slopes, bent = np.zeros(ties.count), np.zeros((ties.count, ties.count))
    for group in parts.groups:
        columns = group.columns
        to, units = ties.group[columns], ties.units[columns]
        np.add.at(slopes, to, units * group.gradients(at[columns]))
        for part, matrices in group.hessians(at[columns]):
            own = units[part]
            where = to[part, :, None], to[part, None, :]
            np.add.at(bent, where, own[:, :, None] * matrices * own[:, None, :])
    roots = np.sqrt(np.diagonal(bent))
    roots = np.where(roots > 0, roots, 1.0)
    try:
        factor = cho_factor(bent / np.outer(roots, roots) + DAMPED * np.eye(roots.size))
    except (LinAlgError, ValueError):  # not finite, or curvature below what rounding leaves
        return 0.0
    step = -cho_solve(factor, slopes / roots) / roots
    move = ties.units * step[ties.group]
    if not -slopes @ step > enough or not _keeps_edges(compiled, move):
        return 0.0
    moves = TIMES[:, None] * move
    falls = [
        sum(one.sure_falls(at[one.columns], to[one.columns]).sum() for one in parts.groups)
        for to in at + moves
    ]
    most = float(np.fmax.reduce(falls, initial=0.0))
    return most if most > enough else 0.0


def _keeps_edges(compiled: Decomposition, move: np.ndarray) -> bool:
    tails, heads = (compiled.stacked.matrix @ move).reshape(2, -1)
    return np.allclose(tails, heads, rtol=ROUNDED, atol=0.0)
