r"""Primal and dual residuals of a round, equations (A1-7), (A1-8), (A2-6) and (A2-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dald_model.coordinate.state import State
from dald_model.schedule.moment import Residuals


class Extremes(NamedTuple):
    r"""Largest residuals over some edges: one number each, or one a group of edges.

    Attributes
    ----------
    primal, dual : ndarray
        :math:`|\mathcal C|` and :math:`|\mathcal D|`.
    primal_scaled, dual_scaled : ndarray
        The same relative to :math:`\max(1, |x|)`.
    stationarity : ndarray
        The violation of (A2-3) in units of :math:`\rho`.
    """

    primal: np.ndarray
    dual: np.ndarray
    primal_scaled: np.ndarray
    dual_scaled: np.ndarray
    stationarity: np.ndarray


def extremes(
    tails: np.ndarray,
    heads: np.ndarray,
    gap: np.ndarray,
    moved: np.ndarray,
    stationarity: np.ndarray,
    largest: Callable[[np.ndarray], np.ndarray],
) -> Extremes:
    """Of edges with these sides, the primal and dual residuals of these absolute values.

    ``largest`` gives the largest of an array with an entry for each of the edges' entries.
    """
    size = np.maximum(np.abs(tails), np.abs(heads))
    np.maximum(size, 1.0, out=size)
    return Extremes(
        largest(gap),
        largest(moved),
        largest(gap / size),
        largest(moved / size),
        largest(stationarity),
    )


def combined(
    found: Extremes, gradient_scale: np.ndarray, slack: np.ndarray, slack_scaled: np.ndarray
) -> list[Residuals]:
    r"""The residuals of some rounds from the extremes of each, every argument of shape (rounds,).

    ``gradient_scale`` is the largest gradient met so far in units of :math:`\rho`, ``slack`` and
    ``slack_scaled`` what an inexact solver leaves, in units of the gradient and of :math:`\rho`.
    """
    left = np.maximum(found.stationarity, slack_scaled)
    relative = np.divide(left, gradient_scale, out=np.zeros(left.size), where=gradient_scale > 0)
    dual = np.maximum(found.dual_scaled, relative)
    columns = found.primal, found.dual, found.primal_scaled, dual, slack
    return [Residuals(*row) for row in zip(*(one.tolist() for one in columns), strict=True)]


def residuals(state: State) -> Residuals:
    """The residuals of the current iterate, see :class:`Residuals`."""
    dual, (tails, heads) = state.dual, state.sides
    found = extremes(
        tails,
        heads,
        np.abs(state.primal),
        np.abs(dual).max(axis=0),
        state.stationarity(dual).max(axis=0),
        lambda entries: entries.max(keepdims=True),
    )
    scale = np.max(state.gradient_scale / state.rho, keepdims=True)
    slack, slack_scaled = state.slack.max(axis=1, keepdims=True)
    return combined(found, scale, slack, slack_scaled)[0]
