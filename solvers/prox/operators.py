r"""Proximal operators of what has no gradient in the clients' objectives, and of their constraints.

.. math::
    \operatorname{prox}_{\alpha \pi}(v) = \arg\min_x \; \pi(x) + \tfrac{1}{2 \alpha} \|x - v\|_2^2

where :math:`\pi` holds the absolute values, norms, balls and rows of a form. Where every variable
is in one of these alone, and rows are bounds, there is a closed form, see
:mod:`dald_model.solvers.prox.closed_form_reader`; the rest is solved by the solvers of clients.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import SelectionCache, ranges
from dald_model.solvers.base import FOUND, NOTHING, Answers, Encoding, Multipliers, Session, Turn
from dald_model.solvers.exact.conic import PROVEN
from dald_model.solvers.prox.closed_form_reader import Elements, Set, closed_form, sets_of
from dald_model.solvers.prox.nonsmooth import multipliers, nonsmooth_part
from dald_model.solvers.registry import Choice, alike
from dald_model.values import flat


class Landed(NamedTuple):
    """What the proximal operators of k clients gave.

    Attributes
    ----------
    points : ndarray
        One client after the other; NaN where there is none.
    messages : dict
        i -> (status in cvxpy's words, what was said), where no point was found.
    multipliers : callable
        Gives those of the minimisation above. A closed form gives the force that constraints and
        kinks hold; where several multipliers would do, what follows from it is one choice.
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
        How each client's is computed, such as "soft threshold" or "DAQP".
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._sizes = np.array([sub.size for sub in subproblems])
        self._starts = np.cumsum(self._sizes) - self._sizes
        lowering = Lowering()
        self._nonsmooth = [nonsmooth_part(sub, lowering) for sub in subproblems]
        forms = [closed_form(one.form) if one.form else None for one in self._nonsmooth]
        self._closed = {at: found for at, found in enumerate(forms) if found is not None}
        others = [at for at, found in enumerate(forms) if found is None]
        takers = solved([self._nonsmooth[at].part for at in others])
        self._others = dict(zip(others, takers, strict=True))
        self.explain = [
            self._closed[at].text if at in self._closed else self._others[at][0]
            for at in range(len(subproblems))
        ]
        self._elements = Elements.of(self._closed, self._starts, int(self._sizes.sum()))
        self._sets = sets_of(self._closed)
        self._kept = SelectionCache(self._choose, len(subproblems))

    def __call__(self, which: np.ndarray, points: np.ndarray, alpha: float) -> Landed:
        """The operators of the clients ``which`` at their points, one after the other."""
        chosen = self._kept(which)
        found = chosen.elements.prox(points, alpha)
        for one in chosen.sets:
            found[one.columns] = one.prox(points[one.columns], alpha, *one.arrays)
        messages: dict[int, tuple[str, str]] = {}
        answers: dict[int, ProxAnswer] = {}
        for together, places, members in chosen.others:
            given = [points[chosen.parts[i]] for i in places]
            live = [i for i, one in enumerate(given) if np.isfinite(one).all()]
            if not live:
                continue
            told = together([members[i] for i in live], [given[i] for i in live], alpha)
            for i, one in zip((places[i] for i in live), told, strict=True):
                answers[i] = one
                found[chosen.parts[i]] = one.point
                if one.status not in FOUND:
                    messages[i] = one.status, one.said

        def held(i: int) -> tuple[Encoding, np.ndarray]:
            part, own = chosen.parts[i], self._nonsmooth[which[i]]
            if not own.sub.is_constrained:
                return Encoding.ROWS, NOTHING
            if i in answers:
                return Encoding.VALUES, answers[i].duals()
            force = (points[part] - found[part]) / alpha
            if own.sub.form and own.sub.form.complete:
                return Encoding.FORCE, force
            # The rows are those of the kinks and constraints alone, not of the client's own form
            duals = own.part.local_duals(*multipliers(own.form, found[part], force))
            return Encoding.VALUES, np.concatenate([flat(d) for rule in duals for d in rule])

        return Landed(
            found, messages, lambda: Multipliers.joined([held(i) for i in range(which.size)])
        )

    def _choose(self, which: np.ndarray) -> _Chosen:
        sizes = self._sizes[which]
        starts = np.cumsum(sizes) - sizes
        shifts = np.zeros(self._sizes.size, dtype=int)
        shifts[which] = starts
        is_in = np.zeros(self._sizes.size, dtype=bool)
        is_in[which] = True
        columns: Any = ranges(self._starts[which], sizes)
        if columns[-1] - columns[0] + 1 == columns.size and (np.diff(which) == 1).all():
            columns = slice(int(columns[0]), int(columns[-1]) + 1)
        others: dict[int, tuple[Solved, list[int], list[int]]] = {}
        for i, at in enumerate(which.tolist()):
            if at in self._others:
                _, together, member = self._others[at]
                entry = others.setdefault(id(together), (together, [], []))
                entry[1].append(i)
                entry[2].append(member)
        sets = [one.take(is_in, shifts) for one in self._sets]
        return _Chosen(
            self._elements.take(columns),
            [one for one in sets if one.columns.size],
            list(others.values()),
            [slice(int(at), int(at + size)) for at, size in zip(starts, sizes, strict=True)],
        )


class _Chosen(NamedTuple):
    """What is constant for one selection of clients."""

    elements: Elements
    sets: list[Set]
    others: list[tuple[Solved, list[int], list[int]]]
    parts: list[slice]


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
