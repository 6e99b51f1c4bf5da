"""Table 7: clients as they are: of unequal sizes, sparse, kinked, on graphs, of real owners."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.linalg

import dald_model as dm
from tests.benchmarks import common, real_cases
from tests.benchmarks.common import GOOD, Array
from tests.benchmarks.real_cases import CLIENTS, Case, Network

SAMPLED, WARM = 3, 3
"""Of how many clients the loop by hand is tried, and how often."""
MOST, STOP = 3000, 1e-6
"""Rounds of the numpy programs, and the residuals at which they stop, as ours do."""
TURNS, SHORT = 3, 1.5
"""Whole jobs of fewer seconds are done so often, in turns with each other; the least counts."""
LIMITS: Mapping[str, Mapping[str, float]] = {
    "CLARABEL": {"time_limit": 200.0},
    "SCS": {"time_limit_secs": 200.0},
    "HIGHS": {"time_limit": 200.0},
    "OSQP": {"time_limit": 200.0},
}
"""Of the all-in-one solve, in seconds of the clock."""

ROWS = {"least squares": (30, 100, 400, 1600), "logistic": (30, 100, 400)}
ROWS["hinge"] = (100, 400, 1600)
"""Of each client where they are of about one size."""


class Found(NamedTuple):
    """One way to solve a case: seconds of the processor, the value and what was said."""

    seconds: float
    value: float
    said: str = ""
    rounds: int = 0

    def gap(self, best: float) -> float:
        return abs(self.value / best - 1)


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    with common.undisturbed(), common.silent():
        begun = time.process_time()
        found = work()
        return found, time.process_time() - begun


class Job(NamedTuple):
    """A whole job of ours; and the seconds of compiling alone, and of a round after the first."""

    result: dm.Result
    found: Found
    compiling: float
    a_round: float


def ours(one: Case | Network) -> Job:
    """The whole job, compiled too."""
    model = one.model()
    _, compiling = clocked(model.compile)
    ends: list[float] = []
    result, solving = clocked(
        lambda: model.solve(callback=lambda _: ends.append(time.process_time()))
    )
    found = Found(compiling + solving, result.value, str(result.status), result.rounds)
    return Job(result, found, compiling, (ends[-1] - ends[0]) / max(1, len(ends) - 1))


def all_in_one(one: Case | Network, solver: str) -> Found | None:
    """The same at once, by one solver of cvxpy's; None where it has no answer.

    In a process of its own, which highspy 1.16.0 aborts on some of the absolute losses.
    """
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        try:
            return pool.submit(_at_once, one, solver).result()
        except BrokenProcessPool:
            return None


def _at_once(one: Case | Network, solver: str) -> Found | None:
    problem = one.model().monolithic()
    for variable in problem.variables():
        variable.save_value(None)  # which cvxpy would check against bounds that it makes
    limit: Any = LIMITS.get(solver, {})
    try:
        _, seconds = clocked(lambda: problem.solve(solver=solver, **limit))
    except cp.SolverError:
        return None
    reached: Any = problem.value
    if (
        reached is None
        or not np.isfinite(reached)
        or problem.status not in ("optimal", "optimal_inaccurate")
    ):
        return None
    return Found(seconds, float(reached), problem.status)


class Race(NamedTuple):
    """A whole job of ours and the all-in-one solves, in turns; the least seconds of each."""

    own: Found
    compiling: float
    a_round: float
    gap: float
    solver: str
    pooled: float

    @property
    def ratio(self) -> float:
        return self.pooled / self.own.seconds


def race(one: Case | Network) -> Race:
    """Ours against each of the solvers, and the fastest of those that are right."""
    jobs = [ours(one)]
    pooled: dict[str, Found] = {}
    slow: set[str] = set()
    for turn in range(TURNS):
        if turn and jobs[-1].found.seconds < SHORT:
            jobs.append(ours(one))
        for solver in one.solvers:
            found = None if solver in slow else all_in_one(one, solver)
            if found is None or found.seconds > SHORT:
                slow.add(solver)
            if found is not None and (
                solver not in pooled or found.seconds < pooled[solver].seconds
            ):
                pooled[solver] = found
    best = min(jobs, key=lambda job: job.found.seconds)
    least = min(found.value for found in pooled.values())
    checked = "verified" if best.result.verify(aio=False).ok else "not verified"
    own = best.found._replace(said=f"{best.found.said}, {checked}")
    able = right(list(pooled.items()), min(least, own.value))
    none = "none", Found(np.nan, 0)
    solver, fastest = min(able, key=lambda pair: pair[1].seconds, default=none)
    return Race(own, best.compiling, best.a_round, own.gap(least), solver, fastest.seconds)


def right(found: Sequence[tuple[str, Found]], best: float) -> list[tuple[str, Found]]:
    """Those that are accurate enough beside the best value."""
    return [(solver, one) for solver, one in found if one.gap(best) <= GOOD]


def by_hand(case: Case) -> float:
    """Seconds a client and round of a DPP problem of which a Parameter changes, fastest solver."""
    order = sorted(range(len(case.parts)), key=lambda i: case.parts[i][0].shape[0])
    chosen = [order[int(q * (len(order) - 1))] for q in np.linspace(0.2, 0.8, SAMPLED)]
    rng, best = np.random.default_rng(0), np.inf
    for solver in case.solvers:
        spent = []
        for at in chosen:
            size = case.parts[at][0].shape[1]
            x = cp.Variable(size)
            t = cp.Parameter(size, value=np.zeros(size))
            cost, rules = case.share(at, x)
            problem = cp.Problem(cp.Minimize(cost + cp.sum_squares(x) - t @ x), rules)
            try:
                clocked(lambda p=problem, s=solver: p.solve(solver=s, warm_start=True))
                for _ in range(WARM):
                    t.value = 0.01 * rng.normal(size=size)
                    spent.append(
                        clocked(lambda p=problem, s=solver: p.solve(solver=s, warm_start=True))[1]
                    )
            except cp.SolverError:
                spent.append(np.inf)
        best = min(best, float(np.mean(spent)))
    return best


def consensus_admm(case: Case) -> Found | None:
    """Forty lines of numpy: consensus ADMM with cached factors, or Newton steps, and balancing.

    Of least squares and the logistic loss, without regulariser but the ridge.
    """
    if not case.is_plain:
        return None
    n, m = len(case.parts), case.parts[0][0].shape[1]
    ridge = 2 * case.ridge / n
    signed = [(-np.sign(b)[:, None] * A, b) for A, b in case.parts]

    def run() -> tuple[Array, int]:
        rho, count, factors = 10.0, 0, []
        x, u, z = np.zeros((n, m)), np.zeros((n, m)), np.zeros(m)
        grams = [(2 * A.T @ A, 2 * A.T @ b) for A, b in case.parts]
        for count in range(1, MOST + 1):
            if case.loss == "least squares":
                if not factors:
                    shift = (ridge + rho) * np.eye(m)
                    factors = [scipy.linalg.cho_factor(P + shift) for P, _ in grams]
                for i, (_, q) in enumerate(grams):
                    x[i] = scipy.linalg.cho_solve(factors[i], q + rho * (z - u[i]))
            else:
                for i, (S, _) in enumerate(signed):
                    for _ in range(20):
                        p = 1 / (1 + np.exp(-(S @ x[i])))
                        g = S.T @ p + ridge * x[i] + rho * (x[i] - z + u[i])
                        if np.abs(g).max() < 1e-9:
                            break
                        H = S.T @ (S * (p * (1 - p))[:, None]) + (ridge + rho) * np.eye(m)
                        x[i] -= np.linalg.solve(H, g)
            before, z = z, (x + u).mean(axis=0)
            u += x - z
            primal, dual = np.abs(x - z).max(), rho * np.abs(z - before).max()
            if max(primal, dual) < STOP:
                break
            if count % 10 == 0 and (primal > 10 * dual or dual > 10 * primal):
                scale = 2.0 if primal > dual else 0.5
                rho, u, factors = rho * scale, u / scale, []
        return z, count

    (z, rounds), seconds = clocked(run)
    return Found(seconds, value(case, z), "", rounds)


def value(case: Case, x: Array) -> float:
    """The objective of a case without regulariser but the ridge, in numpy."""
    total = case.ridge * float(x @ x)
    for A, b in case.parts:
        u: Array = np.asarray(A @ x)
        flipped: Any = -np.sign(b) * u
        is_square = case.loss == "least squares"
        losses = (u - b) ** 2 if is_square else np.logaddexp(0, flipped)
        total += float(np.sum(losses))
    return total


def overtaking() -> str:
    """From how many rows a client on the all-in-one solve takes longer."""
    lines = []
    for loss in ROWS:
        for rows in ROWS[loss]:
            common.say(f"7 real: {loss}, about {rows} rows")
            found = race(real_cases.equal(loss, rows))
            lines.append(
                [
                    loss,
                    f"{rows:,}",
                    common.times(found.ratio),
                    common.number(found.own.seconds),
                    common.number(found.compiling),
                    common.number(found.pooled),
                    str(found.own.rounds),
                    found.own.said,
                    found.solver,
                ]
            )
    heads = ["clients are", "rows a client", "best AIO / ours", "ours [s]", "of which compile"]
    heads += ["AIO [s]", "rounds", "it says", "AIO's solver"]
    return (
        f"Where the all-in-one solve is overtaken: {CLIENTS} clients of 20 columns and about so "
        "many rows each, dense.\n\n" + common.markdown(heads, lines)
    )


class Line(NamedTuple):
    """A row of the table; ratios are NaN where there is no opponent."""

    title: str
    clients: int
    race: Race
    hand: float
    numpy: float

    def cells(self) -> list[str]:
        own = self.race.own
        return [
            self.title,
            str(self.clients),
            common.times(self.hand),
            common.times(self.numpy),
            common.times(self.race.ratio),
            common.number(own.seconds),
            common.number(self.race.pooled),
            common.number(1e3 * self.race.compiling / self.clients),
            str(own.rounds),
            common.small(self.race.gap),
            own.said,
            self.race.solver,
        ]


def line(one: Case | Network) -> Line:
    common.say(f"7 real: {one.title}")
    found = race(one)
    if isinstance(one, Network):
        return Line(one.title, len(one.model().clients), found, np.nan, np.nan)
    clients, theirs = len(one.parts), np.nan
    hand = by_hand(one) / (found.a_round / clients)
    forty = consensus_admm(one)
    if forty is not None and forty.gap(found.own.value) <= 10 * GOOD:
        theirs = forty.seconds / found.own.seconds
    return Line(one.title, clients, found, hand, theirs)


def summary(name: str, ratios: Sequence[float]) -> str:
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    if not known:
        return f"{name}: none"
    mean, worst = float(np.exp(np.mean(np.log(known)))), min(known)
    return (
        f"{name}: geometric mean {common.times(mean)}, worst row {common.times(worst)}, "
        f"of {len(known)}"
    )


HEADS = ("clients are", "number", "by hand / ours", "numpy ADMM / ours", "best AIO / ours")
HEADS += ("ours [s]", "AIO [s]", "compile [ms a client]", "rounds", "gap", "it says")
HEADS += ("AIO's solver",)


def group(said: str, cases: Sequence[Case | Network]) -> str:
    """Some rows and their means."""
    lines = []
    for case in cases:
        lines.append(line(case))
        common.say(" | ".join(lines[-1].cells()))
    means = [
        summary("by hand", [one.hand for one in lines]),
        summary("numpy ADMM", [one.numpy for one in lines]),
        summary("AIO", [one.race.ratio for one in lines]),
    ]
    found = common.markdown(HEADS, [one.cells() for one in lines])
    return f"{said}\n\n{found}\n\n" + "; ".join(means) + "."


def table(full: bool) -> str:
    return "\n\n".join(
        [
            "## 7. Real clients: unequal, sparse, kinked",
            "Processor seconds, one thread, in one process. By hand: `problem.solve()` of a DPP "
            f"problem by the fastest of cvxpy's solvers, mean over {SAMPLED} clients of other "
            "sizes, against ours a client and round after the first, what accelerates rounds "
            "included. The others are whole jobs, ours with compile: forty lines of numpy for "
            "consensus ADMM that stop at the same residuals, and the fastest all-in-one solve "
            f"that is right to {GOOD:g}, each with 200 s; of those below {SHORT} s, done {TURNS} "
            "times in turns, the least. A dash: no such program. Gap: of the value, relative to "
            "the best that any solver found.",
            group(
                "Clients of the sizes that the issue asks for: log-normal, real owners.",
                real_cases.real(full),
            ),
            group("Small clients, of dozens of rows.", real_cases.small()),
            overtaking(),
        ]
    )
