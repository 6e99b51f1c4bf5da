"""The programme of a participant in natural units, in which a round is computed.

Variables are measured so that rows and curvature are of one size, rows so that they are of length
one, and the objective so that slopes are: iterates do not depend on the user's units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.solvers.interior.programme import Group, Programme


class Units(NamedTuple):
    """What the coordinator makes units of: slopes and curvature on shared unknowns, and numbers.

    Of the right sides that are not zero the squares and their number, which are to be added; and
    the largest weight of a norm, slope and curvature of variables that nobody else sees.
    """

    slopes: np.ndarray
    bends: np.ndarray
    square: float
    rights: float
    steepest: float
    private_slope: float
    private_bend: float


class Scaled:
    """A programme and the units that its participant and the coordinator agree on.

    Parameters
    ----------
    programme : Programme
    shared : ndarray of bool, (n + p,)
        Which variables and multipliers of equalities others see; the rest is eliminated.
    """

    def __init__(self, programme: Programme, shared: np.ndarray) -> None:
        self.programme, self.shared = programme, shared
        self._private = np.flatnonzero(~shared)
        self._known = np.flatnonzero(shared)
        self._is_all = not self._private.size
        self.columns = np.ones(programme.size)
        self._squares: list[tuple[Any, Any]] = []
        self.degree = sum(group.cone.degree for group in programme.groups.values())

    def norms(self) -> np.ndarray:
        """Of each shared unknown the squares of its entries and its curvature, in present units.

        Rows are measured in units of their own, so that they are of length one.
        """
        self._sizes = self._measured()
        return self._shown(self._sizes)

    def balance(self, total: np.ndarray) -> None:
        """Take units in which these sums of all participants are nearer to one."""
        full = np.concatenate([self._sizes, np.zeros(self.shared.size - self._sizes.size)])
        full[self.shared] = total
        sizes = full[: self._sizes.size]
        self.columns = self.columns / np.sqrt(np.sqrt(np.where(sizes > 0, sizes, 1.0)))

    def _shown(self, vector: np.ndarray) -> np.ndarray:
        """What others see of a vector over the variables, zero at multipliers."""
        return np.concatenate([vector, np.zeros(self.shared.size - vector.size)])[self.shared]

    def _hidden(self, vector: np.ndarray) -> np.ndarray:
        """What of a vector over the variables nobody else sees."""
        return vector[~self.shared[: vector.size]]

    def _measured(self) -> np.ndarray:
        program, scales = self.programme, self.columns**2
        if not self._squares:
            self._squares = [(key, rows.squares()) for key, rows in self._rows()]
            self._squares += [(term.bends(), term.rows.squares()) for term in program.smooth]
        found = np.abs(_diagonal(program.matrix))
        count = len(program.groups) + 1
        for key, squares in self._squares[:count]:
            lengths = squares @ scales
            if key is not None:
                lengths = self._together(key, lengths)
            found = found + (1 / np.where(lengths > 0, lengths, 1.0)) @ squares
        for bends, squares in self._squares[count:]:
            found = found + np.maximum(bends, 0.0) @ squares
        return found * scales

    def scale(self) -> Units:
        """Have all rows in the present units of the variables."""
        program, columns = self.programme, self.columns
        self._units: dict[Any, np.ndarray] = {}
        groups = {}
        for key, group in program.groups.items():
            lengths = np.sqrt(self._together(key, group.rows.squares() @ columns**2))
            unit = 1 / np.where(lengths > 0, lengths, 1.0)
            self._units[key] = unit
            tops = group.tops
            if tops is not None:
                tops = tops / unit.reshape(tops.size, -1)[:, 0]
            right = group.right * unit
            groups[key] = Group(group.rows.scaled(unit, columns), right, group.cone, tops)
        lengths = program.equal.squares() @ columns**2
        self._equal_unit = 1 / np.where(lengths > 0, np.sqrt(lengths), 1.0)
        self._equal = program.equal.scaled(self._equal_unit, columns)
        self._equal_right = program.equal_right * self._equal_unit
        self._groups = groups
        self._smooth = [
            term._replace(rows=term.rows.scaled(np.ones(term.offset.size), columns))
            for term in program.smooth
        ]
        rights = [self._equal_right, *(group.right for group in groups.values())]
        square = float(sum(right @ right for right in rights))
        tops = [g.tops.max(initial=0.0) for g in groups.values() if g.tops is not None]
        slopes, bends = program.linear * columns, self._measured()
        return Units(
            self._shown(slopes),
            self._shown(bends),
            square,
            float(sum(map(np.count_nonzero, rights))),
            float(max(tops, default=0.0)),
            float(np.abs(self._hidden(slopes)).max(initial=0.0)),
            float(self._hidden(bends).max(initial=0.0)),
        )

    def _stretch(self, length: float) -> None:
        """Measure all variables in this many of the units."""
        self.columns = self.columns * length
        self._equal_unit, self._equal_right = self._equal_unit / length, self._equal_right / length
        for key, group in self._groups.items():
            self._units[key] = self._units[key] / length
            tops = None if group.tops is None else group.tops * length
            self._groups[key] = group._replace(right=group.right / length, tops=tops)
        ones = np.full(self.columns.size, length)
        self._smooth = [
            term._replace(rows=term.rows.scaled(np.ones(term.offset.size), ones))
            for term in self._smooth
        ]

    def _charge(self, cost: float) -> None:
        """Take the objective in the units of the variables, and so many times as large."""
        program, columns = self.programme, self.columns
        self.cost, self._squares = cost, []
        matrix = program.matrix
        if sp.issparse(matrix):
            unit = sp.diags_array(columns)
            self._matrix = sp.csc_array(unit @ matrix @ unit) * cost
        else:
            self._matrix = matrix * (columns[:, None] * columns) * cost
        self._linear = program.linear * columns * cost
        self._smooth = [term._replace(weight=term.weight * cost) for term in self._smooth]
        self._groups = {
            key: group if group.tops is None else group._replace(tops=group.tops * cost)
            for key, group in self._groups.items()
        }

    def _rows(self) -> list[tuple[Any, Any]]:
        groups = self.programme.groups.items()
        return [(None, self.programme.equal), *((key, group.rows) for key, group in groups)]

    def _together(self, key: Any, lengths: np.ndarray) -> np.ndarray:
        """Squared lengths of rows, where the rows of a cone have one unit: the largest of them."""
        kind = key[0]
        if kind == "NonnegativeConeT":
            return lengths
        cone: Any = self.programme.groups[key].cone
        table = lengths.reshape(cone.count, -1)
        return np.repeat(table.max(axis=1), table.shape[1])


def _diagonal(matrix: Any) -> np.ndarray:
    return matrix.diagonal() if sp.issparse(matrix) else np.diag(matrix)
