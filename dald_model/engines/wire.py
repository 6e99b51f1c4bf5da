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
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from dald_model.engines.schema import (
    FREE_TEXT,
    HEADER_BYTES,
    OBJECT,
    Array,
    DamagedError,
    Many,
    OneOf,
    Record,
    Size,
    check_arrays,
    parsed,
)

PREFIX = 8
"""Bytes that say how long a message, or its header, is."""
TYPES = {"f8": "<f8", "i8": "<i8", "u1": "|u1"}
"""The types of arrays that are taken."""
WIDTHS = {kind: np.dtype(kind).itemsize for kind in TYPES}
ENVELOPE = Record({"said": OBJECT, "arrays": Many(Many((FREE_TEXT, OneOf(tuple(TYPES)), Size())))})
"""The schema of a header."""

Expected = Callable[[dict[str, Any]], Mapping[str, Array]]
"""Header -> the schemas of the arrays that go with it; refuses a wrong header."""


NUMBERS = count(time.time_ns())
"""None comes twice, so that runs follow each other on one engine, and coordinators at one site."""


class Message(NamedTuple):
    """A header, as parsed from JSON, and arrays by name."""

    said: dict[str, Any]
    arrays: dict[str, np.ndarray]


def encode(said: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A message as bytes; arrays are of floats, ints or bytes."""
    sent = [(name, array.dtype.str[1:], array.shape) for name, array in arrays.items()]
    header = json.dumps({"said": said, "arrays": sent}).encode()
    parts = [
        np.ascontiguousarray(array).astype(TYPES[kind], copy=False).tobytes()
        for array, (_, kind, _) in zip(arrays.values(), sent, strict=True)
    ]
    return b"".join([len(header).to_bytes(PREFIX, "little"), header, *parts])


def decode(message: bytes, expected: Expected | None = None) -> Message:
    """The inverse of :func:`encode`; the arrays are copies.

    No more memory is taken than for the header, at most :data:`HEADER_BYTES` of JSON, and as much
    again as came; with ``expected`` no more than for the arrays that are declared there.

    Raises
    ------
    DamagedError
        If the bytes are no message, or not the one that is expected.
    """
    if not isinstance(message, bytes):
        raise DamagedError(f"the message is {type(message).__name__}, expected bytes")
    stop = PREFIX + int.from_bytes(message[:PREFIX], "little")
    if stop > len(message):
        raise DamagedError(f"the message ends after {len(message)} bytes, within its header")
    header = parsed(message[PREFIX : min(stop, PREFIX + HEADER_BYTES + 1)])
    ENVELOPE.check(header, "header")
    said, heads = header["said"], {name: (kind, shape) for name, kind, shape in header["arrays"]}
    if len(heads) < len(header["arrays"]):
        raise DamagedError("two arrays have one name")
    wanted: Mapping[str, Array] = {}
    if expected is not None:
        wanted = expected(said)
        check_arrays({name: (kind, tuple(s)) for name, (kind, s) in heads.items()}, wanted)
    sizes = [math.prod(shape) * WIDTHS[kind] for kind, shape in heads.values()]
    if stop + sum(sizes) != len(message):
        raise DamagedError(
            f"the arrays take {sum(sizes)} bytes by the header, and {len(message) - stop} came"
        )
    found = {}
    for (name, (kind, shape)), size in zip(heads.items(), sizes, strict=True):
        flat = np.frombuffer(message, TYPES[kind], math.prod(shape), stop)
        found[name] = flat.reshape(shape).astype(kind)
        stop += size
        if name in wanted:
            wanted[name].check(found[name], name)
    return Message(said, found)
