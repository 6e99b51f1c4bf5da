r"""State: everything that changes while the loop runs, as flat vectors over all edges.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads; Q is
the total size of the edges.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dald_model.compiler import Compiled

if TYPE_CHECKING:
    from dald_model.layer import Group
    from dald_model.solvers.base import Answers


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
    points : ndarray
        The clients' variables one after the other, see ``Compiled.columns``.
    objectives : ndarray, shape (n,)
        The clients' own objectives there (as minimised).
    origin : list
        For each client the :class:`Answers` that its point came with and its place in them; None
        while it was not solved.
    """

    sides: np.ndarray
    seen: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    gradient: np.ndarray
    points: np.ndarray
    objectives: np.ndarray
    origin: list[tuple[Answers, int] | None]

    @classmethod
    def start(cls, compiled: Compiled, rho: np.ndarray) -> State:
        """All variables and multipliers zero, as in Section VI."""
        points = {name: np.zeros(sub.size) for name, sub in compiled.items()}
        sides, zeros = compiled.sides(points), np.zeros(compiled.size)
        return cls(
            sides,
            sides[::-1].copy(),
            zeros.copy(),
            rho.copy(),
            zeros.copy(),
            np.concatenate(list(points.values())),
            np.zeros(len(compiled)),
            [None] * len(compiled),
        )

    @property
    def complete(self) -> bool:
        """Whether every client was solved at least once."""
        return None not in self.origin

    def snapshot(self) -> State:
        """A copy that later rounds leave alone."""
        return replace(
            self,
            sides=self.sides.copy(),
            seen=self.seen.copy(),
            mu=self.mu.copy(),
            rho=self.rho.copy(),
            gradient=self.gradient.copy(),
            points=self.points.copy(),
            objectives=self.objectives.copy(),
            origin=list(self.origin),
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

    def put(self, group: Group, answers: Answers) -> None:
        """Enter the answers of a group of clients to what they are told now."""
        at, rows = group.entries, group.rows
        told = self.sides[1 - rows, at]
        own = group.sides @ answers.points + group.offset
        self.seen[rows, at] = told
        self.sides[rows, at] = own
        pull = self.mu[at] + 2 * self.rho[at] ** 2 * group.signs * (own - told)
        self.gradient[at] = np.maximum(self.gradient[at], np.abs(pull))
        self.points[group.columns] = answers.points
        self.objectives[group.clients] = answers.objectives
        for i, client in enumerate(group.clients.tolist()):
            self.origin[client] = answers, i

    def staleness(self, compiled: Compiled) -> dict[Hashable, float]:
        """Client -> how far its neighbours have moved since it was last solved (max norm)."""
        moved = np.abs(self.dual)
        return {name: float(moved[sub.rows, sub.entries].max()) for name, sub in compiled.items()}
