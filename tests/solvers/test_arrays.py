"""Eigenvalues of symmetric matrices where divide and conquer has failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dald_model.eigen import eigh
from dald_model.solvers.arrays.matrices import Sparse, together


def test_where_divide_and_conquer_fails_the_qr_method_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roots = np.random.default_rng(0).normal(size=(2, 3, 6, 6))
    matrices = roots + np.swapaxes(roots, -1, -2)
    known, _ = np.linalg.eigh(matrices)

    def failing(_: Any) -> Any:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", failing)
    values, vectors = eigh(matrices)
    np.testing.assert_allclose(values, known, atol=1e-13)
    again = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    np.testing.assert_allclose(again, matrices, atol=1e-13)
    matrices[1, 2, 3, 4] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="converge"):
        eigh(matrices)


PICKED = [slice(None), slice(1, 3), np.array([2, 0]), np.array([3])]


@pytest.mark.parametrize("index", PICKED, ids=str)
@pytest.mark.parametrize("entries", [0, 1, 2, 9, 60])
def test_grams_of_some_clients(entries: int, index: slice | np.ndarray) -> None:
    """Rows of so many entries each, with one that is empty and one of all variables."""
    rng, count, height, width = np.random.default_rng(entries), 4, 120, 60
    full = np.zeros((count, height, width))
    for rows in full:
        for row in rows[1:]:
            row[rng.choice(width, entries, replace=False)] = rng.normal(size=entries)
        if entries < 9:
            rows[-1] = rng.normal(size=width)
    given = together([sp.csr_array(one) for one in full], (height, width))
    assert isinstance(given, Sparse) == (entries < 60)
    picked = full[index]
    diagonal = np.where(rng.random((len(picked), height)) < 0.3, 0.0, rng.random(height))
    found = given.gram(diagonal, index)
    wanted = picked.transpose(0, 2, 1) @ (diagonal[:, :, None] * picked)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
