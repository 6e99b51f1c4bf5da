"""Certificates of infeasibility and unboundedness, worked out by hand, scaled and corrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.cone_certificates import infeasibility, is_infeasible, is_unbounded
from dald_model.solvers.exact.native import solved_once

SCALES = [1e-6, 1.0, 1e6]


def program(rows: Any, rhs: Any, cones: Any, linear: Any = None, matrix: Any = None) -> ConeProgram:
    """The cone program of dense data."""
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    size = rows.shape[1]
    square = np.zeros((size, size)) if matrix is None else np.asarray(matrix, dtype=float)
    slopes = np.zeros(size) if linear is None else np.asarray(linear, dtype=float)
    return ConeProgram(
        sp.csc_array(square), slopes, 0.0, sp.csc_array(rows), np.asarray(rhs, float), cones
    )


# x <= -1 and x >= 1: the rows added up say 0 <= -2
APART = program([[1], [-1]], [-1, -1], (("NonnegativeConeT", 2),))
# x = 1 and x = 2
TWICE = program([[1], [1]], [1, 2], (("ZeroConeT", 2),))
# |x| <= x_0 with x_0 = -1: (1, 0) is in the dual cone and on the ball's first row
BALL = program([[1, 0], [-1, 0], [0, -1]], [-1, 0, 0], (("ZeroConeT", 1), ("SecondOrderConeT", 2)))
INFEASIBLE = {
    "bounds": (APART, [1, 1]),
    "equalities": (TWICE, [1, -1]),
    "a second-order cone": (BALL, [1, 1, 0]),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", INFEASIBLE)
def test_a_farkas_certificate_proves_infeasibility_in_any_length(name: str, scale: float) -> None:
    cone, multipliers = INFEASIBLE[name]
    assert np.allclose(cone.rows.T @ np.array(multipliers), 0)
    assert is_infeasible(cone, scale * np.array(multipliers))


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("unit", SCALES)
def test_what_is_contradictory_in_linear_rows_is_proved_without_a_solver(
    unit: float, offset: float
) -> None:
    """Of x + y = 6 and x + y <= 0, beside y <= z and a ball around zero that says nothing."""
    rows = np.array([[1, 1, 0], [1, 1, 0], [0, 1, -1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]) / unit
    rhs = np.array([6 + 2 * offset, 2 * offset, 0, 9, offset, offset])
    kinds = (("ZeroConeT", 1), ("NonnegativeConeT", 2), ("SecondOrderConeT", 3))
    found = infeasibility(program(rows, rhs, kinds))
    assert found is not None
    assert np.allclose(found / found[1], [-1, 1, 0, 0, 0, 0])


def test_what_no_linear_row_contradicts_is_not_proved() -> None:
    assert infeasibility(BALL) is None


@pytest.mark.parametrize("seed", range(12))
def test_rows_with_a_common_point_are_never_contradictory(seed: int) -> None:
    """Half of them are met with equality, in rows and columns of sizes from 1e-6 to 1e6."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(9, 5)) * 10.0 ** rng.uniform(-6, 6, size=(9, 1))
    point = rng.normal(size=5) + 1e3 * rng.integers(0, 2)
    slacks = np.abs(rows).sum(axis=1) * np.where(np.arange(9) < 6, 0.0, rng.exponential(size=9))
    kinds = (("ZeroConeT", 3), ("NonnegativeConeT", 6))
    units = 10.0 ** rng.uniform(-6, 6, size=5)
    assert infeasibility(program(rows / units, rows @ point + slacks, kinds)) is None


@pytest.mark.parametrize("entry", [0, 1])
@pytest.mark.parametrize("name", INFEASIBLE)
def test_a_corrupted_farkas_certificate_proves_nothing(name: str, entry: int) -> None:
    cone, multipliers = INFEASIBLE[name]
    wrong = np.array(multipliers, dtype=float)
    wrong[entry] *= 1.01
    assert not is_infeasible(cone, wrong)
    wrong[entry] = np.nan
    assert not is_infeasible(cone, wrong)
    assert not is_infeasible(cone, -np.array(multipliers))
    assert not is_infeasible(cone, np.zeros(len(multipliers)))


def test_no_multipliers_prove_a_feasible_program_infeasible() -> None:
    feasible = program([[1], [-1]], [1, 1], (("NonnegativeConeT", 2),))
    assert not is_infeasible(feasible, [1, 1])
    # Nor one that is feasible only far away
    far = program([[1e-5], [-1]], [-1, 1e9], (("NonnegativeConeT", 2),))
    assert not is_infeasible(far, [1, 1e-5])
    # u = v = 1e7 and u + v <= t: t follows, and no multiple of another row takes it away
    epigraph = [[-1, 0, 0], [0, -1, 0], [1, 1, -1]]
    bound = program(epigraph, [-1e7, -1e7, 0], (("ZeroConeT", 2), ("NonnegativeConeT", 1)))
    assert not is_infeasible(bound, [1, 1, 1])


@pytest.mark.parametrize("unit", [1e-15, 1e-9, 1.0, 1e6])
def test_lengths_that_are_noise_prove_nothing(unit: float) -> None:
    # 0.05 <= u v <= 1 has solutions, which are far away where u is a wrong length
    seen = program([[-unit], [unit]], [-0.05, 1], (("NonnegativeConeT", 2),))
    assert not is_infeasible(seen, [1, 0.02])
    # u v <= -0.05 beside u v >= 0.05 has none in any length
    assert is_infeasible(program([[-unit], [unit]], [-0.05, -0.05], seen.cones), [1, 1])


# -x over x >= 0; x_0 - x_1 over |x| <= x_0, whose edge (1, 1) is no direction of descent
LINE = program([[-1]], [0], (("NonnegativeConeT", 1),), linear=[-1])
# -2 x_1 + x_0 over |x_1| <= x_0 falls along (1, 1)
WEDGE = program([[-1, 0], [0, -1]], [0, 0], (("SecondOrderConeT", 2),), linear=[1, -2])
# x_0^2 / 2 - x_1 falls along (0, 1) only
BOWL = program([[0, -1]], [0], (("NonnegativeConeT", 1),), linear=[0, -1], matrix=[[1, 0], [0, 0]])
UNBOUNDED = {
    "a half-line": (LINE, [1], [1]),
    "a second-order cone": (WEDGE, [1, 1], [1, 1]),
    "a direction without curvature": (BOWL, [0, 1], [1]),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_direction_of_recession_proves_unboundedness_in_any_length(
    name: str, scale: float
) -> None:
    cone, direction, slacks = UNBOUNDED[name]
    assert is_unbounded(cone, scale * np.array(direction), scale * np.array(slacks))


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_corrupted_direction_proves_nothing(name: str) -> None:
    cone, direction, slacks = UNBOUNDED[name]
    assert not is_unbounded(cone, -np.array(direction), -np.array(slacks))  # it rises there
    assert not is_unbounded(cone, np.zeros(len(direction)), np.zeros(len(slacks)))
    assert not is_unbounded(cone, np.array(direction) * np.nan, slacks)
    assert not is_unbounded(cone, direction, 1.001 * np.array(slacks))  # not the slacks of it


def test_curvature_along_the_direction_refuses_it() -> None:
    curved = BOWL._replace(matrix=sp.csc_array(np.diag([1.0, 1e-3])))
    assert not is_unbounded(curved, [0, 1], [1])


def test_a_price_above_all_slopes_asks_for_as_far_a_reach() -> None:
    """x^2/2 - 3e6 x + y with y >= 100 x is least at 3e6 - 100, and falls a long way to there."""
    cone = program(
        [[100, -1]], [0], (("NonnegativeConeT", 1),), linear=[-3e6, 1], matrix=np.diag([1.0, 0.0])
    )
    assert not is_unbounded(cone, [1e-2, 1.0], [0.0])
    straight = cone._replace(matrix=0 * cone.matrix)
    assert is_unbounded(straight, [1e-2, 1.0], [0.0])


def test_a_steep_objective_makes_no_proof_of_a_directions_own_error() -> None:
    """Over |x| <= 1 nothing is unbounded, and 1e10 x falls by 1e3 along what misses by 1e-7."""
    cone = program([[1], [-1]], [1, 1], (("NonnegativeConeT", 2),), linear=[-1e10])
    assert not is_unbounded(cone, [1e-7], [0, 0])
    far = program(
        [[1, 0], [-1, 0], [0, -1]], [1, 1, 0], (("NonnegativeConeT", 3),), linear=[-1e10, 1]
    )
    assert not is_unbounded(far, [1e-9, 1], [0, 0, 1])


@pytest.mark.parametrize("name", INFEASIBLE)
def test_what_clarabel_finds_passes(name: str) -> None:
    cone, _ = INFEASIBLE[name]
    found = solved_once(cone)
    assert str(found.status) == "PrimalInfeasible"
    assert is_infeasible(cone, found.z)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_clarabel_finds_of_an_unbounded_program_passes(name: str) -> None:
    cone, *_ = UNBOUNDED[name]
    found = solved_once(cone)
    assert str(found.status) == "DualInfeasible"
    assert is_unbounded(cone, found.x, found.s)
