"""The command: ``dald demo``, ``models``, ``solve``, ``table1``, ``table2`` and ``figure5``.

Exit codes: 0 all is well; 1 an answer failed its check, or a data set was missing; 2 wrong usage,
or there is no MNIST; 130 interrupted. Those of ``solve``, which has more, are :data:`CODES`.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import runpy
import shutil
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dald_model import __version__, models
from dald_model.coordinate.status import Status
from dald_model.engines.mpi_ranks import MPI, is_mpi_job
from dald_model.errors import DaldError
from dald_model.model import Model
from dald_model.peer import Peer

if TYPE_CHECKING:
    import pandas as pd


CODES = {
    0: "an optimum or a stationary point was found, and its verification passed",
    1: "the all-in-one solve disagrees with the answer, or the file itself raised an exception",
    2: "wrong usage, or the model was refused; stderr says why",
    3: "the problem is infeasible, and the all-in-one solve agrees",
    4: "the problem is unbounded, and the all-in-one solve agrees",
    5: "no convergence: the status is round_limit, stalled, diverged, settled or no_minimiser",
    6: "a client's solver failed",
    130: "interrupted; what was found so far is printed",
}
"""What the exit codes of ``dald solve`` mean."""
OF_STATUS = {
    Status.INFEASIBLE: 3,
    Status.UNBOUNDED: 4,
    Status.NO_MINIMISER: 5,
    Status.SETTLED: 5,
    Status.ROUND_LIMIT: 5,
    Status.TIME_LIMIT: 5,
    Status.STALLED: 5,
    Status.DIVERGED: 5,
    Status.SOLVER_ERROR: 6,
    Status.USER_ERROR: 6,
    Status.LOST: 6,
    Status.INTERRUPTED: 130,
}
"""Exit codes of the statuses other than an optimum."""
CERTAIN = (0, 3, 4)
"""The codes of statuses that are claims, which the all-in-one solve can confirm."""


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
    except BrokenPipeError:
        # The reader of stdout is gone, as in `dald models | head`; Python flushes stdout again when
        # it ends, which would raise the same error where nobody can catch it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("dald: interrupted", file=sys.stderr)
        return 130


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

    gallery = commands.add_parser("models", help="list the models of the gallery, or copy some")
    gallery.add_argument("names", metavar="NAME", nargs="*", help="models to copy")
    gallery.add_argument(
        "--to", metavar="DIR", type=Path, default=Path(), help="where to (default: this folder)"
    )
    gallery.set_defaults(run=_models)

    table = commands.add_parser("table1", help="the paper's Table 1 beside ours; a minute or two")
    table.add_argument(
        "--data",
        metavar="DIR",
        help="folder of the data files (default: the environment variable DALD_DATA; without "
        "that scikit-learn downloads what it can)",
    )
    table.add_argument("--csv", metavar="FILE", type=Path, help="also write the figures as data")
    table.set_defaults(run=_table1)

    _add_federated(commands)

    solve = commands.add_parser(
        "solve",
        help="solve the `model` that a Python file defines, or a model of the gallery",
        epilog="\n".join(
            ["exit codes:", *(f"  {code:>3}  {said}" for code, said in CODES.items())]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    solve.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a file that defines `model`, or a name of the gallery such as market",
    )
    solve.add_argument("--max-rounds", metavar="N", type=int, default=1000, help="default: 1000")
    solve.add_argument(
        "--solver",
        metavar="NAME",
        help="who solves the clients: auto, or a name from dald_model.solvers.NAMED or cvxpy",
    )
    solve.add_argument("--verbose", action="store_true", help="show progress")
    solve.add_argument(
        "--json", action="store_true", help="print result and verification as one JSON object"
    )
    solve.add_argument(
        "--peers",
        action="store_true",
        help="every rank of an MPI job runs the file, whose `model` is its dald_model.Peer",
    )
    solve.set_defaults(run=_solve)
    return parser


def _add_federated(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The two commands of the paper's experiment on MNIST."""
    table = commands.add_parser("table2", help="the paper's Table 2 beside ours; an hour for all")
    table.add_argument(
        "--lambdas",
        metavar="L",
        type=_weight,
        nargs="+",
        help="weights of the l1 penalty (default: 0 1e-4 1e-3 1e-2, as the paper)",
    )
    table.add_argument(
        "--iters",
        metavar="N",
        type=_count,
        nargs="+",
        help="after how many rounds to measure (default: 1000 3000, as the paper)",
    )
    table.add_argument("--csv", metavar="FILE", type=Path, help="also write the figures as data")
    table.add_argument(
        "--keep",
        metavar="FILE",
        type=Path,
        help="keep what is computed there, and take from there what another run has computed",
    )
    table.set_defaults(run=_table2)

    figure = commands.add_parser("figure5", help="draw the paper's Figure 5; some minutes")
    figure.add_argument(
        "--rounds", metavar="N", type=_count, default=300, help="default: 300, as the paper"
    )
    figure.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("figure5.png"),
        help="what to write: .png, .pdf or .svg (default: figure5.png)",
    )
    figure.set_defaults(run=_figure5)

    for command, sizes in ((table, "10 50 100 200 500 1000"), (figure, "100 500")):
        command.add_argument(
            "--n",
            metavar="N",
            type=_count,
            nargs="+",
            help=f"numbers of clients (default: {sizes}, as the paper)",
        )
        command.add_argument(
            "--divisor",
            choices=("equation", "paper"),
            default="equation",
            help="what the server divides by: the number of clients, as equation (31) says "
            "(default), or 785, as the paper's figures show",
        )
        command.add_argument(
            "--data",
            metavar="DIR",
            help="folder of the data files (default: the environment variable DALD_DATA; without "
            "that scikit-learn downloads MNIST)",
        )
        command.add_argument(
            "--jobs", metavar="N", type=_count, default=1, help="processes at a time (default: 1)"
        )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"given {text!r}, expected a whole number from 1")
    return int(text)


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"given {text!r}, expected a number from 0")
    return value


def gallery() -> dict[str, Path]:
    """The files of the gallery by name."""
    files = sorted(Path(models.__path__[0]).glob("[!_]*.py"))
    return {file.stem: file for file in files}


def near(name: str, known: Iterable[str]) -> str:
    """A question after an error: the name that was probably meant, if one is near."""
    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _models(given: argparse.Namespace) -> int:
    """List the gallery, each file by the first line of its docstring; or copy files of it."""
    known = gallery()
    unknown = [name for name in given.names if name not in known]
    if unknown:
        raise UsageError(
            f"models: there is no {unknown[0]!r} in the gallery; expected a name that `dald "
            f"models` lists{near(unknown[0], known)}"
        )
    if not given.to.is_dir():
        raise UsageError(f"models: there is no folder {str(given.to)!r}; create it first")
    copies = {given.to / known[name].name: known[name] for name in dict.fromkeys(given.names)}
    for copy in copies:
        if copy.exists():
            raise UsageError(f"models: {str(copy)!r} exists and is not replaced; remove it first")
    for copy, file in copies.items():
        shutil.copyfile(file, copy)
        print(f"{copy}: run it by `dald solve {copy}`")
    if not copies:
        wide = max(map(len, known))
        for name, file in known.items():
            head = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            print(f"{name:<{wide}}  {head.splitlines()[0]}")
    return 0


def _demo(_: argparse.Namespace) -> int:
    from dald_model.experiments.demo import demo

    return 0 if demo() else 1


def _solve(given: argparse.Namespace) -> int:
    if given.peers:
        return _solve_among_peers(given)
    engine = MPI() if is_mpi_job() else None  # where the other ranks stay
    model = _model_of(given.file)
    result = model.solve(
        max_rounds=given.max_rounds, solver=given.solver, verbose=given.verbose, engine=engine
    )
    code = OF_STATUS.get(result.status, 0)
    check = None if result.status is Status.INTERRUPTED else result.verify()
    if given.json:
        verified = None if check is None else check.to_dict()
        print(json.dumps({"result": result.to_dict(), "verification": verified}, allow_nan=False))
    else:
        print(*(each for each in (model, result, check) if each is not None), sep="\n\n")
    if check is None:
        return code
    return 1 if code in CERTAIN and not check.ok else code


def _solve_among_peers(given: argparse.Namespace) -> int:
    model = _model_of(given.file)
    if not isinstance(model, Peer):
        raise UsageError(
            f"--peers: in {given.file} `model` is of type {type(model).__name__}, expected "
            "dald_model.Peer; leave --peers out"
        )
    result = model.solve(max_rounds=given.max_rounds, solver=given.solver)
    if model.rank == 0:
        print(model, result, sep="\n\n")
    return OF_STATUS.get(result.status, 0)


def _model_of(file: Path) -> Model:
    """What a file defines as ``model``: a Model, or a function that builds one.

    The file is run as by ``python FILE``, but for its ``__main__`` block.
    """
    if not file.is_file():
        if str(file) not in gallery():
            raise UsageError(
                f"there is neither a file nor a model of the gallery {str(file)!r}; expected a "
                "Python file that defines `model`, or a name that `dald models` lists"
                f"{near(str(file), gallery())}"
            )
        file = gallery()[str(file)]
    sys.path.insert(0, str(file.resolve().parent))  # a script may import its neighbours
    try:
        found = runpy.run_path(str(file))
        if "model" not in found:
            raise UsageError(
                f"{file} defines no `model`; expected a dald_model.Model of that name at the top "
                "level of the file, not below `if __name__ == '__main__':`"
            )
        model = found["model"]() if isfunction(found["model"]) else found["model"]
    finally:
        sys.path.pop(0)
    if not isinstance(model, Model):
        raise UsageError(
            f"in {file} `model` is of type {type(model).__name__}, expected dald_model.Model; make "
            "one of a cvxpy problem by dald_model.decompose(problem)"
        )
    return model


def _table1(given: argparse.Namespace) -> int:
    # Only this command needs it, and whoever reads this file can leave it for later.
    from dald_model.experiments.table1 import COLUMNS, reached, table1, table1_text

    _check_folder("--csv", given.csv)
    frame, missing = table1(given.data, tell=_tell)
    print(table1_text(frame))
    _write(given.csv, frame[COLUMNS])
    for name, why in missing.items():
        print(f"\n{name} is missing from the table. {why}")
    if missing:
        print(f"dald: {len(missing)} of 5 sets are missing: {', '.join(missing)}", file=sys.stderr)
    return 0 if reached(frame) and not missing else 1


def _table2(given: argparse.Namespace) -> int:
    # Only this command needs it, see _table1.
    from dald_model.experiments.table2 import CLIENTS, ROUNDS, WEIGHTS, table2
    from dald_model.experiments.table2_report import surprises, table2_text

    _check_folder("--csv", given.csv)
    _check_folder("--keep", given.keep)
    frame = table2(
        _once(given.n) or CLIENTS,
        _once(given.lambdas) or WEIGHTS,
        _once(given.iters) or ROUNDS,
        given.divisor,
        given.data,
        given.jobs,
        given.keep,
        tell=_tell,
    )
    print(table2_text(frame, given.divisor))
    _write(given.csv, frame.round(6))
    return 1 if surprises(frame, given.divisor) else 0


def _figure5(given: argparse.Namespace) -> int:
    # Only this command needs it, see _table1.
    from dald_model.experiments.figure5 import CLIENT_COUNTS, figure5, figure5_plot, figure5_text

    _check_folder("--out", given.out)
    if given.out.suffix not in (".png", ".pdf", ".svg"):
        raise UsageError(f"--out {given.out}: expected a name that ends in .png, .pdf or .svg")
    sizes = _once(given.n) or CLIENT_COUNTS
    frame = figure5(sizes, given.rounds, given.divisor, given.data, given.jobs, tell=_tell)
    figure5_plot(frame, given.divisor).savefig(given.out, dpi=150)
    print(figure5_text(frame))
    print(f"\nDrawn in {given.out}")
    return 0


def _once(values: Iterable[Any] | None) -> list[Any]:
    return list(dict.fromkeys(values or ()))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _check_folder(option: str, file: Path | None) -> None:
    """Better now than after minutes of work."""
    if file is not None and not file.resolve().parent.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {file.resolve().parent}")


def _write(file: Path | None, frame: pd.DataFrame) -> None:
    if file is not None:
        frame.to_csv(file, index=False)
        print(f"\nWritten to {file}: {', '.join(frame.columns)}")


if __name__ == "__main__":
    sys.exit(main())
