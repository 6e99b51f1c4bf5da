"""Eigenvalues of symmetric matrices where divide and conquer has failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.zoo import GRAPHS, PROBLEMS


@pytest.mark.parametrize("name", ["least_squares", "logistic"])
def test_where_divide_and_conquer_fails_the_qr_method_answers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run and its proof go on, to the known value."""
    failed, built = [], PROBLEMS[name]().on(GRAPHS["chain"]())

    def failing(_: Any) -> Any:
        failed.append(True)
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", failing)
    result = built.model.solve()
    during = len(failed)
    assert result.status == "optimal"
    assert result.value == pytest.approx(built.value, rel=1e-6)
    assert result.certificate().ok
    assert 0 < during < len(failed)
