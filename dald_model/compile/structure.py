r"""Client split where it becomes affine.

Objective and constraints are taken apart as

.. math:: f(x) = s(y_1, \dots, y_k), \qquad y_j = F_j x + f_j,

so that s, over plain variables y, holds no data but the numbers that multiply nonlinear parts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    DivExpression,
    Equality,
    Inequality,
    NegExpression,
    arguments,
    indicator,
    is_affine_throughout,
)
from dald_model.compile.row_replication import APART, is_row_sum, uniform
from dald_model.declare.affine import Value, present
from dald_model.declare.client import Client
from dald_model.declare.structure_key import frozen
from dald_model.eigen import eigh

Source = Callable[[Value], np.ndarray]
"""A number, from what gives the values of constants."""
DENSE = (np.ndarray, np.float64)
"""What most of them are: it takes scipy its time to say that they are not sparse."""


class Node(NamedTuple):
    """One part of s: an expression or a constraint.

    Attributes
    ----------
    key : Hashable
        Equal for parts that differ in their pieces and numbers only.
    build : callable
        Makes the part again in cvxpy, from the variables that stand for the pieces and the
        factors that stand for the numbers, both as lists over the whole client.
    """

    key: Hashable
    build: Callable[[Sequence[cp.Variable], Sequence[Any]], Any]


class SplitClient(NamedTuple):
    """A client split where it becomes affine.

    Attributes
    ----------
    cost : Node
    rules : list of Node
        The client's constraints, in order.
    attributed : list of Node
        What the attributes of its variables, such as ``nonneg``, say: further constraints.
    pieces : list of cp.Expression
        The affine expressions y.
    numbers : list of ndarray
        Constants that nonlinear parts are multiplied by.
    groups : list of int
        Which pieces the same sum over rows is taken of, of which a template has one entry;
        :data:`dald_model.compile.row_replication.APART` for all others.
    whole : bool
        Whether it was split at its variables only; then it shares its template with no other.
    sources : list of callables
        Where the numbers come from: of what gives the value of a constant expression.
    fixed : list of cp.Expression
        Constants that stand in the template by their values.
    is_lasting : bool
        Whether nothing but pieces and numbers changes with the values of the user's Parameters.
    moving : list of int
        The numbers that do.
    offsets : list of int
        The pieces without variables.
    """

    cost: Node
    rules: list[Node]
    attributed: list[Node]
    pieces: list[Any]
    numbers: list[np.ndarray]
    groups: list[int]
    whole: bool
    sources: list[Source]
    fixed: list[Any]
    is_lasting: bool
    moving: list[int]
    offsets: list[int]

    def again(self) -> SplitClient | None:
        """The same with the present values of the user's Parameters.

        None where it takes another split: where a number has another sign, or more has changed.
        """
        if not self.is_lasting:
            return None
        if not self.moving:
            return self
        numbers = list(self.numbers)
        for at in self.moving:
            numbers[at] = self.sources[at](present)
            if not _is_alike(numbers[at], self.numbers[at]):
                return None
        return self._replace(numbers=numbers)

    def with_numbers(self, value: Value) -> SplitClient | None:
        """The same with other values of constants; None where a number has another sign."""
        numbers = [source(value) for source in self.sources]
        is_same = all(map(_is_alike, numbers, self.numbers))
        return self._replace(numbers=numbers) if is_same else None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Those of the pieces in a template."""
        pairs = zip(self.pieces, self.groups, strict=True)
        return [piece.shape if group == APART else (1,) for piece, group in pairs]

    @property
    def key(self) -> Hashable:
        """Equal for clients with the same template."""
        if self.whole:
            return object()
        return tuple(node.key for node in (self.cost, *self.rules, *self.attributed))


def split(client: Client, *, whole: bool = False, by_rows: bool = False) -> SplitClient:
    """Split a client at its affine parts, or if ``whole`` at its variables, sharing nothing.

    With ``by_rows`` the pieces of sums over rows are in groups.
    """
    visitor = StructureVisitor(whole)
    cost = visitor.expression(client.cost, is_summand=by_rows)
    rules = [visitor.constraint(rule) for rule in client.constraints]
    attributed = [visitor.attributes(v) for v in client.variables if given_attributes(v)]
    found = visitor.pieces, visitor.numbers, visitor.groups
    kept = visitor.sources, visitor.fixed, visitor.is_lasting, visitor.moving, visitor.offsets
    return SplitClient(cost, rules, attributed, *found, whole, *kept)


def _is_alike(now: np.ndarray, then: np.ndarray) -> bool:
    if now.size == then.size == 1:  # as most are
        one, two = now.item(), then.item()
        return now.shape == then.shape and (one >= 0, one <= 0) == (two >= 0, two <= 0)
    return now.shape == then.shape and _signs(now) == _signs(then)


def _signs(value: np.ndarray) -> tuple[bool, bool]:
    return bool((value >= 0).all()), bool((value <= 0).all())


class StructureVisitor:
    """The one pass over a client's expressions, which collects its pieces and numbers."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.pieces: list[Any] = []
        self.numbers: list[np.ndarray] = []
        self.sources: list[Source] = []
        self.moving: list[int] = []
        self.offsets: list[int] = []
        self.fixed: list[Any] = []
        self.is_lasting = not whole
        self.groups: list[int] = []
        self._group, self._count = APART, 0
        self._affine: dict[int, bool] = {}  # by id: the client holds its expressions meanwhile

    def expression(self, given: Any, *, is_summand: bool = False, is_bound: bool = False) -> Node:
        """The node of an expression and all below it; of a summand sums over rows are told.

        A constant that is added to a side of a constraint, as the bound in ``norm(x) <= 2``, is a
        piece without variables: an offset of rows, which are data, and no number of the template.
        """
        if is_bound and not self.whole and given.is_constant():
            at, shape = self._add_piece(given), given.shape
            self.offsets.append(at)
            return Node(("offset", shape), lambda pieces, _: pieces[at])
        if is_summand and is_row_sum(given, self._is_affine):
            return self._row_sum(given)
        if self._is_piece(given):
            at = self._add_piece(given)
            return Node(self._shape(given), lambda pieces, _: pieces[at])
        if self._is_square(given):
            self._lasts_without([given])
            sign, factor = root(given)
            at = self._add_piece(factor)
            key = "square", sign, factor.shape
            return Node(key, lambda pieces, _: sign * cp.sum_squares(pieces[at]))
        if given.is_constant():
            self._lasts_without([given])
            self.fixed.append(given)
            if self._group != APART:
                number = cp.Constant(uniform(given))
                return Node(("constant", frozen(number.value)), lambda *_: number)
            return Node(("constant", frozen(numeric(given))), lambda *_: _fixed(given))
        weighted = self._weighted(given)
        if weighted is not None:
            return self._product(given, *weighted, is_summand=is_summand)
        self._lasts_without(given.get_data())
        if isinstance(given, indicator):  # whose arguments are constraints
            rules = [self.constraint(rule) for rule in given.args]
            key = indicator, given.err_tol, *(rule.key for rule in rules)
            return Node(key, lambda *stand_ins: indicator([r.build(*stand_ins) for r in rules]))
        is_sum = is_summand and type(given) is cp.AddExpression and given.shape == ()
        is_bound = is_bound and type(given) in (cp.AddExpression, NegExpression)
        args = [self.expression(a, is_summand=is_sum, is_bound=is_bound) for a in given.args]
        key = type(given), frozen(given.get_data()), *(arg.key for arg in args)
        return Node(key, lambda *stand_ins: given.copy([arg.build(*stand_ins) for arg in args]))

    def _row_sum(self, given: Any) -> Node:
        """The node of a sum over rows, of which the template has one."""
        self._group, self._count = self._count, self._count + 1
        args = [self.expression(arg) for arg in given.args]
        self._group = APART
        key = "rows", type(given), *(arg.key for arg in args)
        return Node(key, lambda *stand_ins: given.copy([arg.build(*stand_ins) for arg in args]))

    def _shape(self, piece: Any) -> tuple[int, ...]:
        """That of a piece in the template."""
        return piece.shape if self._group == APART else (1,)

    def constraint(self, rule: cp.Constraint) -> Node:
        """The node of a constraint."""
        data = arguments(rule)
        self._lasts_without(data)
        is_bound = isinstance(rule, Inequality | Equality)
        parts = [self.expression(part, is_bound=is_bound) for part in parts_of(rule)]
        key = type(rule), frozen(data), *(part.key for part in parts)
        kind = type(rule)
        return Node(key, lambda *given: _stated(kind, data, [part.build(*given) for part in parts]))

    def attributes(self, variable: cp.Variable) -> Node:
        """The node that says what a variable's attributes say."""
        given, shape = given_attributes(variable), variable.shape
        pairs = enumerate(zip(self.pieces, self.groups, strict=True))
        known = (at for at, (one, group) in pairs if one is variable and group == APART)
        at = next(known, None) if "PSD" in given or "NSD" in given else None
        at = self._add_piece(variable) if at is None else at
        key = shape, frozen([*given.items()]), at
        return Node(key, lambda pieces, _: cp.Variable(shape, **given) == pieces[at])

    def _product(self, given: Any, source: Source, nonlinear: Any, *, is_summand: bool) -> Node:
        """The node of a nonlinear part times a number."""
        if self._group != APART:
            source = _one_of(source)
            self._lasts_without(given.args)
        at, value = len(self.numbers), source(present)
        self.numbers.append(value)
        self.sources.append(source)
        if any(arg.parameters() for arg in given.args if arg is not nonlinear):
            self.moving.append(at)
        inner = self.expression(nonlinear, is_summand=is_summand and given.shape == ())
        place = [arg is nonlinear for arg in given.args]
        signs = _signs(value)

        def build(pieces: Sequence[cp.Variable], factors: Sequence[Any]) -> Any:
            rest, factor = inner.build(pieces, factors), factors[at]
            if isinstance(given, DivExpression):
                return cp.multiply(factor, rest)
            return given.copy([rest if is_rest else factor for is_rest in place])

        return Node((type(given), tuple(place), value.shape, signs, inner.key), build)

    def _add_piece(self, expression: Any) -> int:
        self.pieces.append(expression)
        self.groups.append(self._group)
        return len(self.pieces) - 1

    def _is_piece(self, expression: Any) -> bool:
        """Whether the client is split here."""
        if isinstance(expression, cp.Variable):
            return True
        return not (self.whole or expression.is_constant()) and self._is_affine(expression)

    def _is_affine(self, expression: Any) -> bool:
        """See :func:`dald_model._cvxpy.is_affine_throughout`; asked once."""
        known = self._affine.get(id(expression))
        if known is None:
            known = self._affine[id(expression)] = is_affine_throughout(expression)
        return known

    def _is_square(self, expression: Any) -> bool:
        """Whether it is a quadratic form with a constant matrix of an affine vector."""
        if self.whole or not isinstance(expression, cp.QuadForm):
            return False
        x, matrix = expression.args
        return matrix.is_constant() and x.is_affine() and x.ndim == 1

    def _lasts_without(self, parts: Iterable[Any] | None) -> None:
        """Remember if there are Parameters of the user's in parts of the template."""
        for part in parts or ():
            if isinstance(part, cp.Expression) and part.parameters():
                self.is_lasting = False

    def _weighted(self, expression: Any) -> tuple[Source, Any] | None:
        """The constant by which a nonlinear part is multiplied, as a source, and that part."""
        if self.whole or type(expression) not in (cp.multiply, cp.MulExpression, DivExpression):
            return None
        one, two = expression.args
        if type(expression) is DivExpression:
            return (lambda value: 1 / numeric(two, value), one) if two.is_constant() else None
        if one.is_constant() != two.is_constant():
            constant, nonlinear = (one, two) if one.is_constant() else (two, one)
            return lambda value: numeric(constant, value), nonlinear
        return None


def _one_of(source: Source) -> Source:
    """A source of one of the entries, as long as all are the same."""

    def reduced(value: Value) -> np.ndarray:
        found = source(value).reshape(-1)
        return found[:1] if (found == found[:1]).all() else found

    return reduced


def parts_of(rule: cp.Constraint) -> list[Any]:
    """What a constraint is split into: both sides of one are a single expression if affine."""
    if isinstance(rule, Inequality | Equality):
        return [rule.expr] if is_affine_throughout(rule.expr) else rule.args
    return rule.args


def given_attributes(variable: cp.Variable) -> dict[str, Any]:
    """The attributes that were given to a variable."""
    return {
        name: value
        for name, value in variable.attributes.items()
        if value is not None and value is not False
    }


def root(form: Any) -> tuple[int, Any]:
    r"""A quadratic form as a sum of squares: the sign, and R x with :math:`P = \pm R^\top R`.

    So the matrix is data of an affine piece, and forms with different ones are alike.
    """
    x, matrix = form.args[0], numeric(form.args[1])
    values, vectors = eigh((matrix + matrix.T) / 2)
    sign = 1 if values[-1] >= -values[0] else -1
    return sign, (vectors * np.sqrt(np.maximum(sign * values, 0.0))).T @ x


def numeric(expression: Any, value: Value = present) -> np.ndarray:
    """The value of a constant as a dense array."""
    found = value(expression)
    is_sparse = type(found) not in DENSE and sp.issparse(found)
    return np.array(found.toarray() if is_sparse else found, dtype=float)


def _fixed(constant: Any) -> Any:
    """A constant by value; the user's own expression where no Parameter of his is in it."""
    if not constant.parameters():
        return constant
    value = numeric(constant)
    return cp.psd_wrap(value) if constant.is_psd() else cp.Constant(value)


def _stated(kind: type[cp.Constraint], data: list[Any], parts: list[Any]) -> Any:
    """A constraint of the given kind on other expressions."""
    if issubclass(kind, Inequality):
        return parts[0] <= 0 if len(parts) == 1 else parts[0] <= parts[1]
    if issubclass(kind, Equality):
        return parts[0] == 0 if len(parts) == 1 else parts[0] == parts[1]
    return kind(*parts, *data)
