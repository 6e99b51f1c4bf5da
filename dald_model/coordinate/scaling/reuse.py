"""Natural units with the numbers that they were measured with, for a solve that goes on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.coordinate.scaling.curvature import steepness
from dald_model.coordinate.scaling.natural_units import natural_units
from dald_model.coordinate.scaling.units import Units
from dald_model.engines.dispatch import SolverLayer
from dald_model.gc_pause import gc_paused
from dald_model.sizes import TOGETHER

MOVED = 0.75
"""Numbers that moved by more than this share of their length, before or after, are those of another
problem. So they may grow four times, or shrink to a quarter: units are not known any better."""
BESIDE = 0.25
"""Nor are they of another problem where what they change of a gradient within the natural lengths
is at most this share of the natural slopes, as of a small weight that becomes smaller."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Natural units, and the forms of the clients when they were measured.

    Attributes
    ----------
    units : Units
    forms : dict
        Client -> its form, or None where it has none.
    offsets : ndarray, shape (2, Q)
        Of the sides of the edges.
    centre : ndarray
        Around which the solvers have their numbers, see :class:`SolverLayer`.
    """

    units: Units
    forms: dict[Hashable, Form | None]
    offsets: np.ndarray
    centre: np.ndarray

    @classmethod
    @gc_paused
    def anew(cls, compiled: Decomposition, layer: SolverLayer) -> Measured:
        """Measure the units of a model with the present values of the user's Parameters.

        ``layer`` is left as :func:`natural_units` leaves it.
        """
        return cls.again(compiled, natural_units(compiled, layer), layer)

    @classmethod
    def again(cls, compiled: Decomposition, units: Units, layer: SolverLayer) -> Measured:
        """Units that were measured in an earlier run, of the present numbers."""
        forms = {name: sub.form for name, sub in compiled.items()}
        return cls(units, forms, _offsets(compiled), layer.middle)

    def holds(self, compiled: Decomposition) -> bool:
        """Whether the units are still those of the problem.

        They are where each array of numbers of each client moved by at most ``MOVED`` of its
        length since they were measured: then curvatures, slopes and how far apart the clients want
        to be are of the same size, and what is 1e-6 of them is. So they are where costs moved by
        as little beside the units themselves, see ``BESIDE``.
        """
        if not _near(_offsets(compiled), self.offsets):
            return False
        others: list[tuple[Hashable, Form, Form]] = []
        for name, then in self.forms.items():
            now = compiled[name].form
            if now is then:
                continue
            if not (now and then):
                return False
            others.append((name, now, then))
        for first in range(0, len(others), TOGETHER):
            mine = others[first : first + TOGETHER]
            if _are_near([(_arrays(now), _arrays(then)) for _, now, then in mine]):
                continue
            for name, now, then in mine:
                part = compiled.columns[name]
                units = self.units.point_lengths[part], self.units.point_slopes[part]
                is_near = _are_near([(_arrays(now), _arrays(then))])
                if not (is_near or _is_beside(now, then, *units)):
                    return False
        return True


def _offsets(compiled: Decomposition) -> np.ndarray:
    found = np.zeros((2, compiled.size))
    for sub in compiled.values():
        found[sub.rows, sub.entries] = sub.sides[1]
    return found


def _are_near(pairs: list[tuple[list[Any], list[Any]]]) -> bool:
    """Whether each array of the first lists is near that of the second; of one shape at once."""
    moved: dict[Any, dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]] = {}
    for one, two in pairs:
        if len(one) != len(two):
            return False
        for new, old in zip(one, two, strict=True):
            if new is not old:
                found = _stored(new), _stored(old)
                if found[0].shape != found[1].shape:
                    return False
                moved.setdefault(found[0].shape, {})[id(new), id(old)] = found
    for found in moved.values():
        new, old = (
            np.array(one).reshape(len(found), -1) for one in zip(*found.values(), strict=True)
        )
        sizes = np.maximum(np.vecdot(new, new), np.vecdot(old, old))
        new -= old
        if not (np.vecdot(new, new) <= MOVED**2 * sizes).all():
            return False
    return True


def _is_beside(now: Form, then: Form, lengths: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether two forms differ in little but costs, and in these by little beside the units."""
    if not _are_near([(_arrays(now, costs=False), _arrays(then, costs=False))]):
        return False
    one, two = now.quadratic, then.quadratic
    moved = np.abs(one.linear - two.linear) + np.abs(steepness(now)[0] - steepness(then)[0])
    moved += np.abs(one.full - two.full) @ lengths
    return bool((moved <= BESIDE * slopes).all())


def numbers(form: Form) -> list[np.ndarray]:
    """All numbers of a form but for the constant, which moves nothing."""
    return [_stored(one) for one in _arrays(form)]


def _arrays(form: Form, *, costs: bool = True) -> list[Any]:
    """Where they are, in arrays that may be sparse; with or without quadratics and kinks."""
    found: list[Any] = []
    if not form.complete:
        cone = form.cone
        found += (cone.matrix, cone.linear, cone.rows, cone.rhs)
    quadratic = form.quadratic
    if costs:
        found += (quadratic.linear, quadratic.numbers)
    for term in form.terms:
        if costs or term.is_smooth or term.is_set:
            found.append(term.weight)
        found += (term.matrix, term.offset, term.parameter)
    return [*found, *form.equalities, *form.inequalities]


def _stored(matrix: Any) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.data


def _near(now: np.ndarray, then: np.ndarray) -> bool:
    if now is then:
        return True
    if now.shape != then.shape:
        return False
    moved = now - then
    return bool(np.vdot(moved, moved) <= MOVED**2 * max(np.vdot(now, now), np.vdot(then, then)))
