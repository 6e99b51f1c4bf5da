"""A problem in arrays dealt to owners: of entries of its variables, or of rows of its data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality
from dald_model.declare.array_parts import ArrayProblem, Part
from dald_model.declare.checked import check_name
from dald_model.declare.declaration import Declaration
from dald_model.declare.entries import used_entries
from dald_model.declare.owners import CUTS, PRECISION, UNEVEN, metis_of
from dald_model.declare.wording import short
from dald_model.errors import DecompositionError
from dald_model.text import listed

CLIENTS = 4
"""How many clients a problem is dealt to where nobody said how many."""
FEW = 64
"""Entries of a part up to which all pairs of them count; of a longer one neighbours do."""
STACKED = 0.5
"""Rows of data are dealt, not entries, where a row depends on at least this share of them."""


class Shares(NamedTuple):
    """Parts by owner, what is between owners, and the constraints that were divided.

    ``divided`` has each of these with its parts and their entries, for its dual values.
    """

    own: dict[Hashable, list[Any]]
    common: list[tuple[Any, frozenset[int], frozenset[int]]]
    divided: list[tuple[cp.Constraint, list[tuple[cp.Constraint, np.ndarray]]]]


def owners_by_entry(given: ArrayProblem, clients: Mapping[Hashable, Any]) -> np.ndarray:
    """Whose each entry is, -1 of those of nobody, from what a user gave to each owner.

    Raises
    ------
    DecompositionError
        If it is no affine selection of entries of the problem's variables, or an entry is given to
        two.
    """
    found, names = np.full(given.size, -1), list(clients)
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


def partitioned(given: ArrayProblem, count: int) -> np.ndarray:
    """Whose each entry is: about as many each, with few parts of the problem between them."""
    if not 2 <= count <= given.size:
        raise DecompositionError(
            f"decompose: given clients={count}, expected at least 2 and at most the number of "
            f"entries of variables, {given.size}"
        )
    rows: Any = sp.csr_array(sp.vstack([part.uses for part in given.parts]))
    rows.data[:] = 1.0
    heights = np.diff(rows.indptr)
    few = rows[np.flatnonzero((heights > 1) & (heights <= FEW))]
    weight = sp.diags_array(1.0 / np.maximum(np.diff(few.indptr) - 1, 1))
    near = sp.csr_array(few.T @ weight @ few)
    for at in np.flatnonzero(heights > FEW):
        its = rows.indices[rows.indptr[at] : rows.indptr[at + 1]]
        path = sp.csr_array(
            (np.full(its.size - 1, 1 / its.size), (its[:-1], its[1:])), (given.size, given.size)
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
        parts = np.arange(given.size) * count // given.size
    _, first, which = np.unique(parts, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which]


def is_stacked(part: Part) -> bool:
    """Whether its entries are of rows of data, that depend on most variables each."""
    if part.array is None or part.array.ndim == 0:
        return False
    return part.uses.nnz >= STACKED * part.uses.shape[0] * part.uses.shape[1]


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


def obstacle(given: ArrayProblem) -> Any:
    """The summand that stands in the way: one of most entries that cannot be divided."""
    for part in given.terms:
        if part.array is None and part.uses.nnz > 1 and part.uses.nnz >= STACKED * given.size:
            return part.whole
    return None


Asked = Callable[[cp.Variable], Any]


def asked_by_entry(given: ArrayProblem, clients: Asked) -> tuple[list[Hashable], np.ndarray]:
    """The owners, and whose each entry is, from a function of a variable."""
    names: dict[Hashable, int] = {}
    found = np.full(given.size, -1)
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
