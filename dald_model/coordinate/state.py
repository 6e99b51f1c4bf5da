r"""State: everything that changes while the loop runs, as flat vectors over all edges.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads; Q is
the total size of the edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.channels import Links
from dald_model.engines.dispatch import Group
from dald_model.solvers.base import Answers, Turn


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
        The clients' variables one after the other, see ``Decomposition.columns``.
    objectives : ndarray, shape (n,)
        The clients' own objectives there (as minimised).
    origin : list
        For each client the :class:`Answers` that its point came with and its place in them; None
        while it was not solved.
    slack : ndarray, shape (2, n)
        How far each client is from minimising, condition (29): in units of its gradient, and in
        units of its smallest :math:`\rho`. Zeros where clients are minimised.
    links : Links or None
        What is known of every end where not everybody takes part all the time.
    """

    sides: np.ndarray
    seen: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    gradient: np.ndarray
    points: np.ndarray
    objectives: np.ndarray
    origin: list[tuple[Answers, int] | None]
    slack: np.ndarray
    links: Links | None = None

    @classmethod
    def start(
        cls,
        compiled: Decomposition,
        rho: np.ndarray,
        points: Mapping[Hashable, np.ndarray] | None = None,
    ) -> State:
        """All multipliers zero, and all variables where they are not given, as in Section VI."""
        given = points or {}
        points = {name: given.get(name, np.zeros(sub.size)) for name, sub in compiled.items()}
        sides, zeros = compiled.sides(points), np.zeros(compiled.size)
        return cls(
            sides,
            sides[::-1].copy(),
            zeros.copy(),
            rho.copy(),
            zeros.copy(),
            np.concatenate([points[name] for name in compiled.layout]),
            np.zeros(len(compiled)),
            [None] * len(compiled),
            np.zeros((2, len(compiled))),
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
            slack=self.slack.copy(),
            links=None if self.links is None else self.links.snapshot(),
        )

    @property
    def primal(self) -> np.ndarray:
        r"""The primal residual :math:`\mathcal C`, equations (A1-8) and (A2-7), shape (Q,)."""
        gap = self.sides[0] - self.sides[1]
        if self.links is not None:
            gap[self.links.off] = 0.0
        return gap

    @property
    def dual(self) -> np.ndarray:
        r"""The dual residual :math:`\mathcal D`, equations (A1-7) and (A2-6), shape (2, Q).

        What an end's neighbour is now, less what the end was told when it was last solved. After
        a full cycle the later end of each edge has zero, and the earlier end has
        :math:`x_j^{k,v} - x_j^{k,v-1}` of its later neighbour, as the paper defines it; the
        definition also holds where some clients were left out or solved twice.
        """
        moved = self.sides[::-1] - self.seen
        if self.links is not None:
            off = self.links.off
            moved[:, off] = self.sides[:, off] - self.seen[:, off]
            moved[self.links.away] = 0.0
        return moved

    @property
    def violation(self) -> np.ndarray:
        r"""How far each end is from stationarity, (A2-3), shape (2, Q), not negative.

        :math:`2 \rho^2 |\mathcal D|` where all take part. Where not, an end may have been solved
        with other multipliers than now: the difference of its price then and now. An end of an
        edge that is off is tied to its own last value alone, which has to stop pulling.
        """
        if self.links is None:
            return 2 * self.rho**2 * np.abs(self.dual)
        pulls, off = self.links.pulls, self.links.off
        found = np.abs(np.where(off, pulls, self.estimate - pulls))
        found[self.links.away] = 0.0
        return found

    @property
    def told_gap(self) -> np.ndarray:
        r"""The primal residual that multipliers follow, shape (Q,).

        :math:`\mathcal C`, but with what a client that lags behind was told in place of where its
        neighbour is now: the new multiplier is then the price that it balanced, as for the workers
        of asynchronous ADMM (Chang, Hong, Liao and Wang 2016). With its neighbour's newest value
        the multipliers would answer to a point that it has never seen.
        """
        gap = self.primal
        if self.links is not None and self.links.deaf is not None:
            for row, sign in ((0, 1.0), (1, -1.0)):
                lags = self.links.deaf[row]
                gap[lags] = sign * (self.sides[row, lags] - self.seen[row, lags])
        return gap

    @property
    def estimate(self) -> np.ndarray:
        r""":math:`\mu + 2 \rho \circ \rho \circ \mathcal C`, the next multipliers (15), (22)."""
        return self.mu + 2 * self.rho**2 * self.primal

    def turn(self, group: Group) -> Turn:
        """What a group of clients is told now."""
        ends = group.ends
        mu, rho, told = self.mu[ends.at], self.rho[ends.at], ends.other(self.sides)
        if self.links is not None:
            told = self.links.told(ends, told)
            is_off = self.links.off[ends.at]
            if is_off.any():
                told = np.where(is_off, ends.own(self.sides), told)
                mu, rho = np.where(is_off, 0.0, mu), np.where(is_off, group.loose * rho, rho)
        return Turn(group.which, mu, rho, told, self.points[group.columns])

    def put(self, group: Group, turn: Turn, answers: Answers) -> np.ndarray:
        """Enter the answers of a group of clients; gives the price that each end balanced."""
        ends, told = group.ends, turn.neighbours
        own = group.spread(answers.points)
        ends.set(self.seen, told)
        ends.set(self.sides, own)
        own -= told
        pull = own
        if self.links is None:
            pull *= group.weights(turn.rho, self.rho)
        else:
            pull *= 2 * group.signs * turn.rho**2
        pull += turn.mu
        steep = self.gradient[ends.at]
        np.maximum(steep, np.abs(pull), out=steep)
        if not isinstance(ends.at, slice):
            self.gradient[ends.at] = steep
        self.points[group.columns] = answers.points
        self.objectives[group.clients] = answers.objectives
        if answers.slack.size:
            self.slack[0, group.clients] = answers.slack
            smallest = np.minimum.reduceat(turn.rho, group.starts)
            self.slack[1, group.clients] = answers.slack / smallest
        if self.links is not None:
            self.links.put(ends, pull)
        for i, client in enumerate(group.places):
            self.origin[client] = answers, i
        return pull

    def staleness(self, compiled: Decomposition) -> dict[Hashable, float]:
        """Client -> how far its neighbours have moved since it was last solved (max norm)."""
        moved = np.abs(self.dual)
        return {name: float(moved[sub.rows, sub.entries].max()) for name, sub in compiled.items()}
