"""Table 2: from the declaration to arrays, against the first compile of the loop by hand."""

from __future__ import annotations

import time
from itertools import islice

import cvxpy as cp
import numpy as np

from tests.benchmarks import common
from tests.benchmarks.common import LEAST_SQUARES, LOGISTIC, QP, Array, Hand, Kind

SIZES = ((10, 150), (50, 200), (100, 500))
COUNT = 1000
SAMPLED = 6
"""Problems by hand that are compiled; each one anew, so none helps the next."""


def value(kind: Kind, A: Array, b: Array, x: Array) -> float:
    """The objective in numpy."""
    if kind is LOGISTIC:
        return float(np.logaddexp(0, -b * (A @ x)).sum())
    return float(((A @ x - b) ** 2).sum())


def row(kind: Kind, m: int, rows: int) -> list[str]:
    parts = list(kind.data(COUNT, rows, m))
    with common.undisturbed():
        begun = time.perf_counter()
        model = common.star(kind, parts, m)
        declared = time.perf_counter()
        compiled = model.compile()
        done = time.perf_counter()
    lowered = [sub.lowered for sub in compiled.values()]
    point = np.random.default_rng(2).uniform(0, 1 / m, m)
    off = []
    for at in range(0, COUNT, COUNT // SAMPLED):
        one = lowered[at]
        assert one is not None, f"{kind.name}: client {at} was not lowered"
        truth = value(kind, *parts[at], point)
        off.append(abs(one.form.objective(point) - truth) / truth)
    hand, best, solver = by_hand(kind, parts)
    ours = (done - declared) / COUNT
    return [
        kind.name,
        f"{m} x {rows}",
        common.times(best / ours),
        common.number(1e3 * ours),
        common.small(max(off)),
        common.number(1e3 * best),
        solver,
        common.number(1e3 * (declared - begun) / COUNT),
        common.number(1e3 * hand),
    ]


def by_hand(kind: Kind, parts: list[tuple[Array, Array]]) -> tuple[float, float, str]:
    """Seconds to declare, seconds to compile for the solver where that is fastest."""
    declared, found = [], {}
    for solver in ("OSQP", "CLARABEL", "SCS"):
        took = []
        for A, b in islice(parts, SAMPLED):
            begun = time.perf_counter()
            hand = Hand(kind, A, b)
            declared.append(time.perf_counter() - begun)
            hand.weight.value = np.ones(hand.x.size)
            hand.t.value = np.ones(hand.x.size)
            try:
                with common.undisturbed():
                    took.append(
                        common.seconds(lambda p=hand.problem, s=solver: p.get_problem_data(s))
                    )
            except cp.SolverError:
                break
        if took:
            found[solver] = common.median(took)
    best = min(found, key=lambda name: found[name])
    return common.median(declared), found[best], best


def table() -> str:
    lines = []
    by_hand(LEAST_SQUARES, list(LEAST_SQUARES.data(SAMPLED, 20, 5)))  # imports and the like
    common.star(LEAST_SQUARES, LEAST_SQUARES.data(3, 20, 5), 5).compile()
    for kind in (LEAST_SQUARES, QP, LOGISTIC):
        for m, rows in SIZES:
            common.say(f"2 compile: {kind.name}, {m} x {rows}")
            lines.append(row(kind, m, rows))
    heads = ["client", "m x N", "ratio", "ours [ms]", "ours error", "by hand [ms]", "its solver"]
    heads += ["declare ours [ms]", "declare by hand"]
    return (
        "## 2. Compile: the loop by hand over ours\n\n"
        f"Milliseconds per client. Ours: {COUNT:,} clients of one shape, `model.compile()`; by "
        f"hand: `get_problem_data` of a new DPP problem, median of {SAMPLED}, for "
        "the solver where it is fastest. The error is the relative difference of the lowered "
        "objective from numpy's.\n\n" + common.markdown(heads, lines)
    )
