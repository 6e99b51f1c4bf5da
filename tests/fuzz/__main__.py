"""Draws and judges many models: ``make fuzz``, ``FUZZ=500 SEED=7 make fuzz``.

With ``--axes`` the models cross the axes of :mod:`tests.fuzz.axes`, and a table counts the pairs.

Ends with 1 if an answer was silently wrong, a verification false, a status dishonest or an
exception not one of ours; each such model is made small and printed as a program. What units change
is told and does not count: a kink can be met a round earlier or later.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from tqdm.auto import tqdm

from tests.fuzz.axes_run import axes_main
from tests.fuzz.draw import case
from tests.fuzz.judge import Verdict, judge_seed
from tests.fuzz.metamorphic import all_units, compared, steady, table
from tests.fuzz.pool import in_batches
from tests.fuzz.shrink import shrunk
from tests.fuzz.table import frame, tables


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, help="of the first case; default a random one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shrink", type=int, default=10, help="failures of a kind made small")
    parser.add_argument("--units", type=int, default=0, help="models compared in 39 units each")
    parser.add_argument("--only", type=int, help="judge one seed, make it small, print it")
    parser.add_argument("--out", type=Path, help="write a row a case to this csv file as it comes")
    parser.add_argument("--axes", action="store_true", help="cross the axes of tests/fuzz/axes.py")
    parser.add_argument("--plant", type=int, default=0, help="axes: models with planted results")
    parser.add_argument("--same", type=int, default=0, help="axes: models compared in all units")
    given = parser.parse_args(arguments)
    if given.axes:
        return axes_main(given)
    if given.only is not None:
        return _one(given.only)
    first = secrets.randbelow(10**9) if given.seed is None else given.seed
    print(
        f"{given.count} models from seed {first}: FUZZ={given.count} SEED={first} make fuzz",
        flush=True,
    )
    seeds = range(first, first + given.count)
    found = in_batches(judge_seed, seeds, given.processes, _crashed)
    bar = tqdm(found, total=given.count, disable=None)
    verdicts = sorted(_written(bar, given.out), key=lambda one: one.seed)
    print(tables(verdicts), flush=True)
    if given.units:
        models = islice(steady(first), given.units)
        print(table([one for each in models for one in compared(each, all_units(each))]))
    failed = [one for one in verdicts if one.failed]
    for one in _few_of_each(failed, given.shrink):
        _print_small(one)
    return 1 if failed else 0


def _written(verdicts: Iterable[Verdict], out: Path | None) -> Iterator[Verdict]:
    """Write each as it comes: hours of work are not lost with the process."""
    for at, one in enumerate(verdicts):
        if out:
            frame([one]).to_csv(out, mode="a" if at else "w", header=not at, index=False)
        yield one


def _crashed(seed: int) -> Verdict:
    return Verdict(seed, "crash", "none", detail="the process died")


def _few_of_each(failed: Sequence[Verdict], most: int) -> list[Verdict]:
    """At most so many of each kind."""
    kinds: dict[tuple[str, str], list[Verdict]] = {}
    for one in failed:
        kinds.setdefault(one.kind, []).append(one)
    return [one for alike in kinds.values() for one in alike[:most]]


def _print_small(one: Verdict) -> None:
    title = f"seed {one.seed}: {one.verdict} {one.status} (AIO {one.aio}) {one.detail}"
    print(f"\n# {title}", flush=True)
    if one.verdict != "broken":
        alive = one.verdict != "crash"  # what kills a process is not run in this one
        small = shrunk(case(one.seed), one.kind) if alive else case(one.seed)
        print(small.script(), flush=True)


def _one(seed: int) -> int:
    found = judge_seed(seed)
    print(found)
    _print_small(found)
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
