r"""Primal and dual residual of a round, equations (A1-7), (A1-8), (A2-6) and (A2-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dald_model.coordinate.state import State
from dald_model.schedule.moment import Residuals

SHARE = 30.0
"""How many times its tolerance the sum over all entries may be, as a share of the variation of F.

The largest entry alone bounds that sum only by the number of entries.
"""
LEAST = 1e-3
"""Share of the edges' energies that the variation of F has at least: where all clients agree the
prices, which it is measured by otherwise, are zero."""


class Extremes(NamedTuple):
    r"""Residuals over some edges: one number each, or one a group of edges.

    The first four are the largest, the others sums. Lengths X, slopes M and kinks L are those of
    :class:`dald_model.coordinate.units.Units`, and
    :math:`s = 2 \rho^2 |\mathcal D|` is the violation of (A2-3).

    Attributes
    ----------
    primal, dual : ndarray
        :math:`|\mathcal C|` and :math:`|\mathcal D|`.
    primal_scaled, dual_scaled : ndarray
        :math:`|\mathcal C| / X`, and the larger of :math:`|\mathcal D| / X` and :math:`s / M`.
    disagreement : ndarray
        :math:`\sum (|\mu| + L) |\mathcal C|`: what the objective may change by when the clients
        agree.
    pull : ndarray
        :math:`\sum s X`: what it may fall by where the prices do not balance.
    variation : ndarray
        :math:`\sum |\mu| X`.
    """

    primal: np.ndarray
    dual: np.ndarray
    primal_scaled: np.ndarray
    dual_scaled: np.ndarray
    disagreement: np.ndarray
    pull: np.ndarray
    variation: np.ndarray


LARGEST = 4
"""The first so many fields of :class:`Extremes` are the largest of all edges."""


class Scales(NamedTuple):
    r"""What residuals of some edges are measured by, entry by entry.

    The prices are those that the clients balance, :math:`\mu + 2 \rho^2 \mathcal C`.
    """

    lengths: np.ndarray
    slopes: np.ndarray
    kinks: np.ndarray
    prices: np.ndarray


def extremes(
    gap: np.ndarray,
    moved: np.ndarray,
    stationarity: np.ndarray,
    scales: Scales,
    largest: Callable[[np.ndarray], np.ndarray],
    total: Callable[[np.ndarray], np.ndarray],
) -> Extremes:
    """Of edges with these absolute values of C, D and s.

    ``largest`` and ``total`` reduce tables with a row for each field: an array with an entry for
    each of the edges' entries.
    """
    prices, (lengths, slopes, kinks, _) = np.abs(scales.prices), scales
    table = np.empty((len(Extremes._fields), *gap.shape))
    table[0], table[1] = gap, moved
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        np.divide(gap, lengths, out=table[2])
        np.maximum(moved / lengths, stationarity / slopes, out=table[3])
        np.multiply(prices + kinks, gap, out=table[4])
        np.multiply(stationarity, lengths, out=table[5])
        np.multiply(prices, lengths, out=table[6])
        return Extremes(*largest(table[:LARGEST]), *total(table[LARGEST:]))


def combined(
    found: Extremes, energy: float, slack: np.ndarray, slack_scaled: np.ndarray
) -> list[Residuals]:
    """The residuals of some rounds from those of each, every argument of shape (rounds,).

    ``energy`` is the sum of the edges' energies, ``slack`` and ``slack_scaled`` what solvers that
    are not exact leave, in units of the gradient and of its natural slopes.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        allowed = SHARE * np.maximum(found.variation, LEAST * energy)
        primal = np.maximum(found.primal_scaled, found.disagreement / allowed)
        dual = np.maximum(found.dual_scaled, found.pull / allowed)
    columns = found.primal, found.dual, primal, np.maximum(dual, slack_scaled), slack
    return [Residuals(*row) for row in zip(*(one.tolist() for one in columns), strict=True)]


def residuals(state: State) -> Residuals:
    """The residuals of the current iterate, see :class:`Residuals`."""
    dual, units = state.dual, state.units
    found = extremes(
        np.abs(state.primal),
        np.abs(dual).max(axis=0),
        state.stationarity(dual).max(axis=0),
        Scales(units.lengths, units.slopes, units.kinks, state.estimate),
        lambda table: np.maximum.reduce(table, axis=1, keepdims=True),
        lambda table: np.add.reduce(table, axis=1, keepdims=True),
    )
    slack, slack_scaled = state.slack.max(axis=1, keepdims=True)
    return combined(found, units.energy, slack, slack_scaled)[0]
