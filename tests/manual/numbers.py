"""Figures of the manual that are made from tracked results.

A page holds each table between ``<!-- NAME -->`` and ``<!-- end -->``, and a figure in a sentence
between ``<!-- figures.json: NAME -->`` and ``<!-- end -->``. ``python -m tests.manual.numbers``
writes them anew; ``test_numbers.py`` compares.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.peers.tasks import tasks
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


TASKS = {
    "least_squares": "Constrained least squares",
    "logistic": "Logistic regression of unequal owners with an l1 norm",
    "market": "A market",
    "network_lasso": "Network lasso",
}
"""Headings of the comparison's tasks."""
YARDSTICK = "cvxpy, Clarabel"
"""The peer whose processor time is 1 on each task."""


def peers() -> str:
    """Every task with every peer's rounds, processor time, lines, error and own words."""
    recorded = json.loads((ROOT / "tests" / "benchmarks" / "peers.json").read_text())
    lines = [f"Commit {recorded['commit']}; {recorded['machine']}."]
    rows = [row for peer in recorded["peers"].values() for row in peer["rows"]]
    for name, title in TASKS.items():
        task = tasks()[name]
        known = recorded["references_apart"][name]
        lines += ["", f"### {title}", "", f"{inspect.cleandoc(type(task).__doc__ or '')}", ""]
        lines += [f"Distance between the solutions of two methods: {_power(known)}.", ""]
        lines += ["| | rounds | CPU | lines | error in x | in value | violation | it says |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        several = [row for row in rows if row["task"] == name]
        unit = next(row["units"] for row in several if row["peer"] == YARDSTICK)
        for row in sorted(several, key=lambda one: one.get("units", float("inf"))):
            lines.append(f"| {' | '.join(_cells(row, unit))} |")
    lines += ["", "### Versions, and what did not run", ""]
    for name, peer in recorded["peers"].items():
        versions = ", ".join(peer["requires"]).replace("==", " ")
        reason = f"; {peer['failed']}" if "failed" in peer else ""
        lines.append(f"* `{name}.py` at commit {peer['commit']}: {versions}{reason}")
    return "\n".join(lines)


def _cells(row: dict[str, Any], unit: float) -> list[str]:
    if "failed" in row:
        return [row["peer"], *["-"] * 6, row["failed"]]
    errors = [_power(row[key]) for key in ("error", "value", "violation")]
    ratio = f"{row['units'] / unit:.2g}"
    ratio = f"{float(ratio):.0f}" if float(ratio) >= 10 else ratio
    return [row["peer"], str(row["rounds"] or "-"), ratio, str(row["lines"]), *errors, row["said"]]


def _power(number: float) -> str:
    """As 2e-5; the references are not known to better than 1e-9."""
    if abs(number) < 1e-9:
        return "< 1e-9" if number else "0"
    return re.sub(r"e([-+])0", r"e\1", f"{number:.0e}")


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "rounds of the panel": (MANUAL / "rounds.md", rounds_of_the_panel),
    "peers": (MANUAL / "comparison.md", peers),
}


FIGURE = re.compile(r"(<!-- figures\.json: ([\w ]+) -->)(.*?)(<!-- end -->)", flags=re.DOTALL)


def with_figures(text: str) -> str:
    """The text of a page with its figures as they were measured last."""
    recorded = json.loads((ROOT / "tests" / "benchmarks" / "figures.json").read_text())["figures"]
    return FIGURE.sub(lambda found: f"{found[1]}{recorded[found[2]]}{found[4]}", text)


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
    for page in MANUAL.glob("*.md"):
        page.write_text(with_figures(page.read_text()))


if __name__ == "__main__":
    main()
