r"""State of a run: the arrays that change from round to round.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads; Q is
the total size of the edges, n the number of clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.channels import Channels
from dald_model.coordinate.reductions import LOCAL, Reductions
from dald_model.coordinate.scaling.units import Units
from dald_model.engines.batches import Batch
from dald_model.schedule.round_state import Residuals
from dald_model.solvers.arrays.indexing import ranges
from dald_model.solvers.base import ENCODINGS, Answers, Encoding, Multipliers, Tangents, Turn

PARTS = frozenset({"channels", "units", "reduce", "tangents"})
"""Of the attributes of a state, those that are no array."""


@dataclass
class State:
    r"""Iterates, multipliers and penalties of one run.

    Attributes
    ----------
    sides : ndarray, shape (2, Q)
        Current values of the sides :math:`G_{ij} x_i + g_{ij}`.
    received : ndarray, shape (2, Q)
        The value of the other end's side that each end saw when it was last solved.
    mu, rho : ndarray, shape (Q,)
        Multipliers and penalties of the consensus constraints.
    points : ndarray
        The clients' variables one after the other, see ``Decomposition.columns``.
    objectives : ndarray, shape (n,)
        The clients' own objectives there (as minimised).
    slack : ndarray, shape (2, n)
        How far each client is from minimising, condition (29): in units of its gradient, and
        relative to its natural slopes. Zeros where clients are minimised.
    inaccurate : ndarray of bool, shape (n,)
        The clients whose last solve fell short of the solver's tolerance.
    multipliers : ndarray
        Of the clients' own constraints, in the order of ``Decomposition.layout``.
    lengths : ndarray of int, shape (n,)
        How many multipliers each client has, in that order.
    encodings : ndarray of uint8, shape (n,)
        Their encodings, in that order; see :class:`dald_model.solvers.base.Encoding`.
    units : Units
        The natural units that residuals are measured in; they stay.
    channels : Channels or None
        The messages of each end, where clients may be absent or late.
    reduce : Reductions
        Over all clients and edges, of which these may be a part.
    tangents : Tangents or None
        What multipliers of all clients prove at these very ``points``.
    """

    sides: np.ndarray
    received: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    points: np.ndarray
    objectives: np.ndarray
    slack: np.ndarray
    inaccurate: np.ndarray
    multipliers: np.ndarray
    lengths: np.ndarray
    encodings: np.ndarray
    units: Units
    channels: Channels | None = None
    reduce: Reductions = LOCAL
    tangents: Tangents | None = None

    @classmethod
    def start(
        cls,
        compiled: Decomposition,
        rho: np.ndarray,
        units: Units | None = None,
        points: Mapping[Hashable, np.ndarray] | None = None,
    ) -> State:
        """All multipliers zero, as in Section VI, and the variables where ``units`` or points say.

        Without units they are ones, and all variables zero.
        """
        units, given = units or Units.plain(compiled), points or {}
        points = {n: given.get(n, units.start[compiled.columns[n]]) for n in compiled}
        sides, zeros, count = compiled.sides(points), np.zeros(compiled.size), len(compiled)
        return cls(
            sides=sides,
            received=sides[::-1].copy(),
            mu=zeros.copy(),
            rho=rho.copy(),
            points=np.concatenate([points[name] for name in compiled.layout]),
            objectives=np.zeros(count),
            slack=np.zeros((2, count)),
            inaccurate=np.zeros(count, dtype=bool),
            multipliers=np.zeros(0),
            lengths=np.zeros(count, dtype=int),
            encodings=np.full(count, Encoding.UNSOLVED, dtype=np.uint8),
            units=units,
        )

    def begun_again(self, units: Units) -> State:
        """A copy for another run, in which no client is solved yet."""
        found = self.snapshot()
        found.units, found.channels = units, None
        found.encodings[:] = Encoding.UNSOLVED
        found.slack[:] = 0.0
        found.inaccurate[:] = False
        return found

    def snapshot(self) -> State:
        """A copy that later rounds leave alone."""
        found = object.__new__(type(self))  # in every round
        own = vars(found)
        for name, one in vars(self).items():
            own[name] = one.copy() if isinstance(one, np.ndarray) else one
        found.channels = None if self.channels is None else self.channels.snapshot()
        return found

    def go_back(self, earlier: State) -> None:
        """Take back all that an outer loop from an earlier state of this run depends on.

        The clients' answers, the multipliers, and the last values that each end was told: a client
        that lags behind would otherwise answer to values that were taken back. Not the penalties,
        and not who has left or which edges are off, which the schedule alone decides.
        """
        for name, array in earlier._arrays().items():
            if name != "rho":
                setattr(self, name, array.copy())
        if self.channels is not None and earlier.channels is not None:
            self.channels.go_back(earlier.channels)

    def _arrays(self) -> dict[str, np.ndarray]:
        names = [each.name for each in fields(self) if each.name not in PARTS]
        return {name: getattr(self, name) for name in names}

    @property
    def primal(self) -> np.ndarray:
        r"""The primal residual :math:`\mathcal C`, equations (A1-8) and (A2-7), shape (Q,)."""
        gap = self.sides[0] - self.sides[1]
        if self.channels is not None:
            gap[self.channels.off] = 0.0
        return gap

    @property
    def dual(self) -> np.ndarray:
        r"""The dual residual :math:`\mathcal D`, equations (A1-7) and (A2-6), shape (2, Q).

        The neighbour's value now, less the value that the end saw when it was last solved. After
        a full cycle the later end of each edge has zero, and the earlier end has
        :math:`x_j^{k,v} - x_j^{k,v-1}` of its later neighbour, as the paper defines it; the
        definition also holds where some clients were left out or solved twice.
        """
        moved = self.sides[::-1] - self.received
        if self.channels is not None:
            off = self.channels.off
            moved[:, off] = self.sides[:, off] - self.received[:, off]
            moved[self.channels.away] = 0.0
        return moved

    def stationarity(self, dual: np.ndarray) -> np.ndarray:
        r"""How far each end is from stationarity (A2-3), (2, Q).

        :math:`2 \rho^2 |\mathcal D|` where all take part. Where not, an end may have been solved
        with other multipliers than now: the difference of its price then and now. An end of an
        edge that is off is tied to its own last value alone, which has to stop pulling.
        """
        if self.channels is None:
            return 2 * self.rho**2 * np.abs(dual)
        then, off = self.channels.multiplier_estimates, self.channels.off
        found = np.abs(np.where(off, then, self.estimate - then))
        found[self.channels.away] = 0.0
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
        if self.channels is not None and self.channels.stale_inputs is not None:
            for row, sign in ((0, 1.0), (1, -1.0)):
                lags = self.channels.stale_inputs[row]
                gap[lags] = sign * (self.sides[row, lags] - self.received[row, lags])
        return gap

    @property
    def estimate(self) -> np.ndarray:
        r""":math:`\mu + 2 \rho \circ \rho \circ \mathcal C`, the next multipliers (15), (22)."""
        return self.mu + 2 * self.rho**2 * self.primal

    def turn(self, batch: Batch) -> Turn:
        """The data with which a batch of clients is solved now."""
        ends = batch.ends
        mu, rho, told = self.mu[ends.at], batch.penalties(self.rho), ends.other(self.sides)
        if self.channels is not None:
            told = self.channels.told(ends, told)
            is_off = self.channels.off[ends.at]
            if is_off.any():
                told = np.where(is_off, ends.own(self.sides), told)
                mu, rho = np.where(is_off, 0.0, mu), np.where(is_off, batch.loose * rho, rho)
        units, mine = self.units, batch.columns
        slopes = units.point_slopes[mine]
        lengths = batch.reach(self.rho, units.point_lengths[mine], slopes)
        return Turn(batch.which, mu, rho, told, self.points[mine], lengths, slopes)

    def put(self, batch: Batch, turn: Turn, answers: Answers) -> np.ndarray:
        """Enter the answers of a batch of clients; gives each end's multiplier estimate."""
        ends, told = batch.ends, turn.neighbours
        own = batch.spread(answers.points)
        ends.set(self.received, told)
        ends.set(self.sides, own)
        own -= told
        estimate = own
        if self.channels is None:
            estimate *= batch.weights(turn.rho, self.rho)
        else:
            estimate *= 2 * batch.signs * turn.rho**2
        estimate += turn.mu
        self.points[batch.columns] = answers.points
        self.objectives[batch.clients] = answers.objectives
        self.inaccurate[batch.clients] = False
        if answers.statuses.count("optimal") < len(answers.statuses):
            short = [status == "optimal_inaccurate" for status in answers.statuses]
            self.inaccurate[batch.clients] = short
        if answers.slack.size:
            self.slack[0, batch.clients] = answers.slack
            self.slack[1, batch.clients] = answers.slack_scaled
        if self.channels is not None:
            self.channels.put(ends, estimate)
        self.hold(batch.places, answers.multipliers)
        return estimate

    def hold(self, places: slice | np.ndarray, given: Multipliers) -> None:
        """Enter the multipliers of some clients; there is room made for them the first time."""
        self.encodings[places] = given.encodings
        if (self.lengths[places] != given.lengths).any():
            lengths = self.lengths.copy()
            lengths[places] = given.lengths
            kept = lengths == self.lengths
            moved = np.zeros(int(lengths.sum()))
            moved[_entries(lengths, kept)] = self.multipliers[_entries(self.lengths, kept)]
            self.multipliers, self.lengths = moved, lengths
        if given.values.size:
            if isinstance(places, slice):
                start = int(self.lengths[: places.start].sum())
                self.multipliers[start : start + given.values.size] = given.values
            else:
                starts = (np.cumsum(self.lengths) - self.lengths)[places]
                self.multipliers[ranges(starts, given.lengths)] = given.values

    @property
    def held(self) -> list[tuple[Encoding, np.ndarray]]:
        """The multipliers of all clients with their encodings, in the order of the layout."""
        stops = np.cumsum(self.lengths).tolist()
        how = [ENCODINGS[one] for one in self.encodings.tolist()]
        spans = zip(how, [0, *stops], stops, strict=False)
        return [(kind, self.multipliers[start:stop]) for kind, start, stop in spans]

    @property
    def complete(self) -> bool:
        """Whether every client was solved at least once."""
        return np.count_nonzero(self.encodings) == self.encodings.size  # UNSOLVED is zero

    def solved(self, places: Iterable[int]) -> bool:
        """Whether these clients, by their positions in the layout, were all solved once."""
        return bool(self.encodings[list(places)].all())

    def staleness(self, compiled: Decomposition) -> dict[Hashable, float]:
        """Client -> how far its neighbours have moved since it was last solved (max norm)."""
        moved = np.abs(self.dual)
        return {name: float(moved[sub.rows, sub.entries].max()) for name, sub in compiled.items()}


def _entries(lengths: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Where the entries of some clients lie, one client after the other."""
    starts = np.cumsum(lengths) - lengths
    return ranges(starts[chosen], lengths[chosen])


def residuals(state: State) -> Residuals:
    r"""The residuals of the current iterate, (A1-7), (A1-8), (A2-6), (A2-7): :class:`Residuals`.

    In units of the edges' lengths X and slopes M they are the largest :math:`|\mathcal C_r| / X_r`,
    and the larger of :math:`|\mathcal D_r| / X_r` and :math:`s_r / M_r` with the violation
    :math:`s = 2 \rho^2 |\mathcal D|` of (A2-3), or what solvers that are not exact leave.
    """
    lengths, slopes = state.units.lengths, state.units.slopes
    gap, dual = np.abs(state.primal), state.dual
    moved, unbalanced = np.abs(dual).max(axis=0), state.stationarity(dual).max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        scaled = np.maximum(moved / lengths, unbalanced / slopes)
        table = np.array([gap, moved, gap / lengths, scaled])
    primal, change, primal_scaled, dual_scaled = state.reduce.largest(table)[:, 0].tolist()
    slack, slack_scaled = state.reduce.largest(state.slack)[:, 0].tolist()
    return Residuals(primal, change, primal_scaled, max(dual_scaled, slack_scaled), slack)
