"""Solver layers that a second run takes over from the first, against layers that are made anew."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.engines.dispatch import SolverLayer, rested
from dald_model.solvers import Turn
from dald_model.solvers.exact.active_set import made_up

SIZE = 3
SOLVERS = {"lasso": "semismooth"}
"""What solves the kinds that have another name."""


def kinds():
    """Name -> a client's objective and rules, of data and two Parameters, and who solves it."""
    rng = np.random.default_rng(5)
    A, b = rng.normal(size=(12, SIZE)), rng.normal(size=12)

    def square(x, level, weight):
        return cp.sum_squares(A @ x - b - level) + weight * cp.sum_squares(x), []

    def bounds(x, level, weight):
        return cp.sum_squares(A @ x - b) + weight * cp.sum(x), [x >= level]

    def lasso(x, level, weight):
        return cp.sum_squares(A @ x - b - level) + weight * cp.norm1(x), []

    def logistic(x, level, weight):
        return cp.sum(cp.logistic(A @ x + level)) + weight * cp.sum_squares(x), []

    def absolute(x, level, weight):
        return cp.norm1(A @ x - b - level) + weight * cp.sum_squares(x), []

    def ball(x, level, weight):
        return weight * cp.sum_squares(A @ x - b), [cp.norm(x - level, 3) <= 1]

    return {
        "factor": square,
        "active_set": bounds,
        "lasso": lasso,
        "newton": logistic,
        "semismooth": absolute,
        "conic": ball,
    }


def model_of(build):
    level, weight = cp.Parameter(name="level"), cp.Parameter(nonneg=True, name="weight")
    model, x = dm.Model("one"), [cp.Variable(SIZE, name=f"x{i}") for i in range(3)]
    for i, v in enumerate(x):
        model.client(i, *build(v, level, weight))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, level, weight


def answers(compiled, layer, seed):
    """Points and objectives of all clients for some random turn."""
    rng = np.random.default_rng(seed)
    found = []
    for batch in layer.batches(tuple(compiled)):
        size = batch.signs.size
        mu, told = rng.normal(size=size), rng.normal(size=size)
        points = np.zeros(sum(sub.size for sub in batch.subproblems))
        ones = np.ones(points.size)
        rho = np.full(size, 0.7)
        turn = Turn(batch.which, mu, rho, told, points, ones, ones)
        answer = layer.first_answer(batch, turn, 1e-10)
        assert set(answer.statuses) == {"optimal"}
        found += [answer.points, answer.objectives]
    return np.concatenate(found)


@pytest.mark.parametrize("name", kinds())
@pytest.mark.parametrize("is_centred", [False, True])
def test_a_layer_begun_again_answers_as_one_that_is_made_anew(name, is_centred):
    model, level, weight = model_of(kinds()[name])
    level.value, weight.value = 0.1, 1.0
    compiled = model.compile()
    centre = np.full(3 * SIZE, 0.2) if is_centred else None
    layer = SolverLayer(compiled, None, centre)
    assert {layer.solver(one).name for one in compiled} == {SOLVERS.get(name, name)}
    for step, (one, two) in enumerate([(0.1, 1.0), (0.3, 1.0), (0.3, 2.5), (-0.2, 0.4)]):
        for seed in range(3):  # leaves warm starts
            answers(compiled, layer, seed)
        level.value, weight.value = one, two
        compiled.instantiate()
        assert layer.again(None, centre)
        fresh = SolverLayer(compiled, None, centre)
        for seed in (step, 10 + step):
            now, anew = (answers(compiled, each, seed) for each in (layer, fresh))
            assert np.allclose(now, anew, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["factor", "active_set", "lasso", "newton"])
def test_what_another_value_of_a_parameter_leaves_keeps_its_session(name):
    model, level, weight = model_of(kinds()[name])
    level.value, weight.value = 0.1, 1.0
    compiled = model.compile()
    layer = SolverLayer(compiled, None)
    before = {id(batch.session) for batch in layer.batches(tuple(compiled))}
    weight.value = 1.5
    compiled.instantiate()
    assert layer.again(None, None)
    assert {id(batch.session) for batch in layer.batches(tuple(compiled))} == before


def test_a_path_makes_no_model_of_a_quadratic_program_anew(monkeypatch):
    made = []
    monkeypatch.setattr(
        "dald_model.solvers.exact.active_set.made_up",
        lambda *given: made.append(1) or made_up(*given),
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


def test_another_option_or_side_takes_another_layer():
    model, level, weight = model_of(kinds()["factor"])
    level.value, weight.value = 0.1, 1.0
    compiled = model.compile()
    layer = SolverLayer(compiled, None)
    assert not layer.again("conic", None)
    compiled.resting = layer
    assert rested(compiled, "conic") is not layer
    compiled.resting = layer
    assert rested(compiled, None) is layer
    assert compiled.resting is None  # a run inside of that run has its own

    shift = cp.Parameter(value=0.0)
    moved, x, y = dm.Model("moved"), cp.Variable(name="x"), cp.Variable(name="y")
    moved.client("a", cp.square(x))
    moved.client("b", cp.square(y - 1))
    moved.consensus(x == y + shift)
    result = moved.solve()
    shift.value = -1.0
    again = moved.solve(start=result)
    assert again.status == "optimal"
    assert again.value == pytest.approx(0.0, abs=1e-6)  # x = 0, y = 1; it was a half


def test_a_solve_within_a_solve_has_sessions_of_its_own():
    model, level, weight = model_of(kinds()["lasso"])
    level.value, weight.value = 0.1, 1.0
    model.solve()
    inner = []
    outer = model.solve(callback=lambda at: inner.append(model.solve().value) and None)
    alone = model.solve()
    assert outer.status == alone.status == "optimal"
    assert outer.value == pytest.approx(alone.value, rel=1e-9)
    assert inner == pytest.approx([alone.value] * len(inner), rel=1e-9)
