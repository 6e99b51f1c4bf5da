"""Messages between coordinator and hosts: arrays and one small header, as bytes.

.. code-block:: text

    8 bytes, little endian     length of the header
    header                     JSON: what the message says, and name, type and shape of each array
    the arrays                 one after the other, little endian, in C order

No pickle: a message that arrives is data and cannot be code. In numpy's ``npz`` format packed
clients travel (:mod:`dald_model.engines.portable`); a message of a round is small, and there it
takes fifteen times as long to write and to read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dald_model.engines.archive import DamagedError

PREFIX = 8
"""Bytes that say how long the header is."""
TYPES = {"f8": "<f8", "i8": "<i8", "u1": "|u1"}
"""The types of arrays that are taken."""


class Message(NamedTuple):
    """What is said, as JSON has it, and arrays by name."""

    said: dict[str, Any]
    arrays: dict[str, np.ndarray]


class ArrayHeader(NamedTuple):
    """One array of a message: its name, type and shape."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * np.dtype(TYPES[self.kind]).itemsize


def encode(said: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A message as bytes; arrays are of floats, ints or bytes."""
    sent = [(name, array.dtype.str[1:], array.shape) for name, array in arrays.items()]
    header = json.dumps({"said": said, "arrays": sent}).encode()
    parts = [
        np.ascontiguousarray(array).astype(TYPES[kind], copy=False).tobytes()
        for array, (_, kind, _) in zip(arrays.values(), sent, strict=True)
    ]
    return b"".join([len(header).to_bytes(PREFIX, "little"), header, *parts])


def decode(message: bytes) -> Message:
    """The inverse of :func:`encode`; the arrays are copies.

    Raises
    ------
    DamagedError
        If the bytes are no message.
    """
    try:
        header, at = _header(message)
        found = {}
        for one in _arrays(header):
            flat = np.frombuffer(message, TYPES[one.kind], math.prod(one.shape), at)
            found[one.name] = flat.reshape(one.shape).astype(one.kind)
            at += one.size
        if at != len(message):
            raise DamagedError("bytes are left")
        return Message(header["said"], found)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedError(f"no message of an engine: {error}") from error


def listed(message: bytes) -> list[ArrayHeader]:
    """The arrays of a message, none of which is read."""
    return _arrays(_header(message)[0])


def _header(message: bytes) -> tuple[dict[str, Any], int]:
    stop = PREFIX + int.from_bytes(message[:PREFIX], "little")
    return json.loads(message[PREFIX:stop]), stop


def _arrays(header: dict[str, Any]) -> list[ArrayHeader]:
    return [ArrayHeader(name, kind, tuple(shape)) for name, kind, shape in header["arrays"]]
