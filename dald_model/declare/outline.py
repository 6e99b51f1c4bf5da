"""Outline of a client: what clients that differ in their data alone have in common.

What cvxpy says of one of them, that it is convex for instance, holds for all: for the atoms that
are read here it depends on nothing but shapes, attributes and the signs of constants.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import AffAtom, Equality, Inequality

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
KEPT = 4096
"""How many outlines are known at most."""


class Outline:
    """What clients of one outline have in common.

    Attributes
    ----------
    is_sound : bool
        Whether one of them was checked, and so all are convex.
    is_everywhere : bool
        Whether one of them is known to be defined everywhere, and so all are.
    """

    def __init__(self) -> None:
        self.is_sound = self.is_everywhere = False


class Outlined(NamedTuple):
    """A client's outline, and what is its own: variables and constants, in order of appearance."""

    outline: Outline
    variables: list[cp.Variable]
    constants: list[Any]


_outlines: dict[Hashable, Outline] = {}
_affine: dict[type, bool] = {}


def outlined(parts: Iterable[Any], *about: Hashable) -> Outlined | None:
    """The outline of expressions and constraints; None where it would say too little.

    As of atoms that are not in :data:`KNOWN`, of Parameters, and of numbers that are not finite.
    ``about`` is what else they have in common.
    """
    key: list[Any] = [*about]
    variables, constants = _Leaves(), _Leaves()
    nodes = [*parts][::-1]
    while nodes:
        node = nodes.pop()
        kind = type(node)
        if kind is cp.Constant:
            told = -constants.place(node, id(node)) or _told(node)
            if told is None:
                return None
            key.append(told)
        elif kind is cp.Variable:
            key.append(variables.place(node, node.id) or (node.shape, _attributes(node)))
        elif kind in CONSTRAINTS:
            key.append(kind)
            nodes += node.args[::-1]
        elif kind in KNOWN or _is_affine(kind):
            key += kind, len(node.args), frozen(node.get_data())
            nodes += node.args[::-1]
        else:
            return None
    if len(_outlines) >= KEPT:
        _outlines.clear()
    outline = _outlines.setdefault(tuple(key), Outline())
    return Outlined(outline, variables.found, constants.found)


class _Leaves:
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


def _told(constant: cp.Constant) -> Hashable | None:
    """What an outline says of a constant; None where it is not finite or not real."""
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
    return constant.shape, is_sparse, least >= 0, most <= 0, least == most


def _attributes(variable: cp.Variable) -> Hashable:
    given = {k: v for k, v in variable.attributes.items() if v is not None and v is not False}
    return frozen(list(given.items())) if given else ()


def _is_affine(kind: type) -> bool:
    if kind not in _affine:
        _affine[kind] = issubclass(kind, AffAtom)
    return _affine[kind]


def frozen(data: Any) -> Hashable:
    """What an atom holds besides its arguments, by value; unequal to all else if unknown."""
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
