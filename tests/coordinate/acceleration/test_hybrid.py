"""The default acceleration: which clients it learns, at once or later, and what that saves."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit

import dald_model as dm
from dald_model.models import trend_filtering

LARGE = 40
"""Shared entries of a client: more than the secant takes by default."""


def rows(count: int, seed: int):
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=LARGE) / np.sqrt(LARGE)
    for _ in range(count):
        A = rng.normal(size=(2 * LARGE, LARGE))
        yield A, A @ truth + 0.5 * rng.normal(size=2 * LARGE)


def test_large_smooth_clients_on_a_path_take_fewer_rounds_than_anderson_alone():
    model, x = dm.Model("logistic"), cp.Variable(LARGE)
    parts = list(rows(8, 3))
    for name, (A, b) in enumerate(parts):
        model.client(name, cp.sum(cp.logistic(-cp.multiply(np.sign(b), A @ x))))
    model.topology(nx.path_graph(8))
    result = model.solve()
    alone = model.solve(acceleration=dm.Anderson())
    assert result.status == alone.status == "optimal"
    assert result.rounds < alone.rounds
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    signs = np.sign(b)
    point = np.zeros(LARGE)
    for _ in range(50):  # Newton's method on the pooled rows
        p = 1 / (1 + np.exp(signs * (A @ point)))
        point += np.linalg.solve((A.T * (p * (1 - p))) @ A, A.T @ (signs * p))
    assert x.value == pytest.approx(point, abs=1e-4)


def test_large_kinked_clients_are_solved_where_anderson_alone_has_no_answer():
    model, x = dm.Model("absolute"), cp.Variable(LARGE)
    parts = [(A[:24], b[:24]) for A, b in rows(8, 1)]
    for name, (A, b) in enumerate(parts):
        model.client(name, cp.norm1(A @ x - b))
    result = model.solve(max_rounds=200)
    alone = model.solve(max_rounds=200, acceleration=dm.Anderson())
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    costs = np.concatenate([np.zeros(LARGE), np.ones(b.size)])
    above = np.block([[A, -np.eye(b.size)], [-A, -np.eye(b.size)]])
    bounds = [*LARGE * [(None, None)], *b.size * [(0, None)]]
    best = linprog(costs, above, np.concatenate([b, -b]), bounds=bounds).fun
    assert result.status == "optimal"
    assert alone.status == "round_limit"
    assert result.value == pytest.approx(best, rel=1e-6)


def test_clocks_on_a_long_ring_agree_of_sixty():
    """Offsets by absolute outliers (Giridhar and Kumar 2006), against one problem of them all."""
    count, rng = 60, np.random.default_rng(3)
    true = rng.normal(0, 500, count)
    clocks, model, parts = [cp.Variable() for _ in range(count)], dm.Model("clocks"), []
    for one in range(count):
        other = (one + 1) % count
        seen = true[one] - true[other] + rng.normal(0, 2, 8)
        seen += (rng.random(8) < 0.15) * rng.normal(0, 300, 8)
        parts.append(cp.sum(cp.huber(clocks[one] - clocks[other] - seen, 5)))
    parts[0] += 1e3 * cp.square(clocks[0])
    for one, part in enumerate(parts):
        model.client(one, part)
    result = model.solve(max_rounds=300)
    assert result.status == "optimal"
    best = cp.Problem(cp.Minimize(cp.sum(parts))).solve(solver="CLARABEL")
    assert result.value == pytest.approx(best, rel=1e-6)


def test_wide_logistic_clients_on_a_grid_are_learned() -> None:
    """Fewer rounds than Anderson acceleration took alone, 153, and within the 60 that are wanted.

    Of 60 columns and 20 to 200 rows each, so that there are clients that separate theirs. At the
    optimum the gradients of all cancel, to the tolerance beside their sizes.
    """
    rng, x, model = np.random.default_rng(5), cp.Variable(60), dm.Model("grid")
    truth = rng.normal(size=60) * (rng.random(60) < 0.3)
    rows = []
    for name in range(144):
        A = rng.normal(size=(rng.integers(20, 200), 60))
        signs = np.sign(A @ truth + 0.5 * rng.normal(size=len(A)))
        rows.append(-signs[:, None] * A)
        loss = cp.sum(cp.logistic(-cp.multiply(signs, A @ x)))
        model.client(name, loss + cp.sum_squares(x) / 20)
    model.topology(nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12)))
    result = model.solve()
    assert result.rounds <= 60
    assert result.status == "optimal"
    at = np.asarray(x.value)
    gradients = np.array([A.T @ expit(A @ at) + at / 10 for A in rows])
    assert np.linalg.norm(gradients.sum(axis=0)) <= 1e-5 * np.linalg.norm(gradients, axis=1).sum()


def test_a_row_of_zeros_ties_an_entry_to_nothing() -> None:
    """With x = (a + b, 0) the least of |x|^2 + (a - 1)^2 + (b - 1)^2 is 4/3, at a = b = 1/3."""
    x, ab = cp.Variable(2, name="x"), cp.Variable(2, name="ab")
    model = dm.Model()
    model.client("sum", cp.sum_squares(x))
    model.client("parts", cp.sum_squares(ab - 1))
    model.consensus(x == np.array([[1.0, 1.0], [0.0, 0.0]]) @ ab)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(4 / 3, rel=1e-8)
    assert result["ab"] == pytest.approx([1 / 3, 1 / 3], rel=1e-6)


def test_a_line_with_kinks_ends_when_the_models_of_its_pieces_are_exact() -> None:
    result = trend_filtering.model().solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(trend_filtering.REFERENCE, rel=1e-6)
    assert result.rounds <= 30  # by bounds alone 43
