"""``python -m tests.fuzz --axes``: the crossed axes, planted results, and other units."""

from __future__ import annotations

import argparse
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd
from tqdm.auto import tqdm

from tests.fuzz.axes import BLOCK, point
from tests.fuzz.axes_judge import AxesVerdict, judge_axes
from tests.fuzz.axes_table import axes_tables
from tests.fuzz.planted import missed
from tests.fuzz.pool import in_batches
from tests.fuzz.same import beside, same_table


def axes_main(given: argparse.Namespace) -> int:
    """Judge, plant and compare; 1 if anything happened that never may."""
    if given.only is not None:
        found = judge_axes(given.only)
        print(found)
        return 1 if found.failed else 0
    first = secrets.randbelow(10**6) * BLOCK if given.seed is None else given.seed
    seeds = range(first, first + given.count)
    print(f"{given.count} models from seed {first}, all pairs in each {BLOCK}", flush=True)
    found = in_batches(judge_axes, seeds, given.processes, _crashed)
    verdicts = list(_written(tqdm(found, total=given.count, disable=None), given.out))
    if verdicts:
        print(axes_tables(sorted(verdicts, key=lambda one: one.seed)), flush=True)
    failed = any(one.failed for one in verdicts)
    if given.plant:
        some = range(first, first + given.plant)
        counts = sum(in_batches(missed, some, given.processes, _no_counts), Counter())
        print(planted_table(counts), flush=True)
        failed |= any(key[2] == "passed" for key in counts)
    if given.same:
        some = range(first, first + given.same)
        models = in_batches(beside, some, given.processes, lambda _: [])
        print(same_table([one for model in models for one in model]))
    return 1 if failed else 0


def planted_table(counts: Counter[tuple[str, str, str]]) -> str:
    """What was planted, and what each witness said of it."""
    if not counts:
        return "planted: nothing, no honest result was right"
    series = pd.Series(dict(counts))
    return f"planted results\n{series.unstack([1, 2], fill_value=0).sort_index(axis=1).to_string()}"


def _written(verdicts: Iterable[AxesVerdict], out: object) -> Iterator[AxesVerdict]:
    """Write each as it comes: hours of work are not lost with the process."""
    for at, one in enumerate(verdicts):
        if out:
            row = pd.DataFrame([one.flat()])
            row.to_csv(str(out), mode="a" if at else "w", header=not at, index=False)
        yield one


def _crashed(seed: int) -> AxesVerdict:
    return AxesVerdict(seed, point(seed), "crash", detail="the process died")


def _no_counts(_: int) -> Counter[tuple[str, str, str]]:
    return Counter()
