"""ALADIN: the consensus of models that the clients send."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.coordinates import Coordinates, Group
from dald_model.coordinate.acceleration.evaluation import (
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
)
from dald_model.coordinate.acceleration.hybrid import Hybrid
from dald_model.coordinate.acceleration.local_models import ModelState, composed
from dald_model.coordinate.acceleration.secant import SecantModel
from dald_model.eigen import eigh
from dald_model.errors import OptionError
from dald_model.solvers.exact.sensitivity import Sensitivity, no_manifold
from dald_model.values import BYTES

RIGID = 1e-6
"""A response is kept this far from 0, a hard constraint."""
FLAT = 1e-10
"""A response is kept this far from 1, no curvature: less than of a learned one, as it is exact."""


TRIALS = 2
"""Proposals that may be taken back before the Hessians are not believed any more."""


class SentModels:
    """The responses of the clients of a group, of r shared directions each.

    A server sends nothing, as it has no curvature.
    """

    def __init__(self, compiled: Decomposition, coordinates: Coordinates, group: Group) -> None:
        size = group.columns.shape[1]
        self._response = np.tile((1 - FLAT) * np.eye(size), (len(group.names), 1, 1))
        self._columns = group.columns
        self._parts: list[tuple[np.ndarray, np.ndarray, Sensitivity]] = []
        subs = [] if group.is_server else [compiled[name] for name in group.names]
        sizes = np.array([sub.size for sub in subs])
        for own in np.unique(sizes):
            which = np.flatnonzero(sizes == own)
            chosen = [subs[at] for at in which.tolist()]
            maps = [coordinates.seen(sub.name) for sub in chosen]
            starts = np.array([compiled.columns[sub.name].start for sub in chosen])
            places = starts[:, None] + np.arange(own)
            self._parts.append((which, places, Sensitivity(chosen, np.stack(maps))))

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """See :class:`Models`: nothing is learned."""
        wrong = moved - np.einsum("nij,nj->ni", self._response, told)
        return float(np.vdot(wrong, wrong))

    def hear(self, points: np.ndarray, slopes: np.ndarray) -> None:
        """Take the responses at the clients' points, of all variables, and slopes, (N,)."""
        for which, places, sensitivity in self._parts:
            changed, found = sensitivity.changed(points[places], slopes[self._columns[which]])
            self._response[which[changed]] = found

    def stiffness(self) -> np.ndarray:
        r""":math:`B = S^{-1} - I`, the Hessians of the clients along the directions."""
        values, vectors = eigh(self._response)
        return composed(vectors, 1 / np.clip(values, RIGID, 1 - FLAT) - 1)


@dataclass(frozen=True)
class ALADIN:
    r"""ALADIN: consensus of quadratic models whose curvature the clients send.

    Each client sends, beside its answer, the Hessian of its augmented Lagrangian on what it
    shares, :math:`(M (H + K)^{-1} M^\top)^{-1}`, reduced to the rows and kinks that are active
    (:mod:`dald_model.solvers.exact.sensitivity`). Each round the consensus of the models is solved
    (:mod:`dald_model.coordinate.acceleration.master`): with quadratic clients that is the
    optimum, so that the second round confirms it; else it is a generalised Newton step on the
    coupled optimality conditions (Houska, Frasch and Diehl 2016). Where the models' last error
    leaves a step worth less than a round, ``otherwise`` proposes; after two proposals that were
    taken back, it does alone.

    A Hessian of r shared directions is r (r + 1)/2 numbers, sent when it is another than the last.
    It says more of a client's data than answers do: that of least squares is the Gram matrix of
    its rows.

    Parameters
    ----------
    otherwise : Hybrid
        The acceleration where the Hessians do not help.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(acceleration=dm.ALADIN()).status)
    optimal
    """

    otherwise: Hybrid = field(default_factory=Hybrid)

    def open(self, opening: Opening) -> AladinRun:
        compiled = opening.compiled
        for name, sub in compiled.items():
            why = "" if name in compiled.averages else no_manifold(sub)
            if why:
                raise OptionError(
                    f"acceleration: {self!r} needs the curvature of every client, and "
                    f"{sub.client.kind} {name!r} has none to share: {why}; take dm.Hybrid()"
                )
        return AladinRun(AladinModel(opening), self.otherwise.open(opening))

    def reveals(self, compiled: Decomposition) -> str:
        return f"Hessians; {self.otherwise.reveals(compiled)}"

    def added(self, compiled: Decomposition) -> int:
        """See :class:`Acceleration`: all Hessians, prices, and what ``otherwise`` adds."""
        clients = [sub for name, sub in compiled.items() if name not in compiled.averages]
        sizes = np.array([np.unique(sub.sides[0].indices).size for sub in clients])
        hessians = BYTES * int((sizes * (sizes + 1) // 2).sum())
        return hessians + self.otherwise.added(compiled)

    def explain(self) -> str:
        return (
            f"{self!r} has each client send the Hessian of its augmented Lagrangian on its r "
            "shared directions, 4 r (r + 1) bytes whenever it is another, to a coordinator that "
            "sees the prices and values of all edges; Hessians reveal more of the data than "
            f"answers do. Where they do not help: {self.otherwise.explain()}"
        )


class AladinModel(SecantModel):
    """The sent models of one run, in the place of learned ones."""

    name = "aladin"

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening._replace(learnt=None))
        self._models = self._sent = [
            SentModels(opening.compiled, self.coordinates, group)
            for group in self.coordinates.groups
        ]
        self.error = 0.0

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        super().observe(evaluation, rho)
        for model in self._sent:
            model.hear(evaluation.points, self._slopes)


class AladinRun(Accelerator):
    """Sent models, and another accelerator for the rounds in which they have nothing to propose."""

    def __init__(self, sent: AladinModel, otherwise: Accelerator) -> None:
        self._sent, self._otherwise, self._left = sent, otherwise, TRIALS
        self.recalled = otherwise.recalled

    @property
    def learnt(self) -> ModelState | None:
        """See :class:`Accelerator`: what would be learned without Hessians."""
        return self._otherwise.learnt

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        if self._left:
            self._sent.observe(evaluation, rho)
        self._otherwise.observe(evaluation, rho)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        found = self._sent.propose(evaluation, rho) if self._left else None
        return self._otherwise.propose(evaluation, rho) if found is None else found

    def reject(self, name: str) -> None:
        if name == self._sent.name:
            self._left -= 1
        else:
            self._otherwise.reject(name)
