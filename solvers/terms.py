r"""Values, gradients and Hessians of terms :math:`\sum_t w_t \varphi_t(A_t x + b_t)`, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.form import Form, Term
from dald_model.solvers.factor import selection

CACHE = 2**20
"""Bytes of matrices that stay in a core's own cache between two passes over them."""

SPARSE = 0.1
"""Share of nonzeros below which products with sparse matrices are faster."""

PROJECTIONS = 200
"""After how many the search for an inner point of a domain gives up."""

Index = slice | np.ndarray
Pair = tuple[np.ndarray, np.ndarray]


class Oracle(NamedTuple):
    r"""One :math:`\varphi`, elementwise.

    ``first(u, bound)`` gives :math:`\varphi` and :math:`\varphi'`, ``second(u, bound)`` gives
    :math:`\varphi''`. Outside of the domain the value is infinite and the rest means nothing.
    """

    first: Callable[[np.ndarray, np.ndarray], Pair]
    second: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _logistic(u: np.ndarray, bound: np.ndarray) -> Pair:
    decay = np.exp(-np.abs(u))
    slope = np.where(u < 0, decay, 1.0) / (1 + decay)
    return np.maximum(u, 0) + np.log1p(decay), slope


def _logistic_second(u: np.ndarray, bound: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(u))
    return decay / (1 + decay) ** 2


def _huber(u: np.ndarray, bound: np.ndarray) -> Pair:
    near = np.clip(u, -bound, bound)
    return near * (u - near / 2), near


def _exp(u: np.ndarray, bound: np.ndarray) -> Pair:
    power = np.exp(u)
    return power, power


def _log(u: np.ndarray, bound: np.ndarray) -> Pair:
    return np.where(u > 0, -np.log(u), np.inf), -1 / u


def _entropy(u: np.ndarray, bound: np.ndarray) -> Pair:
    logarithm = np.log(u)
    value = np.where(u > 0, u * logarithm, np.where(u == 0, 0.0, np.inf))
    return value, logarithm + 1


def _hinge(u: np.ndarray, bound: np.ndarray) -> Pair:
    beyond = np.maximum(u, 0)
    return beyond**2 / 2, beyond


def _logsumexp(u: np.ndarray) -> Pair:
    """Over the last axis; the gradient is the softmax."""
    top = u.max(axis=-1, keepdims=True)
    powers = np.exp(u - top)
    total = powers.sum(axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], powers / total


SCALAR = {
    "logistic": Oracle(_logistic, _logistic_second),
    "huber": Oracle(_huber, lambda u, bound: (np.abs(u) <= bound).astype(float)),
    "exp": Oracle(_exp, lambda u, bound: np.exp(u)),
    "log": Oracle(_log, lambda u, bound: 1 / u**2),
    "entropy": Oracle(_entropy, lambda u, bound: 1 / u),
    "hinge": Oracle(_hinge, lambda u, bound: (u > 0).astype(float)),
}
"""All smooth kinds but ``logsumexp``, which takes several arguments."""

POSITIVE = ("log", "entropy")
"""Kinds that are finite for positive arguments only."""

SMOOTH = (*SCALAR, "logsumexp")


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

    def take(self, index: Index) -> Sparse:
        """Those of some clients."""
        if isinstance(index, slice):
            return Sparse(self.matrices[index])
        return Sparse([self.matrices[i] for i in index])

    def times(self, x: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        return np.stack([matrix @ row for matrix, row in zip(self.matrices, x, strict=True)])

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        return np.stack([matrix.T @ row for matrix, row in zip(self.matrices, rows, strict=True)])

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
        _, shares = _logsumexp(self.grouped(u))
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
        values, shares = _logsumexp(self.grouped(u))
        return values, (self.weight[:, :, None] * shares).reshape(u.shape)


class Terms:
    """The terms of B forms of one ``Form.shape``.

    The methods take positions of clients without repetition, shape (k,), and a point for each,
    shape (k, m). Outside of a domain values are infinite and the rest means nothing.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        places = zip(*(form.terms for form in forms), strict=True)
        self._set(len(forms), [Stack.of(terms) for terms in places])

    def _set(self, size: int, stacks: list[Stack]) -> None:
        self.size = size
        self._stacks = stacks
        self._smooth = [stack for stack in stacks if stack.kind in SMOOTH]
        self._kinked = [stack for stack in stacks if stack.kind not in SMOOTH]
        self._edged = [stack for stack in stacks if stack.kind in POSITIVE]

    @property
    def has_kinks(self) -> bool:
        """Whether there are terms without a gradient."""
        return bool(self._kinked)

    @property
    def bytes(self) -> int:
        """Of one client's matrices, as far as they are dense."""
        dense = [s.matrix.stack for s in self._stacks if isinstance(s.matrix, Dense)]
        return sum(stack[0].nbytes for stack in dense if stack.size)

    def part(self, which: np.ndarray) -> Terms:
        """Those of some clients; their matrices are copied unless ``which`` is a range."""
        chosen, index = object.__new__(Terms), selection(which)
        chosen._set(which.size, [stack.take(index) for stack in self._stacks])
        return chosen

    def values(self, which: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The sums of all terms, shape (k,)."""
        return self._sum(self._stacks, which, x)

    def kinks(self, which: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The sums of the terms without a gradient, shape (k,)."""
        return self._sum(self._kinked, which, x)

    def slopes(self, which: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The gradients of the smooth terms, shape (k, m)."""
        return self.evaluate(which, x).slopes

    def evaluate(self, which: np.ndarray, x: np.ndarray) -> Evaluation:
        """The smooth terms in one pass."""
        if which.size < self.size:
            if 2 * which.size <= self.size:
                return self.part(which).evaluate(np.arange(which.size), x)
            # To evaluate a few for nothing is cheaper than to copy the matrices of the others.
            padded = np.zeros((self.size, x.shape[1]))
            padded[which] = x
            found = self.evaluate(np.arange(self.size), padded)
            return Evaluation(*(part[which] for part in found))
        with np.errstate(all="ignore"):
            found = [stack.evaluate(x) for stack in self._smooth]
            if len(found) == 1:
                return found[0]
            return Evaluation(
                np.sum([one.values for one in found], axis=0),
                np.sum([one.slopes for one in found], axis=0),
                np.concatenate([one.bends for one in found], axis=1),
            )

    def hessians(self, which: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The (generalised) Hessians of the smooth terms, shape (k, m, m)."""
        found = np.zeros((*x.shape, x.shape[1]))
        at_once = max(1, CACHE // max(1, self.bytes))
        with np.errstate(all="ignore"):
            for start in range(0, which.size, at_once):
                piece = slice(start, start + at_once)
                index = selection(which[piece])
                for stack in self._smooth:
                    found[piece] += stack.take(index).hessians(x[piece])
        return found

    def along(
        self, which: np.ndarray, x: np.ndarray, direction: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The derivatives of all terms at x + t d along d, shape (k,), as a function of t, (k,).

        Infinite outside of the domain. It costs no products with matrices any more.
        """
        chosen = [stack.take(selection(which)) for stack in self._stacks]
        lines = [(s, s.arguments(x), s.matrix.times(direction)) for s in chosen]

        def rise(t: np.ndarray) -> np.ndarray:
            total = np.zeros(t.size)
            with np.errstate(all="ignore"):
                for stack, u, change in lines:
                    total += stack.rises(u + t[:, None] * change, change)
            return np.where(np.isnan(total), np.inf, total)

        return rise

    def inner(self, size: int) -> np.ndarray:
        r"""A point of the domain for every client, (B, m), NaN where none was found.

        Zeros where they will do; else by projecting in turn onto the range of
        :math:`x \mapsto A x + b` and onto :math:`u \ge 1`.
        """
        found = np.zeros((self.size, size))
        for at in range(self.size) if self._edged else ():
            edged = [stack.take(slice(at, at + 1)) for stack in self._edged]
            rows = np.concatenate([stack.matrix.stack[0] for stack in edged])
            offset = np.concatenate([stack.offset[0] for stack in edged])
            found[at] = _inner(rows, offset)
        return found

    def _sum(self, stacks: list[Stack], which: np.ndarray, x: np.ndarray) -> np.ndarray:
        total, index = np.zeros(which.size), selection(which)
        with np.errstate(all="ignore"):
            for stack in stacks:
                total += stack.take(index).values(x)
        return total


def _inner(rows: np.ndarray, offset: np.ndarray) -> np.ndarray:
    x, inverse = np.zeros(rows.shape[1]), None
    for scale in (1.0, 1e-3, 1e-6):
        for _ in range(PROJECTIONS):
            u = rows @ x + offset
            if (u > scale / 2).all():
                return x
            inverse = np.linalg.pinv(rows) if inverse is None else inverse
            x = inverse @ (np.maximum(u, scale) - offset)
    return np.full(x.size, np.nan)


def gram(rows: np.ndarray) -> np.ndarray:
    r""":math:`W^\top W` of each of k matrices; a matrix times its own transpose costs half."""
    return np.matmul(rows.transpose(0, 2, 1), rows)
