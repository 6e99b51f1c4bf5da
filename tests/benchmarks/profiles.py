"""Table 14: performance profiles over models, of accelerations and of penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dald_model as dm
from dald_model.errors import OptionError
from tests.benchmarks import acceleration, common
from tests.zoo import GRAPHS, PROBLEMS

MOST, SEED = 500, 11
"""The models are drawn with another seed than those that constants were chosen on."""
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
FACTORS = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0)

Way = Callable[[dm.Model], dict[str, Any]]


def _natural(model: dm.Model) -> np.ndarray:
    return dm.ResidualBalancing().init(model.compile())


WAYS: dict[str, Way] = {
    "default": lambda model: {},
    "default, penalty at rest": lambda model: {"rho": _natural(model)},
    "Anderson": lambda model: {"acceleration": dm.Anderson()},
    "secant": lambda model: {"acceleration": dm.Secant()},
    "plain": lambda model: {"acceleration": None},
    "plain, penalty at rest": lambda model: {"acceleration": None, "rho": _natural(model)},
    "textbook ADMM, rho 1": lambda model: {
        "acceleration": None,
        "rho": 1.0,
        "stopping": dm.FixedBudget(v_max=1),
    },
}


def cases() -> Iterator[acceleration.Case]:
    for name, build in PROBLEMS.items():
        for graph, drawn in GRAPHS.items():
            make = lambda b=build, g=drawn: b().on(g()).model  # noqa: E731 - one line of a loop
            yield acceleration.Case(f"{name}, {graph}", make)
    yield from acceleration.cases(SEED)


def rounds(model: dm.Model, **options: Any) -> int:
    """Until optimal; MOST where it is not."""
    try:
        result = model.solve(max_rounds=MOST, **options)
    except OptionError:  # secant models have a largest size
        return MOST
    return result.rounds if result.status == "optimal" else MOST


def best_of_grid(model: dm.Model) -> int:
    """Of plain runs with a fixed penalty: the natural one times each factor."""
    natural, best = _natural(model), MOST
    for factor in GRID:
        options = {"rho": factor * natural, "acceleration": None, "max_rounds": best}
        result = model.solve(**options)
        best = result.rounds if result.status == "optimal" else best
    return best


def row(case: acceleration.Case) -> list[int]:
    common.say(f"14 profiles: {case.name}")
    found = [rounds(case.make(), **way(case.make())) for way in WAYS.values()]
    return [*found, best_of_grid(case.make())]


def table() -> str:
    return shown(np.array([row(case) for case in cases()], float))


def shown(found: np.ndarray) -> str:
    """The rounds of all models (rows) by all ways as a table."""
    names = [*WAYS, "plain, best fixed penalty of a grid"]
    best = found.min(axis=1, keepdims=True)
    lines = []
    for name, mine in zip(names, found.T, strict=True):
        done = mine < MOST
        share = [f"{(done & (mine <= f * best[:, 0])).mean():.0%}" for f in FACTORS]
        ratio = np.exp(np.log(mine / found[:, 0]).mean())
        lines.append([name, *share, f"{(~done).sum()}", f"{ratio:.2g}"])
    heads = ["", *(f"within {f:g}x" for f in FACTORS), "without answer", "rounds over the default"]
    return (
        "## 14. Performance profiles of rounds\n\n"
        f"{len(found)} models: the zoo of the tests on {len(GRAPHS)} graphs, and the models of "
        f"table 9 drawn with another seed than constants were chosen on. Share of the models that "
        f"are solved within so many times the rounds of the best of all ways (Dolan and More "
        f"2002); at most {MOST} rounds, which also count where there is no answer. The grid is "
        f"{', '.join(f'{f:g}' for f in GRID)} times the natural penalty. Rounds over the default: "
        "geometric mean.\n\n" + common.markdown(heads, lines)
    )
