r"""Subproblem of a client: its augmented Lagrangian, as a ``cp.Problem`` and as numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from copy import copy
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import is_
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import held
from dald_model.compile.affine_maps import Sight
from dald_model.compile.form import Form
from dald_model.compile.lowered import Lowered
from dald_model.compile.lowering import Lowering
from dald_model.declare.affine import stacked_map
from dald_model.declare.client import Client, Problem
from dald_model.declare.consensus import Edge
from dald_model.declare.wording import symbolic
from dald_model.not_picklable import NotPicklable
from dald_model.text import SHOWN, together
from dald_model.values import flat

NOTHING = np.zeros(0)
DENSE = np.ndarray | np.generic
"""Values of Parameters as numpy has them."""
Sides = tuple[sp.csr_array, np.ndarray]
"""Matrix and offset."""


class Subproblem(NotPicklable):
    r"""The local augmented Lagrangian of one client, equation (12) with a server and (20) without.

    .. math::
        \min_{x_i \in X_i} \; f_i(x_i)
        + \sum_{j \in \mathcal R_i} \mu_{ij}^\top \mathcal C_{ij}
        + \sum_{j \in \mathcal R_i} \|\rho_{ij} \circ \mathcal C_{ij}\|^2

    with :math:`\mathcal C_{ij} = \pm(G_{ij} x_i + g_{ij} - z_{ij})`, where :math:`z_{ij}` is the
    neighbour's side. The consensus constraint is a variable of the problem, tied to :math:`x_i`
    by an equality; so :math:`\mu`, :math:`\rho` and :math:`z` are three Parameters of a DPP
    problem, no constant is dropped, and ``problem.value`` is the augmented Lagrangian itself.

    Attributes
    ----------
    problem : cp.Problem
        To be solved by hand or by a solver of :mod:`dald_model.solvers`.
    mu, rho, neighbours : dict
        Neighbour -> Parameter of shape (size of the edge,): the multiplier, the penalty (it enters
        squared, without one half) and the value of the neighbour's side.
    client : Client
        Over the client's local variables.
    entries : ndarray of int, shape (q,)
        Where the client's edges lie in the vectors over all edges, see :class:`Decomposition`.
    signs : ndarray, shape (q,)
        +1 where the client is the tail of the edge, -1 where it is the head.
    rows : ndarray of int, shape (q,)
        0 where the client is the tail, 1 where it is the head, see :class:`State`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> subproblem = common_number([0, 1, 2]).compile()[1]
    >>> subproblem.size, list(subproblem.neighbours), subproblem.problem.is_dpp()
    (1, ['server'], True)
    """

    elsewhere = "send dald_model.pack(subproblem), and dald_model.unpack it there"
    again = "compile a model of its own, copy.copy(model).compile()"

    def __init__(
        self,
        client: Client,
        edges: Sequence[Edge],
        places: Sequence[np.ndarray],
        lowering: Lowering | None = None,
    ) -> None:
        self.client = client
        self.name: Hashable = client.name
        self.variables = client.variables
        self._edges = edges
        name = self.name
        sizes = tuple([edge.size for edge in edges])
        signs = tuple([1 if edge.tail == name else -1 for edge in edges])
        self._slices, self.signs, self.rows, self._penalties = _ends(sizes, signs)
        self.entries = places[0] if len(places) == 1 else np.concatenate(places)
        # The sides as the user wrote them, and the user's Parameters in them; most are variables
        self._given = [side for edge in edges for side in edge.given(name)]
        made = [side for side in self._given if not isinstance(side, cp.Variable)]
        self.side_parameters = tuple([p for one in made for p in one.parameters()])
        self._lower = lowering or Lowering()
        # Each beside the values of the user's Parameters that it was made with
        self._sides: tuple[bytes, Sides] | None = None
        self._sight: Sight | None = None
        self._lowered: tuple[bytes, Lowered | None] | None = None
        self._seen: Sequence[Any] = ()  # of these Parameters, the objects themselves

    def of(self, client: Client) -> Subproblem:
        """The subproblem of another client over the same variables, on the same edges."""
        return Subproblem(client, self._edges, [self.entries], self._lower)

    @cached_property
    def _parameters(self) -> dict[str, dict[Hashable, cp.Parameter]]:
        found: dict[str, dict[Hashable, cp.Parameter]] = {"mu": {}, "rho": {}, "neighbours": {}}
        for edge, part in zip(self._edges, self._slices, strict=True):
            other, size = edge.other(self.name), edge.size
            for kind, value in (("mu", 0.0), ("rho", self._penalties[part]), ("neighbours", 0.0)):
                found[kind][other] = cp.Parameter(
                    size,
                    name=f"{kind}[{other}]",
                    nonneg=kind == "rho",
                    value=np.broadcast_to(value, (size,)),
                )
        return found

    @property
    def mu(self) -> dict[Hashable, cp.Parameter]:
        """See the class."""
        return self._parameters["mu"]

    @property
    def rho(self) -> dict[Hashable, cp.Parameter]:
        """See the class."""
        return self._parameters["rho"]

    @property
    def neighbours(self) -> dict[Hashable, cp.Parameter]:
        """See the class."""
        return self._parameters["neighbours"]

    @cached_property
    def gaps(self) -> dict[Hashable, cp.Variable]:
        r"""Neighbour -> the consensus constraint :math:`\mathcal C_{ij}` in :attr:`problem`."""
        return {
            edge.other(self.name): cp.Variable(edge.size, name=f"C[{edge.other(self.name)}]")
            for edge in self._edges
        }

    @cached_property
    def problem(self) -> cp.Problem:
        """See the class; made when first asked for, since the fast solvers do without."""
        lagrangian, ties = self.client.cost, []
        for edge in self._edges:
            other = edge.other(self.name)
            mu, rho, value = self.mu[other], self.rho[other], self.neighbours[other]
            gap = self.gaps[other]
            own = edge.side(self.name)
            ties.append(gap == (own - value if edge.sign(self.name) > 0 else value - own))
            lagrangian = lagrangian + mu @ gap + cp.sum_squares(cp.multiply(rho, gap))
        return Problem(cp.Minimize(lagrangian), [*self.client.constraints, *ties])

    @property
    def _users(self) -> list[cp.Parameter]:
        """The user's Parameters in the client and in its sides."""
        return [*self.client.parameters, *self.side_parameters]

    @property
    def is_complete(self) -> bool:
        """Whether its form says all of it."""
        lowered = self.lowered
        return lowered is not None and lowered.alike.complete

    @property
    def is_new(self) -> bool:
        """Whether nothing was made yet."""
        return self._lowered is None

    def take(self, lowered: Lowered | None) -> None:
        """Take the client as arrays, where no Parameter of the user's is in it."""
        self._lowered = b"", lowered

    def instantiate(self) -> None:
        """Make form and sides, or bring them up to the values of the user's Parameters.

        Nothing is made while one of these Parameters has no finite value.
        """
        parameters, own = self._users, None
        if self._lowered is not None and self._sides is not None:
            if not parameters:
                return
            own = _values(self.client.parameters)
            if self._lowered[0] == own and self._sides[0] == _values(self.side_parameters):
                return
        if all(is_finite(p.value) for p in parameters):
            _ = self.sides
            known = None if parameters else self._lowered
            lowered = self._relowered(own) if known is None else known[1]
            if lowered and not lowered.alike.complete:
                _ = lowered.form.cone  # what every solver of it needs

    @property
    def lowered(self) -> Lowered | None:
        """The client as arrays, see :class:`dald_model.compile.form.Form`, or None.

        Made once, and anew when a Parameter of the user's in the client has another value; one
        that is changed in place is seen by :meth:`instantiate`, with which every solve begins.
        """
        known = self._lowered
        if known is None:
            return self._relowered()
        if self._seen and not all(map(is_, map(held, self.client.parameters), self._seen)):
            return self._relowered()
        return known[1]

    def _relowered(self, values: bytes | None = None) -> Lowered | None:
        """The same where Parameters may have been changed in place, with these values if known."""
        known, parameters = self._lowered, self.client.parameters
        self._seen = list(map(held, parameters))
        values = _values(parameters) if values is None else values
        if known is None or known[0] != values:
            before = known and known[1]
            known = self._lowered = values, self._lower(self.client, before)
        return known[1]

    @property
    def form(self) -> Form | None:
        """The numbers of :attr:`lowered`."""
        lowered = self.lowered
        return lowered and lowered.form

    def local_duals(
        self, equality: np.ndarray, inequality: np.ndarray, balls: np.ndarray = NOTHING
    ) -> tuple[Any, ...]:
        return self._known.local_duals(equality, inequality, balls)

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        return self._known.cone_duals(multipliers)

    @property
    def _known(self) -> Lowered:
        assert self._lowered is not None
        assert self._lowered[1] is not None
        return self._lowered[1]

    @property
    def sides(self) -> Sides:
        """Matrix (q, m) and offset (q,) of the client's sides of its edges, stacked.

        ``m`` is the total size of :attr:`variables`. Made once, and anew when a Parameter of the
        user's in a side has another value.
        """
        parameters = self.side_parameters
        if self._sides is None or (parameters and self._sides[0] != _values(parameters)):
            values = _values(parameters) if parameters else b""
            self._sides = values, stacked_map(self._given, self.variables)
        return self._sides[1]

    @property
    def sight(self) -> Sight:
        """How strongly the sides see the variables; made anew with the sides."""
        matrix = self.sides[0]
        if self._sight is None or self._sight.matrix is not matrix:
            self._sight = Sight.of(matrix)
        return self._sight

    @property
    def is_constrained(self) -> bool:
        """Whether the client has constraints of its own."""
        return self.client.is_constrained

    @property
    def others(self) -> list[Hashable]:
        """The neighbours, in the order of the edges."""
        return [edge.other(self.name) for edge in self._edges]

    def instead(self, client: Client) -> Subproblem:
        """The same edges for a client with the same variables."""
        found = copy(self)
        found.client, found._lowered = client, None
        for made in ("problem", "gaps", "_parameters"):
            found.__dict__.pop(made, None)
        return found

    def around(
        self, centre: np.ndarray, known: tuple[Lowered | None, Subproblem] | None = None
    ) -> Subproblem:
        """The same edges and numbers in the differences of the variables from a point, (m,).

        ``known`` are numbers that the client had with the same sides, and it around this point.

        Numbers that have a large part in common lose it, and solvers their rounding errors. What
        cvxpy knows of the client, its :attr:`problem`, stays where it was.
        """
        (matrix, offset), lowered = self.sides, self.lowered
        assert self._sides is not None
        assert self._lowered is not None
        assert lowered is not None
        found = object.__new__(type(self))  # a copy, as it is made for each value of a Parameter
        found.__dict__.update(self.__dict__)
        then, there = known or (None, None)
        sides = (matrix, offset + matrix @ centre) if there is None else there.sides
        found._sides = self._sides[0], sides
        # As it was made: the user's Parameters may have other values by now
        around = there and there._lowered and there._lowered[1]
        pair = (then, around) if then and around else None
        found._lowered = self._lowered[0], lowered.around(centre, pair)
        return found

    @cached_property
    def _parts(self) -> list[slice]:
        """Where the variables lie in a vector of all of them."""
        return _stack(tuple([v.size for v in self.variables]))

    @cached_property
    def size(self) -> int:
        """The number of scalar variables of the client, ``m``."""
        return sum([math.prod(v.shape) for v in self.variables])

    def reset(self, penalties: np.ndarray) -> None:
        """Set the penalties, shape (q,); multipliers and neighbour values become zero."""
        self._penalties = penalties
        if "_parameters" in self.__dict__:
            nothing = np.zeros(self.entries.size)
            self.set(nothing, penalties, nothing)

    def set(self, mu: np.ndarray, rho: np.ndarray, neighbours: np.ndarray) -> None:
        """Set the Parameters from vectors over the client's edges, each of shape (q,)."""
        for edge, part in zip(self._edges, self._slices, strict=True):
            other = edge.other(self.name)
            self.mu[other].value = mu[part]
            self.rho[other].value = rho[part]
            self.neighbours[other].value = neighbours[part]

    def point(self) -> np.ndarray:
        """The current values of :attr:`variables` as one vector, column-major, shape (m,)."""
        return np.concatenate([flat(v.value) for v in self.variables])

    def part(self, variable: cp.Variable) -> slice:
        """Where one of the variables lies in a vector of all of them."""
        return self._parts[[v.id for v in self.variables].index(variable.id)]

    def spread(self, point: np.ndarray) -> dict[int, np.ndarray]:
        """A vector of shape (m,) as arrays by variable id."""
        return {
            v.id: point[part].reshape(v.shape, order="F")
            for v, part in zip(self.variables, self._parts, strict=True)
        }

    def __str__(self) -> str:
        whole, own = self.problem, self.client.constraints
        goal, rules = whole.objective.expr, whole.constraints
        said, more = symbolic(goal), ""
        if len(self._edges) > SHOWN:
            goal, rules = self.client.cost, [*own[:SHOWN], *rules[len(own) :][:1]]
            augmented = "mu[j] @ C[j] + sum_squares(multiply(rho[j], C[j]))"
            said = f"{symbolic(goal)} + sum over j of {augmented}"
            names = together(map(str, self.neighbours), 60)
            more = f"    ... and so on for all of the {len(self._edges)} neighbours j: {names}"
            if len(own) > SHOWN:
                more += f"; and {len(own) - SHOWN} constraints more of its own"
        lines = [f"  minimize {said}", *(f"    {symbolic(rule)}" for rule in rules)]
        return "\n".join([f"Subproblem of {self.name!r}", *lines, *([more] if more else [])])

    __repr__ = __str__


def _values(parameters: Sequence[cp.Parameter]) -> bytes:
    return b"".join([_bytes(p.value) for p in parameters])


def _bytes(value: Any) -> bytes:
    """A value as something to compare: this is asked for often."""
    return value.tobytes() if isinstance(value, DENSE) else flat(value).tobytes()


def is_finite(value: Any) -> bool:
    """Whether a Parameter has a value, of finite entries."""
    if value is None:
        return False
    dense = value if isinstance(value, DENSE) else flat(value)
    return math.isfinite(dense.item()) if dense.size == 1 else bool(np.isfinite(dense).all())


@lru_cache
def _ends(
    sizes: tuple[int, ...], signs: tuple[int, ...]
) -> tuple[list[slice], np.ndarray, np.ndarray, np.ndarray]:
    """Where edges of these sizes lie, their signs and rows, and penalties before any are set.

    The same arrays for most clients.
    """
    found = np.repeat(np.array(signs, dtype=float), sizes)
    return _stack(sizes), found, (found < 0).astype(int), np.ones(found.size)


@lru_cache
def _stack(sizes: tuple[int, ...]) -> list[slice]:
    stops = accumulate(sizes)  # numpy's takes longer for the few that most have
    return [slice(int(stop - size), int(stop)) for stop, size in zip(stops, sizes, strict=True)]
