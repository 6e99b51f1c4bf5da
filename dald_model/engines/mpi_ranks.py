"""Ranks of an MPI job: an engine of one coordinator, and peers of whom none coordinates."""

from __future__ import annotations

import atexit
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from dald_model.engines.engine import HostLostError, check_patience
from dald_model.engines.hosted_clients import Residents
from dald_model.errors import LostError, OptionError

MESSAGE, REPLY = 1, 2
"""Tags of what goes to a host, and of what comes back; an empty message ends a host."""
EAGER, IDLE = 0.002, 0.0005
"""Seconds that are waited without a pause, and the pause from then on: a rank that waits longer
leaves its core to others."""
PASSING = 0.2
"""Seconds that the launcher has to pass on what was printed, before it ends the job at once."""
EXIT_LOST = 1
"""Exit code of a job that lost a rank."""
MODULE = "mpi4py"


class MPI:
    """Ranks of an MPI job: rank 0 coordinates, in each other rank a share of the clients stays.

    As :class:`dald_model.engines.Processes`, on the nodes of a cluster that has MPI::

        mpiexec -n 4 python -m mpi4py -m dald_model solve FILE

    solves the ``model`` of a file with three hosts. A script of one's own, ``mpiexec -n 4 python -m
    mpi4py SCRIPT``, makes an engine first, and goes on at rank 0 alone: nobody else declares, or
    reads data. Clients travel once, as
    :func:`dald_model.pack` makes them, and iterates are those of
    :class:`dald_model.engines.InProcess` with as many hosts bit for bit. Messages are buffers of
    bytes of :mod:`dald_model.engines.wire`, never a pickle.

    A round costs about 1.5 ms of rank 0 and 1 of each other rank, beside the solving (table 15 of
    ``tests/benchmarks/RESULTS.md``), so that two hosts pay where a round of one process takes 4 ms
    or more. A rank that waits takes its core for 2 ms, and from then on looks every half one.

    ``-m mpi4py`` ends the job when a rank ends with an exception, where others would wait for ever.
    MPI cannot start a rank again, and its launchers end the whole job when one dies: give
    ``checkpoint=...``, start the job again and go on with :func:`dald_model.resume`. (MPICH's
    ``-disable-auto-cleanup`` did not save the others in most of our trials.) A rank that is there
    and does not answer is lost by the ``deadline``: another one then has its clients as well, and
    ``result.losses`` says so; where there is none, or two others are late too,
    :class:`dald_model.LostError` has the rounds before as its ``result``, or the run goes on
    without these clients, see :class:`dald_model.Unanswered`. A later solve does without the rank,
    and the job ends with exit code 1. MPI knows no authentication: it is for a cluster that you
    trust.

    Rank 0 coordinates, and sees prices and values of all edges, as accelerations do. Where
    neighbours are to exchange them without it, and nobody is to hold the state of all, each rank
    declares its part in a :class:`dald_model.Peer`.

    Parameters
    ----------
    deadline : float, optional
        Seconds that a rank has for a reply, the first with the clients' data and factorisations;
        default as long as it takes.

    Raises
    ------
    OptionError
        If ``deadline`` means nothing, mpi4py is not installed, or the job has one rank.
    SystemExit
        At the other ranks, once rank 0 has ended.

    Examples
    --------
    ::

        import dald_model as dm

        engine = dm.engines.MPI()  # the other ranks serve here, until rank 0 has ended

        from dald_model.models.mean import common_number

        print(common_number([0, 1, 2]).solve(engine=engine).status)  # optimal
    """

    retries = 2
    interchangeable = True

    def __init__(self, *, deadline: float | None = None) -> None:
        check_patience(self, self.retries, deadline)
        self.deadline = deadline
        mpi = library()
        if mpi.COMM_WORLD.size < 2:
            raise OptionError(
                "MPI: the job has one rank, expected a coordinator and one host or more; start it "
                "by mpiexec -n 4 python -m mpi4py SCRIPT, or take "
                "dm.engines.Processes(workers=2)"
            )
        if mpi.COMM_WORLD.rank > 0:
            _serve(mpi)
            raise SystemExit(0)
        self._ranks = _ranks()

    def hosts(self) -> list[Rank]:
        """See :class:`dald_model.engines.engine.Engine`: the ranks that no run has lost.

        Raises
        ------
        LostError
            If there is none.
        """
        there = [rank for rank in self._ranks if not rank.is_lost]
        if not there:
            raise LostError(
                "MPI: every rank but this one is lost; start the job again, with "
                "dm.resume(checkpoint, model), or solve here (engine=None)"
            )
        return there

    def __repr__(self) -> str:
        return "MPI()"


def is_mpi_job() -> bool:
    """Whether this process is a rank of several, started by ``python -m mpi4py``."""
    return MODULE in sys.modules and library().COMM_WORLD.size > 1


def library() -> ModuleType:
    """The module ``mpi4py.MPI``.

    Raises
    ------
    OptionError
        If it is not there.
    """
    try:
        # To import it is to begin MPI, which is for those who asked for it.
        return import_module(f"{MODULE}.MPI")
    except (ImportError, RuntimeError) as error:  # the latter where there is no library of MPI
        raise OptionError(
            f"MPI: the package {MODULE}, or the MPI library that it needs, is not there; "
            'pip install "dald_model[mpi]", which brings MPICH, or take '
            "dm.engines.Processes(workers=2)"
        ) from error


@lru_cache
def _ranks() -> list[Rank]:
    """The hosts of this job, which serve until this process ends."""
    mpi = library()
    ranks = [Rank(mpi, rank) for rank in range(1, mpi.COMM_WORLD.size)]
    atexit.register(_end, mpi, ranks)
    return ranks


def _end(mpi: ModuleType, ranks: list[Rank]) -> None:
    """End all ranks; with one that is lost MPI could not be ended in order."""
    if any(rank.is_lost for rank in ranks):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        time.sleep(PASSING)
        mpi.COMM_WORLD.Abort(EXIT_LOST)
    for rank in ranks:
        rank.end()


def _serve(mpi: ModuleType) -> None:
    """Answer the messages of rank 0 until it ends."""
    residents, world = Residents(), mpi.COMM_WORLD
    while message := _awaited(mpi):
        world.Send(residents.handle(message), 0, REPLY)


def _awaited(mpi: ModuleType) -> bytes:
    found: list[bytes] = []

    def is_there() -> bool:
        message = _arrived(mpi, 0, MESSAGE)
        if message is not None:
            found.append(message)
        return message is not None

    wait(is_there, None)
    return found[0]


def _arrived(mpi: ModuleType, rank: int, tag: int) -> bytes | None:
    """A message, if one is there."""
    status = mpi.Status()
    there = mpi.COMM_WORLD.Improbe(rank, tag, status)
    if there is None:
        return None
    message = bytearray(status.Get_count(mpi.BYTE))
    there.Recv([message, mpi.BYTE])
    return bytes(message)


def wait(is_done: Callable[[], bool], timeout: float | None) -> bool:
    """Wait for something at most so many seconds; whether it came."""
    begun = time.monotonic()
    while not is_done():
        waited = time.monotonic() - begun
        if timeout is not None and waited > timeout:
            return False
        time.sleep(0 if waited < EAGER else IDLE)
    return True


class Rank:
    """One other rank, as a :class:`dald_model.engines.engine.Host`."""

    def __init__(self, mpi: ModuleType, rank: int) -> None:
        self.name = f"rank {rank}"
        self._mpi, self._rank = mpi, rank
        self._sending: list[tuple[Any, bytes]] = []  # bytes have to live until they are sent
        self._waiting: deque[RankReply] = deque()
        self.is_lost = False

    def send(self, message: bytes) -> RankReply:
        reply = RankReply(self)
        if not self.is_lost:
            self._sending = [one for one in self._sending if not one[0].Test()]
            sent = self._mpi.COMM_WORLD.Isend([message, self._mpi.BYTE], self._rank, MESSAGE)
            self._sending.append((sent, message))
            self._waiting.append(reply)
        return reply

    def restart(self) -> None:
        """MPI starts no rank again: from now on it is lost."""
        self.is_lost = True
        raise HostLostError(self.why_lost)

    @property
    def why_lost(self) -> str:
        """The message of the error for calls after that."""
        return f"{self.name} is lost, and MPI starts none again"

    def receive(self) -> bool:
        """Take a reply if one is there, for who waits longest; whether one was."""
        message = _arrived(self._mpi, self._rank, REPLY)
        if message is not None:
            self._waiting.popleft().message = message
        return message is not None

    def end(self) -> None:
        """Have it end."""
        for sent, _ in self._sending:
            sent.Wait()
        self._mpi.COMM_WORLD.Send([b"", self._mpi.BYTE], self._rank, MESSAGE)


class RankReply:
    """See :class:`dald_model.engines.engine.Reply`."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.message: bytes | None = None

    def result(self, timeout: float | None = None) -> bytes:
        if self._rank.is_lost:
            raise HostLostError(self._rank.why_lost)
        if not wait(self._is_there, timeout):
            raise TimeoutError
        assert self.message is not None
        return self.message

    def _is_there(self) -> bool:
        while self.message is None and self._rank.receive():
            continue  # replies come in the order of what was sent
        return self.message is not None


class Peers:
    """The ranks of this job, each of which calls the same methods in the same order.

    Messages are buffers of numbers or bytes, never a pickle.

    Attributes
    ----------
    rank, size : int
        The number of this rank, from 0, and of all.

    Raises
    ------
    OptionError
        If mpi4py is not installed.
    """

    def __init__(self) -> None:
        self._mpi = library()
        self._world = self._mpi.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The largest of all ranks, entry by entry."""
        return self._reduced(values, self._mpi.MAX)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over all ranks, entry by entry."""
        return self._reduced(values, self._mpi.SUM)

    def gathered(self, said: bytes) -> list[bytes]:
        """The messages of all ranks, in their order."""
        sizes = np.empty(self.size, dtype=np.int64)
        mine = np.array([len(said)], dtype=np.int64)
        wait(self._world.Iallgather(mine, sizes).Test, None)
        found = np.empty(int(sizes.sum()), dtype=np.uint8)
        sent = np.frombuffer(said, dtype=np.uint8)
        wait(self._world.Iallgatherv(sent, [found, sizes]).Test, None)
        return [part.tobytes() for part in np.split(found, np.cumsum(sizes)[:-1])]

    def swapped(
        self, outgoing: Mapping[int, np.ndarray], incoming: Mapping[int, int]
    ) -> dict[int, np.ndarray]:
        """Send numbers to some ranks, and receive so many from some."""
        found = {rank: np.empty(size) for rank, size in incoming.items()}
        waiting = [self._world.Irecv(values, rank) for rank, values in found.items()]
        waiting += [self._world.Isend(values, rank) for rank, values in outgoing.items()]
        for each in waiting:
            wait(each.Test, None)
        return found

    def _reduced(self, values: np.ndarray, how: object) -> np.ndarray:
        found = np.empty_like(values)
        wait(self._world.Iallreduce(np.ascontiguousarray(values), found, how).Test, None)
        return found
