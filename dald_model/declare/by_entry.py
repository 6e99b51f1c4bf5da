"""Ownership by entry: array variables in pieces, each of the entries that the same clients use.

Of ``Y = cp.Variable((40, 5))`` whose row i client i uses, 40 pieces are made of one owner each, and
the model is the one of 40 vectors. Of a symmetric matrix the entries below the diagonal are those
above it, so clients share one triangle. Users see the array alone: values, names and prices go by
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import INDEX, inside, with_parts
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, Owners
from dald_model.declare.consensus_form import owners_of
from dald_model.declare.entries import Entries, used_entries
from dald_model.declare.picked import selected
from dald_model.text import SHOWN
from dald_model.values import flat

ENTRYWISE = frozenset({"nonneg", "nonpos", "pos", "neg", "bounds"})
"""Attributes that hold for each entry by itself; of others but symmetry the whole is one piece."""


class Piece(NamedTuple):
    """Some entries of an array variable, column-major, as a variable of their own.

    Of a symmetric one they are of its upper triangle.
    """

    variable: cp.Variable
    entries: np.ndarray


class ByEntry(NamedTuple):
    """A declaration over pieces of its array variables.

    Attributes
    ----------
    clients, couplings, agreements :
        Those of the model, over the pieces.
    arrays : dict
        Id of a variable that is in pieces -> the variable.
    pieces : dict
        Its id -> its pieces.
    """

    clients: Mapping[Hashable, Client]
    couplings: Mapping[Hashable, Any]
    agreements: Sequence[ConsensusEquality]
    arrays: Mapping[int, cp.Variable]
    pieces: Mapping[int, Sequence[Piece]]

    def place(self) -> dict[int, tuple[cp.Variable, np.ndarray]]:
        """Id of a piece -> the array that it is of, and its entries."""
        return {
            piece.variable.id: (self.arrays[key], piece.entries)
            for key, pieces in self.pieces.items()
            for piece in pieces
        }

    def which(self) -> dict[int, np.ndarray]:
        """Id of an array -> which of its pieces each entry is in, -1 of those that nobody uses."""
        found = {key: np.full(v.size, -1) for key, v in self.arrays.items()}
        for key, pieces in self.pieces.items():
            for at, piece in enumerate(pieces):
                found[key][piece.entries] = at
            found[key] = found[key][first_of(self.arrays[key])]
        return found

    def with_arrays(
        self, values: Mapping[int, Any], absent: float | None = None
    ) -> dict[int, np.ndarray]:
        """Values by id, and those of the arrays of which there is a piece.

        Entries that nobody uses have the value that is nearest to zero, unless one is given.
        """
        found = dict(values)
        for key, pieces in self.pieces.items():
            held = [piece for piece in pieces if piece.variable.id in values]
            if not held:
                continue
            v = self.arrays[key]
            whole = (
                np.full(v.size, absent)
                if absent is not None
                else flat(v.project(np.zeros(v.shape)))
            )
            for piece in held:
                whole[piece.entries] = flat(values[piece.variable.id])
            found[key] = whole[first_of(v)].reshape(v.shape, order="F")
        return found

    def with_pieces(self, values: Mapping[int, Any]) -> dict[int, Any]:
        """Values by id, and of the pieces of the arrays among them those that the arrays have."""
        found = dict(values)
        for key, pieces in self.pieces.items():
            if key in values:
                whole = flat(values[key])
                for v, entries in pieces:
                    found[v.id] = whole[entries].reshape(v.shape, order="F")
        return found


class Owning:
    """The users of the entries of variables that an expression uses.

    Parameters
    ----------
    apart : ByEntry
    owners : dict
        Variable id -> the clients that use the variable.
    """

    def __init__(self, apart: ByEntry, owners: Owners) -> None:
        self._owners = owners
        self._users = owners_of(apart.clients.values())
        self._pieces = apart.pieces
        self._which = apart.which()

    def __call__(self, side: cp.Expression) -> dict[cp.Variable, tuple[Hashable, ...]]:
        """Each variable of the expression, with the clients that use an entry that it uses."""
        found = {v: tuple(self._owners.get(v.id, ())) for v in side.variables()}
        taken = used_entries([side], self._pieces)
        for v in found:
            if v.id in self._pieces:
                which = self._which[v.id] if taken[v.id] is None else self._which[v.id][taken[v.id]]
                pieces = [self._pieces[v.id][at].variable for at in np.unique(which[which >= 0])]
                names = (name for piece in pieces for name in self._users.get(piece.id, ()))
                found[v] = tuple(dict.fromkeys(names))
        return found


def by_entry(
    clients: Mapping[Hashable, Client],
    couplings: Mapping[Hashable, Any],
    agreements: Sequence[ConsensusEquality],
) -> ByEntry:
    """The declaration with the array variables of which clients use different entries in pieces."""
    users, variables, firsts = Counter[int](), dict[int, cp.Variable](), dict[int, Client]()
    counts = Counter(id(client.variables) for client in clients.values())
    for client in clients.values():
        firsts.setdefault(id(client.variables), client)  # clients alike may have one list
    for key, client in firsts.items():
        variables |= {v.id: v for v in client.variables}
        users.update({v.id: counts[key] for v in client.variables})
    wanted = {k for k, count in users.items() if count > 1 and _divisible(variables[k])}
    wanted -= {v.id for c in clients.values() for v in c.held}
    if not wanted:
        return ByEntry(clients, couplings, agreements, {}, {})
    touching = [c for c in firsts.values() if any(v.id in wanted for v in c.variables)]
    used = _used(touching, wanted)
    selective = {key for found in used for key, entries in found.items() if entries is not None}
    selective |= {key for key in wanted if variables[key].is_symmetric()}
    held = [_parts(c) for c in couplings.values()]
    held += [[side for a in agreements for side in (a.left, a.right)]]
    others = [used_entries(parts, selective) for parts in held]
    pieces = {}
    for key in selective:
        found = _pieces(
            variables[key],
            [one[key] for one in used if key in one],
            [one[key] for one in others if key in one],
        )
        if len(found) > 1 or variables[key].is_symmetric():
            pieces[key] = found
    arrays = {key: variables[key] for key in pieces}
    return _rewritten(ByEntry(clients, couplings, agreements, arrays, pieces))


def _used(clients: Iterable[Client], wanted: set[int]) -> list[dict[int, Entries]]:
    """The entries that each client uses.

    One that differs in its data alone from one that selects nothing is not looked at: its
    expressions may not be made yet.
    """
    found: list[dict[int, Entries]] = []
    plain: set[Any] = set()
    for client in clients:
        key = client.leaves and client.leaves.key
        if key is not None and key in plain:
            found.append({v.id: None for v in client.variables if v.id in wanted})
            continue
        found.append(used_entries(_parts(client), wanted))
        if key is not None and all(entries is None for entries in found[-1].values()):
            plain.add(key)
    return found


def _rewritten(given: ByEntry) -> ByEntry:
    if not given.pieces:
        return given
    writer = _Writer(given)
    return given._replace(
        clients={name: writer.client(one) for name, one in given.clients.items()},
        couplings={name: writer.client(one) for name, one in given.couplings.items()},
        agreements=[writer.agreement(one) for one in given.agreements],
    )


def _divisible(v: cp.Variable) -> bool:
    given = {k for k, held in v.attributes.items() if held is not None and held is not False}
    return v.size > 1 and given <= ENTRYWISE | {"symmetric"}


def first_of(v: cp.Variable) -> np.ndarray:
    """The entry of an array that each entry is the same as: of a symmetric one the upper one."""
    places = np.arange(v.size).reshape(v.shape, order="F")
    if v.is_symmetric() and v.size > 1:
        places = np.triu(places) + np.triu(places, 1).T
    return places.reshape(-1, order="F")


def _parts(client: Client) -> list[Any]:
    return [client.objective.expr, *client.constraints]


def _pieces(v: cp.Variable, used: Sequence[Entries], others: Sequence[Entries]) -> list[Piece]:
    """Its entries by who uses them; what no client does by which couplings do."""
    rng = np.random.default_rng(0)  # a number a user, and an entry the sum of its users'

    first = first_of(v)

    def signatures(among: Sequence[Entries]) -> np.ndarray:
        found = np.zeros(v.size, dtype=np.uint64)
        for entries in among:
            found[first if entries is None else first[entries]] += rng.integers(
                1, 2**63, dtype=np.uint64
            )
        return found

    signed, further = signatures(used), signatures(others)
    signed = np.where(signed > 0, signed, further)
    _, begin, which = np.unique(signed, return_index=True, return_inverse=True)
    found = [np.flatnonzero(which == at) for at in np.argsort(begin) if signed[begin[at]]]
    return [Piece(_variable(v, entries), entries) for entries in found]


def _variable(v: cp.Variable, entries: np.ndarray) -> cp.Variable:
    """Some entries as a variable, in the shape of a slice of the array if they are one."""
    each = np.unravel_index(entries, v.shape, order="F")
    axes = [np.unique(along) for along in each]
    is_box = entries.size == np.prod([one.size for one in axes])
    shape = tuple(one.size for one in axes if one.size > 1) if is_box else (entries.size,)
    shape = () if entries.size == 1 else shape
    if is_box:
        said = ", ".join(_range(one, size) for one, size in zip(axes, v.shape, strict=True))
    else:
        listed = [", ".join(map(str, at)) for at in zip(*each, strict=True)]
        said = "; ".join([*listed[:SHOWN], *["..."] * (len(listed) > SHOWN)])
    given: dict[str, Any] = {
        k: x
        for k, x in v.attributes.items()
        if x is not None and x is not False and k != "symmetric"
    }
    if "bounds" in given:
        given["bounds"] = [
            flat(np.broadcast_to(b, v.shape))[entries].reshape(shape, order="F")
            for b in given["bounds"]
        ]
    return cp.Variable(shape, name=f"{v.name()}[{said}]", **given)


def _range(taken: np.ndarray, size: int) -> str:
    if taken.size == 1:
        return str(taken[0])
    if taken.size == size:
        return ":"
    is_run = taken[-1] - taken[0] + 1 == taken.size
    return f"{taken[0]}:{taken[-1] + 1}" if is_run else str(taken.tolist()).replace(" ", "")


class _Writer:
    """Writes expressions over arrays as expressions over their pieces."""

    def __init__(self, given: ByEntry) -> None:
        self._arrays, self._pieces = given.arrays, given.pieces
        self._which = given.which()
        self._first = {key: first_of(v) for key, v in given.arrays.items()}

    def client(self, given: Any) -> Any:
        """A client or coupling over the pieces."""
        if not any(v.id in self._arrays for v in given.variables):
            return given
        instead = self._instead(_parts(given))
        goal = type(given.objective)(with_parts(given.objective.expr, instead))
        return replace(
            given,
            objective=goal,
            constraints=tuple(with_parts(rule, instead) for rule in given.constraints),
        )

    def agreement(self, given: ConsensusEquality) -> ConsensusEquality:
        """A consensus equality over the pieces; the user's own object stays with it."""
        instead = self._instead([given.left, given.right])
        if not instead:
            return given
        left, right = with_parts(given.left, instead), with_parts(given.right, instead)
        return replace(given, left=left, right=right)

    def _instead(self, parts: Sequence[Any]) -> dict[int, Any]:
        """Id of a node -> what stands in its place."""
        used = used_entries(parts, self._arrays)
        found: dict[int, Any] = {}
        for node in _topmost(parts, self._arrays):
            if id(node) in found:
                continue
            if isinstance(node, cp.Variable):
                found[id(node)] = self._spread(node, used[node.id])
            else:
                found[id(node)] = self._taken(node.args[0], selected(node))
        return found

    def _spread(self, v: cp.Variable, used: Entries) -> cp.Expression:
        """The whole array from the pieces in use, zero elsewhere, where nobody looks."""
        which = self._which[v.id]
        mine, terms = which if used is None else which[used], []
        for at in np.unique(mine[mine >= 0]):
            piece, entries = self._pieces[v.id][at]
            rows = np.flatnonzero(which == at)
            columns = np.searchsorted(entries, self._first[v.id][rows])
            place = sp.csr_array(
                (np.ones(rows.size), (rows, columns)), shape=(v.size, entries.size)
            )
            terms.append(place @ _flat(piece))
        if not terms:
            return cp.Constant(np.zeros(v.shape))
        found = _shaped(sum(terms[1:], terms[0]), v.shape)
        return cp.symmetric_wrap(found) if v.is_symmetric() else found

    def _taken(self, v: cp.Variable, taken: np.ndarray) -> cp.Expression:
        """Some entries of the array, in the shape of ``taken``."""
        order = self._first[v.id][taken.reshape(-1, order="F")]
        which = self._which[v.id][order]
        if (which < 0).any():  # what is multiplied by zero
            whole = self._spread(v, np.unique(order[which >= 0]))
            return _shaped(cp.vec(whole, order="F")[order], taken.shape)
        runs: list[cp.Expression] = []
        for start, stop in _runs(which):
            piece, entries = self._pieces[v.id][which[start]]
            at = np.searchsorted(entries, order[start:stop])
            is_whole = at.size == entries.size and (at == np.arange(at.size)).all()
            if is_whole and taken.shape == piece.shape:
                return piece
            picked = _flat(piece)
            runs.append(
                picked if is_whole else picked[at if at.size > 1 else slice(at[0], at[0] + 1)]
            )
        joined = runs[0] if len(runs) == 1 else cp.hstack(runs)
        return _shaped(joined, taken.shape)


def _runs(which: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where entries of one piece follow each other."""
    cuts = np.flatnonzero(np.diff(which)) + 1
    yield from zip([0, *cuts.tolist()], [*cuts.tolist(), which.size], strict=True)


def _topmost(parts: Iterable[Any], arrays: Mapping[int, Any]) -> Iterator[Any]:
    """The selections of arrays in expressions, and the arrays where they stand by themselves."""
    left, seen = [*parts], set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        is_its = isinstance(node, cp.Variable) and node.id in arrays
        if is_its or (isinstance(node, INDEX) and getattr(node.args[0], "id", None) in arrays):
            yield node
        else:
            left += inside(node)


def _flat(v: cp.Variable) -> cp.Expression:
    if v.ndim == 1:
        return v
    return cp.vec(v, order="F")


def _shaped(expression: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    return expression if expression.shape == shape else cp.reshape(expression, shape, order="F")
