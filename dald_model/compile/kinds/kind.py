r"""Kind: all that is particular to one kind of terms :math:`\sum_t w_t\, \varphi(A_t x + b_t)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.components import Component, Recognised

Evaluated = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, gradients and second derivatives."""

Line = Callable[[np.ndarray], np.ndarray]
"""A derivative along a line at some lengths t: t with axes of size 1 for those of u but the first,
to the same shape as the values."""


class Epigraph(NamedTuple):
    r"""Rows :math:`b - A v \in K` in Clarabel's form: A, b, and the cones of K."""

    rows: Any
    rhs: np.ndarray
    cones: list[tuple[str, int]]


class Kind:
    r"""One convex :math:`\varphi`; a subclass is a new kind of term.

    A smooth kind says how it is recognised (:meth:`read`) and what it is (:meth:`evaluate`, and
    :meth:`root` if it takes several arguments). Kinds that are not smooth are norms and balls of
    norms, since only these have step methods.

    Functions of one argument take arrays ``u`` of any shape; those of several, which are
    ``is_joint``, have the arguments in the last axis and ``parameter`` one axis less. Outside of
    its domain a value is infinite and the derivatives mean nothing.

    Attributes
    ----------
    name : str
        What users read; a packed client names its kinds by it.
    is_smooth : bool
        Whether the gradient is continuous.
    is_set : bool
        Whether it is a constraint, not a summand.
    is_polyhedral : bool
        Whether linear rows describe it.
    is_joint : bool
        Whether it takes several arguments.
    is_positive : bool
        Whether it is finite for positive arguments, or definite matrices, only.
    is_of_entries : bool
        Whether Newton's steps get stuck at the edge of the domain where an argument is the sum of
        several variables.
    most_curved : float
        The largest eigenvalue that its second derivative has anywhere; infinite where it has none.
    """

    name = ""
    is_smooth = True
    is_set = False
    is_polyhedral = False
    is_joint = False
    is_positive = False
    is_of_entries = False
    most_curved = math.inf

    def read(self, component: Component) -> Recognised | None:
        """What the component stands for if it is of this kind."""
        return None

    def sizes(
        self, found: Sequence[Recognised], diagonal: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and parameters for an objective with this Hessian's diagonal and q, each (T,)."""
        tops = np.array([one.epigraph for one in found])
        return np.abs(q[tops]) * [one.scale for one in found], np.zeros(tops.size)

    def radii(self, found: Sequence[Recognised], levels: np.ndarray) -> np.ndarray:
        """The parameters of sets with these levels, (T,)."""
        raise NotImplementedError(f"{self.name} is no set")

    def gains(self, found: Sequence[Recognised], radii: np.ndarray) -> np.ndarray:
        """What multipliers of the rows that bound sets are, over those of the sets, (T,)."""
        return np.array([one.gain for one in found])

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """Value, gradient and second derivative in each argument of a smooth kind."""
        raise NotImplementedError(f"{self.name} has no second derivative")

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        r""":math:`\varphi(u)`."""
        return self.evaluate(u, parameter)[0]

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        r""":math:`\varphi'(u)`; where there is none, one of the subgradients."""
        return self.evaluate(u, parameter)[1]

    def root(
        self, rows: np.ndarray, u: np.ndarray, weight: np.ndarray, parameter: np.ndarray
    ) -> np.ndarray:
        r"""Rows W with :math:`W^\top W = \sum_t w_t A_t^\top \varphi''(u_t) A_t`, of a joint kind.

        The ``rows`` of A have one axis more than u.
        """
        raise NotImplementedError(f"{self.name} has no second derivative")

    def line(self, u: np.ndarray, change: np.ndarray) -> Line | None:
        r""":math:`t \mapsto \frac{d}{dt} \varphi(u + t \dot u)`, infinite outside of the domain.

        None if it costs no less than :meth:`evaluate` at each t.
        """
        return None

    def excess(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """How far a constraint is broken, in the user's units but for the weight."""
        raise NotImplementedError(f"{self.name} is no constraint")

    def epigraph(
        self, matrix: Any, offset: np.ndarray, parameter: np.ndarray, top: Any
    ) -> Epigraph:
        r"""Rows that say :math:`\varphi(A v + b) \le t`; row i of ``top`` picks :math:`t_i`."""
        raise NotImplementedError(f"{self.name} has no epigraph of its own")

    def height(self, width: int) -> int:
        """How many rows of :meth:`epigraph` each function has."""
        raise NotImplementedError(f"{self.name} has no epigraph of its own")

    def grouped(self, u: np.ndarray, width: int) -> np.ndarray:
        """Arguments one after the other in the last axis as the methods take them."""
        return u.reshape(*u.shape[:-1], -1, width) if self.is_joint else u

    def idle(self, width: int) -> np.ndarray:
        """Arguments of a function of no weight, in its domain."""
        return np.full(width, float(self.is_positive))

    def inert(self, own: int, width: int) -> np.ndarray | float:
        """Arguments that change nothing, beside the first ``own`` of a joint function."""
        return 0.0

    def inward(self, u: np.ndarray, least: float) -> np.ndarray:
        """The nearest arguments that are positive by so much, of a kind that asks for it."""
        return np.maximum(u, least)

    def __repr__(self) -> str:
        return self.name
