"""The command: ``dald demo``, ``dald table1`` and ``dald solve FILE``.

Exit codes: 0 all is well; 1 an answer failed its check, or a data set was missing; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np

from dald_model import __version__
from dald_model.datasets import Dataset, load
from dald_model.errors import DaldError
from dald_model.model import Model
from dald_model.models.linear_regression import consensus_regression
from dald_model.result import Result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return given.run(given)
    except (DaldError, UsageError) as error:
        print(f"dald: error: {error}", file=sys.stderr)
        return 2


class UsageError(Exception):
    """The command was given something that it cannot work with."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dald",
        description="Solve problems with many owners by distributed augmented-Lagrangian "
        "decomposition, and verify the answer against the all-in-one solve.",
    )
    parser.add_argument("--version", action="version", version=f"dald_model {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    demo = commands.add_parser("demo", help="solve one problem on real data, in words; offline")
    demo.set_defaults(run=_demo)

    table = commands.add_parser("table1", help="the paper's Table 1 beside ours; a minute or two")
    table.add_argument(
        "--data",
        metavar="DIR",
        help="folder of the data files (default: the environment variable DALD_DATA; without "
        "that scikit-learn downloads what it can)",
    )
    table.add_argument("--csv", metavar="FILE", type=Path, help="also write the figures as data")
    table.set_defaults(run=_table1)

    solve = commands.add_parser("solve", help="solve the `model` that a Python file defines")
    solve.add_argument("file", metavar="FILE", type=Path, help="a file that defines `model`")
    solve.add_argument("--max-rounds", metavar="N", type=int, default=1000, help="default: 1000")
    solve.add_argument(
        "--solver",
        metavar="NAME",
        help="who solves the clients: auto, or a name from dald_model.solvers.NAMED or cvxpy",
    )
    solve.add_argument("--verbose", action="store_true", help="show progress")
    solve.set_defaults(run=_solve)
    return parser


def _solve(given: argparse.Namespace) -> int:
    model = _model_of(given.file)
    result = model.solve(max_rounds=given.max_rounds, solver=given.solver, verbose=given.verbose)
    check = result.verify()
    print(model, result, check, sep="\n\n")
    return 0 if check.ok else 1


def _model_of(file: Path) -> Model:
    """Run the file as ``python FILE`` does, but for its ``__main__`` block."""
    if not file.is_file():
        raise UsageError(
            f"there is no file {str(file)!r}; expected a Python file that defines `model`"
        )
    sys.path.insert(0, str(file.resolve().parent))  # a script may import its neighbours
    try:
        found = runpy.run_path(str(file))
    finally:
        sys.path.pop(0)
    if "model" not in found:
        raise UsageError(
            f"{file} defines no `model`; expected a dald_model.Model of that name at the top level "
            "of the file, not below `if __name__ == '__main__':`"
        )
    if not isinstance(found["model"], Model):
        raise UsageError(
            f"in {file} `model` is of type {type(found['model']).__name__}, expected "
            "dald_model.Model; make one of a cvxpy problem by dald_model.decompose(problem)"
        )
    return found["model"]


def _table1(given: argparse.Namespace) -> int:
    # Only this command needs it, and whoever reads this file can leave it for later.
    from dald_model.table1 import COLUMNS, reached, table1, table1_text

    if given.csv is not None and not given.csv.resolve().parent.is_dir():
        # Better now than after a minute of work.
        raise UsageError(f"--csv {given.csv}: there is no folder {given.csv.resolve().parent}")
    frame, missing = table1(given.data, tell=lambda line: print(line, file=sys.stderr, flush=True))
    print(table1_text(frame))
    if given.csv is not None:
        frame[COLUMNS].to_csv(given.csv, index=False)
        print(f"\nWritten to {given.csv}: {', '.join(COLUMNS)}")
    for name, why in missing.items():
        print(f"\n{name} is missing from the table. {why}")
    if missing:
        print(f"dald: {len(missing)} of 5 sets are missing: {', '.join(missing)}", file=sys.stderr)
    return 0 if reached(frame) and not missing else 1


def _demo(_: argparse.Namespace) -> int:
    dataset = load("diabetes").standardised()
    shares = dataset.split(3, seed=0)
    hospitals = {f"hospital {at + 1}": part for at, part in enumerate(shares)}

    print("THE PROBLEM")
    print(
        "Three hospitals want to predict from ten measurements how far a patient's diabetes will\n"
        "have gone in a year, by least squares. Together they have 442 patients (scikit-learn's\n"
        "Diabetes data, dealt out at random), but none may show its patients to another. If each\n"
        "uses only its own, its mean squared error over all 442 is"
    )
    for name, (features, target) in hospitals.items():
        alone = _mean_squared_error(dataset, _least_squares(features, target))
        print(f"  {name}, {len(target)} patients    {alone:.4f}")

    print("\nTHE MODEL")
    print(
        "Each hospital declares what it minimises. All use one vector w: an intercept and ten\n"
        "coefficients. Twelve rows, from a QR decomposition, stand for the patients of each: they\n"
        "give the same sum of squares.\n"
    )
    model = consensus_regression(hospitals)
    print(model)

    print("\nFIRST WAY: A SERVER")
    print(
        "In each round every hospital fits a copy of w to its own patients, drawn towards the\n"
        "others' by a penalty and by multipliers, and sends it to a server, which averages the\n"
        "copies and sends the average back. Only coefficients travel.\n"
    )
    by_server, server_ok = _solved_in_words(model)

    print("\nSECOND WAY: NEIGHBOURS")
    print(
        "The same hospitals in a row, 1 - 2 - 3, and no server: each hears only from its\n"
        "neighbours.\n"
    )
    model.topology(nx.path_graph(list(hospitals)))
    by_neighbours, neighbours_ok = _solved_in_words(model)

    print("\nTHE ANSWER")
    print("Mean squared error over all 442 patients")
    for way, vector in {
        "through a server": by_server[model.shared[0]],
        "among neighbours": by_neighbours[model.shared[0]],
        "all patients in one place": _least_squares(dataset.features, dataset.target),
    }.items():
        print(f"  {way:<25}  {_mean_squared_error(dataset, vector):.4f}")
    return 0 if server_ok and neighbours_ok else 1


def _solved_in_words(model: Model) -> tuple[Result, bool]:
    """Solve and verify, and print how the rounds went."""
    result = model.solve()
    check = result.verify()
    rounds = [r for r in (1, 3, 10, 30, 100, 300) if r < result.rounds] + [result.rounds]
    print("How far the copies of w are apart, how far they still move in a round, and the sum of")
    print("what the hospitals minimise, relative to the optimum (below it while they disagree):")
    print("  round    apart   moving  objective")
    for at, row in result.history.loc[rounds].iterrows():
        gap = (row["objective"] - check.aio_value) / check.aio_value
        print(f"  {at:>5}  {row['primal']:.1e}  {row['dual']:.1e}   {gap:+.1e}")
    print(f"\n{result}\n")
    print("To check it, and for that only, one solver is given everybody's patients at once:")
    print(check)
    return result, check.ok


def _least_squares(features: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(target)), features]), target)[0]


def _mean_squared_error(rows: Dataset, vector: np.ndarray) -> float:
    return float(np.mean((rows.features @ vector[1:] + vector[0] - rows.target) ** 2))


if __name__ == "__main__":
    sys.exit(main())
