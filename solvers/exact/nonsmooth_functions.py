r"""Functions of rows :math:`u = A x + b` without a gradient, and the forces by which they act.

A polyhedral row has :math:`\max(l_t u_t, h_t u_t)`: absolute values have :math:`l = -w, \; h = w`;
of a row :math:`a^\top x \le b` it is the indicator, :math:`l = 0, \; h = \infty`; and of an
equality :math:`l = -\infty`. The rows of a block have a function together, :math:`w \|u_g\|` or the
indicator of :math:`\|u_g\| \le r`.

With a penalty :math:`\tau` and multipliers s the force at u is the gradient of the Moreau envelope,
a function of :math:`v = s + \tau u`,

.. math::
    \operatorname{clip}(v_t, l_t, h_t), \qquad \min(1, w / \|v_g\|)\, v_g, \qquad
    \max(0, 1 - \tau r / \|v_g\|)\, v_g,

whose (generalised) derivative by u is :math:`\tau (a I + b \, \hat v \hat v^\top)`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.solvers.arrays.indexing import Index


class NormBlock(NamedTuple):
    """The rows of one norm or ball term: ``sizes`` (k, T) are the weights or the radii."""

    rows: slice
    width: int
    is_ball: bool
    sizes: np.ndarray

    def grouped(self, rows: np.ndarray) -> np.ndarray:
        """What each group has of values of all rows, (k, T, width)."""
        return rows[:, self.rows].reshape(len(rows), -1, self.width)

    def read(self, v: np.ndarray, stiffness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of the v of groups, and at which lengths the function changes over these."""
        lengths = np.sqrt(np.vecdot(v, v))
        levels = self.grouped(stiffness)[:, :, 0] * self.sizes if self.is_ball else self.sizes
        ratios = np.divide(levels, lengths, out=np.full(levels.shape, np.inf), where=lengths > 0)
        return lengths, ratios


class Derivative(NamedTuple):
    """How forces change with u: a, (k, R), and of each block the b, (k, T), and the directions."""

    shares: np.ndarray
    turns: list[tuple[NormBlock, np.ndarray, np.ndarray]]

    def of(self, index: Index) -> Derivative:
        """That of some clients."""
        turns = [(block, bends[index], way[index]) for block, bends, way in self.turns]
        return Derivative(self.shares[index], turns)

    def bearings(self, stiffness: np.ndarray) -> np.ndarray:
        r"""What the derivative of blocks depends on: :math:`\tau a \hat v`, (k, R)."""
        found = np.zeros(self.shares.shape)
        for block, bends, directions in self.turns:
            own = block.grouped(stiffness * self.shares) * (bends != 0)[:, :, None]
            found[:, block.rows] = (own * directions).reshape(len(found), -1)
        return found


class Functions(NamedTuple):
    """The functions of the rows of k clients: limits l and h of the forces, (k, R), and blocks."""

    low: np.ndarray
    high: np.ndarray
    blocks: tuple[NormBlock, ...]

    def take(self, index: Index) -> Functions:
        """Those of some clients."""
        blocks = tuple(block._replace(sizes=block.sizes[index]) for block in self.blocks)
        return Functions(self.low[index], self.high[index], blocks)

    @property
    def kinked(self) -> np.ndarray:
        """Which rows have a kink at u = 0, (R,): all but those of balls."""
        found = np.ones(self.low.shape[1], dtype=bool)
        for block in self.blocks:
            found[block.rows] = not block.is_ball
        return found

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sums of the functions at u = ``values`` that break no row, (k,)."""
        sides = np.where(values < 0, self.low, self.high)
        found = np.vecdot(np.where(np.isfinite(sides), sides, 0.0), values)
        for block in self.blocks:
            if not block.is_ball:
                lengths = np.linalg.norm(block.grouped(values), axis=2)
                found += np.vecdot(block.sizes, lengths)
        return found

    def forces(self, pulled: np.ndarray, stiffness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The forces at v = ``pulled``, and which rows are at a kink or an edge, (k, R)."""
        held = np.clip(pulled, self.low, self.high)
        inside = (pulled > self.low) & (pulled < self.high)
        for block in self.blocks:
            v = block.grouped(pulled)
            ratios = block.read(v, stiffness)[1]
            factors = np.maximum(1 - ratios, 0.0) if block.is_ball else np.minimum(ratios, 1.0)
            held[:, block.rows] = (factors[:, :, None] * v).reshape(len(pulled), -1)
            is_in = (ratios < 1) == block.is_ball
            inside[:, block.rows] = np.repeat(is_in, block.width, axis=1)
        return held, inside

    def derivative(
        self, pulled: np.ndarray, stiffness: np.ndarray, inside: np.ndarray
    ) -> Derivative:
        """How the forces change there."""
        shares, turns = inside.astype(float), []
        for block in self.blocks:
            v = block.grouped(pulled)
            lengths, ratios = block.read(v, stiffness)
            bends = np.where(ratios < 1, ratios if block.is_ball else -ratios, 0.0)
            own = np.maximum(1 - ratios, 0.0) if block.is_ball else np.minimum(ratios, 1.0)
            shares[:, block.rows] = np.repeat(own, block.width, axis=1)
            turns.append((block, bends, v / np.where(lengths > 0, lengths, 1.0)[:, :, None]))
        return Derivative(shares, turns)
