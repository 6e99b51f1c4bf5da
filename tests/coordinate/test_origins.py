"""An origin a million spreads away, in any unit, changes neither answer nor verdict.

The kinds are those whose solvers see rows of numbers that nearly cancel there; smooth ones are in
``test_units.py``.
"""

from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

_GENERATOR = np.random.default_rng(5)
OWNERS, ENTRIES, AWAY = 4, 3, 1e6
A = [_GENERATOR.normal(size=(records, ENTRIES)) for records in (9, 14, 23, 40)]
B = [a @ np.array([0.9, 1.4, 0.9]) + 0.3 * _GENERATOR.normal(size=len(a)) for a in A]
C = _GENERATOR.normal(size=(OWNERS, ENTRIES))

Share = Callable[[int, Any], tuple[Any, list[Any]]]


def absolute(i: int, x: Any) -> tuple[Any, list[Any]]:
    return cp.norm1(A[i] @ x - B[i]), [cp.norm(x) <= 1.5] if i == 0 else []


def linear(i: int, x: Any) -> tuple[Any, list[Any]]:
    """Owners that are unbounded alone, but for the first."""
    return C[i] @ x, [x >= 0, cp.sum(x) == 1] if i == 0 else []


def largest(i: int, x: Any) -> tuple[Any, list[Any]]:
    return cp.max(cp.abs(A[i] @ x - B[i])), [cp.sum(x) == 0.5] if i == 3 else []


def balls(i: int, x: Any) -> tuple[Any, list[Any]]:
    return cp.sum_squares(x - 3 * C[i]), [cp.norm(x - C[i]) <= 2]


def norms(i: int, x: Any) -> tuple[Any, list[Any]]:
    return cp.norm(A[i] @ x - B[i]) + cp.norm(x - C[i]), []


SHARES: tuple[Share, ...] = (absolute, linear, largest, balls, norms)


def scales(unit: float, way: str) -> list[np.ndarray]:
    """Of each owner's entries: all in one unit, every other owner's, or the first entry."""
    if way == "entry":
        return [np.r_[unit, np.ones(ENTRIES - 1)]] * OWNERS
    return [np.full(ENTRIES, 1.0 if way == "owner" and i % 2 else unit) for i in range(OWNERS)]


def declared(share: Share, scale: list[np.ndarray], away: float) -> dm.Model:
    model = dm.Model("away")
    x = [cp.Variable(ENTRIES, name=f"x{i}") for i in range(OWNERS)]
    for i, (v, s) in enumerate(zip(x, scale, strict=True)):
        model.client(i, *share(i, cp.multiply(1 / s, v - away * s)))
    is_even = all(np.array_equal(s, scale[0]) for s in scale)
    sides = x if is_even else [cp.multiply(1 / s, v) for v, s in zip(x, scale, strict=True)]
    model.consensus(*[a == b for a, b in pairwise(sides)])
    return model


@pytest.fixture(scope="module")
def at_origin() -> dict[str, tuple[float, float]]:
    """Of each kind the optimum, by the all-in-one solve, and what agreeing costs."""
    found = {}
    for share in SHARES:
        x = cp.Variable(ENTRIES)
        costs, rules = zip(*[share(i, x) for i in range(OWNERS)], strict=True)
        whole = cp.Problem(cp.Minimize(sum(costs)), [*chain(*rules)])
        plain = declared(share, [np.ones(ENTRIES)] * OWNERS, 0.0)
        least: Any = whole.solve(solver=cp.CLARABEL)
        found[share.__name__] = least, plain.solve().certificate().cost
    return found


@pytest.mark.parametrize(
    ("unit", "way"),
    [(1.0, "all"), *[(unit, way) for unit in (1e-6, 1e6) for way in ("all", "owner", "entry")]],
)
@pytest.mark.parametrize("share", SHARES, ids=lambda share: share.__name__)
def test_rows_that_nearly_cancel_keep_their_answer(
    at_origin: Any, share: Share, unit: float, way: str
) -> None:
    least, cost = at_origin[share.__name__]
    result = declared(share, scales(unit, way), AWAY).solve()
    assert result.status == "optimal", str(result)
    assert abs(result.value - least) <= 1e-4 * cost
    check = result.verify()
    assert check.ok, str(check)


@pytest.mark.parametrize("away", [-5e4, -500.0, 500.0, 5e4])
def test_an_owner_that_is_content_at_the_origin_is_where_others_are(away: float) -> None:
    """One wants x as large as one: at -500 it is content with zero, and says nothing of lengths."""

    def solved(away: float) -> dm.Result:
        x = cp.Variable(ENTRIES, name="x")
        model = dm.Model()
        model.client("near", cp.sum_squares(x - away - np.array([0.0, 0.2, -0.3])))
        model.client("capped", cp.Maximize(cp.sum(cp.minimum(x - away, 1))), [x - away >= -2])
        return model.solve()

    near, far = solved(0.0), solved(away)
    assert far.status == "optimal", str(far)
    assert np.abs(far["x"] - away - near["x"]).max() <= 1e-6
    assert far.rounds <= 2 * near.rounds
