"""What a solve does before its first round: read the options, choose the method, measure."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dald_model.algorithms.dald import DALD
from dald_model.algorithms.interior_point import (
    InteriorPoint,
    check_none_given,
    chosen_algorithm,
    is_patience,
)
from dald_model.answer.beginning import begin, extrapolated, still_measured, trailed
from dald_model.answer.end_test import end_test, gap_test, unproved
from dald_model.answer.local_run import LocalRun
from dald_model.answer.result import Result
from dald_model.answer.saved import Compilable
from dald_model.coordinate.checkpoint import Checkpoint, Saved, signature
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.outcome import Outcome
from dald_model.coordinate.peers import AmongPeers
from dald_model.coordinate.penalty import Fixed, ResidualBalancing, as_rule
from dald_model.coordinate.progress import Progress
from dald_model.coordinate.reductions import LOCAL
from dald_model.coordinate.run import Run
from dald_model.coordinate.scaling.reuse import Measured
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.coordinate.stopping import Accuracy, FixedBudget
from dald_model.engines.dispatch import SolverLayer, rested
from dald_model.engines.engine import Engine
from dald_model.engines.idle import IdleLayer, Layer
from dald_model.engines.placement import Placement
from dald_model.gc_pause import gc_paused
from dald_model.options import (
    DEFAULT_ACCELERATION,
    check_callback,
    check_checkpoint,
    check_gap,
    check_kind,
    check_metrics,
    check_parameters,
    check_tolerances,
    opened,
    with_algorithm,
)
from dald_model.schedule.changes import Unanswered, as_online
from dald_model.schedule.sequence import Sequence

WRITTEN = (
    "sequence",
    "stopping",
    "rho",
    "solver",
    "accuracy",
    "online",
    "metrics",
    "callback",
    "gap",
    "eps_pri",
    "eps_dual",
    "max_rounds",
)
"""Options that a checkpoint keeps as they were given."""
CUT_SHORT = (Status.INTERRUPTED, Status.TIME_LIMIT)
"""Ends within a round, after which no client's solver is kept for the next run."""


class Preparation:
    """From the options of ``Model.solve`` to a :class:`Run`, and what its result is told.

    Attributes
    ----------
    compiled : Decomposition
        The way of writing the model that the algorithm takes.
    algorithm : Algorithm
    start : Result or None
        The earlier result from which the run goes on.
    measured : Measured or None
        The scales of the clients, where the run uses them.
    local : LocalRun or None
        Of a model with clients that are not convex.
    placement : Placement or None
        Where clients are that an engine holds.

    Parameters
    ----------
    model : Compilable
    asked : SimpleNamespace
        The options of ``solve`` by name.
    progress : Progress

    Raises
    ------
    OptionError
        If an option has no valid value, whatever the model is.
    """

    def __init__(self, model: Compilable, asked: SimpleNamespace, progress: Progress) -> None:
        self._model, self._asked, self._progress = model, asked, progress
        self.compiled = model.compile()
        self.begun = time.perf_counter()
        check_tolerances(asked.eps_pri, asked.eps_dual, asked.max_rounds)
        check_gap(asked.gap)
        check_checkpoint(asked.checkpoint, asked.every)
        check_parameters(self.compiled)
        is_saved = isinstance(asked.start, Saved)
        self._saved, self.start = (asked.start, None) if is_saved else (None, asked.start)
        self.algorithm: Any = asked.algorithm
        self._acceleration, self._rho, self._stopping = (
            asked.acceleration,
            asked.rho,
            asked.stopping,
        )
        self.measured: Measured | None = None
        self.local: LocalRun | None = None
        self.placement: Placement | None = None

    @gc_paused
    def run(self) -> Run:
        """The run, at its first round.

        Raises
        ------
        OptionError
            If an option has no valid value, or none that goes with the others.
        """
        self._choose()
        changes = as_online(self._asked.online)
        chosen = self._asked.sequence or self._method.sequence or Sequence(label="by colour")
        between = changes if self._own.sweeper is None else ()
        membership = Membership(self.compiled, chosen, between)
        self._progress.phase("measuring the clients")
        patience = [one.leave_after for one in changes if isinstance(one, Unanswered)]
        if self._engine is not None:
            self.placement = Placement(self._engine, bool(patience), *patience[:1])
        known = still_measured(self.compiled, self.start)
        layer = self._layer(known)
        state, rule = self._begin(layer, known)
        settings = self._settings(state)
        self._progress.begins(self._asked.max_rounds, (settings.eps_pri, settings.eps_dual))
        run = Run(membership, self._method, state, rule, layer, settings, self._progress)
        if self._saved is not None:
            run.restore(self._saved.restored(run.kept()))
            if self._is_measured(layer) and isinstance(layer, SolverLayer):
                self.measured = Measured.again(self.compiled, run.state.units, layer)
        return run

    @property
    def unbegun(self) -> Membership:
        """Who takes part in a run that ended before its first round."""
        return Membership(self.compiled, Sequence(label="by colour"), ())

    def ended(self, layer: Layer, outcome: Outcome) -> None:
        """Keep the clients' solvers for the next run, unless this one ended within a round."""
        ended = outcome.termination
        self._progress.ended(len(outcome.rows), str(ended.status), ended.detail)
        is_whole = outcome.error is None and ended.status not in CUT_SHORT
        if is_whole and isinstance(layer, SolverLayer):
            self.compiled.resting = layer

    def tell(self, result: Result, outcome: Outcome) -> None:
        """Give a result what a run that goes on from it needs."""
        result.measured = self.measured
        result.shows_curvature = isinstance(self.algorithm, InteriorPoint)
        result.shown, result.interior = outcome.shown, outcome.interior
        result.trail = None if result.shows_curvature else trailed(result, self.start)
        if self.local is not None:
            self.local.tell(result)

    def _choose(self) -> None:
        """The algorithm, the way of writing the model that it takes, and its method."""
        asked = self._asked
        check_kind("algorithm", asked.algorithm, "open", "dm.DALD()")
        check_kind("sequence", asked.sequence, "bind", "dm.Sequence.levels([...])")
        check_kind("acceleration", asked.acceleration, "open", "dm.Anderson(), or None")
        is_among = isinstance(asked.engine, AmongPeers)
        self._among: AmongPeers | None = asked.engine if is_among else None
        self._engine: Engine | None = None if is_among else asked.engine
        check_kind("engine", self._engine, "hosts", "dm.engines.Processes(workers=2), or None")
        check_kind("stopping", asked.stopping, "ends", "dm.FixedBudget(v_max=1)")
        self.algorithm = chosen_algorithm(asked.algorithm, asked.disclose)
        ways = (way.compile() for way in self._model.ways())
        self.compiled, self._own = opened(self.algorithm, ways)
        if not self.compiled.is_convex:
            self._choose_local()
        if self._own.sweeper is not None:
            self._check_sweeper()
            self._acceleration = None
        self._method = with_algorithm(self.algorithm, self._own, self._rho, asked.solver)

    def _choose_local(self) -> None:
        """What a model with clients that are not convex takes in place of the defaults."""
        asked = self._asked
        given = {
            "algorithm": None if self.algorithm.__class__ is DALD else self.algorithm,
            "gap": asked.gap,
            "checkpoint": asked.checkpoint,
            "engine": asked.engine,
        }
        self.local = LocalRun(self.compiled, given)
        is_default = asked.acceleration is DEFAULT_ACCELERATION
        self._acceleration = self.local.acceleration(asked.acceleration, is_default)
        self._rho = self.local.rule if asked.rho is None else asked.rho
        self._stopping = asked.stopping or FixedBudget(1)  # what convergence is proved of

    def _check_sweeper(self) -> None:
        """Refuse options that an algorithm with rounds of its own does not have."""
        asked, start = self._asked, self._asked.start
        is_other = isinstance(start, Result) and not start.shows_curvature
        is_default = asked.acceleration is DEFAULT_ACCELERATION
        given = {
            "sequence": asked.sequence,
            "stopping": asked.stopping,
            "rho": asked.rho,
            "solver": asked.solver,
            "accuracy": asked.accuracy,
            "online": None if is_patience(asked.online) else asked.online,
            "engine": self._among,
            "start": start if is_other else None,
            "acceleration": None if is_default else asked.acceleration,
        }
        check_none_given(self.algorithm, given)

    def _layer(self, known: Measured | None) -> Layer:
        """The clients' solvers, about the centre that was measured for an earlier result."""
        if self._own.sweeper is not None:
            return IdleLayer()
        solver = self._method.solver
        around = known.centre if known and solver is None else None
        return rested(self.compiled, solver, around, self.placement)

    def _is_measured(self, layer: Layer) -> bool:
        """Whether the run uses scales of the clients; else all would be measured for nothing."""
        asked = self._asked
        is_plain = isinstance(as_rule(self._method.rho), Fixed) and layer.is_exact
        is_tested = max(asked.eps_pri, asked.eps_dual) > 0 or asked.gap is not None
        is_ours = self._among is None and self._method.sweeper is None and self.local is None
        return (is_tested or not is_plain) and is_ours

    def _begin(self, layer: Layer, known: Measured | None) -> tuple[State, Any]:
        """The first state, in the scales of the clients, and the rule of the penalties."""
        units = Units.plain(self.compiled)
        if self._is_measured(layer) and self._saved is None:
            if known is None:
                is_default = self._method.solver is None
                exact = layer if is_default else SolverLayer(self.compiled, None)
                assert isinstance(exact, SolverLayer)  # no run without clients' solvers is measured
                known = Measured.anew(self.compiled, exact)
            units, self.measured = known.units, known
        # What is given is a setting of the paper's or of a textbook's, which starts at zero.
        if not (self._is_own and isinstance(as_rule(self._rho), ResidualBalancing)):
            units = replace(units, start=np.zeros(units.start.size))
        if self.local is not None:
            units = self.local.units
        state, rule = begin(self.compiled, self._method.rho, self.start, units)
        state.reduce = self._among or LOCAL
        return state, rule

    @property
    def _is_own(self) -> bool:
        """Whether the algorithm leaves penalties and solvers open."""
        return self._own.rho is None and self._own.solver is None

    def _settings(self, state: State) -> Settings:
        """The checked options, and what the test at the end proves."""
        asked, compiled, start = self._asked, self.compiled, self.start
        is_default = self._is_own and self.algorithm.__class__ is DALD
        is_default = is_default and self._acceleration is not None and self._among is None
        why = unproved(compiled, is_peer=self._among is not None)
        ending = None if why else end_test(compiled, max(asked.eps_pri, asked.eps_dual))
        if self.local is not None:
            ending, why = self.local.test, ""
        return Settings(
            self._stopping or self._method.stopping,
            Accuracy(asked.accuracy, asked.eps_pri, asked.eps_dual),
            asked.eps_pri,
            asked.eps_dual,
            asked.max_rounds,
            check_metrics(asked.metrics),
            check_callback(asked.callback),
            self._acceleration,
            insists=self._acceleration is not DEFAULT_ACCELERATION,
            learnt=None if start is None else start.learnt,
            is_extrapolated=is_default and extrapolated(compiled, start, state),
            gap_test=None if asked.gap is None else gap_test(compiled, asked.gap),
            end_test=ending,
            unproved=why,
            begun=self.begun,
            checkpoint=self._checkpoint(),
            placement=self.placement if self._own.sweeper else None,
            interior=start.interior if start is not None and start.compiled is compiled else (),
        )

    def _checkpoint(self) -> Checkpoint | None:
        """Where the run is written, with the options that were given."""
        asked = self._asked
        if asked.checkpoint is None:
            return None
        given = {"algorithm": self.algorithm, **{one: getattr(asked, one) for one in WRITTEN}}
        given = {name: value for name, value in given.items() if value is not None}
        if self._acceleration is not DEFAULT_ACCELERATION:
            given["acceleration"] = self._acceleration
        return Checkpoint(Path(asked.checkpoint), asked.every, given, signature(self.compiled))
