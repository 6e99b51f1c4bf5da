"""State of Newton's method for many clients of one shape, and what a turn needs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.quadratic_step import StepMethod


class First(NamedTuple):
    """Points of the domains of clients, and what terms and smooth terms are there."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray


@dataclass
class TermGroup:
    r"""Clients of a session whose terms are in the same arrays, and :math:`w \varphi''` there.

    Attributes
    ----------
    clients : ndarray of int, shape (k,)
        Their positions in the session.
    terms : Terms
    first : First
        Where who is asked for nothing yet stands.
    curvatures, last_curvatures : ndarray, shape (k, arguments)
        At the points where H was taken, and at the last points.
    at_once : int
        How many of them are worked on together: their matrices stay in cache.
    """

    clients: np.ndarray
    terms: Terms
    first: First
    curvatures: np.ndarray
    last_curvatures: np.ndarray
    at_once: int


@dataclass
class NewtonState:
    """State of B clients between two turns."""

    points: np.ndarray
    values: np.ndarray
    smooth_gradients: np.ndarray
    rates: np.ndarray
    radii: np.ndarray
    spent: np.ndarray
    is_cold: np.ndarray
    is_stale: np.ndarray
    is_new: np.ndarray
    is_feasible: np.ndarray


class NewtonData(Protocol):
    """Data of a session that its turns use.

    Attributes
    ----------
    method : StepMethod
        Who takes the steps.
    rows : tuple of int
        Equalities, inequalities and balls of a client.
    price : float
        What a Hessian and its factor cost, in gradients.
    floor : float
        Steps between points below this size are rounding errors.
    hessians : ndarray, shape (B, m, m), or None
        Where steps are taken between points; None where there are neither rows nor kinks.
    quadratic : ndarray, shape (B, m, m), or None
    penalty : ndarray, shape (B, m) or (B, m, m)
        The augmented terms' K, or its diagonal.
    state : NewtonState
    """

    method: StepMethod
    rows: tuple[int, int, int]
    price: float
    floor: float
    hessians: np.ndarray | None
    quadratic: np.ndarray | None
    penalty: np.ndarray
    state: NewtonState
