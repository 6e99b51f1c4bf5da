"""Programs of other tools as models: matrices with owners by column, linopy models, MPS files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.errors import DecompositionError
from dald_model.model import Model
from dald_model.text import listed

INFINITE = 1e20
"""Bounds from here on are none, as in MPS files and in the test sets of quadratic programs."""


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
    >>> print(result.status, np.round(result["x"], 4), round(result.value, 4))
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


def from_mps(path: str | PathLike[str], *, owners: Any, name: str | None = None) -> Model:
    r"""An MPS or LP file, as HiGHS reads it, as a model whose columns have owners.

    Parameters
    ----------
    path : path
        Of a linear or convex quadratic program; the package ``highspy`` reads it.
    owners : callable, sequence, dict or int
        A function from a column's name to its owner, ``lambda name: name.split("_")[0]``; or as
        for :func:`from_matrices`.
    name : str
        The model's name, by default the file's.

    Raises
    ------
    DecompositionError
        If the file cannot be read, or has integer columns; and as :func:`from_matrices`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import dald_model as dm
    >>> lines = ["Minimize", " 3 a_x + b_y", "Subject To", " demand: a_x + b_y >= 4"]
    >>> lines += ["Bounds", " 0 <= a_x <= 9", " 0 <= b_y <= 3", "End"]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plants.lp")
    ...     _ = path.write_text("\n".join(lines))
    ...     model = dm.from_mps(path, owners=lambda name: name[0])
    >>> print(list(model.clients), round(model.solve().value, 4))
    ['a', 'b'] 6.0
    """
    highspy = _library("highspy", "from_mps")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(path)) == highspy.HighsStatus.kError:
        raise DecompositionError(
            f"from_mps: HiGHS cannot read {path}; expected the path of an MPS or LP file"
        )
    program, hessian = solver.getLp(), solver.getModel().hessian_
    integer = [at for at, kind in enumerate(program.integrality_) if kind.value != 0]
    names = list(program.col_names_)
    if integer:
        raise DecompositionError(
            f"from_mps: {path} has {len(integer)} integer columns, such as {names[integer[0]]!r}; "
            "expected continuous ones, relax them first"
        )
    held, shape = program.a_matrix_, (program.num_row_, program.num_col_)
    make = sp.csc_array if held.format_ == highspy.MatrixFormat.kColwise else sp.csr_array
    rows = make((np.array(held.value_), np.array(held.index_), np.array(held.start_)), shape=shape)
    bend = None
    if hessian.dim_:
        parts = np.array(hessian.value_), np.array(hessian.index_), np.array(hessian.start_)
        lower = sp.csc_array(parts, shape=(hessian.dim_, hessian.dim_))
        bend = lower + sp.tril(lower, -1).T
    by_name: Callable[[int], Any] = lambda column: owners(names[column])  # noqa: E731
    return from_matrices(
        program.col_cost_,
        rows,
        program.row_lower_,
        program.row_upper_,
        lower=program.col_lower_,
        upper=program.col_upper_,
        quadratic=bend,
        constant=program.offset_,
        maximise=program.sense_ == highspy.ObjSense.kMaximize,
        owners=by_name if callable(owners) else owners,
        name=name or program.model_name_ or str(path),
    )


def from_linopy(program: Any, *, by: Any, name: str = "linopy") -> Model:
    """A linopy model, as PyPSA makes them, as a model with a client for each label of a dimension.

    ``result["x"]`` is in the order of linopy's active variables, ``program.matrices.vlabels``.

    Parameters
    ----------
    program : linopy.Model
        Linear or convex quadratic, without integers and indicators.
    by : str or callable
        A dimension, ``"region"``: who is its label owns what stands there, and each variable
        without it is an owner by itself, named as it is; or a function from a variable's name and
        its coordinates, a dict, to the owner: ``lambda name, at: at["bus"][:2]``.
    name : str
        The model's name.

    Raises
    ------
    DecompositionError
        If no variable has the dimension, or some are integer; and as :func:`from_matrices`.

    Examples
    --------
    See the manual, "Models of other tools".

    >>> import dald_model as dm
    >>> try:
    ...     dm.from_linopy("plants.nc", by="region")
    ... except dm.DecompositionError as error:
    ...     print(error)
    from_linopy: given str, expected a linopy.Model
    """
    if not hasattr(program, "matrices") or not hasattr(program, "variables"):
        raise DecompositionError(
            f"from_linopy: given {type(program).__name__}, expected a linopy.Model"
        )
    held = program.matrices
    if any(kind != "C" for kind in held.vtypes):
        raise DecompositionError(
            "from_linopy: the model has binary, integer or semi-continuous variables, expected "
            "continuous ones; relax them first"
        )
    found: dict[int, Hashable] = {}
    dimensions: set[Hashable] = set()
    for variable, array in program.variables.items():
        labels = array.labels.to_series() if array.labels.ndim else None
        dimensions |= set(array.labels.dims)
        if labels is None:
            found[int(array.labels)] = by(variable, {}) if callable(by) else variable
            continue
        levels = list(labels.index.names)
        for key, label in labels.items():
            at = dict(zip(levels, key if isinstance(key, tuple) else (key,), strict=True))
            found[int(label)] = by(variable, at) if callable(by) else at.get(by, variable)
    if not callable(by) and by not in dimensions:
        raise DecompositionError(
            f"from_linopy: by: no variable has the dimension {by!r}, expected one of "
            f"{listed(sorted(map(str, dimensions)))}, or a function from a variable's name and its "
            "coordinates to its owner"
        )
    sense = np.asarray(held.sense)
    return from_matrices(
        held.c,
        held.A,
        np.where(sense == "<", -np.inf, held.b),
        np.where(sense == ">", np.inf, held.b),
        lower=held.lb,
        upper=held.ub,
        quadratic=held.Q,
        maximise=program.objective.sense == "max",
        owners=[found[int(label)] for label in held.vlabels],
        name=name,
    )


def _library(name: str, where: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise DecompositionError(
            f"{where}: the package {name} is missing; install it by pip install {name}"
        ) from error
