"""Kinks of single variables by their active set, against optimality conditions and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from dald_model.solvers.exact.separable import ActiveKinks, Separable

TIGHT = 1e-10
"""Relative error of what counts as working accuracy."""
SIZE = 40
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The variable of each row, where it has its kink, its entry, and l and h."""


def rows(*parts: tuple[float, float, float, float]) -> Rows:
    """Rows of all variables, each (entry, level, l, h)."""
    entry, level, low, high = (np.repeat(one, SIZE) for one in zip(*parts, strict=True))
    return np.tile(np.arange(SIZE), len(parts)), level, entry, low, high


BOX = (1.0, 0.4, 0.0, np.inf), (-1.0, -0.3, 0.0, np.inf)
CASES = {
    "l1": rows((1.0, 0.0, -0.7, 0.7)),
    "box": rows(*BOX),
    "l1 and box": rows((2.0, 0.0, -0.3, 0.3), *BOX),
    "nonnegative lasso": rows((1.0, 0.0, -0.5, 0.5), (-3.0, 0.0, 0.0, np.inf)),
    "quantiles": rows((1.0, 0.1, -0.2, 0.8), (-1.0, 0.1, -0.1, 0.6), (1.0, -0.2, -0.3, 0.3)),
    "held": rows((1.0, 0.25, -np.inf, np.inf), (1.0, 0.0, -0.1, 0.1)),
}


def quadratic(seed: int, decades: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0]
    return (turn * np.logspace(0, decades, SIZE)) @ turn.T, rng.normal(size=SIZE) * 10**decades


def value(given: Rows, x: np.ndarray) -> float:
    own, level, entry, low, high = given
    u = entry * (x[own] - level)
    with np.errstate(invalid="ignore"):
        return float(np.nansum(np.where(u == 0, 0.0, np.maximum(low * u, high * u))))


@pytest.mark.parametrize("decades", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("kind", CASES)
def test_points_and_multipliers_meet_the_optimality_conditions(kind: str, decades: float) -> None:
    own, level, entry, low, high = CASES[kind]
    method, found = ActiveKinks(*CASES[kind], SIZE), 0
    for seed in range(6):
        H, c = quadratic(seed, decades)
        method.forget()
        for change in (0.0, 1e-3, 1.0):
            moved = c * (1 + change)
            answer = method.minimise(H, moved, np.zeros(SIZE), np.zeros(SIZE))
            if answer is None:
                continue
            found += 1
            x, s = answer
            assert ((s >= low - TIGHT) & (s <= high + TIGHT)).all()
            u = entry * (x[own] - level)
            assert (np.abs(s - low)[u < 0] <= TIGHT).all()
            assert (np.abs(s - high)[u > 0] <= TIGHT).all()
            pull = H @ x + moved + np.bincount(own, entry * s, SIZE)
            assert np.abs(pull).max() <= TIGHT * np.abs(moved).max()
    assert found >= 15, "it hardly ever fails"


def test_the_lasso_in_a_box_is_that_of_scipy() -> None:
    """With x = p - q, both nonnegative, it is smooth in a box."""
    H, c = quadratic(0, 1.0)
    answer = ActiveKinks(*CASES["l1 and box"], SIZE).minimise(H, c, np.zeros(SIZE), np.zeros(SIZE))
    assert answer is not None

    def objective(pair: np.ndarray) -> tuple[float, np.ndarray]:
        x = pair[:SIZE] - pair[SIZE:]
        slope = H @ x + c
        return x @ (slope + c) / 2 + 0.6 * pair.sum(), np.concatenate([slope, -slope]) + 0.6

    bounds = [(0, 0.4)] * SIZE + [(0, 0.3)] * SIZE
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 50000}
    theirs = scipy.optimize.minimize(
        objective, np.zeros(2 * SIZE), jac=True, bounds=bounds, options=options
    )
    x = answer[0]
    mine = x @ (H @ x) / 2 + c @ x + value(CASES["l1 and box"], x)
    assert mine <= theirs.fun + 1e-12 * abs(theirs.fun)
    assert mine == pytest.approx(theirs.fun, rel=1e-8)


def test_places_are_those_of_a_proximal_step() -> None:
    """Of |x| in the box [-1, 2] with D = 2: shrunk by a half, then clipped."""
    functions = Separable.of(
        5,
        np.repeat(np.arange(5), 3),
        np.tile([0.0, 2.0, -1.0], 5),
        np.tile([[-1.0, 0.0, -np.inf], [1.0, np.inf, 0.0]], 5),
    )
    points = np.array([-9.0, -1.2, 0.3, 1.4, 9.0])
    before, is_at = functions.places(points, np.full(5, 2.0))
    each = np.arange(5)
    slope = functions.slopes[each, before]
    placed = np.where(is_at, functions.kinks[each, np.minimum(before, 2)], points - slope / 2)
    np.testing.assert_allclose(placed, [-1.0, -0.7, 0.0, 0.9, 2.0])


def test_what_has_no_curvature_is_left_to_others() -> None:
    H = np.zeros((SIZE, SIZE))
    H[range(SIZE - 1), range(SIZE - 1)] = 1.0
    H[-2:, -2:] = 1.0  # singular where both are free
    c = np.zeros(SIZE)
    found = ActiveKinks(*rows((1.0, 0.0, -1e-3, 1e-3)), SIZE).minimise(
        H, c - 5, np.zeros(SIZE), np.zeros(SIZE)
    )
    assert found is None
