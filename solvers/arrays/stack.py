r"""The terms of many clients at one place of their forms, with their matrices stacked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Term
from dald_model.solvers.arrays.indexing import block_diagonal
from dald_model.solvers.arrays.oracles import SCALAR, Pair, logsumexp

CACHE = 2**20
"""Bytes of matrices that stay in a core's own cache between two passes over them."""

SPARSE = 0.1
"""Share of nonzeros below which products with sparse matrices are faster."""

Index = slice | np.ndarray


def gram(rows: np.ndarray) -> np.ndarray:
    r""":math:`W^\top W` of each of k matrices; a matrix times its own transpose costs half."""
    return np.matmul(rows.transpose(0, 2, 1), rows)


class Dense:
    """Matrices of k clients as one array (k, R, m)."""

    def __init__(self, stack: np.ndarray) -> None:
        self.stack = stack

    def take(self, index: Index) -> Dense:
        """Those of some clients."""
        return Dense(self.stack[index])

    def times(self, x: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        return np.matmul(self.stack, x[:, :, None])[:, :, 0]

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        return np.matmul(rows[:, None, :], self.stack)[:, 0, :]

    def gram(self, diagonal: np.ndarray) -> np.ndarray:
        r""":math:`A^\top \operatorname{diag} A`, (k, m, m)."""
        return gram(self.stack * np.sqrt(diagonal)[:, :, None])


class Sparse:
    """Matrices of k clients as a list, each in CSR."""

    def __init__(self, matrices: list[Any]) -> None:
        self.matrices = matrices

    @property
    def stack(self) -> np.ndarray:
        """All of them with their zeros, (k, R, m)."""
        return np.stack([matrix.toarray() for matrix in self.matrices])

    @cached_property
    def block(self) -> sp.csr_array:
        """All of them as one block-diagonal matrix."""
        return block_diagonal(self.matrices)

    def take(self, index: Index) -> Sparse:
        """Those of some clients."""
        if isinstance(index, slice) and len(range(len(self.matrices))[index]) == len(self.matrices):
            return self
        if isinstance(index, slice):
            return Sparse(self.matrices[index])
        return Sparse([self.matrices[i] for i in index])

    def times(self, x: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        return (self.block @ x.reshape(-1)).reshape(len(self.matrices), -1)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        return (self.block.T @ rows.reshape(-1)).reshape(len(self.matrices), -1)

    def gram(self, diagonal: np.ndarray) -> np.ndarray:
        r""":math:`A^\top \operatorname{diag} A`, (k, m, m)."""
        pairs = zip(self.matrices, diagonal, strict=True)
        return np.stack([(a.T @ a.multiply(row[:, None])).toarray() for a, row in pairs])


class Evaluation(NamedTuple):
    r"""What k clients' smooth terms are at a point.

    Attributes
    ----------
    values : ndarray, shape (k,)
    slopes : ndarray, shape (k, m)
    bends : ndarray, shape (k, total of T * width)
        :math:`w \varphi''(u)`; for ``logsumexp`` the second derivatives in each argument.
    """

    values: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray


class Stack(NamedTuple):
    """The terms of k clients that stand at one place of their forms: fields as in ``Term``."""

    kind: str
    weight: np.ndarray
    matrix: Dense | Sparse
    offset: np.ndarray
    bound: np.ndarray
    width: int

    @classmethod
    def of(cls, terms: Sequence[Term]) -> Stack:
        """The terms of several clients at one place of their forms, stacked."""
        matrices: list[Any] = [term.matrix for term in terms]
        if any(sp.issparse(a) for a in matrices):
            sparse = [sp.csr_array(a) for a in matrices]
            full = sum(int(np.prod(a.shape)) for a in matrices)
            few = sum(a.nnz for a in sparse) < SPARSE * full
            matrix = Sparse(sparse) if few else Dense(np.stack([a.toarray() for a in sparse]))
        else:
            matrix = Dense(np.stack(matrices))
        return cls(
            terms[0].kind,
            np.stack([term.weight for term in terms]),
            matrix,
            np.stack([term.offset for term in terms]),
            np.stack([term.bound for term in terms]),
            terms[0].width,
        )

    def take(self, index: Index) -> Stack:
        """The terms of some of the clients."""
        return self._replace(
            weight=self.weight[index],
            matrix=self.matrix.take(index),
            offset=self.offset[index],
            bound=self.bound[index],
        )

    def arguments(self, x: np.ndarray) -> np.ndarray:
        r""":math:`u = A x + b`, shape (k, T * width)."""
        return self.matrix.times(x) + self.offset

    def grouped(self, u: np.ndarray) -> np.ndarray:
        """The arguments of every function in a row: (k, T, width)."""
        return u.reshape(*self.weight.shape, self.width)

    def values(self, x: np.ndarray) -> np.ndarray:
        r""":math:`\sum_t w_t \varphi(u_t)`, shape (k,)."""
        u = self.arguments(x)
        if self.kind == "abs":
            values = np.abs(u)
        elif self.kind == "norm":
            values = np.linalg.norm(self.grouped(u), axis=-1)
        else:
            values, _ = self._first(u)
        return np.vecdot(self.weight, values)

    def evaluate(self, x: np.ndarray) -> Evaluation:
        r"""Values, gradients :math:`A^\top (w \circ \varphi'(u))` and weighted curvatures."""
        u = self.arguments(x)
        values, slopes = self._first(u)
        if self.kind == "logsumexp":
            bends = slopes * (1 - slopes / np.repeat(self.weight, self.width, axis=1))
        else:
            bends = self.weight * SCALAR[self.kind].second(u, self.bound)
        return Evaluation(np.vecdot(self.weight, values), self.matrix.back(slopes), bends)

    def hessians(self, x: np.ndarray) -> np.ndarray:
        r""":math:`A^\top \operatorname{diag}(w \circ \varphi''(u)) A`, shape (k, m, m).

        For ``logsumexp`` with softmax p every function adds
        :math:`w \sum_k p_k (a_k - \bar a)(a_k - \bar a)^\top`, :math:`\bar a = \sum_k p_k a_k`.
        """
        u = self.arguments(x)
        if self.kind != "logsumexp":
            return self.matrix.gram(self.weight * SCALAR[self.kind].second(u, self.bound))
        _, shares = logsumexp(self.grouped(u))
        rows = self.matrix.stack.reshape(*shares.shape, -1)
        centred = rows - np.matmul(shares[:, :, None, :], rows)
        centred *= np.sqrt(self.weight[:, :, None] * shares)[..., None]
        return gram(centred.reshape(*u.shape, -1))

    def rises(self, u: np.ndarray, change: np.ndarray) -> np.ndarray:
        r""":math:`\sum_t w_t \varphi'(u_t) \dot u_t`, shape (k,); infinite off the domain."""
        if self.kind == "abs":
            return np.vecdot(self.weight, np.sign(u) * change)
        if self.kind == "norm":
            lengths = np.maximum(np.linalg.norm(self.grouped(u), axis=-1), np.finfo(float).tiny)
            inner = np.vecdot(self.grouped(u), self.grouped(change))
            return np.vecdot(self.weight, inner / lengths)
        values, slopes = self._first(u)
        is_outside = np.isinf(values).any(axis=1)
        return np.where(is_outside, np.inf, np.vecdot(slopes, change))

    def _first(self, u: np.ndarray) -> Pair:
        """Unweighted values (k, T) and weighted slopes (k, T * width)."""
        if self.kind != "logsumexp":
            values, slopes = SCALAR[self.kind].first(u, self.bound)
            return values, self.weight * slopes
        values, shares = logsumexp(self.grouped(u))
        return values, (self.weight[:, :, None] * shares).reshape(u.shape)
