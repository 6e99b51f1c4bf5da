"""Figures of the manual that are made from tracked results.

A page holds each table between ``<!-- NAME -->`` and ``<!-- end -->``. ``python -m
tests.manual.numbers`` writes them anew; ``test_numbers.py`` compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import median

from tests.paths import MANUAL, ROOT

GROUPS = {
    "gallery": "gallery",
    "zoo": "atoms and cones of cvxpy, three clients",
    "absolute": "20 owners, absolute loss",
    "hinge": "20 owners, hinge loss",
    "huber": "20 owners, Huber loss",
    "simplex": "20 owners on a simplex",
    "linear program": "20 owners, linear programs",
    "cone": "20 owners, second-order cones",
    "coupling": "couplings",
    "table 1": "Table 1 of the paper: five data sets, server and chain, raw and standardised",
    "classes": "133 school classes, raw columns, chain",
    "network lasso of logistic districts": "network lasso of logistic districts",
    "owners": "real owners: schools, regions, adults",
    "units": "one model in twelve systems of units",
}
"""The first words of a model's name, and what the manual calls its kind."""


def rounds_of_the_panel() -> str:
    """Least, median and most rounds for each kind of model, and how many ended optimal."""
    recorded = json.loads((ROOT / "tests" / "benchmarks" / "rounds.json").read_text())
    lines = [
        f"Commit {recorded['commit']}.",
        "",
        "| models | number | optimal | rounds: least | median | most |",
        "|---|---|---|---|---|---|",
    ]
    for kind, several in groupby(recorded["models"].items(), lambda one: _kind(one[0])):
        found = [one for _, one in several]
        ended = [one["rounds"] for one in found if one["status"] == "optimal"]
        rounds = [min(ended), f"{median(ended):g}", max(ended)] if ended else ["-"] * 3
        cells = [GROUPS[kind], len(found), len(ended), *rounds]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _kind(name: str) -> str:
    return next(kind for kind in GROUPS if name.startswith(kind))


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "rounds of the panel": (MANUAL / "rounds.md", rounds_of_the_panel),
}


def between(name: str) -> re.Pattern[str]:
    """What stands between the two marks of a table."""
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def main() -> None:
    for name, (page, made) in TABLES.items():
        text = page.read_text()
        place = between(name).search(text)
        assert place is not None, f"{page.name} has no mark for {name}"
        start, end = place.span()
        page.write_text(f"{text[:start]}<!-- {name} -->\n{made()}\n<!-- end -->{text[end:]}")


if __name__ == "__main__":
    main()
