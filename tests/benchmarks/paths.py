"""Table 10: a whole path of solves with other Parameters, against solves of each anew."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dald_model as dm
from tests.benchmarks import common, held_paths
from tests.front.resolving import (
    Resolving,
    predictive_control,
    regularisation_path,
    rolling_budget,
)
from tests.paths import DATA

MAKERS: dict[str, Callable[[], Resolving]] = {
    "lasso, 10 clients": regularisation_path,
    "lasso, 50 clients": lambda: regularisation_path(clients=50),
    "ridge, 10 clients": lambda: regularisation_path("ridge"),
    "logistic, 10 clients": lambda: regularisation_path("logistic"),
    "tanks, 5 clients": lambda: predictive_control(steps=50),
    "tanks, 5 clients, twice as far": predictive_control,
    "budget, 12 clients": rolling_budget,
}
COLD = 9
"""Steps of a path that are also solved anew, in between."""


class Path(NamedTuple):
    """Seconds, the rounds of each step, and the largest difference of a value from the AIO's."""

    seconds: float
    rounds: list[int]
    error: float


class Cold(NamedTuple):
    """Medians of what a solve of a step by itself takes.

    Attributes
    ----------
    declared, solved, compiled : float
        Seconds from the declaration on, which is what a user pays for it; from the declared model
        on; and of a compiled model.
    rounds : float
    """

    declared: float
    solved: float
    compiled: float
    rounds: float


def along(make: Callable[[], Resolving], disclose: str | None = None) -> tuple[Path, float, Cold]:
    """The path, the AIO's DPP re-solves, and cold solves of some steps."""
    given = make()
    result: dm.Result | None = None
    took, central, errors, rounds = 0.0, 0.0, [], []
    cold: list[tuple[float, ...]] = []
    chosen = set(np.linspace(0, given.steps - 1, COLD).round().astype(int).tolist())
    for at in range(given.steps):
        given.step(at)
        if at in chosen:
            clock = [time.process_time()]
            fresh = make()
            clock.append(time.process_time())
            for mine, its in zip(fresh.parameters, given.parameters, strict=True):
                mine.value = its.value
            clock.append(time.process_time())
            anew = fresh.model.solve(disclose=disclose)
            clock.append(time.process_time())
            fresh.model.solve(disclose=disclose)  # which is compiled by now
            clock.append(time.process_time())
            declared, first, again = clock[1] - clock[0], clock[3] - clock[2], clock[4] - clock[3]
            cold.append((declared + first, first, again, anew.rounds))
        begun = time.process_time()
        result = given.model.solve(start=result, disclose=disclose)
        took += time.process_time() - begun
        assert result.status == "optimal"
        rounds.append(result.rounds)
        # What the next step is chosen by are the values of the path
        points = [(one, one.value) for one in given.problem.variables()]
        begun = time.process_time()
        given.problem.solve(solver="CLARABEL")
        central += time.process_time() - begun
        value = float(np.real(np.asarray(given.problem.value)))
        errors.append(abs(result.value - value) / max(abs(value), 1e-3))
        for one, point in points:
            one.value = point
    return Path(took, rounds, max(errors)), central, Cold(*np.median(cold, axis=0).tolist())


def row(name: str, make: Callable[[], Resolving], disclose: str | None = None) -> list[str]:
    common.say(f"10 paths: {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Clarabel, on logistic losses
        path, central, cold = along(make, disclose)
    count = len(path.rounds)
    return [
        f"{name}, {count} steps",
        *(common.number(path.seconds / one) for one in cold[:3]),
        common.number(path.seconds / central),
        f"{np.mean(path.rounds[1:]):.1f} ({max(path.rounds[1:])})",
        common.number(cold.rounds),
        common.number(1e3 * path.seconds / count),
        common.number(1e3 * cold.declared),
        common.number(1e3 * central / count),
        common.small(path.error),
    ]


def table() -> str:
    row("ridge, 10 clients", MAKERS["ridge, 10 clients"])  # imports and the like
    heads = ["path", "in cold solves", "declared before", "compiled before"]
    heads += ["over the AIO's", "rounds (worst)"]
    heads += ["cold rounds", "a step [ms]", "cold [ms]", "AIO [ms]", "worst gap"]
    held = {
        name: make
        for name, make in held_paths.MAKERS.items()
        if (DATA / "clients").is_dir() or name not in held_paths.REAL
    }
    return (
        "## 10. A path of solves with other Parameters\n\n"
        "Every step goes on from the result before, `model.solve(start=result)`. In cold solves: "
        "the whole path, its first step included, in units of what a user pays for one step alone, "
        f"who declares, compiles and solves a new model (median of {COLD} steps, in between those "
        "of the path); and the same where the model was declared before, or compiled. AIO: the "
        "all-in-one problem re-solved by cvxpy with DPP Parameters and Clarabel, its compilation "
        "in the first step included; after each step. Seconds of one processor. Gap: of the value, "
        "relative to the AIO's where that is above 0.001, the worst of all steps.\n\n"
        + common.markdown(heads, [row(*pair) for pair in MAKERS.items()])
        + "\n\nHeld out: nothing was chosen on these.\n\n"
        + common.markdown(heads, [row(*pair) for pair in held.items()])
        + '\n\nBy curvature, `disclose="curvature"`:\n\n'
        + common.markdown(heads, [row(*pair, "curvature") for pair in (MAKERS | held).items()])
    )
