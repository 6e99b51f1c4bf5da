"""Clients at a host of an engine, and their failover to another host where it is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

from dald_model.engines.engine import Engine, Host, HostLostError, Reply
from dald_model.engines.messages import admitted
from dald_model.engines.wire import Expected, Message
from dald_model.errors import LostError
from dald_model.text import counted, shortened
from dald_model.values import others_turn

Read = TypeVar("Read")

NO_LIFE = -1
"""A life that no host has."""
NAMED_IN_FULL = 80
"""The most letters of names of clients in a message."""


class Pending(NamedTuple):
    """A reply that is on its way since a moment of ``time.monotonic()``."""

    reply: Reply
    since: float

    def result(self, deadline: float | None) -> bytes:
        """Wait for it, so many seconds from when it was asked for: hosts are late together."""
        if deadline is None:
            return self.reply.result(None)
        return self.reply.result(max(0.0, self.since + deadline - time.monotonic()))


class HostHandle:
    """A host in one run, at which several groups of clients may be once another host was lost.

    Attributes
    ----------
    name : str
    life : int
        How often it was given up: what was placed in an earlier life is gone.
    groups : int
        How many groups of clients are there.
    """

    def __init__(self, host: Host) -> None:
        self._host, self.name = host, host.name
        self.life, self.groups = 0, 1
        self._last: Reply | None = None

    def send(self, message: bytes) -> Pending:
        self._last = self._host.send(message)
        return Pending(self._last, time.monotonic())

    @property
    def has_replied(self) -> bool:
        """Whether it has to what it was sent last: who has not may be lost, too."""
        if self._last is None:
            return True
        try:
            self._last.result(0.0)
        except (TimeoutError, HostLostError):
            return False
        return True

    def restart(self, life: int) -> bool:
        """Restart the host, unless it was since this life of it; whether it is there again."""
        if life == self.life:
            self.life += 1
            try:
                self._host.restart()
            except HostLostError:
                return False
        return True


class Loss(NamedTuple):
    """A host that was lost in a round, and its clients, which were placed and asked again.

    The message says why, and where its clients are now if that is another host.
    """

    round: int
    host: str
    clients: tuple[Hashable, ...]
    message: str


class Sent(NamedTuple):
    """A message that is on its way, its number, and what is expected of the reply."""

    pending: Pending
    number: int
    expected: Expected


class Failover:
    """Clients of one run at a host.

    Parameters
    ----------
    handles : sequence of HostHandle
        The hosts that may have them, their own first.

    Attributes
    ----------
    round : int
        In which they are asked.
    """

    def __init__(self, handles: Sequence[HostHandle], engine: Engine, losses: list[Loss]) -> None:
        self._handles, self._engine, self._losses = handles, engine, losses
        self._handle, self._life = handles[0], handles[0].life
        self.round = 0

    def _names(self) -> Collection[Hashable]:
        """The clients."""
        raise NotImplementedError

    def _notice(self) -> None:
        """Be ready to place everybody anew where the host was given up, by whomever."""
        raise NotImplementedError

    def _received(
        self,
        sent: Sent,
        again: Callable[[], Sent],
        read: Callable[[Message], Read] = lambda message: message,
    ) -> Read:
        """Wait for a reply; where none comes, or it is refused, find a host and ask again."""
        tried: list[HostHandle] = []
        while True:
            try:
                # A site in a thread of this process may compile; packed clients never do
                with nullcontext() if self._engine.interchangeable else others_turn():
                    reply = sent.pending.result(self._engine.deadline)
                return read(admitted(reply, sent.number, sent.expected))
            except (TimeoutError, HostLostError) as error:
                tried.append(self._handle)
                self._lose(str(error) or f"no reply within {self._engine.deadline} s", tried)
                sent = again()

    def _lose(self, said: str, tried: Sequence[HostHandle]) -> None:
        """Write a loss down, and find the clients a host, which has none of them yet.

        Raises
        ------
        LostError
            If there is none.
        """
        lost = self._handle
        is_there = lost.restart(self._life) and tried.count(lost) <= self._engine.retries
        found = lost if is_there else self._another(tried)
        if found is not None and found is not lost:
            lost.groups, found.groups = lost.groups - 1, found.groups + 1
            self._handle, self._life = found, NO_LIFE
        self._notice()
        moved = "" if found in (None, lost) else f"; its clients are at {self._handle.name} now"
        self._losses.append(Loss(self.round, lost.name, tuple(self._names()), said + moved))
        if found is None:
            raise self._gone(said, tried)

    def _another(self, tried: Sequence[HostHandle]) -> HostHandle | None:
        """Another host that may have the clients: one that replies, with as few as may be."""
        if len({*tried}) > self._engine.retries or not self._engine.interchangeable:
            return None
        free = [handle for handle in self._handles if handle not in tried]
        return min(
            free,
            key=lambda handle: (not handle.has_replied, handle.life, handle.groups),
            default=None,
        )

    def _gone(self, said: str, tried: Sequence[HostHandle]) -> LostError:
        """The error that ends the run, or makes the clients absent."""
        when = f"in round {self.round}" if self.round else "before round 1"
        kept = "what was found is kept, as `result` of this error; " if self.round else ""
        times = Counter(handle.name for handle in tried).items()
        who = " and ".join(f"{name} was lost {counted(n, 'time')}" for name, n in times)
        return LostError(
            f"engine: {who} {when} ({said}); its clients are {self._who()}; {kept}allow more "
            "memory, a longer deadline or more retries, go on without them "
            "(online=dm.Unanswered()), or solve them in this process (engine=None)"
        )

    def _who(self) -> str:
        return shortened(", ".join(map(repr, self._names())), NAMED_IN_FULL)
