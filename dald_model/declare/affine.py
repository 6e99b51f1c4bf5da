r"""Matrix and offset of a cvxpy affine expression.

cvxpy builds the same matrices, but from its tree of linear operators, entry by entry: 8 ms for
``A @ x - b`` with 500 x 100 entries, where the answer is A itself. So products with data, sums and
signs are taken from the data here, and every other operator is asked of cvxpy once and kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, reduce
from itertools import accumulate
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import INDEX, DivExpression, NegExpression, Promote, value_of
from dald_model.declare.picked import selected
from dald_model.declare.structure_key import frozen
from dald_model.sizes import CACHED, SPARSE
from dald_model.values import flat


class MadeOnce:
    """What was made of matrices that are never written to, known by the ids of these.

    Couplings of one kind, such as the norms on the edges of a graph, are made of the same ones.
    The matrices are held, so that their ids stay theirs.
    """

    most, small = 256, 4096  # how many are known, and of how many entries: at most 8 MB

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Sequence[Any], Any]] = {}

    def of(self, key: Hashable, matrices: Sequence[Any], make: Callable[[], Any]) -> Any:
        """What was made for this key, in which the matrices stand by their ids."""
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = make()
        if not any(size > self.small for size in accumulate(map(np.size, matrices))):
            if len(self._known) >= self.most:
                self._known.clear()
            self._known[key] = matrices, found
        return found


Matrix = Any
"""A 2-d ndarray or ``scipy.sparse.csr_array``; ``None`` stands for the identity."""
Coefficients = dict[int, Matrix]
"""Variable id -> the matrix that it is multiplied by."""

Value = Callable[[Any], Any]
"""The value of a constant expression."""

Shapes = Mapping[int, tuple[int, ...]]
NO_OTHERS: Shapes = {}

Operator = tuple[list[sp.csr_array], np.ndarray]

_OPERATORS: dict[Hashable, Operator] = {}
_STACKED = MadeOnce()


def affine_map(
    expression: cp.Expression, variables: Sequence[cp.Variable]
) -> tuple[sp.csr_array, np.ndarray]:
    """The matrix and offset of an affine expression in the stacked variables, column-major.

    Returns
    -------
    matrix : csr_array, shape (expression.size, total size of ``variables``)
    offset : ndarray, shape (expression.size,)
        Current values of Parameters enter both.
    """
    if len(variables) == 1 and expression is variables[0]:
        return _whole(math.prod(expression.shape))
    coefficients, offset = affine_parts(expression)
    matrix = side_by_side(coefficients, variables, offset.size)
    found = explicit(matrix, offset.size)
    return found if isinstance(found, sp.csr_array) else sp.csr_array(found), offset


def stacked_map(
    expressions: Sequence[cp.Expression], variables: Sequence[cp.Variable]
) -> tuple[sp.csr_array, np.ndarray]:
    """The same of several expressions, one below the other: many are one matrix at once."""
    if len(expressions) == 1:
        return affine_map(expressions[0], variables)
    starts = dict(zip([v.id for v in variables], _starts([v.size for v in variables]), strict=True))
    known = {id(expression): expression for expression in expressions}  # a server's is everybody's
    made = {key: affine_parts(expression) for key, expression in known.items()}
    parts = [made[id(expression)] for expression in expressions]
    offsets = [offset for _, offset in parts]
    heights = [one.size for one in offsets]
    blocks = [
        (top, starts[key], offset.size, matrix)
        for (coefficients, offset), top in zip(parts, _starts(heights), strict=True)
        for key, matrix in coefficients.items()
    ]
    shape = sum(heights), sum(v.size for v in variables)
    # Most sides are variables, or the same entries of them: one matrix for all that are alike
    key = shape, *((*place, id(matrix)) for *place, matrix in blocks)
    matrices = [matrix for *_, matrix in blocks if matrix is not None]
    if len(blocks) > CACHED:  # a server of many, who have none like it
        return _stacked(blocks, shape), np.concatenate(offsets)
    return _STACKED.of(key, matrices, lambda: _stacked(blocks, shape)), np.concatenate(offsets)


def _stacked(
    blocks: Sequence[tuple[int, int, int, Matrix]], shape: tuple[int, int]
) -> sp.csr_array:
    """The matrix of blocks that each begin in a row and a column, of some heights."""
    alike: dict[tuple[int, int], list[tuple[int, int, Matrix]]] = {}
    for top, left, height, matrix in blocks:
        alike.setdefault((id(matrix), height), []).append((top, left, matrix))
    cells = []
    for (_, height), places in alike.items():
        tops, lefts, matrices = zip(*places, strict=True)
        rows, columns, data = _cells(matrices[0], height)
        each = np.add.outer(tops, rows).ravel(), np.add.outer(lefts, columns).ravel()
        cells.append((*each, np.tile(data, len(places))))
    rows, columns, data = map(np.concatenate, zip(*cells, strict=True))
    return sp.csr_array((data, (rows, columns)), shape=shape)


def present(constant: Any) -> Any:
    """The value that a constant expression has."""
    return constant.value


def affine_parts(
    expression: Any, value: Value = present, shapes: Shapes = NO_OTHERS
) -> tuple[Coefficients, np.ndarray]:
    """Variable id -> matrix of the expression in that variable, and the offset.

    ``value`` gives what stands in the place of constants, and ``shapes``, by the id of a node that
    repeats a number, how it is repeated there. Where others have other rows than the constants it
    must be as :func:`dald_model.compile.representative.is_any_rows` says.
    """
    if isinstance(expression, cp.Variable):
        return {expression.id: None}, np.zeros(math.prod(expression.shape))
    if expression.is_constant():
        return {}, flat(value(expression))
    kind, args = type(expression), expression.args
    if kind is NegExpression:
        coefficients, offset = affine_parts(args[0], value, shapes)
        return _scaled(coefficients, np.full(offset.size, -1.0)), -offset
    if kind is Promote:
        size = math.prod(shapes.get(id(expression), expression.shape))
        return _repeated(size, *affine_parts(args[0], value, shapes))
    if kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args):
        return reduce(_added, [affine_parts(arg, value, shapes) for arg in args])
    fixed = [arg.is_constant() for arg in args]
    weighed = weighed_of(expression, fixed)
    if weighed is not None:
        coefficients, offset = affine_parts(weighed[1], value, shapes)
        factor = factor_of(expression, weighed[0], offset.size, value)
        return _scaled(coefficients, factor), factor * offset
    multiplied = data_of(expression, fixed, value)
    if multiplied is not None:
        data, inner = multiplied
        return _applied(data, *affine_parts(inner, value, shapes))
    return _by_cvxpy(expression, fixed, value)


class Moving:
    """An affine expression to which Parameters are added, and nothing else is done with them.

    Its offset is then theirs and what stays; of any other expression all is asked anew.
    """

    def __init__(self, expression: Any) -> None:
        self._expression, self._terms = expression, _moving(expression)
        if self._terms is not None:
            self._kept = affine_parts(expression, _without_parameters)[1]

    def again(self, before: tuple[Coefficients, np.ndarray]) -> tuple[Coefficients, np.ndarray]:
        """What :func:`affine_parts` gives now, where it gave this before."""
        if self._terms is None:
            return affine_parts(self._expression)
        return before[0], sum((sign * flat(value_of(one)) for sign, one in self._terms), self._kept)


def _moving(expression: Any) -> list[tuple[float, Any]] | None:
    """Constants with Parameters that are added, with signs; None where one is not added."""
    kind, args = type(expression), expression.args
    if not expression.parameters():
        return []
    if expression.is_constant() and kind is not NegExpression:
        return [(1.0, expression)]
    is_sum = kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args)
    if not is_sum and kind is not NegExpression:
        return None
    each = [_moving(arg) for arg in args]
    sign = 1.0 if is_sum else -1.0
    if any(terms is None for terms in each):
        return None
    return [(sign * own, one) for terms in each for own, one in terms or ()]


def _without_parameters(constant: Any) -> Any:
    return np.zeros(constant.shape) if constant.parameters() else constant.value


def weighed_of(expression: Any, fixed: Sequence[bool]) -> tuple[Any, Any] | None:
    """Constant and affine part of a product entry by entry; None of other atoms."""
    kind, args = type(expression), expression.args
    if kind not in (cp.multiply, DivExpression) or sum(fixed) != 1:
        return None
    data, inner = args if fixed[0] else args[::-1]
    is_its = inner.shape == expression.shape and (fixed[1] or kind is cp.multiply)
    return (data, inner) if is_its else None


def factor_of(expression: Any, data: Any, size: int, value: Value = present) -> np.ndarray:
    """What each of so many entries of the affine part is multiplied by."""
    values = flat(value(data))
    if values.size not in (1, size):
        values = np.broadcast_to(value(data), expression.shape).reshape(-1, order="F")
    factor = values if values.size == size else np.full(size, values[0])
    return factor if type(expression) is cp.multiply else 1 / factor


def data_of(
    expression: Any, fixed: Sequence[bool], value: Value = present
) -> tuple[Matrix, Any] | None:
    """The matrix that an affine vector is multiplied by, and that vector; None of other atoms."""
    args = expression.args
    if type(expression) is not cp.MulExpression or not fixed[0]:
        return None
    if len(args[1].shape) != 1 or args[0].ndim == 0:
        return None
    data = value(args[0])
    data = sp.csr_array(data) if sp.issparse(data) else np.atleast_2d(np.asarray(data, float))
    return data, args[1]


def side_by_side(
    coefficients: Coefficients, variables: Sequence[cp.Variable], height: int
) -> Matrix:
    """The matrices of several variables as one, shape (height, total size of ``variables``)."""
    if len(variables) == 1 and coefficients:
        return coefficients[variables[0].id]
    blocks: list[Any] = [
        explicit(coefficients[v.id], v.size)
        if v.id in coefficients
        else sp.csr_array((height, v.size))
        for v in variables
    ]
    if not any(sp.issparse(block) for block in blocks):
        return np.hstack(blocks)
    # scipy reads neighbouring dense blocks as one array of three axes, so all are made sparse.
    matrix = sp.csr_array(sp.hstack([sp.csr_array(block) for block in blocks], "csr"))
    width = sum(v.size for v in variables)
    return matrix.toarray() if matrix.nnz > SPARSE * height * width else matrix


def _starts(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes[:-1]])


def _cells(matrix: Matrix, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of what is stored of a matrix."""
    if matrix is None:
        each = np.arange(size)
        return each, each, np.ones(size)
    found = sp.coo_array(matrix)
    return found.row, found.col, found.data


def explicit(matrix: Matrix, size: int) -> Matrix:
    """The matrix itself where ``None`` stands for the identity."""
    return _identity(size) if matrix is None else matrix


@cache
def _whole(size: int) -> tuple[sp.csr_array, np.ndarray]:
    """The map of a variable to itself, one for all, which nobody may write into."""
    nothing = np.zeros(size)
    nothing.flags.writeable = False
    return _identity(size), nothing


@cache
def _identity(size: int) -> sp.csr_array:
    """One for all: no matrix of an expression is ever written to."""
    return sp.csr_array(sp.eye_array(size, format="csr"))


def _by_cvxpy(
    expression: Any, fixed: Sequence[bool], value: Value
) -> tuple[Coefficients, np.ndarray]:
    """Any affine atom: its linear operator on each argument, as cvxpy builds it."""
    blocks, offset = operator_of(expression, fixed, value)
    free = [arg for arg, is_fixed in zip(expression.args, fixed, strict=True) if not is_fixed]
    found = [_applied(b, *affine_parts(arg, value)) for b, arg in zip(blocks, free, strict=True)]
    return reduce(_added, found, ({}, offset))


def operator_of(expression: Any, fixed: Sequence[bool], value: Value = present) -> Operator:
    """The matrices of an affine atom in its arguments that are not fixed, and its offset; kept."""
    free = [arg for arg, is_fixed in zip(expression.args, fixed, strict=True) if not is_fixed]
    key = None
    if not any(fixed):
        key = type(expression), frozen(expression.get_data()), tuple(arg.shape for arg in free)
    operator = _OPERATORS.get(key) if key else None
    if operator is None:
        operator = _operator(expression, fixed, value)
        if key:
            if len(_OPERATORS) >= CACHED:
                _OPERATORS.clear()
            _OPERATORS[key] = operator
    return operator


def _operator(expression: Any, fixed: Sequence[bool], value: Value) -> Operator:
    """The matrices of an affine atom in its arguments that are not fixed, and its offset."""
    if isinstance(expression, INDEX):
        taken = flat(selected(expression))
        cells = np.ones(taken.size), taken, np.arange(taken.size + 1)
        shape = taken.size, expression.args[0].size
        return [sp.csr_array(cells, shape=shape)], np.zeros(taken.size)
    free = [
        None if f else cp.Variable(a.shape) for a, f in zip(expression.args, fixed, strict=True)
    ]
    atom = expression.copy(
        [_held(a, value) if v is None else v for a, v in zip(expression.args, free, strict=True)]
    )
    variables = [v for v in free if v is not None]
    for v in variables:
        v.save_value(np.ones(v.shape))  # inside the domain of powers, zeros are not
    with np.errstate(all="ignore"):
        level, gradient = flat(atom.value), atom.grad
    if not np.isfinite(level).all() or any(part is None for part in gradient.values()):
        # cvxpy calls zero times any atom affine, but outside of a domain it is not zero.
        raise ValueError(f"{type(expression).__name__} is not affine at ones")
    # The gradient is the transposed Jacobian, and a number where that is 1 x 1
    found = [np.atleast_2d(s) if np.isscalar(s) else s for s in (gradient[v] for v in variables)]
    blocks = [sp.csr_array(block).T.tocsr() for block in found]
    offset = level - sum(block.sum(axis=1) for block in blocks)
    # A sum of n numbers is rounded by at most n eps times the sum of their sizes (Higham 2002, 4.4)
    count = sum(block.shape[1] for block in blocks)
    sizes = sum((abs(block).sum(axis=1) for block in blocks), np.abs(level))
    rounding = count * np.finfo(float).eps * sizes
    return blocks, np.where(np.abs(offset) <= rounding, 0.0, offset)


def _held(constant: Any, value: Value) -> Any:
    """A constant argument of an atom, with what stands in its place."""
    return constant if value is present else cp.Constant(value(constant))


def _repeated(
    size: int, coefficients: Coefficients, offset: np.ndarray
) -> tuple[Coefficients, np.ndarray]:
    """So many rows of an affine number."""
    found = {}
    for key, inner in coefficients.items():
        row = np.ones((1, 1)) if inner is None else inner
        ones = np.ones((size, 1))
        found[key] = sp.csr_array(ones) @ row if sp.issparse(row) else ones * row
    return found, np.repeat(offset, size)


def _applied(
    data: Matrix, coefficients: Coefficients, offset: np.ndarray
) -> tuple[Coefficients, np.ndarray]:
    found = {key: data if inner is None else data @ inner for key, inner in coefficients.items()}
    return found, data @ offset


def _scaled(coefficients: Coefficients, factor: np.ndarray) -> Coefficients:
    return {key: scaled(factor, inner) for key, inner in coefficients.items()}


def scaled(factor: np.ndarray, matrix: Matrix) -> Matrix:
    """diag(factor) @ matrix."""
    if matrix is None:
        each = np.arange(factor.size + 1)
        return sp.csr_array((factor, each[:-1], each), shape=(factor.size, factor.size))
    if sp.issparse(matrix):
        counts = np.diff(matrix.indptr)
        data = matrix.data * np.repeat(factor, counts)
        return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return factor[:, None] * matrix


def _added(
    one: tuple[Coefficients, np.ndarray], two: tuple[Coefficients, np.ndarray]
) -> tuple[Coefficients, np.ndarray]:
    coefficients, offset = dict(one[0]), one[1] + two[1]
    for key, matrix in two[0].items():
        if key in coefficients:
            both = explicit(coefficients[key], offset.size) + explicit(matrix, offset.size)
            coefficients[key] = sp.csr_array(both) if sp.issparse(both) else np.asarray(both)
        else:
            coefficients[key] = matrix
    return coefficients, offset
