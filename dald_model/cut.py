r"""Cut: where a client becomes affine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality

from dald_model.affine import frozen
from dald_model.client import Client


@dataclass(frozen=True)
class Cut:
    """A client cut where it becomes affine.

    Attributes
    ----------
    key : Hashable
        Equal for clients with the same skeleton.
    pieces : list of cp.Expression
        The affine expressions y, in order.
    numbers : list of cp.Expression
        Constants that multiply nonlinear parts or are arguments of them, in order.
    """

    key: Hashable
    pieces: list[Any] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)


def cut(client: Client, *, whole: bool = False) -> Cut:
    """Cut a client at its affine parts, or if ``whole`` at its variables, sharing nothing."""
    pieces: list[Any] = []
    numbers: list[Any] = []
    walk = Walk(pieces, numbers, whole)
    key = [walk.key(client.cost)]
    for rule in client.constraints:
        key.append((type(rule), *(walk.key(part) for part in parts_of(rule))))
    for variable in attributed(client):
        pieces.append(variable)
        key.append((variable.shape, repr(attributes(variable))))
    return Cut(object() if whole else tuple(key), pieces, numbers)


def parts_of(rule: Constraint) -> list[Any]:
    """What a constraint is cut into: both sides of an inequality are one expression if affine."""
    if isinstance(rule, Inequality | Equality):
        return [rule.expr] if rule.expr.is_affine() else rule.args
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

    def __init__(self, pieces: list[Any], numbers: list[Any], whole: bool) -> None:
        self.pieces, self.numbers, self.whole = pieces, numbers, whole

    def is_piece(self, expression: Any) -> bool:
        """Whether it is cut off here."""
        return isinstance(expression, cp.Variable) or (
            not self.whole and not expression.is_constant() and expression.is_affine()
        )

    def is_square(self, expression: Any) -> bool:
        """Whether it is a quadratic form with a constant matrix of an affine vector."""
        if self.whole or not isinstance(expression, QuadForm):
            return False
        x, matrix = expression.args
        return matrix.is_constant() and x.is_affine() and x.ndim == 1

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
            self.numbers.append(expression)
            return expression.shape, expression.sign, sp.issparse(expression.value)
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
    return np.asarray(value.toarray() if sp.issparse(value) else value, float)
