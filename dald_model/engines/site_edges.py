"""Edges of a site's client as bytes: all that a coordinator has to say of the client itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.engines.wire import decode, encode
from dald_model.errors import OptionError


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
