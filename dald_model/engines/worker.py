"""Process of :class:`dald_model.engines.processes.Processes` in which a group of clients stays.

It reads messages from its standard input and writes replies to its standard output, each after its
length. When the coordinator is gone, however it went, its input ends, and so does the process: a
thread of its own reads, so that it ends also in the middle of a solve.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from typing import IO

from dald_model.engines.hosted_clients import Residents
from dald_model.engines.io_thread import read_message, write_message


def serve() -> None:
    """Answer messages until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the coordinator, which ends this
    messages, replies = _own_streams()
    residents, waiting = Residents(), SimpleQueue[bytes]()
    Thread(target=_read, args=(messages, waiting), daemon=True).start()
    for message in _all(waiting):
        write_message(replies, residents.handle(message))


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The standard streams; what a library prints from now on goes to the standard error."""
    messages, replies = (os.fdopen(os.dup(at), mode) for at, mode in ((0, "rb"), (1, "wb")))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return messages, replies


def _read(messages: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    try:
        while True:
            waiting.put(read_message(messages))
    except (EOFError, OSError):
        os._exit(0)


def _all(waiting: SimpleQueue[bytes]) -> Iterator[bytes]:
    while True:
        yield waiting.get()


if __name__ == "__main__":
    sys.exit(serve())
