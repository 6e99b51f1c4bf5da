"""Losses in constraints: answers and multipliers meet conditions that numpy works out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brentq

import dald_model as dm
from dald_model.solvers import NAMED
from dald_model.solvers.exact.level_form import level_form
from tests.expect import flat
from tests.solvers.known import Known, make_sub, make_turn, pulled

SIZE = 4
"""Variables; the first is the bound."""
Loss = tuple[Callable[[Any], Any], Callable[[np.ndarray], tuple[float, np.ndarray]]]


def squares(rng: np.random.Generator, rows: int) -> Loss:
    A, b = rng.normal(size=(rows, SIZE - 1)), rng.normal(size=rows)
    return (
        lambda w: cp.sum_squares(A @ w - b) / rows,
        lambda w: (float(np.sum((A @ w - b) ** 2)) / rows, 2 / rows * A.T @ (A @ w - b)),
    )


def logistic(rng: np.random.Generator, rows: int) -> Loss:
    A = rng.normal(size=(rows, SIZE - 1))
    return (
        lambda w: cp.sum(cp.logistic(A @ w)) / rows,
        lambda w: (
            float(np.logaddexp(0, A @ w).mean()),
            A.T @ (1 / (1 + np.exp(-A @ w))) / rows,
        ),
    )


def exponentials(rng: np.random.Generator, rows: int) -> Loss:
    A = rng.normal(size=(rows, SIZE - 1)) / 2
    return (
        lambda w: cp.sum(cp.exp(A @ w)) + cp.sum_squares(w) / 3,
        lambda w: (float(np.exp(A @ w).sum() + w @ w / 3), A.T @ np.exp(A @ w) + 2 * w / 3),
    )


LOSSES = {"squares": squares, "logistic": logistic, "exponentials": exponentials}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("price", [0.0, 1.0, 30.0])
def test_answers_and_multipliers_meet_the_conditions(name: str, price: float) -> None:
    """Owners of unequal numbers of rows, in any order, with weak and stiff penalties."""
    rng = np.random.default_rng(len(name))
    known, losses = [], []
    for rows in (12, 5, 30):
        stated, computed = LOSSES[name](rng, rows)
        x = cp.Variable(SIZE)
        sub = make_sub(price * x[0], [x, x[1:3]], [stated(x[1:]) <= x[0]])
        known.append(Known(sub, lambda x: price * x[0], lambda x: price * np.eye(SIZE)[0]))
        losses.append(computed)
        assert not NAMED["barrier"].refuses(sub)
    session = NAMED["barrier"].open([one.sub for one in known])
    for which in ([0, 1, 2], [2, 0], [1], [1, 2, 0], [0, 1, 2]):
        turn, parts = make_turn(known, np.array(which), rng)
        scale = 10.0 ** rng.uniform(-1, 1)
        turn = turn._replace(rho=scale * turn.rho)
        found = session.minimise(turn, 1e-9)
        assert set(found.statuses) == {"optimal"}
        for i, at in enumerate(which):
            x = found.points[i * SIZE : (i + 1) * SIZE]
            value, slope = losses[at](x[1:])
            held = known[at].sub.cone_duals(found.multipliers.of(i).values)
            multiplier = float(flat(held[0][0])[0])
            part = parts[i] | {"rho": scale * parts[i]["rho"]}
            left = known[at].gradient(x) + pulled(known[at], x, part)
            size = np.abs(left).max() + 1
            left += multiplier * np.concatenate([[-1.0], slope])
            np.testing.assert_allclose(left, 0, atol=1e-8 * size)
            assert value - x[0] <= 1e-9 * max(1, abs(value))
            assert multiplier >= 0
            assert multiplier * (x[0] - value) <= 1e-8 * size
            assert found.objectives[i] == pytest.approx(price * x[0], abs=1e-12)


def test_one_limit_in_closed_form() -> None:
    r"""Of t with :math:`(w - 3)^2 \le t`, pulled to zero: one equation of the multiplier."""
    x, rho = cp.Variable(2), 0.8
    sub = make_sub(x[0], [x], [cp.sum_squares(x[1:] - 3) <= x[0]])
    nothing, bend = np.zeros(2), 2 * rho**2

    def point(price: float) -> np.ndarray:
        return np.array([price - 1, 2 * price * 3 / (bend + 2 * price) * bend]) / bend

    price: Any = brentq(lambda p: (point(p)[1] - 3) ** 2 - point(p)[0], 1e-3, 50, xtol=1e-14)
    turn = dm.solvers.Turn(np.zeros(1, int), nothing, np.full(2, rho), nothing)
    found = NAMED["barrier"].open([sub]).minimise(turn, 1e-10)
    np.testing.assert_allclose(found.points, point(price), atol=1e-9)
    assert flat(sub.cone_duals(found.multipliers.values)[0][0]) == pytest.approx(price, abs=1e-8)


def test_the_worst_served_school_is_served_best_in_any_unit() -> None:
    """Against plain cvxpy where numbers are near one, and with as many rounds elsewhere."""
    values = []
    for unit in (1.0, 1e-4, 1e4):
        rng = np.random.default_rng(3)
        t, w, model = cp.Variable(), cp.Variable(3), dm.Model("schools")
        for i in range(6):
            A = rng.normal(size=(20, 3))
            b = A @ (rng.normal(size=3) / 3 + 1) + rng.normal(size=20)
            model.client(i, t / 6, [cp.sum_squares(A @ w - unit * b) / 20 <= t])
        result = model.solve()
        assert result.status == "optimal"
        assert not result.fallbacks
        assert result.certificate().ok
        assert unit != 1 or result.verify().ok
        values.append(result.value / unit**2)
        solvers = {one.solver for one in model.compile().explain() if one.what != "server"}
        assert solvers == {"barrier"}
    assert values[1:] == pytest.approx([values[0]] * 2, rel=1e-6)


def test_what_is_no_such_constraint_is_refused() -> None:
    x = cp.Variable(SIZE)
    kinks = make_sub(x[0], [x], [cp.norm1(x[1:]) + cp.sum_squares(x[1:]) <= x[0]])
    plain = make_sub(cp.sum_squares(x), [x], [x >= 0])
    definite = make_sub(cp.sum_squares(x), [x], [cp.lambda_max(cp.diag(x)) <= 1])
    assert all(NAMED["barrier"].refuses(sub) for sub in (kinks, plain, definite))


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_read_of_a_template_is_what_its_cone_program_says(name: str) -> None:
    """Also around another point."""
    rng, model, x = np.random.default_rng(3), dm.Model("alike"), cp.Variable(SIZE)
    for i in range(4):
        stated, _ = LOSSES[name](rng, 7)
        budget = rng.normal(size=SIZE - 1) @ x[1:] <= 2.0
        cost = x[0] / 3 + i * cp.sum_squares(x[1:] - i)
        model.client(i, cost, [stated(x[1:]) - 0.5 <= 2 * x[0] + x[1], budget])
    forms = [sub.form for sub in model.compile().values() if not sub.client.is_server]
    for form in forms:
        assert form is not None
        for one in (form, form.around(rng.normal(size=SIZE))):
            whole = one.with_others(program=lambda cone=one.cone: cone._replace(source=None))
            mine, its = level_form(one), level_form(whole)
            assert mine is not None
            assert its is not None
            assert mine.key == its.key
            np.testing.assert_array_equal(mine.places, its.places)
            for ours, theirs in (
                (mine.matrix, its.matrix),
                *zip(mine.equalities, its.equalities, strict=True),
                *zip(mine.inequalities, its.inequalities, strict=True),
            ):
                np.testing.assert_allclose(ours, theirs, atol=1e-12)
            points = rng.normal(size=(5, SIZE))
            for ours, theirs in zip(
                (mine.goal, *mine.limits), (its.goal, *its.limits), strict=True
            ):
                values = [
                    sum(term.values(points) for term in one.terms) + points @ one.slope + one.level
                    for one in (ours, theirs)
                ]
                np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12)
