"""Figures that sentences of the manual quote: ``python -m tests.benchmarks --figures``.

Each is measured anew and written to ``figures.json`` with the commit, as the text that a page has
between ``<!-- figures.json: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.panel import commit
from tests.benchmarks.panel_cases import panel
from tests.zoo import GRAPHS, PROBLEMS

FILE = Path(__file__).with_name("figures.json")
COUNTS = (20, 200, 1000)


def record() -> str:
    """Measure all, write the file, and return it."""
    with common.silent():
        found = rounds_by_curvature() | rounds_of_rules_in_common() | changes_of_penalties()
    FILE.write_text(json.dumps({"commit": commit(), "figures": found}, indent=1) + "\n")
    return FILE.read_text()


def rounds_by_curvature() -> dict[str, str]:
    """Fewest and most rounds of the gallery, and of the zoo on each graph."""
    gallery = [make() for name, make in panel().items() if name.startswith("gallery")]
    results = [model.solve(disclose="curvature") for model in [*gallery, *_zoo()]]
    rounds = [result.rounds for result in results if result.status == "optimal"]
    return {
        "rounds by curvature": f"{min(rounds)} to {max(rounds)}",
        "optimal by curvature": f"{len(rounds)} of {len(results)}",
    }


def rounds_of_rules_in_common() -> dict[str, str]:
    """Least squares with w >= 0 and a cap in common: held once by the server, or by each client."""

    def rounds(count: int, *, by_server: bool) -> str:
        data = np.random.default_rng(1).normal(size=(count, 20, 4))
        w, model = cp.Variable(4, name="w"), dm.Model("in common")
        for i in range(count):
            model.client(i, cp.sum_squares(data[i] @ w - i / count), [w >= 0, cp.sum(w) <= 1])
        if not by_server:
            model.topology("server")
        return str(model.solve().rounds)

    several = [[rounds(n, by_server=held) for n in COUNTS] for held in (True, False)]
    held, copied = (f"{', '.join(each[:-1])} and {each[-1]}" for each in several)
    return {"rounds with a rule held once": held, "rounds with a copy each": copied}


def changes_of_penalties() -> dict[str, str]:
    """The last outer loop in which a penalty changed, and what it costs that they rest earlier."""
    last: dict[Any, int] = {}
    ratios: dict[Any, list[float]] = {}
    several: list[dict[str, Any]] = [{}, {"acceleration": None}]
    for options in several:
        key, ratios[key] = len(options), []
        runs = [model.solve(**options) for model in _zoo()]
        resting = [m.solve(rho=dm.ResidualBalancing(changes=10), **options) for m in _zoo()]
        last[key] = max(_last_change(result.history) for result in runs)
        ratios[key] = [b.rounds / a.rounds for a, b in zip(runs, resting, strict=True)]
    return {
        "runs of the zoo": str(len(ratios[0])),
        "last change": str(last[0]),
        "last change without acceleration": str(last[1]),
        "runs with equal rounds": str(sum(ratio == 1 for ratio in ratios[0])),
        "resting early without acceleration": f"{geometric_mean(ratios[1]):.2f}",
        "worst of resting early without acceleration": f"{max(ratios[1]):.2g}",
    }


def _last_change(history: Any) -> int:
    has_changed = history["rho"].diff().fillna(0) != 0
    return int(history.loc[has_changed, "outer"].max()) if has_changed.any() else 0


def _zoo() -> list[dm.Model]:
    return [PROBLEMS[p]().on(GRAPHS[g]()).model for p, g in product(PROBLEMS, GRAPHS)]
