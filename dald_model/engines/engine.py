"""Protocol of an engine: where groups of clients are solved, and how they are reached.

An engine moves bytes, which are the same for all: :mod:`.wire` has their format,
:mod:`.hosted_clients` answers them where the clients are, and :mod:`.place` asks in the
coordinator. So an engine is a number of hosts, each of which takes one message and gives one reply,
and every engine gives the iterates and the messages of the run in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from dald_model.validate import argument, check_positive, check_whole


class HostLostError(Exception):
    """A host gave no reply, and what it held is gone; never shown to the user."""


class Reply(Protocol):
    """Reply of a host that may still be on its way, such as a ``concurrent.futures.Future``."""

    def result(self, timeout: float | None = None) -> bytes:
        """Wait for it, at most so many seconds; who asks again gets the same.

        Raises
        ------
        TimeoutError
            If it is not there by then.
        HostLostError
            If it will never be.
        """
        ...


class Host(Protocol):
    """Place where a group of clients stays and is solved.

    :class:`dald_model.engines.Residents` is at the other end: a message of a number that was
    answered already gets the same reply again, so that an engine may send it twice.
    """

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    def send(self, message: bytes) -> Reply:
        """Begin to ask; messages are answered in the order they are sent in."""
        ...

    def restart(self) -> None:
        """Give up what it does and what it holds, and be ready for a next message, empty.

        Raises
        ------
        HostLostError
            If it cannot be started again.
        """
        ...


@runtime_checkable
class Engine(Protocol):
    """Engine of the option ``engine``.

    Attributes
    ----------
    retries : int
        How often in one round a host is restarted and asked again, and then how many others are
        asked, before the run ends.
    interchangeable : bool
        Whether a host may get the clients of another one that is lost; not where data is its own.
    deadline : float or None
        Seconds after which a host that has not replied is taken for lost; None waits for ever.
    """

    @property
    def retries(self) -> int:
        """See the class."""
        ...

    @property
    def interchangeable(self) -> bool:
        """See the class."""
        ...

    @property
    def deadline(self) -> float | None:
        """See the class."""
        ...

    def hosts(self) -> Sequence[Host]:
        """The hosts, ready for a run: started where they are not."""
        ...


def check_patience(engine: Any, retries: Any, deadline: Any) -> None:
    """Refuse what is no number of retries, and no deadline.

    Raises
    ------
    OptionError
        Naming the engine and the argument.
    """
    check_whole(argument(engine, "retries"), retries, 0)
    if deadline is not None:
        check_positive(argument(engine, "deadline"), deadline, "a positive number or None")
