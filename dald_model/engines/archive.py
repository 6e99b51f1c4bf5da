"""Archive of arrays that comes from elsewhere, read without trust.

numpy's ``npz`` format, uncompressed: a zip file of ``npy`` entries. So no entry can be larger than
the bytes that came, and what is taken of memory is bounded by a small multiple of their length.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection, Mapping

import numpy as np

from dald_model.engines.schema import HEADER_BYTES, DamagedError, Size

HEAD = 256
"""The most bytes that say type and shape of an array; numpy writes 118."""
TYPES = {"f8": float, "i4": np.int32, "i8": np.int64, "u1": np.uint8, "b1": np.bool_}
"""The types of arrays that are taken, in either order of bytes."""
ENCRYPTED = 0x1


class Archive:
    """The entries of an archive, read one by one and each only once.

    The directory is checked before any entry is read: nothing is compressed or encrypted, no name
    comes twice, and all entries together are no larger than the archive.

    Raises
    ------
    DamagedError, and whatever ``zipfile`` raises
        If the bytes are no such archive.
    """

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        entries = self._archive.infolist()
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(self._entries) < len(entries):
            raise DamagedError("two entries of one name")
        if sum(entry.file_size for entry in entries) > len(data):
            raise DamagedError("entries larger than the archive")
        for entry in entries:
            is_plain = entry.compress_type == zipfile.ZIP_STORED
            is_plain &= entry.file_size == entry.compress_size
            if not is_plain or entry.flag_bits & ENCRYPTED:
                raise DamagedError(f"{entry.filename!r} is compressed or encrypted")

    @property
    def names(self) -> Collection[str]:
        """The entries that were not read yet."""
        return self._entries.keys()

    def header(self) -> bytes:
        """The bytes of the entry ``header``."""
        if self._entries["header"].file_size > HEADER_BYTES:
            raise DamagedError("the header is too long")
        return self.array("header", "u1").tobytes()

    def array(self, name: str, *types: str) -> np.ndarray:
        """An array of one of these types, see :data:`TYPES`, in the order of bytes of this machine.

        Shape and size are compared before anything as large as they say is made.
        """
        stored = self._archive.read(self._entries.pop(name))
        stream = io.BytesIO(stored)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise DamagedError(f"{name} is of another version of numpy's format")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream, HEAD)
        kind = dtype.str[1:]
        Size().check(list(shape), f"the shape of {name}")
        if kind not in types:
            raise DamagedError(f"{name} is of type {dtype} and shape {shape}")
        if math.prod(shape) * dtype.itemsize != len(stored) - stream.tell():
            raise DamagedError(f"{name} is not as large as its shape says")
        flat = np.frombuffer(stored, dtype, offset=stream.tell()).astype(TYPES[kind])
        return flat.reshape(shape, order="F" if is_fortran else "C")


def archived(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as the bytes of an archive."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **dict(arrays))
    return stream.getvalue()
