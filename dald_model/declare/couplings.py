"""Couplings: constraints and objectives over the variables of several clients."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp

from dald_model.declare.checked import as_constraints, as_objective, check_convex
from dald_model.declare.client import Client
from dald_model.declare.consensus import Owners
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError


@dataclass(frozen=True, eq=False, repr=False)
class Coupling(Client):
    r"""A constraint or objective over several clients: a client without data, over their variables.

    .. math::
        g(A_1 x_1, \dots, A_n x_n, t) \quad \text{s.t. } (A_1 x_1, \dots, A_n x_n, t) \in T

    with t what nobody but the coupling uses. It stands in the all-in-one problem as it is; the
    compiler gives it one edge a party, on which the party shares :math:`A_i x_i`.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x, y, model = cp.Variable(name="x"), cp.Variable(name="y"), dm.Model("budget")
    >>> for name, v in (("a", x), ("b", y)):
    ...     _ = model.client(name, cp.square(v - 3))
    >>> coupling = model.couple(x + y <= 4, name="budget")
    >>> coupling.name, len(coupling.constraints)
    ('budget', 1)
    """

    kind: ClassVar[str] = "coupling"

    @property
    def has_objective(self) -> bool:
        """Whether it adds to the objective."""
        return bool(self.objective.variables())

    def __str__(self) -> str:
        parts = [short(self.objective)] if self.has_objective else []
        return "; ".join([*parts, *map(short, self.constraints)])


def declare_coupling(
    name: Hashable, given: Sequence[Any], objective: Any, constraints: Iterable[Any]
) -> Coupling:
    """Check what was passed to :meth:`Model.couple` and return the :class:`Coupling`.

    Raises
    ------
    DeclarationError
        If nothing was passed, or if a constraint or the objective is not DCP.
    """
    where = f"coupling {name!r}"
    for part in given:
        if isinstance(part, cp.Expression | cp.Minimize | cp.Maximize):
            raise DeclarationError(
                f"{where}: given the expression {short(part)}, expected a constraint such as "
                "x + y <= 1; pass an objective as objective=..."
            )
        if isinstance(part, Iterable) and not isinstance(part, str):
            raise DeclarationError(
                f"{where}: given a {type(part).__name__}, expected a constraint such as "
                "x + y <= 1; unpack several as in model.couple(*constraints)"
            )
    rules = as_constraints(where, given) + as_constraints(where, constraints)
    goal = as_objective(where, 0 if objective is None else objective)
    found = Coupling(name, goal, tuple({rule.id: rule for rule in rules}.values()))
    if not found.variables:
        stated = str(found) or "nothing"
        raise DeclarationError(
            f"{where}: given {stated}, which holds no variables, expected constraints or an "
            "objective over the variables of several clients, such as "
            "model.couple(x0 + x1 == demand)"
        )
    check_convex(found)
    return found


def check_parties(coupling: Coupling, owners: Owners) -> None:
    """Refuse a coupling over variables of which no client uses any, once all clients are known.

    One client's own is fine: of all links in a network, some carry what a single client sends.

    Raises
    ------
    DeclarationError
        Naming the coupling.
    """
    if not any(owners.get(v.id) for v in coupling.variables):
        raise DeclarationError(
            f"coupling {coupling.name!r}: {coupling} holds variables that no client uses, expected "
            "at least one of a client; declare who uses it, or leave the coupling out"
        )


def fresh(wish: str, taken: Iterable[Hashable]) -> str:
    """The name, or the name with the first number from 2 on that nobody has."""
    names, name, count = set(taken), wish, 1
    while name in names:
        count += 1
        name = f"{wish} {count}"
    return name
