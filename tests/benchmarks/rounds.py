"""Table 4: rounds with the default penalty against the best of a grid of fixed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dald_model as dm
from dald_model.datasets import load
from dald_model.errors import DatasetError
from dald_model.experiments import table1
from dald_model.models.linear_regression import consensus_regression
from tests.benchmarks import common
from tests.benchmarks.common import LOGISTIC, QP, Kind
from tests.benchmarks.whole import Case, reference

FACTORS = 10.0 ** np.linspace(-2, 2, 13)
MOST = 1000


class Task(NamedTuple):
    name: str
    make: Callable[[], dm.Model]
    best: float
    """The optimal value."""


def tasks() -> tuple[list[Task], list[str]]:
    """The tasks, and the data sets that could not be loaded."""
    found, missing = [], []
    for name in table1.PAPER:
        try:
            rows = load(name).standardised()
        except DatasetError:
            missing.append(name)
            continue
        parts = {f"node {at + 1}": part for at, part in enumerate(rows.split(3, table1.SEED))}
        A = np.column_stack([np.ones(len(rows.target)), rows.features])
        best = float(((A @ np.linalg.lstsq(A, rows.target)[0] - rows.target) ** 2).sum())
        for chain in (True, False):
            title = f"{rows.title}, {'chain' if chain else 'star'} of 3"
            found.append(
                Task(title, lambda p=parts, c=chain: consensus_regression(p, chain=c), best)
            )
    found += [
        _task(kind, n, m, N)
        for kind, n, m, N in ((QP, 10, 50, 200), (QP, 100, 50, 200), (LOGISTIC, 10, 20, 200))
    ]
    return found, missing


def _task(kind: Kind, count: int, m: int, rows: int) -> Task:
    case = Case(kind, count, m, rows, 0.0)
    return Task(
        f"{case.title}, star",
        lambda: common.star(kind, kind.data(count, rows, m), m),
        reference(case),
    )


class Run(NamedTuple):
    rounds: int
    gap: float
    seconds: float


def row(task: Task) -> list[str]:
    model = task.make()
    compiled = model.compile()

    def run(rho: object, most: int) -> Run | None:
        result = model.solve(rho=rho, max_rounds=most)
        if str(result.status) != "optimal":
            return None
        return Run(result.rounds, abs(result.value / task.best - 1), result.seconds)

    first = run(None, MOST)
    start = dm.ResidualBalancing().init(compiled)
    best: Run | None = None
    at = ""
    grid = [(f, base) for base in ("curvature", "1") for f in FACTORS]
    for factor, base in sorted(grid, key=lambda one: abs(np.log(one[0]))):
        # What takes longer than the best so far is not the best.
        most = best.rounds - 1 if best else MOST
        found = run(factor * (start if base == "curvature" else 1.0), most) if most else None
        if found:
            best, at = found, f"{factor:.3g} x {base}"
    ratio = first.rounds / best.rounds if first and best else None
    return [
        task.name,
        common.number(ratio),
        str(first.rounds) if first else f"> {MOST}",
        common.small(first and first.gap),
        str(best.rounds) if best else f"> {MOST}",
        common.small(best and best.gap),
        at or "-",
        common.number(first and 1e3 * first.seconds),
        common.number(best and 1e3 * best.seconds),
    ]


def table() -> str:
    common.say("4 rounds: data sets and reference answers")
    todo, missing = tasks()
    lines = []
    for task in todo:
        common.say(f"4 rounds: {task.name}")
        lines.append(row(task))
    heads = ["problem", "default / best", "rounds, default", "its gap", "rounds, best of grid"]
    heads += ["its gap", "best fixed rho", "default [ms]", "best [ms]"]
    left_out = f" Not found: {', '.join(missing)}." if missing else ""
    return (
        "## 4. Rounds: the default penalty over the best fixed one\n\n"
        f"Until the default tolerances of 1e-6 are met, at most {MOST:,}. The grid: {FACTORS.size} "
        "factors from 0.01 to 100 around 1, and around the default's own start, entry by entry. "
        f"Gap: of the value, relative to the optimum of the pooled data.{left_out}\n\n"
        + common.markdown(heads, lines)
    )
