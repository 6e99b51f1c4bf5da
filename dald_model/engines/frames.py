"""Messages on a stream of bytes, each after its length."""

from __future__ import annotations

from typing import IO

PREFIX = 8
"""Bytes that say how long a message is."""


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
