"""The proximal operator of one cvxpy expression, for users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.declare.checked import check_data, check_variable
from dald_model.declare.client import Client, unique_variables
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError, OptionError
from dald_model.solvers.base import FOUND
from dald_model.solvers.prox.operators import Solved, to_a_point
from dald_model.validate import check_positive
from dald_model.values import flat


def prox(
    expression: Any, point: Any, alpha: float = 1.0, constraints: Iterable[Any] = ()
) -> np.ndarray:
    r"""The proximal operator of a convex cvxpy expression in one variable, and constraints on it.

    .. math::
        \arg\min_x \; f(x) + \tfrac{1}{2 \alpha} \|x - v\|_2^2 \quad\text{s.t. } x \in X

    Parameters
    ----------
    expression : cp.Expression or float
        f; 0 projects on the constraints.
    point : array_like
        v, of the shape of the variable.
    alpha : float
        The step, positive.
    constraints : iterable of cp.Constraint
        Attributes of the variable, such as ``nonneg``, are constraints too.

    Returns
    -------
    ndarray
        Of the shape of the variable, which itself is left as it is.

    Raises
    ------
    DeclarationError
        If the expression or a constraint is not convex or not in one variable, or if no point
        meets the constraints.
    OptionError
        If the point has another shape or is not finite, or the step is not positive.

    Examples
    --------
    >>> x = cp.Variable(3)
    >>> prox(cp.norm1(x), [3.0, -0.5, -2.0])
    array([ 2.,  0., -1.])
    """
    client = _declared(expression, constraints)
    variable = client.variables[0]
    try:
        values = np.asarray(point, dtype=float)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape != variable.shape or not np.isfinite(values).all():
        told = f"of shape {values.shape}" if values.shape != variable.shape else "not finite"
        told = told if values.size or not variable.size else "no array of numbers"
        raise OptionError(
            f"prox: the point is {told}, expected finite numbers of shape {variable.shape}, that "
            f"of the variable {variable.name()!r}"
        )
    expected = "a positive finite number; 1.0 is the plain operator"
    check_positive("prox: alpha is ", alpha, expected)
    found = _one(client, flat(values), float(alpha))
    return found.reshape(variable.shape, order="F") + 0.0  # a kink's level may be minus zero


def _declared(expression: Any, constraints: Iterable[Any]) -> Client:
    """The client that the expression and the constraints are, checked."""
    given = cp.Constant(expression) if np.isscalar(expression) else expression
    if not isinstance(given, cp.Expression) or not given.is_scalar():
        told = f"of shape {given.shape}" if isinstance(given, cp.Expression) else repr(given)
        raise DeclarationError(
            f"prox: the expression is {told}, expected a scalar cvxpy expression such as "
            "cp.norm1(x), or 0 to project on constraints"
        )
    if not given.is_convex():
        raise DeclarationError(
            f"prox: the expression {short(given)} is {given.curvature.lower()} by cvxpy's DCP "
            "rules, expected convex; rewrite it with cvxpy's atoms "
            "(https://www.cvxpy.org/tutorial/dcp)"
        )
    rules = [constraints] if isinstance(constraints, cp.Constraint) else list(constraints)
    for rule in rules:
        if not isinstance(rule, cp.Constraint) or not rule.is_dcp():
            raise DeclarationError(
                f"prox: the constraint {short(rule)} does not follow cvxpy's DCP rules, expected "
                "convex <= concave or affine == affine"
            )
    variables = unique_variables([given, *rules])
    if len(variables) != 1:
        named = ", ".join(repr(v.name()) for v in variables) or "none"
        raise DeclarationError(
            f"prox: the expression {short(given)} and the constraints hold {len(variables)} "
            f"variables ({named}), expected one; stack several into one variable"
        )
    check_variable(variables[0], "prox")
    for part in (given, *rules):
        check_data(part, "prox")
        unset = [p.name() for p in part.parameters() if p.value is None]
        if unset:
            raise DeclarationError(
                f"prox: the Parameter {unset[0]!r} has no value; set its value before"
            )
    return Client("prox", cp.Minimize(given), tuple(rules))


def _one(client: Client, point: np.ndarray, alpha: float) -> np.ndarray:
    """By the solvers of a client."""
    ((found, status, said, _),) = Solved([to_a_point(client)])([0], [point], alpha)
    if status in FOUND:
        return found
    raise DeclarationError(
        f"prox: no point was found for {short(client.objective.expr)} with "
        f"{len(client.constraints)} constraints ({status}{': ' * bool(said)}{said}); expected "
        "constraints that some point of the expression's domain meets"
    )
