"""Client: the objective, the constraints and the variables of one owner."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import (
    STACKED,
    DivExpression,
    Equality,
    NegExpression,
    Sum,
    domain_of_atoms,
    value_of,
)
from dald_model.declare.structure_key import Leaves, StructureKey, leaves_of
from dald_model.declare.wording import sized, symbolic
from dald_model.not_picklable import NotPicklable
from dald_model.text import Heading, Part, Printed, counted, shortened, together
from dald_model.values import REFUSALS, number, unset

CONSTRAINTS_SHOWN = 12
"""The most constraints of a client that are shown."""

Kept = tuple["Client", list[int], list[int]]
"""A client with some of its constraints, and which of the variables and constants are in it."""


@dataclass(frozen=True, eq=False, repr=False)
class Client(NotPicklable, Printed):
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
        Whether this is a server that only averages: no objective, no constraints.
    is_convex : bool
        Whether objective and constraints follow cvxpy's rules for convex problems (DCP), or were
        declared with ``nonconvex=True``.

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
    is_convex: bool = True

    @property
    def is_hub(self) -> bool:
        """Whether this is a server, also one that holds its clients' rules in common."""
        return self.is_server or self.kind == "server"

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

    @cached_property
    def does_without(self) -> bool:
        """Whether it needs no constraint to have an answer that prices move little by little."""
        cost = self.cost
        return cost.is_constant() or (cost.is_nonneg() and cost.is_convex() and not cost.is_pwl())

    @property
    def perhaps_common(self) -> Sequence[cp.Constraint | None]:
        """Its constraints; None of those that are known to be no other client's."""
        return self.constraints

    @cached_property
    def leaves_of_rules(self) -> list[frozenset[int]]:
        """Of each constraint the ids of the variables and constants in it."""
        return [
            frozenset(map(id, [*rule.variables(), *rule.constants()])) for rule in self.constraints
        ]

    @cached_property
    def places_in_rules(self) -> tuple[list[int], list[int]]:
        """Which of its :attr:`leaves`, variables and constants, are in any constraint."""
        known, used = self.leaves, frozenset().union(*self.leaves_of_rules)
        assert known is not None
        kinds = known.variables, known.constants
        found = [[at for at, leaf in enumerate(kind) if id(leaf) in used] for kind in kinds]
        return found[0], found[1]

    def keeping(self, places: tuple[int, ...]) -> Client:
        """The same client with some of its constraints."""
        return self.kept(places)[0]

    def kept(self, places: tuple[int, ...]) -> Kept:
        """The same, and which of its :attr:`leaves`, variables and constants, it keeps."""
        if places not in self._shorter:
            rules = tuple(self.constraints[at] for at in places)
            shorter = Client(self.name, self.objective, rules)
            self._shorter[places] = shorter, *_places(self.leaves, shorter.leaves)
        return self._shorter[places]

    @cached_property
    def _shorter(self) -> dict[tuple[int, ...], Kept]:
        return {}

    @property
    def cost(self) -> cp.Expression:
        """The convex expression that is minimised: the objective, or its negative."""
        expression = self.objective.expr
        return -expression if self.maximises else expression

    @property
    def constant(self) -> float:
        """The summand of the cost that no variable moves, in sums and products by numbers."""
        if self._fixed_constant is not None:
            return self._fixed_constant
        found = added(self.objective.expr, lambda node: node.value)
        return -found if self.maximises else found

    @cached_property
    def _fixed_constant(self) -> float | None:
        """The same where no Parameter is in it."""
        nodes: list[Any] = []
        found = added(self.objective.expr, lambda node: nodes.append(node) or node.value)
        if any(node.parameters() for node in nodes):
            return None
        return -found if self.maximises else found

    @cached_property
    def adds_no_data(self) -> bool:
        """Whether no constant is in that summand: then it is the same of clients alike."""
        nodes: list[Any] = []
        added(self.objective.expr, lambda node: nodes.append(node) or node.value)
        return not any(node.constants() for node in nodes)

    @cached_property
    def variables(self) -> list[cp.Variable]:
        """The variables of the objective and the constraints, each once, in order."""
        if self.leaves is not None:
            return self.leaves.variables
        return unique_variables([self.objective, *self.constraints, *self.held])

    @property
    def leaves(self) -> Leaves | None:
        """The structure key, which clients share that differ only in their data, and the leaves."""
        return self._own_leaves

    @cached_property
    def key(self) -> StructureKey | None:
        """See :attr:`leaves`."""
        return self.leaves and self.leaves.key

    @cached_property
    def alike(self) -> Hashable:
        """The same for clients that differ in their data alone; None where that is not known."""
        known = self.leaves
        return known and (known.key, known.shapes)

    @cached_property
    def _own_leaves(self) -> Leaves | None:
        if self.held or not self.is_convex:
            return None
        parts = [self.objective.expr, *self.constraints]
        return leaves_of(parts, self.maximises)

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
        known = self.key
        if known is not None and known.is_everywhere:
            return [], []
        return self._limits

    @cached_property
    def _limits(self) -> tuple[list[cp.Constraint], list[cp.Constraint]]:
        """Those of the cost, and of what the constraints compare."""
        parts = [p for rule in self.constraints for p in rule.args if not p.is_affine()]
        found = limits(self.cost), [one for part in parts for one in limits(part)]
        if self.leaves is not None:
            self.leaves.key.is_everywhere = not any(found)
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
        if self.leaves is not None:
            return []  # a structure key has none
        found = {p.id: p for part in [self.objective, *self.constraints] for p in part.parameters()}
        return list(found.values())

    def __repr__(self) -> str:
        """One line, as a client mostly stands in a dict of many."""
        rules = counted(len(self.constraints), "constraint")
        return f"{self._called}: {shortened(self._goal, 60)} over {self._over}, {rules}"

    def report(self, *, wide: bool) -> list[Part]:
        """The client's problem, and its variables."""
        width = 200 if wide else 88
        rules = [shortened(symbolic(rule), width) for rule in self.constraints[:CONSTRAINTS_SHOWN]]
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


def _places(known: Leaves | None, kept: Leaves | None) -> tuple[list[int], list[int]]:
    """Where in the leaves of a client those that a part of it keeps are."""
    if known is None or kept is None:
        return [], []
    kinds = (known.variables, kept.variables), (known.constants, kept.constants)
    found = []
    for whole, part in kinds:
        at = {id(leaf): place for place, leaf in enumerate(whole)}
        found.append([at[id(leaf)] for leaf in part])
    return found[0], found[1]


def all_in_one(
    clients: Iterable[Client], rules: Iterable[cp.Constraint], maximises: bool
) -> cp.Problem:
    r"""The all-in-one (AIO) problem of some clients.

    .. math:: \min_x \sum_i f_i(x_i) \quad \text{s.t. all rules}

    or, negated, the maximum where every client maximises.
    """
    with warnings.catch_warnings():
        # One summand a client: that these be vectorised is not for the user to do
        warnings.filterwarnings("ignore", "Objective contains too many subexpr", UserWarning)
        if maximises:
            total = cp.Maximize(sum(client.objective.expr for client in clients))
        else:
            total = cp.Minimize(sum(client.cost for client in clients))
        return Problem(total, list(rules))


def unique_variables(parts: Iterable[Any]) -> list[cp.Variable]:
    """Variables of expressions, objectives or constraints, each once, in order of appearance."""
    return list({v.id: v for part in parts for v in part.variables()}.values())


def limits(expression: cp.Expression) -> list[cp.Constraint]:
    """The domain of an expression, but for the symmetry of matrices."""
    rules = domain_of_atoms(expression)
    return [one for one in rules if one.variables() and not isinstance(one, Equality | cp.Zero)]


def added(expression: Any, value: Callable[[Any], Any]) -> float:
    """What is added to an expression, see :attr:`Client.constant`, by the values of constants."""
    if isinstance(expression, cp.AddExpression) and all(a.size == 1 for a in expression.args):
        return sum(added(arg, value) for arg in expression.args)
    if isinstance(expression, NegExpression):
        return -added(expression.args[0], value)
    if expression.is_constant():
        return float(np.asarray(value(expression)).item())
    is_product = isinstance(expression, (cp.MulExpression, cp.multiply))
    if is_product and all(arg.size == 1 for arg in expression.args):
        factor, other = sorted(expression.args, key=lambda arg: not arg.is_constant())
        own = added(other, value)
        return own and float(np.asarray(value(factor)).item()) * own
    return 0.0


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


class Problem(cp.Problem):
    """A ``cp.Problem`` that can be solved again where its variables have values.

    cvxpy computes starting values for the auxiliary variables of some atoms when the variables
    have values, and fails at it: ``cp.cvar(x, 0.6)`` is a ``TypeError`` and ``cp.sum_largest(x,
    x.size)`` a ``ValueError`` in the second solve, since cvxpy 1.8. Only nonlinear programmes use
    these values, so they are taken away while cvxpy compiles.
    """

    def get_problem_data(self, *args: Any, **options: Any) -> Any:
        """See ``cp.Problem``."""
        with unset(self.variables()):
            return super().get_problem_data(*args, **options)
