"""Quadratic forms whose matrix is only asserted to be semidefinite, held against its eigenvalues.

cvxpy takes ``cp.psd_wrap(P)`` and ``cp.quad_form(x, P, assume_PSD=True)`` at their word. With a
negative eigenvalue the objective is not convex, and no answer, price or certificate means anything.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dald_model._cvxpy import quad_forms
from dald_model.declare.wording import short
from dald_model.eigen import eigvalsh
from dald_model.errors import DeclarationError

ROUNDED = 1e-9
"""A negative eigenvalue up to this share of the largest one counts as zero: the rounding errors of
a Gram matrix of 1e6 rows stay below it, and so do those of an eigenvalue decomposition."""
CHECKED = 0.1
"""cvxpy has checked a plain constant matrix to 1e-10; where the largest entry, and so the largest
eigenvalue, is at least this, its check is the finer one."""
LARGE = 500
"""Size from which on a Cholesky factorisation is tried first: 500 eigenvalues take 20 ms, 3,000
take 20 times as long as the factorisation."""


def check_asserted(part: Any, where: str) -> None:
    """Refuse quadratic forms of an objective or constraint whose matrix is not semidefinite.

    Singular matrices pass, and so do negative eigenvalues that rounding explains.

    Raises
    ------
    DeclarationError
        Naming the client or coupling, the form and the eigenvalue.
    """
    for form in quad_forms(part):
        matrix = form.args[1]
        value: Any = matrix.value
        if isinstance(matrix, cp.Constant) and abs(value).max() >= CHECKED:
            continue
        is_psd = matrix.is_psd()
        ends = _ends(value if is_psd else -value)
        if ends is None or ends[0] >= -ROUNDED * max(map(abs, ends)):
            continue
        least, most = ends if is_psd else (-ends[0], -ends[1])
        kind, sign, which, bound = ("convex", "positive", "least", "maximum")
        if not is_psd:
            kind, sign, which, bound = ("concave", "negative", "largest", "minimum")
        raise DeclarationError(
            f"{where}: {short(form)} is not {kind}: its {which} eigenvalue is {least:.3g} (at the "
            f"other end {most:.3g}), expected a {sign} semidefinite matrix; check its entries and "
            "sign, or give the nearest such matrix: values, vectors = np.linalg.eigh(P); "
            f"P = (vectors * np.{bound}(values, 0)) @ vectors.T"
        )


def _ends(given: Any) -> tuple[float, float] | None:
    """Least and largest eigenvalue of the symmetric part; None if it is known to be semidefinite.

    The rest of the package takes the matrix dense as well, so large sparse ones come to nothing
    that a sparse factorisation would save.
    """
    matrix = (given + given.T) / 2
    diagonal = matrix.diagonal()
    # Gershgorin: as of diagonal matrices and Laplacians
    if (2 * diagonal >= np.asarray(abs(matrix).sum(axis=1)).reshape(-1)).all():
        return None
    dense = np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=float)
    if len(dense) > LARGE:
        # The largest entry is at most the largest eigenvalue, so the shift is no more than allowed
        shift = ROUNDED * float(np.abs(dense).max())
        try:
            scipy.linalg.cholesky(dense + shift * np.eye(len(dense)), overwrite_a=True)
        except np.linalg.LinAlgError:
            pass
        else:
            return None
    values = eigvalsh(dense)
    return float(values[0]), float(values[-1])
