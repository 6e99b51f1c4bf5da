"""Canonical forms for other numbers, against those that cvxpy makes of them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import number

RNG = np.random.default_rng(2)
A, B = RNG.normal(size=(9, 3)), RNG.normal(size=9)


def costs(x, a, b):
    yield "lasso", cp.sum_squares(A @ x - B) + a * cp.norm1(x) + b * cp.sum(x), []
    yield "ridge", a * cp.sum_squares(A @ x - B) + b * cp.sum_squares(x), []
    yield "logistic", a * cp.sum(cp.logistic(A @ x)) + b * cp.sum_squares(x), []
    yield "epigraph", a * cp.max(A @ x) + b * cp.sum_squares(x), [cp.norm1(x) <= 4]
    yield "inside", cp.norm1(cp.multiply(np.ones(3), x)) + a * cp.huber(x[0]), [b * x[0] <= 3]


def clients(name):
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    a, b = cp.Parameter(nonneg=True, name="a"), cp.Parameter(nonneg=True, name="b")
    cost, rules = next((cost, rules) for one, cost, rules in costs(x, a, b) if one == name)
    model = dm.Model()
    model.client("a", cost, rules)
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    return model, x, a, b


@pytest.mark.parametrize("name", ["lasso", "ridge", "logistic", "epigraph", "inside"])
def test_forms_and_cone_programs_along_a_path_are_those_of_a_model_compiled_there(name):
    model, _, a, b = clients(name)
    points = np.random.default_rng(4).normal(size=(5, 3))
    compiled = None
    for one, two in [(1.0, 0.5), (3.0, 0.5), (3.0, 20.0), (1e-3, 7.0), (1e3, 1e-4)]:
        a.value, b.value = one, two
        compiled = compiled or model.compile()
        compiled.instantiate()
        fresh = clients(name)
        fresh[2].value, fresh[3].value = one, two
        now, anew = (c["a"].form for c in (compiled, fresh[0].compile()))
        assert now is not None
        assert anew is not None
        assert np.allclose(now.objectives(points), anew.objectives(points), rtol=1e-10)
        assert np.allclose(now.equalities.rhs, anew.equalities.rhs)
        assert np.allclose(now.inequalities.matrix, anew.inequalities.matrix)
        assert np.allclose(now.inequalities.rhs, anew.inequalities.rhs)
        one, two = now.cone, anew.cone
        assert one.cones == two.cones
        for mine, other in [
            (one.matrix.toarray(), two.matrix.toarray()),
            (one.rows.toarray(), two.rows.toarray()),
            (one.linear, two.linear),
            (one.rhs, two.rhs),
        ]:
            assert np.allclose(mine, other, rtol=1e-10, atol=1e-13)
        assert one.constant == pytest.approx(two.constant, rel=1e-10)


def test_offsets_that_move_keep_matrices_and_follow_the_user():
    start = cp.Parameter(3, name="start")
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    model = dm.Model()
    rules = [x == 0.9 * start + y, cp.abs(y) <= 2, cp.norm(x - start) <= 5]
    cost = cp.sum_squares(x - start) + cp.norm1(y + start) + cp.sum(cp.multiply(B[:3], y))
    model.client("a", cost, rules)
    z = cp.Variable(3, name="z")
    model.client("b", cp.sum_squares(z))
    model.consensus(x == z)
    start.value = np.zeros(3)
    compiled = model.compile()
    first = compiled["a"].form
    assert first is not None
    cone = first.cone
    for _ in range(6):
        start.value = RNG.uniform(0, 2, size=3)
        compiled.instantiate()
        form = compiled["a"].form
        assert form is not None
        assert form.cone.rows is cone.rows
        assert form.quadratic.matrix is first.quadratic.matrix
        for point in RNG.normal(size=(4, 6)):
            for v, part in compiled["a"].spread(point).items():
                next(one for one in compiled["a"].variables if one.id == v).save_value(part)
            assert form.objective(point) == pytest.approx(number(compiled["a"].client.cost.value))
            if form.complete and not form.extra:
                worst = max(float(np.max(r.violation())) for r in compiled["a"].client.constraints)
                assert form.violation(point) == pytest.approx(worst, abs=1e-12)


FOUR = RNG.normal(size=(4, 3))


def test_a_parameter_moves_what_it_stands_in_and_no_matrix() -> None:
    """A Parameter in a constraint moves its right-hand side alone, one in a loss its slopes."""
    x, start, aim = cp.Variable(3), cp.Parameter(value=1.0), cp.Parameter(3, value=np.ones(3))
    cost = cp.sum_squares(FOUR @ x - 1) + cp.sum_squares(x - aim) + cp.norm1(x)
    model = dm.Model()
    model.client("a", cost, [x[0] == start, x <= 5])
    model.client("b", cp.sum_squares(x))
    compiled = model.compile()
    first = compiled["a"].form
    assert first is not None
    start.value = 2.0
    second = compiled["a"].form
    assert second is not None
    assert second.quadratic.matrix is first.quadratic.matrix
    np.testing.assert_array_equal(second.quadratic.linear, first.quadratic.linear)
    assert second.terms[0].matrix is first.terms[0].matrix
    assert second.inequalities.matrix is first.inequalities.matrix
    np.testing.assert_allclose(second.equalities.rhs - first.equalities.rhs, [1.0])
    aim.value = np.zeros(3)
    third = compiled["a"].form
    assert third is not None
    np.testing.assert_array_equal(third.equalities.rhs, second.equalities.rhs)
    assert third.quadratic.matrix is first.quadratic.matrix
    # |x - 1|^2 to |x|^2
    np.testing.assert_allclose(third.quadratic.linear - first.quadratic.linear, 2.0)
    point = RNG.normal(size=3)
    assert third.objective(point) == pytest.approx(
        np.sum((FOUR @ point - 1) ** 2) + np.sum(point**2) + np.abs(point).sum()
    )
