"""Proximal operators that have no closed form, by the solvers of clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import FOUND, NOTHING, Answers, Encoding, Session, Turn
from dald_model.solvers.exact.conic import PROVEN
from dald_model.solvers.registry import Choice, alike
from dald_model.values import flat

ACCURACY = 1e-10
"""Accuracy of the points that solvers are asked for; of Clarabel less, since it ends with less
where more is asked than it can give."""
OF_CONES = 1e-7


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
        See :func:`dald_model.solvers.prox.nonsmooth.to_a_point`.
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
            accuracy = OF_CONES if solver.name == "conic" else ACCURACY
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
