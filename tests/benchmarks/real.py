"""Table 7: clients as they are: of unequal sizes, sparse, kinked, on graphs, of real owners."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.common import GOOD, Array

CLIENTS, SAMPLED, WARM = 60, 3, 3
"""Clients of most rows; of how many the loop by hand is tried, and how often."""
MOST, STOP = 3000, 1e-6
"""Rounds of the numpy programs, and the residuals at which they stop, as ours do."""

Loss = Callable[[Any, Any, Array], Any]
LOSSES: dict[str, Loss] = {
    "least squares": lambda x, A, b: cp.sum_squares(A @ x - b),
    "logistic": lambda x, A, b: cp.sum(cp.logistic(cp.multiply(-np.sign(b), A @ x))),
    "hinge": lambda x, A, b: cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x))),
    "absolute": lambda x, A, b: cp.norm1(A @ x - b),
}
ROWS = {"least squares": (30, 100, 400, 1600), "logistic": (30, 100, 400)}
ROWS["hinge"] = (100, 400, 1600)
"""Of each client where they are of about one size."""
SOLVERS = {
    "least squares": ("OSQP", "PIQP", "CLARABEL"),
    "logistic": ("CLARABEL", "SCS"),
    "hinge": ("HIGHS", "PIQP", "CLARABEL"),
    "absolute": ("HIGHS", "PIQP", "CLARABEL"),
}
"""Of cvxpy's, for the all-in-one solve."""


class Case(NamedTuple):
    """Clients (A, b) with one loss and a small ridge; the regulariser and rules of all of them."""

    title: str
    loss: str
    parts: Sequence[tuple[Any, Array]]
    l1: float = 0.0
    box: tuple[float, float] | None = None
    ridge: float = 0.1

    @property
    def size(self) -> int:
        return int(self.parts[0][0].shape[1])

    def share(self, x: Any, A: Any, b: Array) -> tuple[Any, list[Any]]:
        """A client's objective and rules."""
        cost = LOSSES[self.loss](x, A, b) + self.ridge * cp.sum_squares(x) / len(self.parts)
        if self.l1:
            cost = cost + self.l1 / len(self.parts) * cp.norm1(x)
        return cost, [x >= self.box[0], x <= self.box[1]] if self.box else []


def log_normal(loss: str, size: int, low: int, high: int, seed: int) -> Case:
    """Rows of a client between the limits, most of them few."""
    rng = np.random.default_rng(seed)
    rows = np.clip(np.exp(rng.normal(3.5, 1.3, CLIENTS)), low, high).astype(int)
    truth, parts = rng.normal(size=size) / np.sqrt(size), []
    for count in rows.tolist():
        A = rng.normal(size=(count, size))
        parts.append((A, A @ truth + rng.normal(size=count)))
    return Case(f"{loss}, {rows.min()} to {rows.max()} rows", loss, parts)


def sparse_box(clients: int) -> Case:
    """As w8a: 300 columns of 4 % nonzeros, l1 and a box."""
    rng = np.random.default_rng(5)
    parts = []
    for _ in range(clients):
        A = (rng.random((1000, 300)) < 0.04).astype(float)
        parts.append((sp.csr_array(A), np.where(rng.random(1000) < 0.05, 1.0, -1.0)))
    return Case("sparse logistic, l1 and box", "logistic", parts, 2.0, (-1.0, 3.0), 0.0)


def schools() -> Case | None:
    """Dutch classes (Snijders and Bosker), language scores: each class its own number of pupils."""
    folder = Path(os.environ.get("DALD_DATA", "../shared/data"))
    file = folder / "clients" / "MASS_nlschools.csv"
    if not file.exists():
        return None
    frame = pd.read_csv(file)
    told = frame[["IQ", "SES", "GS", "COMB"]].astype(float)
    told = (told - told.mean()) / told.std()
    told.insert(0, "one", 1.0)
    parts = [
        (told.loc[own].to_numpy(), frame.lang[own].to_numpy(dtype=float))
        for own in frame.groupby("class").groups.values()
    ]
    return Case(f"{len(parts)} school classes, absolute loss", "absolute", parts)


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


def ours(model: dm.Model) -> tuple[Found, float, float]:
    """The whole job, compiled too; and the seconds of compiling alone, and of a round after it."""
    _, compiling = clocked(model.compile)
    result, solving = clocked(model.solve)
    _, first = clocked(lambda: model.solve(max_rounds=1))
    checked = "verified" if result.verify().ok else "not verified"
    found = Found(compiling + solving, result.value, f"{result.status}, {checked}", result.rounds)
    return found, compiling, (solving - first) / (result.rounds - 1)


def all_in_one(problem: cp.Problem, solvers: Sequence[str]) -> list[tuple[str, Found]]:
    found = []
    for solver in solvers:
        fresh = cp.Problem(problem.objective, problem.constraints)
        for variable in fresh.variables():
            variable.save_value(None)  # which cvxpy would check against bounds that it makes
        try:
            _, seconds = clocked(lambda p=fresh, s=solver: p.solve(solver=s))
        except cp.SolverError:
            continue
        reached: Any = fresh.value
        if reached is not None and np.isfinite(reached):
            found.append((solver, Found(seconds, float(reached), fresh.status)))
    return found


def right(found: Sequence[tuple[str, Found]], best: float) -> list[tuple[str, Found]]:
    """Those that are accurate enough beside the best value."""
    return [(solver, one) for solver, one in found if one.gap(best) <= GOOD]


def by_hand(case: Case) -> float:
    """Seconds a client and round of a DPP problem of which a Parameter changes, fastest solver."""
    order = sorted(range(len(case.parts)), key=lambda i: case.parts[i][0].shape[0])
    chosen = [order[int(q * (len(order) - 1))] for q in np.linspace(0.2, 0.8, SAMPLED)]
    rng, best = np.random.default_rng(0), np.inf
    for solver in SOLVERS[case.loss]:
        spent = []
        for at in chosen:
            x = cp.Variable(case.size)
            t = cp.Parameter(case.size, value=np.zeros(case.size))
            cost, rules = case.share(x, *case.parts[at])
            problem = cp.Problem(cp.Minimize(cost + cp.sum_squares(x) - t @ x), rules)
            try:
                clocked(lambda p=problem, s=solver: p.solve(solver=s, warm_start=True))
                for _ in range(WARM):
                    t.value = 0.01 * rng.normal(size=case.size)
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
    if case.loss not in ("least squares", "logistic") or case.l1 or case.box:
        return None
    n, m, ridge = len(case.parts), case.size, 2 * case.ridge / len(case.parts)
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


def star(case: Case) -> dm.Model:
    model, x = dm.Model(case.title), cp.Variable(case.size)
    for at, (A, b) in enumerate(case.parts):
        model.client(at, *case.share(x, A, b))
    return model


def network() -> dm.Model:
    """The network lasso of logistic districts: four regions of like-minded neighbours."""
    rng, graph = np.random.default_rng(6), nx.random_regular_graph(4, CLIENTS, seed=0)
    rows = np.clip(np.exp(rng.normal(3.2, 1, CLIENTS)), 2, 117).astype(int)
    truth = np.repeat(rng.normal(size=(4, 6)), CLIENTS // 4, axis=0)
    model = dm.Model("network lasso")
    x = [cp.Variable(6) for _ in range(CLIENTS)]
    for i in range(CLIENTS):
        A = rng.normal(size=(rows[i], 6))
        y = np.sign(A @ truth[i] + 0.5 * rng.normal(size=rows[i]))
        model.client(i, LOSSES["logistic"](x[i], A, y) + 0.05 * cp.sum_squares(x[i]))
    for i, j in graph.edges:
        model.client((i, j), 0.5 * cp.norm(x[i] - x[j]))
    return model


def equal(loss: str, rows: int) -> Case:
    """Clients of about as many rows each: what there is to gain grows with these."""
    rng = np.random.default_rng(8)
    truth, parts = rng.normal(size=20) / np.sqrt(20), []
    for count in (rows * np.exp(rng.normal(0, 0.5, CLIENTS))).astype(int).tolist():
        A = rng.normal(size=(count, 20))
        parts.append((A, A @ truth + rng.normal(size=count)))
    return Case(loss, loss, parts)


def overtaking() -> str:
    """From how many rows a client on the all-in-one solve takes longer."""
    lines = []
    for loss in ("least squares", "logistic", "hinge"):
        for rows in ROWS[loss]:
            common.say(f"7 real: {loss}, about {rows} rows")
            case = equal(loss, rows)
            own, compiling, _ = ours(star(case))
            able = right(all_in_one(star(case).monolithic(), SOLVERS[loss]), own.value)
            solver, fastest = min(able, key=lambda pair: pair[1].seconds)
            lines.append(
                [
                    loss,
                    f"{rows:,}",
                    common.times(fastest.seconds / own.seconds),
                    common.number(own.seconds),
                    common.number(compiling),
                    common.number(fastest.seconds),
                    str(own.rounds),
                    own.said,
                    solver,
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
    own: Found
    compiling: float
    gap: float
    hand: float
    numpy: float
    pooled: float
    solver: str

    def cells(self) -> list[str]:
        return [
            self.title,
            str(self.clients),
            common.times(self.hand),
            common.times(self.numpy),
            common.times(self.pooled),
            common.number(self.own.seconds),
            common.number(1e3 * self.compiling / self.clients),
            str(self.own.rounds),
            common.small(self.gap),
            self.own.said,
            self.solver,
        ]


def line(title: str, model: dm.Model, case: Case | None, solvers: Sequence[str]) -> Line:
    common.say(f"7 real: {title}")
    own, compiling, a_round = ours(model)
    pooled = all_in_one(model.monolithic(), solvers)
    best = min(found.value for _, found in pooled)
    solver, fastest = min(right(pooled, best), key=lambda pair: pair[1].seconds)
    clients, hand, theirs = len(model.clients), np.nan, np.nan
    if case is not None:
        clients = len(case.parts)
        hand = by_hand(case) / (a_round / clients)
        forty = consensus_admm(case)
        if forty is not None and forty.gap(best) <= 10 * GOOD:
            theirs = forty.seconds / own.seconds
    ratio = fastest.seconds / own.seconds
    return Line(title, clients, own, compiling, own.gap(best), hand, theirs, ratio, solver)


def summary(name: str, ratios: Sequence[float]) -> str:
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    mean, worst = float(np.exp(np.mean(np.log(known)))), min(known)
    return f"{name}: geometric mean {common.times(mean)}, worst row {common.times(worst)}"


def table(full: bool) -> str:
    cases = [
        log_normal("least squares", 20, 1, 10000, seed=1),
        log_normal("logistic", 20, 1, 10000, seed=2),
        log_normal("hinge", 20, 5, 400, seed=3),
        log_normal("absolute", 10, 5, 400, seed=4),
        sparse_box(50 if full else 5),
        schools(),
    ]
    lines = [
        line(case.title, star(case), case, SOLVERS[case.loss]) for case in cases if case is not None
    ]
    lines.append(line("network lasso, logistic", network(), None, ("CLARABEL", "SCS")))
    heads = ["clients are", "number", "by hand / ours", "numpy ADMM / ours", "best AIO / ours"]
    heads += ["ours [s]", "compile [ms a client]", "rounds", "gap", "it says", "AIO's solver"]
    means = [
        summary("by hand", [one.hand for one in lines]),
        summary("numpy ADMM", [one.numpy for one in lines]),
        summary("AIO", [one.pooled for one in lines]),
    ]
    return (
        "## 7. Real clients: unequal, sparse, kinked\n\n"
        "Processor seconds, one thread, in one process. By hand: `problem.solve()` of a DPP "
        f"problem by the fastest of cvxpy's solvers, mean over {SAMPLED} clients of other sizes, "
        "against ours a client and round after the first, what accelerates rounds included. The "
        "others are whole jobs, ours with compile: forty "
        "lines of numpy for consensus ADMM that stop at the same residuals, and the fastest "
        f"all-in-one solve that is right to {GOOD:g}. A dash: no such program. Gap: of the value, "
        "relative to the best that any solver found.\n\n"
        + common.markdown(heads, [one.cells() for one in lines])
        + "\n\n"
        + "\n\n".join([*means, overtaking()])
    )
