r"""Rounds of an interior point in the loop: one iteration is one round.

What the loop tests are the relative residuals of the conditions of optimality: how far constraints
are broken, in balanced units, or the gap between the value and what the multipliers prove, relative
to the value; and how far the gradient of the Lagrangian is from zero, in the same units.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.coordinate.certificates import proof
from dald_model.coordinate.state import State
from dald_model.coordinate.status import ClientFailedError, Status, Termination
from dald_model.coordinate.sweeper import Record
from dald_model.deadline import check_time
from dald_model.declare.remote import RemoteClient
from dald_model.engines.members import Shown, Spread
from dald_model.engines.placement import Placement, obstacle
from dald_model.engines.portable import pack
from dald_model.errors import DaldError
from dald_model.gc_pause import gc_paused
from dald_model.schedule.network import Levels
from dald_model.schedule.round_state import Residuals
from dald_model.solvers.interior.assembly import JUMPS, are_read
from dald_model.solvers.interior.clients import Aggregator
from dald_model.solvers.interior.coordinator import Coordinator, Found
from dald_model.solvers.interior.forms import of_each
from dald_model.solvers.interior.joint import Joint, Opening, forms_of
from dald_model.solvers.interior.member import Member, Seen
from dald_model.solvers.interior.shown import sent

SHARPER_GAP = 1000.0
"""So many times smaller than the loop's tolerances violations and gap become, two rounds more:
prices have half the digits of the value where a constraint is nearly active."""
SHARPER_SLOPES = 100.0
"""So many times smaller still slopes become, a round more where terms are smooth: they are relative
to the steepest of all, and prices to the steepest of one client."""
LEAST_VALUE = 1e-9
"""Least value that a gap is relative to, as a share of the value in the first round."""
NO_MOVE = 1e-7
"""A step that is shorter moves nothing."""
HALVED_IN = 3
"""Rounds in which residuals do not halve after which rounding is at work: they fall by ten a round
near the end."""
ROUNDS_FAR_OUT = 10
"""The same far from the end, where short steps may halve nothing for a while."""
PROVED = 1e-7
"""What of a ray of length one may be left of the zero that it ought to be: then no point within
1e7 units is feasible, or the fall goes on as far."""
NO_PROGRESS = 1e3
"""So many times the best residual is no progress that is left for later."""
INACCURATE = 1e-4
"""Residuals up to which an answer that rounding ended is one, if an inaccurate one."""
CORRECTED = 10
"""Rounds in which an active set is corrected at most: of 100 steps of tanks from states that have
nothing to do with each other the slowest takes 9, and where it takes more it goes in a circle."""


KEPT = (
    "first",
    "has_ground",
    "has_asked",
    "best",
    "is_stuck",
    "since",
    "found",
    "round",
    "held",
    "nearest",
    "halved",
    "gap",
)
"""Attributes that a file holds as they are."""


class InteriorSweeper:
    """An iteration of the interior point each round.

    Parameters
    ----------
    compiled : Decomposition
    placement : Placement or None
        Hosts of an engine, which clients with data are reached at by messages.
    start : sequence of ndarray
        Where an earlier run ended, of each participant. Its active set is held, and corrected each
        round; where that does not end, a run in the middle of the constraints begins.
    enough : float
        Residuals up to which an iterate is entered into the state in its round; others are once the
        run ended, where no message has to be sent for it.
    aggregator : Aggregator or None
        What adds the clients' arrays; None adds all rows at once.
    """

    def __init__(
        self,
        compiled: Decomposition,
        placement: Placement | None = None,
        start: Sequence[np.ndarray] = (),
        enough: float = np.inf,
        aggregator: Aggregator | None = None,
    ) -> None:
        self._compiled, self._placement = compiled, placement
        self._aggregator, self._start, self._enough = aggregator, start, enough
        self._later: Any = None  # an iterate that is not in the state yet
        # Rounds in which an active set was held; None when it no longer is
        self._held: int | None = None
        self._round = 0
        # The sum alone is known; it stands at a client whose objective nobody here can evaluate
        remote = (subs[0].name for subs in compiled.kinds if subs[0].client.is_remote)
        self._counted = compiled.order.get(next(remote, None), 0)
        self._joint: Joint | None = None
        self._first, self._has_ground, self._has_asked = 0.0, False, False
        self._best, self._is_stuck, self._since = np.inf, False, 0
        self._found = Found(*6 * [np.inf])
        # How near the run came to an optimum, or to a certificate that there is none
        self._nearest, self._ray = np.inf, np.inf
        # And when it had halved that or the gap last: by a little less each round is no standstill
        self._halved, self._gap = np.inf, np.inf

    @gc_paused
    def run(self, state: State, stages: Levels, tolerance: float) -> Record:
        """See :class:`dald_model.coordinate.sweeper.Sweeper`.

        Raises
        ------
        ClientFailedError
            With a proof that the problem is infeasible or unbounded, or where the arithmetic ended
            before any accuracy.
        """
        self._round += 1
        if self._placement is not None:
            self._placement.begin_round(self._round)
        if self._joint is None:
            idle = self._idle()
            joint = idle or self._opened(takes_jumps=self._has_jumps)
            is_held = joint.resume(self._start, state.points)
            if not is_held and (idle is not None or joint.takes_jumps):
                joint = self._anew(joint)
            self._joint, coordinator = joint, joint.coordinator
            if not is_held and coordinator.is_free:
                coordinator.begin_free()
                is_held = True
            self._held = 0 if is_held else None
            self._first = self._worth_first(coordinator)
        check_time()
        found, is_stuck = self._held_round(self._joint), False
        if found is None:
            found, is_stuck = self._iterate(self._joint, state)
        joint, worst = self._joint, self._worst(found)
        nearest = min(worst, self._ray)
        gap, self._nearest = abs(found.gap), min(nearest, self._nearest)
        self._since += 1
        if nearest < self._halved / 2 or gap < self._gap / 2:
            self._since = 0
            self._halved, self._gap = min(nearest, self._halved), min(gap, self._gap)
        is_interior = self._held is None or joint.coordinator.is_free  # else rays are of a set
        is_slow = self._since >= HALVED_IN and self._nearest > INACCURATE
        if is_slow and is_interior and not self._has_asked:
            # Of a ray that says something of more than one unit a program of rays knows the end
            self._has_asked = min(self._ray, self._joint.coordinator.infeasible_ray) < 1
            if self._has_asked:
                self._prove(state)
        if worst < self._best:
            self._best, self._found = worst, found
            self._later = joint.iterate if worst > self._enough else None
            if self._later is None:
                self._put(joint, state)
            state.objectives = self._objectives(found)
        patience = HALVED_IN if self._nearest <= INACCURATE else ROUNDS_FAR_OUT
        is_stuck = is_stuck or self._since >= patience
        if is_stuck and self._is_stuck:
            self._give_up(joint, state)
        self._is_stuck = is_stuck
        # Where rounding ends the progress, what was reached is held against what was asked for
        sharper, steeper = (1.0, 1.0) if is_stuck else (SHARPER_GAP, SHARPER_GAP * SHARPER_SLOPES)
        primal = sharper * max(self._found.primal, self._relative(self._found))
        apart = float(np.abs(state.primal).max(initial=0.0))
        residuals = Residuals(apart, self._found.dual, primal, steeper * self._found.dual)
        return Record(residuals, self._objectives(self._found))

    def _objectives(self, found: Found) -> np.ndarray:
        told = np.zeros(len(self._compiled))
        told[self._counted] = found.value
        return told

    @property
    def _resting(self) -> list[Joint]:
        """What earlier runs of the same consensus were computed with: one, or none."""
        return self._compiled.stacked.known("interior points", list)

    def _idle(self) -> Joint | None:
        """What an earlier run was computed with, if nothing but numbers changed since."""
        if not self._is_one or not self._resting:
            return None
        joint = self._resting.pop()
        if joint.takes_jumps != self._has_jumps:
            return None
        return joint if joint.renew(self._forms) else None

    def _anew(self, joint: Joint) -> Joint:
        """The same in the middle of the constraints."""
        if not self._is_one or joint.takes_jumps:
            return self._opened()
        joint.restart()
        return joint

    @property
    def _is_one(self) -> bool:
        """Whether one participant has the rows of all."""
        return self._placement is None and self._aggregator is None

    @cached_property
    def _forms(self) -> Mapping[Hashable, Form]:
        return forms_of(self._compiled)

    @cached_property
    def _has_jumps(self) -> bool:
        """Whether an active set is held of clients that come by their cone programs else."""
        if not (self._is_one and self._start):
            return False
        jump = of_each(self._forms, lambda form: any(t.kind.name in JUMPS for t in form.terms))
        how = [self._forms[name] for name, jumps in zip(self._forms, jump, strict=True) if jumps]
        with_jumps, without = (are_read(how, takes_jumps=takes) for takes in (True, False))
        return bool((with_jumps & ~without).any())

    def _opened(self, kept: Mapping[str, Any] | None = None, *, takes_jumps: bool = False) -> Joint:
        known, placement = (self._compiled, self._aggregator, kept), self._placement
        if placement is None:
            is_apart = self._aggregator is not None
            return Joint(*known, is_apart=is_apart, takes_jumps=takes_jumps)
        compiled = self._compiled
        far = [name for name, sub in compiled.items() if sub.client.is_remote or not obstacle(sub)]
        sites = {
            n: s.client.host for n in far if isinstance((s := compiled[n]).client, RemoteClient)
        }
        homes = sites or placement.shared_out([[[compiled[name]] for name in far]])

        def reach(
            openings: Mapping[Hashable, Opening], here: Sequence[Member]
        ) -> tuple[list[Seen], Spread]:
            shown = {
                name: Shown(b"" if name in sites else pack(compiled[name]), *one)
                for name, one in openings.items()
            }
            return placement.reach(shown, homes, here)

        return Joint(*known, is_apart=True, elsewhere=far, reach=reach)

    @property
    def shown(self) -> dict[Hashable, int]:
        """Client -> the bytes that it sends in a round, if each is reached by messages."""
        return {} if self._joint is None or self._placement is None else sent(self._joint.shown)

    def finish(self, states: Iterable[State]) -> bool:
        """See :class:`dald_model.coordinate.sweeper.Sweeper`."""
        if self._later is None or self._joint is None:
            return False
        self._joint.go_back(self._later)
        for state in states:
            self._put(self._joint, state)
        return True

    def rest(self) -> tuple[np.ndarray, ...]:
        """See :class:`dald_model.coordinate.sweeper.Sweeper`."""
        if self._joint is None or self._placement:
            return ()
        if self._aggregator is None:
            self._resting[:] = [self._joint]
        return self._joint.points()

    def kept(self) -> dict[str, Any]:
        """What a file holds of it: what the clients were told, and what the coordinator has."""
        if self._joint is None:
            return {}
        found = {name: getattr(self, f"_{name}") for name in KEPT}
        return found | {
            "told": self._joint.clients.kept(),
            "coordinator": self._joint.coordinator.kept(),
            "takes_jumps": self._joint.takes_jumps,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Be as a run of the same options was when it was kept."""
        if not kept:
            return
        for name in KEPT:
            setattr(self, f"_{name}", kept[name])
        self._joint = self._opened(kept["coordinator"], takes_jumps=kept["takes_jumps"])
        self._joint.clients.restore(kept["told"])

    def _give_up(self, joint: Joint, state: State) -> None:
        """End a run that rounding keeps from its tolerances, with a proof if there is one."""
        if self._best > INACCURATE or joint.coordinator.tau < joint.coordinator.kappa:
            self._prove(state)
        if self._best > INACCURATE:
            said = f"the interior point broke down with residuals of {self._best:.1e}"
            status = Status.STALLED if np.isfinite(self._best) else Status.SOLVER_ERROR
        else:
            status = Status.OPTIMAL_INACCURATE
            said = f"rounding ended the interior point with residuals of {self._best:.1e}"
        said += "; scale the data, or take the default algorithm, dm.DALD()"
        raise ClientFailedError(Termination(status, None, said))

    def _held_round(self, joint: Joint) -> Found | None:
        """A round with the active set held; None where it is another one, or none is held."""
        if self._held is None:
            return None
        self._held, worst = self._held + 1, np.inf
        try:
            with np.errstate(all="ignore"):
                joint.coordinator.confirm()
                worst = self._worst(joint.coordinator.found)
        except (np.linalg.LinAlgError, RuntimeError, ValueError):  # of a factor
            pass
        # Where nothing is left of a residual's worth the set has no point; the empty set of a
        # program without cones has one, unless no round comes nearer
        is_lost = worst > 1.0 and not joint.coordinator.is_free
        if not is_lost and worst < np.inf and self._held <= CORRECTED and self._since < HALVED_IN:
            return joint.coordinator.found
        self._joint = self._anew(joint)
        self._first = self._worth_first(self._joint.coordinator)
        self._held, self._best, self._since = None, np.inf, 0
        self._nearest, self._halved, self._gap = np.inf, np.inf, np.inf
        self._later = None  # which is in other units
        return None

    def _iterate(self, joint: Joint, state: State) -> tuple[Found, bool]:
        """A round, and whether there is none that gains any more."""
        coordinator = joint.coordinator
        before = coordinator.found
        try:
            with np.errstate(all="ignore"):
                coordinator.iterate()
        except DaldError:  # of an engine
            raise
        except (np.linalg.LinAlgError, RuntimeError, ValueError):  # of a factor
            return before, True
        found, self._ray = coordinator.found, np.inf
        if coordinator.tau < coordinator.kappa:
            self._check(joint, state)
        worst = min(self._worst(found), self._ray)
        is_stuck = found.step < NO_MOVE or worst > max(NO_PROGRESS * self._nearest, 1e-6)
        # Where slopes alone are left to fall, and grow tenfold, they are rounding
        is_stuck |= self._nearest <= 1e-6 / SHARPER_GAP and worst > 10 * self._nearest
        return found, is_stuck and bool(np.isfinite(self._best) or not np.isfinite(worst))

    def _check(self, joint: Joint, state: State) -> None:
        """End with a certificate that there is no optimum, or say how near it is."""
        self._ray = joint.coordinator.infeasible_ray
        if self._ray <= PROVED:
            raise _infeasible(joint.heaviest())
        if self._is_known and not self._has_ground:
            ray = joint.coordinator.falling_ray
            self._ray = min(self._ray, ray)
            if ray <= PROVED:
                # Least squares of collinear columns fall along a ray by all digits of an iterate
                self._prove(state)
                self._has_ground, self._ray = True, np.inf
                self._nearest, self._halved = np.inf, np.inf

    @property
    def _is_known(self) -> bool:
        """Whether all objectives are known here."""
        return not any(sub.client.is_remote for sub in self._compiled.values())

    def _prove(self, state: State) -> None:
        """End with a proof on the cone program of all clients, if there is one."""
        found = proof(self._compiled, state) if self._is_known else None
        if found is None:
            return
        if found.status == Status.INFEASIBLE:
            raise _infeasible(found.client)
        said = (
            "the objective falls without bound along a direction that keeps all "
            f"constraints, fastest at client {found.client!r}; bound the variables or add "
            "a regulariser"
        )
        raise ClientFailedError(Termination(found.status, None, said))

    def _worst(self, found: Found) -> float:
        each = found.primal, found.dual, self._relative(found)
        return max(each) if all(map(math.isfinite, each)) else math.inf

    def _worth_first(self, coordinator: Coordinator) -> float:
        """The value of the first round, or what slopes make of lengths: it may be zero there."""
        return max(abs(coordinator.found.value), 1 / coordinator.cost)

    def _relative(self, found: Found) -> float:
        worth = max(min(abs(found.value), abs(found.bound)), LEAST_VALUE * self._first)
        return abs(found.gap) / max(worth, np.finfo(float).tiny)

    def _put(self, joint: Joint, state: State) -> None:
        """Enter where the clients are and what their constraints and agreements cost."""
        compiled = self._compiled
        state.tangents, held, state.mu = joint.answer()
        state.points = state.tangents.points
        state.sides = compiled.stacked.at(state.points)
        state.received = state.sides[::-1].copy()
        state.hold(slice(0, len(compiled)), held)


def _infeasible(client: Hashable) -> ClientFailedError:
    """The end by a proof of infeasibility, in which a client has most weight."""
    said = (
        "no point satisfies all constraints: multipliers of the clients' constraints prove it, "
        f"most of them of client {client!r}; relax one of these"
    )
    return ClientFailedError(Termination(Status.INFEASIBLE, None, said))
