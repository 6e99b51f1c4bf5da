"""Cone programs that are written here, whose infimum is attained or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.attainment import descent, nonzero_slacks


def program(
    linear: list[float], rows: list[list[float]], rhs: list[float], *cones: Any
) -> ConeProgram:
    """Without a quadratic."""
    nothing = sp.csc_array((len(linear), len(linear)))
    return ConeProgram(nothing, np.array(linear), 0.0, sp.csc_array(rows), np.array(rhs), cones)


BALL = ("SecondOrderConeT", 3)


def test_a_hyperbola_is_not_attained_and_a_ray_is() -> None:
    """sqrt(x^2 + 1) - x falls to zero for ever; |(x, 0)| - x is zero along a ray."""
    for level, is_attained in ((1.0, False), (0.0, True)):
        cone = program([-1.0, 1.0], [[0.0, -1.0], [-1.0, 0.0], [0.0, 0.0]], [0.0, 0.0, level], BALL)
        found = descent(cone)
        assert (found is None) == is_attained
        if found is not None:
            first, second = found.directions
            np.testing.assert_allclose(first / first[0], [1, 1], atol=1e-6)
            assert second[1] < second[0]


def test_an_exponential_cone() -> None:
    """exp(-x) <= t, and the same above a bound that stops x, or that t rests on."""
    rows, rhs = [[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]], [0.0, 1.0, 0.0]
    cone = ("ExponentialConeT", None)
    assert descent(program([0.0, 1.0], rows, rhs, cone)) is not None
    for bound in ([1.0, 0.0], [0.0, -1.0]):
        level = 5.0 if bound[0] else -1e-3
        held = program([0.0, 1.0], [*rows, bound], [*rhs, level], cone, ("NonnegativeConeT", 1))
        assert descent(held) is None


def test_a_power_cone() -> None:
    """x^0.3 t^0.7 >= 1, and the same with a numerator that may be zero."""
    rows, cone = [[-1.0, 0.0], [0.0, -1.0], [0.0, 0.0]], ("PowerConeT", 0.3)
    assert descent(program([0.0, 1.0], rows, [0.0, 0.0, 1.0], cone)) is not None
    open_ = [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]
    assert descent(program([0.0, 1.0, 0.0], open_, [0.0, 0.0, 0.0], cone)) is None


def test_a_numerator_that_equalities_fix() -> None:
    """y^2 / x <= t with z = 2 and y = z / 4."""
    ties, tied = [[0.0, 0, 0, 1], [0.0, 0, 4, -1]], [2.0, 0.0]
    ratio = [[-1.0, -1, 0, 0], [-1.0, 1, 0, 0], [0.0, 0, -2, 0]]
    zero = ("ZeroConeT", 2)
    cone = program([0.0, 1.0, 0.0, 0.0], [*ties, *ratio], [*tied, 0.0, 0.0, 0.0], zero, BALL)
    assert descent(cone) is not None
    free = program([0.0, 1.0, 0.0, 0.0], ratio, [0.0, 0.0, 0.0], BALL)
    assert descent(free) is None


def test_a_slack_that_another_cone_keeps_from_zero() -> None:
    """1 <= w x, so w is positive in w^2 <= t x; a cone of w alone is not."""
    first = [[-1.0, 0, -1], [-1.0, 0, 1], [0.0, 0, 0]]
    second = [[-1.0, -1, 0], [-1.0, 1, 0], [0.0, 0, -2]]
    cone = program([0.0, 1.0, 0.0], [*first, *second], [0.0, 0, 2, 0, 0, 0], BALL, BALL)
    balls, equal = [slice(0, 3), slice(3, 6)], np.zeros(6, dtype=bool)
    rows = sp.csr_array(cone.rows)
    assert nonzero_slacks(cone, rows, equal, balls).tolist() == [False] * 2 + [True] + [
        False
    ] * 2 + [True]
    alone = cone._replace(rhs=np.zeros(6))
    assert not nonzero_slacks(alone, rows, equal, balls).any()
    assert descent(cone) is not None
    assert descent(alone) is None
