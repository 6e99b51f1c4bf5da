"""Coordinator: the one loop of the code base, outer and inner, for every algorithm."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from dald_model.algorithms import DALD, Algorithm
from dald_model.compiler import Compiled, Recovered
from dald_model.diagnose import Verdict, Watch
from dald_model.errors import OptionError
from dald_model.layer import Layer
from dald_model.penalty import as_rule
from dald_model.result import Result, Status
from dald_model.sequence import Sequence
from dald_model.solvers.base import FOUND, Solver, Turn
from dald_model.state import State
from dald_model.stopping import Accuracy, Residuals, Stopping, default_stopping, residuals
from dald_model.values import flat


def coordinate(
    compiled: Compiled,
    *,
    algorithm: Algorithm | None = None,
    sequence: Sequence | None = None,
    stopping: Stopping | None = None,
    rho: Any = None,
    solver: Solver | str | Mapping[Any, Solver | str] | None = None,
    accuracy: float | None = None,
    eps_pri: float = 1e-6,
    eps_dual: float = 1e-6,
    max_rounds: int = 1000,
    verbose: bool = False,
) -> Result:
    r"""Run an algorithm on a compiled model: Algorithms 2 and 3 of the paper.

    A round is one inner loop: clients are solved in the order of the hierarchical network, each
    with the newest values of its neighbours. When ``stopping`` ends the inner loop, the outer test

    .. math::
        \|\mathcal C^{k,v}\|_\infty \le \epsilon_{pri} \text{ and }
        \|\mathcal D^{k,v}\|_\infty \le \epsilon_{dual}

    decides whether the run is over; if not, multipliers and penalties are updated.

    Parameters
    ----------
    algorithm : Algorithm
        What to do with the multipliers; default :class:`DALD`.
    sequence : Sequence
        Who is solved when; default one colour of the consensus graph after the other, which is
        two-block ADMM where two colours suffice.
    stopping : Stopping
        When an inner loop ends, (B1) to (B4); default :func:`default_stopping`.
    rho : float, dict, array or penalty rule
        The penalty; default :class:`ResidualBalancing`, which needs no tuning.
    solver : Solver, str or dict
        The solver layer: "auto" (default) gives each client to the fastest exact method that
        takes it, see ``compiled.explain()``; else the name of one of
        :data:`dald_model.solvers.NAMED`, of an installed cvxpy solver, an object of
        :mod:`dald_model.solvers`, or a dict from clients to any of these. A server has a closed
        form.
    accuracy : float
        How exactly each client is minimised, relative to the size of its variables, where its
        solver is iterative; default :class:`Accuracy`, which follows the residuals.
    eps_pri, eps_dual : float
        Tolerances, see :class:`Residuals`. Zero is allowed: then every round is run, and the
        answer is that of the last one; otherwise a run that does not converge gives its best.
    max_rounds : int
        The most rounds that are run.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    Result
        Whatever happens on the way (an infeasible client, divergence, Ctrl-C) ends in its status,
        with the best iterate and the history so far.

    Raises
    ------
    OptionError, SequenceError
        If an option has a value that means nothing, before anything is computed.
    """
    begun = time.perf_counter()
    _check(compiled, eps_pri, eps_dual, max_rounds)
    _check_kind("algorithm", algorithm, "multipliers", "dm.DALD()")
    _check_kind("sequence", sequence, "stages", "dm.Sequence.natural()")
    _check_kind("stopping", stopping, "ends", "dm.FixedBudget(v_max=1)")
    algorithm = algorithm or DALD()
    sequence = sequence or Sequence(label="by colour")
    network = sequence.network(compiled.graph, compiled.servers)
    stopping = stopping or default_stopping(sequence, network)
    rule = as_rule(rho)
    layer = Layer(compiled, solver)
    inner_accuracy = Accuracy(accuracy, eps_pri, eps_dual)
    generator = np.random.default_rng(sequence.seed)

    state = State.start(compiled, rule.init(compiled))
    tested = min(eps_pri, eps_dual) > 0
    watch = Watch(compiled) if tested else Watch(compiled, patience=math.inf)
    best, best_round, rows = None, 0, []
    best_merit = best_worst = math.inf
    verdict = Verdict(Status.ROUND_LIMIT, None, f"{max_rounds} rounds were run")
    outer, inner, found = 1, 0, Residuals(*4 * [math.inf])
    progress = tqdm(total=max_rounds, unit="round", disable=not verbose)
    try:
        for round_ in range(1, max_rounds + 1):
            inner += 1
            layer.round = round_
            closing = stopping.ends(outer, inner, found.dual_scaled, eps_dual)
            full = sequence.per_loop is None or closing
            staleness = state.staleness(compiled) if sequence.choice else {}
            stages = sequence.stages(network, generator, staleness, full)
            tolerance = inner_accuracy.of(found)
            failure = _sweep(state, stages, layer, tolerance)
            if failure is not None:
                verdict = watch.explain(state, failure)
                break
            found = residuals(state)
            rows.append(_row(state, outer, inner, found, stages, layer, begun))
            merit = max(
                found.primal_scaled / (eps_pri or 1.0), found.dual_scaled / (eps_dual or 1.0)
            )
            # Relative residuals flatter an iterate that runs away; absolute ones do not.
            worst = max(found.primal, found.dual)
            better = merit <= best_merit and worst <= 10 * best_worst
            if state.complete and (better or not tested):
                best, best_round = state.snapshot(), round_
                best_merit, best_worst = merit, worst
            turn = inner
            progress.set_postfix(primal=f"{found.primal:.1e}", dual=f"{found.dual:.1e}")
            progress.update()
            if full and stopping.ends(outer, inner, found.dual_scaled, eps_dual):
                met = found.primal_scaled <= eps_pri and found.dual_scaled <= eps_dual
                if tested and met and inner_accuracy.suffices(tolerance):
                    verdict = _converged(compiled, state)
                    best, best_round = state, round_
                    break
                state.mu = algorithm.multipliers(state)
                state.rho = rule.update(state, outer)
                outer, inner = outer + 1, 0
            failure = watch.look(round_, turn, state, found, merit)
            if failure is not None:
                verdict = failure
                break
    except KeyboardInterrupt:
        verdict = Verdict(Status.INTERRUPTED, None, f"after {len(rows)} complete rounds")
    finally:
        progress.close()
    answer = best, best_round
    seconds = time.perf_counter() - begun
    return _finish(layer, answer, rows, verdict, (eps_pri, eps_dual), seconds)


def _sweep(
    state: State, stages: Iterable[Iterable[Hashable]], layer: Layer, tolerance: float
) -> Verdict | None:
    """Solve the clients stage by stage, equations (13), (14) and (21)."""
    for stage in stages:
        for group in layer.groups(stage):
            at = group.entries
            told = state.sides[1 - group.rows, at]
            turn = Turn(group.which, state.mu[at], state.rho[at], told, state.points[group.columns])
            for part, answers in layer.answer(group, turn, tolerance):
                for name, status in zip(part.names, answers.statuses, strict=True):
                    if status not in FOUND:
                        return _failure(name, status, answers.messages.get(0, ""))
                state.put(part, answers)
    return None


def _failure(name: Hashable, said: str, message: str) -> Verdict:
    status = Status(said)
    what = {
        Status.INFEASIBLE: f"client {name!r} is infeasible: no point satisfies its own "
        "constraints and the domain of its objective; relax one of them",
        Status.UNBOUNDED: f"client {name!r} is unbounded below along a direction that no consensus "
        "constraint holds; bound its variables or add a regulariser",
        Status.SOLVER_ERROR: f"the solver failed on client {name!r}; choose another by the option "
        "solver, or scale the client's data",
    }[status]
    return Verdict(status, name, f"{what} ({message})")


def _converged(compiled: Compiled, state: State) -> Verdict:
    origins = zip(compiled, state.origin, strict=True)
    short = [n for n, at in origins if at and at[0].statuses[at[1]] == "optimal_inaccurate"]
    if short:
        named = ", ".join(map(repr, short))
        return Verdict(
            Status.OPTIMAL_INACCURATE, short[0], f"inaccurate in the last round: {named}"
        )
    return Verdict(Status.OPTIMAL, None, "")


def _row(
    state: State,
    outer: int,
    inner: int,
    found: Residuals,
    stages: Iterable[Iterable[Hashable]],
    layer: Layer,
    begun: float,
) -> dict[str, float]:
    return {
        "outer": outer,
        "inner": inner,
        **found._asdict(),
        "objective": layer.compiled.sense * float(state.objectives.sum()),
        "rho": float(np.exp(np.log(state.rho).mean())),
        "solved": sum(len(list(stage)) for stage in stages),
        "fallbacks": len(layer.events),
        "seconds": time.perf_counter() - begun,
    }


def _finish(
    layer: Layer,
    answer: tuple[State | None, int],
    rows: list[dict[str, float]],
    verdict: Verdict,
    tolerances: tuple[float, float],
    seconds: float,
) -> Result:
    """Turn the best iterate into the user's terms and set values and dual values."""
    compiled = layer.compiled
    best, best_round = answer
    history = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="round"))
    recovered = Recovered({}, {}, {}, {})
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray] = {}
    value = math.nan
    if best is not None:
        mu = best.estimate
        points = {name: best.points[part] for name, part in compiled.columns.items()}
        origins = zip(compiled, best.origin, strict=True)
        duals = {name: at[0].duals(at[1]) for name, at in origins if at is not None}
        recovered = compiled.recover(points, duals, mu)
        multipliers = {ends: mu[slot].copy() for ends, slot in compiled.slots.items()}
        value = compiled.sense * float(best.objectives.sum())
    if verdict.status == Status.INFEASIBLE:
        value = compiled.sense * math.inf
    if verdict.status == Status.UNBOUNDED:
        value = -compiled.sense * math.inf
    result = Result(
        verdict.status,
        value,
        len(rows),
        best_round,
        history,
        recovered,
        multipliers,
        compiled,
        seconds,
        *tolerances,
        verdict.culprit,
        verdict.detail,
        tuple(layer.events),
    )
    result.apply()
    return result


def _check(compiled: Compiled, eps_pri: float, eps_dual: float, max_rounds: int) -> None:
    for what, given in (("eps_pri", eps_pri), ("eps_dual", eps_dual)):
        if not (isinstance(given, float | int | np.number) and 0 <= given < math.inf):
            raise OptionError(f"{what}: given {given!r}, expected a finite number from 0")
    if not isinstance(max_rounds, int | np.integer) or max_rounds < 1:
        raise OptionError(f"max_rounds: given {max_rounds!r}, expected a whole number from 1")
    for name, client in compiled.model.clients.items():
        for parameter in client.parameters:
            _check_parameter(parameter, f"client {name!r}")
    for agreement in compiled.model.agreements:
        for parameter in agreement.left.parameters() + agreement.right.parameters():
            _check_parameter(parameter, f"consensus {agreement}")


def _check_parameter(parameter: cp.Parameter, where: str) -> None:
    value = parameter.value
    if value is None:
        raise OptionError(
            f"{where}: the Parameter {parameter.name()!r} has no value; set its value before "
            "solving"
        )
    if not np.isfinite(flat(value)).all():
        raise OptionError(
            f"{where}: the Parameter {parameter.name()!r} holds NaN or infinite entries; set a "
            "finite value before solving"
        )


def _check_kind(what: str, given: Any, needs: str, example: str) -> None:
    if given is not None and (isinstance(given, type) or not hasattr(given, needs)):
        raise OptionError(f"{what}: given {given!r}, expected an object such as {example}")
