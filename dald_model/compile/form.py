r"""Form of a client: its objective and constraints as arrays in its own variables.

.. math::
    \min_x \; \tfrac12 x^\top P x + q^\top x + d + \sum_t w_t\, \varphi_t(A_t x + b_t)
    \quad\text{s.t. } E x = e, \; A x \le b

or, where something is left that none of these terms describes, the cone program of the client. A
form holds numbers only, so it can be stacked with others of its shape and can travel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.special

BALLS = ("ball", "square ball")
"""Kinds of terms that are constraints."""


class Quadratic(NamedTuple):
    r""":math:`\tfrac12 x^\top P x + q^\top x + d`.

    ``matrix`` is P, symmetric, shape (m, m), or None where ``root`` R is kept because it has fewer
    rows than columns: then :math:`P = R^\top R`, R of shape (k, m).
    """

    matrix: np.ndarray | None
    slope: np.ndarray
    constant: float
    root: np.ndarray | None = None

    @property
    def full(self) -> np.ndarray:
        """P itself, shape (m, m)."""
        if self.matrix is not None:
            return self.matrix
        assert self.root is not None
        return self.root.T @ self.root


class Rows(NamedTuple):
    """Rows of linear constraints: ``matrix`` of shape (p, m) and ``right`` of shape (p,)."""

    matrix: np.ndarray
    right: np.ndarray


class Term(NamedTuple):
    r"""The sum of T scalar convex functions :math:`w_t \varphi(u_t)` with :math:`u = A x + b`.

    Attributes
    ----------
    kind : str
        Which :math:`\varphi`: ``"logistic"`` is :math:`\log(1 + e^u)`; ``"logsumexp"`` takes
        ``width`` arguments, :math:`\log \sum_k e^{u_k}`; ``"huber"`` is
        :math:`u^2/2` for :math:`|u| \le \delta` and :math:`\delta |u| - \delta^2/2` beyond;
        ``"exp"`` is :math:`e^u`; ``"log"`` is :math:`-\log u`; ``"entropy"`` is
        :math:`u \log u`; ``"hinge"`` is :math:`\max(u, 0)^2 / 2`; ``"abs"`` is :math:`|u|`;
        ``"norm"`` takes ``width`` arguments, :math:`\|u\|_2`; ``"ball"`` is the constraint
        :math:`\|u\|_2 \le r` of ``width`` arguments, ``"square ball"`` the same written as
        :math:`\|u\|_2^2 \le r^2`. All but the last four are smooth.
    weight : ndarray, shape (T,)
        :math:`w > 0`; of a ball what the user multiplied both sides by.
    matrix : ndarray, shape (T * width, m)
        The arguments of one function stand in successive rows.
    offset : ndarray, shape (T * width,)
    bound : ndarray, shape (T,)
        :math:`\delta` of ``"huber"``, r of ``"ball"``; zeros else.
    width : int
        Arguments of one function.
    """

    kind: str
    weight: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray
    bound: np.ndarray
    width: int = 1

    @property
    def is_smooth(self) -> bool:
        """Whether the gradient is continuous."""
        return self.kind not in ("abs", "norm", *BALLS)

    @property
    def is_set(self) -> bool:
        """Whether it is a constraint, not a summand."""
        return self.kind in BALLS

    def excess(self, point: np.ndarray) -> float:
        """How far a point of shape (m,) is outside of the balls, in the user's units."""
        u = (np.asarray(self.matrix @ point) + self.offset).reshape(-1, self.width)
        power = 1 if self.kind == "ball" else 2
        powers = self.weight * (np.linalg.norm(u, axis=1) ** power - self.bound**power)
        return float(powers.max(initial=0.0))

    def value(self, point: np.ndarray) -> float:
        """The sum at a point of shape (m,); infinite outside the domain."""
        u = np.asarray(self.matrix @ point) + self.offset
        with np.errstate(over="ignore"):
            return float(self.weight @ FUNCTIONS[self.kind](u.reshape(-1, self.width), self.bound))


def _huber(u: np.ndarray, bound: np.ndarray) -> np.ndarray:
    size = np.abs(u[:, 0])
    return np.where(size <= bound, size**2 / 2, bound * size - bound**2 / 2)


def _log(u: np.ndarray, bound: np.ndarray) -> np.ndarray:
    found = np.full(len(u), np.inf)
    np.log(u[:, 0], out=found, where=u[:, 0] > 0)
    return np.where(u[:, 0] > 0, -found, np.inf)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "logistic": lambda u, bound: np.logaddexp(0.0, u[:, 0]),
    "logsumexp": lambda u, bound: scipy.special.logsumexp(u, axis=1),
    "huber": _huber,
    "exp": lambda u, bound: np.exp(u[:, 0]),
    "log": _log,
    "entropy": lambda u, bound: -scipy.special.entr(u[:, 0]),
    "hinge": lambda u, bound: np.maximum(u[:, 0], 0.0) ** 2 / 2,
    "abs": lambda u, bound: np.abs(u[:, 0]),
    "norm": lambda u, bound: np.linalg.norm(u, axis=1),
    "ball": lambda u, bound: np.zeros(len(u)),
    "square ball": lambda u, bound: np.zeros(len(u)),
}
"""Kind -> values of the functions for arguments of shape (T, width) and bounds of shape (T,)."""


class ConeProgram(NamedTuple):
    r"""The client in Clarabel's form over :math:`v = (x, y)`, the client's m variables first.

    .. math:: \min \tfrac12 v^\top P v + q^\top v + d \quad\text{s.t. } A v + s = b,\; s \in K

    ``cones`` lists K as pairs of Clarabel's cone type by name and its argument, such as
    ``("ZeroConeT", 3)``; an argument of None stands for a cone that takes none.
    """

    matrix: sp.csc_array
    slope: np.ndarray
    constant: float
    rows: sp.csc_array
    right: np.ndarray
    cones: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Form:
    r"""One client as numbers, see the module.

    Attributes
    ----------
    size : int
        Variables of the client, m.
    quadratic : Quadratic
    equalities, inequalities : Rows
        ``E x = e`` and ``A x <= b``; zero rows where there are none. Their last ``extra`` columns
        belong to variables that stand nowhere else: :math:`\|x\|_1 \le 1` needs some.
    terms : tuple of Term
    complete : bool
        Whether quadratic, rows and terms describe the client; otherwise only ``cone`` does.
    program : callable
        Makes :attr:`cone`, the cone program, which describes the client in every case.
    extra : int
        See the rows.
    valued : bool
        Whether quadratic and terms are the whole objective: then only constraints may be left to
        ``cone``.
    """

    size: int
    quadratic: Quadratic
    equalities: Rows
    inequalities: Rows
    terms: tuple[Term, ...]
    complete: bool
    program: Callable[[], ConeProgram]
    extra: int = 0
    valued: bool = True

    @cached_property
    def shape(self) -> tuple[Any, ...]:
        """Forms of equal shape can be stacked: the same sizes, rows and kinds of terms."""
        root = self.quadratic.root
        return (
            self.size,
            self.equalities.right.size,
            self.inequalities.right.size,
            None if root is None else root.shape,
            tuple((t.kind, t.width, t.weight.size, sp.issparse(t.matrix)) for t in self.terms),
            self.extra,
            self.complete,
        )

    @cached_property
    def cone(self) -> ConeProgram:
        """See the class; made when first asked for."""
        return self.program()

    def objective(self, point: np.ndarray) -> float:
        """The client's objective at a point of shape (m,), if the form is valued."""
        quadratic, terms = self.quadratic, sum(term.value(point) for term in self.terms)
        bent = quadratic.full @ point if quadratic.root is None else None
        square = point @ bent if bent is not None else np.sum((quadratic.root @ point) ** 2)
        return float(square / 2 + quadratic.slope @ point + quadratic.constant + terms)

    def violation(self, point: np.ndarray) -> float:
        """The largest violation at a point of shape (m,); for a complete form without extras."""
        zero = np.abs(self.equalities.matrix @ point - self.equalities.right)
        over = self.inequalities.matrix @ point - self.inequalities.right
        outside = [term.excess(point) for term in self.terms if term.is_set]
        return float(max(zero.max(initial=0.0), over.max(initial=0.0), *outside, 0.0))
