"""DualProximal against closed forms, optimality conditions, Clarabel and the reference."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.form import Form, Term
from dald_model.compile.kinds import named
from dald_model.solvers.exact.dual_proximal import DualProximal
from tests.solvers.quadratics import form, hessians, run, simplex, values

KINDS = ["norm", "ball", "square ball"]


def term(kind: str, matrix: Any, size: float, offset: Any = None, width: int = 0) -> Term:
    """Of one size for all groups: the weight of norms, the radius of balls."""
    matrix = np.array(matrix, dtype=float)
    count = len(matrix) // (width or len(matrix))
    sizes, ones = np.full(count, float(size)), np.ones(count)
    weight, parameter = (sizes, 0 * ones) if kind == "norm" else (ones, sizes)
    offset = np.zeros(len(matrix)) if offset is None else np.array(offset, dtype=float)
    return Term(named(kind), weight, matrix, offset, parameter, width or len(matrix))


@pytest.mark.parametrize("weight", [0.1, 1.0, 5.0])
def test_the_norm_of_a_difference_is_its_closed_form(weight: float) -> None:
    """Hallac, Leskovec and Boyd (2015): both ends move towards each other, by half at most."""
    rng, h = np.random.default_rng(0), 2.0
    edge = np.hstack([np.eye(3), -np.eye(3)])
    a, b = rng.normal(size=(2, 4, 3))
    forms = [form(6, terms=[term("norm", edge, weight)]) for _ in range(4)]
    H, c = np.tile(h * np.eye(6), (4, 1, 1)), -h * np.hstack([a, b])
    _, step = run(DualProximal, forms, H, c)
    length = np.linalg.norm(a - b, axis=1, keepdims=True)
    stays = np.maximum(1 - weight / (h * length), 0.5)
    expected = np.hstack([stays * a + (1 - stays) * b, (1 - stays) * a + stays * b])
    np.testing.assert_allclose(step.points, expected, rtol=0, atol=1e-12)


def off_optimal(given: Form, H: np.ndarray, c: np.ndarray, step: Any, i: int) -> float:
    """How far 0 is from the subdifferential, the rows of all A being independent.

    Then the forces on them are known, and so is where each of them has to point.
    """
    x = step.points[i]
    matrix = np.vstack([one.matrix for one in given.terms])
    found = np.linalg.lstsq(matrix.T, -(H @ x + c), rcond=None)[0]
    off, at, balls = [np.abs(H @ x + c + matrix.T @ found).max()], 0, list(step.balls[i])
    for one in given.terms:
        u = (one.matrix @ x + one.offset).reshape(-1, one.width)
        s = found[at : at + u.size].reshape(u.shape)
        at += u.size
        for own, force, weight, radius in zip(u, s, one.weight, one.parameter, strict=True):
            length = np.linalg.norm(own)
            if one.is_set:
                multiplier = balls.pop(0)
                off += [length - radius, multiplier * (radius - length)]
                off += list(np.abs(force - multiplier * own / max(length, 1e-300)))
            elif length > 1e-7:
                off += list(np.abs(force - weight * own / length))
            else:
                off.append(np.linalg.norm(force) - weight)
    return max(off)


@pytest.mark.parametrize("kind", KINDS)
def test_points_are_optimal_from_round_to_round(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))

    def made() -> Form:
        first = term(kind, rng.normal(size=(4, 9)), 0.7, rng.normal(size=4), width=2)
        return form(9, terms=[first, term("norm", rng.normal(size=(3, 9)), 1.5)])

    forms = [made() for _ in range(3)]
    H, c = hessians(rng, 3, 9) / 9 + np.eye(9), 3 * rng.normal(size=(3, 9))
    method, step = run(DualProximal, forms, H, c)
    for change in (0.0, 1e-3, 1.0):
        moved = c + change * rng.normal(size=c.shape)
        step = method.solve(np.arange(3), moved, 1e-10)
        assert not step.failed.any()
        for i in range(3):
            assert off_optimal(forms[i], H[i], moved[i], step, i) <= 1e-8


@pytest.mark.parametrize("allowed", [1e-2, 1e-5, 1e-8])
def test_the_error_is_at_most_what_was_allowed(allowed: float) -> None:
    rng = np.random.default_rng(3)
    forms = [form(8, terms=[term("norm", rng.normal(size=(6, 8)), 2.0, width=3)]) for _ in range(5)]
    H, c = hessians(rng, 5, 8, decades=1) / 8 + np.eye(8), 5 * rng.normal(size=(5, 8))
    _, exact = run(DualProximal, forms, H, c)
    method = DualProximal(forms)
    method.factor(np.arange(5), H)
    found = method.solve(np.arange(5), c, allowed)
    assert np.abs(found.points - exact.points).max() <= allowed


def test_dependent_rows_and_singular_hessians_fail_and_leave_the_others() -> None:
    rng = np.random.default_rng(4)
    row = rng.normal(size=(1, 4))
    twice = term("norm", np.vstack([row, row]), 1.0)
    good = term("norm", rng.normal(size=(2, 4)), 1.0)
    method = DualProximal([form(4, terms=[one]) for one in (good, twice, good)])
    H = hessians(rng, 3, 4)
    H[2] = 0.0
    assert method.factor(np.arange(3), H).tolist() == [False, True, True]
    step = method.solve(np.arange(3), np.ones((3, 4)), 1e-8)
    assert step.failed.tolist() == [False, True, True]
    assert np.isnan(step.points[1:]).all()


def test_what_it_cannot_take_is_said() -> None:
    def reason(*terms: Term, rows: Any = None) -> str:
        return DualProximal.refuses(form(3, None, rows, terms))

    assert reason(term("norm", np.eye(3)[:2], 1.0)) == reason(values(np.eye(3), np.ones(3))) == ""
    twice = term("norm", np.ones((2, 3)), 1.0)
    assert reason(twice) == "the rows of its norm terms are dependent"
    assert reason() == "it has no norms, balls or absolute values"
    assert reason(values(np.eye(3), np.ones(3)), rows=simplex(3)) == "it has 4 rows of inequalities"
    both = values(np.eye(3), np.ones(3)), term("norm", np.eye(3), 1.0)
    assert "have 6 entries of 3 variables" in reason(*both)


@pytest.mark.parametrize("is_edge", [True, False])
def test_a_network_lasso_takes_the_steps_of_the_reference(is_edge: bool) -> None:
    """Its edges as clients, and with halves of them at the nodes, four norms to a client."""
    rng, graph = np.random.default_rng(5), nx.random_regular_graph(4, 6, seed=0)
    wish = rng.normal(size=(6, 2))
    x = {i: cp.Variable(2, name=f"x{i}") for i in graph}
    model = dm.Model("network lasso")
    for i in graph:
        halves = sum(cp.norm(x[i] - x[j]) for j in graph[i]) if not is_edge else 0
        model.client(i, cp.sum_squares(x[i] - wish[i]) + 0.25 * halves)
    for i, j in graph.edges if is_edge else ():
        model.client((i, j), 0.5 * cp.norm(x[i] - x[j]))
    assert "dual_proximal" in {row.solver for row in model.compile().explain()}
    runs = [
        model.solve(solver=s, accuracy=1e-9, eps_pri=0, eps_dual=0, max_rounds=5)
        for s in ("auto", "reference")
    ]
    ours, theirs = (np.concatenate(list(r.compiled.gather(r.recovered).values())) for r in runs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert model.solve().verify().ok
