"""Acceleration of a run: whether its outer loops iterate one map, and the proposals if so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.acceleration.safeguard import Safeguard
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import Stopping, is_one_sweep
from dald_model.engines.idle import Layer
from dald_model.errors import OptionError
from dald_model.schedule.coordination import Bound
from dald_model.schedule.network import Levels
from dald_model.schedule.round_state import Moment
from dald_model.schedule.sequence import Sequence


def why_not_accelerated(
    membership: Membership, method: Method, settings: Settings, moment: Moment, minimises: bool
) -> tuple[str, Levels]:
    """The obstacle to accelerating this run, or ""; and the stages of its whole rounds.

    ``minimises`` says whether the solver layer does: what local steps answer depends on where the
    clients stand, so that an outer loop is no map of multipliers and sides.

    Raises
    ------
    OptionError
        If an acceleration was asked for that does not apply.
    """
    sequence = membership.sequence
    obstacle = _why_idle(membership, method, settings)
    if obstacle:
        return obstacle, []
    stages: Levels = []
    obstacle = why_not(sequence, method, settings.stopping) or why_not_by(minimises)
    if not obstacle:
        stages = whole_round(membership.bound, moment, sequence)
        obstacle = why_not_along(stages)
    if obstacle and settings.insists:
        raise OptionError(
            f"acceleration: given {settings.acceleration!r}, but {obstacle}; leave it out, or "
            "take acceleration=None"
        )
    return obstacle, stages


def why_not_by(minimises: bool) -> str:
    """The same of a solver layer that does not minimise; or ""."""
    return "" if minimises else "clients take local steps in place of being minimised"


def _why_idle(membership: Membership, method: Method, settings: Settings) -> str:
    """Why nothing is to be accelerated, whatever the order and the method; or ""."""
    if settings.acceleration is None:
        return "acceleration=None was given"
    if not (settings.tests(method) or settings.insists):
        return "without a tolerance to reach a run is made for its iterates, as printed"
    if membership.off.all():
        return "nobody is left to agree with anybody"
    return why_not_linear(membership.compiled)


def why_not_linear(compiled: Decomposition) -> str:
    """The same of clients that are linear but for what a server holds of their objectives."""
    if compiled.form.common.cost is None:
        return ""
    return "what clients keep is linear, so that their first answers tell their prices"


def why_not(sequence: Sequence, method: Method, stopping: Stopping | None) -> str:
    """The obstacle to outer loops being one nonexpansive map of multipliers and sides; or "".

    The map is that of DALD with a dual step of 1 and one sweep per update, in an order that stays,
    every client once at most and no two neighbours side by side. An absent client keeps its last
    answer, for which :mod:`dald_model.coordinate.acceleration.safeguard` says what holds.
    ``stopping`` None is the default.
    """
    if not method.accelerates:
        return "the algorithm is not dm.DALD with a dual step of 1"
    if method.ignore_absent:
        return "clients that are absent do not count"
    if stopping is not None and not is_one_sweep(stopping):
        return f"{stopping} lets an outer loop have several rounds"
    if not (sequence.is_constant or sequence.only_leaves_out):
        return f"{sequence} is another order from round to round"
    if sequence.is_jacobi:
        return f"{sequence} solves neighbours side by side"
    return ""


def whole_round(bound: Bound, moment: Moment, sequence: Sequence) -> Levels:
    """The stages of a round of such a sequence in which everybody takes part."""
    return bound.network.levels if sequence.only_leaves_out else bound.stages(moment)


def why_not_along(stages: Levels) -> str:
    """The same of an order that stays: a client that has several turns; or ""."""
    turns = Counter(name for stage in stages for name in stage)
    twice = [name for name, count in turns.items() if count > 1]
    return f"client {twice[0]!r} is solved several times a round" if twice else ""


class Proposals:
    """The acceleration of a run; empty where it does not apply.

    Attributes
    ----------
    obstacle : str
        Why there is none; "" where there is.
    recalled : tuple
        The clients that it had models of at the beginning of the run.
    """

    def __init__(
        self, membership: Membership, method: Method, settings: Settings, layer: Layer
    ) -> None:
        self._membership, self._method = membership, method
        self._settings, self._layer = settings, layer
        self._safeguard: Safeguard | None = None
        self.obstacle = ""
        self.recalled: tuple[Hashable, ...] = ()

    def start(self, state: State, moment: Moment) -> None:
        """Begin a run, with the models of an earlier one."""
        self._choose(state, moment, self._settings.learnt)
        self.recalled = self._safeguard.recalled if self._safeguard else ()

    def begin_anew(self, state: State, moment: Moment) -> None:
        """Begin anew where the problem or the order changed; the models of the clients stay."""
        learnt = self._safeguard.learnt if self._safeguard else self._settings.learnt
        self._choose(state, moment, learnt)

    def _choose(self, state: State, moment: Moment, learnt: ModelState | None) -> None:
        """Take the safeguard over the acceleration, which begins with what was learnt; or none."""
        settings = self._settings
        obstacle, stages = why_not_accelerated(
            self._membership, self._method, settings, moment, self._layer.minimises
        )
        self._safeguard, self.obstacle = None, obstacle
        if not obstacle:
            assert settings.acceleration is not None
            compiled = self._membership.compiled
            self._safeguard = Safeguard(compiled, settings.acceleration, stages, state, learnt)

    def kept(self) -> dict[str, Any]:
        """Their data for a checkpoint file."""
        return {"safeguard": self._safeguard, "recalled": self.recalled}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take the data that :meth:`kept` gave."""
        self._safeguard, self.recalled = kept["safeguard"], kept["recalled"]

    def __bool__(self) -> bool:
        """Whether there is an acceleration."""
        return self._safeguard is not None

    @property
    def origin(self) -> str:
        """The proposer of the point that the present outer loop began at; "" at a plain image."""
        return self._safeguard.origin if self._safeguard else ""

    @property
    def learnt(self) -> ModelState | None:
        """The present models of the clients, for another run."""
        return self._safeguard.learnt if self._safeguard else None

    def failed(self, state: State) -> bool:
        """A client could not be solved: whether that was at a proposal, which is taken back."""
        return self._safeguard is not None and self._safeguard.failed(state)

    def nearest(self, state: State) -> State:
        """The state that penalties are judged by, see :meth:`.Safeguard.nearest`."""
        return self._safeguard.nearest(state) if self._safeguard else state

    def look(self, state: State) -> bool:
        """Choose where the next outer loop begins; whether the last proposal was taken back."""
        return self._safeguard is not None and self._safeguard.look(state)

    def observe(self, state: State) -> None:
        """Learn from the outer loop that ends a run."""
        if self._safeguard is not None:
            self._safeguard.observe(state)
