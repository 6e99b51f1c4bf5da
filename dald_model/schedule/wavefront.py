r"""The wavefront schedule of overlapped sweeps: solves that may run at once.

Within a sweep a client waits for its neighbours, and a chain that is solved one client after the
other leaves all but one idle. But once the first two clients of the chain are done with a sweep,
the first may begin the next: solve :math:`v` of client :math:`i` comes at step :math:`i + 2v`, and
half of the clients are at work at once, with exactly the iterates of the serial order.

**What waits for what.** The solve of :math:`i` reads the values of its neighbours and writes its
own. So of two solves by neighbours, or by one client, that stand in different stages the later one
waits for the earlier one: it reads or overwrites what that wrote (true and output dependence), and
it writes what that has read (anti-dependence). Neighbours in one stage, as in Jacobi's order, read
each other's old values, hence neither may write before the other has read: they run in one step.

**Multipliers add nothing.** The multiplier of the edge :math:`ij` after a sweep is a function of
both ends' values then. Its update must come after the last solve before it by :math:`i` or
:math:`j`, and before the first solve after it by :math:`i` or :math:`j`. Those two stand in
different sweeps and belong to one client or to neighbours, so the second waits for the first
anyway. A caller updates :math:`\mu_{ij}` at the end of the step in which the later end is done with
the sweep. A rule that looks at all clients at once (a penalty that follows the residuals, a
tolerance, a test) is a barrier and does not overlap.

**The schedule.** Let :math:`c_p(k)` count the sweeps in which visit :math:`p` was done within the
first :math:`k` steps, :math:`c_p(0) = 0`. Everybody starts as soon as possible if

.. math:: c_p(k + 1) = \min_{q \to p} \big( c_q(k) + d_{qp} \big),

where :math:`p` waits for :math:`q` of the same sweep (:math:`d_{qp} = 0`) or of the one before
(:math:`d_{qp} = 1`). This is a marked graph, and linear in min-plus algebra, with steps for time;
the throughput is the least mean of :math:`d` over the cycles (Baccelli, Cohen, Olsder, Quadrat
1992, Synchronization and Linearity, chapters 2 and 3). Where each client has one visit a sweep and
no neighbours share a stage, it is scheduling by edge reversal; with an edge, the period is

.. math:: \max\Big(2, \max_\kappa \frac{|\kappa|}{\min(n^+_\kappa, n^-_\kappa)}\Big)

over the cycles :math:`\kappa` of the consensus graph, gone round with :math:`n^+` edges in the
order of the sweep and :math:`n^-` against it (Barbosa, Gafni 1989, ACM Transactions on Programming
Languages and Systems 11). So a tree has period 2 in every order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import networkx as nx
import numpy as np

from dald_model.errors import SequenceError
from dald_model.text import counted
from dald_model.validate import check_clients

KEPT = 4096
"""How many sets of clients are kept to be handed out again; a long start-up has many."""


class Task(NamedTuple):
    """One solve: of a client, in a sweep, at its first, second, ... visit there; all from 0."""

    client: Hashable
    sweep: int
    visit: int


class Step(NamedTuple):
    """A set of simultaneous solves, each with the values from before the step.

    Attributes
    ----------
    clients : tuple
        The same object whenever the same visits come together again.
    sweeps : ndarray of int
        In which sweep each of them is.
    visits : ndarray of int
        Which visit of that sweep it is.
    """

    clients: tuple[Hashable, ...]
    sweeps: np.ndarray
    visits: np.ndarray

    @property
    def tasks(self) -> list[Task]:
        """The solves one by one."""
        parts = zip(self.clients, self.sweeps.tolist(), self.visits.tolist(), strict=True)
        return [Task(*part) for part in parts]


class Parallelism(NamedTuple):
    """The parallelism of a sweep.

    Attributes
    ----------
    clients, solves : int
        How many clients a sweep solves, and how often it solves one.
    levels, level_width : int
        Steps of a sweep by itself, and the most clients in one of them.
    period : Fraction
        Steps a sweep in the long run where sweeps overlap.
    width : int
        The most clients at once then, start-up included, which can be wider than what follows.
        It is measured, over one step for each visit that starts by itself.
    """

    clients: int
    solves: int
    levels: int
    level_width: int
    period: Fraction
    width: int

    @property
    def speedup_alone(self) -> float:
        """Solves a step of a sweep by itself: the gain over one client after the other."""
        return self.solves / self.levels

    @property
    def speedup(self) -> float:
        """Solves a step in the long run where sweeps overlap; n / 2 on a chain of n > 1."""
        return float(self.solves / self.period)

    def __str__(self) -> str:
        levels, width = counted(self.levels, "level"), counted(self.level_width, "client")
        return f"order: {levels} one after the other, {width} at once"

    @property
    def overlapped(self) -> str:
        """What overlapping sweeps give, in words."""
        if self.period == self.levels:
            return "overlapped sweeps: no gain"
        steps = "1 step" if self.period == 1 else f"{round(float(self.period), 2):g} steps"
        return f"overlapped sweeps: {steps} a sweep, {counted(self.width, 'client')} at once"


class _Precedence(NamedTuple):
    """The precedence of solves; neighbours of one stage are one party, and start together.

    Attributes
    ----------
    clients : list
        The visits of a sweep in serial order, those of a party next to each other.
    visits, party : ndarray of int, shape (solves,)
        How often the client was visited before in the sweep, and the visit's party.
    before, lag : ndarray of int, shape (arcs,)
        Which party is waited for, and whether that of the sweep before (1) or of this one (0).
    first : ndarray of int, shape (parties,)
        Where in these the arcs of each party begin; each has one, for it waits for itself.
    """

    clients: list[Hashable]
    visits: np.ndarray
    party: np.ndarray
    before: np.ndarray
    lag: np.ndarray
    first: np.ndarray

    def after(self, counts: np.ndarray) -> np.ndarray:
        """How often each party was done, one step after it was done ``counts`` times."""
        return np.minimum.reduceat(counts[self.before] + self.lag, self.first)


def wavefront(graph: nx.Graph, stages: Iterable[Iterable[Hashable]], sweeps: int) -> Iterator[Step]:
    """The earliest schedule of so many sweeps through the same stages, step by step.

    Steps are made as they are asked for, in time proportional to the clients and edges.

    Raises
    ------
    SequenceError
        If the stages name nobody, an unknown client, or one twice in a stage.

    Examples
    --------
    >>> for step in wavefront(nx.path_graph(3), [[0], [1], [2]], sweeps=2):
    ...     print(step.clients, step.sweeps)
    (0,) [0]
    (1,) [0]
    (0, 2) [1 0]
    (1,) [1]
    (2,) [1]
    """
    return _steps(_precedence(graph, stages), sweeps)


def parallelism(graph: nx.Graph, stages: Iterable[Iterable[Hashable]]) -> Parallelism:
    r"""The parallelism of stages on a graph, see :class:`Parallelism`.

    The period is exact: with m parties the throughput is, by Karp's theorem (1978, Discrete
    Mathematics 23),

    .. math:: \min_p \max_{0 \le k < m} \frac{c_p(m) - c_p(k)}{m - k},

    a fraction with a denominator up to m.

    Raises
    ------
    SequenceError
        As in :func:`wavefront`.

    Examples
    --------
    >>> found = parallelism(nx.path_graph(100), [[i] for i in range(100)])
    >>> found.levels, found.level_width, found.speedup_alone
    (100, 1, 1.0)
    >>> print(found.period, found.width, found.speedup)
    2 50 50.0
    """
    precedence = _precedence(graph, stages)
    alone = [len(step.clients) for step in _steps(precedence, sweeps=1)]
    sizes = np.bincount(precedence.party)
    parties = sizes.size
    counts, width = np.zeros(parties, int), 0
    for _ in range(parties):
        done, counts = counts, precedence.after(counts)
        width = max(width, int((counts - done) @ sizes))
    # The second pass makes the counts of all steps again: kept, they would fill m x m numbers.
    last, counts, rate = counts, np.zeros(parties, int), np.zeros(parties)
    for step in range(parties):
        rate = np.maximum(rate, (last - counts) / (parties - step))
        counts = precedence.after(counts)
    throughput = Fraction(float(rate.min())).limit_denominator(parties)
    solved = precedence.clients
    together = len(alone), max(alone), 1 / throughput, width
    return Parallelism(len(set(solved)), len(solved), *together)


def _steps(precedence: _Precedence, sweeps: int) -> Iterator[Step]:
    @lru_cache(KEPT)
    def group(key: bytes) -> tuple[tuple[Hashable, ...], np.ndarray, np.ndarray]:
        """Clients, visits and parties where a visit is in the step."""
        at = np.flatnonzero(np.frombuffer(key, bool)[precedence.party])
        clients = tuple(map(precedence.clients.__getitem__, at.tolist()))
        return clients, precedence.visits[at], precedence.party[at]

    counts = np.zeros(precedence.first.size, int)
    while counts.min() < sweeps:
        # That a run ends holds nobody up: what is left out would have come later.
        done, counts = counts, np.minimum(precedence.after(counts), sweeps)
        clients, visits, party = group((counts > done).tobytes())
        yield Step(clients, done[party], visits)


def _precedence(graph: nx.Graph, stages: Iterable[Iterable[Hashable]]) -> _Precedence:
    parties = [part for stage in stages for part in _apart(graph, list(stage))]
    if not parties:
        raise SequenceError("sequence: no stage names a client; expected one at least")
    final = {name: at for at, names in enumerate(parties) for name in names}
    latest: dict[Hashable, int] = {}
    before, lag, first = [], [], []
    for at, names in enumerate(parties):
        first.append(len(before))
        read = {other for name in names for other in (name, *graph.adj[name]) if other in final}
        waits = {(latest.get(other, final[other]), other not in latest) for other in read}
        before += [party for party, _ in waits]
        lag += [past for _, past in waits]
        latest |= dict.fromkeys(names, at)
    clients = [name for names in parties for name in names]
    seen: Counter[Hashable] = Counter()
    visits = []
    for name in clients:
        visits.append(seen[name])
        seen[name] += 1
    party = np.repeat(np.arange(len(parties)), [len(names) for names in parties])
    arcs = np.array(before), np.array(lag, int), np.array(first)
    return _Precedence(clients, np.array(visits), party, *arcs)


def _apart(graph: nx.Graph, stage: list[Hashable]) -> list[list[Hashable]]:
    """The clients of a stage in parts that have no edge between them, in the stage's order."""
    for name, times in Counter(stage).items():
        check_clients("sequence: ", [name], graph, SequenceError)
        if times > 1:
            raise SequenceError(
                f"sequence: {name!r} stands twice in one stage; give it a stage for each visit"
            )
    part = {n: i for i, ns in enumerate(nx.connected_components(graph.subgraph(stage))) for n in ns}
    parts: dict[int, list[Hashable]] = {}
    for name in stage:
        parts.setdefault(part[name], []).append(name)
    return list(parts.values())
