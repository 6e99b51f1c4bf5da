"""File from which a run goes on: arrays and JSON, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.reuse import numbers
from dald_model.coordinate.serialised import NotKeptError, Reader, Writer
from dald_model.engines.archive import TYPES, Archive, archived
from dald_model.engines.schema import (
    FLOAT,
    FREE_TEXT,
    OBJECT,
    WORDS,
    DamagedError,
    Many,
    Record,
    Whole,
    parsed,
)
from dald_model.errors import OptionError
from dald_model.files import held, replace
from dald_model.text import counted, printable, shortened
from dald_model.validate import is_whole
from dald_model.values import flat

FILE_VERSION = 4
"""Of the format; another one is refused."""
OTHER_NUMBERS = 1e-6
"""Numbers of a client that moved by more than this share of their size are others: rounding, on
another machine, moves them by less."""
HEADER = Record(
    {
        "version": Whole(),
        "round": Whole(),
        "every": Whole(1),
        "model": Record(
            {
                "clients": Many(FREE_TEXT),
                "sizes": Many(Whole()),
                "edges": Many(Many((FREE_TEXT, FREE_TEXT, Whole()))),
                "numbers": Many(Many(Many((FLOAT, FLOAT)))),
            }
        ),
        "options": OBJECT,
        "run": OBJECT,
    }
)
"""The header of a file; options and state are as :class:`Reader` takes them."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is written.

    Attributes
    ----------
    path : Path
    every : int
        Rounds from one time to the next.
    options : dict
        Those of ``solve`` that were given.
    model : dict
        The :func:`signature` of the model.
    """

    path: Path
    every: int
    options: Mapping[str, Any]
    model: Mapping[str, Any]

    def write(self, compiled: Decomposition, run: Mapping[str, Any]) -> None:
        """Write a run, and replace what was written before.

        A new file is written beside and takes the place of the old one once it is on the disk, so
        that there is a whole one at any moment.

        Raises
        ------
        OptionError
            If something of the run cannot be kept, or the file cannot be written.
        """
        writer = Writer(compiled)
        kept = {}
        for name, value in run.items():
            try:
                kept[name] = writer.written(value)
            except NotKeptError as error:
                raise OptionError(
                    f"checkpoint: of the run's {name}, {error} cannot be kept in a file; expected "
                    "numbers, text, arrays and what dald_model gives; leave checkpoint out, or "
                    "what is none of these"
                ) from error
        options = {}
        for name, value in self.options.items():
            apart = Writer(compiled, fixed=(), prefix=f"{name} ")
            try:
                options[name] = {"value": apart.written(value)}
            except NotKeptError:
                options[name] = {}
            else:
                writer.arrays |= apart.arrays
        header = {
            "version": FILE_VERSION,
            "round": run["round"],
            "every": self.every,
            "model": self.model,
            "options": options,
            "run": kept,
        }
        self._replace(json.dumps(header).encode(), writer.arrays)

    def _replace(self, header: bytes, arrays: dict[str, np.ndarray]) -> None:
        try:
            entries = arrays | {"header": np.frombuffer(header, dtype=np.uint8)}
            replace(self.path, archived(entries))
        except OSError as error:
            raise unwritable(self.path, error) from error


def unwritable(path: Path, error: OSError) -> OptionError:
    """The error for a file that cannot be written."""
    return OptionError(
        f"checkpoint: {path} cannot be written ({error}); expected a path in a folder that can be "
        "written to, such as 'run.npz', which no other run writes"
    )


@contextmanager
def reserved(path: Path) -> Iterator[None]:
    """The file is this run's alone.

    Raises
    ------
    OptionError
        If another run writes it, or it is no file that can be written; before any round.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(path))
        except OSError as error:
            raise unwritable(path, error) from error
        yield


@dataclass(frozen=True, eq=False)
class Saved:
    """The contents of a checkpoint file.

    Attributes
    ----------
    path : Path
    round, every : int
        When it was written, and how often it was.
    options : dict
        Options of ``solve`` by name.
    again : tuple of str
        Those that no file can hold, and that have to be given again.
    """

    path: Path
    round: int
    every: int
    options: Mapping[str, Any]
    again: tuple[str, ...]
    _reader: Reader
    _run: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, compiled: Decomposition) -> Saved:
        """Read a file that :class:`Checkpoint` wrote of a run on the same model.

        Raises
        ------
        OptionError
            If it is no such file, or of another model.
        """
        header, arrays = _opened(path)
        try:
            check_same(path, header["model"], signature(compiled))
            options, lost = {}, []
            for name, said in header["options"].items():
                if "value" in said:
                    options[name] = Reader(compiled, arrays).read(said["value"])
                else:
                    lost.append(name)
        except OptionError:
            raise
        except Exception as error:
            raise _damaged(path, error) from error
        return cls(
            path,
            header["round"],
            header["every"],
            options,
            tuple(lost),
            Reader(compiled, arrays),
            header["run"],
        )

    def restored(self, fresh: Mapping[str, Any]) -> dict[str, Any]:
        """The data of the saved run, in place of those of a new one."""
        lacking = fresh.keys() ^ self._run.keys()
        if lacking:
            raise _damaged(self.path, DamagedError(f"of its run {min(lacking)} is not as expected"))
        try:
            return {name: self._reader.read(one, fresh[name]) for name, one in self._run.items()}
        except Exception as error:  # whatever other objects than were written make attributes raise
            raise _damaged(self.path, error) from error


def _damaged(path: Path, error: Exception) -> OptionError:
    said = printable(str(error), WORDS)
    return OptionError(
        f"resume: {path} cannot be read ({said}); expected a file that solve(checkpoint=...) wrote"
    )


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        archive = Archive(path.read_bytes())
        header = parsed(archive.header())
        OBJECT.check(header, "the header")
        version = header.get("version")
        if is_whole(version, FILE_VERSION, FILE_VERSION):
            HEADER.check(header, "the header")
            return header, {name: archive.array(name, *TYPES) for name in list(archive.names)}
    except FileNotFoundError as error:
        raise OptionError(
            f"resume: there is no file {path}; expected one that solve(checkpoint=...) wrote"
        ) from error
    except Exception as error:  # whatever foreign bytes make zipfile and numpy raise
        raise _damaged(path, error) from error
    raise OptionError(
        f"resume: {path} is of format {printable(repr(version), WORDS)}, expected {FILE_VERSION}; "
        "resume with the version of dald_model that wrote it"
    )


def signature(compiled: Decomposition) -> dict[str, Any]:
    """The identity of a model: names and sizes of clients and edges, and sums of its numbers."""
    return {
        "clients": [repr(name) for name in compiled],
        "sizes": [sub.size for sub in compiled.values()],
        "edges": [[repr(edge.tail), repr(edge.head), edge.size] for edge in compiled.edges],
        "numbers": [_sums(sub) for sub in compiled.values()],
    }


def _sums(sub: Subproblem) -> list[list[float]]:
    """Of each array of a client its length, and a sum with weights that no symmetry undoes."""
    matrix, offset = sub.sides
    arrays = [matrix.data, offset]
    if sub.form is not None:
        arrays += numbers(sub.form)
    else:  # cvxpy alone knows it
        parts = (sub.client.cost, *sub.client.constraints)
        arrays += [leaf.value for part in parts for leaf in (*part.constants(), *part.parameters())]
    vectors = [flat(one) for one in arrays]
    return [
        [float(np.linalg.norm(one)), float(one @ np.cos(np.arange(one.size)))] for one in vectors
    ]


def check_same(path: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a file of another model.

    Raises
    ------
    OptionError
        Naming what is another.
    """
    remedy = "declare the model as it was, or begin anew with solve()"
    said = f"resume: {path} is of another model: its"
    for what in ("clients", "edges"):
        before, given = then[what], now[what]
        if before != given:
            other = [one for one in (*before, *given) if (one in before) != (one in given)]
            first = other[0] if other else ""
            raise OptionError(
                f"{said} {what} are {_listed(before)}, given {_listed(given)}"
                f"{f'; the first that differs is {_shown(first)}' if first else ''}; {remedy}"
            )
    for at, name in enumerate(then["clients"]):
        if then["sizes"][at] != now["sizes"][at]:
            raise OptionError(
                f"{said} client {name} has {counted(then['sizes'][at], 'variable')}, given one of "
                f"{now['sizes'][at]}; {remedy}"
            )
        if not _alike(then["numbers"][at], now["numbers"][at]):
            raise OptionError(
                f"{said} client {name} had other numbers, of its data or of Parameters; give them "
                "the values that they had, or begin anew with solve()"
            )


def _listed(names: list[Any]) -> str:
    return shortened(", ".join(map(_shown, names)), WORDS)


def _shown(name: Any) -> str:
    """A client, or an edge with its size."""
    return name if isinstance(name, str) else f"{name[0]} to {name[1]} ({name[2]})"


def _alike(then: list[list[float]], now: list[list[float]]) -> bool:
    if len(then) != len(now):
        return False
    return all(
        abs(a - b) <= OTHER_NUMBERS * max(one[0], two[0])
        for one, two in zip(then, now, strict=True)
        for a, b in zip(one, two, strict=True)
    )
