"""Saved answers: a file of arrays and names, without pickle and without any client's data.

The file is numpy's ``npz`` format: a header in JSON, and arrays. It knows clients, couplings and
edges by name, a client's variables by their place in it, shape and name, and Parameters likewise;
cvxpy's numbers, which mean others in the next process, are nowhere in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality
from dald_model.declare.wording import symbolic
from dald_model.engines.archive import Archive, archived
from dald_model.engines.schema import WORDS, DamagedError
from dald_model.errors import ResultError
from dald_model.lazy_imports import pd
from dald_model.text import printable
from dald_model.values import flat

FORMAT = "dald_model answer 1"
"""The first entry of the header; another number is another format."""

TOKENS = re.compile(
    r"(?P<kept>(?<=[\w)\]])\[[^]]*\])"  # an index or a slice
    r"|(?<![\w)\]])\[[\dx]+\]"  # data, by their shape
    r"|\bvar\d+"  # a variable without a name
    r"|(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
)
"""What the text of a constraint holds beside its structure, and indices, which are structure."""


def written(result: Answer) -> bytes:
    """A result as the bytes of a file.

    Raises
    ------
    ResultError
        If a client's name is neither a string, a number nor a tuple of these, or if a column of
        the history holds something else than numbers and words.
    """
    compiled, found = result.compiled, result.recovered
    model = compiled.model
    arrays: dict[str, np.ndarray] = {}

    def kept(group: str, values: Iterable[Any]) -> list[list[int]]:
        """Keep some values as one flat array; gives their shapes."""
        given = [np.asarray(value) for value in values]
        pieces = [flat(value) for value in given]
        arrays[group] = np.concatenate([np.zeros(0), *pieces])
        return [list(value.shape) for value in given]

    ids = list(found.values)
    at = {key: place for place, key in enumerate(ids)}
    theirs = {v.id: v for v in model.variables}
    places = {name: _places(compiled[name].variables, compiled, at) for name in found.at_clients}
    stated, holder = model.stated, compiled.holder
    duals = {n: held for n, held in found.local_duals.items() if n in stated or n == holder}
    history, words = _history(result.history, list(compiled))
    arrays |= {f"history.{column}": values for column, values in history.items()}
    header = {
        "format": FORMAT,
        "model": model.name,
        **_run(result),
        "clients": [[said(name), _kind(sub.client)] for name, sub in compiled.items()],
        "variables": [theirs[key].name() if key in theirs else None for key in ids],
        "shapes": kept("values", found.values.values()),
        "at": [[said(name), where] for name, where in places.items()],
        "arrays": [
            [at[key], [[at[v.id], entries.tolist()] for v, entries in pieces]]
            for key, pieces in compiled.arrays.pieces.items()
            if key in at
        ],
        "copies": kept(
            "copies",
            (found.at_clients[name][ids[place]] for name in places for place in places[name]),
        ),
        "duals": [[said(n), [len(rule) for rule in held]] for n, held in duals.items()],
        "rules": [[said(n), list(map(outline, c.constraints))] for n, c in stated.items()],
        "dual shapes": kept("duals", (x for held in duals.values() for rule in held for x in rule)),
        "edges": [
            [list(map(said, edge.ends)), [[outline(p.agreement), p.stop] for p in edge.parts]]
            for edge in compiled.edges
        ],
        "layout": [[said(name), compiled[name].size] for name in compiled.layout],
        "given": [p.name() for p, _ in result.given],
        "given shapes": kept("given", (_dense(value) for _, value in result.given)),
        "columns": list(map(str, result.history.columns)),
        "words": words,
    }
    kept("multipliers", result.multipliers.values())
    arrays |= _iterate(result)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    return archived(arrays)


def _run(result: Answer) -> dict[str, Any]:
    """What the header says of the run itself."""
    return {
        "status": str(result.status),
        "value": result.value,
        "rounds": result.rounds,
        "answer_round": result.answer_round,
        "seconds": result.seconds,
        "eps": [result.eps_pri, result.eps_dual],
        "culprit": _culprit(result.culprit),
        "detail": result.detail,
        "fallbacks": [[e.round, said(e.client), *e[2:]] for e in result.fallbacks],
        "left": [[said(name), at] for name, at in result.left.items()],
        "dropped": [[list(map(said, ends)), at] for ends, at in result.dropped.items()],
    }


def read(file: Path | str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file that :func:`written` made.

    Raises
    ------
    ResultError
        If it is none, or damaged.
    """
    try:
        archive = Archive(Path(file).read_bytes())
        header = json.loads(archive.header())
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise DamagedError(f"its header does not say {FORMAT!r}")
        return header, {name: archive.array(name, "f8", "i8", "u1") for name in list(archive.names)}
    except FileNotFoundError as error:
        raise ResultError(
            f"load: there is no file {str(file)!r}, expected one that result.save(path) wrote"
        ) from error
    except Exception as error:  # whatever damaged bytes make zipfile, numpy and json raise
        raise ResultError(
            f"load: {str(file)!r} cannot be read ({printable(str(error), WORDS)}), expected a file "
            "that result.save(path) wrote; save the result again"
        ) from error


def said(name: Any) -> Any:
    """A client's name as JSON.

    Raises
    ------
    ResultError
        If it is neither a string, a number nor a tuple or frozenset of these.
    """
    if isinstance(name, tuple):
        return {"tuple": [said(part) for part in name]}
    if isinstance(name, frozenset):
        return {"frozenset": [said(part) for part in name]}
    for kind, whole in ((bool, np.bool_), (int, np.integer), (float, np.floating), (str, str)):
        if isinstance(name, kind | whole):
            return kind(name)
    raise ResultError(
        f"save: the client {name!r} has a name of type {type(name).__name__}, expected a string, a "
        "number, or a tuple of these, which mean the same in another process; rename the client"
    )


def meant(name: Any) -> Hashable:
    """The name that :func:`said` wrote."""
    if isinstance(name, dict):
        ((kind, parts),) = name.items()
        return {"tuple": tuple, "frozenset": frozenset}[kind](meant(part) for part in parts)
    return name


def taken(values: np.ndarray, shapes: Iterable[Iterable[int]]) -> list[np.ndarray]:
    """Arrays of these shapes, from the flat array that they were kept as."""
    found, at = [], 0
    for shape in map(tuple, shapes):
        size = int(np.prod(shape))
        found.append(values[at : at + size].reshape(shape, order="F"))
        at += size
    if at != values.size:
        raise ResultError(f"load: the file holds {values.size} numbers where it says {at}")
    return found


def told_history(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """The history as it was saved."""
    names = [meant(name) for name, _ in header["clients"]]
    columns: dict[str, Any] = {}
    for column in header["columns"]:
        if column == "who":
            stops = np.cumsum(arrays["history.who"])
            order = np.split(arrays["history.who order"], stops[:-1]) if stops.size else []
            sets = [tuple(names[place] for place in part) for part in order]
            columns[column] = [sets[place] for place in arrays["history.who at"]]
        elif column in header["words"]:
            columns[column] = header["words"][column]
        else:
            columns[column] = list(arrays[f"history.{column}"])
    index = pd.RangeIndex(1, header["rounds"] + 1, name="round")
    return pd.DataFrame(columns, index=index)


def outline(rule: cp.Constraint | ConsensusEquality) -> str:
    """What a constraint or an equality is made of, without its numbers and without data.

    It tells two of one shape apart, and is the same in another process, where variables that were
    given no name have other ones, and where the sides of an equality may have changed places.
    """
    if isinstance(rule, ConsensusEquality):
        return " == ".join(sorted(_bare(side).split("@")[0] for side in (rule.left, rule.right)))
    return _bare(rule)


def _bare(part: Any) -> str:
    return TOKENS.sub(lambda found: found["kept"] or "#", symbolic(part))


def _history(
    history: pd.DataFrame, names: list[Hashable]
) -> tuple[dict[str, np.ndarray], dict[str, list[Any]]]:
    """Columns as arrays, and those of words; who was solved as places, each order once."""
    place = {name: at for at, name in enumerate(names)}
    arrays: dict[str, np.ndarray] = {}
    words: dict[str, list[Any]] = {}
    for column in history:
        values = history[column].tolist()
        if column == "who":
            orders = {who: at for at, who in enumerate(dict.fromkeys(values))}
            arrays["who at"] = _whole([orders[who] for who in values])
            arrays["who"] = _whole([len(who) for who in orders])
            arrays["who order"] = _whole([place[name] for who in orders for name in who])
        elif all(one is None or isinstance(one, str) for one in values):
            words[str(column)] = values
        else:
            arrays[str(column)] = _numbers(str(column), values)
    return arrays, words


def _numbers(column: str, values: list[Any]) -> np.ndarray:
    try:
        found = np.asarray(values)
        kind = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64}[found.dtype.kind]
    except (KeyError, ValueError) as error:
        kinds = ", ".join(sorted({type(one).__name__ for one in values}))
        raise ResultError(
            f"save: the column {column!r} of the history holds {kinds}, expected numbers, arrays "
            "of one shape, or words; leave it out, as in "
            f"result.history = result.history.drop(columns={column!r})"
        ) from error
    return found.astype(kind)


def _kind(client: Client) -> str:
    """What the reader of a file calls a client; where it was solved does not matter to it."""
    if client.is_hub:
        return "server"
    return Client.kind if client.is_remote else client.kind


def _whole(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _places(variables: Iterable[Any], compiled: Any, at: Mapping[int, int]) -> list[int]:
    """Of a client's variables, in its own order, the places among all."""
    return [at[compiled.origins[variable.id]] for variable in variables]


def _dense(value: Any) -> np.ndarray:
    return value.toarray() if hasattr(value, "toarray") else np.asarray(value, dtype=float)


def _culprit(culprit: Any) -> Any:
    """A client or an edge by its names; words where it is something else."""
    try:
        return None if culprit is None else [said(culprit)]
    except ResultError:
        return repr(culprit)


def _iterate(result: Answer) -> dict[str, np.ndarray]:
    """The last iterate, from which another solve goes on."""
    state = result.state
    if state is None:
        return {}
    units = {f"units.{name}": values for name, values in state.units.arrays().items()}
    return {"last.points": state.points, "last.mu": state.mu, "last.rho": state.rho, **units}
