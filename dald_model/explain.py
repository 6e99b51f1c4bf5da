"""The solver assigned to each client, and why faster ones were rejected."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import cvxpy as cp
import networkx as nx
import scipy.sparse as sp

from dald_model.algorithms.interior_point import InteriorPoint, chosen_algorithm
from dald_model.answer.local_run import MIXING
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.method import Algorithm
from dald_model.coordinate.proposals import why_not, why_not_along, why_not_by, why_not_linear
from dald_model.coordinate.stopping import Stopping
from dald_model.declare.client import Problem
from dald_model.declare.wording import short
from dald_model.lazy_imports import pd
from dald_model.options import DEFAULT_ACCELERATION, opened, with_algorithm
from dald_model.schedule.network import Levels
from dald_model.schedule.round_state import Moment, Residuals
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.inexact.local import LocalSteps
from dald_model.solvers.registry import LOW_RANK, TAKERS, Choice, refusal
from dald_model.text import Heading, Part, Printed, counted, outline, ranged, together


@dataclass(frozen=True)
class Reason:
    """Clients of one kind: with one solver and terms and rows of the same kinds.

    Attributes
    ----------
    clients : tuple
        Their names.
    solver : str
        Their solver.
    then : tuple of str
        The fallback solvers, in order.
    what : str
        What the clients are to the solver.
    stated, solved : tuple of int
        Variables and rows of the cone program that cvxpy would hand to a solver, and of what is
        solved here in their place; without the augmented terms. Of the largest of the clients.
    least_stated, least_solved : tuple of int
        The same of the smallest.
    refusals : dict
        Solver that would be faster -> why it cannot take them.
    """

    clients: tuple[Hashable, ...]
    solver: str
    then: tuple[str, ...]
    what: str
    stated: tuple[int, int]
    solved: tuple[int, int]
    least_stated: tuple[int, int]
    least_solved: tuple[int, int]
    refusals: dict[str, str]


class Explanation(Printed, tuple[Reason, ...]):
    """One :class:`Reason` for each kind of client; prints as a table, and what is known beside it.

    Attributes
    ----------
    sequence : Sequence
    stages : list of lists
        Its first inner loop that leaves nobody out.
    graph : networkx.Graph
        The consensus graph.
    algorithm : Algorithm or None
        If one was named.
    adopted : str
        The topology, where it was chosen for the algorithm; else empty.
    acceleration : str
        What accelerates the outer loops, or why nothing does.
    revealed : str
        What clients show beside answers; else empty.
    common : str
        The constraints that the server holds once for all clients; else empty.
    """

    sequence: Sequence
    stages: Levels
    graph: nx.Graph
    algorithm: Algorithm | None
    adopted: str
    acceleration: str
    revealed: str
    common: str

    @property
    def widths(self) -> list[int]:
        """The number of clients in each level of a sweep; a level waits for the one before."""
        level, widths = dict.fromkeys(self.graph, 0), Counter[int]()
        for stage in self.stages:
            after = {name: 1 + max(level[n] for n in (name, *self.graph[name])) for name in stage}
            widths.update(after.values())
            level |= after
        return list(widths.values())

    def report(self, *, wide: bool) -> list[Part]:
        """The solver of each client, why no faster one takes it, and the order."""
        layer = [Heading("Solver layer"), self._frame(120 if wide else 40), self._refusals()]
        lines = [f"  {line}" for line in self._coordination()]
        folds = lines if wide else [part for line in lines for part in _wrapped(line)]
        return [*layer, Heading("Coordination"), folds]

    def _frame(self, width: int) -> pd.DataFrame:
        """One row a kind of client: who solves it, as what, and how much smaller it became."""
        return pd.DataFrame(
            {
                "clients": together(map(str, one.clients), width),
                "number": len(one.clients),
                "solver": one.solver,
                "as": one.what,
                **{
                    what: _among(
                        _change(one.least_stated[at], one.least_solved[at]),
                        _change(one.stated[at], one.solved[at]),
                    )
                    for at, what in enumerate(("variables", "rows"))
                },
                "if it fails": ", ".join(one.then),
            }
            for one in self
        )

    def _refusals(self) -> list[str]:
        """Why nobody faster does it: one line for each reason and the clients it holds for."""
        lines: dict[tuple[str, str, str], list[str]] = {}
        for one in self:
            by_reason: dict[str, list[str]] = {}
            for solver, reason in one.refusals.items():
                by_reason.setdefault(reason, []).append(solver)
            for reason, solvers in by_reason.items():
                key = one.solver, ", ".join(solvers), reason
                lines.setdefault(key, []).extend(map(str, one.clients))
        return [
            f"  {together(names, 30)} by {solver}, not by {others}: {reason}"
            for (solver, others, reason), names in lines.items()
        ]

    def _coordination(self) -> list[str]:
        """How parallel the order is, what is known of it, and which algorithm follows it."""
        widths = self.widths
        over = f"over {self.adopted}, chosen for the algorithm" if self.adopted else ""
        if self.algorithm and self.revealed:  # its rounds know no order
            shows = f"  clients show  {self.revealed}"
            return [*over.splitlines(), *self.algorithm.explain().splitlines(), shows]
        said = [
            over,
            self.common,
            f"order: {counted(len(widths), 'level')} one after the other, "
            f"{counted(max(widths), 'client')} at once",
            self.sequence.explain(),
            self.acceleration,
            self.algorithm.explain() if self.algorithm else "",
        ]
        return [line for text in said for line in text.splitlines()]


def _wrapped(line: str) -> list[str]:
    """A line in lines of at most 100 characters that keep its indent."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line.lstrip(), 100, initial_indent=indent, subsequent_indent=indent + "  ")


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} -> {after}"


def _among(least: str, most: str) -> str:
    """What is said of the smallest and the largest of a kind, in one."""
    if least == most:
        return most
    return ranged([least, most]) if outline(least) == outline(most) else f"{least} or {most}"


def explain(
    compiled: Decomposition,
    solver: Any,
    sequence: Sequence | None = None,
    algorithm: Algorithm | None = None,
    stopping: Stopping | None = None,
    acceleration: Acceleration | None = DEFAULT_ACCELERATION,
    disclose: str | None = None,
) -> Explanation:
    """Say what ``solve`` would do with these options, see :class:`Explanation`."""
    chosen = chosen_algorithm(algorithm, disclose)
    algorithm = chosen if disclose == "curvature" else algorithm
    others = (type(compiled)(way) for way in islice(compiled.model.ways(), 1, None))
    compiled, own = opened(chosen, chain([compiled], others))
    method = with_algorithm(chosen, own, None, solver)
    sequence = sequence or method.sequence or Sequence(label="by colour")
    bound = sequence.bind(compiled.graph, compiled.servers)
    choice = Choice(method.solver)
    choice.check(compiled)
    kinds: dict[Any, list[Subproblem]] = {}
    for sub in compiled.values():
        names = tuple(one.name for one in choice.chain(sub))
        kinds.setdefault((names, tuple(noun for _, noun in _parts(sub))), []).append(sub)
    found = Explanation(_reason(names, alike) for (names, *_), alike in kinds.items())
    found.sequence, found.graph, found.algorithm = sequence, compiled.graph, algorithm
    found.adopted, found.common = compiled.model.adopted, _common(compiled)
    is_curved = isinstance(chosen, InteriorPoint)
    found.revealed = chosen.reveals(compiled) if is_curved else ""
    unknown = Residuals(*4 * [math.inf])
    names = tuple(compiled)
    still = dict.fromkeys(names, 0.0)
    moment = Moment(1, 1, 1, names, compiled.servers, True, True, unknown, lambda: still)
    found.stages = bound.stages(moment)
    ends = stopping or method.stopping
    obstacle = "it is None" if acceleration is None else why_not(sequence, method, ends)
    is_local = any(isinstance(choice.chain(sub)[0], LocalSteps) for sub in compiled.values())
    obstacle = obstacle or why_not_along(found.stages) or why_not_by(not is_local)
    obstacle = obstacle or why_not_linear(compiled)
    if not compiled.is_convex and acceleration == DEFAULT_ACCELERATION:
        acceleration = MIXING  # the others assume convexity
    if acceleration is None or obstacle:
        found.acceleration = f"acceleration: none, as {obstacle}"
    else:
        added = f"at most {acceleration.added(compiled):,} bytes per round more than without"
        found.acceleration = f"acceleration: {acceleration.explain()}; {added}"
    return found


def _common(compiled: Decomposition) -> str:
    """Which constraints or summands a server holds for the clients that repeat them."""
    common = compiled.form.common
    if common.cost is not None:
        return (
            f"objectives in common: {short(common.cost, 80)}, of "
            f"{counted(len(common.clients), 'client')}, whose other summands are linear, and held "
            f'once by {compiled.holder!r}; model.topology("server") leaves it with the clients'
        )
    if not common.rules:
        return ""
    rules = together([short(rule, 40) for rule in common.rules], 120)
    return (
        f"rules in common: {rules}, stated by {counted(len(common.places), 'client')} and held "
        f'once by {compiled.holder!r}; model.topology("server") leaves them with the clients'
    )


def _reason(names: tuple[str, ...], alike: list[Subproblem]) -> Reason:
    least, most = min(alike, key=_extent), max(alike, key=_extent)
    first = 1 if most.client.is_coupling else 2  # the first two are for servers and couplings alone
    earlier = TAKERS[first : next((i for i, one in enumerate(TAKERS) if one.name == names[0]), 1)]
    # It is faster for clients of many variables only; of others it goes without saying
    is_wide = most.form is not None and sp.issparse(most.form.quadratic.root)
    refusals = {
        one.name: _among(refusal(one, least) or reason, reason)
        for one in earlier
        if (is_wide or one is not LOW_RANK) and (reason := refusal(one, most))
    }
    stated, least_stated = _stated(most), _stated(least)
    return Reason(
        tuple(one.name for one in alike),
        names[0],
        names[1:],
        _what(alike),
        stated,
        _solved(most, names[0], stated),
        least_stated,
        _solved(least, names[0], least_stated),
        refusals,
    )


def _extent(sub: Subproblem) -> tuple[int, ...]:
    """How large a client is, to compare it with others of its kind."""
    return (sum(count for count, _ in _parts(sub)), sub.size)


def _stated(sub: Subproblem) -> tuple[int, int]:
    """Variables and rows of the client in cvxpy's canonical form."""
    if sub.client.is_server or sub.client.is_remote:
        return sub.size, 0
    if not sub.client.is_convex:  # which has no canonical form
        return sub.size, sum(rule.size for rule in sub.client.constraints)
    problem = Problem(cp.Minimize(sub.client.cost), list(sub.client.constraints))
    data = problem.get_problem_data(cp.CLARABEL)[0]
    return data["c"].size, data["b"].size


def _solved(sub: Subproblem, solver: str, stated: tuple[int, int]) -> tuple[int, int]:
    form = sub.form
    if solver.startswith("reference") or form is None:
        return stated
    if solver == "conic":
        return form.cone.linear.size, form.cone.rhs.size
    return form.size + form.extra, form.equalities.rhs.size + form.inequalities.rhs.size


def _what(alike: list[Subproblem]) -> str:
    """What clients of one kind are to a solver, with the range of each number."""
    said = []
    for counts, nouns in (zip(*one, strict=True) for one in zip(*map(_parts, alike), strict=True)):
        least, most = min(counts), max(counts)
        number = f"{least}..{most}" if least < most else str(most)
        said.append(f"{number} {nouns[0]}{'' if most == 1 else 's'}" if most else nouns[0])
    client = alike[0].client
    has_kind = client.is_coupling or (client.is_hub and not client.is_server)
    kind = f"{client.kind}: " if has_kind else ""
    return kind + ", ".join(said)


def _parts(sub: Subproblem) -> list[tuple[int, str]]:
    """The kinds of terms and rows of a client with their numbers; 0 of what is not counted."""
    form = sub.form
    if sub.client.is_server:
        return [(0, "server")]
    if sub.client.is_remote:
        return [(0, "a client at its site")]
    if form is None:
        return [(0, "a problem that cvxpy alone understands")]
    if not form.complete:
        kinds = dict.fromkeys(kind.removesuffix("ConeT") for kind, _ in form.cone.cones)
        return [(0, f"cone program ({', '.join(kinds)})")]
    parts = [(0, "quadratic")] if form.quadratic.numbers.any() else []
    parts += [(term.weight.size, f"{term.kind.name} term") for term in form.terms]
    parts = parts or [(0, "linear")]
    rows = {"equality row": form.equalities.rhs.size, "inequality row": form.inequalities.rhs.size}
    return parts + [(count, noun) for noun, count in rows.items() if count]
