r"""Cut: where a client becomes affine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality

from dald_model.compile.affine import frozen
from dald_model.declare.client import Client


@dataclass(frozen=True)
class Cut:
    """A client cut where it becomes affine.

    Attributes
    ----------
    key : Hashable
        Equal for clients with the same skeleton.
    pieces : list of cp.Expression
        The affine expressions y, in order.
    numbers : list of ndarray
        Constants that nonlinear parts are multiplied by, in order.
    """

    key: Hashable
    pieces: list[Any] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)


def cut(client: Client, *, whole: bool = False) -> Cut:
    """Cut a client at its affine parts, or if ``whole`` at its variables, sharing nothing."""
    pieces: list[Any] = []
    numbers: list[np.ndarray] = []
    walk = Walk(pieces, numbers, whole)
    key = [walk.key(client.cost)]
    for rule in client.constraints:
        data = frozen(rule.get_data()[:-1])  # the last is its id
        key.append((type(rule), data, *(walk.key(part) for part in parts_of(rule))))
    for variable in attributed(client):
        pieces.append(variable)
        key.append((variable.shape, frozen([*attributes(variable).items()])))
    return Cut(object() if whole else tuple(key), pieces, numbers)


def parts_of(rule: Constraint) -> list[Any]:
    """What a constraint is cut into: both sides of an inequality are one expression if affine."""
    if isinstance(rule, Inequality | Equality):
        affine = rule.expr.is_affine()
        affine = affine and all(issubclass(atom, AffAtom) for atom in rule.expr.atoms())
        return [rule.expr] if affine else rule.args
    return rule.args


def attributed(client: Client) -> list[cp.Variable]:
    """The client's variables with attributes."""
    return [v for v in client.variables if attributes(v)]


def attributes(variable: cp.Variable) -> dict[str, Any]:
    """The attributes that were given to a variable."""
    return {
        name: value
        for name, value in variable.attributes.items()
        if value is not None and value is not False
    }


class Walk:
    """One pass over a client's expressions, in a fixed order."""

    def __init__(self, pieces: list[Any], numbers: list[np.ndarray], whole: bool) -> None:
        self.pieces, self.numbers, self.whole = pieces, numbers, whole

    def is_piece(self, expression: Any) -> bool:
        """Whether it is cut off here."""
        if isinstance(expression, cp.Variable):
            return True
        if self.whole or expression.is_constant() or not expression.is_affine():
            return False
        # cvxpy calls zero times a logarithm affine, but keeps its domain.
        return all(issubclass(atom, AffAtom) for atom in expression.atoms())

    def is_square(self, expression: Any) -> bool:
        """Whether it is a quadratic form with a constant matrix of an affine vector."""
        if self.whole or not isinstance(expression, QuadForm):
            return False
        x, matrix = expression.args
        return matrix.is_constant() and x.is_affine() and x.ndim == 1

    def weighted(self, expression: Any) -> tuple[np.ndarray, Any] | None:
        """The constant by which a nonlinear part is multiplied, and that part."""
        if self.whole or type(expression) not in (multiply, MulExpression, DivExpression):
            return None
        one, two = expression.args
        if type(expression) is DivExpression:
            return (1 / numeric(two), one) if two.is_constant() else None
        if one.is_constant() != two.is_constant():
            return (numeric(one), two) if one.is_constant() else (numeric(two), one)
        return None

    def key(self, expression: Any) -> Hashable:
        """What the expression has in common with those it can share a skeleton with."""
        if self.is_piece(expression):
            self.pieces.append(expression)
            return expression.shape
        if self.is_square(expression):
            sign, factor = root(expression)
            self.pieces.append(factor)
            return "square", sign, factor.shape
        if expression.is_constant():
            return "constant", frozen(numeric(expression))
        weighted = self.weighted(expression)
        if weighted is not None:
            value, inner = weighted
            self.numbers.append(value)
            signs = bool((value >= 0).all()), bool((value <= 0).all())
            place = [arg is inner for arg in expression.args]
            return type(expression), tuple(place), value.shape, signs, self.key(inner)
        data = frozen(expression.get_data())
        return type(expression), data, *(self.key(arg) for arg in expression.args)


def root(form: Any) -> tuple[int, Any]:
    r"""A quadratic form as a sum of squares: the sign, and R x with :math:`P = \pm R^\top R`.

    So the matrix is data of an affine piece, and forms with different ones are alike.
    """
    x, matrix = form.args[0], numeric(form.args[1])
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    sign = 1 if values[-1] >= -values[0] else -1
    return sign, (vectors * np.sqrt(np.maximum(sign * values, 0.0))).T @ x


def numeric(expression: Any) -> np.ndarray:
    """The value of a constant as a dense array."""
    value = expression.value
    return np.array(value.toarray() if sp.issparse(value) else value, dtype=float)
