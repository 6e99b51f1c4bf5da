r"""Closed forms of proximal operators, read off the rows and terms of a form.

Parikh and Boyd 2014, chapter 6: absolute values, norms and balls of single variables, and bounds.
Those of many clients are computed together, of many sets of variables of one width at once:
operators take the values, shape (G, width), then :math:`\alpha`, then what the sets are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.compile.kinds.kind import Kind
from dald_model.compile.kinds.piecewise import ABSOLUTE
from dald_model.solvers.base import NOTHING

SAME = 1e-12
"""Numbers that differ by this share are meant to be equal."""


class VariableSet(NamedTuple):
    """Sets of variables of one client, ``columns`` (G, width); those of one ``key`` go together.

    The operator is called with their values, the step and the arrays.
    """

    key: tuple[Any, ...]
    prox: Callable[..., np.ndarray]
    columns: np.ndarray
    arrays: tuple[np.ndarray, ...]


class Closed(NamedTuple):
    r"""A closed form: :math:`\sum_j w_j |x_j - a_j|` over a box, and sets of other variables.

    Attributes
    ----------
    text : str
        What it is called.
    weight, centre, lower, upper : ndarray, shape (m,)
    sets : list of VariableSet
        Of variables that are in nothing else.
    """

    text: str
    weight: np.ndarray
    centre: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sets: list[VariableSet]


def closed_form(form: Form) -> Closed | None:
    """The closed form of the rows and the terms without a gradient; None if it has none here."""
    if form.extra or not form.complete:
        return None
    bounds = _bounds(form)
    if bounds is None:
        return None
    lower, upper = bounds
    is_bound = np.isfinite(lower) | np.isfinite(upper)
    weights, centres = np.zeros((2, form.size))
    taken = np.zeros(form.size, dtype=bool)
    sets, texts = list[VariableSet](), list[str]()
    for term in form.terms:
        if term.is_smooth:
            continue
        matrix = sp.csr_array(term.matrix)
        matrix.eliminate_zeros()
        columns, factors = matrix.indices, matrix.data
        is_single = (np.diff(matrix.indptr) == 1).all()
        if not is_single or taken[columns].any() or np.unique(columns).size < columns.size:
            return None
        taken[columns] = True
        texts.append(term.kind.operator)
        sizes = np.abs(factors).reshape(-1, term.width)
        weight, parameter = term.kind.scaled(term.weight, term.parameter, sizes[:, 0])
        centre = -term.offset / factors
        if term.kind.is_polyhedral:
            weights[columns], centres[columns] = weight, centre
            continue
        if is_bound[columns].any() or not np.allclose(sizes, sizes[:, :1], rtol=SAME, atol=0.0):
            return None
        key, shape = (term.kind, term.width), (-1, term.width)
        arrays = weight, parameter, centre.reshape(shape)
        operator = partial(around, term.kind)
        sets.append(VariableSet(key, operator, columns.reshape(shape), arrays))
    texts += ["projection on a box"] if is_bound.any() else []
    text = ", ".join(dict.fromkeys(texts)) or "identity"
    return Closed(text, weights, centres, lower, upper, sets)


def _bounds(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds that rows of one variable each are; None if there are others, or no point."""
    lower, upper = np.full(form.size, -np.inf), np.full(form.size, np.inf)
    for rows, is_equal in ((form.equalities, True), (form.inequalities, False)):
        if (np.count_nonzero(rows.matrix, axis=1) != 1).any():
            return None
        columns, factors = single_entries(rows.matrix)
        with np.errstate(over="ignore"):
            limits = rows.rhs / factors
        is_upper, is_lower = (is_equal | side for side in (factors > 0, factors < 0))
        np.minimum.at(upper, columns[is_upper], limits[is_upper])
        np.maximum.at(lower, columns[is_lower], limits[is_lower])
    crossed = np.flatnonzero(lower > upper)  # as of two equalities, by rounding
    middle = (lower[crossed] + upper[crossed]) / 2
    if ((lower - upper)[crossed] > SAME * np.maximum(1, np.abs(middle))).any():
        return None
    lower[crossed] = upper[crossed] = middle
    return lower, upper


def single_entries(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the one entry that each row has."""
    columns = np.abs(matrix).argmax(axis=1)
    return columns, matrix[np.arange(columns.size), columns]


class Elements(NamedTuple):
    """Absolute values of single variables and boxes; None where there are none of them.

    A number stands for all variables.
    """

    weight: np.ndarray | float | None
    centre: np.ndarray | float | None
    lower: np.ndarray | float | None
    upper: np.ndarray | float | None

    @classmethod
    def of(cls, closed: dict[int, Closed], starts: np.ndarray, total: int) -> Elements:
        """Of clients whose variables start at these columns."""
        found = []
        for name, nothing in (("weight", 0), ("centre", 0), ("lower", -np.inf), ("upper", np.inf)):
            values = np.full(total, float(nothing))
            for at, one in closed.items():
                values[starts[at] : starts[at] + one.weight.size] = getattr(one, name)
            is_level = bool((values == values[0]).all())
            level = None if values[0] == nothing else float(values[0])
            found.append(level if is_level else values)
        return cls(*found)

    def take(self, columns: np.ndarray | slice) -> Elements:
        """Of some variables."""
        return Elements(*(p[columns] if isinstance(p, np.ndarray) else p for p in self))

    def prox(self, points: np.ndarray, alpha: float) -> np.ndarray:
        """The soft threshold and then the box, which is exact for functions of one variable."""
        found = points
        if self.weight is not None:
            if self.centre is not None:
                found = found - self.centre
            found = ABSOLUTE.prox(found, alpha * self.weight, NOTHING)
            if self.centre is not None:
                found += self.centre
        if self.lower is not None or self.upper is not None:
            found = np.clip(found, self.lower, self.upper)
        return found.copy() if found is points else found


class Set(NamedTuple):
    """Sets of variables of one operator, (G, width) columns each, and which clients they are of."""

    prox: Callable[..., np.ndarray]
    columns: np.ndarray
    owners: np.ndarray
    arrays: tuple[np.ndarray, ...]

    def take(self, is_in: np.ndarray, shifts: np.ndarray) -> Set:
        """Those of some clients, whose variables start at ``shifts``."""
        kept = is_in[self.owners]
        owners = self.owners[kept]
        columns = self.columns[kept] + shifts[owners][:, None]
        return Set(self.prox, columns, owners, tuple(one[kept] for one in self.arrays))


def sets_of(closed: dict[int, Closed]) -> list[Set]:
    """The sets of some clients, those of one operator together."""
    together: dict[Any, list[tuple[int, VariableSet]]] = {}
    for at, one in closed.items():
        for part in one.sets:
            together.setdefault(part.key, []).append((at, part))
    found = []
    for members in together.values():
        owners = np.concatenate([np.full(len(part.columns), at) for at, part in members])
        columns = np.concatenate([part.columns for _, part in members])
        several = zip(*(part.arrays for _, part in members), strict=True)
        arrays = tuple(np.concatenate(alike) for alike in several)
        found.append(Set(members[0][1].prox, columns, owners, arrays))
    return found


def around(
    kind: Kind,
    values: np.ndarray,
    alpha: float,
    weight: np.ndarray,
    parameter: np.ndarray,
    centre: np.ndarray,
) -> np.ndarray:
    r""":math:`w \varphi(x - a)` of a joint kind."""
    return centre + kind.prox(values - centre, alpha * weight, parameter)
