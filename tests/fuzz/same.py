"""The same natural model in other units per owner and per entry: the verdict must not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from tests.fuzz.axes import AXES, allowed, point
from tests.fuzz.axes_judge import AxesVerdict, judge_row
from tests.fuzz.pairs import Row, pairs_of

PLAIN = {
    "owner unit": "same",
    "entry unit": "same",
    "condition": "1",
    "option": "default",
    "entry point": "solve",
}
"""The natural coordinates: whatever differs from them is a change of variables."""
MOVES = {
    "owner unit": ("variables 1e3", "variables 1e6"),
    "entry unit": AXES["entry unit"][1:],
}
"""Axis -> choices that keep the problem; weights, spreads and constants make it another one."""


@dataclass(frozen=True)
class Beside:
    """One model in natural and in other units."""

    axis: str
    choice: str
    before: AxesVerdict
    after: AxesVerdict

    @property
    def is_same(self) -> bool:
        """Whether status, label and both witnesses say the same."""
        seen = [(v.status, v.label, v.certificate, v.verify) for v in (self.before, self.after)]
        return seen[0] == seen[1]

    def __str__(self) -> str:
        said = [
            f"{v.status}, {v.label}, certificate {v.certificate}, verify {v.verify}"
            for v in (self.before, self.after)
        ]
        return f"seed {self.after.seed}, {self.axis} {self.choice}: {said[0]}; then {said[1]}"


def beside(seed: int) -> list[Beside]:
    """The model of a seed in all units that its graph allows; none if it is not right as it is."""
    row = {**point(seed), **PLAIN}
    before = judge_row(row, seed)
    if before.verdict != "right":
        return []
    return [Beside(axis, other[axis], before, judge_row(other, seed)) for axis, other in moved(row)]


def moved(row: Row) -> Iterator[tuple[str, Row]]:
    """The allowed rows that differ in one unit."""
    for axis, choices in MOVES.items():
        for choice in choices:
            other = {**row, axis: choice}
            if all(map(allowed, pairs_of(other))):
                yield axis, other


def same_table(found: list[Beside]) -> str:
    """By choice: how many verdicts are the same, and all that are not."""
    rows = pd.DataFrame(
        [{"axis": one.axis, "choice": one.choice, "same": one.is_same} for one in found],
        columns=["axis", "choice", "same"],
    )
    counted = rows.groupby(["axis", "choice"]).same.agg(["sum", "count"])
    other = [f"  {one}" for one in found if not one.is_same]
    return "\n".join(["the same model in other units", counted.to_string(), *other])
