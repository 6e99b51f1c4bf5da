"""The method ``Model.solve``: its options, and the run that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dald_model.algorithms.dald import DALD
from dald_model.algorithms.disclosure import check_none_given, chosen_algorithm
from dald_model.algorithms.interior_point import InteriorPoint
from dald_model.answer.assemble import assemble
from dald_model.answer.beginning import begin, extrapolated, still_measured, trailed
from dald_model.answer.end_test import end_test
from dald_model.answer.gap_option import gap_test
from dald_model.answer.result import Result
from dald_model.answer.saved import Compilable
from dald_model.bulk import uncollected
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.checkpoint import Checkpoint, Saved, signature
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.measured import Measured
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Algorithm
from dald_model.coordinate.outcome import ended_before, out_of_time
from dald_model.coordinate.peers import AmongPeers
from dald_model.coordinate.penalty import Fixed, ResidualBalancing, as_rule
from dald_model.coordinate.progress import Progress
from dald_model.coordinate.run import Run
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.status import Status
from dald_model.coordinate.stopping import Accuracy, Stopping
from dald_model.coordinate.units import Units
from dald_model.coordinate.whole import HERE
from dald_model.deadline import TimeUpError, within
from dald_model.engines.dispatch import SolverLayer, rested
from dald_model.engines.engine import Engine
from dald_model.engines.placement import Placement
from dald_model.option_names import named_options
from dald_model.options import (
    DEFAULT_ACCELERATION,
    check_callback,
    check_checkpoint,
    check_gap,
    check_kind,
    check_metrics,
    check_parameters,
    check_time_limit,
    check_tolerances,
    opened,
    with_algorithm,
)
from dald_model.schedule.changes import as_online
from dald_model.schedule.sequence import Sequence
from dald_model.schedule.unanswered import Unanswered
from dald_model.solvers.base import Solver
from dald_model.validate import check_flag
from dald_model.values import one_at_a_time

CUT_SHORT = (Status.INTERRUPTED, Status.TIME_LIMIT)
"""Ends in the middle of a round, after which no client's solver is kept for the next run."""


@named_options
@one_at_a_time()
def solve(
    model: Compilable,
    *,
    algorithm: Algorithm | None = None,
    disclose: str | None = None,
    sequence: Sequence | None = None,
    stopping: Stopping | None = None,
    rho: Any = None,
    solver: Solver | str | Mapping[Any, Solver | str] | None = None,
    accuracy: float | None = None,
    acceleration: Acceleration | None = DEFAULT_ACCELERATION,
    online: Any = None,
    engine: Engine | None = None,
    checkpoint: str | Path | None = None,
    every: int = 10,
    start: Result | Saved | None = None,
    metrics: Mapping[str, Callable[[Iterate], Any]] | None = None,
    callback: Callable[[Iterate], Any] | None = None,
    eps_pri: float = 1e-6,
    eps_dual: float = 1e-6,
    gap: float | None = None,
    max_rounds: int = 1000,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Result:
    r"""Solve by distributed augmented-Lagrangian decomposition: Algorithms 2 and 3 of the paper.

    Every variable's ``value`` and every constraint's ``dual_value`` are set as by
    ``cp.Problem.solve``. None of the options needs to be set.

    A round is one inner loop: clients are solved in the order of the hierarchical network, each
    with the newest values of its neighbours. When ``stopping`` ends the inner loop, the outer test

    .. math::
        \|\mathcal C^{k,v}\|_\infty \le \epsilon_{pri} \text{ and }
        \|\mathcal D^{k,v}\|_\infty \le \epsilon_{dual}

    decides whether the run is over; if not, multipliers and penalties are updated.

    Parameters
    ----------
    algorithm : Algorithm
        What to do with the multipliers; default :class:`DALD`. Another to compare with it, or to
        run a method as it was published: ``algorithm=dm.FedProx(alpha=0.1)``. One that wants a
        server, or none, has it where :meth:`Model.topology` says nothing: a server, or a ring of
        those who share a variable; the result says which.
    disclose : str
        What clients may show: "answers", values and prices, or "curvature", sums of their Hessians
        as well, for which :class:`InteriorPoint` is taken: some fifteen rounds whatever the
        conditioning, the graph and the kinks.
        ``disclose="curvature"`` where rounds or time count more than what a Hessian says; by
        default what the algorithm needs, and that of none is "answers".
    sequence : Sequence
        Who is solved when; default one colour of the consensus graph after the other, which is
        two-block ADMM where two colours suffice. Another where clients cannot all take part, or
        their order is given: ``sequence=dm.Sequence.random(k=5)``,
        ``sequence=dm.Sequence.levels([["a", "c"], ["b"]])``.
    stopping : Stopping
        When an inner loop ends; default one round where outer loops are accelerated, else
        :func:`dald_model.coordinate.safeguards.default_stopping`. ``stopping=dm.FixedBudget(1)``,
        (B4) with one sweep an update, has the guarantee of convergence and is mostly the fastest;
        ``dm.FixedTolerance()`` (B1) and ``dm.ShrinkingTolerance()`` (B2) are the paper's exact
        inner loops; ``dm.GrowingBudget()`` (B3) has more rounds with each outer loop.
    rho : float, dict, array or penalty rule
        The penalty; default :class:`ResidualBalancing`, which needs no tuning. A number to follow
        a paper's setting, ``rho=1.0``, a dict where clients or edges differ,
        ``rho={"hospital 0": 2.0}``.
    solver : Solver, str or dict
        The solver layer: "auto" (default) gives each client to the fastest exact method that
        takes it, see ``compiled.explain()``. A name of :data:`dald_model.solvers.NAMED` or of an
        installed cvxpy solver to compare or to cross-check, ``solver="conic"``,
        ``solver={"a": "SCS"}``; an object of :mod:`dald_model.solvers` for inexact clients,
        ``solver=dm.solvers.GradientSteps(step=0.1, count=5)``. A server has a closed form.
    accuracy : float
        How exactly each client is minimised, relative to its natural units, where its solver is
        iterative; default :class:`Accuracy`, which follows the residuals. Fixed for iterates
        that do not depend on it: ``accuracy=1e-10``.
    acceleration : Acceleration or None
        What proposes where the next outer loop begins: :class:`Hybrid` (default),
        :class:`Anderson`, :class:`Secant`, :class:`ALADIN`. ``acceleration=None`` follows
        Algorithms 2 and 3 to the letter, ``acceleration=dm.Anderson(memory=10)`` asks nothing of
        the graph, ``dm.ALADIN()`` is for clients that may share their curvature. The default is
        left out where the outer loops are not one map (other algorithms and dual steps, orders
        that change, outer loops of several rounds), and where a tolerance is zero. Where clients
        are absent, models speak for them, and Anderson acceleration rests.
    online : Online, dict, callable or list of these
        What changes while the run goes on, to try how a method bears it:
        ``online=dm.Dropout(0.3)``, ``dm.Stragglers({"a": 3})``, ``dm.LossyLinks(0.1)``, a dict from
        rounds to :class:`Change`, ``online={5: dm.Change(leave=["a"])}``, or a function of a
        :class:`Moment` that returns a :class:`Change` or None; asked before each inner loop. And
        :class:`Unanswered`, to go on without clients that an ``engine`` has no answer from.
    engine : Engine
        Where clients are solved: ``dm.engines.Processes(workers=2)``, ``dm.engines.Ray()``,
        ``dm.engines.MPI()``; default this process. All give the same iterates, see
        :mod:`dald_model.engines`.
    checkpoint : path
        A file that the run is written to, for :func:`dald_model.resume`: whole at any moment,
        arrays and JSON, no pickle. It holds the iterates and what is learnt of clients, and no
        client's data but a few sums that tell whether the model is the same.
    every : int
        Rounds from one writing to the next. Solvers begin anew with each, so that a run that is
        resumed has the very iterates of one that went on; it costs about five rounds of small
        clients.
    start : Result
        An earlier result of this model, or of one with some of its clients and edges, to go on
        from: after a Parameter has changed, or for more rounds, ``start=result``. By default all
        multipliers are zero, and the variables where the clients' own answers are, or zero where a
        penalty is given or the algorithm sets one, as in the paper. What was learnt of clients is
        kept (``result.recalled``); where three or more answers with other values of a Parameter led
        to it, the run begins where the next one is expected, see
        :mod:`dald_model.answer.extrapolation`, but not with ``acceleration=None``. Natural units
        are kept, too, until a Parameter has moved the numbers of a client by more than
        :data:`dald_model.coordinate.measured.MOVED`.
    metrics : dict
        Name of a column of the history -> function of an :class:`Iterate`, called each round, for
        curves of your own: ``metrics={"norm": lambda at: np.linalg.norm(at[w])}``.
    callback : callable
        Called with the :class:`Iterate` after each round, for a display or a log of your own:
        ``callback=lambda at: print(at.round, at.row["primal_scaled"])``. Where it returns True the
        run ends, "interrupted", with the best iterate.
    eps_pri, eps_dual : float
        Tolerances, see :class:`Residuals`; ``eps_pri=1e-3`` for a first look. Zero is allowed:
        then every round is run, and the answer is that of the last one, as for a textbook's
        iterates; otherwise a run that does not converge gives its best. Where an answer is small
        beside what clients would have alone, an accelerated run goes on for up to five rounds
        until they agree to ``eps_pri`` of the answer.
    gap : float
        End also once the certified gap and the violation of an iterate are at most this, see
        :meth:`Result.certificate`; the status is then "certified". For a decision that needs no
        more, ``gap=1e-3``. It is asked for in rounds 1, 2, 4, 7, 11, ..., as it costs one small
        solve a client.
    max_rounds : int
        The most rounds that are run: ``max_rounds=5000``.
    time_limit : float
        Seconds after which the run ends, "time_limit", with the best iterate so far:
        ``time_limit=60``. Asked before each group of clients that are solved together, and told to
        Clarabel; compiling the model, and what other hosts or cvxpy's solvers are at, is not cut
        short.
    verbose : bool
        Whether to show a bar with round, residuals as they are tested, and rho. Python's
        ``logging`` has the same in any case, under the name ``dald_model``: each round at level
        DEBUG, beginning and end of a run at INFO.

    Returns
    -------
    Result
        Whatever happens on the way (an infeasible client, divergence, Ctrl-C) ends in its status,
        with the best iterate and the history so far.

    Raises
    ------
    OptionError, SequenceError
        If an option has a value that means nothing, before anything is computed; or if a sequence
        or a change has one in a later round.
    RunError
        If a function or an object that was given raises; that exception is its cause.
    LostError
        If an engine lost clients and could not place them again.

    Notes
    -----
    An error after the first round has begun, of whatever class, keeps what was found: its attribute
    ``result`` is an ordinary :class:`Result` of status "user_error", or "lost".

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> model = common_number([0, 1, 2])
    >>> result = model.solve()
    >>> print(result.status, round(result.value, 6), round(float(result["w"]), 6))
    optimal 2.0 1.0
    >>> print(model.solve(start=result, rho=1.0, acceleration=None, max_rounds=500).status)
    optimal
    >>> print(model.solve(callback=lambda at: at.round == 2).detail)
    the callback ended the run after round 2
    """
    compiled = model.compile()
    placement: Placement | None = None
    begun = time.perf_counter()
    check_tolerances(eps_pri, eps_dual, max_rounds)
    check_time_limit(time_limit)
    check_gap(gap)
    check_checkpoint(checkpoint, every)
    check_flag("verbose: given ", verbose)
    check_parameters(compiled)
    measured = None
    timed = ExitStack()  # as the result is put together after the deadline
    try:
        timed.enter_context(within(time_limit))
        check_kind("algorithm", algorithm, "open", "dm.DALD()")
        check_kind("sequence", sequence, "bind", "dm.Sequence.natural()")
        check_kind("acceleration", acceleration, "open", "dm.Anderson(), or None")
        among = engine if isinstance(engine, AmongPeers) else None
        engine = None if among else engine
        check_kind("engine", engine, "hosts", "dm.engines.Processes(workers=2), or None")
        check_kind("stopping", stopping, "ends", "dm.FixedBudget(v_max=1)")
        algorithm = chosen_algorithm(algorithm, disclose)
        compiled, own = opened(algorithm, (way.compile() for way in model.ways()))
        how = {
            "sequence": sequence,
            "stopping": stopping,
            "rho": rho,
            "solver": solver,
            "accuracy": accuracy,
            "online": online,
        }
        if own.sweeper is not None:
            rest = {"engine": engine or among, "checkpoint": checkpoint, "start": start}
            given_up = None if acceleration is DEFAULT_ACCELERATION else acceleration
            check_none_given(algorithm, {**how, **rest, "acceleration": given_up})
            acceleration = None
        method = with_algorithm(algorithm, own, rho, solver)
        chosen = sequence or method.sequence or Sequence(label="by colour")
        membership = Membership(compiled, chosen, as_online(online))
        saved, start = (start, None) if isinstance(start, Saved) else (None, start)
        known = still_measured(compiled, start)
        around = known.centre if known and method.solver is None else None
        goes_on = any(isinstance(one, Unanswered) for one in membership.online)
        placement = None if engine is None else Placement(engine, goes_on)
        layer = rested(compiled, method.solver, around, placement)
        units = Units.plain(compiled)
        is_plain = isinstance(as_rule(method.rho), Fixed) and layer.is_exact
        # Else nothing is measured by units
        is_measured = max(eps_pri, eps_dual) > 0 or gap is not None or not is_plain
        is_measured = is_measured and among is None and method.sweeper is None
        if is_measured and saved is None:
            if known is None:
                asked = layer if method.solver is None else SolverLayer(compiled, None)
                known = Measured.anew(compiled, asked)
            units, measured = known.units, known
        # What is given is a setting of the paper's or of a textbook's, which starts at zero.
        is_own = own.rho is None and own.solver is None
        if not (is_own and isinstance(as_rule(rho), ResidualBalancing)):
            units = replace(units, start=np.zeros(units.start.size))
        state, rule = begin(compiled, method.rho, start, units)
        state.whole = among or HERE
        is_default = is_own and algorithm.__class__ is DALD and acceleration is not None
        is_extrapolated = is_default and among is None and extrapolated(compiled, start, state)
        is_judged = among is None and not any(s.client.is_remote for s in compiled.values())
        given: dict[str, Any] = {
            "algorithm": algorithm,
            **how,
            "metrics": metrics,
            "gap": gap,
            "eps_pri": eps_pri,
            "eps_dual": eps_dual,
            "max_rounds": max_rounds,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if acceleration is not DEFAULT_ACCELERATION:
            given["acceleration"] = acceleration
        settings = Settings(
            stopping or method.stopping,
            Accuracy(accuracy, eps_pri, eps_dual),
            eps_pri,
            eps_dual,
            max_rounds,
            check_metrics(metrics),
            check_callback(callback),
            acceleration,
            insists=acceleration is not DEFAULT_ACCELERATION,
            learnt=None if start is None else start.learnt,
            is_extrapolated=is_extrapolated,
            gap_test=None if gap is None else gap_test(compiled, gap),
            end_test=end_test(compiled, max(eps_pri, eps_dual)) if is_judged else None,
            begun=begun,
            checkpoint=None
            if checkpoint is None
            else Checkpoint(Path(checkpoint), every, given, signature(compiled)),
        )
        with Progress(compiled.model.name, max_rounds, verbose) as progress:
            with uncollected():
                run = Run(membership, method, state, rule, layer, settings, progress)
            if saved is not None:
                run.restore(saved.restored(run.kept()))
                if is_measured:
                    measured = Measured.again(compiled, run.state.units, layer)
            outcome = run.go()
            ended = outcome.termination
            if outcome.error is None and ended.status not in CUT_SHORT:
                compiled.resting = layer
            progress.ended(len(outcome.rows), str(ended.status), ended.detail)
    except KeyboardInterrupt:  # in the rounds it is caught, so this was before
        outcome = ended_before(Membership(compiled, Sequence(label="by colour"), ()))
    except TimeUpError:  # before the first round, too
        late = Membership(compiled, Sequence(label="by colour"), ())
        outcome = ended_before(late, out_of_time(0))
    finally:
        timed.close()
        if placement is not None:
            placement.close()
    result = assemble(outcome, (eps_pri, eps_dual), time.perf_counter() - begun)
    result.measured = measured
    result.shows_curvature = isinstance(algorithm, InteriorPoint)
    result.trail = trailed(result, start)
    if outcome.error is not None:
        outcome.error.result = result
        raise outcome.error
    return result
