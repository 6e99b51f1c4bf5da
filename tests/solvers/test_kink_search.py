"""The zero of a slope along a step against scipy's root finder."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq

from dald_model.solvers.exact.kink_search import Rows, zeros


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, Rows]:
    """Steps of five clients: hinges, absolute values, equalities and rows that stay, any stiff."""
    rng = np.random.default_rng(seed)
    shape = 5, 12
    change = rng.normal(size=shape) * (rng.random(shape) < 0.8)
    low = np.broadcast_to(np.repeat([0.0, -1.0, -np.inf], 4), shape)
    high = np.broadcast_to(np.repeat([np.inf, 1.0, np.inf], 4), shape)
    stiff = 10.0 ** rng.uniform(-1, 6, shape) * change
    return (
        -np.exp(rng.normal(size=5)),
        rng.random(5),
        Rows(np.clip(rng.normal(size=shape), low - 1, high + 1), stiff, change, low, high),
    )


def slope_at(first: float, bend: float, rows: Rows, t: float) -> float:
    """The formula of the module, of one client."""
    start, held = (np.clip(rows.pulled + at * rows.stiff, rows.low, rows.high) for at in (0.0, t))
    return float(first + t * bend + (held - start) @ rows.change)


@pytest.mark.parametrize("seed", range(20))
def test_the_slope_is_zero_there_or_negative_all_the_way(seed: int) -> None:
    first, bend, rows = drawn(seed)
    for k, length in enumerate(zeros(first, bend, rows)):
        slope = partial(slope_at, first[k], bend[k], Rows(*(one[k] for one in rows)))
        if slope(1.0) < 0:
            assert length == 1.0
        else:
            assert length == pytest.approx(brentq(slope, 0.0, 1.0, xtol=1e-15), rel=1e-9, abs=1e-14)


def test_a_step_that_no_row_touches_ends_where_the_quadratic_does() -> None:
    nothing = np.zeros((2, 0))
    found = zeros(np.array([-1.0, -1.0]), np.array([4.0, 0.5]), Rows(*5 * [nothing]))
    np.testing.assert_allclose(found, [0.25, 1.0])
