"""A problem in arrays dealt to owners: of entries of its variables, or of rows of its data."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality
from dald_model.declare.array_parts import ArrayProblem, Part
from dald_model.declare.declaration import Declaration
from dald_model.declare.owners import NOBODY
from dald_model.errors import DecompositionError

DEALT_TO = 4
"""How many clients a problem is dealt to where nobody said how many."""


class Shares(NamedTuple):
    """Parts by owner, what is between owners, and the constraints that were divided.

    ``divided`` has each of these with its parts and their entries, for its dual values.
    """

    own: dict[Hashable, list[Any]]
    common: list[tuple[Any, frozenset[int], frozenset[int]]]
    divided: list[tuple[cp.Constraint, list[tuple[cp.Constraint, np.ndarray]]]]


def shares(
    given: ArrayProblem,
    names: Sequence[Hashable],
    owners: np.ndarray,
    rows: np.ndarray | None = None,
) -> Shares:
    """The parts by owner of entries and, where they are given, of rows."""
    dealt = {
        id(part): _row_owners(part, rows)
        for part in given.parts
        if rows is not None and part.array is not None and part.array.shape[0] == rows.size
    }
    owners = _spread(given, owners, len(names), dealt)
    if rows is None:
        owners = _spread(given, _at_home(given, owners), len(names), dealt)
    found = Shares({name: [] for name in names}, [], [])
    for part in given.parts:
        whose = dealt.get(id(part))
        groups = _by_rows(whose) if whose is not None else _groups(part, owners, rows is not None)
        pieces = []
        for at, (who, free) in groups:
            piece = part.of(at)
            pieces.append((piece, at))
            if len(who) == 1 and not free:
                found.own[names[next(iter(who))]].append(piece)
            elif not who and rows is not None:  # over what all share: once, with the first
                found.own[names[0]].append(piece)
            else:
                found.common.append((piece, who, free))
        if isinstance(part.whole, cp.Constraint) and len(pieces) > 1:
            found.divided.append((part.whole, pieces))
    _fill(given, names, owners, found)
    return found


def _fill(
    given: ArrayProblem, names: Sequence[Hashable], owners: np.ndarray, found: Shares
) -> None:
    """Have owners whose parts are all in common hold their entries."""
    for at, name in enumerate(names):
        if not found.own[name]:
            mine = list(given.picked(np.flatnonzero(owners == at)))
            if not mine:
                raise DecompositionError(
                    f"decompose: {name!r} has no entry and no row; expected each owner to have one"
                )
            found.own[name] += [0 * cp.sum(one) for one in mine]


def _row_owners(part: Part, rows: np.ndarray) -> np.ndarray:
    """Whose each entry of an array is whose rows are dealt."""
    lead = part.array.shape
    return np.broadcast_to(rows.reshape(-1, *[1] * (len(lead) - 1)), lead).reshape(-1, order="F")


Groups = list[tuple[np.ndarray, tuple[frozenset[int], frozenset[int]]]]
"""Entries of a part, with their owners and what of nobody's they depend on."""


def _by_rows(whose: np.ndarray) -> Groups:
    nobody: frozenset[int] = frozenset()
    return [
        (np.flatnonzero(whose == at), (frozenset([int(at)]), nobody)) for at in np.unique(whose)
    ]


def _groups(part: Part, owners: np.ndarray, together: bool) -> Groups:
    """The entries of a part by their owners; what no owner has is together, if asked."""
    found: dict[Any, list[int]] = {}
    uses = part.uses
    for row in range(uses.shape[0]):
        its = uses.indices[uses.indptr[row] : uses.indptr[row + 1]]
        who = owners[its]
        free = frozenset(its[who < 0].tolist()) if not together or (who >= 0).any() else frozenset()
        found.setdefault((frozenset(who[who >= 0].tolist()), free), []).append(row)
    return [(np.array(at), key) for key, at in found.items()]


def _spread(
    given: ArrayProblem, owners: np.ndarray, count: int, dealt: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Give entries of nobody to the one owner that they stand together with, if it is one."""
    owners = owners.copy()
    blocks, held = [], []
    for part in given.parts:
        blocks.append(part.uses)
        whose = dealt.get(id(part), np.full(part.uses.shape[0], -1))
        held.append(_one_hot(whose, count))
    uses = sp.csr_array(sp.vstack(blocks))
    by_row = sp.csr_array(sp.vstack(held))
    while (owners < 0).any():
        free = np.flatnonzero(owners < 0)
        who = uses @ _one_hot(owners, count) + by_row
        near = sp.csr_array(uses[:, free].T @ who)
        near.data[:] = 1.0
        sure = np.flatnonzero(np.diff(near.indptr) == 1)
        if not sure.size:
            break
        owners[free[sure]] = near.indices[near.indptr[sure]]
    return owners


def _at_home(given: ArrayProblem, owners: np.ndarray) -> np.ndarray:
    """Without entries that no part of their owner's alone holds, if others are held so."""
    uses = sp.csr_array(sp.vstack([part.uses for part in given.parts]))
    starts = uses.indptr[:-1][np.diff(uses.indptr) > 0]
    its = owners[uses.indices]
    least, most = np.minimum.reduceat(its, starts), np.maximum.reduceat(its, starts)
    is_alone = np.repeat(least == most, np.diff(np.append(starts, its.size)))
    held = np.zeros(given.size, dtype=bool)
    held[uses.indices[is_alone]] = True
    settled = np.isin(owners, owners[held])
    return np.where(held | ~settled, owners, NOBODY)


def _one_hot(owners: np.ndarray, count: int) -> sp.csr_array:
    its = np.flatnonzero(owners >= 0)
    return sp.csr_array((np.ones(its.size), (its, owners[its])), (owners.size, count))


def declare_shares(model: Declaration, given: ArrayProblem, found: Shares) -> None:
    """Declare owners and couplings."""
    kind, alone = type(given.problem.objective), list(given.constants)
    for name, parts in found.own.items():
        goal, rules = _sorted([*parts, *alone])
        alone = []
        model.client(name, kind(goal if goal is not None else cp.Constant(0)), rules)
    for parts in _hanging_together(found.common):
        goal, rules = _sorted(parts)
        model.couple(*rules, objective=None if goal is None else kind(goal))


def _sorted(parts: Iterable[Any]) -> tuple[Any, list[cp.Constraint]]:
    """The sum of the summands, None of nothing, and the constraints."""
    rules = [p for p in parts if isinstance(p, cp.Constraint)]
    terms = [p for p in parts if not isinstance(p, cp.Constraint)]
    return (sum(terms[1:], terms[0]) if terms else None), rules


def _hanging_together(common: Sequence[tuple[Any, Any, Any]]) -> list[list[Any]]:
    """Parts between the same owners, or with an entry of nobody's in common; equalities apart."""
    graph = nx.Graph()
    for at, (part, who, free) in enumerate(common):
        graph.add_node(at)
        is_edge = len(who) == 2 and isinstance(part, Equality)
        if free:
            nx.add_star(graph, [at, *(("free", one) for one in free)])
        elif not is_edge:
            graph.add_edge(at, ("between", who))
    pieces = nx.connected_components(graph)
    groups = [sorted(node for node in piece if isinstance(node, int)) for piece in pieces]
    return [[common[at][0] for at in group] for group in sorted(groups)]
