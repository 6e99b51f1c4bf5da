r"""Validation of a client that comes from elsewhere: every number is checked before it is used.

Types, shapes against the header, indices of sparse matrices (before scipy, which trusts them, is
given any), finiteness, and the cones against the rows. What is not checked is convexity: a matrix
P with a negative eigenvalue is data as any other, and makes a solver fail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile import kinds
from dald_model.compile.form import LINEAR, ConeProgram, Form, Quadratic, Rows, Term, cone_height
from dald_model.engines.archive import Archive
from dald_model.engines.schema import DamagedError, parsed
from dald_model.validate import is_number, is_whole

FIELDS = {
    "version",
    "name",
    "size",
    "extra",
    "complete",
    "valued",
    "constants",
    "cones",
    "terms",
}
"""The fields of the header, all of them required."""
SIDED = {*LINEAR, "SecondOrderConeT"}
"""Clarabel's cones whose argument is their number of rows."""
EXPONENTS = 1e-6
"""How far the exponents of a power cone may be from adding up to one, as in cvxpy."""

_TERMS = {kind.name: kind for kind in kinds.KINDS if not isinstance(kind, kinds.Linear)}
_BOUNDED = {kind.name for kind in kinds.KINDS if kind.is_set} | {"huber"}
"""The kinds whose parameter is a radius or a threshold."""


def read_header(text: bytes) -> dict[str, Any]:
    """The header; numbers that JSON has no word for are refused, as is one nested too deep."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise DamagedError("the header is no object")
    return found


class Validation:
    """The arrays of one client, checked against its header as they are asked for."""

    def __init__(self, archive: Archive, header: dict[str, Any]) -> None:
        _demand(header.keys() == FIELDS, "other fields in the header")
        _demand(isinstance(header["name"], str), "a name that is no text")
        _demand(is_whole(header["size"], 1) and is_whole(header["extra"], 0), "sizes")
        for flag in ("complete", "valued"):
            _demand(isinstance(header[flag], bool), "a flag that is none")
        _demand(header["valued"] or not header["complete"], "complete without values")
        self._archive, self._header = archive, header
        self._size: int = header["size"]

    def form(self) -> Form:
        """The client's form."""
        header, size = self._header, self._size
        own, whole = header["constants"]
        _demand(_is_finite(own) and _is_finite(whole), "constants")
        linear = self._vector("slope", size)
        square: Any = None
        root: Any = None
        if "root.data" in self._archive.names:
            root = self._sparse("root", None, size)
        elif "root" in self._archive.names:
            root = self._matrix("root", size)
        else:
            square = self._matrix("quadratic", size)
            _demand(np.array_equal(square, square.T), "a matrix that is not symmetric")
        program = self._cone_program(float(whole))
        width = size + header["extra"]
        _demand(width <= program.linear.size, "more columns than variables")
        return Form(
            size,
            Quadratic(square, linear, float(own), root),
            self._rows("equalities", width),
            self._rows("inequalities", width),
            tuple(self._term(at, *pair) for at, pair in enumerate(header["terms"])),
            header["complete"],
            lambda: program,
            header["extra"],
            header["valued"],
        )

    def sides(self) -> tuple[sp.csr_array, np.ndarray]:
        """Matrix and offset of the client's sides."""
        offset = self._vector("offset")
        return self._sparse("sides", offset.size, self._size), offset

    def signs(self, size: int) -> np.ndarray:
        """Whether the client is tail or head, for each row of its sides."""
        found = self._vector("signs", size)
        _demand((np.abs(found) == 1).all(), "signs")
        return found

    def close(self) -> None:
        """Refuse what nobody asked for."""
        _demand(not self._archive.names, "other entries")

    def _rows(self, kind: str, width: int) -> Rows:
        found = Rows(self._matrix(kind, width), self._vector(f"{kind}.rhs"))
        _demand(len(found.matrix) == found.rhs.size, "rows without a right-hand side")
        return found

    def _term(self, at: int, name: str, width: int) -> Term:
        kind, label = _TERMS[name], f"term{at}"
        _demand(is_whole(width, 1) and (kind.is_joint or width == 1), "a width")
        weight = self._vector(f"{label}.weight")
        _demand(weight.size and (weight >= 0).all(), "weights")
        height = weight.size * width
        offset = self._vector(f"{label}.offset", height)
        parameter = self._vector(f"{label}.bound", weight.size)  # as format 1 calls it
        _demand(name not in _BOUNDED or (parameter >= 0).all(), "a negative radius")
        matrix: Any
        if label in self._archive.names:
            matrix = self._matrix(label, self._size)
            _demand(len(matrix) == height, "arguments")
        else:
            matrix = self._sparse(label, height, self._size)
        return Term(kind, weight, matrix, offset, parameter, width)

    def _cone_program(self, constant: float) -> ConeProgram:
        linear, rhs = self._vector("cone.slope"), self._vector("cone.rhs")
        cones = tuple((kind, argument) for kind, argument in self._header["cones"])
        _demand(sum(_height(*cone) for cone in cones) == rhs.size, "cones and rows")
        return ConeProgram(
            sp.csc_array(self._sparse("cone.matrix", linear.size, linear.size)),
            linear,
            constant,
            sp.csc_array(self._sparse("cone.rows", rhs.size, linear.size)),
            rhs,
            cones,
        )

    def _numbers(self, name: str, axes: int) -> np.ndarray:
        found = self._archive.array(name, "f8")
        _demand(found.ndim == axes and np.isfinite(found).all(), f"{name}: axes or NaN")
        return found

    def _vector(self, name: str, size: int | None = None) -> np.ndarray:
        found = self._numbers(name, 1)
        _demand(size is None or found.size == size, f"{name}: size")
        return found

    def _matrix(self, name: str, width: int) -> np.ndarray:
        """A dense matrix of so many columns; a square one of P."""
        found = self._numbers(name, 2)
        height = width if name == "quadratic" else len(found)
        _demand(found.shape == (height, width), f"{name}: shape")
        return found

    def _sparse(self, name: str, height: int | None, width: int) -> sp.csr_array:
        """A sparse matrix; scipy reads and writes beyond its arrays if the indices say so."""
        data = self._vector(f"{name}.data")
        indices, indptr = (
            self._archive.array(f"{name}.{part}", "i4", "i8") for part in ("indices", "indptr")
        )
        shape = self._archive.array(f"{name}.shape", "i8")
        height = indptr.size - 1 if height is None else height
        _demand(shape.tolist() == [height, width], f"{name}: shape")
        _demand(indices.shape == data.shape and indptr.shape == (height + 1,), f"{name}: sizes")
        _demand(indptr[0] == 0 and indptr[-1] == data.size, f"{name}: pointers")
        _demand((indptr[1:] >= indptr[:-1]).all(), f"{name}: pointers fall")
        _demand((indices >= 0).all() and (indices < width).all(), f"{name}: indices")
        rows = np.repeat(np.arange(height), np.diff(indptr))
        order = np.lexsort((indices, rows))
        is_twice = (np.diff(indices[order]) == 0) & (np.diff(rows[order]) == 0)
        _demand(not is_twice.any(), f"{name}: an entry comes twice")
        return sp.csr_array((data, indices, indptr), shape=(height, width))


def _height(kind: str, argument: Any) -> int:
    """The rows of a cone; its argument is checked."""
    if kind in SIDED or kind == "PSDTriangleConeT":
        _demand(is_whole(argument, 1), f"the size of a {kind}")
    elif kind == "ExponentialConeT":
        _demand(argument is None, "an exponential cone with an argument")
    elif kind == "PowerConeT":
        _demand(_is_finite(argument) and 0 < argument < 1, "an exponent")
    else:
        _demand(kind == "GenPowerConeT", "an unknown cone")
        _demand(
            isinstance(argument, list) and all(_is_finite(a) and a > 0 for a in argument), "powers"
        )
        _demand(abs(math.fsum(argument) - 1) <= EXPONENTS, "powers that do not add up to one")
    return cone_height(kind, argument)


def _is_finite(number: Any) -> bool:
    return is_number(number) and math.isfinite(number)


def _demand(holds: Any, what: str) -> None:
    if not holds:
        raise DamagedError(what)
