"""Packed clients that were tampered with, by hand and by chance."""

from __future__ import annotations

import functools
import io
import json
import re
import warnings
import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import numpy as np
from hypothesis import strategies as st

import dald_model as dm


@functools.cache
def packed() -> tuple[bytes, ...]:
    """Clients that between them have every field: rows, terms, sparse and dense, every cone."""
    x, y = cp.Variable(3), cp.Variable(3)
    exponents = np.array([0.2, 0.3, 0.5])
    wide = np.zeros((1, 3)), np.ones(1)
    clients: dict[str, tuple[Any, list[Any]]] = {
        "rows": (cp.sum_squares(x), [x <= 1, cp.sum(x) == 0.5]),
        "terms": (
            cp.norm1(x) + cp.sum(cp.huber(x)) + cp.sum_squares(wide[0] @ x - wide[1]),
            [cp.norm(x) <= 0.5],
        ),
        "more columns": (cp.sum_squares(x - 2), [cp.norm1(x) <= 0.5]),
        "cones": (
            cp.sum_squares(x),
            [
                cp.SOC(x[0] + 2, x[1:]),
                cp.ExpCone(x[0], x[1] + 1, x[2] + 3),
                cp.PowCone3D(x[0] + 1, x[1] + 1, x[2], 0.3),
                cp.PowConeND(x + 1, x[2], exponents),
                cp.diag(x) + np.eye(3) >> 0,
            ],
        ),
    }
    found = []
    for name, (cost, rules) in clients.items():
        model = dm.Model(name)
        model.client("a", cost, rules)
        model.client("b", cp.sum_squares(y))
        model.consensus(x == y)
        found.append(dm.pack(model.compile()["a"]))
    return tuple(found)


@functools.cache
def entries(data: bytes) -> Mapping[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return MappingProxyType(dict(stored))


def stored(arrays: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def header_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return json.loads(arrays["header"].tobytes())


def with_header(arrays: Mapping[str, np.ndarray], header: Any) -> Mapping[str, np.ndarray]:
    text = header if isinstance(header, str) else json.dumps(header)
    return dict(arrays) | {"header": np.frombuffer(text.encode(), dtype=np.uint8)}


def with_entry(data: bytes, name: str, blob: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO(data)
    with zipfile.ZipFile(stream, "a", method) as archive:
        archive.writestr(name, blob)
    return stream.getvalue()


def head(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """The beginning of an array that claims this shape."""
    stream = io.BytesIO()
    given = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, given)
    return stream.getvalue()


NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, 10**6, 10**12, 2**31, 2**63 - 1, -(2**63)]),
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 5e-324]),
    st.integers(-8, 8),
)
WORDS: st.SearchStrategy[Any] = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.sampled_from(["", "abs", "linear", "norm", "huber", "ZeroConeT", "GenPowerConeT", "[" * 99]),
    st.lists(NUMBERS, max_size=3),
    st.integers(10**30, 10**31),
)


def mangled(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes are others, or gone, or twice there."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        what = draw(st.sampled_from(["set", "set", "cut", "copy", "end"]))
        part = slice(at, at + draw(st.integers(1, 64)))
        if what == "set":
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif what == "end":
            del data[at + 1 :]
        else:
            data[part] = b"" if what == "cut" else data[part] * 2
    return bytes(data)


@st.composite
def flipped(draw: st.DrawFn) -> bytes:
    """An archive of which some bytes are others."""
    return mangled(draw, draw(st.sampled_from(packed())))


@functools.cache
def marks(data: bytes) -> list[int]:
    """Where an entry, one of the directory, or the end of it begins."""
    return [found.start() for found in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", data)]


@st.composite
def directories(draw: st.DrawFn) -> bytes:
    """An archive of which some bytes of the directory, or before an entry, are others."""
    whole = draw(st.sampled_from(packed()))
    data, start = bytearray(whole), draw(st.sampled_from(marks(whole)))
    for _ in range(draw(st.integers(1, 3))):
        at = min(start + draw(st.integers(4, 45)), len(data) - 1)
        data[at] = draw(st.sampled_from([0, 1, 8, 9, 12, 99, 127, 255]))
    return bytes(data)


@functools.cache
def blobs(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@st.composite
def rezipped(draw: st.DrawFn) -> bytes:
    """An honest archive of entries of which the bytes of one are others: its checksum is right."""
    inside = dict(blobs(draw(st.sampled_from(packed()))))
    name = draw(st.sampled_from(sorted(inside)))
    inside[name] = mangled(draw, inside[name])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for one, blob in inside.items():
            archive.writestr(one, blob)
    return stream.getvalue()


@st.composite
def altered(draw: st.DrawFn) -> bytes:
    """An honest archive of arrays of which some have other numbers, types or shapes."""
    arrays = dict(entries(draw(st.sampled_from(packed()))))
    names = sorted(set(arrays) - {"header"})
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(names))
        array = np.array(arrays.get(name, 0.0))
        what = draw(st.sampled_from(["number", "type", "shape", "gone", "other", "grown"]))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            if what == "number" and array.size:
                number = draw(NUMBERS)
                number = np.nan_to_num(number) if array.dtype.kind in "iu" else number
                at = draw(st.integers(0, array.size - 1))
                array.flat[at] = np.asarray(number).astype(array.dtype)
            elif what == "type":
                kind = draw(
                    st.sampled_from(["f4", "f8", "i4", "i8", "u1", "c16", "U3", ">f8", "?"])
                )
                array = np.nan_to_num(array).astype(kind)
            elif what == "shape":
                array = array.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1), (1, 1, -1)])))
            elif what == "other":
                array = arrays[draw(st.sampled_from(sorted(arrays)))]
            elif what == "grown":
                array = np.concatenate([array.ravel(), array.ravel()])
        arrays[name] = array
        if what == "gone":
            del arrays[name]
            names = sorted(set(arrays) - {"header"})
    return stored(arrays)


@st.composite
def relabelled(draw: st.DrawFn) -> bytes:
    """An honest archive under another header."""
    arrays = entries(draw(st.sampled_from(packed())))
    header = header_of(arrays)
    for _ in range(draw(st.integers(1, 2))):
        field = draw(st.sampled_from([*sorted(header), "more"]))
        inside = header.get(field)
        if isinstance(inside, list) and inside and draw(st.booleans()):
            at = draw(st.integers(0, len(inside) - 1))
            if isinstance(inside[at], list) and draw(st.booleans()):
                inside[at][draw(st.integers(0, 1))] = draw(WORDS)
            else:
                inside[at] = draw(WORDS)
        else:
            header[field] = draw(WORDS)
    return stored(with_header(arrays, header))
