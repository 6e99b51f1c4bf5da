"""Owners whose own fit is exact: at their minimisers nothing is left of their rows but rounding."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


@pytest.mark.parametrize("seed", [2, 3, 4, 6, 8, 13])
def test_the_worst_mean_square_of_owners_without_noise(seed: int) -> None:
    """Each alone reaches zero, so what is left there tells no length of the worst."""
    rng = np.random.default_rng(seed)
    w, worst, model = cp.Variable(5, name="w"), cp.Variable(name="worst"), dm.Model("schools")
    mean = rng.normal(size=5)
    for school in range(9):
        count = int(rng.integers(8, 60))
        X = rng.normal(size=(count, 5))
        y = X @ (mean + 0.3 * rng.normal(size=5))
        model.client(school, worst / 9, [cp.sum_squares(X @ w - y) / count <= worst])
    result = model.solve()
    assert result.status == "optimal", result.detail
    assert result.verify().ok
