"""The benchmarks' tables as markdown: ``make bench``, ``python -m tests.benchmarks --only 2 3``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.benchmarks import (
    absent,
    acceleration,
    common,
    compile_time,
    couplings,
    curvature,
    engines,
    figures,
    first,
    many,
    owners,
    panel,
    paths,
    real,
    rounds,
    whole,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    tables = [2, 3, 4, *range(7, 13), 15, 16, 17, 20, 21]
    parser.add_argument("--only", type=int, nargs="+", choices=tables, metavar="TABLE")
    parser.add_argument("--full", action="store_true", help="with what takes many minutes")
    parser.add_argument("--panel", nargs="*", metavar="WORD", help="the frozen panel, by words")
    parser.add_argument("--freeze", action="store_true", help="write the panel's file")
    parser.add_argument("--record", action="store_true", help="write the rounds that are quoted")
    parser.add_argument("--figures", action="store_true", help="write those of sentences")
    parser.add_argument("--out", type=Path, help="write the markdown to this file too")
    given = parser.parse_args(arguments)
    if given.panel is not None:
        print(panel.report(given.panel, freeze=given.freeze, record=given.record))
        return 0
    if given.figures:
        print(figures.record())
        return 0
    full = given.full or os.environ.get("FULL") == "1"
    makers = {
        2: compile_time.table,
        3: lambda: whole.table(full),
        4: rounds.table,
        7: lambda: real.table(full),
        8: couplings.table,
        9: acceleration.table,
        10: paths.table,
        11: absent.table,
        15: engines.table,
        16: lambda: many.table(full),
        17: owners.table,
        20: lambda: curvature.table(full),
        21: first.table,
    }
    parts = ["# Benchmarks", common.header()]
    print("\n\n".join(parts), flush=True)
    for at in given.only or makers:
        begun = time.perf_counter()
        parts.append(makers[at]())
        print("\n" + parts[-1], flush=True)
        common.say(f"table {at}: {time.perf_counter() - begun:.0f} s")
    if given.out:
        given.out.write_text("\n\n".join(parts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
