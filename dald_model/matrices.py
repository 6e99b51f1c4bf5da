"""A linear or quadratic program in matrices, whose columns have owners, as a model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.errors import DecompositionError
from dald_model.model import Model
from dald_model.sizes import INFINITE
from dald_model.text import listed


class Rows(NamedTuple):
    """Rows of a program: low <= matrix x <= high."""

    matrix: Any
    low: np.ndarray
    high: np.ndarray

    def of(self, which: Any) -> Rows:
        """Some of them."""
        return Rows(self.matrix[which], self.low[which], self.high[which])

    def constraints(self, x: Any, columns: np.ndarray) -> list[cp.Constraint]:
        """What they say of the variables ``x``, those of these columns; equalities first."""
        found, matrix = [], self.matrix[:, columns]
        equal = self.low == self.high
        above = (self.low > -INFINITE) & ~equal
        below = (self.high < INFINITE) & ~equal
        if equal.any():
            found.append(matrix[np.flatnonzero(equal)] @ x == self.low[equal])
        if above.any():
            found.append(matrix[np.flatnonzero(above)] @ x >= self.low[above])
        if below.any():
            found.append(matrix[np.flatnonzero(below)] @ x <= self.high[below])
        return found


def from_matrices(
    cost: Any,
    rows: Any,
    low: Any,
    high: Any,
    *,
    owners: Any,
    lower: Any = -np.inf,
    upper: Any = np.inf,
    quadratic: Any = None,
    constant: float = 0.0,
    maximise: bool = False,
    name: str = "program",
) -> Model:
    r"""A linear or quadratic program whose columns have owners, as a model.

    .. math::
        \min_x \tfrac12 x^\top P x + c^\top x + d \quad\text{s.t. }
        \text{low} \le A x \le \text{high},\; \text{lower} \le x \le \text{upper}

    Each owner is a client with its columns of cost and bounds and the rows that touch no other's;
    rows of several owners are couplings, one for each set of owners. ``result["x"]`` is the whole
    solution in the order of the columns, and the prices of rows are the couplings' dual values.

    Parameters
    ----------
    cost : array, shape (n,)
        c.
    rows : array or sparse array, shape (m, n)
        A.
    low, high : array, shape (m,), or float
        Equal where a row is an equality; of absolute value 1e20 or more where there is no bound.
    owners : sequence, dict, int or callable
        The owner of each column, n names; a dict from owners to their columns; a number of
        clients, who are dealt successive columns, those that P ties together; or a function from
        a column's number to its owner.
    lower, upper : array, shape (n,), or float
        Bounds of the variables; by default there are none.
    quadratic : array or sparse array, shape (n, n)
        P, symmetric and positive semidefinite; it may tie columns of one owner only.
    constant : float
        d.
    maximise : bool
        Whether the objective is maximised; P is then negative semidefinite.
    name : str
        The model's name.

    Raises
    ------
    DecompositionError
        If shapes do not fit, columns have no owner, or P ties columns of two owners.
    DeclarationError
        If P is not positive semidefinite, or data are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import dald_model as dm
    >>> model = dm.from_matrices(
    ...     cost=[-4.0, -2.0, -6.0], rows=[[1.0, 1.0, 1.0]], low=-np.inf, high=[3.0], lower=0.0,
    ...     quadratic=2 * np.eye(3), owners=["north", "north", "south"],
    ... )
    >>> result = model.solve()
    >>> print(result.status, np.round(result["x"], 4) + 0.0, round(result.value, 4))
    optimal [1. 0. 2.] -11.0
    """
    linear = np.asarray(cost, dtype=float)
    if linear.ndim != 1:
        raise DecompositionError(f"from_matrices: cost has shape {linear.shape}, expected (n,)")
    size = linear.size
    matrix: Any = sp.csr_array(rows, dtype=float)
    if matrix.shape[1] != size:
        raise DecompositionError(
            f"from_matrices: rows have shape {matrix.shape} and cost has {size} entries, expected "
            f"rows of {size} columns"
        )
    matrix.eliminate_zeros()
    height = matrix.shape[0]
    held = Rows(matrix, _filled("low", low, height), _filled("high", high, height))
    sides = _filled("lower", lower, size), _filled("upper", upper, size)
    bounds = Rows(sp.eye_array(size, format="csr"), *sides)
    bend = None if quadratic is None else sp.csr_array(quadratic, dtype=float)
    if bend is not None and bend.shape != (size, size):
        raise DecompositionError(
            f"from_matrices: quadratic has shape {bend.shape}, expected ({size}, {size})"
        )
    whose = _owned(owners, bend, size)
    return _declared(name, linear, held, bounds, bend, constant, maximise, whose)


def _filled(what: str, given: Any, size: int) -> np.ndarray:
    found = np.asarray(given, dtype=float)
    if found.shape not in ((), (size,)):
        raise DecompositionError(
            f"from_matrices: {what} has shape {found.shape}, expected ({size},) or a number"
        )
    return np.broadcast_to(found, (size,))


def _owned(owners: Any, bend: Any, size: int) -> list[Hashable]:
    """The owner of each column."""
    if isinstance(owners, int) and not isinstance(owners, bool):
        return _dealt(owners, bend, size)
    found: list[Any] = [None] * size
    if isinstance(owners, Mapping):
        for owner, columns in owners.items():
            for column in np.atleast_1d(np.asarray(columns, dtype=int)):
                if not -size <= column < size or found[column] is not None:
                    raise DecompositionError(
                        f"from_matrices: owners: column {column} of {owner!r} "
                        f"{'is of ' + repr(found[column]) if -size <= column < size else 'is none'}"
                        f", expected each of the {size} columns once"
                    )
                found[column] = owner
    elif callable(owners):
        found = [owners(column) for column in range(size)]
    elif isinstance(owners, Sequence | np.ndarray) and not isinstance(owners, str):
        found = list(owners.tolist() if isinstance(owners, np.ndarray) else owners)
    if len(found) != size or any(owner is None for owner in found):
        missing = [at for at, owner in enumerate(found) if owner is None]
        raise DecompositionError(
            f"from_matrices: owners: {len(found) - len(missing)} of {size} columns have an owner"
            f"{', not ' * bool(missing)}{listed(missing)}; expected the owner of each column, a "
            "dict from owners to columns, a number of clients, or a function of a column's number"
        )
    return found


def _dealt(count: int, bend: Any, size: int) -> list[Hashable]:
    """Successive columns to so many owners; those that P ties stay together."""
    if not 2 <= count <= size:
        raise DecompositionError(
            f"from_matrices: owners: given {count}, expected 2 clients or more, and at most a "
            f"client a column, {size}"
        )
    tied = sp.csr_array((size, size)) if bend is None else bend
    _, label = connected_components(tied, directed=False)
    firsts, sizes = np.unique(label, return_index=True)[1], np.bincount(label)
    found, dealt = np.zeros(size, dtype=int), 0
    for part in np.argsort(firsts):
        found[label == part] = min(count - 1, dealt * count // size)
        dealt += sizes[part]
    return found.tolist()


def _declared(
    name: str,
    cost: np.ndarray,
    rows: Rows,
    bounds: Rows,
    bend: Any,
    constant: float,
    maximise: bool,
    owners: list[Hashable],
) -> Model:
    model, x = Model(name), cp.Variable(cost.size, name="x")
    model.may_part = True  # an owner may have nothing to do with the others
    names = list(dict.fromkeys(owners))
    place = {owner: at for at, owner in enumerate(names)}
    at = np.array([place[owner] for owner in owners])
    if bend is not None:
        _check_ties(bend, at, names)
    touched = [
        tuple(sorted(set(at[rows.matrix.indices[start:stop]].tolist())))
        for start, stop in zip(rows.matrix.indptr[:-1], rows.matrix.indptr[1:], strict=True)
    ]
    together: dict[tuple[int, ...], list[int]] = {}
    for row, ends in enumerate(touched):
        together.setdefault(ends or (0,), []).append(row)
    kind = cp.Maximize if maximise else cp.Minimize
    for owner, index in place.items():
        columns = np.flatnonzero(at == index)
        mine: Any = x[columns]
        goal: Any = cost[columns] @ mine + (constant if index == 0 else 0.0)
        if bend is not None and bend[columns].nnz:
            own = bend[columns][:, columns]
            goal += (-1 if maximise else 1) * cp.quad_form(
                mine, cp.psd_wrap((-own if maximise else own) / 2)
            )
        rules = bounds.of(columns).constraints(mine, columns)
        rules += rows.of(together.get((index,), [])).constraints(mine, columns)
        model.client(owner, kind(goal), rules)
    for ends, which in together.items():
        if len(ends) > 1:
            columns = np.flatnonzero(np.isin(at, ends))
            model.couple(*rows.of(which).constraints(x[columns], columns))
    return model


def _check_ties(bend: Any, at: np.ndarray, names: Sequence[Hashable]) -> None:
    """Refuse a P that ties columns of two owners."""
    ties: Any = sp.coo_array(bend)
    for row, column, value in zip(*ties.coords, ties.data, strict=True):
        if value and at[row] != at[column]:
            raise DecompositionError(
                f"from_matrices: quadratic ties column {row} of {names[int(at[row])]!r} to column "
                f"{column} of {names[int(at[column])]!r}; expected ties between columns of one "
                "owner: give both to one, or write the product by a column of its own, "
                "y = x1 + x2, whose square one of them has"
            )
