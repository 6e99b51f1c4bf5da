"""Objects of a run as arrays and JSON, and back: no pickle.

What is written is data: numbers, text, arrays, containers, and the attributes of objects of the
classes in :data:`PACKAGES`, by name. An object that is read is made without calling anything, from
its class and these attributes; nothing else can be made, so a file can hold no code.

An object that stands in several places is one object again, as some are compared by identity (the
penalties, the point of a proposal). What is not data but the same in every run on a model, such as
the compiled model itself, is taken from the run that is restored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.stacked_sides import StackedSides
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.smooth import Smooth

PACKAGES = (
    "dald_model.algorithms.",
    "dald_model.coordinate.",
    "dald_model.engines.assignment",
    "dald_model.engines.failover",
    "dald_model.schedule.",
    "dald_model.solvers.base",
    "dald_model.solvers.exact.reference",
    "dald_model.solvers.interior.coordinator",
    "dald_model.solvers.inexact.",
)
"""Where classes come from whose objects are kept."""
FIXED = (FunctionType, MethodType, Smooth, StackedSides, Subproblem)
"""What is not kept, but taken from the run that is restored: what knows clients' data, or is no
data."""
SPARSE_KINDS = {"csr": sp.csr_array, "csc": sp.csc_array}
KINDS = "bifu"
"""Types of arrays that are kept."""


class NotKeptError(Exception):
    """Something is neither data nor an object of :data:`PACKAGES`; never shown to the user."""


class Writer:
    """Objects as JSON, and the arrays that it names.

    Parameters
    ----------
    compiled : Decomposition
        Whose clients' names may be anything.
    fixed : tuple of types
        Which are taken from the run that is restored.
    prefix : str
        Of the arrays' names.

    Attributes
    ----------
    arrays : dict
    """

    def __init__(
        self, compiled: Decomposition, fixed: tuple[type, ...] = FIXED, prefix: str = ""
    ) -> None:
        self._prefix = prefix
        self.arrays: dict[str, np.ndarray] = {}
        self._compiled, self._fixed = compiled, fixed
        self._numbers: dict[int, int] = {}
        self._seen: list[Any] = []  # they must live, else another object gets the same id

    def written(self, value: Any) -> Any:
        """The JSON of a value.

        Raises
        ------
        NotKeptError
            Naming what it is.
        """
        if value is self._compiled:
            return {"compiled": True}
        if value is None or isinstance(value, bool) or type(value) in (int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if type(value) is list:
            return [self.written(one) for one in value]
        if isinstance(value, Mapping):
            return {"dict": [[self.written(k), self.written(v)] for k, v in value.items()]}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        return self._tuple(value) if isinstance(value, tuple | set) else self._object(value)

    def _tuple(self, value: tuple[Any, ...] | set[Any]) -> Any:
        kind = "set" if isinstance(value, set) else "tuple"
        found: dict[str, Any] = {kind: [self.written(one) for one in value]}
        return found | ({"class": self._class(value)} if hasattr(value, "_fields") else {})

    def _object(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return {"member": value.name, "class": self._class(value)}
        if isinstance(value, self._fixed):
            return {"fixed": True}
        number = self._numbers.get(id(value))
        if number is not None:
            return {"again": number}
        if not is_ours(type(value)) and self._is_name(value):
            return {"client": self._compiled.order[value]}
        self._numbers[id(value)] = number = len(self._seen)
        self._seen.append(value)
        if isinstance(value, np.ndarray):
            return {"array": self._array(value), "number": number}
        if sp.issparse(value) and value.format in SPARSE_KINDS:
            parts = [self._array(part) for part in (value.data, value.indices, value.indptr)]
            return {
                "sparse": value.format,
                "shape": list(value.shape),
                "parts": parts,
                "number": number,
            }
        found = {"class": self._class(value), "number": number}
        return found | {"state": {k: self.written(v) for k, v in attributes(value).items()}}

    def _is_name(self, value: Any) -> bool:
        return isinstance(value, Hashable) and value in self._compiled

    def _array(self, array: np.ndarray) -> str:
        if array.dtype.kind not in KINDS:
            raise NotKeptError(f"an array of {array.dtype}")
        name = f"{self._prefix}a{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def _class(self, value: Any) -> str:
        kind = type(value)
        if not is_ours(kind):
            raise NotKeptError(f"{kind.__module__}.{kind.__qualname__}")
        return f"{kind.__module__}:{kind.__qualname__}"


class Reader:
    """What :class:`Writer` wrote as objects again.

    Parameters
    ----------
    compiled : Decomposition
    arrays : mapping
    """

    def __init__(self, compiled: Decomposition, arrays: Mapping[str, np.ndarray]) -> None:
        self._compiled, self._arrays = compiled, arrays
        self._names = list(compiled)
        self._made: dict[int, Any] = {}
        self._read: Mapping[str, Callable[[Any, Any], Any]] = {
            "float": lambda said, _: float(said["float"]),
            "scalar": lambda said, _: self._arrays[said["scalar"]][()],
            "dict": self._dict,
            "bytes": lambda said, _: bytes.fromhex(said["bytes"]),
            "slice": lambda said, _: slice(*said["slice"]),
            "tuple": self._tuple,
            "set": lambda said, _: {self.read(one) for one in said["set"]},
            "compiled": lambda *_: self._compiled,
            "member": lambda said, _: class_of(said["class"])[said["member"]],
            "fixed": lambda _, fresh: fresh,
            "again": lambda said, _: self._made[said["again"]],
            "client": lambda said, _: self._names[said["client"]],
            "array": self._array,
            "sparse": self._sparse,
            "state": self._object,
        }

    def read(self, said: Any, fresh: Any = None) -> Any:
        """A value, of what was written.

        ``fresh`` is what stands in its place in the run that is restored: an object of the same
        class is given the attributes of the one that was written.
        """
        if isinstance(said, list):
            fresh = fresh if isinstance(fresh, list) else []
            return [self.read(one, _at(fresh, at)) for at, one in enumerate(said)]
        if not isinstance(said, dict):
            return said
        kind = next(key for key in said if key in self._read)
        return self._read[kind](said, fresh)

    def _dict(self, said: dict[str, Any], fresh: Any) -> Any:
        before = fresh if isinstance(fresh, Mapping) else {}
        pairs = [(self.read(key), value) for key, value in said["dict"]]
        return {key: self.read(value, before.get(key)) for key, value in pairs}

    def _tuple(self, said: dict[str, Any], fresh: Any) -> Any:
        before = fresh if isinstance(fresh, tuple) else ()
        values = [self.read(one, _at(before, at)) for at, one in enumerate(said["tuple"])]
        return class_of(said["class"])._make(values) if "class" in said else tuple(values)

    def _array(self, said: dict[str, Any], _: Any) -> np.ndarray:
        found = self._arrays[said["array"]]
        self._made[said["number"]] = found
        return found

    def _sparse(self, said: dict[str, Any], _: Any) -> Any:
        parts = tuple(self._arrays[name] for name in said["parts"])
        found = SPARSE_KINDS[said["sparse"]](parts, shape=tuple(said["shape"]))
        self._made[said["number"]] = found
        return found

    def _object(self, said: dict[str, Any], fresh: Any) -> Any:
        kind: type = class_of(said["class"])
        is_there = type(fresh) is kind
        # Records are made anew, as others may hold the same
        found = fresh if is_there and not is_dataclass(kind) else object.__new__(kind)
        self._made[said["number"]] = found
        before = attributes(fresh) if is_there else {}
        for name, value in said["state"].items():
            object.__setattr__(found, name, self.read(value, before.get(name)))
        return found


def is_ours(kind: type) -> bool:
    """Whether objects of a class are kept."""
    return kind.__module__.startswith(PACKAGES)


def class_of(name: str) -> Any:
    """One of the classes in :data:`PACKAGES`.

    Raises
    ------
    NotKeptError
        If it is none of these.
    """
    module, _, called = name.partition(":")
    found = getattr(sys.modules.get(module), called, None)
    if not (isinstance(found, type) and is_ours(found) and found.__module__ == module):
        raise NotKeptError(f"the class {name}")
    return found


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object but for those that are computed of others when asked for."""
    return {
        name: one
        for name, one in vars(value).items()
        if not isinstance(getattr(type(value), name, None), cached_property)
    }


def _at(values: Any, at: int) -> Any:
    return values[at] if at < len(values) else None
