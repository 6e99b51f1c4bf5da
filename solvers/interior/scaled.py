"""The programme of a participant in natural units, in which a round is computed.

Variables are measured so that rows and curvature are of one size, rows so that they are of length
one, and the objective so that slopes are: iterates do not depend on the user's units.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.solvers.interior.programme import EQUAL, Group, Programme
from dald_model.solvers.interior.rows import Rows


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
        self._balanced = np.ones(programme.size)
        self._balanced_of: list[Any] = []
        self._ratios = np.zeros(0)
        self._made: dict[Any, tuple[tuple[Any, ...], Any]] = {}
        self.degree = sum(group.cone.degree for group in programme.groups.values())

    def _once(self, name: Any, make: Callable[[], Any], *of: Any) -> Any:
        """What is made of some objects, which another programme may have as well."""
        known = self._made.get(name)
        if known is None or not all(map(is_, known[0], of)):
            known = self._made[name] = of, make()
        return known[1]

    def renew(self, programme: Programme) -> bool:
        """Take another programme, if nothing but numbers are others; the units stay."""
        is_like = programme.is_like(self.programme)
        if is_like:
            self.programme = programme
        return is_like

    def restart(self) -> bool:
        """Take the units of a programme that is new; whether its balanced ones are known."""
        of, own = self._balanced_of, self._measured_of
        is_known = len(of) == len(own) and all(map(is_, of, own))
        if not is_known:
            self._balanced = np.ones(self.programme.size)
        return is_known

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
        sizes, self._balanced_of = full[: self._sizes.size], self._measured_of
        self._balanced = self._balanced / np.sqrt(np.sqrt(np.where(sizes > 0, sizes, 1.0)))

    def _shown(self, vector: np.ndarray) -> np.ndarray:
        """What others see of a vector over the variables, zero at multipliers."""
        full = np.concatenate([vector, np.zeros(self.shared.size - vector.size)])
        return full if self._is_all else full[self.shared]

    def _hidden(self, vector: np.ndarray) -> np.ndarray:
        """What of a vector over the variables nobody else sees."""
        return vector[:0] if self._is_all else vector[~self.shared[: vector.size]]

    @property
    def _measured_of(self) -> list[Any]:
        program = self.programme
        known = [program.matrix, *(rows for _, rows in self._rows())]
        return known + [v for one in program.smooth for v in (one.rows, one.offset, one.weight)]

    def _measured(self) -> np.ndarray:
        return self._once("measured", self._sized, self._balanced, *self._measured_of)

    def _sized(self) -> np.ndarray:
        program, scales = self.programme, self._balanced**2
        found = np.abs(_diagonal(program.matrix))
        for key, rows in self._rows():
            found = found + self._unit(key, rows) ** 2 @ rows.squares
        for at, term in enumerate(program.smooth):
            bends = self._once(("bends", at), term.bends, term.offset, term.weight)
            found = found + term.rows.weighed(np.maximum(bends, 0.0))
        return found * scales

    def _unit(self, key: Any, rows: Rows) -> np.ndarray:
        """In which rows are of length one in balanced units of the variables."""

        def made() -> np.ndarray:
            lengths = rows.squares @ self._balanced**2
            lengths = self._together(key, lengths)
            return 1 / np.where(lengths > 0, np.sqrt(lengths), 1.0)

        return self._once(("unit", key), made, rows, self._balanced)

    def scale(self) -> Units:
        """What the units of the program are made of, where variables are balanced."""
        program, columns = self.programme, self._balanced
        units = {key: self._unit(key, rows) for key, rows in self._rows()}
        rights = [program.equal_right * units[EQUAL]]
        rights += [group.right * units[key] for key, group in program.groups.items()]
        square = float(sum(right @ right for right in rights))
        tops = [self._tops(key, group, units[key]) for key, group in program.groups.items()]
        slopes, bends = program.linear * columns, self._measured()
        return Units(
            self._shown(slopes),
            self._shown(bends),
            square,
            float(sum(map(np.count_nonzero, rights))),
            float(max([one.max(initial=0.0) for one in tops if one is not None], default=0.0)),
            float(np.abs(self._hidden(slopes)).max(initial=0.0)),
            float(self._hidden(bends).max(initial=0.0)),
        )

    def take_units(self, length: float, cost: float) -> None:
        """Measure variables in so many times their balanced units, and multiply the objective."""
        program, even = self.programme, self._balanced
        self.cost = cost
        self.columns = self._once(("columns", length), lambda: even * length, even)
        columns = self.columns
        evened = {}
        for key, rows in self._rows():
            unit = self._unit(key, rows)
            evened[key] = self._once(("rows", key), partial(rows.scaled, unit, even), rows, unit)
        self._equal = evened[EQUAL]
        self._equal_unit = self._unit(EQUAL, program.equal) / length
        self._equal_right = program.equal_right * self._equal_unit
        self._largest = float(np.abs(self._equal_right).max(initial=0.0))
        self._units: dict[Any, np.ndarray] = {}
        self._groups = {}
        for key, group in program.groups.items():
            self._units[key] = unit = self._unit(key, group.rows) / length
            tops = self._tops(key, group, unit)
            tops = None if tops is None else tops * cost
            right = group.right * unit
            self._largest = max(self._largest, float(np.abs(right).max(initial=0.0)))
            self._groups[key] = Group(evened[key], right, group.cone, tops)
        self._smooth = [
            term._replace(
                rows=self._once(
                    ("smooth", at),
                    partial(term.rows.scaled, None, columns),
                    term.rows,
                    columns,
                ),
                weight=term.weight * cost,
            )
            for at, term in enumerate(program.smooth)
        ]
        self._linear = program.linear * columns * cost
        self._matrix = self._once(("matrix", cost), self._bent_matrix, program.matrix, columns)

    def _bent_matrix(self) -> Any:
        matrix, columns = self.programme.matrix, self.columns
        if sp.issparse(matrix):
            unit = sp.diags_array(columns)
            return sp.csc_array(unit @ matrix @ unit) * self.cost
        return matrix * (columns[:, None] * columns) * self.cost

    @staticmethod
    def _tops(key: Any, group: Group, unit: np.ndarray) -> np.ndarray | None:
        """The heads' weights where their cones have these units."""
        return None if group.tops is None else group.tops / unit.reshape(group.tops.size, -1)[:, 0]

    def _rows(self) -> list[tuple[Any, Rows]]:
        groups = self.programme.groups.items()
        return [(EQUAL, self.programme.equal), *((key, group.rows) for key, group in groups)]

    def _together(self, key: Any, lengths: np.ndarray) -> np.ndarray:
        """Squared lengths of rows, where the rows of a cone have one unit: the largest of them."""
        if key[0] in ("ZeroConeT", "NonnegativeConeT"):
            return lengths
        cone: Any = self.programme.groups[key].cone
        table = lengths.reshape(cone.count, -1)
        return np.repeat(table.max(axis=1), table.shape[1])


def _diagonal(matrix: Any) -> np.ndarray:
    return matrix.diagonal() if sp.issparse(matrix) else np.diag(matrix)
