"""Diagnosis of a run: what held it back, where, and what to type next."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.progress import rounds_left
from dald_model.coordinate.scaling.curvature import is_angular
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.declare.client import summands
from dald_model.lazy_imports import pd
from dald_model.sizes import ORDER
from dald_model.text import SHOWN, Bare, Heading, Part, Printed, counted, shortened

OFFERED = 100.0
"""So many times larger tolerances are offered, not more."""
LOOSE = 1e-4
"""Tolerances above this are not those of an answer that a verification passes."""
MANY = 100
"""Rounds from which on it is said of an answer, too, why it took so many."""
FINEST_TOLERANCE = 1e-11
"""Tolerances below this are beside rounding errors."""
OF_THE_PROBLEM = frozenset(
    {Status.INFEASIBLE, Status.UNBOUNDED, Status.NO_MINIMISER, Status.SOLVER_ERROR}
)
"""Statuses whose detail says all: more rounds would not help."""
TIMES_LEFT, ROUNDED_TO, ROUNDS_MOST = 2.0, 50, 20_000
"""How many times the estimated rounds are asked for, what they are rounded up to, and how many are
too many to be asked for."""


class Finding(NamedTuple):
    """One thing that was found.

    Attributes
    ----------
    said : str
    remedy : str
        What to type, for ``model`` and ``result``; "" where no line of code mends it.
    """

    said: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis(Printed):
    r"""What held a run back; ``print`` shows it.

    Attributes
    ----------
    result : Answer
    rounds_left : float
        Estimated rounds until the tolerances are met, see
        :func:`dald_model.coordinate.progress.rounds_left`.
    slowest : pandas.DataFrame
        The entries of edges with the largest residuals in the last round: ``edge``, ``variable``,
        ``primal`` and ``dual`` as held against the tolerances, ``rho``, and ``rho / natural``, the
        penalty over the natural one (:class:`dald_model.coordinate.scaling.units.Units`).
    findings : tuple of Finding
        What most probably held it back comes first.
    """

    result: Answer
    rounds_left: float
    slowest: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def remedies(self) -> list[str]:
        """The lines to type, the most promising first."""
        return list(dict.fromkeys(one.remedy for one in self.findings if one.remedy))

    def report(self, *, wide: bool) -> list[Part]:
        """What was measured, what it means, and what to try."""
        ours = self.result
        head = f"Diagnosis of {ours.compiled.model.name!r}: {ours.status}"
        parts: list[Part] = [Heading(f"{head} after {counted(ours.rounds, 'round')}")]
        if ours.rounds:
            parts.append(Bare(pd.DataFrame(_measured(ours, self.rounds_left).items())))
        if len(self.slowest) and not ours.status.has_answer:
            shown = self.slowest.map(
                lambda cell: f"{cell:.1e}" if isinstance(cell, float) else cell
            )
            shown["edge"] = [f"{tail!r} - {head!r}" for tail, head in self.slowest["edge"]]
            parts += [["The largest residuals, beside natural lengths and slopes:"], shown]
        parts.append([f"- {one.said}" for one in self.findings])
        if self.remedies:
            parts.append(["To try, the most promising first:", *(f"  {r}" for r in self.remedies)])
        return parts


def diagnose(result: Answer) -> Diagnosis:
    """What held the run back, and what to type next.

    Nothing is solved for it: it reads the history and the last iterate.
    """
    left = rounds_left(merits(result)) if result.rounds else math.nan
    slowest = _slowest(result.compiled, result.state) if result.state and result.rounds else None
    if slowest is None:
        slowest = pd.DataFrame(columns=["edge", "variable", "primal", "dual", "rho"])
    return Diagnosis(result, left, slowest, tuple(_findings(result, left)))


def merits(result: Answer) -> np.ndarray:
    """Of each round the larger residual over its tolerance; a tolerance of zero counts as one."""
    history = result.history
    primal = history.primal_scaled.to_numpy() / (result.eps_pri or 1.0)
    return np.maximum(primal, history.dual_scaled.to_numpy() / (result.eps_dual or 1.0))


def _measured(result: Answer, left: float) -> dict[str, str]:
    history = result.history
    last, back = history.iloc[-1], history.proposal.str.endswith("taken back").sum()
    proposed = (history.proposal != "").sum()
    pairs = {
        "residuals": f"primal {last.primal_scaled:.1e} and dual {last.dual_scaled:.1e} of "
        f"{result.eps_pri:.0e} and {result.eps_dual:.0e} that were asked for"
    }
    if 0 < left <= ROUNDS_MOST:
        pairs["pace"] = f"about {math.ceil(left)} rounds more at the pace so far"
    elif left > ROUNDS_MOST:
        pairs["pace"] = "hardly any progress in the last two thirds of the rounds"
    pairs["proposals"] = f"{proposed} of {counted(result.rounds, 'round')}, {back} taken back"
    if result.unaccelerated:
        pairs["proposals"] = f"none: {result.unaccelerated}"
    return pairs


def _findings(result: Answer, left: float) -> Iterator[Finding]:
    if result.status in OF_THE_PROBLEM:
        yield Finding(result.detail)
        return
    if result.state is None or not result.rounds:
        yield Finding("the run ended before a first round was complete", "model.solve()")
        return
    if result.status.has_answer:
        yield from _of_an_answer(result)
        return
    if result.status in (Status.USER_ERROR, Status.LOST, Status.INTERRUPTED, Status.SETTLED):
        said = f"{result.status.message}: {result.detail}"
        yield Finding(said, "model.solve(start=result)")
        return
    if result.status == Status.DIVERGED:  # not from here: the iterates are far away
        yield Finding(result.detail, "model.solve()")
        return
    yield from _slow(result, left)


def _of_an_answer(result: Answer) -> Iterator[Finding]:
    """An answer that met its tolerances may still be less than is thought."""
    if max(result.eps_pri, result.eps_dual) > LOOSE:
        yield Finding(
            f"the tolerances were {result.eps_pri:.0e} and {result.eps_dual:.0e}; verify() asks "
            "for more than that",
            "model.solve(start=result)",
        )
    if result.status == Status.OPTIMAL_INACCURATE:
        yield Finding(result.detail, "model.solve(start=result, accuracy=1e-9)")
    if result.left or result.dropped:
        yield Finding(result.detail)
    if result.rounds > MANY:
        causes = [one.said for one in _causes(result)]
        yield from map(Finding, causes or [f"{MANY} rounds do mostly, and nothing stands out here"])
    elif result.unaccelerated and result.compiled.form.common.cost is None:
        yield Finding(
            f"fewer rounds might have done: nothing was accelerated, as {result.unaccelerated}"
        )
    elif result.status == Status.OPTIMAL:
        yield Finding("nothing held it back")


def _slow(result: Answer, left: float) -> Iterator[Finding]:
    """Of a run that met no tolerance; causes before symptoms."""
    if max(result.eps_pri, result.eps_dual) == 0:
        yield Finding(
            "the tolerances were zero, so the run was to go through all its rounds",
            "model.solve(start=result)",
        )
        return
    if min(result.eps_pri, result.eps_dual) < FINEST_TOLERANCE:
        yield Finding(
            f"the tolerances of {result.eps_pri:.0e} and {result.eps_dual:.0e} are below what "
            "rounding leaves of the residuals",
            "model.solve(start=result)",
        )
    yield from _causes(result)
    if result.status == Status.ROUND_LIMIT and not left > ROUNDS_MOST:
        more = (
            ""
            if math.isnan(left)
            else f", max_rounds={ROUNDED_TO * math.ceil(TIMES_LEFT * left / ROUNDED_TO)}"
        )
        yield Finding("it had not enough rounds", f"model.solve(start=result{more})")
    else:
        best = merits(result).min()
        looser = 10.0 ** math.ceil(math.log10(best))
        is_near = looser <= OFFERED
        yield Finding(
            f"the residuals came to rest at {best:.1e} times the tolerances",
            f"model.solve(start=result, eps_pri={looser * result.eps_pri:.0e}, "
            f"eps_dual={looser * result.eps_dual:.0e})"
            if is_near
            else "",
        )
    if result.rounds > MANY:
        yield Finding(
            "answers that jump with the prices, as those of linear programmes do, take an "
            "algorithm that shares curvature",
            'model.solve(disclose="curvature")',
        )


def _causes(result: Answer) -> Iterator[Finding]:
    """What makes a run slow."""
    compiled, state, history = result.compiled, result.state, result.history
    assert state is not None
    natural = state.rho / state.units.penalty
    middle, rests = float(np.exp(np.log(natural).mean())), history.rho.nunique() == 1
    is_far = not 1 / ORDER <= middle <= ORDER
    if rests and is_far:
        yield Finding(
            f"the penalty stayed at {middle:.1e} times the natural one "
            f"({natural.min():.1e} to {natural.max():.1e} over all entries); the default follows "
            "the residuals",
            "model.solve(start=result, rho=dm.ResidualBalancing())",
        )
    if result.unaccelerated:
        said = f"nothing was accelerated: {result.unaccelerated}"
        reach = _diameter(compiled)
        if reach > 2:
            said += f"; news crosses the consensus graph in {reach} rounds, its diameter"
        yield Finding(said, "model.solve(start=result)")
    absent = history.absent / max(1, len(compiled.model.clients))
    if absent.mean() > 0:
        yield Finding(
            f"{absent.mean():.0%} of the clients were absent in a round on average; a round "
            "without them teaches nothing of them"
        )
    yield from _solvers(result, state)
    yield from _sums(compiled)
    yield from _kinks(compiled)


def _sums(compiled: Decomposition) -> Iterator[Finding]:
    """Couplings that add up terms of different clients, of which each alone is simpler."""
    for name, coupling in compiled.model.couplings.items():
        terms = summands(coupling.objective.expr)
        parties = {tuple(sorted(v.id for v in term.variables())) for term in terms}
        if len(parties) > 1 and not coupling.constraints:
            yield Finding(
                f"coupling {name!r} is a sum of {len(terms)} terms in different variables; take "
                "model.couple(objective=term) for each, as one norm or square is solved in closed "
                "form where a sum of them is not"
            )


def _kinks(compiled: Decomposition) -> Iterator[Finding]:
    """Who turns where it does not bend: clients, and couplings, which have no data to bend them."""
    angular = [n for n, s in compiled.items() if n not in compiled.averages and is_angular(s)]
    clients = [name for name in angular if name in compiled.model.clients]
    if not angular:
        return
    who = f"{counted(len(angular), 'coupling')}, first {angular[0]!r}"
    if clients:
        many = counted(len(clients), "client")
        who = f"{many} of {len(compiled.model.clients)}, first {clients[0]!r}"
    bent = "; a small cp.sum_squares of the shared variables gives them curvature"
    yield Finding(
        f"{who}, with kinks or without curvature: the residuals fall in steps, and the pace "
        f"says little of the rounds that are left{bent if clients else ''}"
    )


def _solvers(result: Answer, state: State) -> Iterator[Finding]:
    """Clients whose solvers leave more than the run asks for."""
    slack, dual = result.history.slack.iloc[-1], result.history.dual_scaled.iloc[-1]
    worst = int(state.slack[1].argmax())
    names = list(result.compiled)
    if slack > 0 and state.slack[1, worst] >= 0.5 * dual > 0.5 * result.eps_dual:
        yield Finding(
            f"client {names[worst]!r} is minimised only up to {state.slack[1, worst]:.1e} of its "
            "natural slopes, which is most of the dual residual",
            "model.solve(start=result, accuracy=1e-9)",
        )
    short = [name for name, is_short in zip(names, state.inaccurate, strict=True) if is_short]
    if short:
        yield Finding(
            f"the solver of {counted(len(short), 'client')}, first {short[0]!r}, fell short of its "
            "own tolerance; see result.fallbacks and result.compiled.explain()"
        )


def _slowest(compiled: Decomposition, state: State) -> pd.DataFrame:
    """The entries with the largest residuals in the last round, see :class:`Diagnosis`."""
    units, dual = state.units, state.dual
    primal = np.abs(state.primal) / units.lengths
    moved = np.abs(dual).max(axis=0) / units.lengths
    price = state.stationarity(dual).max(axis=0) / units.slopes
    both = np.fmax(moved, price)
    rows = []
    ends = {
        at: ends for ends, slot in compiled.slots.items() for at in range(slot.start, slot.stop)
    }
    for at in np.argsort(-np.fmax(primal, both), kind="stable")[:SHOWN].tolist():
        rows.append(
            {
                "edge": ends[at],
                "variable": _name(compiled, ends[at], at),
                "primal": float(primal[at]),
                "dual": float(both[at]),
                "rho": float(state.rho[at]),
                "rho / natural": float(state.rho[at] / units.penalty[at]),
            }
        )
    return pd.DataFrame(rows)


def _name(compiled: Decomposition, ends: tuple[Hashable, Hashable], at: int) -> str:
    """What the user calls the entry of an edge, at the end that is no server where one is."""
    name = next((end for end in ends if end not in compiled.servers), ends[0])
    sub = compiled[name]
    row = int(np.flatnonzero(sub.entries == at)[0])
    matrix = sub.sides[0]
    columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
    named = [compiled.called(name, column) for column in columns.tolist()]
    return shortened(" and ".join(named), 40)


def _diameter(compiled: Decomposition) -> int:
    """Of the largest part of the consensus graph: two sweeps of it, which is exact of trees."""
    parts = nx.connected_components(compiled.graph)
    return nx.approximation.diameter(compiled.graph.subgraph(max(parts, key=len)))
