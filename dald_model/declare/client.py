"""Client: the objective, the constraints and the variables of one owner."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    STACKED,
    DivExpression,
    Equality,
    NegExpression,
    Sum,
    domain_of_atoms,
    value_of,
)
from dald_model.declare.outline import Outlined, outlined
from dald_model.declare.problem import Problem
from dald_model.errors import DeclarationError
from dald_model.identity import Identified
from dald_model.text import Heading, Part, Printed, counted, shortened, together
from dald_model.values import REFUSALS, number

MISSHAPEN = np.asarray(cp.upper_tri(np.eye(2)).value).shape != cp.upper_tri(np.eye(2)).shape
"""Whether cvxpy, as 1.9.3 does, gives ``cp.upper_tri`` k x 1 entries and k values."""
SHOWN = 12
"""The most constraints of a client that are shown."""


@dataclass(frozen=True, eq=False, repr=False)
class Client(Identified, Printed):
    r"""One owner's share of the problem.

    .. math:: \min_{x_i} f_i(x_i) \quad \text{s.t. } x_i \in X_i

    Attributes
    ----------
    name : Hashable
        What messages, results and graphs call this client.
    objective : cp.Minimize or cp.Maximize
        The objective as declared.
    constraints : tuple of cp.Constraint
        The client's own constraints :math:`X_i`.
    held : tuple of cp.Variable
        Variables that stand in no objective and no constraint: those of a server, or a site's.
    is_server : bool
        Whether this is a server: no objective, no constraints, only consensus.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> client = common_number([0, 1, 2]).clients[0]
    >>> client.name, [v.name() for v in client.variables], len(client.constraints)
    (0, ['w'], 0)
    """

    kind: ClassVar[str] = "client"

    name: Hashable
    objective: cp.Minimize | cp.Maximize
    constraints: tuple[cp.Constraint, ...] = ()
    held: tuple[cp.Variable, ...] = ()
    is_server: bool = False

    @property
    def is_coupling(self) -> bool:
        """Whether this is what several clients have in common, not an owner of data."""
        return self.kind == "coupling"

    @property
    def is_remote(self) -> bool:
        """Whether objective and constraints are at a site, and only what it shares is here."""
        return self.kind == "site"

    @property
    def given(self) -> Client:
        """The client as the user declared it, over his variables."""
        return self

    @property
    def maximises(self) -> bool:
        """Whether its objective is maximised."""
        return isinstance(self.objective, cp.Maximize)

    @property
    def is_constrained(self) -> bool:
        """Whether it has constraints of its own."""
        return bool(self.constraints)

    @property
    def cost(self) -> cp.Expression:
        """The convex expression that is minimised: the objective, or its negative."""
        expression = self.objective.expr
        return -expression if self.maximises else expression

    @cached_property
    def variables(self) -> list[cp.Variable]:
        """The variables of the objective and the constraints, each once, in order."""
        if self.outlined is not None:
            return self.outlined.variables
        return unique_variables([self.objective, *self.constraints, *self.held])

    @property
    def outlined(self) -> Outlined | None:
        """What the client has in common with others that differ in their data alone."""
        return self._outlined

    @cached_property
    def _outlined(self) -> Outlined | None:
        if self.held:
            return None
        parts = [self.objective.expr, *self.constraints]
        return outlined(parts, self.maximises)

    @property
    def domain(self) -> list[cp.Constraint]:
        """Where the cost is defined; elsewhere quad_over_lin and others are numbers of nothing."""
        return self._domains[0]

    @property
    def domains(self) -> list[cp.Constraint]:
        """The same of the cost and of what the constraints compare."""
        return [*self._domains[0], *self._domains[1]]

    @property
    def _domains(self) -> tuple[list[cp.Constraint], list[cp.Constraint]]:
        if self.outlined is not None and self.outlined.outline.is_everywhere:
            return [], []
        return self._limits

    @cached_property
    def _limits(self) -> tuple[list[cp.Constraint], list[cp.Constraint]]:
        """Those of the cost, and of what the constraints compare."""
        parts = [p for rule in self.constraints for p in rule.args if not p.is_affine()]
        found = limits(self.cost), [one for part in parts for one in limits(part)]
        if self.outlined is not None:
            self.outlined.outline.is_everywhere = not any(found)
        return found

    def cost_at(self, values: Mapping[int, np.ndarray]) -> float:
        """The cost where variables have these values, by id; NaN where cvxpy has none.

        The variables keep these values.
        """
        for v in self.variables:
            v.save_value(values[v.id])
        if any(p.value is None for p in self.parameters):
            return float("nan")
        try:
            return number(value_of(self.cost))
        except REFUSALS:
            return float("nan")

    @cached_property
    def parameters(self) -> list[cp.Parameter]:
        """The user's Parameters in the objective and the constraints, each once."""
        if self.outlined is not None:
            return []  # an outline has none
        found = {p.id: p for part in [self.objective, *self.constraints] for p in part.parameters()}
        return list(found.values())

    def __repr__(self) -> str:
        """One line, as a client mostly stands in a dict of many."""
        rules = counted(len(self.constraints), "constraint")
        return f"{self._called}: {shortened(self._goal, 60)} over {self._over}, {rules}"

    def report(self, *, wide: bool) -> list[Part]:
        """The client's problem, and its variables."""
        width = 200 if wide else 88
        rules = [shortened(symbolic(rule), width) for rule in self.constraints[:SHOWN]]
        more = len(self.constraints) - len(rules)
        told = [f"  {shortened(self._goal, width)}", *(f"    {rule}" for rule in rules)]
        told += [f"    ... and {counted(more, 'constraint')} more"] if more else []
        return [Heading(self._called), told, [f"  over {self._over}"]]

    @property
    def _goal(self) -> str:
        if not self.objective.variables():
            return "a server" if self.is_server else "subject to"
        return f"{self.objective.NAME} {symbolic(self.objective.expr)}"

    @property
    def _over(self) -> str:
        return together(map(sized, self.variables), 60)


def all_in_one(
    clients: Iterable[Client], rules: Iterable[cp.Constraint], maximises: bool
) -> cp.Problem:
    r"""The all-in-one (AIO) problem of some clients.

    .. math:: \min_x \sum_i f_i(x_i) \quad \text{s.t. all rules}

    or, negated, the maximum where every client maximises.
    """
    if maximises:
        return Problem(cp.Maximize(sum(client.objective.expr for client in clients)), list(rules))
    return Problem(cp.Minimize(sum(client.cost for client in clients)), list(rules))


def unique_variables(parts: Iterable[Any]) -> list[cp.Variable]:
    """Variables of expressions, objectives or constraints, each once, in order of appearance."""
    return list({v.id: v for part in parts for v in part.variables()}.values())


def limits(expression: cp.Expression) -> list[cp.Constraint]:
    """The domain of an expression, but for the symmetry of matrices."""
    rules = domain_of_atoms(expression)
    return [one for one in rules if one.variables() and not isinstance(one, Equality | cp.Zero)]


def declare_client(name: Hashable, objective: Any, constraints: Iterable[Any] = ()) -> Client:
    """Check one client's declaration and return the :class:`Client`.

    Raises
    ------
    DeclarationError
        If the objective is not a scalar convex (DCP) expression, a constraint is not DCP, a
        variable is complex, boolean or integer, or a constant holds NaN or inf.
    """
    where = f"client {name!r}"
    client = Client(name, as_objective(where, objective), _read_constraints(where, constraints))
    outline = None if client.outlined is None else client.outlined.outline
    if outline is not None and outline.is_sound:
        return client
    for at, rule in enumerate(client.constraints):
        _check_constraint(where, rule, at)
    if not client.variables:
        raise DeclarationError(
            f"{where}: the objective {short(client.objective.expr)} and its "
            f"{len(client.constraints)} constraints hold no cvxpy Variable; a client needs at "
            "least one to agree on with others"
        )
    check_convex(client)
    if outline is not None:
        outline.is_sound = True
    return client


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
    """Refuse what is not convex or not DPP, variables that are not real, and data that are not.

    Raises
    ------
    DeclarationError
        Naming the client or coupling, and the part.
    """
    where, goal = f"{client.kind} {client.name!r}", client.objective
    if not client.cost.is_convex():
        wanted = "convex" if isinstance(goal, cp.Minimize) else "concave"
        raise DeclarationError(
            f"{where}: the objective {short(goal.expr)} is {goal.expr.curvature.lower()} "
            f"by cvxpy's DCP rules, expected {wanted} for {type(goal).__name__}; "
            "rewrite it with cvxpy's atoms (https://www.cvxpy.org/tutorial/dcp)"
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
            "real scalar cvxpy expression (which is minimised)"
        ) from error


def _check_constraint(where: str, given: cp.Constraint, position: int) -> None:
    if not given.is_dcp():
        raise DeclarationError(
            f"{where}: constraint {position}, {short(given)}, does not follow cvxpy's DCP "
            "rules; write it as convex <= concave or affine == affine"
        )
    if isinstance(given, cp.PowConeND):
        _check_exponents(where, given, position)
    if isinstance(given, cp.FiniteSet):
        raise DeclarationError(
            f"{where}: constraint {position}, {short(given)}, makes the variable discrete, "
            "expected a convex constraint; relax it (an interval instead of the set)"
        )


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


def check_name(name: Any) -> None:
    """Refuse the names that networkx cannot take as a node, or that would not be found again."""
    if not _is_name(name):
        raise DeclarationError(
            f"client {name!r}: the name is of type {type(name).__name__}, expected a networkx "
            "node: anything hashable that equals itself (so neither NaN nor a cvxpy expression) "
            "but None, such as a string, a number or a tuple of them"
        )


def _is_name(name: Any) -> bool:
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
        data = constant.value.data if sp.issparse(constant.value) else np.asarray(constant.value)
        bad = int(np.size(data) - np.count_nonzero(np.isfinite(data)))
        if bad:
            raise DeclarationError(
                f"{where}: {short(part)} holds {bad} NaN or infinite entries in a constant of "
                f"shape {constant.shape}; clean the data first (drop or impute those rows)"
            )


def summands(expression: cp.Expression) -> list[cp.Expression]:
    """The terms of a sum, through minus signs, constant scalar factors and stacks."""
    if isinstance(expression, cp.AddExpression) and all(a.is_scalar() for a in expression.args):
        return [term for arg in expression.args for term in summands(arg)]
    if isinstance(expression, NegExpression):
        return [-term for term in summands(expression.args[0])]
    if isinstance(expression, Sum) and isinstance(expression.args[0], STACKED):
        stacked: list[Any] = expression.args[0].args
        whole: list[Any] = [cp.sum(arg) if arg.ndim else arg for arg in stacked]
        if expression.is_scalar():
            return [term for one in whole for term in summands(one)]
    if isinstance(expression, DivExpression) and expression.args[1].is_constant():
        return [term / expression.args[1] for term in summands(expression.args[0])]
    if isinstance(expression, cp.MulExpression | cp.multiply) and expression.is_scalar():
        one, two = expression.args
        if one.is_constant() and one.is_scalar():
            return [one * term for term in summands(two)]
        if two.is_constant() and two.is_scalar():
            return [term * two for term in summands(one)]
    return [expression]


def short(part: Any, width: int = 60) -> str:
    """The text of an expression, objective or constraint on one line, cut to ``width``."""
    text = _as_written(" ".join(str(part).split()))
    return text if len(text) <= width else text[: width - 3] + "..."


def sized(variable: cp.Variable, name: str = "") -> str:
    """A variable's name with its shape, ``x[3]``; or another name."""
    shape = "x".join(map(str, variable.shape))
    return (name or variable.name()) + (f"[{shape}]" if shape else "")


def symbolic(part: Any, called: Mapping[int, str] = MappingProxyType({})) -> str:
    """A cvxpy expression or constraint with its data named by their shapes: ``[50x11] @ x``.

    ``called`` says by their ids what variables are called instead of their names.
    """
    data = [c for c in part.constants() if c.size > 1]
    names = {id(c): cp.Parameter(c.shape, name=f"[{'x'.join(map(str, c.shape))}]") for c in data}
    if called:
        others = [v for v in part.variables() if v.id in called]
        names |= {id(v): cp.Variable(v.shape, name=called[v.id]) for v in others}
    try:
        named = part.tree_copy(names)
    except (ValueError, TypeError, NotImplementedError):
        named = part  # an atom that wants its data as numbers, such as quad_form
    return _as_written(" ".join(str(named).split()))


def _as_written(text: str) -> str:
    """What cvxpy prints, without what a user did not write: defaults and stretched scalars.

    >>> _as_written("quad_over_lin([9x2] @ w + Promote(c, (9,)), 1.0, None, False)")
    'sum_squares([9x2] @ w + c)'
    """
    text = text.replace(", None, False)", ")")
    text = re.sub(r"\b(Sum|Hstack|Vstack)\(", lambda found: found[0].lower(), text)
    text = re.sub(r"\breshape\(([^(),]+), \(1,\), F\)", r"\1", text)
    text = re.sub(r"\bPromote\(([^()\s]+), \(\d+(?:, \d+)*,?\)\)", r"\1", text)
    inside = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"  # parentheses, three deep
    return re.sub(rf"\bquad_over_lin\(({inside}), 1\.0\)", r"sum_squares(\1)", text)
