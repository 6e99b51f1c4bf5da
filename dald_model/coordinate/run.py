r"""The one loop of the code base: Algorithms 2 and 3 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from dald_model.coordinate import outcome
from dald_model.coordinate.channels import Channels
from dald_model.coordinate.convergence import check_order, default_stopping
from dald_model.coordinate.diagnosis import FailureMonitor
from dald_model.coordinate.membership import Membership, RoundPlan
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.outcome import Best, Outcome
from dald_model.coordinate.outer_test import REFUSED_MOST, OuterTest
from dald_model.coordinate.peers import AmongPeers, PeerSweeper
from dald_model.coordinate.penalty import PenaltyRule, ResidualBalancing
from dald_model.coordinate.progress import Progress
from dald_model.coordinate.proposals import Proposals
from dald_model.coordinate.recession import falls_forever
from dald_model.coordinate.recorder import Count, Recorder
from dald_model.coordinate.reductions import LocalReductions
from dald_model.coordinate.settings import EndProof, Settings
from dald_model.coordinate.state import State
from dald_model.coordinate.status import (
    Asking,
    ClientFailedError,
    Status,
    Termination,
    as_error,
)
from dald_model.coordinate.stopping import FixedBudget, Stopping
from dald_model.coordinate.sweeper import Record, SerialSweeper, Sweeper
from dald_model.deadline import TimeUpError
from dald_model.engines.dispatch import SolverLayer
from dald_model.engines.idle import Layer
from dald_model.errors import DaldError
from dald_model.gc_pause import gc_paused
from dald_model.schedule.round_state import Moment, Residuals
from dald_model.text import counted
from dald_model.values import is_panic

KEPT = (
    "outer",
    "inner",
    "round",
    "is_extrapolated",
    "least",
    "nearest",
    "residuals",
    "best",
    "monitor",
)
"""Attributes of a run that a checkpoint file holds as they are."""
UNPROVED = (Status.ROUND_LIMIT, Status.STALLED, Status.DIVERGED)
"""Ends that give way to the iterate that met the tolerances before, if there was one."""


class Run:
    r"""One run of an algorithm on a compiled model.

    .. code-block:: text

        for k = 1, 2, ...                                          outer loop
            for v = 1, 2, ...                                      inner loop: a round
                minimise the clients stage by stage                (13), (14), (21)
                measure the residuals C and D                      (A1-7), (A1-8)
                until the stopping condition holds                 (B1) to (B4)
            stop if |C| <= eps_pri and |D| <= eps_dual, and the gap is proved
            mu <- mu + 2 rho o rho o C                             (15), (22)
            rho <- the penalty rule
            mu, sides <- the point that the acceleration proposes, if there is one
    """

    @gc_paused
    def __init__(
        self,
        membership: Membership,
        method: Method,
        state: State,
        rule: PenaltyRule,
        layer: Layer,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self.membership, self.method, self.state = membership, method, state
        self.rule, self.layer, self.settings = rule, layer, settings
        if membership.online or method.ignore_absent or membership.sequence.leaves_out:
            state.channels = Channels.start(state.sides)
        self._outer, self._inner, self._round = 1, 0, 0
        self._is_extrapolated = settings.is_extrapolated
        self._written: int | None = None
        self._least: EndProof | None = None
        self._nearest = Best()
        self._residuals = Residuals(*4 * [math.inf])
        self._best = Best()
        proves = method.goal is not Goal.FIXED_POINT and isinstance(state.reduce, LocalReductions)
        proves = proves and membership.compiled.is_convex
        self._monitor = FailureMonitor(membership.compiled, method.remedy, proves)
        self._outer_test = OuterTest(membership, method, settings, layer)
        self._proposals = Proposals(membership, method, settings, layer)
        self._proposals.start(state, self._whole_moment)
        self._stopping = settings.stopping or self._default_stopping()
        self._is_tested = settings.tests(method)
        check_order(membership, self._stopping, method)
        self._sweeper = self._made_sweeper()
        self._recorder = Recorder(membership, layer, settings, progress)

    def _made_sweeper(self) -> Sweeper:
        """Of the method; else of its solver layer, with peers where there is no coordinator."""
        method, layer, settings = self.method, self.layer, self.settings
        if method.sweeper is not None:
            enough = max(settings.eps_pri, settings.eps_dual)
            if settings.is_watched:
                enough = math.inf
            compiled = self.membership.compiled
            return method.sweeper(compiled, settings.placement, settings.interior, enough)
        assert isinstance(layer, SolverLayer)
        if isinstance(self.state.reduce, AmongPeers):
            return PeerSweeper(layer, self.state.reduce)
        return SerialSweeper(layer, method.after_stage, method.goal is Goal.FIXED_POINT)

    def go(self) -> Outcome:
        """Run inner loops until the run ends.

        An exception from a function or an object of the user ends it as well; the rounds before
        it are kept.
        """
        termination = error = None
        try:
            while termination is None and self._round < self.settings.max_rounds:
                self._write()
                termination = self._one_round()
            if termination is None:
                self._write(is_last=True)
                said = f"after {counted(self.settings.max_rounds, 'round')}; see result.diagnose()"
                termination = Termination(Status.ROUND_LIMIT, None, said)
            if self._least is not None and termination.status in UNPROVED:
                ended, termination = termination, self._unproved(self._least)
                if ended.status is Status.ROUND_LIMIT and termination.status is Status.STALLED:
                    said = f"{ended.detail}; {termination.detail}"
                    termination = Termination(Status.ROUND_LIMIT, None, said)
        except ClientFailedError as failure:
            if self._best.state is None:  # as after a proof that was refused
                self._best = self._nearest
            found = failure.termination
            with suppress(TimeUpError):
                found = self._monitor.explain(self.state, found)
            termination = self.state.reduce.agreed(found)
        except TimeUpError:
            termination = outcome.out_of_time(len(self._recorder.rows))
        except KeyboardInterrupt:
            said = f"after {len(self._recorder.rows)} complete rounds"
            termination = Termination(Status.INTERRUPTED, None, said)
        except BaseException as raised:
            if not (isinstance(raised, Exception) or is_panic(raised)):
                raise
            error = as_error(raised, self._round)
            termination = Termination.of(error)
        found = {id(s): s for s in (self.state, self._best.state) if s is not None}
        if self._sweeper.finish(found.values()) and self._best.state is None:
            self._keep(self.state)
        try:
            self._collect()
        except DaldError as lost:  # from an engine: the multipliers are lost, the rounds are kept
            termination, error = Termination.of(lost), error or lost
        termination = self._proved(termination)
        events, placement = tuple(self.layer.events), self.settings.placement
        return Outcome(
            termination,
            self._best,
            self.state,
            self._recorder.rows,
            self.membership,
            events,
            error,
            self._proposals.learnt,
            self._proposals.recalled,
            self._proposals.obstacle,
            self.layer.losses if placement is None else tuple(placement.losses),
            self._sweeper.shown,
            self._sweeper.rest(),
        )

    def _write(self, *, is_last: bool = False) -> None:
        """Write the run to its checkpoint file when that is due.

        All solver sessions begin anew then, as they do where the run is resumed, so that both have
        the same iterates.
        """
        checkpoint = self.settings.checkpoint
        since = math.inf if self._written is None else self._round - self._written
        if checkpoint is None or since < (1 if is_last else checkpoint.every):
            return
        self._collect()
        checkpoint.write(self.membership.compiled, self.kept())
        self._written = self._round
        self.layer.renew()

    def kept(self) -> dict[str, Any]:
        """The data of the run between two inner loops, for a checkpoint file."""
        kept = {name: getattr(self, f"_{name}") for name in KEPT}
        kept |= self._outer_test.kept() | self._proposals.kept()
        return kept | {
            "state": self.state,
            "rows": self._recorder.kept(),
            "layer": self.layer.kept(),
            "membership": self.membership.kept(),
            "sweeper": self._sweeper.kept(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take the data that :meth:`kept` gave for a run with the same options."""
        for name in KEPT:
            setattr(self, f"_{name}", kept[name])
        self._outer_test.restore(kept)
        self._proposals.restore(kept)
        self.state = kept["state"]
        self.layer.restore(kept["layer"])
        self.membership.restore(kept["membership"])
        self._sweeper.restore(kept["sweeper"])
        self._stopping = self.settings.stopping or self._default_stopping()
        self._written = self._round
        self._recorder.restore(kept["rows"], self._round)

    def _collect(self) -> None:
        """Enter the multipliers of the best iterate that remote hosts hold."""
        best = self._best.state
        if best is not None:
            for places, given in self.layer.collect(best.encodings):
                best.hold(places, given)

    def _one_round(self) -> Termination | None:
        """One round; gives the end of the run, or None where it goes on."""
        plan = self.membership.open(self._moment)
        self._open_channels(plan)
        if plan.changed:
            self._restart()
        tolerance = self._tolerance()
        self.layer.round = self._round + 1
        try:
            record = self._sweeper.run(self.state, plan.stages, tolerance)
        except ClientFailedError:
            origin = self._proposals.origin
            if not self._proposals.failed(self.state):
                raise
            self._record_failed(plan, origin)
            return None
        merit = self._record(record, plan)
        self._keep_if_best(merit)
        if self._recorder.measure(self.state, self._round):
            said = f"the callback ended the run after round {self._round}"
            return Termination(Status.INTERRUPTED, None, said)
        inner = self._inner
        if plan.closing and self._ends(inner):
            ended = self._end_outer_loop(tolerance)
            if ended is not None:
                return ended
        if not self._is_tested:
            return None
        return self._monitor.look(self._round, inner, self.state, self._residuals, merit)

    def _tolerance(self) -> float:
        """The accuracy that the clients of this round are minimised to."""
        accuracy, falling = self.settings.accuracy, self._falling(self._residuals)
        tolerance = accuracy.of(falling, learns=bool(self._proposals))
        is_extrapolated = self._is_extrapolated and not self._round
        if self._proposals.recalled or is_extrapolated:  # this round may be the last
            tolerance = min(tolerance, accuracy.enough)
        if self._outer_test.retried:  # no solver gives more
            tolerance = max(tolerance, accuracy.enough)
        return tolerance

    def _end_outer_loop(self, tolerance: float) -> Termination | None:
        """The end of the run if the iterate passes the test; else update multipliers, penalties."""
        test = self._outer_test
        if test.is_met(self.state, self._residuals, self._round, tolerance, bool(self._proposals)):
            refusal = test.refusal(self.state)
            return self._converged() if refusal is None else self._refused(refusal)
        said = test.certified(self.state, self._round)
        if said:
            self._keep(self.state)
            return Termination(Status.CERTIFIED, None, said)
        self._update_multipliers()
        return None

    def _record_failed(self, plan: RoundPlan, origin: str) -> None:
        """Record a round that a client's failure ended at a proposal, which is taken back."""
        before = self._residuals
        unknown = Record(Residuals(*5 * [math.nan]), self.state.objectives)
        self._record(unknown, plan, f"{origin}, taken back")
        self._residuals, self._inner = before, 0

    def _converged(self) -> Termination:
        self._keep(self.state)
        if self._outer > 1:
            self._proposals.observe(self.state)
        if self.method.goal is Goal.OPTIMUM:
            found = outcome.converged(self.membership, self.state)
            return found._replace(detail=found.detail or self.settings.unproved)
        apart = self._residuals.primal
        said = f"the clients are {apart:.1e} apart, as multipliers are not updated"
        return Termination(Status.SETTLED, None, said)

    def _refused(self, refusal: EndProof) -> Termination | None:
        """Go on, up to ``REFUSED_MOST`` times, in the scales of a proof whose gap was too large."""
        if refusal.is_proved:
            self._keep(self.state)
            return self._endless(self.state) or self._converged()
        if self._least is None or refusal.wrong <= self._least.wrong:
            self._least = refusal
            self._nearest.take(self.state.snapshot(), self._round)
        if self._outer_test.refused > REFUSED_MOST or refusal.is_blurred:
            return self._unproved(self._least)
        self._update_multipliers()
        if self._outer_test.refused == 1:
            self.state.units = refusal.units
            if isinstance(self.rule, ResidualBalancing):
                self.state.rho = refusal.units.penalty.copy()
            self._restart()
        return None

    def _unproved(self, least: EndProof) -> Termination:
        """End with the iterate that is least wrong, or with a proof that none is optimal."""
        self._best = self._nearest
        if self._best.state is not None and (endless := self._endless(self._best.state)):
            return endless
        status = Status.OPTIMAL_INACCURATE if least.is_near else Status.STALLED
        said = f"the residuals met their tolerances in round {self._best.round}, but {least.said}"
        return Termination(status, None, said)

    def _proved(self, ended: Termination) -> Termination:
        """The end of what rounding ended, by what a certificate proves of the best iterate.

        Of an interior point, whose residuals are those of its own scaled program.
        """
        state, is_scaled = self._best.state, self.method.sweeper is not None
        by_rounding = ended.status in (Status.STALLED, Status.OPTIMAL_INACCURATE)
        if not (is_scaled and by_rounding) or state is None or self._least is not None:
            return ended
        found = self._outer_test.certificate(state)
        if found is None:
            return ended
        if found.is_proved:
            said = "rounding kept residuals from their tolerances; the certificate passes"
            return Termination(Status.OPTIMAL, None, said)
        if found.is_near:
            said = f"{ended.detail}; the gap of what was reached is proved"
            return Termination(Status.OPTIMAL_INACCURATE, None, said)
        return Termination(Status.STALLED, None, f"{ended.detail}; {found.said}")

    def _endless(self, state: State) -> Termination | None:
        """The end where the problem is proved to have no minimiser, else None."""
        compiled = self.membership.compiled
        if not compiled.is_convex:
            return None
        points = {name: state.points[part] for name, part in compiled.columns.items()}
        found = falls_forever(compiled, points)
        return None if found is None else found.termination

    def _update_multipliers(self) -> None:
        """End an outer loop: new multipliers and penalties."""
        state, channels = self.state, self.state.channels
        updated = self.method.update(state.mu, state.rho, state.told_gap)
        if channels is not None:
            updated = np.where(channels.agreed, updated, state.mu)
        state.mu = updated
        # Residuals of outdated values say nothing about the penalties.
        if channels is None or not channels.lagging:
            with Asking("rho", self.rule):
                state.rho = self.rule.update(self._proposals.nearest(state), self._outer)
        if self._proposals.look(state):
            self._recorder.taken_back()
        self._outer, self._inner = self._outer + 1, 0

    def _record(self, record: Record, plan: RoundPlan, proposal: str | None = None) -> float:
        """Count and record one round; gives its merit."""
        self._round, self._inner = self._round + 1, self._inner + 1
        self._residuals = record.found
        if proposal is None:
            proposal = self._proposals.origin
        count = Count(self._outer, self._inner, self._round)
        return self._recorder.write(record, plan, count, self.state, proposal, self._is_tested)

    def _keep_if_best(self, merit: float) -> None:
        """Keep the iterate if it is the best so far; the last one where residuals do not count."""
        if not self._outer_test.is_answer(self.state):
            return
        if not self._is_tested:
            self._keep(self.state.snapshot())
        elif self._best.offer(self.state, self._round, merit):
            self.layer.keep()

    def _keep(self, state: State) -> None:
        """Keep the iterate of this round as the answer."""
        self._best.take(state, self._round)
        self.layer.keep()

    def _restart(self) -> None:
        """Begin anew where the problem or the order changed.

        The models of the clients stay, as far as edges see the same variables.
        """
        self._proposals.begin_anew(self.state, self._whole_moment)
        self._stopping = self.settings.stopping or self._default_stopping()
        self._best = Best()  # the one so far belongs to the problem before
        self._monitor.renew(self._round + 1)

    def _open_channels(self, plan: RoundPlan) -> None:
        """Tell the state which clients and edges take part in this round."""
        channels, membership = self.state.channels, self.membership
        if channels is None:
            return
        if plan.changed:
            channels.predicted = None  # it belongs to the problem before
        channels.open(self.state.sides, plan.stale_inputs, plan.lost_messages)
        channels.off, channels.away = membership.off, membership.away
        if self.method.ignore_absent:
            channels.off = channels.off | ~membership.taking_part(plan.stages)

    def _default_stopping(self) -> Stopping:
        if self._proposals:
            return FixedBudget(1)
        return default_stopping(self.membership, self.method)

    @property
    def _whole_moment(self) -> Moment:
        """The round state for an order in which all clients take part."""
        return self._moment(closing=True)

    def _moment(self, closing: bool | None = None) -> Moment:
        membership, compiled = self.membership, self.membership.compiled
        return Moment(
            self._round + 1,
            self._outer,
            self._inner + 1,
            membership.live,
            compiled.servers,
            not membership.gone,
            self._ends(self._inner + 1) if closing is None else closing,
            self._residuals,
            lambda: self.state.staleness(compiled),
            self.layer.unanswered,
        )

    def _ends(self, inner: int) -> bool:
        """Whether this inner loop is the last of its outer loop, by the residuals so far."""
        dual, eps_dual = self._residuals.dual_scaled, self.settings.eps_dual
        with Asking("stopping", self._stopping):
            return self._stopping.ends(self._outer, inner, dual, eps_dual)

    def _falling(self, found: Residuals) -> Residuals:
        """The residuals that this inner loop can reduce.

        The primal residual falls by multiplier updates alone, and not at all where the goal is a
        fixed point.
        """
        is_apart = self.method.goal is Goal.FIXED_POINT or self._inner > 0
        return found._replace(primal_scaled=0.0) if is_apart else found
