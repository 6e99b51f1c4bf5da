"""Couplings of one pattern, against cvxpy's all-in-one solve."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def chain(weights: list[float], turned: bool) -> dm.Model:
    """Seven points in a row, norms between neighbours with these weights, one sum over three."""
    rng = np.random.default_rng(5)
    x = [cp.Variable(2, name=f"x{i}") for i in range(7)]
    model = dm.Model("chain")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - rng.normal(size=2) - (i > 2)))
    for i, weight in enumerate(weights):
        apart = x[i + 1] - x[i] if turned and i % 2 else x[i] - x[i + 1]
        model.couple(objective=weight * cp.norm(apart), name=f"edge {i}")
    model.couple(cp.norm(x[0] + x[3] + x[6]) <= 2, name="three")
    return model


@pytest.mark.parametrize("weights", [[0.3] * 6, [0.1, 0.2, 0.4, 0.8, 0.2, 0.1]])
@pytest.mark.parametrize("turned", [False, True])
def test_edges_of_one_pattern_have_their_own_weights_and_ends(weights, turned):
    model = chain(weights, turned)
    result = model.solve()
    problem = model.monolithic()
    problem.solve(solver="CLARABEL")
    assert result.status == "optimal"
    assert result.value == pytest.approx(problem.value, rel=1e-5)
    for name, coupling in model.couplings.items():
        edges = {e for e in model.compile().edges if name in e.ends}
        owners = {end for edge in edges for end in edge.ends} - {name}
        expected = {i for i in range(7) if f"x{i}" in {v.name() for v in coupling.variables}}
        assert owners == expected


def test_couplings_that_are_alike_have_one_form():
    compiled = chain([0.3] * 6, turned=False).compile()
    assert len({id(compiled[f"edge {i}"].form) for i in range(6)}) == 1
    others = chain([0.1, 0.2, 0.4, 0.8, 0.2, 0.1], turned=False).compile()
    for i, weight in enumerate([0.1, 0.2, 0.4, 0.8, 0.2, 0.1]):
        form, point = others[f"edge {i}"].form, np.array([3.0, 0.0, 0.0, 4.0])
        assert form is not None
        assert form.objective(point) == pytest.approx(weight * 5)
