r"""Estimate of the time that a round takes, from what an engine and a few rounds here measure.

A round asks the hosts level by level, and each level waits for the slowest host:

.. math::
    T = C + \sum_{l} \Big( L + k_l c + \frac{b_l}{B} + S_l \Big)

with C what the coordinator does itself (residuals, multipliers, acceleration), L the latency of
an exchange with one host, c what each further host of :math:`k_l` adds, :math:`b_l` the bytes of
the level's messages and replies, B the bandwidth, and :math:`S_l` what the slowest host solves. L,
c and B are measured by messages that ask nothing; C and S by a few rounds in this process, with as
many hosts, each of which is timed. All is as on a machine without other work, where each host has a
core of its own: C and S are the thread's own time, and L, c, B of the quickest of several messages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.engines.engine import Engine, Host
from dald_model.engines.in_process import InProcess, InProcessHost
from dald_model.engines.numbers import NUMBERS
from dald_model.engines.wire import encode
from dald_model.errors import OptionError
from dald_model.solve import solve
from dald_model.text import Heading, Part, Printed
from dald_model.validate import check_whole

ROUNDS, FEW = 12, 4
"""Rounds that are run here, and how many say something."""
BALLAST = 2**20
"""Bytes that are sent to see the bandwidth."""
ECHOES, ENOUGH = 7, 2.0
"""Most messages of a kind that ask nothing, and the seconds after which no more are sent."""

Graph = Literal["star", "tree", "grid"]


@dataclass(frozen=True)
class Estimate(Printed):
    """Parts of the time of a round, see :mod:`dald_model.estimate`; times in seconds.

    Attributes
    ----------
    coordinator : float
        C.
    latency, message, bandwidth : float
        L and c; B in bytes a second. Without an engine 0, 0 and infinity.
    solving : tuple of float
        :math:`S_l` of each level that has clients with data.
    sent : int
        Bytes of all messages and replies of a round.
    clients, hosts : int
        How many clients with data there are, and who solves them.
    """

    coordinator: float
    latency: float
    message: float
    bandwidth: float
    solving: tuple[float, ...]
    sent: int
    clients: int
    hosts: int

    @property
    def seconds(self) -> float:
        """T."""
        exchange = self.latency + self.hosts * self.message if self.hosts else 0.0
        passing = self.sent / self.bandwidth
        return self.coordinator + len(self.solving) * exchange + passing + sum(self.solving)

    def at(
        self, clients: int, *, hosts: int | None = None, graph: Graph = "star", fan_out: int = 32
    ) -> float:
        """Seconds of a round of so many clients like these.

        Parameters
        ----------
        clients : int
        hosts : int, optional
            Default as many as were measured; ``hosts=clients`` for sites.
        graph : {"star", "tree", "grid"}
            A server; a tree of servers of ``fan_out`` each, of which every one passes on a sum; or
            neighbours in the plane, in two levels, through the coordinator.
        fan_out : int

        Raises
        ------
        OptionError
            If one of them means nothing.

        Notes
        -----
        A tree is no topology of this library, but what one could gain where its servers pass on
        sums alone, and residuals and multipliers are the clients' own; nobody then sees the answers
        that the default acceleration learns of. A server's sum by itself is 1 % of a round of the
        coordinator (0.13 of 12 ms with 1,000 clients of 10 variables, 0.47 of 52 with 10,000 of 5):
        what a tree divides is the rest, and the messages.
        """
        for name, given in (("clients", clients), ("hosts", hosts or 1), ("fan_out", fan_out - 1)):
            check_whole(f"at: {name} ", given)
        if graph not in ("star", "tree", "grid"):
            raise OptionError(f"at: given graph={graph!r}, expected 'star', 'tree' or 'grid'")
        many = clients / max(self.clients, 1)
        asked = min(hosts or self.hosts or 1, clients)
        share = many * max(self.hosts, 1) / asked
        own, passing = many * self.coordinator, many * self.sent / self.bandwidth
        solving = share * sum(self.solving)
        if graph == "tree":
            deep = max(1, math.ceil(math.log(clients, fan_out) - 1e-9))
            part = fan_out / clients
            level = self.latency + fan_out * self.message + part * (own + passing)
            return deep * level + solving
        levels = 2 if graph == "grid" else 1
        exchange = self.latency + asked * self.message if self.hosts else 0.0
        edges = 2.0 if graph == "grid" else 1.0  # two a client instead of one
        return edges * own + levels * exchange + edges * passing + solving

    def report(self, *, wide: bool) -> list[Part]:
        """The parts."""
        where = f"{self.hosts} hosts" if self.hosts else "this process"
        parts = {
            "coordinator": self.coordinator,
            "latency": len(self.solving) * self.latency,
            "messages": len(self.solving) * self.hosts * self.message,
            f"{self.sent} bytes": self.sent / self.bandwidth,
            "solving": sum(self.solving),
        }
        lines = [f"  {name:<16} {1e3 * value:10.3f} ms" for name, value in parts.items()]
        return [Heading(f"Estimate of a round: {1e3 * self.seconds:.3g} ms, {where}"), lines]


def estimate(
    compiled: Decomposition, engine: Engine | None = None, *, solving: float | None = None
) -> Estimate:
    """Measure an engine and a few rounds here; see :meth:`dald_model.Compiled.estimate`."""
    remote = any(sub.client.is_remote for sub in compiled.values())
    if solving is None and remote:
        raise OptionError(
            "estimate: the clients are at their sites, expected solving=, the seconds that the "
            "slowest of them takes for a solve"
        )
    hosts = [] if engine is None else list(engine.hosts())
    latency, message, bandwidth = _measured(hosts) if hosts else (0.0, 0.0, math.inf)
    others = {*compiled.servers, *compiled.couplings}
    owners = [name for name in compiled if name not in others]
    levels = sum(any(n in owners for n in level) for level in compiled.network.levels)
    watch = _Stopwatch(len(hosts) or 1)
    if solving is not None:
        own, found = 0.0, [solving / levels] * levels
    else:
        own, found = watch.run(compiled, here=not hosts)
    sent = watch.sent if solving is None else sum(_bytes(compiled, name) for name in owners)
    return Estimate(own, latency, message, bandwidth, tuple(found), sent, len(owners), len(hosts))


def _bytes(compiled: Decomposition, name: Any) -> int:
    """What a client is told in a round and answers, without the words around it."""
    sub = compiled[name]
    return 8 * (2 * sub.entries.size + sub.size + 1)


class _Stopwatch(InProcess):
    """Hosts in this process that are timed."""

    def __init__(self, hosts: int) -> None:
        super().__init__(hosts)
        self.times: list[tuple[int, float]] = []
        self.bytes: list[int] = []
        self.sent = 0
        timed: list[Any] = [_TimedHost(self, at) for at in range(hosts)]
        self._hosts = timed

    def run(self, compiled: Decomposition, *, here: bool) -> tuple[float, list[float]]:
        """What the coordinator does itself in a round, and the slowest host level by level.

        ``here`` leaves out what messages cost.
        """
        ends, marks = self._rounds(compiled, self)
        between = [slice(*pair) for pair in pairwise(marks)]
        solving = [_by_level(self.times[part]) for part in between]
        usual = int(np.median([len(one) for one in solving]))
        rounds = [one for one in solving if len(one) == usual]
        slowest = [float(np.median([max(one[level]) for one in rounds])) for level in range(usual)]
        self.sent = int(np.median([sum(self.bytes[part]) for part in between]))
        if here:
            whole = float(np.median(np.diff(self._rounds(compiled, None)[0])))
            return max(whole - sum(slowest), 0.0), slowest
        inside = [sum(map(sum, one)) for one in solving]
        return float(np.median(np.diff(ends) - inside)), slowest

    def _rounds(
        self, compiled: Decomposition, engine: Engine | None
    ) -> tuple[list[float], list[int]]:
        """Times at the ends of some rounds, and how many messages there were before each."""
        model: Any = compiled.model
        ends: list[float] = []
        marks: list[int] = []

        def told(_: Any) -> None:
            ends.append(time.thread_time())
            marks.append(len(self.times))

        solve(model, engine=engine, callback=told, max_rounds=ROUNDS)
        if len(ends) < FEW:  # it was there at once, so that plain rounds have to do
            ends, marks = [], []
            options = {"acceleration": None, "rho": 1.0, "eps_pri": 0.0, "eps_dual": 0.0}
            solve(model, engine=engine, callback=told, max_rounds=ROUNDS, **options)
        return ends, marks


def _by_level(asked: Sequence[tuple[int, float]]) -> list[list[float]]:
    """Times by level: a new one begins where a host is asked again."""
    levels: list[dict[int, float]] = []
    for host, seconds in asked:
        if not levels or host in levels[-1]:
            levels.append({})
        levels[-1][host] = seconds
    return [list(level.values()) for level in levels]


class _TimedHost(InProcessHost):
    def __init__(self, watch: _Stopwatch, at: int) -> None:
        super().__init__(f"host {at}")
        self._watch, self._at = watch, at

    def send(self, message: bytes) -> Any:
        """See :class:`Host`."""
        begun = time.thread_time()
        reply = super().send(message)
        self._watch.times.append((self._at, time.thread_time() - begun))
        self._watch.bytes.append(len(message) + len(reply.result()))
        return reply


def _measured(hosts: Sequence[Host]) -> tuple[float, float, float]:
    """Latency, what a further host adds, and bandwidth."""
    one = _timed(lambda: _echo(hosts[:1], 0))
    several = _timed(lambda: _echo(hosts, 0)) if len(hosts) > 1 else one
    heavy = _timed(lambda: _echo(hosts[:1], BALLAST))
    added = max(several - one, 0.0) / max(len(hosts) - 1, 1)
    return max(one - added, 0.0), added, BALLAST / max(heavy - one, 1e-9)


def _echo(hosts: Sequence[Host], ballast: int) -> None:
    arrays = {"ballast": np.zeros(ballast // 8)} if ballast else {}
    said = {"asks": [], "tolerance": 1.0}
    replies = [host.send(encode({"number": next(NUMBERS), **said}, arrays)) for host in hosts]
    for reply in replies:
        reply.result(None)


def _timed(what: Callable[[], None]) -> float:
    """The least seconds of some, fewer where it takes long."""
    found: list[float] = []
    what()  # the first starts what is to be started
    while len(found) < ECHOES and sum(found) < ENOUGH:
        begun = time.perf_counter()
        what()
        found.append(time.perf_counter() - begun)
    return min(found)
