"""What is known of clients from one solve to the next, against closed forms."""

from __future__ import annotations

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

RNG = np.random.default_rng(4)
COUNT, SIZE = 8, 3


def fit(graph: nx.Graph | None) -> tuple[dm.Model, cp.Variable, list[cp.Parameter], list]:
    """Least squares to targets that are Parameters."""
    rng = np.random.default_rng(1)
    x, model, targets, data = cp.Variable(SIZE), dm.Model("fit"), [], []
    for i in range(COUNT):
        A = rng.normal(size=(9, SIZE)) * 10.0 ** rng.uniform(-1, 1)
        target = cp.Parameter(9, value=rng.normal(size=9), name=f"b{i}")
        model.client(i, cp.sum_squares(A @ x - target))
        targets.append(target)
        data.append(A)
    model.topology(graph)
    return model, x, targets, data


def pooled(targets: list[cp.Parameter], data: list) -> np.ndarray:
    A, b = np.vstack(data), np.concatenate([np.asarray(t.value) for t in targets])
    return np.linalg.lstsq(A, b)[0]


@pytest.mark.parametrize(
    ("graph", "dense"),
    [(None, 600), (nx.path_graph(COUNT), 600), (nx.cycle_graph(COUNT), 600), (None, 0)],
)
def test_quadratics_with_other_targets_take_three_rounds(
    graph: nx.Graph | None, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to hear the answers, one at the models' consensus, which is the optimum, one to see.

    Systems of more unknowns than ``dense`` are sparse.
    """
    monkeypatch.setattr("dald_model.coordinate.acceleration.master.DENSE_DIRECTIONS", dense)
    model, x, targets, data = fit(graph)
    first = model.solve()
    assert first.recalled == ()
    rng = np.random.default_rng(6)
    for target in targets:
        target.value = rng.normal(size=9)
    second = model.solve(start=first)
    assert second.status == "optimal"
    assert second.rounds <= 3 < first.rounds
    assert second.recalled == tuple(range(COUNT))
    assert "models kept" in str(second)
    assert second[x] == pytest.approx(pooled(targets, data), rel=1e-5)
    assert second.verify().ok


def test_models_outlast_a_change_of_the_graph_but_not_of_what_is_seen() -> None:
    model, _, targets, data = fit(nx.path_graph(COUNT))
    first = model.solve()
    model.topology(nx.cycle_graph(COUNT))
    second = model.solve(start=first)
    assert second.recalled == tuple(range(COUNT))
    assert second.rounds <= 4
    assert second.verify().ok
    # One more shared entry of clients 0 and 1: other directions than before
    y = cp.Variable(name="y")
    other, x = dm.Model("wider"), cp.Variable(SIZE)
    for i, (A, target) in enumerate(zip(data, targets, strict=True)):
        extra = cp.square(y - i) if i < 2 else 0
        other.client(i, cp.sum_squares(A @ x - target) + extra)
    other.topology(nx.cycle_graph(COUNT))
    third = other.solve(start=second)
    assert third.status == "optimal"
    assert third.recalled == tuple(range(2, COUNT))
    assert third.verify().ok


def test_without_acceleration_nothing_is_learnt_or_recalled() -> None:
    model, *_ = fit(None)
    first = model.solve(acceleration=None)
    assert first.learnt is None
    again = model.solve(start=first)
    assert again.recalled == ()
    assert again.status == "optimal"
    assert model.solve(start=again, acceleration=dm.Anderson()).recalled == ()


@pytest.mark.parametrize(("graph", "most"), [(None, 50), (nx.full_rary_tree(2, 14), 30)])
def test_answers_on_both_sides_of_kinks_are_no_hard_constraints(
    graph: nx.Graph | None, most: int
) -> None:
    """Separable lassos of very unequal clients: the optimum is soft thresholding.

    Where a negative eigenvalue passed for a hard constraint it took 55 and 42 rounds.
    """
    rng, count, size = np.random.default_rng(2), 14, 10
    rng.normal(size=(size, size))
    x, model = cp.Variable(size), dm.Model("l1")
    pulled, weight = np.zeros((2, size))
    for name in range(count):
        own = 10 ** rng.uniform(-1, 2) * rng.uniform(0.2, 1, size)
        target = rng.normal(size=size)
        model.client(name, cp.sum(cp.multiply(own, cp.square(x - target))) + 5 * cp.norm1(x))
        pulled, weight = pulled + own * target, weight + own
    model.topology(graph)
    result = model.solve()
    expected = np.sign(pulled) * np.maximum(np.abs(pulled) - 5 * count / 2, 0) / weight
    assert result.status == "optimal"
    assert result.rounds <= most
    np.testing.assert_allclose(np.asarray(x.value), expected, atol=1e-7)
