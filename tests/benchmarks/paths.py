"""Table 10: a whole path of solves with other Parameters, against solves of each anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dald_model as dm
from tests.benchmarks import common
from tests.front.resolving import (
    Resolving,
    predictive_control,
    regularisation_path,
    rolling_budget,
)

MAKERS: dict[str, Callable[[], Resolving]] = {
    "lasso, 10 clients": regularisation_path,
    "lasso, 50 clients": lambda: regularisation_path(clients=50),
    "ridge, 10 clients": lambda: regularisation_path("ridge"),
    "logistic, 10 clients": lambda: regularisation_path("logistic"),
    "tanks, 5 clients": predictive_control,
    "budget, 12 clients": rolling_budget,
}
COLD = 5
"""Steps of a path that are also solved anew."""


class Path(NamedTuple):
    """Seconds, the rounds of each step, and the largest difference of a value from the AIO's."""

    seconds: float
    rounds: list[int]
    error: float


class Cold(NamedTuple):
    """Mean seconds of a solve of a step by itself, and its rounds.

    Attributes
    ----------
    declared, solved, compiled : float
        From the declaration on, from the declared model on, and of a compiled model.
    rounds : int
    """

    declared: float
    solved: float
    compiled: float
    rounds: int


def along(make: Callable[[], Resolving]) -> tuple[Path, float, Cold]:
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
            values = [parameter.value for parameter in given.problem.parameters()]
            for parameter, value in zip(fresh.problem.parameters(), values, strict=True):
                parameter.value = value
            clock.append(time.process_time())
            anew = fresh.model.solve()
            clock.append(time.process_time())
            fresh.model.solve()  # which is compiled by now
            clock.append(time.process_time())
            declared, first, again = clock[1] - clock[0], clock[3] - clock[2], clock[4] - clock[3]
            cold.append((declared + first, first, again, anew.rounds))
        begun = time.process_time()
        given.problem.solve(solver="CLARABEL")
        central += time.process_time() - begun
        value = float(np.real(np.asarray(given.problem.value)))
        begun = time.process_time()
        result = given.model.solve(start=result)
        took += time.process_time() - begun
        assert result.status == "optimal"
        rounds.append(result.rounds)
        errors.append(abs(result.value - value) / abs(value))
    declared, solved, compiled, alone = np.mean(cold, axis=0).tolist()
    return Path(took, rounds, max(errors)), central, Cold(declared, solved, compiled, round(alone))


def row(name: str) -> list[str]:
    common.say(f"10 paths: {name}")
    path, central, cold = along(MAKERS[name])
    count = len(path.rounds)
    return [
        f"{name}, {count} steps",
        *(common.number(path.seconds / one) for one in cold[:3]),
        common.number(path.seconds / central),
        f"{np.mean(path.rounds[1:]):.1f} ({max(path.rounds[1:])})",
        str(cold.rounds),
        common.number(1e3 * path.seconds / count),
        common.number(1e3 * cold.solved),
        common.number(1e3 * central / count),
        common.small(path.error),
    ]


def table() -> str:
    row("ridge, 10 clients")  # imports and the like
    heads = ["path", "in cold solves, declared anew", "compiled anew", "without start"]
    heads += ["over the AIO's", "rounds (worst)"]
    heads += ["cold rounds", "a step [ms]", "cold [ms]", "AIO [ms]", "worst gap"]
    return (
        "## 10. A path of solves with other Parameters\n\n"
        "Every step goes on from the result before, `model.solve(start=result)`. The first three: "
        f"the whole path in units of a cold solve (mean of {COLD} steps), which declares a new "
        "model, its data and the AIO's objective, compiles and solves it; which compiles and "
        "solves it; and which solves the compiled model without a start. AIO: the all-in-one "
        "problem re-solved by cvxpy with DPP Parameters and Clarabel, its compilation in the first "
        "step included. "
        "Seconds of one processor. Gap: of the value, relative to the AIO's, the worst of all "
        "steps.\n\n" + common.markdown(heads, [row(name) for name in MAKERS])
    )
