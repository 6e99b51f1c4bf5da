r"""Clients whose objective is a nuclear norm and a quadratic, read off their cone programs.

.. math:: \min_x \; \tfrac12 x^\top P x + q^\top x + \lambda\, \|X\|_*, \qquad
    X_{ij} = F_{ij}\, x_{k(i,j)} + O_{ij}

cvxpy writes :math:`2 \|X\|_*` as the least :math:`\operatorname{tr} U + \operatorname{tr} V` with
:math:`\begin{pmatrix} U & X \\ X^\top & V \end{pmatrix} \succeq 0`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form


class NuclearForm(NamedTuple):
    """A client as above.

    Attributes
    ----------
    entries, factors, offset : ndarray, shape (a, b)
        k, F and O; the factors are of one size.
    weight : float
    places : ndarray, shape (a, b)
        The cone program's rows of X.
    corners : ndarray
        Those of the diagonals of U and V.
    """

    entries: np.ndarray
    factors: np.ndarray
    offset: np.ndarray
    weight: float
    places: np.ndarray
    corners: np.ndarray


def nuclear_form(form: Form) -> NuclearForm | None:
    """What a form is as above; None where its cone program is another."""
    cone, size = form.cone, form.size
    if len(cone.cones) != 1 or cone.cones[0][0] != "PSDTriangleConeT":
        return None
    side, rows = cone.cones[0][1], sp.csr_array(cone.rows)
    if (np.diff(rows.indptr) != 1).any() or cone.matrix[:, size:].count_nonzero():
        return None
    columns, factors = rows.indices, -np.asarray(rows.data, float)
    if np.unique(columns).size < columns.size or not factors.all():
        return None
    after, before = np.tril_indices(side)  # the upper triangle, column by column
    is_own, is_corner = columns < size, after == before
    is_first = np.zeros(side, dtype=bool)
    is_first[[0, *after[(before == 0) & ~is_own]]] = True
    if (is_own != (is_first[before] != is_first[after])).any() or not is_own.any():
        return None
    sizes, prices = np.abs(factors[is_own]), cone.linear[columns] / factors
    corners = prices[is_corner]
    is_plain = not (cone.rhs[~is_own].any() or prices[~is_own & ~is_corner].any())
    is_alike = np.allclose(sizes, sizes[0], rtol=1e-12) and np.allclose(corners, corners[0], 1e-12)
    if not (is_plain and is_alike and corners[0] > 0 and (factors[is_corner] > 0).all()):
        return None
    place = np.zeros((side, side), dtype=int)
    place[before, after] = place[after, before] = np.arange(after.size)
    places = place[is_first][:, ~is_first]
    root = np.sqrt(2)  # of entries beside the diagonal
    entries, offset = columns[places], cone.rhs[places] / root
    weight = 2 * float(corners[0])
    return NuclearForm(
        entries, factors[places] / root, offset, weight, places, np.flatnonzero(is_corner)
    )
