r"""Proximal operators of what has no gradient in the clients' objectives, and of their constraints.

.. math::
    \operatorname{prox}_{\alpha \pi}(v) = \arg\min_x \; \pi(x) + \tfrac{1}{2 \alpha} \|x - v\|_2^2

where :math:`\pi` holds the absolute values, norms, balls and rows of a form: what the solvers of
clients minimise for a client with this objective whose one edge says that its variables are v. Of
absolute values of single variables alone it is the soft threshold, for all clients at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, Edge
from dald_model.solvers.arrays.indexing import ranges
from dald_model.solvers.base import (
    FOUND,
    NOTHING,
    PROVEN,
    Answers,
    Encoding,
    Multipliers,
    Session,
    Turn,
)
from dald_model.solvers.registry import Choice, alike
from dald_model.values import flat

PROX_ACCURACY = 1e-12
"""Accuracy of the points that solvers are asked for; of Clarabel less, since it ends with less
where more is asked than it can give."""
OF_CONES = 1e-7


class Landed(NamedTuple):
    """What the proximal operators of k clients gave.

    Attributes
    ----------
    points : ndarray
        One client after the other; NaN where there is none.
    messages : dict
        i -> (status in cvxpy's words, what was said), where no point was found.
    multipliers : callable
        Gives those of the minimisation above.
    """

    points: np.ndarray
    messages: dict[int, tuple[str, str]]
    multipliers: Callable[[], Multipliers]


class Prox:
    """The operators of n clients of any shapes.

    Parameters
    ----------
    subproblems : sequence of Subproblem

    Attributes
    ----------
    explain : list of str
        How each client's is computed: "soft threshold", or the name of a solver.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._sizes = np.array([sub.size for sub in subproblems])
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._is_constrained = [sub.is_constrained for sub in subproblems]
        self._weights, self._centres = np.zeros((2, int(self._sizes.sum())))
        self.explain = ["soft threshold"] * len(subproblems)
        lowering, parts = Lowering(), dict[int, Subproblem]()
        for at, sub in enumerate(subproblems):
            known = soft_threshold(sub.form)
            if known is None:
                parts[at] = nonsmooth_part(sub, lowering)
            else:
                mine = slice(self._starts[at], self._starts[at] + sub.size)
                self._weights[mine], self._centres[mine] = known
        self._takers: dict[int, tuple[Solved, int]] = {}
        for at, (name, together, member) in zip(parts, solved([*parts.values()]), strict=True):
            self.explain[at], self._takers[at] = name, (together, member)

    def __call__(self, which: np.ndarray, points: np.ndarray, alpha: float) -> Landed:
        """The operators of the clients ``which`` at their points, one after the other."""
        own = ranges(self._starts[which], self._sizes[which])
        width = alpha * self._weights[own]
        found = points - np.clip(points - self._centres[own], -width, width)
        stops = np.cumsum(self._sizes[which])
        asked: dict[Solved, dict[int, slice]] = {}
        for i, at in enumerate(which.tolist() if self._takers else []):
            mine = slice(int(stops[i] - self._sizes[at]), int(stops[i]))
            if at in self._takers and np.isfinite(points[mine]).all():
                asked.setdefault(self._takers[at][0], {})[i] = mine
        answers: dict[int, ProxAnswer] = {}
        for together, places in asked.items():
            members = [self._takers[which[i]][1] for i in places]
            told = together(members, [points[mine] for mine in places.values()], alpha)
            for (i, mine), one in zip(places.items(), told, strict=True):
                answers[i], found[mine] = one, one.point
        failed = {i: one for i, one in answers.items() if one.status not in FOUND}

        def held(i: int) -> tuple[Encoding, np.ndarray]:
            if i not in answers or not self._is_constrained[which[i]]:
                return Encoding.ROWS, NOTHING
            return Encoding.VALUES, answers[i].duals()

        return Landed(
            found,
            {i: (one.status, one.said) for i, one in sorted(failed.items())},
            lambda: Multipliers.joined([held(i) for i in range(which.size)]),
        )


class ProxAnswer(NamedTuple):
    """What was found for one client, and what gives the dual values of its constraints."""

    point: np.ndarray
    status: str
    said: str
    duals: Callable[[], np.ndarray]


class Solved:
    """The operators of clients that one session of a solver takes, and others where it fails.

    Parameters
    ----------
    subproblems : sequence of Subproblem
        See :func:`to_a_point`.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._subproblems = subproblems
        self._solvers = Choice(None).chain(subproblems[0])
        self._sessions: list[Session] = []

    def __call__(
        self, members: Sequence[int], points: Sequence[np.ndarray], alpha: float
    ) -> list[ProxAnswer]:
        """Those of the ``members``, of which there is one at least, at their points."""
        found: dict[int, ProxAnswer] = {}
        for nth, solver in enumerate(self._solvers):
            asked = [
                (at, point)
                for at, point in zip(members, points, strict=True)
                if nth == 0 or found[at].status not in (*FOUND, *PROVEN)
            ]
            if not asked:
                break
            if nth == len(self._sessions):
                self._sessions.append(solver.open(self._subproblems))
            which, v = np.array([at for at, _ in asked]), np.concatenate([x for _, x in asked])
            rho = np.full(v.size, np.sqrt(0.5 / alpha))
            turn = Turn(which, np.zeros(v.size), rho, v, v)
            accuracy = OF_CONES if solver.name == "conic" else PROX_ACCURACY
            answers = self._sessions[nth].minimise(turn, accuracy)
            own = [self._subproblems[at] for at in which]
            for (at, _), sub, one in zip(asked, own, answers.each(own), strict=True):
                said = one.messages.get(0, "")
                found[at] = ProxAnswer(one.points, one.statuses[0], said, _duals(sub, one))
        return [found[at] for at in members]


def solved(subproblems: Sequence[Subproblem]) -> list[tuple[str, Solved, int]]:
    """What solves each of them: the solver's name, the clients together, and which of these."""
    first = [Choice(None).chain(sub)[0] for sub in subproblems]
    groups: dict[tuple[str, Hashable], list[int]] = {}
    for at, (sub, solver) in enumerate(zip(subproblems, first, strict=True)):
        groups.setdefault((solver.name, alike(solver, sub) or at), []).append(at)
    found = {}
    for (name, _), group in groups.items():
        together = Solved([subproblems[at] for at in group])
        found |= {at: (name, together, member) for member, at in enumerate(group)}
    return [found[at] for at in range(len(subproblems))]


def _duals(sub: Subproblem, answers: Answers) -> Callable[[], np.ndarray]:
    """What gives the dual values of a client's constraints, flat, from its solver's answer."""

    def found() -> np.ndarray:
        held = answers.multipliers
        encoding, given = Encoding(int(held.encodings[0])), held.values
        if encoding == Encoding.VALUES or not given.size:
            return given
        if encoding == Encoding.CONES:
            rules = sub.cone_duals(given)
        else:
            form = sub.form
            assert form is not None
            rules = sub.local_duals(*np.split(given, np.cumsum(form.heights))[:-1])
        return np.concatenate([NOTHING, *(flat(value) for rule in rules for value in rule)])

    return found


def soft_threshold(form: Form | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and centres, (m,), of absolute values of single variables; None if there is more."""
    if form is None or form.extra or not form.complete or any(form.heights):
        return None
    weights, centres = np.zeros((2, form.size))
    for term in form.terms:
        if term.is_smooth:
            continue
        matrix = sp.csr_array(term.matrix)
        matrix.eliminate_zeros()
        columns, factors = matrix.indices, matrix.data
        is_single = term.kind.is_polyhedral and (np.diff(matrix.indptr) == 1).all()
        if not is_single or weights[columns].any() or np.unique(columns).size < columns.size:
            return None
        weights[columns], centres[columns] = term.weight * np.abs(factors), -term.offset / factors
    return weights, centres


def nonsmooth_part(sub: Subproblem, lowering: Lowering) -> Subproblem:
    """The kinks and constraints of a client alone, to be minimised near a point."""
    client = Client(sub.name, cp.Minimize(_kinks_of(sub)), sub.client.constraints)
    return to_a_point(client, lowering)


def to_a_point(client: Client, lowering: Lowering | None = None) -> Subproblem:
    r"""The subproblem of a client whose one edge says that its variables are a point v.

    With :math:`\rho^2 = 1 / (2 \alpha)` it is the minimisation of the proximal operator at v.
    """
    edge = Edge(client.name, ("point", client.name))
    for variable in client.variables:
        edge.add(ConsensusEquality(variable, cp.Variable(variable.shape)), client.name)
    return Subproblem(client, [edge], [np.arange(edge.size)], lowering)


def _kinks_of(sub: Subproblem) -> cp.Expression:
    """The summands without a gradient of a client, in all of its variables in their order."""
    x = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    total = np.zeros(sub.size) @ x
    if sub.form is None or not sub.form.valued:
        return total  # then all of the objective is smooth
    for term in sub.form.terms:
        if term.is_smooth or term.is_set:
            continue
        u = term.matrix @ x + term.offset
        if not term.kind.is_polyhedral:
            u = cp.reshape(u, (term.weight.size, term.width), order="C")
        sizes = cp.abs(u) if term.kind.is_polyhedral else cp.norm(u, 2, axis=1)
        total = total + term.weight @ sizes
    return total
