"""Owners with rules and nothing to minimise, and optima of zero where the run begins."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

SEEN = ("answers", "curvature")


@pytest.mark.parametrize("disclose", SEEN)
@pytest.mark.parametrize("factor", [None, 0.0, 1.0])
def test_a_point_that_keeps_all_rules_is_optimal(disclose: str, factor: float | None) -> None:
    """Four owners of four entries in [0, 1] that add up to two: any such point has the value 0."""
    x = [cp.Variable(4, name=f"x{i}") for i in range(4)]
    model = dm.Model("rules")
    for i, own in enumerate(x):
        cost = cp.Constant(0) if factor is None else factor * cp.sum(own)
        model.client(f"owner {i}", cost, [own >= 0, own <= 1])
    model.couple(cp.sum(cp.vstack(x), axis=0) == 2)
    result = model.solve(disclose=disclose)
    found = np.array([result[f"x{i}"] for i in range(4)])
    assert result.status == "optimal"
    assert result.value == pytest.approx(8.0 if factor else 0.0, abs=1e-6)  # all of them sum to 8
    assert np.abs(found.sum(axis=0) - 2).max() < 1e-6
    assert found.min() > -1e-6
    assert found.max() < 1 + 1e-6
    assert result.certificate().ok
    assert result.verify().ok


@pytest.mark.parametrize("disclose", SEEN)
def test_an_optimum_of_zero_is_found_where_the_run_begins(disclose: str) -> None:
    """Fits that are exact at zero, of two owners whose variables add up to zero."""
    rng = np.random.default_rng(3)
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model = dm.Model("zero")
    for i, own in enumerate(x):
        model.client(f"owner {i}", cp.sum_squares(rng.normal(size=(20, 2)) @ own), [own >= -1])
    model.couple(x[0] + x[1] == 0)
    result = model.solve(disclose=disclose)
    assert result.status == "optimal"
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert result.verify().ok
