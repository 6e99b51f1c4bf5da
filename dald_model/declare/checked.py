"""Clients as users give them, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from importlib.metadata import version
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality, Inequality
from dald_model.declare.client import Client
from dald_model.declare.convexity import check_asserted, warn_of_outer, why_not
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import optional

NONLINEAR = frozenset({"UNO", "IPOPT", "KNITRO", "COPT"})
"""cvxpy's solvers of smooth non-linear programs."""
_OR_NONCONVEX = (
    "; or, if it is meant to be non-convex, declare the client with nonconvex=True (needs "
    'pip install "dald_model[nonconvex]"), for a stationary point instead of an optimum'
)
"""What a user is told whose expression a non-convex client may have."""
MISSHAPEN = np.asarray(cp.upper_tri(np.eye(2)).value).shape != cp.upper_tri(np.eye(2)).shape
"""Whether cvxpy, as 1.9.3 does, gives ``cp.upper_tri`` k x 1 entries and k values."""


def declare_client(
    name: Hashable, objective: Any, constraints: Iterable[Any] = (), nonconvex: bool = False
) -> Client:
    """Check one client's declaration and return the :class:`Client`.

    Raises
    ------
    DeclarationError
        If the objective is not a scalar convex (DCP) expression, a constraint is not DCP, a
        variable is complex, boolean or integer, or a constant holds NaN or inf; with ``nonconvex``
        if they are no smooth non-linear program (DNLP).
    """
    where = f"client {name!r}"
    goal, rules = as_objective(where, objective), _read_constraints(where, constraints)
    client = Client(name, goal, rules, is_convex=not nonconvex)
    if nonconvex:
        check_has_variable(client, where)
        check_nonconvex(client)
        return client
    key = None if client.leaves is None else client.leaves.key
    if key is not None and key.is_sound:
        return client
    for at, rule in enumerate(client.constraints):
        _check_constraint(where, rule, at)
    check_has_variable(client, where)
    check_convex(client)
    if key is not None:
        key.is_sound = True
    return client


def check_has_variable(client: Client, where: str) -> None:
    """Refuse a client without a variable."""
    if not client.variables:
        raise DeclarationError(
            f"{where}: the objective {short(client.objective.expr)} and its "
            f"{len(client.constraints)} constraints hold no cvxpy Variable; a client needs at "
            "least one to agree on with others"
        )


def as_constraints(where: str, constraints: Any) -> tuple[cp.Constraint, ...]:
    """What was given for constraints, each checked by itself.

    Raises
    ------
    DeclarationError
        If it is no list of DCP constraints.
    """
    found = _read_constraints(where, constraints)
    for at, rule in enumerate(found):
        _check_constraint(where, rule, at)
    return found


def _read_constraints(where: str, constraints: Any) -> tuple[cp.Constraint, ...]:
    """What was given for constraints, if they are constraints."""
    if not isinstance(constraints, Iterable):
        raise DeclarationError(
            f"{where}: the constraints are {short(constraints)} of type "
            f"{type(constraints).__name__}, expected a list of cvxpy constraints such as [x >= 0]"
        )
    found = tuple(constraints)
    for at, given in enumerate(found):
        if not isinstance(given, cp.Constraint):
            raise DeclarationError(
                f"{where}: constraint {at} is {given!r} of type {type(given).__name__}, "
                "expected a cvxpy constraint such as x >= 0"
            )
    return found


def check_convex(client: Client) -> None:
    """Refuse what is not convex or not DPP, and variables and data that are not real.

    Convexity that the user asserts, as by ``cp.psd_wrap``, is held against eigenvalues.

    Raises
    ------
    DeclarationError
        Naming the client or coupling, and the part.
    """
    where, goal = f"{client.kind} {client.name!r}", client.objective
    if not client.cost.is_convex():
        wanted = "convex" if isinstance(goal, cp.Minimize) else "concave"
        why = why_not(goal.expr, wanted)
        raise DeclarationError(
            f"{where}: the objective {short(goal.expr)} is {goal.expr.curvature.lower()} "
            f"by cvxpy's DCP rules, expected {wanted} for {type(goal).__name__}; "
            f"{why}{'; ' * bool(why)}rewrite it with cvxpy's atoms "
            f"(https://www.cvxpy.org/tutorial/dcp){_instead(client)}"
        )
    for part in (goal, *client.constraints):
        if not part.is_dcp(dpp=True):
            raise DeclarationError(
                f"{where}: {short(part)} is not DPP in its Parameters "
                f"{[p.name() for p in part.parameters()]}, so every round would compile it anew; "
                "make it affine in them, or put a product of Parameters into one Parameter"
            )
    for variable in client.variables:
        check_variable(variable, where)
    for part in (goal, *client.constraints):
        check_data(part, where)
        warn_of_outer(part, where)
        check_asserted(part, where)


def _instead(client: Client) -> str:
    """The way out for an objective that is a smooth non-linear one."""
    is_smooth = client.kind == "client" and client.objective.is_dnlp()
    return _OR_NONCONVEX if is_smooth else ""


def as_objective(where: str, objective: Any) -> cp.Minimize | cp.Maximize:
    """What was given for an objective, as one.

    Raises
    ------
    DeclarationError
        If it is no real scalar expression.
    """
    if isinstance(objective, cp.Minimize | cp.Maximize):
        return objective
    try:
        expression = cp.Constant(objective) if np.isscalar(objective) else objective
        if not isinstance(expression, cp.Expression):
            raise TypeError(type(objective).__name__)
        return cp.Minimize(expression)
    except (TypeError, ValueError) as error:
        given = (
            f"an expression of shape {objective.shape}"
            if isinstance(objective, cp.Expression)
            else f"{type(objective).__name__}"
        )
        raise DeclarationError(
            f"{where}: the objective is {given}, expected cp.Minimize, cp.Maximize or a "
            "real scalar cvxpy expression (which is minimised), such as cp.sum(...) of a vector"
        ) from error


def _check_constraint(where: str, given: cp.Constraint, position: int) -> None:
    if not given.is_dcp():
        raise DeclarationError(
            f"{where}: constraint {position}, {short(given)}, does not follow cvxpy's DCP "
            f"rules{_sides(given)}; write it as convex <= concave or affine == affine"
            f"{_OR_NONCONVEX if where.startswith('client') and _is_smooth(given) else ''}"
        )
    if isinstance(given, cp.PowConeND):
        _check_exponents(where, given, position)
    if isinstance(given, cp.FiniteSet):
        raise DeclarationError(
            f"{where}: constraint {position}, {short(given)}, makes the variable discrete, "
            "expected a convex constraint; relax it (an interval instead of the set)"
        )


def _sides(rule: cp.Constraint) -> str:
    """Which side of an inequality or equality has the wrong curvature, and what is in it."""
    if not isinstance(rule, Equality | Inequality) or len(rule.args) != 2:
        return ""
    is_equal, said = isinstance(rule, Equality), ""
    for side, wanted in zip(rule.args, ("convex", "concave"), strict=True):
        needs = "affine" if is_equal else wanted
        if not getattr(side, f"is_{needs}")():
            why = why_not(side, needs)
            said += f": {short(side)} is {side.curvature.lower()}, expected {needs}"
            said += f" ({why})" if why else ""
    return said


def _check_exponents(where: str, rule: cp.PowConeND, position: int) -> None:
    """Refuse exponents that Clarabel ends the process for, though cvxpy lets them pass."""
    exponents = np.moveaxis(np.asarray(rule.alpha.value), rule.axis, 0)
    excess = np.abs(np.cumsum(exponents, axis=0)[-1] - 1).max()
    if excess >= np.finfo(float).eps * len(exponents) / 2:
        raise DeclarationError(
            f"{where}: the exponents of constraint {position}, {short(rule)}, add up to 1 "
            f"but for {excess:.1e}, expected 1 to the last digit; make the last of them 1 less the "
            "others"
        )


def _is_smooth(rule: cp.Constraint) -> bool:
    """Whether solvers of non-linear programs take a constraint."""
    return isinstance(rule, Equality | Inequality) and rule.is_dnlp()


def check_nonconvex(client: Client) -> None:
    """Refuse what cvxpy's non-linear programs (DNLP) do not take, and the lack of a solver.

    Raises
    ------
    DeclarationError
        Naming the client and the part.
    MissingError
        If no solver of non-linear programs is installed.
    """
    where = f"client {client.name!r}"
    if not NONLINEAR.intersection(cp.installed_solvers()):
        optional("unopy", "nonconvex", f"{where}: nonconvex=True")
    if not client.objective.is_dnlp():
        raise DeclarationError(
            f"{where}: the objective {short(client.objective.expr)} is no smooth non-linear "
            "expression by cvxpy's DNLP rules; a kink must be convex in what is minimised and "
            "concave in what is maximised: rewrite cp.abs(f) as cp.sqrt(cp.square(f) + eps)"
        )
    for at, rule in enumerate(client.constraints):
        if not _is_smooth(rule):
            raise DeclarationError(
                f"{where}: constraint {at}, {short(rule)}, is of type {type(rule).__name__}, "
                "expected an equality or inequality of smooth expressions (DNLP) at a client with "
                "nonconvex=True; give a cone to a convex client that shares the variable"
            )
    for variable in client.variables:
        check_variable(variable, where)
        if any(variable.attributes[kind] for kind in ("PSD", "NSD")):
            raise DeclarationError(
                f"{where}: variable {variable.name()!r} is semidefinite, which solvers of "
                "non-linear programs do not take; write it as L @ L.T, or give the cone to a "
                "convex client that shares the variable"
            )
    for part in (client.objective, *client.constraints):
        check_data(part, where)


def check_name(name: Any) -> None:
    """Refuse the names that networkx cannot take as a node, or that would not be found again."""
    if not _is_name(name):
        raise DeclarationError(
            f"client {name!r}: the name is of type {type(name).__name__}, expected a networkx "
            "node: anything hashable that equals itself (so neither NaN nor a cvxpy expression) "
            "but None, such as a string, a number or a tuple of them"
        )


def _is_name(name: Any) -> bool:
    if type(name) in (int, str):  # as most
        return True
    if isinstance(name, tuple | frozenset):
        return all(map(_is_name, name))
    if isinstance(name, cp.Expression | cp.Constraint) or name is None:
        return False
    try:
        hash(name)
        return bool(name == name)
    except Exception:  # of the name's own `__eq__`
        return False


def check_variable(variable: cp.Variable, where: str) -> None:
    """Refuse the variables that the algorithms have no theory for."""
    kinds = [k for k in ("boolean", "integer") if variable.attributes[k]]
    if variable.is_complex():
        kinds.append("complex")
    if kinds:
        raise DeclarationError(
            f"{where}: variable {variable.name()!r} is {' and '.join(kinds)}, expected real and "
            "continuous; relax it (bounds instead of boolean, real and imaginary parts instead of "
            "complex)"
        )


def check_data(part: Any, where: str) -> None:
    """Refuse NaN, inf and complex numbers in the data of an expression or constraint.

    And ``cp.upper_tri`` where cvxpy gives it values of another shape than its own, which makes a
    matrix of a difference that no check understands.
    """
    if MISSHAPEN and cp.upper_tri in part.atoms():
        raise DeclarationError(
            f"{where}: {short(part)} holds cp.upper_tri, whose values have another shape in cvxpy "
            f"{version('cvxpy')} than it says, so no answer could be verified; write "
            "cp.vec(X, order='C')[np.flatnonzero(np.triu(np.ones(X.shape), 1))], or, for zeros, "
            "cp.multiply(np.triu(np.ones(X.shape), 1), X) == 0"
        )
    for leaf in (*part.constants(), *part.parameters()):
        if leaf.is_complex():
            raise DeclarationError(
                f"{where}: {short(part)} holds complex data of shape {leaf.shape}, expected real "
                "data; write the real and the imaginary part as rows of their own"
            )
    for constant in part.constants():
        value = constant.value
        data = value.data if sp.issparse(value) else np.asarray(value)
        if not np.isfinite(data).all():
            raise DeclarationError(
                f"{where}: {short(part)} holds {_not_finite(value)}; clean the data first (drop or "
                "impute those rows)"
            )


def _not_finite(value: Any) -> str:
    """How many entries of a constant are NaN or infinite, and the first of them."""
    if np.ndim(value) == 0 and not sp.issparse(value):
        return f"the constant {value}"
    if sp.issparse(value):
        by_rows = value.tocsr().tocoo()
        entries, places = by_rows.data, np.transpose([by_rows.row, by_rows.col])
    else:
        entries, places = np.ravel(value), np.argwhere(np.full(value.shape, True))
    bad = np.flatnonzero(~np.isfinite(entries))
    return (
        f"{len(bad)} NaN or infinite entries in a constant of shape {value.shape}, the first is "
        f"{entries[bad[0]]} at {places[bad[0]].tolist()}"
    )
