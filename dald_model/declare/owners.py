"""Owners of an ordinary problem: whose each entry of its variables, or row of its data, is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from importlib import import_module
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.declare.array_parts import ArrayProblem, Part
from dald_model.declare.checked import check_name
from dald_model.declare.entries import used_entries
from dald_model.declare.wording import short
from dald_model.errors import DecompositionError
from dald_model.sizes import DATA
from dald_model.text import listed

NOBODY = -1
"""The owner of entries that nobody owns."""
UNEVEN, CUTS = 300, 10
"""How many thousandths more variables than on average a client may be dealt, and how many
partitions the best is of. (Eight blocks of 100 variables with 80 rows between any: the borders of
3 clients cut 104 times, 311 times where all must be as large; repeated bisection by Kernighan and
Lin cut 87 times, into clients of 400, 200 and 200.)"""
PRECISION = 5040
"""METIS takes whole numbers: this is divided by all up to 10."""
ALL_PAIRS = 64
"""Entries of a part up to which all pairs of them count; of a longer one neighbours do."""


def owners_by_entry(given: ArrayProblem, clients: Mapping[Hashable, Any]) -> np.ndarray:
    """Whose each entry is, -1 of those of nobody, from what a user gave to each owner.

    Raises
    ------
    DecompositionError
        If it is no affine selection of entries of the problem's variables, or an entry is given to
        two.
    """
    found, names = np.full(given.size, NOBODY), list(clients)
    known, rules = given.starts, {id(rule) for rule in given.problem.constraints}
    for at, (name, its) in enumerate(clients.items()):
        check_name(name)
        several = isinstance(its, Iterable) and not isinstance(its, cp.Expression)
        given_to: list[Any] = list(its) if several else [its]
        for one in given_to:
            is_ours = isinstance(one, cp.Expression) and one.is_affine() and bool(one.variables())
            is_ours = is_ours or id(one) in rules
            if not is_ours or any(v.id not in known for v in one.variables()):
                raise DecompositionError(
                    f"decompose: clients: {name!r} is given {short(one)} of type "
                    f"{type(one).__name__}, expected variables, selections of their entries such "
                    "as X[0], or constraints of this problem"
                )
            for key, entries in used_entries([one], known).items():
                v = next(v for v in given.variables if v.id == key)
                mine = known[key] + (np.arange(v.size) if entries is None else entries)
                taken = mine[(found[mine] >= 0) & (found[mine] != at)]
                if taken.size:
                    raise DecompositionError(
                        f"decompose: clients: entries of {v.name()!r} are given to "
                        f"{names[found[taken[0]]]!r} and to {name!r}, expected one owner of each; "
                        "give them to one, and leave what couples owners out"
                    )
                found[mine] = at
    return found


def asked_by_entry(
    given: ArrayProblem, clients: Callable[[cp.Variable], Any]
) -> tuple[list[Hashable], np.ndarray]:
    """The owners, and whose each entry is, from a function of a variable."""
    names: dict[Hashable, int] = {}
    found = np.full(given.size, NOBODY)
    for v in given.variables:
        said = clients(v)
        each = np.empty(v.size, dtype=object)
        if isinstance(said, np.ndarray | list):
            each[:] = np.asarray(said, dtype=object).reshape(v.shape).reshape(-1, order="F")
        else:
            each[:] = [said] * v.size
        for at, name in enumerate(each):
            if name is not None:
                check_name(name)
                found[given.starts[v.id] + at] = names.setdefault(name, len(names))
    return list(names), found


def owners_by_summand(given: ArrayProblem) -> np.ndarray:
    """Whose each entry is where each set of entries that summands connect is an owner's."""
    uses = sp.csr_array(sp.vstack([part.uses for part in given.terms]))
    labels = connected_components(uses.T @ uses, directed=False)[1]
    is_held = np.bincount(uses.indices, minlength=given.size) > 0
    found = np.full(given.size, NOBODY)
    _, first, which = np.unique(labels[is_held], return_index=True, return_inverse=True)
    found[is_held] = np.argsort(np.argsort(first))[which]
    return found


def partitioned(given: ArrayProblem, count: int) -> np.ndarray:
    """Whose each entry is, by METIS: about as many each, with few parts of the problem shared.

    Whole variables are dealt where there are as many. A part of the problem over k of them counts
    once, however many pairs these are.
    """
    if not 2 <= count <= given.size:
        raise DecompositionError(
            f"decompose: given clients={count}, expected at least 2 and at most the number of "
            f"entries of variables, {given.size}"
        )
    rows: Any = sp.csr_array(sp.vstack([part.uses for part in given.parts]))
    each, whose = np.arange(given.size), np.arange(given.size)
    if count <= len(given.variables):
        whose = np.repeat(np.arange(len(given.variables)), [v.size for v in given.variables])
        rows = sp.csr_array(rows @ sp.csr_array((np.ones(given.size), (each, whose))))
    rows.data[:] = 1.0
    size = rows.shape[1]
    heights = np.diff(rows.indptr)
    few = rows[np.flatnonzero((heights > 1) & (heights <= ALL_PAIRS))]
    weight = sp.diags_array(1.0 / np.maximum(np.diff(few.indptr) - 1, 1))
    near = sp.csr_array(few.T @ weight @ few)
    for at in np.flatnonzero(heights > ALL_PAIRS):
        its = rows.indices[rows.indptr[at] : rows.indptr[at + 1]]
        path = sp.csr_array(
            (np.full(its.size - 1, 1 / its.size), (its[:-1], its[1:])), (size, size)
        )
        near = near + path + path.T
    near = sp.csr_array(near)
    near.setdiag(0)
    near.eliminate_zeros()
    metis = metis_of(count)
    found = metis.part_graph(
        count,
        adjacency=metis.CSRAdjacency(near.indptr, near.indices),
        eweights=np.maximum(1, np.round(PRECISION * near.data)).astype(int).tolist(),
        options=metis.Options(ufactor=UNEVEN, ncuts=CUTS, seed=0),
    )
    parts = np.array(found.vertex_part)
    if np.unique(parts).size < count:
        parts = np.arange(size) * count // size
    _, first, which = np.unique(parts, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which][whose]


def metis_of(count: int) -> Any:
    """The package that deals to so many clients."""
    try:
        return import_module("pymetis")
    except ImportError as error:
        raise DecompositionError(
            f"decompose: given clients={count}, which takes the package pymetis to deal the "
            "variables; expected it to be installed: pip install pymetis; or say whose which "
            'variable is by clients={"a": [x], "b": [y]}'
        ) from error


def is_stacked(part: Part) -> bool:
    """Whether its entries are of rows of data, that depend on most variables each."""
    if part.array is None or part.array.ndim == 0:
        return False
    return part.uses.nnz >= DATA * part.uses.shape[0] * part.uses.shape[1]


def rows_of(
    given: ArrayProblem, rows: Mapping[Hashable, Any] | int
) -> tuple[list[Hashable], np.ndarray]:
    """The owners, and whose each row of stacked data is.

    Raises
    ------
    DecompositionError
        If no part has as many rows, or a row has no owner or two.
    """
    heights = sorted({p.array.shape[0] for p in given.parts if p.array is not None})
    if not isinstance(rows, Mapping):
        stacked = [p.array.shape[0] for p in given.terms if is_stacked(p)]
        height = max(stacked, default=max(heights, default=0))
        if not 2 <= rows <= height:
            raise DecompositionError(
                f"decompose: given {rows} clients, expected at least 2 and at most the number of "
                f"rows of data, {height}"
            )
        return [f"client {at}" for at in range(rows)], np.arange(height) * rows // height
    names = list(rows)
    taken = [np.atleast_1d(np.asarray(its)) for its in rows.values()]
    taken = [np.flatnonzero(its) if its.dtype == bool else its.astype(int) for its in taken]
    for name in names:
        check_name(name)
    height = max((int(its.max()) + 1 for its in taken if its.size), default=0)
    counts = np.bincount(np.concatenate(taken), minlength=height) if height else np.zeros(0)
    if height not in heights or (counts != 1).any() or not all(its.size for its in taken):
        wrong = np.flatnonzero(counts != 1)
        what = (
            f"row {wrong[0]} is given to {int(counts[wrong[0]])} owners"
            if wrong.size
            else f"they are {height} rows"
        )
        raise DecompositionError(
            f"decompose: rows: {what}, expected each row of one of the problem's arrays given to "
            f"one owner, which have {listed(heights)} rows"
        )
    owners = np.empty(height, dtype=int)
    for at, its in enumerate(taken):
        owners[its] = at
    return names, owners


def obstacle(given: ArrayProblem) -> Any:
    """The summand that stands in the way: one of most entries that cannot be divided."""
    for part in given.terms:
        if part.array is None and part.uses.nnz > 1 and part.uses.nnz >= DATA * given.size:
            return part.whole
    return None
