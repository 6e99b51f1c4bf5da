"""Table 5: the cost of a round against the number of clients, and where its time goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import dald_model as dm
from dald_model import solve as coordinator
from dald_model.coordinate import sweeper
from dald_model.coordinate.recorder import Recorder
from dald_model.coordinate.state import State
from dald_model.engines import dispatch
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers import Answers, Session, Turn
from tests.benchmarks import common
from tests.benchmarks.common import LEAST_SQUARES, QP, Kind

COUNTS = (10, 100, 1000, 10000)
ROUNDS = 30
NEVER = 1e-14
"""A tolerance that is not met, so that all rounds are run; the solvers are asked for 1e-10."""


class Clock:
    """Seconds by what they went to; what runs inside another is not counted twice."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            begun = time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                took = time.perf_counter() - begun
                self.spent[name] += took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took

        return timed


class _Timed:
    def __init__(self, session: Session, name: str, clock: Clock) -> None:
        self._minimise = clock.around(name, session.minimise)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        return self._minimise(turn, tolerance)


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Clocks around the sessions and the parts of the coordinator."""

    class Watched(SolverLayer):
        def _open(self, names: list[Any]) -> bool:
            is_another = super()._open(names)
            at = "server" if self.solver(names[0]).name == "average" else "clients"
            bench = self._open_sessions[names[0]]
            timed = bench._replace(session=_Timed(bench.session, at, clock))
            self._open_sessions |= dict.fromkeys(names, timed)
            return is_another

    with ExitStack() as stack:
        for where in (coordinator, dispatch):  # who measures units, and who runs
            stack.enter_context(mock.patch.object(where, "SolverLayer", Watched))
        work = clock.around("sweep", sweeper.SerialSweeper.run)
        stack.enter_context(mock.patch.object(sweeper.SerialSweeper, "run", work))
        work = clock.around("residuals", sweeper.residuals)
        stack.enter_context(mock.patch.object(sweeper, "residuals", work))
        work = clock.around("history", Recorder.write)
        stack.enter_context(mock.patch.object(Recorder, "write", work))
        work = clock.around("snapshot", State.snapshot)
        stack.enter_context(mock.patch.object(State, "snapshot", work))
        yield


class Run(NamedTuple):
    round: float
    """Median seconds of a late round."""
    spread: float
    gap: float
    spent: dict[str, float]
    """Share of the rounds' time by what it went to."""


def run(kind: Kind, count: int, m: int, rows: int) -> Run:
    parts = list(kind.data(count, rows, m))
    model = common.star(kind, parts, m)
    compiled = model.compile()
    rho = dm.Fixed(dm.ResidualBalancing().init(compiled))
    marks: list[tuple[float, dict[str, float]]] = []
    clock = Clock()
    measure = sweeper.residuals

    def marked(state: State) -> Any:
        marks.append((time.perf_counter(), dict(clock.spent)))
        return measure(state)

    with mock.patch.object(sweeper, "residuals", marked), watched(clock), common.undisturbed():
        result = model.solve(
            rho=rho, acceleration=None, eps_pri=NEVER, eps_dual=NEVER, max_rounds=ROUNDS
        )
    assert result.rounds == ROUNDS, result.detail
    whole = np.diff([at for at, _ in marks])[4:]
    last, first = marks[-1], marks[4]
    total = last[0] - first[0]
    spent = {k: (v - first[1].get(k, 0.0)) / total for k, v in last[1].items()}
    (x,) = model.shared
    agreed = result.recovered.values[x.id]
    values = [result.recovered.at_clients[name][x.id] for name in model.clients]
    apart = max(common.error(v, agreed) for v in values)
    quartiles = np.quantile(whole, [0.25, 0.75])
    return Run(float(np.median(whole)), float(quartiles[1] - quartiles[0]), apart, spent)


PARTS = ("clients", "server", "sweep", "residuals", "snapshot", "history")


def table() -> str:
    lines, shares = [], []
    run(LEAST_SQUARES, 5, 5, 20)  # imports and the like
    for count in COUNTS:
        common.say(f"5 scaling: {count} clients")
        found = run(LEAST_SQUARES, count, 10, 20)
        per = 1e6 * found.round / count
        lines.append((count, per, found))
        if count >= 1000:
            shares.append(_share(f"least squares, m=10, N=20, {count:,} clients", found))
    common.say("5 scaling: 1000 clients of QP")
    shares.append(_share("QP, m=50, N=200, 1,000 clients", run(QP, 1000, 50, 200)))
    base = next(per for count, per, _ in lines if count == 1000)
    rows = [
        [
            f"{count:,}",
            common.number(per / base),
            common.number(per),
            common.number(1e3 * found.round),
            common.number(1e3 * found.spread),
            common.small(found.gap),
        ]
        for count, per, found in lines
    ]
    heads = ["clients", "per client, over that at 1,000", "us per client", "round [ms]"]
    heads += ["quartiles apart [ms]", "clients apart"]
    return (
        "## 5. A round against the number of clients\n\n"
        f"Least squares, m=10, N=20, star, penalty fixed, {ROUNDS} rounds, median after the "
        "fifth. Clients apart: the largest relative difference from the server after the last "
        "round. Linear where the first column stays at 1 or below as clients grow.\n\n"
        + common.markdown(heads, rows)
        + "\n\nWhere the rounds' time goes, in percent: sessions of the clients, of the server; "
        "the rest of the sweep (turns made, answers entered); residuals; copies of the best "
        "iterate; rows of the history; all else.\n\n"
        + common.markdown(["run", *PARTS, "else", "round [ms]", "clients apart"], shares)
    )


def _share(name: str, found: Run) -> list[str]:
    parts = [found.spent.get(part, 0.0) for part in PARTS]
    cells = [f"{100 * share:.1f}" for share in (*parts, 1 - sum(parts))]
    return [name, *cells, common.number(1e3 * found.round), common.small(found.gap)]
