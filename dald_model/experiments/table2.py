r"""The paper's Table 2 beside ours: FedProx, Fed-DALD-CC and Fed-DALD-DC on MNIST's 3 against 7."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from dald_model.datasets import Folder
from dald_model.errors import DatasetError
from dald_model.experiments.mnist_federated import (
    DC,
    EQUATION,
    METHODS,
    Figures,
    Setting,
    follow,
    images,
    over,
)
from dald_model.experiments.table2_printed import CLIENTS, ROUNDS, WEIGHTS, Cell

COLUMNS = [
    "clients",
    "lambda",
    "method",
    "iterations",
    "accuracy_mean_percent",
    "accuracy_std_1e-4",
]
"""The columns of the data that ``dald table2 --csv FILE`` writes."""

Known = dict[tuple[Setting, int], Figures]
"""Setting and round -> figures."""


def table2(
    clients: Sequence[int] = CLIENTS,
    weights: Sequence[float] = WEIGHTS,
    rounds: Sequence[int] = ROUNDS,
    divisor: str = EQUATION,
    data: Folder = None,
    jobs: int = 1,
    keep: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Run the experiment of Table 2.

    Parameters
    ----------
    clients, weights, rounds
        The cells: numbers of clients, values of lambda, and after how many rounds to measure.
    divisor
        "equation", the number of clients as in equation (31), or "paper", 785.
    data
        The folder of the files, see :mod:`dald_model.datasets`.
    jobs
        How many runs there are at a time, each in a process of its own if more than one.
    keep
        A file for the cells that were computed. Those that it has already are taken from it, so
        that a table that was interrupted goes on; those of Fed-DALD-DC hold for both divisors.
    tell
        Called with a line of progress after each run.

    Returns
    -------
    pandas.DataFrame
        One row a cell, with :data:`COLUMNS`: ours.

    Raises
    ------
    DatasetError
        If there is no MNIST, or the file ``keep`` is another one.
    DeclarationError
        If a number of clients is out of range.
    """
    images(data)  # what is missing is told before anything is begun
    known = _read(keep)
    wanted = [_setting(*one, divisor) for one in product(clients, weights, METHODS)]
    ahead = [one for one in wanted if not all((one, goal) in known for goal in rounds)]
    ahead.sort(key=lambda one: -one.clients)  # the longest first: none is left for the end
    runs = over(ahead, run, (rounds, data), jobs)
    for at, (setting, (found, seconds)) in enumerate(runs, start=1):
        _add(known, keep, {(setting, goal): one for goal, one in found.items()})
        said = ", ".join(f"{one.mean:.2f}/{one.deviation:.2f}" for one in found.values())
        tell(
            f"{at} of {len(ahead)}: n = {setting.clients}, lambda = {setting.weight:g}, "
            f"{setting.method}: {said}; {seconds:.0f} s"
        )
    cells = map(Cell._make, product(clients, weights, METHODS, sorted(rounds)))
    lines = [(*cell, *known[_setting(*cell[:3], divisor), cell.rounds]) for cell in cells]
    return pd.DataFrame(lines, columns=COLUMNS)


def _setting(clients: int, weight: float, method: str, divisor: str) -> Setting:
    """A setting; those of Fed-DALD-DC, which has no server, do not differ by the divisor."""
    return Setting(clients, weight, method, EQUATION if method == DC else divisor)


def _read(keep: Path | None) -> Known:
    if keep is None or not keep.exists():
        return {}
    table = pd.read_csv(keep)
    if list(table.columns) != [*COLUMNS, "divisor"]:
        raise DatasetError(
            f"{keep} has the columns {', '.join(table.columns)}; expected a file that an earlier "
            f"run has kept its cells in, with {', '.join([*COLUMNS, 'divisor'])}"
        )
    lines = table.itertuples(index=False, name=None)
    return {
        (Setting(n, weight, method, divisor), goal): Figures(mean, deviation)
        for n, weight, method, goal, mean, deviation, divisor in lines
    }


def _add(known: Known, keep: Path | None, found: Known) -> None:
    known |= found
    if keep is not None:
        lines = [(*one[:3], goal, *values, one.divisor) for (one, goal), values in found.items()]
        table = pd.DataFrame(lines, columns=[*COLUMNS, "divisor"])
        table.to_csv(keep, mode="a", header=not keep.exists(), index=False)


def run(setting: Setting, rounds: Sequence[int], data: Folder) -> tuple[dict[int, Figures], float]:
    """Round -> figures of one run, and its seconds."""
    begun = time.perf_counter()
    rows = images(data)
    found = follow(setting, rounds, rows, rows.accuracy)
    figures = {goal: Figures.of(values) for goal, values in found.items()}
    return figures, time.perf_counter() - begun
