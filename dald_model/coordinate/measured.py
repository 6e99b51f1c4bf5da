"""Natural units with the numbers that they were measured with, for a solve that goes on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.coordinate.measurement import natural_units
from dald_model.coordinate.units import Units
from dald_model.engines.dispatch import SolverLayer

MOVED = 0.75
"""Numbers that moved by more than this share of their length, before or after, are those of another
problem. So they may grow four times, or shrink to a quarter: units are not known any better."""


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
    @uncollected()
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
        to be are of the same size, and what is 1e-6 of them is.
        """
        if not _near(_offsets(compiled), self.offsets):
            return False
        for name, then in self.forms.items():
            now = compiled[name].form
            if now is not then and not (now and then and _alike(now, then)):
                return False
        return True


def _offsets(compiled: Decomposition) -> np.ndarray:
    found = np.zeros((2, compiled.size))
    for sub in compiled.values():
        found[sub.rows, sub.entries] = sub.sides[1]
    return found


def _alike(now: Form, then: Form) -> bool:
    one, two = list(numbers(now)), list(numbers(then))
    return len(one) == len(two) and all(map(_near, one, two))


def numbers(form: Form) -> Iterator[np.ndarray]:
    """All numbers of a form but for the constant, which moves nothing."""
    if not form.complete:
        cone = form.cone
        yield from (_stored(cone.matrix), cone.linear, _stored(cone.rows), cone.rhs)
    quadratic = form.quadratic
    yield quadratic.linear
    yield quadratic.full if quadratic.root is None else quadratic.root
    for term in form.terms:
        yield from (term.weight, _stored(term.matrix), term.offset, term.parameter)
    for rows in (form.equalities, form.inequalities):
        yield from rows


def _stored(matrix: Any) -> np.ndarray:
    return matrix.data if sp.issparse(matrix) else matrix


def _near(now: np.ndarray, then: np.ndarray) -> bool:
    if now is then:
        return True
    if now.shape != then.shape:
        return False
    return bool(
        np.linalg.norm(now - then) <= MOVED * max(np.linalg.norm(now), np.linalg.norm(then))
    )
