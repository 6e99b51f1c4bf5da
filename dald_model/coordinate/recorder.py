"""History of a run: a row per round, the user's metrics, and the display meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dald_model.coordinate import outcome
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.membership import Membership, RoundPlan
from dald_model.coordinate.progress import Progress, rounds_left
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Asking
from dald_model.coordinate.sweeper import Record
from dald_model.engines.idle import Layer
from dald_model.schedule.round_state import Residuals

Row = dict[str, Any]


def as_columns(rows: list[Row]) -> dict[str, Any]:
    """Rows as an array for each name whose values are all numbers of a type; and what is left.

    The tuple of clients that were solved repeats, and each is stored once.
    """
    names = list(rows[0]) if rows else []
    arrays = {}
    for kind in (float, int):
        found = [n for n in names if all(type(row.get(n)) is kind for row in rows)]
        arrays |= {name: np.array([row[name] for row in rows]) for name in found}
    seen: dict[Any, int] = {}
    which = np.array([seen.setdefault(row["who"], len(seen)) for row in rows], dtype=int)
    rest = [{n: v for n, v in row.items() if n not in arrays and n != "who"} for row in rows]
    return {"names": names, "arrays": arrays, "seen": list(seen), "who": which, "rest": rest}


def as_rows(columns: dict[str, Any]) -> list[Row]:
    """The inverse of :func:`as_columns`."""
    values = {name: array.tolist() for name, array in columns["arrays"].items()}
    found = []
    for at, (who, rest) in enumerate(zip(columns["who"].tolist(), columns["rest"], strict=True)):
        whole = {name: column[at] for name, column in values.items()} | rest
        whole["who"] = columns["seen"][who]
        order = [*columns["names"], *(name for name in whole if name not in columns["names"])]
        found.append({name: whole[name] for name in order if name in whole})
    return found


class Count(NamedTuple):
    """Numbers of a round, each from 1: of the outer loop, within it, and of the run."""

    outer: int
    inner: int
    round: int


class Recorder:
    """The history of a run."""

    def __init__(
        self, membership: Membership, layer: Layer, settings: Settings, progress: Progress
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self._membership, self._layer, self._settings = membership, layer, settings
        self._progress = progress
        self._merits: list[float] = []
        self._seen, self._rho = np.zeros(0), math.nan
        self._begun = time.perf_counter() if settings.begun is None else settings.begun

    def write(
        self,
        record: Record,
        plan: RoundPlan,
        count: Count,
        state: State,
        proposal: str,
        is_tested: bool,
    ) -> float:
        """Record and show a round; gives its merit, the larger residual over its tolerance.

        ``proposal`` says where it began, and ``is_tested`` whether residuals end the run.
        """
        row: dict[str, Any] = {
            "outer": count.outer,
            "inner": count.inner,
            **record.found._asdict(),
            "objective": outcome.objective(self._membership, record.objectives),
            "rho": self._mean(state.rho),
            "solved": len(plan.who),
            "absent": plan.absent,
            "who": plan.who,
            "proposal": proposal,
            "fallbacks": len(self._layer.events),
            "seconds": time.perf_counter() - self._begun,
        }
        if self._layer.is_elsewhere:
            lost = [loss for loss in self._layer.losses if loss.round == count.round]
            row["asked again"] = tuple(name for loss in lost for name in loss.clients)
        if self._layer.goes_on:
            row["unanswered"] = tuple(self._layer.unanswered)
        self.rows.append(row)
        merit = self._merit(record.found)
        if self._progress.is_watched:
            self._merits.append(merit)
            left = rounds_left(np.array(self._merits)) if is_tested else math.nan
            self._progress.told(count.round, row, left)
        return merit

    def _mean(self, rho: np.ndarray) -> float:
        """The geometric mean of the penalties, kept while they are the same array."""
        if self._seen is not rho:
            self._seen, self._rho = rho, float(np.exp(np.log(rho).mean()))
        return self._rho

    def taken_back(self) -> None:
        """Write down that the proposal of the last round was taken back."""
        self.rows[-1]["proposal"] += ", taken back"

    def measure(self, state: State, at: int) -> bool:
        """Enter the user's metrics into the row of this round, and tell the user's callback.

        Whether that ends the run.
        """
        metrics, callback = self._settings.metrics, self._settings.callback
        if not (metrics or callback):
            return False
        row, membership = self.rows[-1], self._membership
        iterate = Iterate(membership.compiled, state, row, at, membership.gone)
        for name, measure in metrics.items():
            with Asking("metrics", name):
                row[name] = measure(iterate)
        if callback is None:
            return False
        with Asking("callback", callback):
            said = callback(iterate)
        return isinstance(said, bool | np.bool_) and bool(said)

    def kept(self) -> dict[str, Any]:
        """Its data for a checkpoint file."""
        return as_columns(self.rows)

    def restore(self, kept: Mapping[str, Any], at: int) -> None:
        """Continue the history of an earlier run after a round."""
        self.rows = as_rows(dict(kept))
        self._begun -= self.rows[-1]["seconds"] if self.rows else 0.0
        self._progress.resumed(at)

    def _merit(self, found: Residuals) -> float:
        settings = self._settings
        primal = found.primal_scaled / (settings.eps_pri or 1.0)
        return max(primal, found.dual_scaled / (settings.eps_dual or 1.0))
