"""Solves drawn models and prints, by family, what was right, wrong and accepted.

Ends with 1 if a wrong answer is "optimal" or passes the certificate or ``verify``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import pandas as pd

from tests.answer.families import FAMILIES, Drawn, drawn, redrawn
from tests.fuzz.judge import TimeoutReached, limited

SECONDS = 120
"""Work per model; ordinary ones take less than one second."""
COLUMNS = (
    "drawn",
    "optimal",
    "optimal, right",
    "optimal, WRONG",
    "certified, WRONG",
    "verified, WRONG",
    "right, certificate refused",
    "right, certificate unproved",
    "right, verify refused",
    "right, verify unproved",
    "wrong, not optimal",
    "borderline",
    "errors",
)


@dataclass(frozen=True)
class Outcome:
    """What came of a model: the columns it counts in, and what was seen."""

    family: str
    kind: str
    seed: int
    columns: tuple[str, ...]
    detail: str

    @property
    def accepts_wrong(self) -> bool:
        """Whether a wrong answer was accepted anywhere."""
        return any("WRONG" in one for one in self.columns)

    def __str__(self) -> str:
        return f"{self.family}, {self.kind}, seed {self.seed}: {self.detail}"


def outcome(family: str, seed: int, disclose: str = "answers") -> Outcome:
    """Draw a model again, solve it and ask both witnesses; nothing that it raises ends the run."""
    model = redrawn(family, seed)
    if model is None:
        return Outcome(family, "", seed, ("drawn", "errors"), "not drawn twice")
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return judged(model, model.build().solve(disclose=disclose))
    except TimeoutReached:
        text = f"more than {SECONDS} s"
    except BaseException as error:  # a panic of Clarabel's is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        text = f"{type(error).__name__}: {error}"
    return Outcome(family, model.kind, seed, ("drawn", "errors"), text)


def judged(model: Drawn, result: Any) -> Outcome:
    """The columns of a result."""
    label = model.label(result)
    checks = {"certificate": result.certificate(), "verify": result.verify()}
    has_answer = bool(result.status.has_answer)
    claimed = result.status in ("optimal", "certified")
    columns = ["drawn"]
    if claimed:
        columns.append("optimal")
        columns += {"right": ["optimal, right"], "wrong": ["optimal, WRONG"]}.get(label, [])
    elif label == "wrong":
        columns.append("wrong, not optimal")
    if label == "borderline":
        columns.append(label)
    for name, check in checks.items():
        is_unproved = getattr(check, "outcome", None) == "cannot be judged"
        if check.ok and label == "wrong":
            columns.append({"certificate": "certified, WRONG", "verify": "verified, WRONG"}[name])
        if not check.ok and label == "right" and has_answer:
            columns.append(f"right, {name} {'unproved' if is_unproved else 'refused'}")
    said = ", ".join(f"{name} {check.ok}" for name, check in checks.items())
    detail = (
        f"{result.status}, {result.rounds} rounds, {label}, value {result.value:.8g} for "
        f"{model.optimum:.8g}, scale {model.truth.scale:.2g}, {said}"
    )
    return Outcome(model.family, model.kind, model.seed, tuple(columns), detail)


def table(outcomes: Iterable[Outcome]) -> str:
    """Counts by family, and of all."""
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        for family in (one.family, "all"):
            counts.setdefault(family, Counter()).update(one.columns)
    last = counts.pop("all", Counter())
    rows = {**counts, "all": last}
    frame = pd.DataFrame({f: {c: n[c] for c in COLUMNS} for f, n in rows.items()}, COLUMNS)
    return frame.to_string()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.answer.families", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--disclose", choices=("answers", "curvature"), default="answers")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), default=[])
    parser.add_argument("--only", type=int, help="the seed of one model of one --family")
    parser.add_argument("--all", action="store_true", help="print a line for each model")
    given = parser.parse_args(arguments)
    if given.only is not None:
        print(outcome(given.family[0], given.only, given.disclose))
        return 0
    models = drawn(given.count, given.seed, tuple(given.family))
    jobs = [(one.family, one.seed, given.disclose) for one in models]
    outcomes = []
    for one in _solved(jobs, given.processes):
        outcomes.append(one)
        if given.all:
            print(one, flush=True)
    print(table(outcomes))
    for title, word in (
        ("wrong and accepted", "WRONG"),
        ("right and refused", "refused"),
        ("errors", "errors"),
    ):
        chosen = [one for one in outcomes if any(word in column for column in one.columns)]
        print(f"\n{title}: {len(chosen)}", *chosen, sep="\n  ")
    return 1 if any(one.accepts_wrong for one in outcomes) else 0


def _solved(jobs: list[tuple[str, int, str]], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from (outcome(*job) for job in jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_starred, jobs)


def _starred(job: tuple[str, int, str]) -> Outcome:
    return outcome(*job)


if __name__ == "__main__":
    sys.exit(main())
