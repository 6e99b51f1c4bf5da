"""Compiled client as bytes, to be minimised in another process.

Arrays in numpy's ``npz`` format and one small header in JSON; no pickle and no cvxpy on the other
side, so what arrives is data and cannot be code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.compile.subproblem import NOTHING, Subproblem
from dald_model.engines.archive import Archive, archived
from dald_model.engines.schema import HEADER_BYTES
from dald_model.engines.validation import Validation, read_header
from dald_model.engines.wire import decode, encode
from dald_model.errors import OptionError
from dald_model.validate import is_whole

VERSION = 2
"""Of the format; another one is refused."""
NO_CLIENT = "unpack: the bytes are no packed client; expected those of pack"
LATEST = 10**6
"""The largest number that is taken for one of a format."""


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

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> portable = dm.unpack(dm.pack(common_number([0, 1, 2]).compile()[1]))
    >>> portable.name, portable.size
    ('1', 1)
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
        If the client has no form (a server, or one that only cvxpy can solve), or holds numbers
        that are not finite.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> data = dm.pack(common_number([0, 1, 2]).compile()[1])
    >>> dm.unpack(data).size
    1
    """
    if not isinstance(subproblem, Subproblem):
        raise OptionError(
            f"pack: given {type(subproblem).__name__}, expected a compiled client such as "
            "model.compile()['a']"
        )
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
    _check_sendable(subproblem.name, arrays, header["constants"])
    return archived(arrays)


def _check_sendable(name: Any, arrays: dict[str, np.ndarray], constants: list[float]) -> None:
    """Refuse what nobody would take."""
    bad = [what for what, array in arrays.items() if not np.isfinite(array).all()]
    if bad or not np.isfinite(constants).all():
        raise OptionError(
            f"client {name!r}: its numbers are not all finite (in {', '.join(bad) or 'constants'}),"
            " expected finite ones; give its Parameters finite values, or measure its data in "
            "other units where they overflow"
        )
    if arrays["header"].size >= HEADER_BYTES:
        raise OptionError(
            f"client {name!r}: its cones and terms take {arrays['header'].size} bytes to list, "
            f"expected fewer than {HEADER_BYTES}; keep it in this process, or split it into "
            "several clients"
        )


def unpack(data: bytes) -> Portable:
    """The inverse of :func:`pack`, for bytes from anywhere.

    They are checked before they are used, see :mod:`dald_model.engines.archive` and
    :mod:`dald_model.engines.validation`: nothing is run, and beside a header of at most
    :data:`dald_model.engines.schema.HEADER_BYTES` bytes no more memory is taken than a small
    multiple of what came.

    Raises
    ------
    OptionError
        If the bytes are not of this format.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> dm.unpack(dm.pack(common_number([0, 1, 2]).compile()[1])).name
    '1'
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise OptionError(f"unpack: given {type(data).__name__}, expected the bytes that pack gave")
    try:
        archive = Archive(bytes(data))
        header = read_header(archive.header())
        version = header["version"]
        is_ours = is_whole(version, VERSION, VERSION)
        found = _admitted(archive, header) if is_ours else None
    # Foreign bytes make zipfile, json and numpy raise whatever they like; all means the same.
    except Exception as error:
        raise OptionError(NO_CLIENT) from error
    if found is not None:
        return found
    if not is_whole(version, 0, LATEST):
        raise OptionError(NO_CLIENT)
    raise OptionError(
        f"unpack: the client was packed in format {version}, expected {VERSION}; "
        "pack and unpack with the same version of dald_model"
    )


def _admitted(archive: Archive, header: dict[str, Any]) -> Portable:
    admission = Validation(archive, header)
    form, sides = admission.form(), admission.sides()
    signs = admission.signs(sides[1].size)
    admission.close()
    return Portable(header["name"], form, sides, signs)


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


class SiteEdges(NamedTuple):
    """Sides of the edges in the m shared entries, (q, m) and (q,), and signs of the ends, (q,)."""

    sides: tuple[sp.csr_array, np.ndarray]
    signs: np.ndarray
    size: int


def pack_edges(sub: Subproblem) -> bytes:
    """The edges of a client whose objective is elsewhere."""
    matrix, offset = sub.sides
    cells = sp.coo_array(matrix)
    arrays = {
        "rows": cells.row.astype(np.int64),
        "columns": cells.col.astype(np.int64),
        "values": cells.data,
        "offset": offset,
        "signs": sub.signs,
    }
    return encode({"size": sub.size}, arrays)


def unpack_edges(data: bytes, size: int) -> SiteEdges:
    """The inverse of :func:`pack_edges`, for bytes from anywhere.

    Raises
    ------
    OptionError
        If they are not the edges of a client that shares ``size`` entries.
    """
    try:
        said, arrays = decode(data)
        offset, signs = arrays["offset"], arrays["signs"]
        cells = tuple(arrays[name] for name in ("rows", "columns", "values"))
        numbers = np.concatenate([cells[2], offset])
        is_sound = said["size"] == size and offset.shape == signs.shape == (offset.size,)
        is_sound = is_sound and bool((np.abs(signs) == 1).all() and np.isfinite(numbers).all())
        is_sound = is_sound and min(cells[0].min(initial=0), cells[1].min(initial=0)) >= 0
        if not is_sound:
            raise ValueError("sizes, signs or numbers")
        # Made of triples, whose indices scipy compares with the shape
        matrix = sp.csr_array((cells[2], cells[:2]), shape=(offset.size, size))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise OptionError(
            f"site: what came are no edges of {size} shared entries; see that the coordinator has "
            "this version of dald_model, and let the site introduce itself again"
        ) from error
    return SiteEdges((matrix, offset), signs, size)
