r"""Closed forms of proximal operators, read off the rows and terms of a form.

Parikh and Boyd 2014, chapter 6; the simplex by sorting as in Held, Wolfe and Crowder 1974. Those of
many clients are computed together, of many sets of variables of one width at once: operators take
the values, shape (G, width), then :math:`\alpha`, then what the sets are.
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

HOLDING = 1e-9
"""A row whose slack is below this share of its numbers may have a multiplier."""

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
    impossible : str
        Why no point meets the rows; empty if one does.
    weight, centre, lower, upper : ndarray, shape (m,)
    sets : list of VariableSet
        Of variables that are in nothing else.
    """

    text: str
    impossible: str
    weight: np.ndarray
    centre: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sets: list[VariableSet]


class RowCounts(NamedTuple):
    """Rows by how many variables they hold; the column and factor of those that hold one."""

    empty: np.ndarray
    single: np.ndarray
    columns: np.ndarray
    factors: np.ndarray
    several: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> RowCounts:
        """Read them."""
        counts = np.count_nonzero(matrix, axis=1)
        single = np.flatnonzero(counts == 1)
        columns = np.abs(matrix[single]).argmax(axis=1) if single.size else single
        return cls(
            np.flatnonzero(counts == 0),
            single,
            columns,
            matrix[single, columns],
            np.flatnonzero(counts > 1),
        )


def closed_form(form: Form, known: dict[int, RowCounts] | None = None) -> Closed | None:
    """The closed form of the rows and the terms without a gradient; None if it has none here.

    ``known`` keeps what was read of matrices that several forms share.
    """
    if form.extra or not form.complete:
        return None
    reader = _Reader(form, {} if known is None else known)
    if not (reader.reads_terms() and reader.reads_rows()):
        return None
    return reader.found()


class _Reader:
    """Tells what every variable of a form is in."""

    def __init__(self, form: Form, known: dict[int, RowCounts]) -> None:
        size = form.size
        self._form, self._known = form, known
        self._weight, self._centre = np.zeros(size), np.zeros(size)
        self._lower, self._upper = np.full(size, -np.inf), np.full(size, np.inf)
        self._taken = np.zeros(size, dtype=bool)
        self._sets: list[VariableSet] = []
        self._texts: list[str] = []
        self._impossible = ""

    def found(self) -> Closed:
        """All that was read."""
        if np.isfinite(self._lower).any() or np.isfinite(self._upper).any():
            self._texts.append("projection on a box")
        return Closed(
            ", ".join(dict.fromkeys(self._texts)) or "identity",
            self._impossible,
            self._weight,
            self._centre,
            self._lower,
            self._upper,
            self._sets,
        )

    def reads_terms(self) -> bool:
        """Read the terms without a gradient; False where there is no closed form."""
        for term in self._form.terms:
            if term.is_smooth:
                continue
            matrix = sp.csr_array(term.matrix)
            matrix.eliminate_zeros()
            if (np.diff(matrix.indptr) != 1).any():
                return False
            columns, factors = matrix.indices, matrix.data
            if self._taken[columns].any() or np.unique(columns).size < columns.size:
                return False
            self._taken[columns] = True
            centre = -term.offset / factors
            self._texts.append(term.kind.operator)
            sizes = np.abs(factors).reshape(-1, term.width)
            if term.kind.is_polyhedral:
                weight, _ = term.kind.scaled(term.weight, term.parameter, sizes[:, 0])
                self._weight[columns] = weight
                self._centre[columns] = centre
                continue
            if not np.allclose(sizes, sizes[:, :1], rtol=SAME, atol=0.0):
                return False
            shape = -1, term.width
            weight, parameter = term.kind.scaled(term.weight, term.parameter, sizes[:, 0])
            arrays = weight, parameter, centre.reshape(shape)
            operator = partial(around, term.kind)
            self._sets.append(
                VariableSet((term.kind, term.width), operator, columns.reshape(shape), arrays)
            )
        return True

    def reads_rows(self) -> bool:
        """Read the rows; False where there is no closed form."""
        equalities, inequalities = self._form.equalities, self._form.inequalities
        equal, below = self._rows(equalities.matrix), self._rows(inequalities.matrix)
        scale = 1 + np.abs(equalities.rhs).max(initial=0.0)
        if np.abs(equalities.rhs[equal.empty]).max(initial=0.0) > SAME * scale:
            self._impossible = "a row without variables does not hold"
        if (inequalities.rhs[below.empty] < 0).any():
            self._impossible = "a row without variables does not hold"
        with np.errstate(over="ignore"):
            fixed = equalities.rhs[equal.single] / equal.factors
            limits = inequalities.rhs[below.single] / below.factors
        is_upper = below.factors > 0
        np.maximum.at(self._lower, equal.columns, fixed)
        np.minimum.at(self._upper, equal.columns, fixed)
        np.maximum.at(self._lower, below.columns[~is_upper], limits[~is_upper])
        np.minimum.at(self._upper, below.columns[is_upper], limits[is_upper])
        is_bound = np.isfinite(self._lower) | np.isfinite(self._upper)
        in_sets = self._taken & (self._weight == 0)
        if (is_bound & in_sets).any():
            return False
        gap = self._lower - self._upper
        crossed = gap > 0
        if crossed.any():
            middle = (self._lower[crossed] + self._upper[crossed]) / 2
            if (gap[crossed] > SAME * np.maximum(1, np.abs(middle))).any():
                self._impossible = "its bounds leave no value for a variable"
            self._lower[crossed] = self._upper[crossed] = middle
        planes = []
        for rows, several, is_equal in (
            (equalities, equal.several, True),
            (inequalities, below.several, False),
        ):
            for at in several.tolist():
                row, right = rows.matrix[at], float(rows.rhs[at])
                columns = np.flatnonzero(row)
                if self._reads_simplex(columns, row[columns], right, is_equal):
                    continue
                if not is_equal:
                    return False
                planes.append(at)
        return self._reads_planes(planes)

    def _reads_simplex(
        self, columns: np.ndarray, factors: np.ndarray, right: float, is_equal: bool
    ) -> bool:
        """Whether a row is that of a simplex, whose bounds are then no box."""
        factor, lower = factors[0], self._lower[columns]
        is_level = np.abs(factors - factor).max() <= SAME * abs(factor)
        if not is_level or self._taken[columns].any() or not np.isfinite(lower).all():
            return False
        if not is_equal and factor < 0:
            return False
        total = right / factor - lower.sum()
        if (self._upper[columns] < lower + total * (1 - SAME)).any():
            return False
        if total < -SAME * (1 + abs(right / factor)):
            self._impossible = "the sum of some variables is less than that of their lower bounds"
        operator = on_simplices if is_equal else on_full_simplices
        key = operator.__name__, columns.size
        arrays = np.array([max(total, 0.0)]), lower[None]
        self._sets.append(VariableSet(key, operator, columns[None], arrays))
        self._taken[columns] = True
        self._lower[columns], self._upper[columns] = -np.inf, np.inf
        self._texts.append("projection on a simplex")
        return True

    def _reads_planes(self, planes: list[int]) -> bool:
        """Whether the equality rows hold variables that are in nothing else."""
        if not planes:
            return True
        whole = self._form.equalities.matrix[planes]
        columns = np.flatnonzero(whole.any(axis=0))
        rows, right = whole[:, columns], self._form.equalities.rhs[planes]
        is_bound = np.isfinite(self._lower[columns]) | np.isfinite(self._upper[columns])
        if self._taken[columns].any() or is_bound.any():
            return False
        lengths = np.linalg.norm(rows, axis=1)
        rows, right = rows / lengths[:, None], right / lengths
        inverse = np.linalg.pinv(rows, rcond=SAME)
        if np.abs(rows @ (inverse @ right) - right).max() > HOLDING * (1 + np.abs(right).max()):
            self._impossible = "its equalities contradict each other"
        key = "planes", rows.shape, rows.tobytes()
        operator = partial(on_planes, rows, inverse)
        self._sets.append(VariableSet(key, operator, columns[None], (right[None],)))
        self._texts.append("projection on an affine set")
        return True

    def _rows(self, matrix: np.ndarray) -> RowCounts:
        if id(matrix) not in self._known:
            self._known[id(matrix)] = RowCounts.of(matrix)
        return self._known[id(matrix)]


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


def on_simplices(
    values: np.ndarray, alpha: float, total: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    r""":math:`\{x \ge l, \sum x = \sum l + t\}`."""
    offset = values - lower
    # By the largest entry, so that far points lose no digits in the sums
    offset -= offset.max(axis=1, keepdims=True)
    ordered = -np.sort(-offset, axis=1)
    surplus = (np.cumsum(ordered, axis=1) - total[:, None]) / np.arange(1, offset.shape[1] + 1)
    count = np.count_nonzero(ordered > surplus, axis=1)
    level = np.take_along_axis(surplus, np.maximum(count, 1)[:, None] - 1, axis=1)
    return lower + np.maximum(offset - level, 0.0)


def on_full_simplices(
    values: np.ndarray, alpha: float, total: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    r""":math:`\{x \ge l, \sum x \le \sum l + t\}`."""
    found = np.maximum(values, lower)
    is_over = (found - lower).sum(axis=1) > total
    if is_over.any():
        found[is_over] = on_simplices(values[is_over], alpha, total[is_over], lower[is_over])
    return found


def on_planes(
    rows: np.ndarray, inverse: np.ndarray, values: np.ndarray, alpha: float, right: np.ndarray
) -> np.ndarray:
    r""":math:`\{E x = e\}` with the pseudoinverse of E."""
    return values - (values @ rows.T - right) @ inverse.T
