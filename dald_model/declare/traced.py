"""One declaration for owners alike: the client's function is called once, with stand-ins for data.

A stand-in is a cvxpy Parameter of the data's shape. What the function makes of it is one client;
every other owner whose data have the same structure, shapes and signs is this client with other
numbers (:class:`dald_model.declare.lazy_client.AlikeClient`), and its function is never called. Two
owners drawn at random are declared by themselves and compared, so that a function that branches on
its data is found out.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import with_parts
from dald_model.declare.checked import as_objective, declare_client
from dald_model.declare.client import Client
from dald_model.declare.lazy_client import AlikeClient, Datum
from dald_model.declare.structure_key import frozen
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import pd
from dald_model.sizes import SAME, SHARED
from dald_model.values import REFUSALS, preserved

GUARDS = 2
"""Owners that are also declared by themselves: with one more, tracing costs what it saves."""
POINTS_COMPARED = 2
"""Points at which both declarations of one owner are compared."""


Read = Callable[[Hashable, Any], tuple[Any, Any]]
"""From a name and its data, or what stands for them, to an objective and constraints."""
Pair = tuple[Hashable, Any]
Owner = tuple[Pair, list[Any]]
"""A name and its data, and the arrays, frames and variables among these in order."""


class UntraceableError(Exception):
    """Why owners are declared one by one."""


class StandIn(cp.Parameter):
    """An array or a column of numbers, where an owner's data are expected.

    ``entrywise`` says that it stands for a pandas object, which multiplies entry by entry.
    """

    def __init__(self, value: np.ndarray, entrywise: bool) -> None:
        nonneg = bool((value >= 0).all())
        nonpos = not nonneg and bool((value <= 0).all())
        super().__init__(value.shape, value=value, nonneg=nonneg, nonpos=nonpos)
        self._entrywise = entrywise

    def __len__(self) -> int:
        return self.shape[0]

    def __mul__(self, other: Any) -> Any:
        is_data = not isinstance(other, cp.Expression) or other.is_constant()
        if self._entrywise or is_data:
            return cp.multiply(self, other)
        return super().__mul__(other)

    __hash__ = cp.Parameter.__hash__

    def to_numpy(self) -> StandIn:
        """Itself, as what pandas calls its arrays."""
        return self

    def astype(self, _: Any) -> StandIn:
        """Itself: all numbers are floats."""
        return self

    values = property(to_numpy)


class Leaf(NamedTuple):
    """Numbers of an owner that the function asked for.

    Attributes
    ----------
    at : int
        Their place among the arrays and frames of the owner's data.
    columns : str, list or None
        Of a frame.
    stand_in : StandIn
    constant : cp.Constant
        What takes its place when the function has returned.
    """

    at: int
    columns: Any
    stand_in: StandIn
    constant: cp.Constant


class FrameStandIn:
    """A frame of pandas, of which columns can be taken; all else ends the tracing."""

    def __init__(self, frame: Any, take: Callable[[Any], StandIn]) -> None:
        self._take, self.columns, self.shape = take, frame.columns, frame.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, columns: Any) -> StandIn:
        return self._take(columns if isinstance(columns, Hashable) else list(columns))

    def __getattr__(self, name: str) -> StandIn:
        if name in self.columns:
            return self[name]
        raise AttributeError(name)


def traced(pairs: Sequence[Pair], read: Read) -> dict[Hashable, Client]:
    """The clients of those owners who are like others; the caller declares the rest.

    A constraint without an owner's data or variables is one object of all its owners. Why owners
    are left is told to the log ``dald_model`` at level INFO.
    """
    groups: dict[Hashable, list[Owner]] = {}
    for pair in pairs:
        held: list[Any] = []
        groups.setdefault(_signature(pair[1], held), []).append((pair, held))
    found: dict[Hashable, Client] = {}
    why: Any = "their data differ in structure or shapes"
    for rest in groups.values():
        while len(rest) > GUARDS + 1:
            try:
                clients, rest = _alike(rest, read)
            except (UntraceableError, *REFUSALS) as reason:
                why = reason
                break
            found |= clients
    if len(pairs) - len(found) > GUARDS + 1:
        log = logging.getLogger("dald_model")
        log.info("clients: %d owners are declared one by one: %s", len(pairs) - len(found), why)
    return found


def _signature(own: Any, held: list[Any]) -> Hashable:
    """What owners alike have in common besides numbers, which go to ``held`` in order."""
    kind = type(own)
    if kind is np.ndarray and own.dtype.kind in "biuf":  # as most are
        held.append(own)
        return kind, own.shape, ()
    if kind in (tuple, list) or hasattr(kind, "_fields"):
        return kind, *(_signature(one, held) for one in own)
    if kind is dict:
        return kind, *((key, _signature(one, held)) for key, one in own.items())
    if not _is_leaf(own):  # sizes and names are part of what they have in common
        return (kind, own) if isinstance(own, str | int | None) else object()
    held.append(own)
    if kind is cp.Variable:
        given = {k: v for k, v in own.attributes.items() if v is not None and v is not False}
        return kind, own.shape, frozen([*given.items()])
    return kind, np.shape(own), tuple(own.columns) if _is_of_pandas(own, "DataFrame") else ()


def _is_leaf(own: Any) -> bool:
    is_array = isinstance(own, np.ndarray | np.floating) and own.dtype.kind in "biuf"
    is_number = is_array or type(own) is float
    return is_number or type(own) is cp.Variable or _is_of_pandas(own, "DataFrame", "Series")


def _is_of_pandas(own: Any, *names: str) -> bool:
    """Whether it is a frame or series of pandas, which is not imported for this."""
    kind = type(own)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in names


def _with_stand_ins(own: Any, places: Iterator[int], asked: list[Leaf]) -> Any:
    """Data of an owner with stand-ins for the numbers; those in use are ``asked``."""
    kind = type(own)
    if kind in (tuple, list):
        return kind([_with_stand_ins(one, places, asked) for one in own])
    if hasattr(kind, "_fields"):  # a named tuple
        return kind(*(_with_stand_ins(one, places, asked) for one in own))
    if kind is dict:
        return {key: _with_stand_ins(one, places, asked) for key, one in own.items()}
    if not _is_leaf(own):
        return own
    at = next(places)
    if kind is cp.Variable:
        return own

    def take(columns: Any = None) -> StandIn:
        value = _block([own], columns)[0]
        leaf = Leaf(
            at, columns, StandIn(value, _is_of_pandas(own, kind.__name__)), cp.Constant(value)
        )
        asked.append(leaf)
        return leaf.stand_in

    return FrameStandIn(own, take) if _is_of_pandas(own, "DataFrame") else take()


def _block(held: Sequence[Any], columns: Any) -> np.ndarray:
    """Numbers of several owners, of one shape each, as one array with an axis for the owners."""
    if columns is None:
        return np.array([np.asarray(one) for one in held], dtype=float)
    together = pd.concat(held) if len(held) > 1 else held[0]
    found = together[columns].to_numpy(dtype=float)
    return found.reshape(len(held), -1, *found.shape[1:])


def _alike(rest: Sequence[Owner], read: Read) -> tuple[dict[Hashable, Client], list[Owner]]:
    """Clients of the owners who are like the first of some, and those who are not.

    Raises
    ------
    UntraceableError
        Saying why the function cannot be traced.
    """
    (name, own), held = rest[0]
    first, asked = _first(name, own, read)
    known = first.leaves
    if known is None:
        raise UntraceableError("cvxpy's atoms in it are not known to depend on signs alone")
    used = {id(constant) for constant in known.constants}
    leaves = [one for one in asked if id(one.constant) in used]
    signed = {id(constant) for at, constant in enumerate(known.constants) if at in known.signed}
    places = {id(v): at for at, v in enumerate(held) if isinstance(v, cp.Variable)}
    places |= {id(one.constant): one.at for one in asked}
    clients: dict[Hashable, Client] = {name: first}
    theirs = [(v, places.get(id(v))) for v in known.variables]
    has_own = any(place is not None for _, place in theirs)
    others: list[Owner] = []
    at_once = max(1, SHARED // (8 * max(1, sum(one.constant.size for one in leaves))))
    for start in range(0, len(rest), at_once):
        some = [rest[0], *rest[max(1, start) : start + at_once]]
        blocks = {
            id(one.constant): _block([its[one.at] for _, its in some], one.columns)
            for one in leaves
        }
        is_like = np.ones(len(some), dtype=bool)
        for key, block in blocks.items():
            is_like &= _like_first(block, key in signed)
        if not is_like[0]:
            raise UntraceableError(f"the data of {name!r} are not finite")
        given = [(c, places.get(id(c)), blocks.get(id(c))) for c in known.constants]
        for at, is_its in enumerate(is_like[1:].tolist(), 1):
            (other, _), its = some[at]
            if not is_its:
                others.append(some[at])
                continue
            variables = known.variables
            if has_own:
                variables = [v if place is None else its[place] for v, place in theirs]
            data = [
                constant
                if place is None or block is None
                else Datum(_number(its[place], block[at]))
                for constant, place, block in given
            ]
            clients[other] = AlikeClient(other, first, variables, data)
    _check([pair for pair, _ in rest if pair[0] in clients], clients, read)
    return clients, others


def _number(own: Any, row: np.ndarray) -> np.ndarray:
    """An owner's own array if it is one of floats, as cvxpy takes it, else its row of a block."""
    return own if type(own) is np.ndarray and own.dtype == np.float64 else row


def _first(name: Hashable, own: Any, read: Read) -> tuple[Client, list[Leaf]]:
    """The client that the function makes of stand-ins, over an owner's numbers, and these."""
    asked: list[Leaf] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            objective, rules = read(name, _with_stand_ins(own, count(), asked))
            goal = as_objective(f"client {name!r}", objective)
            instead = {id(one.stand_in): one.constant for one in asked}
            goal = type(goal)(with_parts(goal.expr, instead))
            stated = [
                with_parts(rule, instead) if isinstance(rule, cp.Constraint) else rule
                for rule in rules
            ]
            return declare_client(name, goal, stated), asked
    except (DeclarationError, *REFUSALS) as error:
        raise UntraceableError(str(error)) from error


def _like_first(block: np.ndarray, is_signed: bool) -> np.ndarray:
    """Of which owners the numbers are finite, and their signs those of the first if they count."""
    flat = block.reshape(len(block), -1)
    least, most = flat.min(axis=1), flat.max(axis=1)
    found = np.isfinite(least) & np.isfinite(most)
    if not is_signed:
        return found & ((least != 0) | (most != 0))
    for told in (least >= 0, most <= 0, least == most):
        found &= told == told[0]
    return found


def _at(client: Client, point: Mapping[int, np.ndarray]) -> list[Any]:
    """The cost of a client and the sides of its constraints where variables have these values."""
    cost = client.cost_at(point)
    for v in client.variables:
        v.save_value(point[v.id])
    return [cost, *(side.value for rule in client.constraints for side in rule.args)]


def _is_close(one: Any, other: Any) -> bool:
    """Whether two values are the same but for rounding."""
    if np.shape(one) != np.shape(other):
        return False
    return bool(np.allclose(one, other, rtol=SAME, atol=0.0, equal_nan=True))


def _check(pairs: Sequence[Pair], clients: Mapping[Hashable, Client], read: Read) -> None:
    """Declare some drawn owners by themselves, and compare.

    Raises
    ------
    UntraceableError
        If one is another client than was traced.
    """
    generator = np.random.default_rng(0)
    for at in generator.choice(len(pairs), min(GUARDS, len(pairs)), replace=False):
        name, own = pairs[at]
        alone, alike = declare_client(name, *read(name, own)), clients[name]
        is_same = alone.maximises == alike.maximises
        is_same &= {v.id for v in alone.variables} == {v.id for v in alike.variables}
        is_same &= [*map(type, alone.constraints)] == [*map(type, alike.constraints)]
        with preserved(alone.variables), np.errstate(all="ignore"):
            for _ in range(POINTS_COMPARED if is_same else 0):
                point = {v.id: v.project(generator.normal(size=v.shape)) for v in alone.variables}
                values = _at(alone, point), _at(alike, point)
                is_same &= all(map(_is_close, *values))
        if not is_same:
            raise UntraceableError(f"the function makes another client of {name!r}'s own data")
