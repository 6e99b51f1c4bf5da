"""Hosts of one run as groups of clients have them, and replies that are on their way."""

from __future__ import annotations

import time
from typing import NamedTuple

from dald_model.engines.engine import Host, HostLostError, Reply


class Pending(NamedTuple):
    """A reply that is on its way since a moment of ``time.monotonic()``."""

    reply: Reply
    since: float

    def result(self, deadline: float | None) -> bytes:
        """Wait for it, so many seconds from when it was asked for: hosts are late together."""
        if deadline is None:
            return self.reply.result(None)
        return self.reply.result(max(0.0, self.since + deadline - time.monotonic()))


class Seat:
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
        """See :class:`dald_model.engines.engine.Host`."""
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
