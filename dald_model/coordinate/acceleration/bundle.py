r"""The consensus of the clients' lower bounds: a bundle method in the coordinator.

With the bounds :math:`h_{ij} + \phi_{ij}^\top \xi_i` of :class:`.cuts.Cuts`

.. math::
    \min_{\xi, s} \sum_i s_i + \tfrac t2 |\xi - \bar\xi|^2 \quad\text{s.t.}\quad
    s_i \ge h_{ij} + \phi_{ij}^\top \xi_i, \ \text{all consensus constraints}

is the disaggregated proximal bundle method (Lemarechal 1975; Kiwiel 1990). Bounds hold everywhere,
so that where objectives have kinks, and a curvature learned on one side of a kink is wrong on the
other, nothing that was learned needs to be unlearned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.coordinate.acceleration.cuts import Cuts, Rows
from dald_model.coordinate.acceleration.evaluation import Accelerator, Evaluation, Proposal
from dald_model.coordinate.acceleration.master import Master
from dald_model.solvers.exact.native import solved_once

MOST_COORDINATES, MOST_AT_ALL, FEW_AGREED = 4000, 30_000, 400
"""Coordinates of all clients together beyond which its own solver is too slow; and beyond which
that is so although the clients agree on no more numbers than the last."""
NEARNESS = 0.01
"""The first pull t, as a share of that of the first penalties."""
NEAREST, WEAKEST = 1.0, 1e-9
"""The range of t."""
NEW, WRONG = 0.3, 3.0
"""Where clients turn out to be higher than their bounds by less than the first of these times the
energy of the pull, t falls to :data:`WIDER` of itself; by more than the second, it is doubled."""
WIDER = 0.25
STAYS, FELL, STUCK, STEEPEST = 0.5, 0.7, 3, 64.0
"""Where for more than the third number of rounds the next point is nearer to the last one than the
first share of how far the answers were from that, and these do not come nearer by the second share,
clients are asked beyond their bounds, up to so many times that distance steeper. Without, a linear
program on a star whose owners are absent by a third takes 276 rounds for at most 192."""
MASTER_TOLERANCE = 1e-11
"""Of the coordinator's own solver."""
FEW_BOUNDS, TRIALS = 200, 6
"""More bounds than these are left out at first, and so often those that were missed are added: of
less an interior point is as quick, whose multipliers, of many, do not hang on what was left out."""
MISSED_BOUND = 1e-10
"""A bound that was left out is missed where it is higher by more than this share of all heights."""
ACTIVE_SHARE = 1e-9
"""Bounds of a smaller share in the optimum are not active."""


class _Question(NamedTuple):
    """Where clients were asked, z; around which point; and how high their bounds are there."""

    point: np.ndarray
    free: np.ndarray
    centre: np.ndarray
    heights: np.ndarray


class BundleModel(Accelerator):
    """The bounds of one run.

    Attributes
    ----------
    is_spent : bool
        Whether the fall that they promised last is rounding.
    """

    name = "bundle"

    def __init__(self, master: Master, heads: np.ndarray) -> None:
        self._coordinates, self._master, self._heads = master.coordinates, master, heads
        self._cuts = Cuts(master.coordinates, master.agreed)
        self._ties: Any = sp.csr_array(master.agreed.rows)
        coordinates = master.coordinates
        self._clients = coordinates.answers[coordinates.owner]
        self._nearness = NEARNESS
        self._asked: _Question | None = None
        self._centre = np.zeros(0)
        self._missed = np.zeros(0)
        self._stuck = 0

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        points = self._coordinates.points(evaluation.sides)
        slopes = self._coordinates.slopes(evaluation.estimates)
        agreed, asked, self._asked = self._master.agreed, self._asked, None
        if asked is None or evaluation.before is not asked.point:
            self._cuts.note(points, slopes, evaluation.objectives)
            self._centre, self._stuck = agreed.nearest(points), 0
            self._missed = np.zeros_like(points)
            return
        heights = self._cuts.add(points, slopes, evaluation.objectives)
        # Around where clients were asked, not where they answered: else it rests where they differ
        self._centre = asked.free
        missed = np.where(self._clients, agreed.expand(asked.free) - points, 0.0)
        fell = np.linalg.norm(missed) < FELL * np.linalg.norm(self._missed)
        self._missed, self._stuck = missed, 0 if fell else self._stuck
        there = self._coordinates.sums(slopes * agreed.expand(asked.free))
        there = heights + self._cuts.sums(there)
        is_known = np.isfinite(asked.heights) & np.isfinite(there)
        new = np.maximum(there - asked.heights, 0.0)[is_known].sum()
        energy = self._nearness * (agreed.weight * (asked.free - asked.centre) ** 2).sum()
        if new < NEW * energy:
            self._nearness = max(WIDER * self._nearness, WEAKEST)
        elif new > WRONG * energy:
            self._nearness = min(2 * self._nearness, NEAREST)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        agreed = self._master.agreed
        found = self._solved(self._cuts.rows())
        if found is None:
            return None
        free, heights, shares, tied = found
        slopes = self._cuts.mixed(shares)
        self._cuts.prune(shares > ACTIVE_SHARE)
        # Prices balance: what the pull adds is spread over the clients
        slopes = slopes + self._beyond(free)
        left = (agreed.gather(slopes) + agreed.rows.T @ tied) / agreed.weight
        slopes = slopes - left[agreed.classes] * agreed.factor
        prices = self._master.nearest(slopes, evaluation.after[0])
        sides = self._coordinates.sides(agreed.expand(free))
        point = np.array([prices, np.where(self._heads, sides[1], sides[0])])
        if not np.isfinite(point).all():
            return None
        self._asked = _Question(point, free, self._centre, heights)
        return Proposal(point, self.name, sides)

    def _beyond(self, free: np.ndarray) -> np.ndarray:
        """How much steeper than their bounds clients are asked, (N,): not where bounds moved on.

        An answer's slope is steeper than the one that was asked by how far it is from the point
        asked. Where a constraint keeps a client from a corner that the others' bounds hold, that is
        what a round adds to its bounds there; so each further round asks for twice as much.
        """
        moved = np.sqrt((self._master.agreed.weight * (free - self._centre) ** 2).sum())
        stays = moved < STAYS * np.linalg.norm(self._missed)
        self._stuck = self._stuck + 1 if stays else 0
        return (min(2.0 ** max(self._stuck - STUCK, 0), STEEPEST) - 1) * self._missed

    def _solved(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """The optimal z, all groups' s, the shares of rows, and the prices of R.

        None where bounds say no more, or the solver failed.
        """
        agreed, centre = self._master.agreed, self._centre
        owners, number = np.unique(rows.owner, return_inverse=True)
        height = rows.height + rows.matrix @ centre
        highest = np.full(owners.size, -np.inf)
        np.maximum.at(highest, number, height)
        height = height - highest[number]
        scale = float(np.abs(height).mean()) or 1.0
        size, above = height.size, owners.size
        # In units of the heights and, as coordinates are roots of energies, of their root
        unit = np.sqrt(scale)
        left = agreed.rhs - agreed.rows @ centre if agreed.rhs.size else agreed.rhs
        program = ConeProgram(
            matrix=_pull(self._nearness * agreed.weight, above),
            constant=0.0,
            linear=np.concatenate([np.zeros(centre.size), np.ones(above)]),
            rows=self._ties,
            rhs=left / unit,
            cones=(("ZeroConeT", agreed.rhs.size),),
        )
        is_bare = np.bincount(number, rows.is_likely, above)[number] == 0
        likely = rows.is_likely | is_bare | (size <= FEW_BOUNDS)
        bounds = _epigraph(rows.matrix, unit, number)
        found = _bounded(program, bounds, -height / scale, likely)
        if found is None:
            return None
        point, tied, shares = found
        moved, risen = np.split(point, [centre.size])
        sizes = np.zeros(above)
        np.maximum.at(sizes, number, np.abs(rows.height) + abs(rows.matrix) @ np.abs(centre))
        # Bounds resolve points to the root of rounding, where an objective bends
        self.is_spent = bool(-scale * risen.sum() < np.finfo(float).eps * sizes.sum())
        if self.is_spent:
            return None
        heights = np.full(self._cuts.count, -np.inf)
        heights[owners] = highest + scale * risen
        return centre + unit * moved, heights, np.maximum(shares, 0.0), unit * tied


def _pull(weight: np.ndarray, above: int) -> sp.csc_array:
    """The pull of z as a diagonal matrix, with ``above`` columns of zeros for s."""
    size, stops = weight.size + above, np.full(above, weight.size)
    each = np.arange(weight.size + 1)
    return sp.csc_array((weight, each[:-1], np.concatenate([each, stops])), shape=(size, size))


def _epigraph(matrix: Any, unit: float, number: np.ndarray) -> sp.csr_array:
    """The rows of bounds of z and s, of which each stands in the bounds of a ``number``."""
    height, width = matrix.shape
    starts = matrix.indptr + np.arange(height + 1)
    is_own = np.zeros(matrix.nnz + height, dtype=bool)
    is_own[starts[1:] - 1] = True
    data, columns = np.full(is_own.size, -1.0), np.empty(is_own.size, dtype=starts.dtype)
    data[~is_own], columns[~is_own] = matrix.data / unit, matrix.indices
    columns[is_own] = width + number
    return sp.csr_array((data, columns, starts), shape=(height, width + int(number.max()) + 1))


def _stacked(upper: Any, lower: Any) -> sp.csc_array:
    """CSR rows over others, which have more columns: scipy's own took a fifth of kinked solves."""
    starts = np.concatenate([upper.indptr, lower.indptr[1:] + upper.nnz])
    parts = (upper.data, lower.data), (upper.indices, lower.indices)
    shape = starts.size - 1, lower.shape[1]
    return sp.csr_array((*map(np.concatenate, parts), starts), shape=shape).tocsc()


def _bounded(
    program: ConeProgram, bounds: sp.csr_array, rhs: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The optimum of a program under many bounds more, and the multipliers of both.

    Few of them are active: it is solved with those ``chosen``, and again with those it missed;
    in the end with all.
    """
    same = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), MASTER_TOLERANCE)
    trials = 0
    while True:
        part = program._replace(
            rows=_stacked(program.rows, bounds if chosen.all() else bounds[chosen]),
            rhs=np.concatenate([program.rhs, rhs[chosen]]),
            cones=(*program.cones, ("NonnegativeConeT", int(chosen.sum()))),
        )
        answer = solved_once(part, **same)
        if str(answer.status) not in ("Solved", "AlmostSolved"):
            return None
        point = np.array(answer.x)
        is_missed = ~chosen & (bounds @ point - rhs > MISSED_BOUND)
        if not is_missed.any():
            tied, own = np.split(np.array(answer.z), [program.rhs.size])
            shares = np.zeros(rhs.size)
            shares[chosen] = own
            return point, tied, shares
        trials += 1
        chosen = chosen | is_missed | (trials == TRIALS)
