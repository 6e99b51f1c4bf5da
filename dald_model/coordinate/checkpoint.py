"""File from which a run goes on: arrays and JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.kept import NotKeptError, Reader, Writer
from dald_model.coordinate.measured import numbers
from dald_model.errors import OptionError
from dald_model.text import counted, shortened
from dald_model.values import flat

VERSION = 2
"""Of the format; another one is refused."""
MOVED = 1e-6
"""Numbers of a client that moved by more than this share of their size are others: rounding, on
another machine, moves them by less."""
DAMAGE = (
    AttributeError,
    BadZipFile,
    EOFError,
    IndexError,
    KeyError,
    NotKeptError,
    OSError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What a file of another kind makes numpy, zipfile, json and the reader raise."""
LISTED = 200
"""The most letters of a list of names in a message."""


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
            "version": VERSION,
            "round": run["round"],
            "every": self.every,
            "model": self.model,
            "options": options,
            "run": kept,
        }
        self._replace(json.dumps(header).encode(), writer.arrays)

    def _replace(self, header: bytes, arrays: dict[str, np.ndarray]) -> None:
        path = self.path
        beside = path.with_name(f".{path.name}.part")
        try:
            with beside.open("wb") as file:
                entries = arrays | {"header": np.frombuffer(header, dtype=np.uint8)}
                np.savez(file, allow_pickle=False, **entries)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise OptionError(
                f"checkpoint: {path} cannot be written ({error}); expected a path in a folder that "
                "can be written to, such as 'run.npz'"
            ) from error


@dataclass(frozen=True, eq=False)
class Saved:
    """What a file holds of a run.

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
        check_same(path, header["model"], signature(compiled))
        options, lost = {}, []
        for name, said in header["options"].items():
            if "value" in said:
                options[name] = Reader(compiled, arrays).read(said["value"])
            else:
                lost.append(name)
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
        """What was kept of the run, in the place of what a new run has."""
        try:
            return {name: self._reader.read(one, fresh[name]) for name, one in self._run.items()}
        except DAMAGE as error:
            raise _damaged(self.path, error) from error


def _damaged(path: Path, error: Exception) -> OptionError:
    return OptionError(
        f"resume: {path} cannot be read ({error}); expected a file that solve(checkpoint=...) wrote"
    )


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        header = json.loads(arrays.pop("header").tobytes())
        version = header["version"]
    except FileNotFoundError as error:
        raise OptionError(
            f"resume: there is no file {path}; expected one that solve(checkpoint=...) wrote"
        ) from error
    except DAMAGE as error:
        raise _damaged(path, error) from error
    if version != VERSION:
        raise OptionError(
            f"resume: {path} is of format {version}, expected {VERSION}; resume with the version "
            "of dald_model that wrote it"
        )
    return header, arrays


def signature(compiled: Decomposition) -> dict[str, Any]:
    """What tells one model from another: names and sizes of clients and edges, and numbers."""
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
    return shortened(", ".join(map(_shown, names)), LISTED)


def _shown(name: Any) -> str:
    """A client, or an edge with its size."""
    return name if isinstance(name, str) else f"{name[0]} to {name[1]} ({name[2]})"


def _alike(then: list[list[float]], now: list[list[float]]) -> bool:
    if len(then) != len(now):
        return False
    return all(
        abs(a - b) <= MOVED * max(one[0], two[0])
        for one, two in zip(then, now, strict=True)
        for a, b in zip(one, two, strict=True)
    )
