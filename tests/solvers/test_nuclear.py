"""Nuclear norms: closed forms, and conditions that numpy works out by hand."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED
from tests.solvers.known import make_sub

FACTORS = np.array([[2.0, -2.0, 2.0], [-2.0, 2.0, 2.0], [2.0, 2.0, -2.0], [-2.0, 2.0, -2.0]])
OFFSET = np.arange(12.0).reshape(4, 3) - 5


def asked(sub: dm.Subproblem, rho: np.ndarray, told: np.ndarray, price: np.ndarray) -> Any:
    """The client's answer to a turn, to ten digits."""
    turn = dm.solvers.Turn(np.zeros(1, int), price, rho, told)
    return NAMED["nuclear"].open([sub]).minimise(turn, 1e-10)


@pytest.mark.parametrize("shape", [(4, 3), (2, 6), (5, 1), (1, 1)])
def test_an_even_penalty_shrinks_singular_values(shape: tuple[int, int]) -> None:
    rng, X = np.random.default_rng(1), cp.Variable(shape)
    sub = make_sub(0.7 * cp.normNuc(X), [cp.vec(X, order="F")])
    told, price = rng.normal(size=(2, X.size))
    found = asked(sub, np.full(X.size, 0.5), told, price)
    given = (told - price / (2 * 0.25)).reshape(shape, order="F")
    left, sizes, right = np.linalg.svd(given, full_matrices=False)
    kept = np.maximum(sizes - 0.7 / (2 * 0.25), 0.0)
    point = (left * kept) @ right
    np.testing.assert_allclose(found.points, point.ravel(order="F"), atol=1e-12)
    assert found.objectives[0] == pytest.approx(0.7 * kept.sum(), abs=1e-12)


COSTS = {
    "norm": lambda X: 1.5 * cp.normNuc(X),
    "signs and an offset": lambda X: 1.5 * cp.normNuc(cp.multiply(FACTORS, X) + OFFSET),
    "transposed": lambda X: 3 * cp.normNuc(1.5 * X.T) + 2,
}
PARTS = {
    "norm": (1.5, lambda x: x.reshape(4, 3, order="F"), lambda Y: Y),
    "signs and an offset": (
        1.5,
        lambda x: FACTORS * x.reshape(4, 3, order="F") + OFFSET,
        lambda Y: FACTORS * Y,
    ),
    "transposed": (3.0, lambda x: 1.5 * x.reshape(4, 3, order="F").T, lambda Y: 1.5 * Y.T),
}


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_answers_and_multipliers_meet_the_conditions(name: str, spread: float) -> None:
    """The slope Y of the norm has no singular value above the weight, and the norm for product."""
    rng, X = np.random.default_rng(2), cp.Variable((4, 3))
    weight, cells, back = PARTS[name]
    sub = make_sub(COSTS[name](X), [cp.vec(X, order="F")])
    assert not NAMED["nuclear"].refuses(sub)
    assert sub.form is not None
    for _ in range(3):
        rho = np.sqrt(spread ** rng.uniform(-1, 1, 12))
        told, price = rng.normal(size=(2, 12))
        found = asked(sub, rho, told, price)
        assert found.statuses == ["optimal"]
        x, held = found.points, found.multipliers.values
        given = cells(x)
        values = np.linalg.svd(given, compute_uv=False)
        extra = 2.0 if name == "transposed" else 0.0
        assert found.objectives[0] == pytest.approx(weight * values.sum() + extra, rel=1e-12)
        pull = (price + 2 * rho**2 * (x - told)).reshape(4, 3, order="F")
        slopes = np.linalg.lstsq(
            np.array([back(one.reshape(given.shape)).ravel() for one in np.eye(12)]).T,
            -pull.ravel(),
        )[0].reshape(given.shape)
        assert np.linalg.norm(slopes, 2) <= weight + 1e-8
        assert np.sum(slopes * given) == pytest.approx(weight * values.sum(), rel=1e-8)
        # The cone program's own conditions, with its point completed by hand
        cone = sub.form.cone
        left, sizes, right = np.linalg.svd(given, full_matrices=False)
        whole = np.block([[(left * sizes) @ left.T, given], [given.T, (right.T * sizes) @ right]])
        after, before = np.tril_indices(len(whole))
        slack = whole[before, after] * np.where(before == after, 1.0, np.sqrt(2))
        dual = np.zeros(whole.shape)
        dual[before, after] = dual[after, before] = held / np.where(
            before == after, 1.0, np.sqrt(2)
        )
        assert np.linalg.eigvalsh(dual).min() >= -1e-9
        gradient = cone.linear + cone.rows.T @ held
        gradient[:12] += price + 2 * rho**2 * (x - told)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-8)
        assert abs(slack @ held) <= 1e-7


def test_what_is_no_such_client_is_refused() -> None:
    X, Y = cp.Variable((3, 2)), cp.Variable((3, 3), symmetric=True)
    for cost, rules in (
        (cp.normNuc(X) + cp.normNuc(2 * X), []),
        (cp.normNuc(X[:, [0, 0]]), []),
        (cp.normNuc(np.diag([1.0, 2.0, 1.0]) @ X), []),
        (cp.normNuc(X), [cp.sum(X) <= 1]),
        (cp.sigma_max(X), []),
        (cp.lambda_max(Y), []),
        (cp.normNuc(Y), []),
    ):
        assert NAMED["nuclear"].refuses(
            make_sub(cost, [cp.vec(cost.variables()[0], order="F")], rules)
        )
    assert NAMED["nuclear"].refuses(make_sub(cp.sum_squares(X))) == "it has no nuclear norm"


def test_penalties_too_far_apart_are_left_to_cones() -> None:
    X = cp.Variable((3, 2))
    sub = make_sub(cp.normNuc(X), [cp.vec(X, order="F")])
    rho = np.array([1e-5, 1.0, 1e5, 1e-2, 1.0, 1e3])
    found = asked(sub, rho, np.ones(6), np.zeros(6))
    assert found.statuses == ["solver_error"]
    assert "proximal steps" in found.messages[0]
    assert np.isnan(found.points).all()


def test_a_shared_matrix_of_low_rank() -> None:
    """One owner has the norm, and a ridge beside it; verified by plain cvxpy."""
    rng, M, model = np.random.default_rng(8), cp.Variable((5, 4)), dm.Model("shared matrix")
    truth = rng.normal(size=(5, 1)) @ rng.normal(size=(1, 4))
    for i in range(4):
        A = rng.normal(size=(12, 5))
        model.client(i, cp.sum_squares(A @ M - A @ truth - rng.normal(size=(12, 4)) / 3))
    model.client("rank", 2 * cp.normNuc(M) + 0.3 * cp.sum_squares(M) + cp.sum(M) / 5)
    result = model.solve()
    assert result.status == "optimal"
    assert not result.fallbacks
    assert result.verify().ok


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_entries_that_nobody_else_sees_are_completed(spread: float) -> None:
    """Y holds the forces on the seen entries, is zero at the others, and meets the conditions."""
    rng, X = np.random.default_rng(4), cp.Variable((6, 5))
    seen = np.flatnonzero(rng.random(X.size) < 0.6)
    sub = make_sub(1.5 * cp.normNuc(X), [cp.vec(X, order="F")[seen]])
    for _ in range(3):
        rho = np.sqrt(spread ** rng.uniform(-1, 1, seen.size))
        told, price = 3 * rng.normal(size=(2, seen.size))
        found = asked(sub, rho, told, price)
        assert found.statuses == ["optimal"]
        slopes = np.zeros(X.size)
        slopes[seen] = -(price + 2 * rho**2 * (found.points[seen] - told))
        given, slopes = (one.reshape(X.shape, order="F") for one in (found.points, slopes))
        values = np.linalg.svd(given, compute_uv=False)
        assert np.linalg.norm(slopes, 2) <= 1.5 + 1e-8
        assert np.sum(slopes * given) == pytest.approx(1.5 * values.sum(), rel=1e-8)
        assert found.objectives[0] == pytest.approx(1.5 * values.sum(), rel=1e-12)


def test_a_matrix_of_which_nobody_observed_some_entries() -> None:
    """The owner of the norm keeps its solver; verified by plain cvxpy, with cones."""
    rng, X, model = np.random.default_rng(6), cp.Variable((6, 5)), dm.Model("completion")
    truth = rng.normal(size=(6, 1)) @ rng.normal(size=(1, 5))
    observed = rng.random((3, 6, 5)) < 0.25
    for i, cells in enumerate(observed):
        model.client(i, cp.sum_squares(cp.multiply(cells.astype(float), X - truth)))
    model.client("rank", cp.normNuc(X) / 4)
    assert not observed.any(axis=0).all()
    result = model.solve()
    assert result.status == "optimal"
    assert not result.fallbacks
    assert result.verify().ok
