r"""The one loop of the code base: Algorithms 2 and 3 of the paper."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dald_model.coordinate import outcome
from dald_model.coordinate.acceleration.applicability import (
    whole_round,
    why_not,
    why_not_along,
)
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.acceleration.learnt import Learnt
from dald_model.coordinate.acceleration.watchdog import Watchdog
from dald_model.coordinate.best import Best
from dald_model.coordinate.channels import Channels
from dald_model.coordinate.checkpoint import Checkpoint
from dald_model.coordinate.columns import as_columns, as_rows
from dald_model.coordinate.diagnosis import FailureMonitor
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.membership import Membership, RoundPlan
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.outcome import Outcome
from dald_model.coordinate.overlapped_sweeps import (
    FIRST_BLOCK,
    OverlappedSweeper,
    may_overlap,
    pays,
)
from dald_model.coordinate.pace import rounds_left
from dald_model.coordinate.penalty import PenaltyRule
from dald_model.coordinate.progress import Progress
from dald_model.coordinate.safeguards import check_order, default_stopping
from dald_model.coordinate.state import State
from dald_model.coordinate.status import (
    AskedError,
    Asking,
    ClientFailedError,
    Status,
    Termination,
)
from dald_model.coordinate.stopping import Accuracy, FixedBudget, Stopping
from dald_model.coordinate.sweeper import Record, SerialSweeper, Sweeper
from dald_model.engines.dispatch import SolverLayer
from dald_model.errors import DaldError, OptionError, RunError
from dald_model.schedule.moment import Moment, Residuals
from dald_model.text import counted
from dald_model.values import is_panic

RETRIES = 3
"""So often a run goes on that would end with an answer short of its accuracy, and asks for no more
of it than a run may end with."""


KEPT = (
    "outer",
    "inner",
    "round",
    "retried",
    "certifies_from",
    "found",
    "best",
    "monitor",
    "watchdog",
    "recalled",
)
"""Of the attributes of a run, those that a file holds as they are."""


@dataclass(frozen=True)
class Settings:
    """Checked options of a run.

    Attributes
    ----------
    stopping : Stopping or None
        Which ends inner loops; None is the default of the order that is followed.
    accuracy : Accuracy
    eps_pri, eps_dual : float
    max_rounds : int
    metrics : dict
        Name of a column of the history -> function of an :class:`Iterate`.
    callback : callable or None
        Called after each round with the :class:`Iterate`; True ends the run.
    acceleration : Acceleration or None
    insists : bool
        Whether it is refused where it does not apply; else the run goes without.
    learnt : Learnt or None
        What the run that this one goes on from knew of the clients.
    gap_test : callable or None
        What is certified of an iterate that may end the run; empty where that is too little.
    begun : float or None
        The ``time.perf_counter()`` from which the history counts; None is when the run is made.
    checkpoint : Checkpoint or None
        Where the run is written, and how often.
    """

    stopping: Stopping | None
    accuracy: Accuracy
    eps_pri: float
    eps_dual: float
    max_rounds: int
    metrics: Mapping[str, Callable[[Iterate], Any]]
    callback: Callable[[Iterate], Any] | None = None
    acceleration: Acceleration | None = None
    insists: bool = False
    learnt: Learnt | None = None
    gap_test: Callable[[State], str] | None = None
    begun: float | None = None
    checkpoint: Checkpoint | None = None


class Run:
    r"""One run of an algorithm on a compiled model.

    .. code-block:: text

        for k = 1, 2, ...                                          outer loop
            for v = 1, 2, ...                                      inner loop: a round
                minimise the clients stage by stage                (13), (14), (21)
                measure the residuals C and D                      (A1-7), (A1-8)
                until the stopping condition holds                 (B1) to (B4)
            stop if |C| <= eps_pri and |D| <= eps_dual
            mu <- mu + 2 rho o rho o C                             (15), (22)
            rho <- what the penalty rule says
    """

    def __init__(
        self,
        membership: Membership,
        method: Method,
        state: State,
        rule: PenaltyRule,
        layer: SolverLayer,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self.membership, self.method, self.state = membership, method, state
        self.rule, self.layer, self.settings = rule, layer, settings
        self._progress = progress
        if membership.online or method.ignore_absent or membership.sequence.leaves_out:
            state.channels = Channels.start(state.sides)
        self._outer, self._inner, self._round = 1, 0, 0
        self._retried, self._certifies_from = 0, 1
        self._written: int | None = None
        self._found = Residuals(*4 * [math.inf])
        self._best = Best()
        self._monitor = FailureMonitor(membership.compiled, method.goal is not Goal.FIXED_POINT)
        self._unaccelerated = ""
        self._watchdog = self._chosen_watchdog(settings.learnt)
        self._recalled = self._watchdog.recalled if self._watchdog else ()
        self._stopping = settings.stopping or self._default_stopping()
        check_order(membership, self._stopping, method)
        self._sweeper = self._chosen_sweeper()
        self._rows: list[dict[str, Any]] = []
        self._merits: list[float] = []
        self._begun = time.perf_counter() if settings.begun is None else settings.begun

    def go(self) -> Outcome:
        """Run round after round until something ends the run.

        What a function or an object of the user's raises ends it as well: the rounds before are
        not lost with it.
        """
        termination = error = None
        try:
            while termination is None and self._round < self.settings.max_rounds:
                self._write()
                termination = self._inner_loop()
            if termination is None:
                self._write(is_last=True)
                said = f"after {counted(self.settings.max_rounds, 'round')}; see result.diagnose()"
                termination = Termination(Status.ROUND_LIMIT, None, said)
        except ClientFailedError as failure:
            termination = self._monitor.explain(self.state, failure.termination)
        except KeyboardInterrupt:
            said = f"after {len(self._rows)} complete rounds"
            termination = Termination(Status.INTERRUPTED, None, said)
        except BaseException as raised:
            if not (isinstance(raised, Exception) or is_panic(raised)):
                raise
            error = self._told(raised)
            termination = Termination.of(error)
        try:
            self._collect()
        except DaldError as lost:  # of an engine; the rounds are not lost with the multipliers
            termination, error = Termination.of(lost), error or lost
        events = tuple(self.layer.events)
        return Outcome(
            termination,
            self._best,
            self.state,
            self._rows,
            self.membership,
            events,
            error,
            self._watchdog.learnt if self._watchdog else None,
            self._recalled,
            self._unaccelerated,
            self.layer.losses,
        )

    def _write(self, *, is_last: bool = False) -> None:
        """Write the run to its file, if it is time.

        All sessions begin anew with it, as they do where the run is taken up again, and so both
        have the same iterates.
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
        """What a file holds of the run between two inner loops."""
        kept = {name: getattr(self, f"_{name}") for name in KEPT}
        sweeper = self._sweeper
        return kept | {
            "state": self.state,
            "rows": as_columns(self._rows),
            "layer": self.layer.kept(),
            "membership": self.membership.kept(),
            "block": sweeper.block if isinstance(sweeper, OverlappedSweeper) else None,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Be as a run of the same options was when it was kept."""
        for name in KEPT:
            setattr(self, f"_{name}", kept[name])
        self.state, self._rows = kept["state"], as_rows(kept["rows"])
        self.layer.restore(kept["layer"])
        self.membership.restore(kept["membership"])
        self._stopping = self.settings.stopping or self._default_stopping()
        if isinstance(self._sweeper, OverlappedSweeper):
            self._sweeper.block = kept["block"]
        self._written = self._round
        self._begun -= self._rows[-1]["seconds"] if self._rows else 0.0
        self._progress.resumed(self._round)

    def _collect(self) -> None:
        """Enter those multipliers of the best iterate that stayed where the clients are."""
        best = self._best.state
        if best is not None:
            for places, given in self.layer.collect(best.encodings):
                best.hold(places, given)

    def _told(self, raised: BaseException) -> DaldError:
        """An exception in the middle of the run as an error of ours; it is the cause."""
        if isinstance(raised, DaldError):
            return raised
        what: str
        cause: BaseException
        what, cause = "a step of the run", raised
        if isinstance(raised, AskedError) and raised.__cause__ is not None:
            what, cause = raised.what, raised.__cause__
        error = RunError(
            f"{what} raised {type(cause).__name__} ({cause}) after "
            f"{counted(self._round, 'round')}; what was found is kept, as `result` of this error"
        )
        error.__cause__ = cause
        return error

    def _inner_loop(self) -> Termination | None:
        """One inner loop, or a block of them that each end an outer loop."""
        moment = self._moment()
        plan = self.membership.open(moment)
        self._connect(plan)
        if plan.changed:
            self._begin_anew(moment)
        tolerance = self.settings.accuracy.of(
            self._falling(self._found), learns=self._watchdog is not None
        )
        if self._retried:
            tolerance = max(tolerance, self.settings.accuracy.enough)
        self.layer.round = moment.round
        try:
            records = self._sweeper.run(self.state, plan.stages, tolerance, self._most())
        except ClientFailedError:
            origin = self._watchdog.origin if self._watchdog else ""
            if not (self._watchdog and self._watchdog.failed(self.state)):
                raise
            self._give_up(plan, origin)
            return None
        merit = math.inf
        for at, record in enumerate(records, start=1):
            merit = self._account(record, plan)
            if at < len(records):
                self._monitor.count(self._round, self._inner, self._found, merit)
                self._outer, self._inner = self._outer + 1, 0
        self._offer(merit)
        if self._measure():
            said = f"the callback ended the run after round {self._round}"
            return Termination(Status.INTERRUPTED, None, said)
        inner = self._inner
        if (moment.closing or not self.membership.sequence.is_partial) and self._ends(inner):
            if self._stops(tolerance):
                return self._converged()
            said = self._certified()
            if said:
                self._take(self.state)
                return Termination(Status.CERTIFIED, None, said)
            self._update_multipliers()
        if not self._is_tested:
            return None
        return self._monitor.look(self._round, inner, self.state, self._found, merit)

    def _give_up(self, plan: RoundPlan, origin: str) -> None:
        """Write down an inner loop that ended in the middle, at a proposal that was taken back."""
        before = self._found
        self._account(Record(Residuals(*5 * [math.nan]), self.state.objectives), plan)
        self._rows[-1]["proposal"] = f"{origin}, taken back"
        self._found, self._inner = before, 0

    def _stops(self, tolerance: float) -> bool:
        """The outer test, at the end of an outer loop."""
        settings, found = self.settings, self._found
        is_exact = self.layer.is_exact or settings.accuracy.suffices(tolerance)
        is_done = self.membership.is_final(self._round) and self._is_answer()
        if not (self._is_tested and is_exact and is_done):
            return False
        agrees = self.method.goal is Goal.FIXED_POINT or found.primal_scaled <= settings.eps_pri
        if not (agrees and found.dual_scaled <= settings.eps_dual):
            return False
        self._retried += bool(self.state.inaccurate.any())
        return not self.state.inaccurate.any() or self._retried > RETRIES

    def _certified(self) -> str:
        """What is certified now, if enough; each time asked after half as many rounds again."""
        test = self.settings.gap_test
        if test is None or self._round < self._certifies_from or not self._is_answer():
            return ""
        self._certifies_from = self._round + 1 + self._round // 2
        return test(self.state) if self.membership.whole else ""

    def _converged(self) -> Termination:
        self._take(self.state)
        if self.method.goal is Goal.OPTIMUM:
            return outcome.converged(self.membership, self.state)
        apart = self._found.primal
        said = f"the clients are {apart:.1e} apart, as multipliers are not updated"
        return Termination(Status.SETTLED, None, said)

    def _update_multipliers(self) -> None:
        """End an outer loop: new multipliers and penalties."""
        state, channels = self.state, self.state.channels
        updated = self.method.update(state.mu, state.rho, state.told_gap)
        if channels is not None:
            updated = np.where(channels.agreed, updated, state.mu)
        state.mu = updated
        # Residuals of values that are out of date say nothing of the penalties.
        if channels is None or not channels.lagging:
            with Asking("rho", self.rule):
                state.rho = self.rule.update(state, self._outer)
        if self._watchdog is not None and self._watchdog.look(state):
            self._rows[-1]["proposal"] += ", taken back"
        self._outer, self._inner = self._outer + 1, 0

    def _account(self, record: Record, plan: RoundPlan) -> float:
        """Count one inner loop and write it down; gives its merit."""
        self._round, self._inner = self._round + 1, self._inner + 1
        self._found = record.found
        self._rows.append(self._row(record, plan))
        if self.layer.is_elsewhere:
            lost = [loss for loss in self.layer.losses if loss.round == self._round]
            self._rows[-1]["asked again"] = tuple(name for loss in lost for name in loss.clients)
        if self.layer.goes_on:
            self._rows[-1]["unanswered"] = tuple(self.layer.unanswered)
        settings, found = self.settings, self._found
        primal = found.primal_scaled / (settings.eps_pri or 1.0)
        merit = max(primal, found.dual_scaled / (settings.eps_dual or 1.0))
        if self._progress.is_watched:
            self._merits.append(merit)
            left = rounds_left(np.array(self._merits)) if self._is_tested else math.nan
            self._progress.told(self._round, self._rows[-1], left)
        return merit

    def _row(self, record: Record, plan: RoundPlan) -> dict[str, Any]:
        """The history's row of this round."""
        objective = outcome.objective(self.membership, record.objectives)
        return {
            "outer": self._outer,
            "inner": self._inner,
            **record.found._asdict(),
            "objective": objective,
            "rho": float(np.exp(np.log(self.state.rho).mean())),
            "solved": sum(map(len, plan.stages)),
            "absent": plan.absent,
            "who": plan.who,
            "proposal": self._watchdog.origin if self._watchdog else "",
            "fallbacks": len(self.layer.events),
            "seconds": time.perf_counter() - self._begun,
        }

    def _measure(self) -> bool:
        """Enter the user's metrics into the row of this round, and tell the user's callback.

        Whether that ends the run.
        """
        metrics, callback = self.settings.metrics, self.settings.callback
        if not (metrics or callback):
            return False
        row, membership = self._rows[-1], self.membership
        iterate = Iterate(membership.compiled, self.state, row, self._round, membership.gone)
        for name, measure in metrics.items():
            with Asking("metrics", name):
                row[name] = measure(iterate)
        if callback is None:
            return False
        with Asking("callback", callback):
            said = callback(iterate)
        return isinstance(said, bool | np.bool_) and bool(said)

    def _offer(self, merit: float) -> None:
        """Keep the iterate if it is the best, or if none is better than another."""
        if not self._is_answer():
            return
        if not self._is_tested:
            self._take(self.state.snapshot())
        elif self._best.offer(self.state, self._round, merit):
            self.layer.keep()

    def _take(self, state: State) -> None:
        """Keep the iterate of this round, whatever its residuals."""
        self._best.take(state, self._round)
        self.layer.keep()

    def _begin_anew(self, moment: Moment) -> None:
        """The problem, or the order, is another one from this round on.

        What is known of the clients stays, as far as their edges see the same of them.
        """
        learnt = self._watchdog.learnt if self._watchdog else self.settings.learnt
        self._watchdog = self._chosen_watchdog(learnt)
        self._stopping = self.settings.stopping or self._default_stopping()
        self._best = Best()  # the one so far was the best of another problem
        self._monitor.renew(moment.round)

    def _connect(self, plan: RoundPlan) -> None:
        """Tell the state who is off and who hears nothing in this inner loop."""
        channels, membership = self.state.channels, self.membership
        if channels is None:
            return
        if plan.changed:
            channels.predicted = None  # it was of another problem
        channels.open(self.state.sides, plan.stale_inputs, plan.lost_messages)
        channels.off, channels.away = membership.off, membership.away
        if self.method.ignore_absent:
            channels.off = channels.off | ~membership.taking_part(plan.stages)

    def _chosen_watchdog(self, learnt: Learnt | None) -> Watchdog | None:
        """The watchdog over the acceleration, which begins with what was learnt; or None."""
        settings, compiled = self.settings, self.membership.compiled
        sequence = self.membership.sequence
        self._unaccelerated = obstacle = self._idle()
        if obstacle:
            return None
        obstacle = why_not(sequence, self.method, settings.stopping)
        if not obstacle:
            # A constant order asks for no residuals
            stages = whole_round(self.membership.bound, self._moment(closing=True), sequence)
            obstacle = why_not_along(stages)
            if not obstacle:
                assert settings.acceleration is not None
                return Watchdog(compiled, settings.acceleration, stages, self.state, learnt)
        if settings.insists:
            raise OptionError(
                f"acceleration: given {settings.acceleration!r}, but {obstacle}; leave it out, or "
                "take acceleration=None"
            )
        self._unaccelerated = obstacle
        return None

    def _idle(self) -> str:
        """Why nothing is to be accelerated, whatever the order and the method; or ""."""
        settings = self.settings
        if settings.acceleration is None:
            return "acceleration=None was given"
        if not (self._is_tested or settings.insists):
            return "without a tolerance to reach a run is made for its iterates, as printed"
        if self.membership.off.all():
            return "nobody is left to agree with anybody"
        return ""

    def _default_stopping(self) -> Stopping:
        if self._watchdog is not None:
            return FixedBudget(1)
        return default_stopping(self.membership, self.method)

    def _chosen_sweeper(self) -> Sweeper:
        membership, method = self.membership, self.method
        serial = SerialSweeper(self.layer, method.after_stage, method.goal is Goal.FIXED_POINT)
        is_asked = self.settings.metrics or self.settings.callback
        if self.state.channels or is_asked or self._watchdog:
            return serial
        if not may_overlap(membership.sequence, self._stopping, method):
            return serial
        stages = membership.bound.stages(self._moment())
        if not pays(membership.compiled, stages):
            return serial
        # Where no round is tested, nothing is computed beyond the end of the run.
        block = FIRST_BLOCK if self._is_tested else self.settings.max_rounds
        return OverlappedSweeper(membership.compiled, self.layer, stages, method.update, block)

    def _most(self) -> int:
        """Rounds up to the next that may change the penalties, or is the last."""
        left = self.settings.max_rounds - self._round
        return int(min(left, self.rule.period - (self._outer - 1) % self.rule.period))

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
            self._found,
            lambda: self.state.staleness(compiled),
            self.layer.unanswered,
        )

    def _ends(self, inner: int) -> bool:
        """Whether an inner loop of this number is the last, by the residuals known now."""
        dual, eps_dual = self._found.dual_scaled, self.settings.eps_dual
        with Asking("stopping", self._stopping):
            return self._stopping.ends(self._outer, inner, dual, eps_dual)

    def _falling(self, found: Residuals) -> Residuals:
        """The residuals that are to fall now.

        Clients need not agree at a fixed point, and multipliers stay within an inner loop.
        """
        is_apart = self.method.goal is Goal.FIXED_POINT or self._inner > 0
        return found._replace(primal_scaled=0.0) if is_apart else found

    @property
    def _is_tested(self) -> bool:
        settings = self.settings
        return min(settings.eps_pri, settings.eps_dual) > 0 and self.method.goal is not Goal.NONE

    def _is_answer(self) -> bool:
        """Whether everybody who counts was solved."""
        return self.method.ignore_absent or self.membership.complete(self.state)
