"""Structure key of a client: what clients that differ in their data alone have in common.

What cvxpy says of one of them, that it is convex for instance, holds for all: for the atoms that
are read here it depends on nothing but attributes, which shapes are numbers, and the signs of
constants. So a structure key leaves out how many rows data have.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import AffAtom, Equality, Inequality, Promote
from dald_model.sizes import CACHED

KNOWN = frozenset(
    {
        *(cp.abs, cp.entr, cp.exp, cp.huber, cp.log, cp.logistic, cp.log_sum_exp),
        *(cp.max, cp.maximum, cp.min, cp.minimum, cp.norm1, cp.norm_inf, cp.quad_over_lin),
        *(cp.Pnorm, cp.PnormApprox, cp.Power, cp.PowerApprox),
    }
)
"""Atoms besides the affine ones that are read."""
CONSTRAINTS = frozenset({Equality, Inequality})
"""Constraints that are read; they hold nothing but their two sides."""
SEVERAL = 2
"""Rows from which on it does not matter how many they are: one alone cvxpy takes for a number."""


class StructureKey:
    """What clients of one structure have in common.

    Attributes
    ----------
    is_sound : bool
        Whether one of them was checked, and so all are convex.
    is_everywhere : bool
        Whether one of them is known to be defined everywhere, and so all are.
    """

    def __init__(self) -> None:
        self.is_sound = self.is_everywhere = False


Shape = tuple[int, ...]


class Leaves(NamedTuple):
    """A client's structure key, and what is its own, in order of appearance.

    Attributes
    ----------
    key : StructureKey
    variables : list of cp.Variable
    constants : list of cp.Constant
    promoted : tuple of tuple of int
        The shapes that numbers are repeated to, as that of one in ``1 - A @ x``.
    signed : frozenset of int
        The constants whose signs are part of the key; others may have any, if not zeros alone.
    """

    key: StructureKey
    variables: list[cp.Variable]
    constants: list[Any]
    promoted: tuple[Shape, ...] = ()
    signed: frozenset[int] = frozenset()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Clients with one structure that have these in common, too, differ in numbers alone."""
        return *(np.shape(constant.value) for constant in self.constants), *self.promoted


_keys: dict[Hashable, StructureKey] = {}
_affine: dict[type, bool] = {}


def leaves_of(parts: Iterable[Any], *about: Hashable) -> Leaves | None:
    """Leaves and structure key of expressions and constraints; None where these say too little.

    As of atoms that are not in :data:`KNOWN`, of Parameters, and of numbers that are not finite.
    ``about`` is what else they have in common.
    """
    reader = _Reader(about)
    for part in parts:
        found = reader.read(part)
        if found is None:
            return None
        reader.end([found])
    if len(_keys) >= CACHED:
        _keys.clear()
    key = _keys.setdefault(reader.key, StructureKey())
    promoted, signed = tuple(reader.promoted), frozenset(reader.signed)
    return Leaves(key, reader.variables.found, reader.constants.found, promoted, signed)


class _Affine(NamedTuple):
    """A part of affine atoms: whether a variable of any sign is in it, and its constants."""

    is_free: bool
    constants: list[int]


NOT_AFFINE = _Affine(False, [])


class _Reader:
    """One pass over a client's expressions.

    What cvxpy says of an affine part in a variable of any sign does not depend on the signs of its
    data, as long as none of these are zeros alone: it is of no sign itself.
    """

    def __init__(self, about: Iterable[Hashable]) -> None:
        self._key: list[Any] = [*about]
        self._told: list[tuple[bool, ...]] = []
        self.signed: set[int] = set()
        self.variables, self.constants = _Places(), _Places()
        self.promoted: list[Shape] = []

    @property
    def key(self) -> Hashable:
        """What clients of one structure have the same of."""
        told = [told if at in self.signed else None for at, told in enumerate(self._told)]
        return (*self._key, *told)

    def read(self, node: Any) -> _Affine | None:
        """Read a part and all in it; None where a structure key would say too little."""
        kind, key = type(node), self._key
        if kind is cp.Constant:
            return self._constant(node)
        if kind is cp.Variable:
            attributes = _attributes(node)
            key.append(self.variables.place(node, node.id) or (node.shape, attributes))
            return _Affine(not attributes, [])
        is_affine = kind is Promote or _is_affine(kind)
        if kind is Promote:
            self.promoted.append(node.shape)
            key += kind, _but_rows(node.shape)
        elif kind in CONSTRAINTS:
            key.append(kind)
        elif is_affine or kind in KNOWN:
            key += kind, len(node.args), frozen(node.get_data())
        else:
            return None
        found = []
        for arg in _sides(node) if kind in CONSTRAINTS else node.args:
            part = self.read(arg)
            if part is None:
                return None
            found.append(part)
        if is_affine and NOT_AFFINE not in found:
            if len(found) == 1:
                return found[0]
            of = [at for part in found for at in part.constants]
            return _Affine(any(part.is_free for part in found), of)
        self.end(found)
        return NOT_AFFINE

    def end(self, parts: Iterable[_Affine]) -> None:
        """Let the signs count of the constants of parts that end here, where they do."""
        for part in parts:
            is_free = part.is_free and ZEROS not in [self._told[at] for at in part.constants]
            if not is_free:
                self.signed.update(part.constants)

    def _constant(self, node: Any) -> _Affine | None:
        place = self.constants.place(node, id(node))
        if place:
            self._key.append(-place)
            return _Affine(False, [place - 1])
        told = _told(node)
        if told is None:
            return None
        self._key.append((_but_rows(node.shape), sp.issparse(node.value)))
        self._told.append(told)
        return _Affine(False, [len(self._told) - 1])


def _sides(constraint: Any) -> list[Any]:
    """Both sides of a constraint, with the ones by which cvxpy repeats a row or column of one."""
    first, second = constraint.args
    is_number = first.is_scalar() or second.is_scalar()
    is_repeated = not is_number and first.ndim == second.ndim and first.shape != second.shape
    return constraint.expr.args if is_repeated else constraint.args


def _but_rows(shape: Shape) -> Shape:
    """A shape without the number of rows, as long as there are several."""
    return shape and (min(shape[0], SEVERAL), *shape[1:])


class _Places:
    """The leaves of a kind that were seen so far."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self._places: dict[int, int] = {}

    def place(self, leaf: Any, key: int) -> int:
        """Which of them a leaf is, from 1 on; 0 of a new one, which is then among them."""
        at = self._places.setdefault(key, len(self.found) + 1)
        if at <= len(self.found):
            return at
        self.found.append(leaf)
        return 0


ZEROS = True, True, True
PLAIN = frozenset((bool, int, float, str))


def _told(constant: cp.Constant) -> tuple[bool, ...] | None:
    """Whether a constant is nowhere negative, nowhere positive, and of one number.

    None where it is not finite or not real.
    """
    value: Any = constant.value
    is_sparse = sp.issparse(value)
    data = value.data if is_sparse else np.asarray(value)
    if data.dtype.kind not in "biuf" or not constant.size:
        return None
    ends = [float(data.min()), float(data.max())] if data.size else []
    if is_sparse and value.nnz < constant.size:
        ends.append(0.0)
    least, most = min(ends), max(ends)
    if not (math.isfinite(least) and math.isfinite(most)):
        return None
    return least >= 0, most <= 0, least == most


def _attributes(variable: cp.Variable) -> Hashable:
    given = {k: v for k, v in variable.attributes.items() if v is not None and v is not False}
    return frozen(list(given.items())) if given else ()


def _is_affine(kind: type) -> bool:
    if kind not in _affine:
        _affine[kind] = issubclass(kind, AffAtom)
    return _affine[kind]


def frozen(data: Any) -> Hashable:
    """What an atom holds besides its arguments, by value; unequal to all else if unknown."""
    if data is None or type(data) in PLAIN:  # as most; to ask for an expression takes its time
        return data
    if isinstance(data, list | tuple):
        return tuple(map(frozen, data))
    if isinstance(data, cp.Expression):
        return frozen(data.value) if data.is_constant() else object()
    if sp.issparse(data):
        data = data.toarray()
    if isinstance(data, np.ndarray):
        return data.shape, data.dtype.str, data.tobytes()
    if isinstance(data, slice):
        return data.start, data.stop, data.step
    return data if isinstance(data, Hashable) else object()
