r"""Canonical forms of a template as affine functions of its numbers, where only the costs are.

cvxpy's canonical data are affine in the numbers that multiply nonlinear parts. Where these stand in
the objective alone,

.. math:: P = P_0 + \sum_k \theta_k P_k, \quad q = q_0 + \sum_k \theta_k q_k, \quad
    d = d_0 + \sum_k \theta_k d_k

with A and b as they are, and a form for other numbers is a few products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np

from dald_model.compile.recognition import Canonical
from dald_model.sizes import ROUNDING

TANGENT_NUMBERS = 16
"""The most numbers: for each the canonical form is made once."""


class Tangent:
    """See the module.

    Parameters
    ----------
    base : Canonical
        With the numbers ``at``, none of which is zero.
    at : ndarray, shape (k,)
    constant : ndarray
        P's entries, q and d one after the other for numbers of zero.
    slopes : ndarray, shape (k, as many)
        What they change by with each number.
    """

    def __init__(
        self, base: Canonical, at: np.ndarray, constant: np.ndarray, slopes: np.ndarray
    ) -> None:
        self._base, self._at = base, at
        self._constant, self._slopes = constant, slopes
        self._count = base.P.data.size
        self._is_bent = bool(slopes[:, : self._count].any())
        self._signs = np.sign(_flat(base))

    @classmethod
    def of(
        cls, make: Callable[[np.ndarray], Canonical], base: Canonical, at: np.ndarray
    ) -> Tangent | None:
        """What ``make`` gives for numbers of shape (k,); None if more than the costs changes."""
        if not 0 < at.size <= TANGENT_NUMBERS or not at.all():
            return None
        known, slopes = _flat(base), []
        for k, number in enumerate(at):
            moved = at.copy()
            moved[k] = 2 * number
            there = make(moved)
            if not _is_alike(there, base):
                return None
            slopes.append((_flat(there) - known) / number)
        part = np.array(slopes) * at[:, None]
        constant = known - part.sum(axis=0)
        size = np.abs(known) + np.abs(part).sum(axis=0)
        constant[np.abs(constant) <= ROUNDING * size] = 0.0
        return cls(base, at, constant, np.array(slopes))

    def __call__(self, numbers: np.ndarray) -> Canonical | None:
        """The form with these numbers, of shape (k,); None where a cost has another sign."""
        found = self._constant + numbers @ self._slopes
        if not np.array_equal(np.sign(found)[:-1], self._signs[:-1]):
            return None
        P, count = self._base.P, self._count
        if self._is_bent:
            P = copy(P)  # of other data: to make and check one takes scipy ten times as long
            P.data = found[:count]
        return self._base._replace(P=P, q=found[count:-1], d=float(found[-1]))


def _flat(problem: Canonical) -> np.ndarray:
    return np.concatenate([problem.P.data, problem.q, [problem.d]])


def _is_alike(one: Canonical, two: Canonical) -> bool:
    """Whether two forms differ in what the entries of P, q and d are, and in nothing else."""
    pairs = [(one.b, two.b), (one.rows.data, two.rows.data)]
    for mine, other in ((one.A, two.A), (one.rows, two.rows), (one.P, two.P)):
        if mine.shape != other.shape:
            return False
        pairs += [(mine.indptr, other.indptr), (mine.indices, other.indices)]
    pairs.append((one.A.data, two.A.data))
    return one.cones == two.cones and all(np.array_equal(*pair) for pair in pairs)


def joined(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of a template as one vector, column-major."""
    return np.concatenate([np.zeros(0), *(np.ravel(one, order="F") for one in numbers)])


def parted(vector: np.ndarray, numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A vector as numbers of these shapes."""
    stops = np.cumsum([one.size for one in numbers])
    parts = np.split(vector, stops[:-1])
    pairs = zip(parts, numbers, strict=True)
    return [part.reshape(np.shape(one), order="F") for part, one in pairs]
