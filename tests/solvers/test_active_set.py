"""The dual active-set method: bounds, rows that depend on each other or contradict, starts."""

import numpy as np
import pytest

from dald_model.solvers.exact import active_set
from dald_model.solvers.exact.active_set import ActiveSet
from tests.engines.test_rested import kinds, model_of
from tests.solvers.quadratics import (
    form,
    hessians,
    residual,
    run,
    simplex,
    units,
)

TIGHT = 1e-10
"""Relative optimality residual of what counts as working accuracy, as the methods promise."""


def test_bounds_permuted_repeated_and_of_either_side() -> None:
    # min (x - t)^2/2 within the tightest of the bounds: a clipped t, multipliers the distances
    A = np.array([[0, 2.0], [-4, 0], [1, 0], [0, 1], [3, 0], [0, -1], [-1, 0]])
    b = np.array(
        [8.0, 4, 5, 7, 6, 0, 9]
    )  # x2 <= 4, x1 >= -1, x1 <= 5, x2 <= 7, x1 <= 2, x2 >= 0, ...
    for order in (np.arange(7), np.array([6, 3, 4, 0, 5, 2, 1])):
        given = form(2, None, (A[order], b[order]))
        for target, point, forces in [
            ([9, 9], [2, 4], {4: 7 / 3, 0: 5 / 2}),
            ([-9, -9], [-1, 0], {1: 8 / 4, 5: 9}),
            ([1, 1], [1, 1], {}),
        ]:
            _, step = run(ActiveSet, [given], np.eye(2)[None], -np.array([target], dtype=float))
            np.testing.assert_allclose(step.points[0], point, rtol=1e-14)
            expected = np.zeros(7)
            expected[list(forces)] = list(forces.values())
            np.testing.assert_allclose(step.inequality[0], expected[order], rtol=1e-14)


def test_a_row_with_one_entry_for_some_clients_only() -> None:
    forms = [
        form(2, None, (np.array([[1.0, 0], [0, 1]]), [1.0, 1])),
        form(2, None, (np.array([[1.0, 0], [1, 1]]), [1.0, 1])),
        form(2, None, (np.array([[0.0, 1], [0, 0]]), [1.0, 0])),
    ]
    H, c = np.stack([np.eye(2)] * 3), np.full((3, 2), -3.0)
    _, step = run(ActiveSet, forms, H, c)
    np.testing.assert_allclose(step.points, [[1, 1], [0.5, 0.5], [3, 1]], rtol=1e-14)
    np.testing.assert_allclose(step.inequality, [[2, 2], [0, 2.5], [2, 0]], atol=1e-14)


def test_bounds_that_meet_fix_a_variable() -> None:
    A, b = np.array([[1.0, 0], [-2, 0], [0, 1]]), np.array([1.0, -2, 9])
    for target, forces in ([5.0, 3], [4, 0, 0]), ([-5, 3], [0, 3, 0]):
        _, step = run(ActiveSet, [form(2, None, (A, b))], np.eye(2)[None], -np.array([target]))
        np.testing.assert_allclose(step.points, [[1, 3]], rtol=1e-14)
        np.testing.assert_allclose(step.inequality, [forces], atol=1e-14)


def test_rows_without_a_common_point_fail_and_others_do_not() -> None:
    eye = np.eye(2)
    forms = [
        form(2, None, (np.vstack([eye, -eye, [[1.0, 1]]]), b))
        for b in ([1.0, 1, 0, 0, 1], [1.0, 1, -2, 0, 1], [1, 1, 0, 0, -1.0], [1, 1, 0, 0, 2.0])
    ]
    method, which = ActiveSet(forms), np.arange(4)
    assert not method.factor(which, np.stack([eye] * 4)).any()
    for _ in range(2):
        step = method.solve(which, np.full((4, 2), -3.0))
        assert step.failed.tolist() == [False, True, True, False]
        np.testing.assert_allclose(step.points[[0, 3]], [[0.5, 0.5], [1, 1]], rtol=1e-14)


def test_active_set_with_dependent_and_impossible_equalities() -> None:
    rng = np.random.default_rng(40)
    E, e, (A, b) = rng.normal(size=(2, 5)), np.array([0.1, 0.2]), simplex(5)
    double = np.vstack([E, E[0] + E[1]])
    forms = [form(5, (double, np.r_[e, extra]), (A[:5], b[:5] + 1)) for extra in (0.3, 0.4)]
    H, c = hessians(rng, 2, 5), rng.normal(size=(2, 5))
    method, which = ActiveSet(forms), np.arange(2)
    assert not method.factor(which, H).any()
    step = method.solve(which, c)
    assert step.failed.tolist() == [False, True]
    assert residual(forms[0], H[0], c[0], step) <= TIGHT


def test_more_rows_meet_in_a_point_than_it_has_coordinates() -> None:
    # All 2^4 sign patterns and the bounds meet in (1, 0, 0, 0): degenerate in the extreme
    signs = np.array(np.meshgrid(*[[-1.0, 1]] * 4)).reshape(4, -1).T
    given = form(4, None, (np.vstack([signs, np.eye(4), -np.eye(4)]), np.ones(24)))
    rng = np.random.default_rng(41)
    H = hessians(rng, 1, 4)
    method = ActiveSet([given])
    method.factor(np.array([0]), H)
    for _ in range(50):
        c = -1e3 * (np.eye(4)[:1] + 0.1 * rng.normal(size=(1, 4))) * [1, 0.1, 0.1, 0.1]
        step = method.solve(np.array([0]), c)
        assert not step.failed.any()
        assert residual(given, H[0], c[0], step) <= TIGHT


@pytest.mark.parametrize("size", [5, 40])
@pytest.mark.parametrize(("decades", "magnitude"), [(9, 1e-8), (9, 1.0), (5, 1e6), (0, 1e12)])
def test_active_set_whatever_the_units(size: int, decades: float, magnitude: float) -> None:
    rng = np.random.default_rng(42)
    H = hessians(rng, 6, size, decades)
    A, b = simplex(size)
    forms = [form(size, (rng.normal(size=(1, size)), [0.0]), (A, b)) for _ in range(6)]
    method = ActiveSet(forms)
    assert not method.factor(np.arange(6), H).any()
    for _ in range(5):
        c = magnitude * rng.normal(size=(6, size)) / units(H)
        step = method.solve(np.arange(6), c)
        assert not step.failed.any()
        assert max(residual(forms[i], H[i], c[i], step, i) for i in range(6)) <= TIGHT


def test_a_region_far_from_the_minimum_without_rows() -> None:
    # Both within 1 of 1e6, their sum 2e6 and the second one dearer, for slopes of size 1
    A, b = np.vstack([np.eye(2), -np.eye(2)]), np.r_[1e6 + 1, 1e6 + 1, 1 - 1e6, 1 - 1e6]
    given, H, c = form(2, ([[1.0, 1]], [2e6]), (A, b)), np.diag([1.0, 3.0]), np.ones((1, 2))
    _, step = run(ActiveSet, [given], H[None], c)
    np.testing.assert_allclose(step.points, [[1e6 + 1, 1e6 - 1]], rtol=1e-15)
    assert residual(given, H, c[0], step) <= TIGHT


def test_warm_starts_from_far_and_near() -> None:
    rng = np.random.default_rng(43)
    H, (A, b) = hessians(rng, 3, 20), simplex(20)
    forms = [form(20, None, (A, b))] * 3
    method, which = ActiveSet(forms), np.arange(3)
    method.factor(which, H)
    for magnitude in (1.0, 1e6, 1e-6, 0.0, 1e3, 1.0):
        for jump in (1.0, 1e-3, 1e-6):
            c = magnitude * (1 + jump * rng.normal(size=(3, 20)))
            step = method.solve(which, c)
            assert not step.failed.any()
            fresh = run(ActiveSet, forms, H, c)[1]
            scale = max(np.abs(c).max() / 40, 1e-300)
            assert np.abs(step.points - fresh.points).max() <= 1e-10 * scale


def test_a_path_makes_no_model_of_a_quadratic_program_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        active_set,
        "made_up",
        lambda *given, once=active_set.made_up: made.append(1) or once(*given),
    )
    model, level, weight = model_of(kinds()["active_set"])
    level.value, weight.value = 0.0, 1.0
    result = model.solve()
    count = len(made)
    assert count >= 3
    for value in (0.9, 0.8, 0.7):
        weight.value = value
        result = model.solve(start=result)
        assert result.status == "optimal"
    assert len(made) == count
