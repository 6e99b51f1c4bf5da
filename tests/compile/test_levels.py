"""Numbers that bound something nonlinear are offsets of rows: alike clients share a template."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

RULES = {
    "norm": lambda x, c: cp.norm(x) <= c,
    "norm as a difference": lambda x, c: cp.norm(x) - c <= 0,
    "twice a norm": lambda x, c: 2 * cp.norm(x - 1) + 1 <= 2 * c + 3,
    "squares": lambda x, c: cp.sum_squares(x) <= c,
    "squares and a number": lambda x, c: cp.sum_squares(x) + c <= 3 * c,
    "form": lambda x, c: cp.quad_form(x, np.diag([1.0, 2.0, 3.0])) <= c,
    "steps": lambda x, c: cp.abs(cp.diff(x)) <= c / 10,
    "box of numbers": lambda x, c: cp.abs(x) <= c * np.array([0.1, 0.2, 0.3]),
    "logarithms": lambda x, c: cp.sum(cp.log(x + 3)) >= 2 * c,
}


def model_of(rule, levels):
    """Clients with a level each, around one point."""
    rng = np.random.default_rng(3)
    z, model = cp.Variable(3), dm.Model("levels")
    for i, level in enumerate(levels):
        x, A = cp.Variable(3), rng.normal(size=(8, 3))
        model.client(i, cp.sum_squares(A @ x - 2.0), [rule(x, level)])
        model.consensus(z == x)
    return model


@pytest.mark.parametrize("name", RULES)
def test_clients_of_other_levels_share_all_but_data(name):
    model = model_of(RULES[name], [1.0, 1.5, 1.2, 1.7])
    compiled = model.compile()
    lowered = [compiled[i].lowered for i in range(4)]
    assert all(one.structure is lowered[0].structure for one in lowered)
    result = model.solve()
    reference = model.monolithic()
    assert result.value == pytest.approx(reference.solve(solver=cp.CLARABEL), rel=1e-5)
    assert result.verify().ok  # dual values as well


@pytest.mark.parametrize("name", ["norm", "squares", "steps", "form"])
def test_a_level_that_moves_is_an_offset(name):
    levels = [cp.Parameter(value=v, nonneg=True) for v in (1.0, 1.5)]
    model = model_of(RULES[name], levels)
    before, structure = model.solve(), model.compile()[0].lowered.structure
    for values in ((0.5, 1.5), (2.0, 0.7)):
        for parameter, value in zip(levels, values, strict=True):
            parameter.value = value
        result = model.solve(start=before)
        assert model.compile()[0].lowered.structure is structure
        problem = model.monolithic()
        assert result.value == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-5)


@pytest.mark.parametrize("name", ["norm", "squares", "twice a norm"])
def test_a_level_below_which_there_is_nothing_is_infeasible(name):
    assert model_of(RULES[name], [1.0, 2.0, -2.5]).solve().status == "infeasible"


def test_a_level_that_leaves_one_point():
    model = model_of(RULES["norm"], [1.0, 0.0])
    result = model.solve()
    assert result.value == pytest.approx(2 * 8 * 4.0, rel=1e-4)
    assert np.abs(result[model.clients[1].variables[0]]).max() < 1e-4
