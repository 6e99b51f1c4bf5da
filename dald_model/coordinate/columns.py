"""Rows of a history as columns, which a file holds in less room."""

from __future__ import annotations

from typing import Any

import numpy as np

Row = dict[str, Any]


def as_columns(rows: list[Row]) -> dict[str, Any]:
    """Rows as an array for each name whose values are all numbers of a type; and what is left.

    Who was solved is much the same in many rounds, and is written once.
    """
    names = list(rows[0]) if rows else []
    arrays = {}
    for kind in (float, int):
        found = [n for n in names if all(type(row.get(n)) is kind for row in rows)]
        arrays |= {name: np.array([row[name] for row in rows]) for name in found}
    seen: dict[Any, int] = {}
    which = np.array([seen.setdefault(row["who"], len(seen)) for row in rows], dtype=int)
    rest = [{n: v for n, v in row.items() if n not in arrays and n != "who"} for row in rows]
    return {"names": names, "arrays": arrays, "seen": list(seen), "who": which, "rest": rest}


def as_rows(columns: dict[str, Any]) -> list[Row]:
    """The inverse of :func:`as_columns`."""
    values = {name: array.tolist() for name, array in columns["arrays"].items()}
    found = []
    for at, (who, rest) in enumerate(zip(columns["who"].tolist(), columns["rest"], strict=True)):
        whole = {name: column[at] for name, column in values.items()} | rest
        whole["who"] = columns["seen"][who]
        order = [*columns["names"], *(name for name in whole if name not in columns["names"])]
        found.append({name: whole[name] for name in order if name in whole})
    return found
