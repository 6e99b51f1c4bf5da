"""How strongly the sides of a client see its variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine_maps import SMALL
from dald_model.declare.affine import MadeOnce
from dald_model.values import ROUNDING

_KNOWN = MadeOnce()
"""Most clients share the same matrix."""


class Sight:
    r"""Absolute values and squares of a matrix G of sides, (q, m), and the sums of the squares.

    Entries that are rounding errors of some that cancel count as zero: a difference of two means
    holds an intercept by 1e-17. What is given along sides or variables may be that of several
    clients, one a row.

    Attributes
    ----------
    absolute, squares : csr_array or ndarray, shape (q, m)
        Arrays where they are small, as most are: a sparse product costs 20 times as much.
    of_sides, of_variables : ndarray, shapes (q,) and (m,)
        :math:`\sum_k G_{rk}^2` and :math:`\sum_r G_{rk}^2`.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix
        shape: Any = matrix.shape
        height, width = shape
        if height * width <= SMALL:
            self.absolute: Any = abs(matrix.toarray())
            largest = self.absolute.max(axis=1, keepdims=True, initial=0.0)
            self.absolute[self.absolute < ROUNDING * largest] = 0.0
        else:
            self.absolute = abs(matrix)
            rows = np.repeat(np.arange(height), np.diff(matrix.indptr))
            largest = np.zeros(height)
            np.maximum.at(largest, rows, self.absolute.data)
            self.absolute.data[self.absolute.data < ROUNDING * largest[rows]] = 0.0
        self.squares = self.absolute * self.absolute
        self.of_sides = np.asarray(self.squares.sum(axis=1)).reshape(-1)
        self.of_variables = np.asarray(self.squares.sum(axis=0)).reshape(-1)

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Sight:
        """The one of a matrix; the same for clients whose matrix is the same object."""
        return _KNOWN.of((id(matrix),), [matrix], lambda: cls(matrix))

    def lengths(self, along_sides: np.ndarray) -> np.ndarray:
        """Lengths along the sides as lengths of the variables, (..., m) from (..., q).

        The mean of what each side makes of a variable's, with weights :math:`G_{rk}^2`: sides that
        hardly see it have little to say.
        """
        weight = self.of_variables
        return (along_sides @ self.absolute) / np.where(weight > 0, weight, np.inf)

    def along(self, of_variables: np.ndarray) -> np.ndarray:
        """What lengths of the variables make of the sides' at most, (..., q) from (..., m)."""
        return of_variables @ self.absolute.T

    def curvatures(self, diagonal: np.ndarray) -> np.ndarray:
        """A curvature of the variables as one along the sides, (..., q) from (..., m).

        For a side that picks entries of x this is their curvature; a row g of a general matrix
        moves x along g / |g|^2, the least change that moves the side by one. Of variables with
        curvature, as the others say nothing of the size: beside angles without a cost the power
        that is made would move by one part in a hundred, and seem to cost one in ten thousand.
        """
        weight = self.of_sides if diagonal.all() else (diagonal > 0) @ self.squares.T
        return (diagonal @ self.squares.T) / np.where(weight > 0, weight, np.inf) ** 2
