"""What must not change when a model is said otherwise, measured over many models and units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pandas as pd

from tests.fuzz.case import Case, Units
from tests.fuzz.draw import case as drawn
from tests.fuzz.judge import errors, judge, solve
from tests.fuzz.reference import reference

POWERS = range(-6, 7)
ROUNDS = 0.1
"""How much the number of rounds may change, relatively; a round more or less is nothing."""
FACTOR = 3.0
"""How much the relative gap may change."""
FLOOR = 1e-8
"""The relative gap that the reference's own accuracy leaves; below it there is nothing to tell."""


@dataclass(frozen=True)
class Same:
    """One run of a model in some units beside the run in ordinary ones."""

    seed: int
    kind: str
    units: Units
    status: str
    rounds: tuple[int, int]
    gaps: tuple[float, float]

    @property
    def is_same(self) -> bool:
        """Whether the units were without consequence."""
        if self.status != "optimal" or not np.isfinite(self.gaps).all():
            return False
        before, after = self.rounds
        least, most = sorted(max(FLOOR, abs(gap)) for gap in self.gaps)
        steady = abs(after - before) <= max(1, ROUNDS * before)
        return steady and most <= FACTOR * least


def all_units(case: Case) -> Iterator[tuple[str, Units]]:
    """The thirteen units of the objective and of the variable, and offsets to both sides."""
    for power in POWERS:
        yield "objective", Units(objective=10.0**power)
    for power in POWERS:
        yield "variable", Units(variable=10.0**power)
    if case.movable:
        for power in POWERS:
            yield "offset", Units(offset=float(np.sign(power) * 10.0 ** abs(power)))


def compared(case: Case, units: Iterable[tuple[str, Units]]) -> Iterator[Same]:
    """A model in several units, each beside itself in ordinary ones."""
    known = reference(case)
    scale = known.variation

    def run(there: Case) -> tuple[str, int, float]:
        try:
            result = solve(there)
        except Exception as error:  # told like a status: it is a consequence of the units
            return type(error).__name__, 0, np.nan
        gap = errors(there, known, result, scale)[0] if result.status.has_answer else np.nan
        return str(result.status), result.rounds, gap

    _, rounds, gap = run(case)
    for kind, each in units:
        status, after, there = run(replace(case, units=each))
        yield Same(case.seed, kind, each, status, (rounds, after), (gap, there))


def plain(seed: int) -> Case:
    """The case of a seed in ordinary units, minimised without options."""
    return replace(drawn(seed).ordinary, options=(), maximises=False)


def steady(seed: int) -> Iterator[Case]:
    """The models from this seed on whose optimum a run finds in ordinary units."""
    for at in count(seed):
        case = plain(at)
        if reference(case).status == "optimal" and judge(case).verdict == "right":
            yield case


def table(found: list[Same]) -> str:
    """By kind of units: how many runs are the same, and how the others differ."""
    rows = pd.DataFrame(
        {
            "units": one.kind,
            "same": one.is_same,
            "optimal": one.status == "optimal",
            "rounds": one.rounds[1] / max(1, one.rounds[0]),
            "gap": max(FLOOR, abs(one.gaps[1])) / max(FLOOR, abs(one.gaps[0])),
        }
        for one in found
    )
    spans = rows.groupby("units").agg(
        same=("same", "mean"),
        optimal=("optimal", "mean"),
        fewest_rounds=("rounds", "min"),
        most_rounds=("rounds", "max"),
        least_gap=("gap", "min"),
        largest_gap=("gap", "max"),
    )
    return f"in other units, beside ordinary ones\n{spans.to_string()}"
