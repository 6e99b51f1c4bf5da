r"""Algorithms 2 and 3 against rounds worked out by hand.

Every figure below is a fraction found with pencil and paper from the equations of the paper, with
the start at zero and the penalty :math:`\|\rho \circ \mathcal C\|^2` without one half; the algebra
stands beside it. The clients are quadratics, which the solver layer minimises exactly.
"""

from collections.abc import Callable
from fractions import Fraction as Frac
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS

DIGITS = 1e-7

RUN: dict[str, Any] = {"stopping": dm.FixedBudget(1), "eps_pri": 0.0, "eps_dual": 0.0}
"""One sweep for each multiplier update, and every round asked for is run."""


def _run(**changes: Any) -> dict[str, Any]:
    return RUN | changes


TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
"""Clarabel's own tolerances are 1e-8 of the objective, hence 1e-4 of the variables."""


def _is(value: Any, *hand: Frac) -> bool:
    found = np.ravel(value)
    assert found.shape == (len(hand),)
    return bool(np.abs(found - np.array([float(h) for h in hand])).max() < DIGITS)


# --- Algorithm 2: a server ------------------------------------------------------------------------
#
# f1 = (x - 3)^2, f2 = 2 (x + 1)^2, rho = 1. With h for the server and C_i = h - x_i:
#     (13)  2 (x1 - 3) - mu1 - 2 (h - x1) = 0   gives   x1 = (6 + mu1 + 2 h) / 4
#           4 (x2 + 1) - mu2 - 2 (h - x2) = 0   gives   x2 = (-4 + mu2 + 2 h) / 6
#     (31)  h = (x1 + x2) / 2 - (mu1 + mu2) / 4
#     (15)  mu_i becomes mu_i + 2 (h - x_i)


def _centralised(size: tuple[int, ...] = ()) -> tuple[dm.Model, cp.Variable]:
    w = cp.Variable(size, name="w")
    model = dm.Model("two clients and a server")
    model.client("one", cp.sum_squares(w - 3))
    model.client("two", 2 * cp.sum_squares(w + 1))
    return model, w


def test_the_first_round_with_a_server() -> None:
    model, w = _centralised()
    result = model.solve(rho=1.0, max_rounds=1, **RUN)
    # x1 = 6/4, x2 = -4/6, h = (3/2 - 2/3) / 2 = 5/12, C1 = 5/12 - 18/12, C2 = 5/12 + 8/12.
    assert _is(result["one"][w], Frac(3, 2))
    assert _is(result["two"][w], Frac(-2, 3))
    assert _is(result[w], Frac(5, 12))
    assert _is(result.multipliers["server", "one"], Frac(-13, 6))
    assert _is(result.multipliers["server", "two"], Frac(13, 6))
    # D = h - 0, and the objective is 9/4 + 2/9.
    row = result.history.loc[1]
    assert _is([row.primal, row.dual, row.objective], Frac(13, 12), Frac(5, 12), Frac(89, 36))
    assert (row.outer, row.inner, row.rho, row.solved) == (1, 1, 1.0, 3)
    assert (result.status, result.rounds) == ("round_limit", 1)


def test_the_second_round_with_a_server() -> None:
    model, w = _centralised()
    result = model.solve(rho=1.0, max_rounds=2, **RUN)
    # x1 = (6 - 13/6 + 5/6) / 4 = 7/6, x2 = (-4 + 13/6 + 5/6) / 6 = -1/6, h = 1/2, C = -+2/3.
    assert _is(result["one"][w], Frac(7, 6))
    assert _is(result["two"][w], Frac(-1, 6))
    assert _is(result[w], Frac(1, 2))
    assert _is(result.multipliers["server", "one"], Frac(-13, 6) - Frac(4, 3))
    assert _is(result.multipliers["server", "two"], Frac(13, 6) + Frac(4, 3))
    # D = 1/2 - 5/12, and the objective is 121/36 + 2 * 25/36.
    row = result.history.loc[2]
    assert _is([row.primal, row.dual, row.objective], Frac(2, 3), Frac(1, 12), Frac(19, 4))
    assert (row.outer, row.inner) == (2, 1)


def test_a_second_inner_loop_with_a_server() -> None:
    model, _ = _centralised()
    history = model.solve(rho=1.0, max_rounds=3, **_run(stopping=dm.FixedBudget(2))).history
    # mu stays 0: x1 = (6 + 5/6) / 4 = 41/24, x2 = (-4 + 5/6) / 6 = -19/36, h = 85/144.
    # D = 85/144 - 60/144, C1 = (85 - 246) / 144, C2 = (85 + 76) / 144.
    assert _is(history.primal[2], Frac(161, 144))
    assert _is(history.dual[2], Frac(25, 144))
    assert history.outer.tolist() == [1, 1, 2]
    assert history.inner.tolist() == [1, 2, 1]


def test_an_explicit_server_is_the_same_algorithm() -> None:
    x, z = [cp.Variable(name=f"x{i}") for i in (1, 2)], cp.Variable(name="z")
    model = dm.Model()
    model.client("one", cp.square(x[0] - 3))
    model.client("two", 2 * cp.square(x[1] + 1))
    model.consensus(*[z == xi for xi in x])
    result = model.solve(rho=1.0, max_rounds=2, **RUN)
    assert _is([x[0].value, x[1].value, z.value], Frac(7, 6), Frac(-1, 6), Frac(1, 2))
    assert _is(model.agreements[0].constraint.dual_value, Frac(-7, 2))
    assert _is(result.multipliers["server", "two"], Frac(7, 2))


# With rho1 = 1/2: x1 = (6 + mu1 + h/2) / (5/2), and (31) weighs x1 by 1/4:
#     x1 = 12/5, x2 = -2/3, h = (1/4 * 12/5 - 2/3) / (5/4) = (3/5 - 2/3) * 4/5 = -4/75,
#     mu1 = 2/4 * (-4/75 - 180/75) = -92/75, mu2 = 2 * (-4/75 + 50/75) = 92/75.


def test_penalties_of_their_own_weigh_the_clients() -> None:
    model, w = _centralised()
    result = model.solve(rho={"one": 0.5, "two": 1.0}, max_rounds=1, **RUN)
    assert _is(result["one"][w], Frac(12, 5))
    assert _is(result["two"][w], Frac(-2, 3))
    assert _is(result[w], Frac(-4, 75))
    assert _is(result.multipliers["server", "one"], Frac(-92, 75))
    assert _is(result.multipliers["server", "two"], Frac(92, 75))


def test_penalties_entry_by_entry() -> None:
    """The first entry is the example with rho = 1, the second that with rho1 = 1/2."""
    model, w = _centralised((2,))
    result = model.solve(rho=np.array([1.0, 0.5, 1.0, 1.0]), max_rounds=1, **RUN)
    assert _is(result["one"][w], Frac(3, 2), Frac(12, 5))
    assert _is(result["two"][w], Frac(-2, 3), Frac(-2, 3))
    assert _is(result[w], Frac(5, 12), Frac(-4, 75))
    assert _is(result.multipliers["server", "one"], Frac(-13, 6), Frac(-92, 75))


# --- Algorithm 3: a chain -------------------------------------------------------------------------
#
# f1 = (x - 3)^2, f2 = 2 (x + 1)^2, f3 = (x - 1)^2, C12 = x1 - x2, C23 = x2 - x3, rho = 1. (21):
#     2 (x1 - 3) + mu12 + 2 (x1 - x2) = 0                          x1 = (6 - mu12 + 2 x2) / 4
#     4 (x2 + 1) - mu12 - 2 (x1 - x2) + mu23 + 2 (x2 - x3) = 0     x2 = (-4 + mu12 - mu23
#                                                                        + 2 x1 + 2 x3) / 8
#     2 (x3 - 1) - mu23 - 2 (x2 - x3) = 0                          x3 = (2 + mu23 + 2 x2) / 4


def _chain() -> tuple[dm.Model, list[cp.Variable]]:
    x = [cp.Variable(name=f"x{i}") for i in (1, 2, 3)]
    model = dm.Model("a chain of three")
    costs = (cp.square(x[0] - 3), 2 * cp.square(x[1] + 1), cp.square(x[2] - 1))
    for i, cost in enumerate(costs, start=1):
        model.client(i, cost)
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x


ONE_BY_ONE = [
    pytest.param(dm.Sequence.natural(), id="natural"),
    pytest.param(dm.Sequence.levels([[1], [2], [3]]), id="levels"),
    # Definition 3: a[i, j] = 1 where i is solved before its neighbour j, a[i, i] the out-degree
    pytest.param(dm.Sequence.from_matrix([[1, 1, 0], [0, 1, 1], [0, 0, 0]]), id="matrix"),
]


@pytest.mark.parametrize("sequence", ONE_BY_ONE)
def test_the_first_round_of_a_chain(sequence: dm.Sequence) -> None:
    model, x = _chain()
    result = model.solve(rho=1.0, max_rounds=1, sequence=sequence, **RUN)
    # x1 = 6/4, x2 = (-4 + 3) / 8, x3 = (2 - 1/4) / 4, C12 = 13/8, C23 = -2/16 - 7/16.
    assert _is([xi.value for xi in x], Frac(3, 2), Frac(-1, 8), Frac(7, 16))
    assert _is(result.multipliers[1, 2], Frac(13, 4))
    assert _is(result.multipliers[2, 3], Frac(-9, 8))
    # D is what x2 and x3 moved from zero (A2-8); the objective is 9/4 + 2 * 49/64 + 81/256.
    row = result.history.loc[1]
    assert _is([row.primal, row.dual], Frac(13, 8), Frac(7, 16))
    assert _is(row.objective, Frac(576 + 392 + 81, 256))


@pytest.mark.parametrize("sequence", ONE_BY_ONE)
def test_the_second_round_of_a_chain(sequence: dm.Sequence) -> None:
    model, x = _chain()
    result = model.solve(rho=1.0, max_rounds=2, sequence=sequence, **RUN)
    # x1 = (6 - 13/4 - 1/4) / 4, x2 = (-4 + 13/4 + 9/8 + 5/4 + 7/8) / 8, x3 = (2 - 9/8 + 5/8) / 4;
    # C12 = 5/16, C23 = -1/16.
    assert _is([xi.value for xi in x], Frac(5, 8), Frac(5, 16), Frac(3, 8))
    assert _is(result.multipliers[1, 2], Frac(13, 4) + Frac(5, 8))
    assert _is(result.multipliers[2, 3], Frac(-9, 8) - Frac(1, 8))
    assert _is([a.constraint.dual_value for a in model.agreements], Frac(31, 8), Frac(-5, 4))
    # x2 moved from -1/8 to 5/16, x3 from 7/16 to 6/16.
    assert _is([result.history.primal[2], result.history.dual[2]], Frac(5, 16), Frac(7, 16))


def test_the_order_is_one_colour_after_the_other_where_none_is_given() -> None:
    model, x = _chain()
    result = model.solve(rho=1.0, max_rounds=1, **RUN)
    # x1 = 6/4 and x3 = 2/4 side by side, then x2 = (-4 + 3 + 1) / 8.
    assert _is([xi.value for xi in x], Frac(3, 2), Frac(0), Frac(1, 2))
    assert _is(result.multipliers[1, 2], Frac(3))
    assert _is(result.multipliers[2, 3], Frac(-1))


def test_a_dual_step_scales_the_update() -> None:
    model, x = _chain()
    options = _run(sequence=dm.Sequence.natural(), algorithm=dm.DALD(dual_step=0.5))
    model.solve(rho=1.0, max_rounds=2, **options)
    # mu12 = 13/8, mu23 = -9/16: x1 = (6 - 13/8 - 1/4) / 4 = 33/32,
    # x2 = (-4 + 13/8 + 9/16 + 33/16 + 7/8) / 8 = 9/64, x3 = (2 - 9/16 + 9/32) / 4 = 55/128.
    assert _is([xi.value for xi in x], Frac(33, 32), Frac(9, 64), Frac(55, 128))


# --- looking inside -------------------------------------------------------------------------------


def test_setting_the_parameters_by_hand_gives_the_iterate() -> None:
    model, x = _chain()
    compiled = model.compile(rho=1.0)
    compiled[1].problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert _is(x[0].value, Frac(3, 2))
    compiled[2].neighbours[1].value = np.array([3 / 2])
    compiled[2].problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert _is(x[1].value, Frac(-1, 8))
    compiled[3].neighbours[2].value = np.array([-1 / 8])
    compiled[3].problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert _is(x[2].value, Frac(7, 16))

    sub = compiled[1]  # its second turn
    sub.mu[2].value = np.array([13 / 4])
    sub.neighbours[2].value = np.array([-1 / 8])
    sub.problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert _is(x[0].value, Frac(5, 8))
    # Equation (20): (5/8 - 3)^2 + 13/4 * 3/4 + (3/4)^2 = 361/64 + 3.
    assert _is(sub.problem.value, Frac(361, 64) + 3)


# --- what the paper proves of the iterates --------------------------------------------------------


def test_multipliers_sum_to_zero_at_a_server() -> None:
    """(A1-4), after every inner loop that ends with the server."""
    known = PROBLEMS["ridge"]()
    model = known.on(GRAPHS["star"]()).model
    for rounds in (1, 2, 3):
        rho = {"n": 0.7, "e": 1.3, "s": 2.0, "w": 0.4}
        mu = model.solve(rho=rho, max_rounds=rounds, **RUN).multipliers
        assert np.sum(list(mu.values()), axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
        assert max(np.abs(m).max() for m in mu.values()) > 0.1


# --- when an inner loop ends ----------------------------------------------------------------------
#
# f1 = (x1 - 1)^2, f2 = x2^2, C = x1 - x2, rho = 1, client 1 first:
#     x1 = (2 + 2 x2 - mu) / 4,   x2 = (2 x1 + mu) / 4,
# so that a sweep takes a quarter of the last one's step: x2 moves by 1/4, 1/16, ... while mu = 0.
# Alone, and held at zero by 1e-4 of its curvature, client 1 answers 1 / (1 + 1e-4) and client 2
# zero: a quarter of that is the natural length, and twice as much the natural slope; so
# 4 (1 + 1e-4) |D| is held against the tolerance.

HELD = 4 * (1 + 1e-4)


def loops_by_hand(ends: Callable[[int, int, float], bool], rounds: int) -> list[int]:
    """The sweeps of each outer loop of the two clients above, as their closed forms give them."""
    x1 = x2 = mu = 0.0
    sweep = 0
    loops: list[int] = []
    while sum(loops) < rounds:
        for sweep in range(1, rounds - sum(loops) + 1):
            x1 = (2 + 2 * x2 - mu) / 4
            before, x2 = x2, (2 * x1 + mu) / 4
            if ends(len(loops) + 1, sweep, HELD * abs(x2 - before)):
                break
        loops.append(sweep)
        mu += 2 * (x1 - x2)
    return loops


@pytest.mark.parametrize(
    ("stopping", "ends"),
    [
        pytest.param(dm.FixedTolerance(), lambda k, v, d: d <= 1e-3, id="B1"),
        pytest.param(
            dm.ShrinkingTolerance(start=0.1, factor=0.5),
            lambda k, v, d: d <= max(1e-3, 0.1 * 0.5 ** (k - 1)),
            id="B2",
        ),
        pytest.param(
            dm.GrowingBudget(start=1, growth=2.0),
            lambda k, v, d: d <= 1e-3 or v >= 2 ** (k - 1),
            id="B3",
        ),
        pytest.param(dm.FixedBudget(2), lambda k, v, d: d <= 1e-3 or v >= 2, id="B4"),
        pytest.param(dm.FixedBudget(1), lambda k, v, d: True, id="B4, ADMM"),
    ],
)
def test_the_number_of_inner_loops(stopping: Any, ends: Callable[[int, int, float], bool]) -> None:
    x = [cp.Variable(name=f"x{i}") for i in (1, 2)]
    model = dm.Model()
    model.client(1, cp.square(x[0] - 1))
    model.client(2, cp.square(x[1]))
    model.consensus(x[0] == x[1])
    history = model.solve(
        rho=1.0, stopping=stopping, eps_pri=0.0, eps_dual=1e-3, max_rounds=20
    ).history
    loops = loops_by_hand(ends, 20)
    assert history.groupby("outer").inner.max().tolist() == loops
    moved = [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 1024, 1 / 4096][: loops[0]]
    assert history.dual[: loops[0]].tolist() == pytest.approx(moved, abs=DIGITS)
    assert history.dual_scaled[: loops[0]].tolist() == pytest.approx(
        [HELD * d for d in moved], abs=DIGITS
    )


def test_the_run_ends_when_both_residuals_allow() -> None:
    """An exact inner loop takes C from 1 to 1/3, 1/9, ...: 1/729 is the first below 1/400."""
    x = [cp.Variable(name=f"x{i}") for i in (1, 2)]
    model = dm.Model()
    model.client(1, cp.square(x[0] - 1))
    model.client(2, cp.square(x[1]))
    model.consensus(x[0] == x[1])
    result = model.solve(
        acceleration=None, rho=1.0, stopping=dm.FixedTolerance(), eps_pri=1e-2, eps_dual=1e-3
    )
    assert result.status == "optimal"
    loops = loops_by_hand(lambda k, v, d: d <= 1e-3, result.rounds)
    assert result.history.groupby("outer").inner.max().tolist() == loops
    ends = result.history.groupby("outer").primal.last()
    assert ends.tolist() == pytest.approx([3.0**-k for k in range(1, 7)], abs=2e-3)
    assert ends.iloc[-2] > 1e-2 / HELD > ends.iloc[-1]


# --- compiled once --------------------------------------------------------------------------------


def test_a_new_declaration_is_compiled_anew() -> None:
    model, x = _chain()
    first = model.compile()
    fourth = cp.Variable(name="x4")
    model.client(4, cp.square(fourth))
    model.consensus(x[2] == fourth)
    assert model.compile() is not first
    assert list(model.compile()) == [1, 2, 3, 4]
