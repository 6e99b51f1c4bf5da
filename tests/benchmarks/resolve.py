"""Table 1: one client's re-solve in a late round, against the loop by hand."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.coordinate.state import State
from dald_model.coordinate.sweeper import SerialSweeper
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers import Turn
from tests.benchmarks import common
from tests.benchmarks.common import GOOD, KINDS, LEAST_SQUARES, TIGHT, Array, Hand, Kind

SIZES = ((10, 150), (50, 200), (100, 500))
COUNTS = (10, 100, 1000)
TOLERANCE = 1e-7
"""What our sessions are asked for; the coordinator's last rounds ask for 1e-7 to 1e-9."""
SETTLE, ROUNDS, CHANGE = 6, 8, 1e-3
"""Rounds to come to, rounds timed, and how much mu and z change between them, relatively."""
ENOUGH = 2.0
"""Seconds after which our rounds are cut to three."""
SLOW = 0.5
"""Seconds after which the loop by hand skips a client's rounds but the last, which is judged."""
SAMPLED = 2
"""Clients that the loop by hand solves and whose points are judged."""

OSQP = [{}, *({"eps_abs": e, "eps_rel": e, "max_iter": 20000} for e in (1e-7, 1e-9))]
CLARABEL = [{}, {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}]
SCS = [{"eps": e, "max_iters": 20000} for e in (1e-7, 1e-9)]
RIVALS: dict[str, Any] = {"CLARABEL": CLARABEL, "OSQP": OSQP, "SCS": SCS}
"""Options from loose to tight; the first that reaches the accuracy counts."""
LIMITS = {"CLARABEL": "time_limit", "OSQP": "time_limit", "SCS": "time_limit_secs"}


class Task(NamedTuple):
    """What a sampled client is asked, round by round, and the answer to the last."""

    weight: Array
    ts: list[Array]
    ours: Array


class Best(NamedTuple):
    seconds: float
    solver: str
    error: float


def ours(compiled: dm.Compiled) -> tuple[float, str, list[Task]]:
    """Seconds per client and round, the solver's name, and the sampled clients' tasks."""
    state, layer, clients = settled(compiled)
    rng = np.random.default_rng(1)
    groups, names = layer.batches(clients), clients[:: max(1, len(clients) // SAMPLED)][:SAMPLED]
    ts: dict[Hashable, list[Array]] = {name: [] for name in names}
    rho, base, told = state.rho, state.mu, state.sides[::-1]
    rounds = []
    for _ in range(1 + ROUNDS):  # the first warms up
        mu = base * (1 + CHANGE * rng.normal(size=base.size))
        seen = told * (1 + CHANGE * rng.normal(size=told.shape))
        for name in names:
            sub = compiled[name]
            at = sub.entries
            ts[name].append(2 * rho[at] ** 2 * seen[sub.rows, at] - sub.signs * mu[at])
        turns = [Turn(g.which, mu[g.ends.at], rho[g.ends.at], g.ends.own(seen)) for g in groups]
        rounds.append(list(zip(groups, turns, strict=True)))
    found, points, answers = [], {}, []
    with common.undisturbed():
        for pairs in rounds:
            begun = time.perf_counter()
            answers = [group.session.minimise(turn, TOLERANCE) for group, turn in pairs]
            found.append(time.perf_counter() - begun)
            if sum(found) > ENOUGH and len(found) > 3:
                break
    for group, answer in zip(groups, answers, strict=True):
        assert set(answer.statuses) <= {"optimal", "optimal_inaccurate"}, answer.messages
        own = answer.points.reshape(len(group.names), -1)
        points |= {name: own[at] for at, name in enumerate(group.names) if name in names}
    tasks = [Task(rho[compiled[n].entries] ** 2, ts[n][: len(found)], points[n]) for n in names]
    solvers = sorted({layer.solver(name).name for name in clients})
    return common.median(found[1:]) / len(clients), "+".join(solvers), tasks


def settled(compiled: dm.Compiled) -> tuple[Any, SolverLayer, list[Hashable]]:
    """State and sessions after a few rounds from zero with the default start of rho."""
    layer = SolverLayer(compiled, "auto")
    sweeper = SerialSweeper(layer)
    clients = list(compiled.model.clients)
    state = State.start(compiled, dm.ResidualBalancing().init(compiled))
    begun = time.perf_counter()
    for at in range(SETTLE):
        if at > 2 and time.perf_counter() - begun > ENOUGH:
            break
        sweeper.run(state, [list(compiled.servers), clients], TOLERANCE)
        state.mu = state.estimate
    for name in clients:
        matrix = compiled[name].sides[0]
        assert matrix.nnz == matrix.shape[0] == matrix.shape[1], "t needs the identity"
    return state, layer, clients


def exact(kind: Kind, A: Array, b: Array, task: Task, hand: Hand) -> Array:
    """The answer to the last round, by a closed form or a tight interior-point solve."""
    H, slope = 2 * A.T @ A + 2 * np.diag(task.weight), 2 * A.T @ b + task.ts[-1]
    if kind is LEAST_SQUARES:
        return np.linalg.solve(H, slope)
    if kind.prox is not None:  # Clarabel stalls short of 1e-12 at these cones
        step, x = 1 / np.linalg.eigvalsh(H)[-1], np.zeros(slope.size)
        for _ in range(5000):
            x = kind.prox(x - step * (H @ x - slope), step, len(b))
        return x
    x = hand.solve(task.ts[-1], "CLARABEL", **TIGHT)
    if kind.bend is None:
        return x
    # At exponential cones Clarabel stalls at 1e-6: Newton from there, on what is not at a bound.
    for _ in range(30):
        slope, H = kind.bend(A, b, x)
        slope, H = slope + 2 * task.weight * x - task.ts[-1], H + 2 * np.diag(task.weight)
        free = ~((np.abs(x) > kind.bound - 1e-5) & (slope * x < 0))
        x = np.where(free, x, np.sign(x) * min(kind.bound, 1e300))
        x[free] -= np.linalg.solve(H[np.ix_(free, free)], slope[free])
        x = np.clip(x, -kind.bound, kind.bound)
    return x


def by_hand(hands: Sequence[Hand], tasks: Sequence[Task], truths: Sequence[Array]) -> Best | None:
    """The fastest of cvxpy's solvers whose points are right to GOOD."""
    best = None
    for solver, ladder in RIVALS.items():
        for options in ladder:
            try:
                took, off = _timed(hands, tasks, truths, solver, options, best)
            except (cp.SolverError, ValueError):
                break  # it does not take this kind of client
            if off <= GOOD:
                if best is None or took < best.seconds:
                    best = Best(took, solver, off)
                break
            if best is not None and took > 2 * best.seconds:
                break  # tighter is slower still
    return best


def _timed(
    hands: Sequence[Hand],
    tasks: Sequence[Task],
    truths: Sequence[Array],
    solver: str,
    options: dict[str, Any],
    best: Best | None,
) -> tuple[float, float]:
    found, errors = [], []
    options = options | {LIMITS[solver]: 5.0}
    for hand, task, truth in zip(hands, tasks, truths, strict=True):
        hand.solve(task.ts[0], solver, **options)  # compiles
        mine: list[float] = []
        point = truth
        with common.undisturbed():
            for t in task.ts[1:]:
                if sum(mine) > SLOW and t is not task.ts[-1]:
                    continue
                begun = time.perf_counter()
                point = hand.solve(t, solver, **options)
                mine.append(time.perf_counter() - begun)
                if best is not None and mine[-1] > 5 * best.seconds:
                    return mine[-1], np.inf  # cannot win
        found += mine
        errors.append(common.error(point, truth))
    return common.median(found), max(errors)


def row(kind: Kind, m: int, rows: int, patience: float) -> list[str]:
    """Ours at each number of clients, the loop by hand once: its clients do not meet."""
    took: dict[int, float | None] = dict.fromkeys(COUNTS)
    errors, best, name, spent = [], None, "", 0.0
    for count in COUNTS:
        if 10 * spent > patience:
            break
        begun = time.perf_counter()
        took[count], name, tasks = ours(common.star(kind, kind.data(count, rows, m), m).compile())
        spent = time.perf_counter() - begun
        sampled = list(islice(kind.data(count, rows, m), 0, count, count // SAMPLED))
        hands = [Hand(kind, A, b) for A, b in sampled]
        for hand, task in zip(hands, tasks, strict=True):
            hand.weight.value = task.weight
        with common.silent():
            judged = zip(sampled, tasks, hands, strict=True)
            truths = [exact(kind, A, b, task, hand) for (A, b), task, hand in judged]
            errors += [common.error(t.ours, x) for t, x in zip(tasks, truths, strict=True)]
            if count == COUNTS[0]:
                best = by_hand(hands, tasks, truths)
    loop = best.seconds if best else None
    ratios = [loop / t if loop and t else None for t in took.values()]
    return [
        kind.name,
        f"{m} x {rows}",
        *map(common.times, ratios),
        *(common.number(t and 1e6 * t) for t in took.values()),
        common.small(max(errors)) if max(errors) <= GOOD else f"**{common.small(max(errors))}**",
        common.number(loop and 1e6 * loop),
        common.small(best and best.error),
        best.solver if best else "none reached it",
        name,
    ]


def table(full: bool, kinds: Sequence[str] = ()) -> str:
    lines = []
    row(LEAST_SQUARES, 5, 20, 0.0)  # imports and the like
    for kind in KINDS.values():
        if kinds and not any(word in kind.name for word in kinds):
            continue
        for m, rows in SIZES:
            if kind.matrix:
                m = common.SIDE**2
            common.say(f"1 re-solve: {kind.name}, {m} x {rows}")
            lines.append(row(kind, m, rows, 120.0 if full else 4.0))
    heads = ["client", "m x N", *(f"ratio, {c}" for c in COUNTS)]
    heads += [*(f"ours, {c} [us]" for c in COUNTS), "ours error"]
    heads += ["by hand [us]", "its error", "its solver", "our solver"]
    return (
        "## 1. Re-solve of one client: the loop by hand over ours\n\n"
        f"Microseconds per client and round at 10, 100 and 1,000 clients; mu and z change by "
        f"{CHANGE:g} of themselves from round to round; ours is asked for {TOLERANCE:g}, and of "
        f"cvxpy's solvers the fastest counts that is right to {GOOD:g}. The errors are the largest "
        f"over {SAMPLED} clients of |x - x*| / max(1, |x*|), in bold where ours miss "
        "that. A dash: not run, it would have taken too long.\n\n" + common.markdown(heads, lines)
    )
