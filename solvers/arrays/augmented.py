r"""The augmented terms of many clients in closed form: a quadratic in each client's variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import block_diagonal, ranges
from dald_model.solvers.base import Turn

KEPT = 1024
"""How many selections of clients are kept ready; random sequences name new ones for ever."""


class Augmented:
    r"""What equations (12) and (20) add to the objectives of B clients of m variables each.

    With the sides :math:`G x + g` of a client's edges, all stacked, and signs :math:`\pm`,

    .. math::
        \sum_j \mu_j^\top \mathcal C_j + \|\rho_j \circ \mathcal C_j\|^2
        = \tfrac12 x^\top K x + c^\top x + \text{const}, \quad
        K = 2 G^\top \operatorname{diag}(\rho^2) G, \quad
        c = G^\top\big(\pm\mu + 2 \rho^2 \circ (g - z)\big).
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        sides = [sub.sides for sub in subproblems]
        self.size = subproblems[0].size
        self._matrices: list[Any] = [matrix for matrix, _ in sides]
        self._offset = np.concatenate([offset for _, offset in sides])
        self._signs = np.concatenate([sub.signs for sub in subproblems])
        self._stops = np.cumsum([offset.size for _, offset in sides])
        self._penalties = np.zeros(self._offset.size)
        self._stacks: dict[bytes, _Stack] = {}

    def slopes(self, turn: Turn) -> np.ndarray:
        """The vectors c of the clients ``turn.which``, shape (k, m)."""
        stack = self._stack(turn.which)
        pull = stack.signs * turn.mu + 2 * turn.rho**2 * (stack.offset - turn.neighbours)
        if stack.is_pick:
            found = np.zeros(turn.which.size * self.size)
            found[stack.sides.indices] = stack.sides.data * pull
            return found.reshape(-1, self.size)
        return (stack.transposed @ pull).reshape(-1, self.size)

    def changed(self, turn: Turn) -> np.ndarray:
        """Which of ``turn.which`` have other penalties than when last asked, (k,) bool."""
        stack = self._stack(turn.which)
        differs = self._penalties[stack.ends] != turn.rho
        if not differs.any():
            return np.zeros(turn.which.size, dtype=bool)
        self._penalties[stack.ends] = turn.rho
        return np.logical_or.reduceat(differs, stack.starts)

    def curvatures(self, which: np.ndarray) -> np.ndarray:
        """The matrices K of some clients for the penalties last seen, shape (k, m, m)."""
        found = np.zeros((which.size, self.size, self.size))
        stack = self._stack(which)
        weight = 2 * self._penalties[stack.ends] ** 2
        sides = stack.transposed
        if sides.nnz == sides.shape[1] == np.count_nonzero(np.diff(stack.sides.indptr)):
            # Every side is a multiple of one variable, so K is diagonal.
            diagonal = np.bincount(
                stack.sides.indices,
                weight * stack.sides.data**2,
                minlength=which.size * self.size,
            )
            each = np.arange(self.size)
            found[:, each, each] = diagonal.reshape(-1, self.size)
            return found
        for i, at in enumerate(which):
            matrix = self._matrices[at]
            mine = weight[stack.starts[i] : stack.starts[i] + matrix.shape[0]]
            found[i] = (matrix.T @ matrix.multiply(mine[:, None])).toarray()
        return found

    def energies(self, turn: Turn, points: np.ndarray) -> np.ndarray:
        r""":math:`x^\top K x` at points of shape (k, m), shape (k,)."""
        stack = self._stack(turn.which)
        flat, sides = points.reshape(-1), stack.sides
        own = sides.data * flat[sides.indices] if stack.is_pick else sides @ flat
        squares = (turn.rho * own) ** 2
        return 2 * np.add.reduceat(squares, stack.starts)

    def _stack(self, which: np.ndarray) -> _Stack:
        key = which.tobytes()
        if key not in self._stacks:
            if len(self._stacks) >= KEPT:
                self._stacks.clear()
            matrices = [self._matrices[at] for at in which]
            lengths = np.array([matrix.shape[0] for matrix in matrices])
            ends = ranges(self._stops[which] - lengths, lengths)
            sides = block_diagonal(matrices)
            self._stacks[key] = _Stack(
                ends,
                np.cumsum(lengths) - lengths,
                self._signs[ends],
                self._offset[ends],
                sides,
                sides.T.tocsr(),
                # Every side is one variable (or a multiple), and none is in two sides
                sides.nnz == ends.size == np.unique(sides.indices).size
                and bool((np.diff(sides.indptr) == 1).all()),
            )
        return self._stacks[key]


class _Stack(NamedTuple):
    """What is constant for one selection of clients."""

    ends: np.ndarray
    starts: np.ndarray
    signs: np.ndarray
    offset: np.ndarray
    sides: Any
    transposed: Any
    is_pick: bool
