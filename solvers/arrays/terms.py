r"""Values, gradients and Hessians of terms :math:`\sum_t w_t \varphi_t(A_t x + b_t)`, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.arrays.oracles import POSITIVE, SMOOTH
from dald_model.solvers.arrays.stack import CACHE, Dense, Evaluation, Stack

PROJECTIONS = 200
"""After how many the search for an inner point of a domain gives up."""


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
