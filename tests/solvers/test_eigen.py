"""Eigenvalues of symmetric matrices where divide and conquer has failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dald_model.eigen import eigh


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
