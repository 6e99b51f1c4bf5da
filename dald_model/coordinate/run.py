"""Run: one run of an algorithm, and the one loop of the code base."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from dald_model.coordinate import outcome
from dald_model.coordinate.channels import Links
from dald_model.coordinate.diagnosis import Watch
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.membership import Loop, Roster
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.outcome import Best
from dald_model.coordinate.overlapped_sweeps import Overlap, Record
from dald_model.coordinate.penalty import PenaltyRule
from dald_model.coordinate.residuals import residuals
from dald_model.coordinate.safeguards import default_stopping, warn_if_unsafe
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Verdict
from dald_model.coordinate.stopping import Accuracy, Stopping
from dald_model.coordinate.sweep import sweep
from dald_model.engines.dispatch import Layer
from dald_model.schedule.moment import Moment, Residuals

REACH = 8
"""Sweeps that overlap at first, where sweeps can."""


class Run:
    """One run: everything that the loop needs, and the loop."""

    def __init__(
        self,
        *,
        roster: Roster,
        method: Method,
        stopping: Stopping | None,
        state: State,
        rule: PenaltyRule,
        layer: Layer,
        accuracy: Accuracy,
        tolerances: tuple[float, float],
        max_rounds: int,
        metrics: Mapping[str, Callable[[Iterate], Any]],
        progress: tqdm,
    ) -> None:
        self.roster, self.method, self.state = roster, method, state
        self.rule, self.layer, self.accuracy = rule, layer, accuracy
        self.tolerances, self.max_rounds = tolerances, max_rounds
        self.metrics, self.progress = metrics, progress
        self._stopping = stopping
        self._ends = stopping or default_stopping(roster, method)
        warn_if_unsafe(roster, self._ends, method)
        self._outer, self._inner, self._round = 1, 0, 0
        self._found = Residuals(*4 * [math.inf])
        self._points = state.points.copy()
        self._rows: list[dict[str, Any]] = []
        self._begun = time.perf_counter()
        if roster.online or method.forgets or roster.sequence.leaves_out:
            state.links = Links.start(state.sides)
        self._reset()
        # Twice as far each time: what was computed beyond the end of a run is in proportion.
        self._reach = REACH
        self._overlap: Overlap | None = None

    def _overlapping(self) -> Overlap | None:
        """The way to overlap sweeps, if nothing between them looks at all clients at once."""
        method, roster = self.method, self.roster
        looks = self.state.links or method.staged or method.goal is Goal.REST or self.metrics
        if looks or not roster.sequence.is_constant:
            return None
        overlap = Overlap(roster.compiled, self.layer, roster.bound.stages(self._moment()))
        return overlap if overlap.pays else None

    def _reset(self) -> None:
        """Forget the best iterate: what it was the best of is another problem now."""
        self._best = Best(None, 0)
        self._best_merit = self._best_worst = math.inf

    @property
    def _tested(self) -> bool:
        return min(self.tolerances) > 0 and self.method.goal is not Goal.NONE

    def go(self) -> Verdict:
        """Run inner loop after inner loop until a verdict."""
        self._overlap = self._overlapping()
        self._watch = Watch(self.roster.compiled)
        try:
            while self._round < self.max_rounds:
                verdict = self._loop()
                if verdict is not None:
                    return verdict
        except KeyboardInterrupt:
            return Verdict(Status.INTERRUPTED, None, f"after {len(self._rows)} complete rounds")
        return Verdict(Status.ROUND_LIMIT, None, f"{self.max_rounds} rounds were run")

    def _loop(self) -> Verdict | None:
        """One inner loop, or several that overlap."""
        moment = self._moment()
        loop = self.roster.open(moment)
        if loop.changed:
            self._ends = self._stopping or default_stopping(self.roster, self.method)
            self._reset()
            self._watch.renew(moment.round)
        self._link(loop)
        found = self._found
        if self.method.goal is Goal.REST:
            found = found._replace(primal_scaled=0.0)  # clients need not agree
        tolerance = self.accuracy.of(found)
        records = self._ahead()
        if not records:
            self.layer.round = moment.round
            failure = sweep(self.state, loop.stages, self.layer, tolerance, self.method.staged)
            if failure is not None:
                return self._watch.explain(self.state, failure)
            records = [Record(residuals(self.state), self.state.objectives)]
        for at, record in enumerate(records[:-1], start=1):
            merit = self._account(record, loop)
            self._watch.count(self._round, self._inner, record.found, merit)
            self._keep(merit, at)
            if self._over(self._inner):
                self._outer, self._inner = self._outer + 1, 0
        merit = self._account(records[-1], loop)
        self._keep(merit)
        turn = self._inner
        if (moment.closing or not self.roster.sequence.is_partial) and self._over(turn):
            verdict = self._close(tolerance)
            if verdict is not None:
                return verdict
        if not self._tested:
            return None
        return self._watch.look(self._round, turn, self.state, self._found, merit)

    def _account(self, record: Record, loop: Loop) -> float:
        """Count one inner loop and write it down; gives its merit."""
        self._round, self._inner = self._round + 1, self._inner + 1
        self._found = record.found
        if self.method.goal is Goal.REST:
            moved = float(np.abs(self.state.points - self._points).max())
            self._points = self.state.points.copy()
            self._found = record.found._replace(dual_scaled=max(record.found.dual, moved))
        self._rows.append(self._row(record, loop))
        eps_pri, eps_dual = self.tolerances
        found = self._found
        return max(found.primal_scaled / (eps_pri or 1.0), found.dual_scaled / (eps_dual or 1.0))

    def _ahead(self) -> list[Record]:
        """Inner loops that overlap, up to the first that is not as was foreseen; or none."""
        if self._overlap is None or not self.layer.is_exact:
            return []
        foreseen = self._foreseen()
        if len(foreseen) < 2:
            return []
        overlap, before, update = self._overlap, self.state, self.method.update
        overlap.steps = 0
        self.state = before.snapshot()
        try:
            records = overlap.run(self.state, foreseen, update)
            last = self._first_surprise(records, foreseen)
            if last < len(foreseen):
                self.state = before.snapshot()
                records = overlap.run(self.state, foreseen[:last], update) if records else []
                self._reach = REACH
                if overlap.steps >= last * len(overlap.stages):
                    # A client needs another solver, or inner loops are short: nothing is gained.
                    self._overlap = None
        except KeyboardInterrupt:
            self.state = before
            raise
        if not records:
            self.state = before
        self._block = overlap, before, foreseen[: len(records)]
        return records

    def _foreseen(self) -> list[bool]:
        """Which of the next inner loops end an outer loop, if only their number counts."""
        outer, inner = self._outer, self._inner
        if not self._tested:
            self._reach = max(self._reach, 2 * len(self.roster.compiled))
        most = min(self._reach, self.max_rounds - self._round)
        steady = getattr(self.rule, "steady", lambda outer: 1)(outer)
        self._reach *= 2
        closes: list[bool] = []
        while len(closes) < most and steady > 0:
            inner += 1
            closes.append(self._ends.ends(outer, inner, math.inf, self.tolerances[1]))
            if closes[-1]:
                outer, inner, steady = outer + 1, 0, steady - 1
        return closes

    def _first_surprise(self, records: list[Record], foreseen: list[bool]) -> int:
        """How many inner loops there are to the first that the run does not go on from."""
        outer, inner = self._outer, self._inner
        for at, (record, close) in enumerate(zip(records, foreseen, strict=False), start=1):
            inner += 1
            found = record.found
            ends = self._ends.ends(outer, inner, found.dual_scaled, self.tolerances[1])
            if ends != close or (ends and self._stops(found, exact=True)):
                return at
            if ends:
                outer, inner = outer + 1, 0
        return len(records)

    def _moment(self) -> Moment:
        roster, compiled = self.roster, self.roster.compiled
        return Moment(
            self._round + 1,
            self._outer,
            self._inner + 1,
            roster.live,
            compiled.servers,
            not roster.gone,
            self._over(self._inner + 1),
            self._found,
            lambda: self.state.staleness(compiled),
        )

    def _over(self, inner: int) -> bool:
        """Whether an inner loop of this number is the last, by the residuals known now."""
        return self._ends.ends(self._outer, inner, self._found.dual_scaled, self.tolerances[1])

    def _stops(self, found: Residuals, exact: bool) -> bool:
        """Whether these residuals, at the end of an outer loop, end the run."""
        eps_pri, eps_dual = self.tolerances
        if not (self._tested and exact):
            return False
        if self.method.goal is Goal.REST:
            return found.dual_scaled <= eps_dual
        return found.primal_scaled <= eps_pri and found.dual_scaled <= eps_dual

    def _link(self, loop: Loop) -> None:
        """Tell the state who is off and who hears nothing in this inner loop."""
        links = self.state.links
        if links is None:
            return
        links.open(self.state.sides, loop.deaf, loop.unheard)
        links.off, links.away = self.roster.off, self.roster.away
        if self.method.forgets:
            links.off = links.off | ~self.roster.taking_part(loop.stages)

    def _keep(self, merit: float, at: int = 0) -> None:
        """Keep the iterate if it is the best, or if none is better than another.

        ``at`` is which one of a block of inner loops it is from, where the state is not at hand:
        then what it takes to compute it again.
        """
        # Relative residuals flatter an iterate that runs away; absolute ones do not.
        worst = max(self._found.primal, self._found.dual)
        better = merit <= self._best_merit and worst <= 10 * self._best_worst
        if self._is_answer(self.state) and (better or not self._tested):
            overlap, before, foreseen = self._block if at else (None, self.state, [])
            again = (overlap, before, foreseen[:at]) if overlap else None
            self._best = Best(None if at else self.state.snapshot(), self._round, again)
            self._best_merit, self._best_worst = merit, worst

    def _is_answer(self, state: State) -> bool:
        """Whether everybody who counts was solved."""
        return self.method.forgets or self.roster.complete(state)

    def _close(self, tolerance: float) -> Verdict | None:
        """End an outer loop: the outer test, else new multipliers and penalties."""
        state, found, method = self.state, self._found, self.method
        is_done = self.roster.is_final(self._round) and self._is_answer(state)
        exact = self.layer.is_exact or self.accuracy.suffices(tolerance)
        if is_done and self._stops(found, exact):
            self._best = Best(state, self._round)
            if method.goal is Goal.OPTIMUM:
                return outcome.converged(self.roster, state)
            said = f"the clients are {found.primal:.1e} apart, as multipliers are not updated"
            return Verdict(Status.SETTLED, None, said)
        updated = method.update(state.mu, state.rho, state.told_gap)
        if state.links is not None:
            updated = np.where(state.links.agreed, updated, state.mu)
        state.mu = updated
        # Residuals of values that are out of date say nothing of the penalties.
        if state.links is None or not state.links.lagging:
            state.rho = self.rule.update(state, self._outer)
        self._outer, self._inner = self._outer + 1, 0
        return None

    def _row(self, record: Record, loop: Loop) -> dict[str, Any]:
        """The history's row of this round."""
        self.progress.set_postfix(
            primal=f"{self._found.primal:.1e}", dual=f"{self._found.dual:.1e}"
        )
        self.progress.update()
        row = {
            "outer": self._outer,
            "inner": self._inner,
            **outcome.row(self.roster, record, self.state.rho, loop),
            "fallbacks": len(self.layer.events),
            "seconds": time.perf_counter() - self._begun,
        }
        if self.metrics:
            compiled, left = self.roster.compiled, self.roster.gone
            iterate = Iterate(compiled, self.state, row["objective"], left)
            row |= {name: measure(iterate) for name, measure in self.metrics.items()}
        return row

    def answer(self) -> Best:
        """The best iterate, computed again where it was passed over by overlapped sweeps."""
        if self._best.again is not None:
            overlap, before, foreseen = self._best.again
            state = before.snapshot()
            overlap.run(state, foreseen, self.method.update)
            self._best = Best(state, self._best.round)
        return self._best

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The history so far."""
        return self._rows
