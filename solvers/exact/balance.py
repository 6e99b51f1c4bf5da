r"""Units of a cone program's rows and of the variables that cvxpy added, where numbers are extreme.

The client's own variables have lengths. What is left has units as well: a row of the linear cones
each, any other cone one, and an added variable :math:`y_j`, such as the :math:`10^9` of
:math:`|t|^{3/2}` in dollars, has that of the rows in which it stands. Clarabel finds them by
itself up to a factor of :math:`10^4`, but of no right-hand side, and never inside a cone. Here
they are those for which the stored numbers, right-hand sides included, are nearest to one:

.. math:: \min_{r, c} \sum_{a_{ij} \ne 0} \bigl(\log |a_{ij}| + r_i + c_j\bigr)^2

(Curtis and Reid 1972), with :math:`c_j` known for the client's own variables and zero for
right-hand sides. A cone :math:`x^\top x \le a b`, which cvxpy writes as :math:`|(a - b, 2 x)| \le
a + b`, has two units: :math:`(2^p a, 2^q b, 2^{(p + q) / 2} x)` is in it where :math:`(a, b, x)`
is. Without that the smaller of a and b has lost as many digits as the larger one has more.

All units are powers of two, so that no number is rounded. Sizes of numbers say nothing of what
they cancel to, as far from the origin; so a program is written so only where it has to be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from dald_model.compile.form import LINEAR, ConeProgram, cone_height
from dald_model.sizes import DEPENDENT

EXTREME = 1e4
"""Factor between the largest numbers of two rows up to which Clarabel balances them itself."""
UNIT_TOLERANCE = 1e-4
"""How exactly units are found, relative to the digits of the numbers."""


class Balance(NamedTuple):
    """Units of a cone program's rows and added variables.

    Attributes
    ----------
    lengths : ndarray, shape (n,)
        Of all variables; the client's own are as they were given.
    cells : ndarray
        What each stored number of the rows is multiplied by.
    rhs : ndarray
        The right-hand sides in these units.
    units : ndarray
        What rows are multiplied by; where ``pairs`` has them, what a and b are.
    pairs : ndarray, shape (k, 2)
        The two rows a + b and a - b of the cones that have two units.
    """

    lengths: np.ndarray
    cells: np.ndarray
    rhs: np.ndarray
    units: np.ndarray
    pairs: np.ndarray

    def restored(self, multipliers: np.ndarray) -> np.ndarray:
        """The multipliers of the rows as they were, of those in these units."""
        found = self.units * multipliers
        one, two = self.pairs.T
        total, apart = multipliers[one] + multipliers[two], multipliers[one] - multipliers[two]
        found[one] = (self.units[one] * total + self.units[two] * apart) / 2
        found[two] = (self.units[one] * total - self.units[two] * apart) / 2
        return found


def is_extreme(cone: ConeProgram, lengths: np.ndarray) -> bool:
    """Whether rows differ by more than solvers balance, in these lengths of all variables, (n,)."""
    rows, most = cone.rows, np.abs(cone.rhs)
    columns = np.repeat(lengths, np.diff(rows.indptr))
    np.maximum.at(most, rows.indices, np.abs(rows.data) * columns)
    most = most[most > 0]
    return bool(most.size) and bool(most.max() > EXTREME * most.min())


def balance(cone: ConeProgram, lengths: np.ndarray) -> Balance:
    """Units that bring numbers near to one; those of ``lengths``, (n,), that are NaN are found."""
    width, height = cone.linear.size, cone.rhs.size
    stored = sp.coo_array(cone.rows)
    row = np.concatenate([stored.row, np.arange(height)])
    col = np.concatenate([stored.col, np.full(height, width)])
    data = np.concatenate([stored.data, cone.rhs])
    one, two, pairs = _units_of_cells(cone, row, col, data)
    is_asked = np.append(np.isnan(lengths), False)
    known = np.append(np.log2(np.where(is_asked[:-1], 1.0, lengths)), 0.0)
    told = np.flatnonzero(data)
    where = height + np.cumsum(is_asked) - 1
    # One number a row where both units are one, as of linear cones, then that of the length
    own, other = one[told], two[told]
    stands = np.ones((told.size, 3), dtype=bool)
    stands[:, 1], stands[:, 2] = own != other, is_asked[col[told]]
    shares = np.column_stack(
        [np.where(stands[:, 1], 0.5, 1.0), np.full(told.size, 0.5), np.ones(told.size)]
    )
    unknowns = np.column_stack([np.minimum(own, other), np.maximum(own, other), where[col[told]]])
    starts = np.concatenate([[0], np.cumsum(stands.sum(axis=1))])
    shape = told.size, height + int(is_asked.sum())
    system = sp.csr_array((shares[stands], unknowns[stands], starts), shape=shape)
    right = -np.log2(np.abs(data[told])) - known[col[told]]
    found = lsmr(system, right, atol=UNIT_TOLERANCE, btol=UNIT_TOLERANCE)[0]
    # Even ones, as a cone with two units has rows with the mean of them
    exponents = 2 * np.round(found[:height] / 2)
    factors = np.exp2((exponents[one] + exponents[two]) / 2)
    whole = lengths.copy()
    whole[is_asked[:-1]] = np.exp2(np.round(found[height:]))
    units = np.ones(height)
    units[row] = factors  # one for all numbers of a row
    units[pairs] = np.exp2(exponents[pairs])
    count = stored.nnz
    return Balance(whole, factors[:count], factors[count:] * cone.rhs, units, pairs)


def lengths_of_linear(rows: np.ndarray, rhs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Those of the variables, (n,), of dense linear rows, (p, n), where ``lengths`` are NaN.

    By the normal equations, for few rows and variables, where a sparse system takes far longer to
    make than to solve.
    """
    height, is_asked = rhs.size, np.isnan(lengths)
    sizes = np.abs(np.column_stack([rows * np.where(is_asked, 1.0, lengths), rhs]))
    stands = sizes > 0
    logarithms = np.log2(np.where(stands, sizes, 1.0))
    asked = np.flatnonzero(is_asked)
    both = np.zeros((height + asked.size, height + asked.size))
    both[:height, height:] = stands[:, asked]
    both += both.T
    np.fill_diagonal(both, [*stands.sum(axis=1), *stands[:, asked].sum(axis=0)])
    right = -np.concatenate([logarithms.sum(axis=1), logarithms[:, asked].sum(axis=0)])
    found = lengths.copy()
    found[asked] = np.exp2(np.round(np.linalg.lstsq(both, right, DEPENDENT)[0][height:]))
    return found


def _units_of_cells(
    cone: ConeProgram, row: np.ndarray, col: np.ndarray, data: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two units, as the first rows that have them, whose mean each stored number has.

    And the pairs of rows of the cones that have two.
    """
    first = np.arange(cone.rhs.size)
    if all(kind in LINEAR for kind, _ in cone.cones):
        return first[row], first[row], np.zeros((0, 2), dtype=int)
    shape = cone.rhs.size, cone.linear.size + 1
    whole = sp.csr_array(sp.coo_array((data, (row, col)), shape=shape))
    whole.sort_indices()
    second, pairs, start = first.copy(), [], 0
    for kind, argument in cone.cones:
        stop = start + cone_height(kind, argument)
        if kind not in LINEAR:
            first[start:stop] = second[start:stop] = start
            if kind == "SecondOrderConeT" and stop - start > 1 and _is_pair(whole, start):
                second[start:stop] = start + 1
                pairs.append((start, start + 1))
        start = stop
    one, two = first[row], second[row]
    found = np.array(pairs, dtype=int).reshape(-1, 2)
    if found.size:
        signs = np.zeros(cone.rhs.size, dtype=bool)
        signs[found] = True
        upper = found.max(axis=1)  # a + b are the rows before them
        other = np.arange(cone.rhs.size)
        other[found[:, 0]], other[upper] = upper, found[:, 0]
        mine = np.flatnonzero(signs[row] & (data != 0))
        values = np.asarray(whole[other[row[mine]], col[mine]]).reshape(-1)
        is_same = values * data[mine] > 0
        both = np.where(is_same, one[mine], two[mine])
        one[mine] = two[mine] = both
    return one, two, found


def _is_pair(whole: sp.csr_array, start: int) -> bool:
    """Whether this row and the next one are a + b and a - b."""
    begin, middle, end = whole.indptr[start : start + 3]
    upper, lower = whole.data[begin:middle], whole.data[middle:end]
    return (
        np.array_equal(whole.indices[begin:middle], whole.indices[middle:end])
        and np.array_equal(np.abs(upper), np.abs(lower))
        and bool((upper * lower > 0).any() and (upper * lower < 0).any())
    )
