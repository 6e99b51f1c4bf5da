r"""State: everything that changes while the loop runs, as flat vectors over all edges.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads; Q is
the total size of the edges.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from dald_model.compiler import Compiled
from dald_model.solvers.base import Answer


@dataclass
class State:
    r"""The iterates of one run.

    Attributes
    ----------
    sides : ndarray, shape (2, Q)
        Current values of the sides :math:`G_{ij} x_i + g_{ij}`.
    seen : ndarray, shape (2, Q)
        What each end was told of the other end's side when it was last solved.
    mu, rho : ndarray, shape (Q,)
        Multipliers and penalties of the consensus constraints.
    gradient : ndarray, shape (Q,)
        The largest (sub)gradient that the clients have shown so far, entry by entry: the scale
        against which stationarity is measured.
    answers : dict
        Client -> its last :class:`Answer`.
    """

    sides: np.ndarray
    seen: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    gradient: np.ndarray
    answers: dict[Hashable, Answer] = field(default_factory=dict)

    @classmethod
    def start(cls, compiled: Compiled, rho: np.ndarray) -> State:
        """All variables and multipliers zero, as in Section VI."""
        sides = compiled.sides({name: np.zeros(sub.size) for name, sub in compiled.items()})
        zeros = np.zeros(compiled.size)
        return cls(sides, sides[::-1].copy(), zeros.copy(), rho.copy(), zeros.copy())

    def snapshot(self) -> State:
        """A copy that later rounds leave alone."""
        return replace(
            self,
            sides=self.sides.copy(),
            seen=self.seen.copy(),
            mu=self.mu.copy(),
            rho=self.rho.copy(),
            gradient=self.gradient.copy(),
            answers=dict(self.answers),
        )

    @property
    def primal(self) -> np.ndarray:
        r"""The primal residual :math:`\mathcal C`, equations (A1-8) and (A2-7), shape (Q,)."""
        return self.sides[0] - self.sides[1]

    @property
    def dual(self) -> np.ndarray:
        r"""The dual residual :math:`\mathcal D`, equations (A1-7) and (A2-6), shape (2, Q).

        What an end's neighbour is now, less what the end was told when it was last solved. After
        a full cycle the later end of each edge has zero, and the earlier end has
        :math:`x_j^{k,v} - x_j^{k,v-1}` of its later neighbour, as the paper defines it; the
        definition also holds where some clients were left out or solved twice.
        """
        return self.sides[::-1] - self.seen

    @property
    def estimate(self) -> np.ndarray:
        r""":math:`\mu + 2 \rho \circ \rho \circ \mathcal C`, the next multipliers (15), (22)."""
        return self.mu + 2 * self.rho**2 * self.primal

    def put(self, compiled: Compiled, name: Hashable, answer: Answer) -> None:
        """Enter a client's answer to what it is told now."""
        sub = compiled[name]
        matrix, offset = sub.sides
        told = self.sides[1 - sub.rows, sub.entries]
        own = matrix @ answer.point + offset
        self.seen[sub.rows, sub.entries] = told
        self.sides[sub.rows, sub.entries] = own
        pull = self.mu[sub.entries] + 2 * self.rho[sub.entries] ** 2 * sub.signs * (own - told)
        self.gradient[sub.entries] = np.maximum(self.gradient[sub.entries], np.abs(pull))
        self.answers[name] = answer

    def staleness(self, compiled: Compiled) -> dict[Hashable, float]:
        """Client -> how far its neighbours have moved since it was last solved (max norm)."""
        moved = np.abs(self.dual)
        return {name: float(moved[sub.rows, sub.entries].max()) for name, sub in compiled.items()}
