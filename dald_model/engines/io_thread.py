"""Messages on a stream of bytes, and a thread that takes them to a host and brings its replies."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import IO

from dald_model.engines.engine import HostLostError
from dald_model.engines.wire import PREFIX


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write one message."""
    stream.write(len(message).to_bytes(PREFIX, "little"))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes:
    """Read one message.

    Raises
    ------
    EOFError
        If the stream ends before it does.
    """
    size = int.from_bytes(_exactly(stream, PREFIX), "little")
    return _exactly(stream, size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError("the stream has ended")
    return found


class IOThread:
    """A thread that waits for a host instead of the caller, who so can have a deadline.

    It is a daemon, so that it does not keep Python from ending.

    Parameters
    ----------
    exchange : callable
        Message -> reply; whatever it raises means that the host was not reached.
    end : callable
        Called in the thread once there are no more messages.
    """

    def __init__(self, exchange: Callable[[bytes], bytes], end: Callable[[], None]) -> None:
        self._exchange, self._end = exchange, end
        self._jobs: SimpleQueue[tuple[Future[bytes], bytes] | None] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def send(self, message: bytes) -> Future[bytes]:
        """Queue a message; the future holds the reply."""
        reply: Future[bytes] = Future()
        self._jobs.put((reply, message))
        return reply

    def stop(self) -> None:
        """End the thread after what it was given."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            reply, message = job
            try:
                reply.set_result(self._exchange(message))
            except HostLostError as error:
                reply.set_exception(error)
            except Exception as error:
                reply.set_exception(HostLostError(str(error)))
        self._end()


def lost(said: str) -> Future[bytes]:
    """The reply of a host that is not there."""
    reply: Future[bytes] = Future()
    reply.set_exception(HostLostError(said))
    return reply
