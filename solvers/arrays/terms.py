r"""Values, gradients and Hessians of terms :math:`\sum_t w_t \varphi_t(A_t x + b_t)`, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from dald_model.compile.form import Term
from dald_model.sizes import CACHE, LIMIT
from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.arrays.matrices import alike, is_sparse
from dald_model.solvers.arrays.stack import Stack, TermValues


class Terms:
    """The terms of k clients that have the same kinds in the same order.

    The methods take positions of clients without repetition, shape (k,), or None for all of them,
    and a point for each, shape (k, m). Outside of a domain values are infinite and the rest means
    nothing.

    Parameters
    ----------
    stacks : list of Stack
        For each term the arrays of all clients.
    count, size : int
        Clients k, and variables m of each.
    given : sequence
        The terms of every client, of which the arrays were made.
    """

    def __init__(
        self, stacks: list[Stack], count: int, size: int, given: Sequence[Sequence[Term]] = ()
    ) -> None:
        self.count, self.size = count, size
        self._stacks, self._given = stacks, given
        self._smooth = [stack for stack in stacks if stack.kind.is_smooth]
        self._kinked = [stack for stack in stacks if not stack.kind.is_smooth]

    @classmethod
    def of(cls, clients: Sequence[Sequence[Term]], size: int) -> Terms:
        """From the terms of every client; of clients with fewer variables the last stay out."""
        stacks = [Stack.of(terms, size) for terms in zip(*clients, strict=True)]
        return cls(stacks, len(clients), size, clients)

    def again(self, clients: Sequence[Sequence[Term]]) -> Terms:
        """Those of as many other clients; where matrices are the same ones, they are not copied."""
        pairs = zip(chain(*clients), chain(*self._given), strict=True)
        if not all(has_matrix_of(*pair) for pair in pairs):
            return Terms.of(clients, self.size)
        pairs = zip(self._stacks, zip(*clients, strict=True), strict=True)
        stacks = [stack.again(terms) for stack, terms in pairs]
        return Terms(stacks, self.count, self.size, clients)

    @property
    def has_slopes(self) -> bool:
        """Whether there are smooth terms."""
        return bool(self._smooth)

    @property
    def has_traps(self) -> bool:
        """Whether there are terms at whose poles Newton's steps are tiny, as entropies."""
        return any(stack.kind.is_of_entries for stack in self._smooth)

    @property
    def bytes(self) -> int:
        """Of one client's matrices."""
        return sum(stack.matrix.bytes for stack in self._stacks)

    def part(self, which: np.ndarray) -> Terms:
        """Those of some clients; their matrices are copied unless ``which`` is a range."""
        index = selection(which)
        return Terms([stack.take(index) for stack in self._stacks], which.size, self.size)

    def values(self, which: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        """The sums of all terms, shape (k,)."""
        return self._sum(self._stacks, which, x)

    def kinks(self, which: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        """The sums of the terms without a gradient, shape (k,)."""
        return self._sum(self._kinked, which, x)

    def gradients(self, which: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        """The gradients of the smooth terms, shape (k, m)."""
        with np.errstate(all="ignore"):
            found = [stack.gradients(x) for stack in self._taken(self._smooth, which)]
        return sum(found[1:], found[0]) if found else np.zeros(x.shape)

    def evaluate(self, which: np.ndarray | None, x: np.ndarray) -> TermValues:
        """The smooth terms in one pass."""
        if which is not None and which.size < self.count:
            if 2 * which.size <= self.count:
                return self.part(which).evaluate(None, x)
            # To evaluate a few for nothing is cheaper than to copy the matrices of the others.
            padded = np.zeros((self.count, x.shape[1]))
            padded[which] = x
            found = self.evaluate(None, padded)
            return TermValues(*(part[which] for part in found))
        with np.errstate(all="ignore"):
            found = [stack.evaluate(x) for stack in self._smooth]
            if len(found) == 1:
                return found[0]
            return TermValues(
                np.sum([one.values for one in found], axis=0),
                np.sum([one.gradients for one in found], axis=0),
                np.concatenate([one.curvatures for one in found], axis=1),
            )

    def hessians(self, which: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        """The (generalised) Hessians of the smooth terms, shape (k, m, m)."""
        which = np.arange(self.count) if which is None else which
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
        lines = [stack.along(x, direction) for stack in self._taken(self._stacks, which)]

        def rise(t: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                total = sum((line(t) for line in lines), np.zeros(t.size))
            return np.where(np.isnan(total), np.inf, total)

        return rise

    def growth(self, which: np.ndarray, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """By how many times itself an argument grows most along a step from inside, shape (k,).

        Of those at whose poles Newton's steps are tiny; zero where there are none.
        """
        found = np.zeros(len(x))
        edged = [stack for stack in self._smooth if stack.kind.is_of_entries]
        with np.errstate(all="ignore"):
            for stack in self._taken(edged, which):
                shares = stack.matrix.times(step) / stack.arguments(x)
                found = np.fmax(found, shares.max(axis=1, initial=0.0))
        return found

    def inner(self) -> np.ndarray:
        r"""A point of the domain for every client, (k, m), NaN where none was found.

        Zeros where they will do; else by projecting in turn onto the range of
        :math:`x \mapsto A x + b` and onto :math:`u \ge 1`, or :math:`U \succeq I`. The one has the
        units of the arguments; the point stands for zero where zero is outside, and clients are
        asked for their answers from there: ``tests/coordinate/test_units.py`` shows the same rounds
        in units from 1e-6 to 1e6.
        """
        found = np.zeros((self.count, self.size))
        edged = [stack for stack in self._smooth if stack.kind.is_positive]
        for at in range(self.count) if edged else ():
            own = [stack.take(slice(at, at + 1)) for stack in edged]
            found[at] = _inner(own)
        return found

    def _sum(self, stacks: list[Stack], which: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        total = np.zeros(len(x))
        with np.errstate(all="ignore"):
            for stack in self._taken(stacks, which):
                total += stack.values(x)
        return total

    def _taken(self, stacks: list[Stack], which: np.ndarray | None) -> list[Stack]:
        if which is None or not stacks:
            return stacks
        index = selection(which)
        return [stack.take(index) for stack in stacks]


def has_matrix_of(one: Term, other: Term) -> bool:
    """Whether two terms are the same functions of the same rows, with other offsets perhaps."""
    return one.kind is other.kind and one.matrix is other.matrix and one.width == other.width


def shared(
    clients: Sequence[Sequence[Term]], sizes: np.ndarray, squares: Sequence[np.ndarray] = ()
) -> list[np.ndarray]:
    """Parts of clients with the same kinds for which one :class:`Terms` each is fastest.

    ``squares`` are the matrices P of all of them that go with the terms.
    """
    counts = np.array([[term.weight.size for term in own] for own in clients], dtype=int)
    widths = np.array([[term.width for term in own] for own in clients], dtype=int)
    if all((own == own[:1]).all() for own in (sizes, counts, widths)):
        return [np.arange(sizes.size)]
    matrices = [[term.matrix for term in place] for place in zip(*clients, strict=True)]
    if squares:
        matrices.append(list(squares))
        counts = np.column_stack([counts.reshape(sizes.size, -1), sizes])
        widths = np.column_stack([widths.reshape(sizes.size, -1), np.ones(sizes.size, dtype=int)])
    is_dense = np.array([not is_sparse(place) for place in matrices], dtype=bool)
    return alike(sizes, counts, widths, is_dense)


def _inner(stacks: list[Stack]) -> np.ndarray:
    """The same of one client, whose stacks with edges these are."""
    rows = np.concatenate([stack.matrix.full[0] for stack in stacks])
    x, inverse = np.zeros(rows.shape[1]), None
    offset = np.concatenate([stack.arguments(x[None]).ravel() for stack in stacks])
    for scale in (1.0, 1e-3, 1e-6):
        for _ in range(LIMIT):
            u = [stack.arguments(x[None]) for stack in stacks]
            if all(_is_within(stack, one, scale / 2) for stack, one in zip(stacks, u, strict=True)):
                return x
            inverse = np.linalg.pinv(rows) if inverse is None else inverse
            inner = [s.kind.inward(one, scale).ravel() for s, one in zip(stacks, u, strict=True)]
            x = inverse @ (np.concatenate(inner) - offset)
    return np.full(x.size, np.nan)


def _is_within(stack: Stack, arguments: np.ndarray, least: float) -> bool:
    """Whether arguments are positive by more than so much."""
    return bool((stack.kind.inward(arguments, least) == arguments).all())
