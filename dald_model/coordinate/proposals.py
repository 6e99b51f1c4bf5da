"""Proposals of the acceleration in a run, if there is one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from dald_model.coordinate.acceleration.learnt import Learnt
from dald_model.coordinate.acceleration.watchdog import Watchdog
from dald_model.coordinate.applicability import why_not_accelerated
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.state import State
from dald_model.engines.dispatch import SolverLayer
from dald_model.schedule.moment import Moment


class Proposals:
    """What an acceleration does in a run; nothing where it does not apply.

    Attributes
    ----------
    obstacle : str
        Why there is none; "" where there is.
    recalled : tuple
        The clients that it knew something of at the beginning of the run.
    """

    def __init__(
        self, membership: Membership, method: Method, settings: Settings, layer: SolverLayer
    ) -> None:
        self._membership, self._method = membership, method
        self._settings, self._layer = settings, layer
        self._watchdog: Watchdog | None = None
        self.obstacle = ""
        self.recalled: tuple[Hashable, ...] = ()

    def start(self, state: State, moment: Moment) -> None:
        """Begin a run, with what was learnt in an earlier one."""
        self._choose(state, moment, self._settings.learnt)
        self.recalled = self._watchdog.recalled if self._watchdog else ()

    def begin_anew(self, state: State, moment: Moment) -> None:
        """The problem or the order is another one; what is known of the clients stays."""
        learnt = self._watchdog.learnt if self._watchdog else self._settings.learnt
        self._choose(state, moment, learnt)

    def _choose(self, state: State, moment: Moment, learnt: Learnt | None) -> None:
        """Take the watchdog over the acceleration, which begins with what was learnt; or none."""
        settings = self._settings
        obstacle, stages = why_not_accelerated(
            self._membership, self._method, settings, moment, self._layer.minimises
        )
        self._watchdog, self.obstacle = None, obstacle
        if not obstacle:
            assert settings.acceleration is not None
            self._watchdog = Watchdog(
                self._membership.compiled,
                settings.acceleration,
                stages,
                state,
                learnt,
                waits=settings.is_extrapolated and settings.checkpoint is None,
            )

    def kept(self) -> dict[str, Any]:
        """What a file holds of them."""
        return {"watchdog": self._watchdog, "recalled": self.recalled}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Be as they were when they were kept."""
        self._watchdog, self.recalled = kept["watchdog"], kept["recalled"]

    def __bool__(self) -> bool:
        """Whether there is an acceleration."""
        return self._watchdog is not None

    @property
    def origin(self) -> str:
        """Whose proposal the present outer loop began at; "" where it began at a plain image."""
        return self._watchdog.origin if self._watchdog else ""

    @property
    def learnt(self) -> Learnt | None:
        """What is known of the clients now, for another run."""
        return self._watchdog.learnt if self._watchdog else None

    def failed(self, state: State) -> bool:
        """A client could not be solved: whether that was at a proposal, which is taken back."""
        return self._watchdog is not None and self._watchdog.failed(state)

    def look(self, state: State) -> bool:
        """Choose where the next outer loop begins; whether the last proposal was taken back."""
        return self._watchdog is not None and self._watchdog.look(state)

    def observe(self, state: State) -> None:
        """Learn from the outer loop that ends a run."""
        if self._watchdog is not None:
            self._watchdog.observe(state)
