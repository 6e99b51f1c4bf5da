r"""Watch over proposals, with the proof that a run with them still converges.

An *excursion* leaves the point that is kept by a proposal. It ends well, with *progress*, where the
residual is below :data:`PROGRESS` times that of the kept point, and the new point is kept in its
place. It ends badly after :data:`PATIENCE` loops without, where the residual is more than
:data:`GROWTH` times that of the kept point, or where a client could not be solved: then the run
goes back to the image of the kept point, and the next loop is a plain one, whose
point is always kept. In the first :data:`EARLY` excursions the residual may also be as large
as the first of the run, as the way may lead over high ground.

**Theorem.** Under the conditions of :mod:`dald_model.coordinate.convergence` (closed convex clients
minimised exactly, a saddle point, penalties and order that stay from some round on, one sweep an
update) and with a dual step of 1 the kept points converge to a fixed point, whose sides and
multipliers are optimal, whatever is proposed.

*Proof.* Let T be the map of an outer loop and :math:`r(v) = |T v - v|`. The descent (2) of that
module, written for two runs, says that T is nonexpansive, and the module that its iterates converge
to a fixed point. Look at the rounds after the penalties have come to rest and the early excursions
are over. A proposal farther than :data:`FARTHEST` times the residual from the image is not taken;
so an excursion from v, of at most ``PATIENCE`` + 1 loops with residuals of at most ``GROWTH`` r(v),
ends within a constant times r(v) from v.

If finitely many excursions end well, then from some round on each leaves nothing behind and is
followed by a plain loop: the kept points are the plain iteration. If infinitely many do, r of the
kept points falls below each power of ``PROGRESS``, as plain loops do not raise it, :math:`|T T v -
T v| \le |T v - v|`. So the moves of the excursions are summable, and the kept points are plain
steps with summable errors: for every fixed point the distances to it converge (quasi-Fejer
monotone; Combettes 2001). With :math:`r \to 0` and T continuous every limit point is a fixed point,
so they converge to one. The idea of a safeguard by summable residuals is that of Zhang, O'Donoghue
and Boyd (2020) and of SuperMann (Themelis and Patrinos 2019).

**Absent clients.** Where clients stay out of a loop, a proposal speaks for them: until a client
answers, its neighbours are told where the models expect it, and not where it was last. What counts
is each client's last true answer: the residual r is how far these are from each other in value and
in the prices that they balanced (:mod:`dald_model.coordinate.acceleration.evaluation`), and going
back takes all answers of the kept point back. While not everybody has answered since the excursion
began, r is large wherever the proposal is far, even at the optimum. So growth is that of r on the
edges of which both ends have. A loop in which not everybody takes part is no longer one
nonexpansive map, a plain one may raise r, and so the progress that ends an excursion well is
measured against the least residual of all kept points.

**Theorem.** Let clients be closed, convex and minimised exactly, and let penalties rest from some
round on, whoever is absent when. Then the residuals of the kept points come below every positive
tolerance, or from some round on the kept points are those of the plain run, of as many loops as
there are plain ones; whatever is proposed.

*Proof.* Every excursion that ends well lowers the least residual by the factor ``PROGRESS``; if
infinitely many do, it goes to zero. If not, none of those that are left leaves anything behind, as
all that a plain loop depends on is taken back, and a plain loop follows each.

In the first case a kept point has :math:`\lambda_i \in \partial f_i(x_i)` of each client, although
not of one round, with sides and prices that agree up to the tolerance: an optimum of a problem that
is as near, and what the run's own test asks for. In the second the run inherits what is known of
plain runs with absent clients: with a server and independent absences they converge almost surely
(Wei and Ozdaglar 2013), peer to peer nothing is proved, with or without proposals. Whether somebody
is absent must not depend on whether a loop is plain, or the plain loops are not the plain run.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.evaluation import (
    Acceleration,
    Evaluation,
    Opening,
    Proposal,
    length,
)
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.state import State

PROGRESS = 0.9
"""Share of the kept point's residual below which a proposal has paid. Any below one ends a run; 33
models of the panel that propose take 1.03 and 1.00 times the rounds with 0.5 and 0.99."""
PATIENCE = 8
"""Loops of an excursion without progress. The 33 take 1.01 and 1.00 times the rounds with 3, 24."""
GROWTH = 10.0
"""How many times the kept point's residual one of an excursion may be. With 2 and with 100 the 33
take 1.02 and 0.99 times the rounds, a linear program on a path 1.37 times, a supply chain 1.26."""
EARLY = 100
"""Excursions in which a residual may also be as large as the first of the run: without any, 42
models of the panel take 1.07 times the rounds, and a linear program on a path 2.6 times."""
FARTHEST = 1e6
"""How many times the residual a proposal may be from the image. With ten times as many 42 models of
the panel take 1.00 times the rounds; with a tenth 1.05 times, one with raw columns 3.4 times."""
SIGNS = np.array([[1.0], [-1.0]])
"""Of the multiplier at the tail and at the head of an edge."""


class Safeguard:
    """Proposals of an acceleration in one run, and what is kept if they fail.

    Attributes
    ----------
    origin : str
        The proposer of the point that the present outer loop began at; "" at a plain image.
    """

    def __init__(
        self,
        compiled: Decomposition,
        acceleration: Acceleration,
        stages: Iterable[Iterable[Hashable]],
        state: State,
        learnt: ModelState | None = None,
    ) -> None:
        rank = dict.fromkeys(compiled, 0)  # of who is not there, on whose edges nothing depends
        rank |= {name: at for at, stage in enumerate(stages) for name in stage}
        self._heads = np.zeros(compiled.size, dtype=bool)
        for (tail, head), slot in compiled.slots.items():
            self._heads[slot] = rank[head] > rank[tail]
        self._later_ends = np.array([~self._heads, self._heads])
        off = None if state.channels is None else state.channels.off
        opening = Opening(compiled, self._heads, state.rho, off, learnt, state.reduce)
        self._accelerator = acceleration.open(opening)
        self._before, self._rho = self._point(state), state.rho
        self._kept: Evaluation | None = None
        self._ended: Evaluation | None = None
        self._state: State | None = None
        self._first = self._least = math.inf
        self._excursions = self._loops = 0
        self._answered = np.zeros((2, compiled.size), dtype=bool)
        self.origin = ""

    @property
    def learnt(self) -> ModelState | None:
        """The present models of the clients, for another run."""
        return self._accelerator.learnt

    @property
    def recalled(self) -> tuple[Hashable, ...]:
        """The clients that had a model at the beginning."""
        return self._accelerator.recalled

    def observe(self, state: State) -> None:
        """Learn from the outer loop that ends a run, for the next one; its multipliers stay."""
        mu, state.mu = state.mu, state.estimate
        self._accelerator.observe(self._evaluated(state), state.rho)
        state.mu = mu

    def failed(self, state: State) -> bool:
        """A client could not be solved: whether that was at a proposal, which is taken back."""
        if not self.origin or self._kept is None:
            return False
        self._return(state, self._kept)
        return True

    def nearest(self, state: State) -> State:
        """The outer loop that ended, or the kept one where that is an excursion's and farther off.

        Residuals of points that may be taken back say nothing of the penalties: where excursions
        lead nowhere, each takes as many rounds as there are between two changes of these.
        """
        kept, self._ended = self._kept, self._evaluated(state)
        is_nearer = kept is not None and self._ended.size(self._rho) > kept.size(self._rho)
        if kept is None or not is_nearer or state.channels is not None:
            return state
        moved = SIGNS * (kept.estimates - kept.after[0]) / (2 * self._rho**2)
        return replace(state, sides=kept.sides, received=kept.sides[::-1] - moved, mu=kept.after[0])

    def look(self, state: State) -> bool:
        """Judge the outer loop that ended and choose where the next begins.

        ``state`` has the new multipliers and penalties. Gives whether the proposal that the loop
        began at was taken back.
        """
        evaluation, rho = self._ended or self._evaluated(state), state.rho
        self._ended = None
        self._accelerator.observe(evaluation, rho)
        size = evaluation.size(rho)
        if math.isnan(size):  # somebody was never solved
            self._rho = rho
            self._begin(state, evaluation.after, None)
            return False
        if self._kept is None:
            self._first = size
        kept = self._kept.size(rho) if self._kept else math.inf
        if self._rho is not rho:
            self._rho, self._least = rho, kept
        if size < PROGRESS * self._least or self._loops == 0:
            self._kept, self._loops, self._least = evaluation, 0, min(size, self._least)
            self._state = None if state.channels is None else state.snapshot()
        else:
            assert self._kept is not None
            if self._is_lost(state, evaluation, kept):
                self._return(state, self._kept)
                return True
        proposal = self._accelerator.propose(evaluation, rho)
        if proposal:
            way = length(proposal.point - evaluation.after, rho, state.reduce)
            proposal = proposal if way <= FARTHEST * size else None
        self._begin(state, evaluation.after, proposal)
        return False

    def _is_lost(self, state: State, evaluation: Evaluation, kept: float) -> bool:
        """Whether the excursion ends badly; ``kept`` is the kept point's residual."""
        if state.channels is not None:
            self._answered |= state.channels.fresh | state.channels.off
            evaluation = evaluation.among(np.asarray(self._answered.all(axis=0)))
        most = self._first if self._excursions <= EARLY else 0.0
        is_far = not evaluation.size(state.rho) <= max(GROWTH * kept, most)
        return is_far or self._loops > PATIENCE

    def _evaluated(self, state: State) -> Evaluation:
        """The outer loop that ended; prices are those of the penalties that it was run with."""
        if state.channels is not None:
            channels, after = state.channels, self._point(state)
            known = np.array([state.sides, channels.multiplier_estimates])
            sides, estimates = np.where(channels.heard, known, np.nan)
            sides[:, channels.off], estimates[:, channels.off] = 0.0, after[0, channels.off]
            is_whole = bool((channels.fresh | channels.off).all()) and not channels.lagging
            objectives = state.objectives.copy()
            return Evaluation(
                self._before, after, sides, estimates, objectives, state.points.copy(), is_whole
            )
        mu, weight = self._before[0], 2 * self._rho**2
        estimates = np.array(
            [
                mu + weight * (state.sides[0] - state.received[0]),
                mu + weight * (state.received[1] - state.sides[1]),
            ]
        )
        return Evaluation(
            self._before,
            self._point(state),
            state.sides.copy(),
            estimates,
            state.objectives.copy(),
            state.points.copy(),
            reduce=state.reduce,
        )

    def _begin(self, state: State, image: np.ndarray, proposal: Proposal | None) -> None:
        """Begin the next loop at a proposal, or at the image of the one that ended."""
        self.origin = "" if proposal is None else proposal.name
        if proposal is not None and self._loops == 0:
            self._excursions += 1
            self._answered[:] = False
        if proposal is not None or self._loops:
            self._loops += 1
        self._set(state, image if proposal is None else proposal.point)
        if proposal is not None and state.channels is not None:
            sides = state.sides if proposal.sides is None else proposal.sides
            state.channels.predicted = self._later(sides, proposal.point[1])

    def _return(self, state: State, kept: Evaluation) -> None:
        """Go back to the plain image of the kept point."""
        if self.origin:
            self._accelerator.reject(self.origin)
        self.origin, self._loops = "", 0
        if self._state is not None:
            state.go_back(self._state)
        self._set(state, kept.after)

    def _set(self, state: State, point: np.ndarray) -> None:
        self._before = point
        state.mu = point[0].copy()
        if state.channels is None:
            state.sides = self._later(state.sides, point[1])
        else:
            state.channels.predicted = None

    def _later(self, sides: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Sides (2, Q) with others at the later ends."""
        return np.where(self._later_ends, later, sides)

    def _point(self, state: State) -> np.ndarray:
        return np.array([state.mu, np.where(self._heads, state.sides[1], state.sides[0])])
