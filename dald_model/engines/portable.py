"""Compiled client as bytes, to be minimised in another process.

Arrays in numpy's ``npz`` format and one small header in JSON; no pickle and no cvxpy on the other
side, so what arrives is data and cannot be code.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile import kinds
from dald_model.compile.form import ConeProgram, Form, Quadratic, Rows, Term
from dald_model.compile.subproblem import NOTHING, Subproblem
from dald_model.errors import OptionError

VERSION = 2
"""Of the format; another one is refused."""
NO_CLIENT = "unpack: the bytes are no packed client; expected those of pack"
BROKEN = (ValueError, TypeError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile)
"""What reading foreign or damaged bytes may end in."""


@dataclass(frozen=True, eq=False)
class Portable:
    """Data of a :class:`Subproblem` that the solvers need, without its cvxpy objects.

    A session opened with these answers as one opened with the subproblems does; its ``duals`` give
    the multipliers of the form's rows, which the owner turns into cvxpy's dual values by
    ``Subproblem.local_duals(*...)`` or ``Subproblem.cone_duals(*...)``.

    Attributes
    ----------
    name : str
        The client's name as text.
    form : Form
    sides : tuple of csr_array and ndarray
        Matrix (q, m) and offset (q,) of the client's sides of its edges.
    signs : ndarray, shape (q,)
    """

    name: str
    form: Form
    sides: tuple[sp.csr_array, np.ndarray]
    signs: np.ndarray

    @property
    def size(self) -> int:
        """The number of scalar variables, m."""
        return self.form.size

    def local_duals(
        self, equality: np.ndarray, inequality: np.ndarray, balls: np.ndarray = NOTHING
    ) -> tuple[Any, ...]:
        """The multipliers as they are."""
        return equality, inequality, balls

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        """The multipliers as they are."""
        return (multipliers,)


def pack(subproblem: Subproblem) -> bytes:
    """A compiled client as bytes.

    Raises
    ------
    OptionError
        If the client has no form: a server, or one that only cvxpy can solve.
    """
    form = subproblem.form
    if form is None:
        raise OptionError(
            f"client {subproblem.name!r} has no numerical form: it is a server, or cvxpy alone can "
            "solve it; keep it in this process"
        )
    arrays: dict[str, np.ndarray] = {"signs": subproblem.signs}
    header = {
        "version": VERSION,
        "name": str(subproblem.name),
        "size": form.size,
        "extra": form.extra,
        "complete": form.complete,
        "valued": form.valued,
        "constants": [form.quadratic.constant, form.cone.constant],
        "cones": form.cone.cones,
        "terms": [[term.kind.name, term.width] for term in form.terms],
    }
    matrix, offset = subproblem.sides
    _put(arrays, "sides", matrix)
    arrays["offset"] = offset
    _put(arrays, "quadratic", form.quadratic.matrix)
    _put(arrays, "root", form.quadratic.root)
    arrays["slope"] = form.quadratic.linear
    for kind, rows in (("equalities", form.equalities), ("inequalities", form.inequalities)):
        _put(arrays, kind, rows.matrix)
        arrays[f"{kind}.rhs"] = rows.rhs
    for at, term in enumerate(form.terms):
        _put(arrays, f"term{at}", term.matrix)
        arrays |= {
            f"term{at}.weight": term.weight,
            f"term{at}.offset": term.offset,
            f"term{at}.bound": term.parameter,  # as format 1 calls it
        }
    _put(arrays, "cone.matrix", form.cone.matrix)
    _put(arrays, "cone.rows", form.cone.rows)
    arrays |= {"cone.slope": form.cone.linear, "cone.rhs": form.cone.rhs}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def unpack(data: bytes) -> Portable:
    """The inverse of :func:`pack`.

    Raises
    ------
    OptionError
        If the bytes are not of this format.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = dict(stored)
        header = json.loads(arrays["header"].tobytes())
        version = header["version"]
    except BROKEN as error:
        raise OptionError(NO_CLIENT) from error
    if version != VERSION:
        raise OptionError(
            f"unpack: the client was packed in format {version}, expected {VERSION}; "
            "pack and unpack with the same version of dald_model"
        )
    try:
        return _assembled(arrays, header)
    except BROKEN as error:
        raise OptionError(NO_CLIENT) from error


def _assembled(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Portable:
    quadratic, cone = header["constants"]
    program = ConeProgram(
        sp.csc_array(_get(arrays, "cone.matrix")),
        arrays["cone.slope"],
        cone,
        sp.csc_array(_get(arrays, "cone.rows")),
        arrays["cone.rhs"],
        tuple((kind, argument) for kind, argument in header["cones"]),
    )
    form = Form(
        header["size"],
        Quadratic(_get(arrays, "quadratic"), arrays["slope"], quadratic, _get(arrays, "root")),
        Rows(_get(arrays, "equalities"), arrays["equalities.rhs"]),
        Rows(_get(arrays, "inequalities"), arrays["inequalities.rhs"]),
        tuple(
            Term(
                kinds.named(kind),
                arrays[f"term{at}.weight"],
                _get(arrays, f"term{at}"),
                arrays[f"term{at}.offset"],
                arrays[f"term{at}.bound"],
                width,
            )
            for at, (kind, width) in enumerate(header["terms"])
        ),
        header["complete"],
        lambda: program,
        header["extra"],
        header["valued"],
    )
    sides = sp.csr_array(_get(arrays, "sides")), arrays["offset"]
    return Portable(header["name"], form, sides, arrays["signs"])


def _put(arrays: dict[str, np.ndarray], name: str, matrix: Any) -> None:
    """Enter a dense or sparse matrix; nothing where there is none."""
    if sp.issparse(matrix):
        stored = sp.csr_array(matrix)
        arrays |= {
            f"{name}.data": stored.data,
            f"{name}.indices": stored.indices,
            f"{name}.indptr": stored.indptr,
            f"{name}.shape": np.array(stored.shape),
        }
    elif matrix is not None:
        arrays[name] = matrix


def _get(arrays: dict[str, np.ndarray], name: str) -> Any:
    if f"{name}.indptr" in arrays:
        parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        return sp.csr_array(parts, shape=tuple(arrays[f"{name}.shape"].tolist()))
    return arrays.get(name)
