"""Accelerated runs in which clients are absent, lag or leave, and messages are lost."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.coordinate.acceleration.test_safeguard import Wrecker
from tests.expect import near
from tests.zoo import GRAPHS, PROBLEMS

Change = dm.Change
COUNT, SIZE = 20, 4
SHAPES = {
    "star": None,
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 4)),
    "path": nx.path_graph(COUNT),
}


MOST = {"least squares": 4, "lasso": 4, "simplex": 6}
"""Times the rounds with nobody absent: the bound of issue 12, which is not met where so few are
enough as the 7 of these clients with constraints on a grid."""


def loss(kind: str, A: np.ndarray, b: np.ndarray, x: cp.Variable) -> Any:
    if kind == "simplex":
        return cp.sum_squares(A @ x - b), [x >= 0, cp.sum(x) == 1]
    return cp.sum_squares(A @ x - b) + (3 * cp.norm1(x) if kind == "lasso" else 0), []


def drawn(kind: str, graph: str, seed: int = 3) -> dm.Model:
    rng = np.random.default_rng(seed)
    x, model = cp.Variable(SIZE), dm.Model("fit")
    for i in range(COUNT):
        A = rng.normal(size=(12, SIZE))
        model.client(i, *loss(kind, A, A @ np.array([1.0, 0.5, 0, -2]) + rng.normal(size=12), x))
    model.topology(SHAPES[graph])
    return model


@pytest.mark.parametrize("kind", ["least squares", "lasso", "simplex"])
@pytest.mark.parametrize("graph", SHAPES)
def test_a_third_absent_costs_few_rounds(graph: str, kind: str) -> None:
    whole = drawn(kind, graph).solve()
    result = drawn(kind, graph).solve(online=dm.Dropout(0.3, seed=0))
    assert result.status == "optimal"
    assert result.rounds <= MOST[kind] * whole.rounds
    assert result.verify().ok
    assert result.value == near(whole.value)
    assert "secant" in set(result.history["proposal"])


@pytest.mark.parametrize(
    "online",
    [
        dm.Stragglers({1: 3, 2: 2}),
        dm.LossyLinks(0.1),
        {5: Change(disconnect=[(0, 1)]), 15: Change(connect=[(0, 1)])},
        {5: Change(leave=[3]), 15: Change(join=[3])},
        {5: Change(sequence=dm.Sequence.natural())},
    ],
    ids=str,
)
def test_messages_and_edges_that_go_and_come(online: Any) -> None:
    result = drawn("least squares", "grid").solve(online=online)
    assert result.status == "optimal"
    assert result.verify().ok
    assert "secant" in set(result.history["proposal"])


def test_clients_that_are_drawn() -> None:
    result = drawn("lasso", "path").solve(sequence=dm.Sequence.participating(10))
    assert result.status == "optimal"
    assert result.verify().ok
    assert "secant" in set(result.history["proposal"])


def test_who_left_is_out_of_the_models_as_well() -> None:
    """Of |x - i|^2, i = 0 to 9 without 4, the minimum is the mean of the others."""
    x, model = cp.Variable(2), dm.Model("numbers")
    for i in range(10):
        model.client(i, (1 + i) * cp.sum_squares(x - i))
    model.topology(nx.cycle_graph(10))
    result = model.solve(online={4: Change(leave=[4])})
    assert result.status == "reduced"
    after = result.history["proposal"].iloc[4:]
    assert "secant" in set(after)
    left = [i for i in range(10) if i != 4]
    mean = sum((1 + i) * i for i in left) / sum(1 + i for i in left)
    assert result[0][x] == pytest.approx([mean, mean], rel=1e-5)


def test_what_can_no_longer_be_accelerated_goes_on_without() -> None:
    model = drawn("least squares", "grid")
    result = model.solve(online={3: Change(sequence=dm.Sequence.random(8))}, max_rounds=3000)
    assert result.status == "optimal"
    assert set(result.history["proposal"].iloc[3:]) == {""}
    assert result.verify().ok


@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize("problem", ["least_squares", "simplex"])
@pytest.mark.parametrize("graph", ["star", "ring"])
def test_random_proposals_do_no_harm_where_clients_are_absent(
    graph: str, problem: str, size: float
) -> None:
    built = PROBLEMS[problem]().on(GRAPHS[graph]())

    result = built.model.solve(
        acceleration=Wrecker(size),
        online=dm.Dropout(0.3, seed=1),
        max_rounds=3000,
    )
    assert result.status == "optimal"
    assert result.verify().ok
    assert result.history["proposal"].str.endswith(", taken back").any()
    state, compiled = result.state, result.compiled
    own = {name: state.points[part] for name, part in compiled.columns.items()}
    # Whatever was said of who was absent, the sides are those of the clients' points
    np.testing.assert_allclose(state.sides, compiled.sides(own), atol=1e-12)


def test_explain_says_that_models_speak_for_who_is_absent() -> None:
    said = str(drawn("lasso", "star").compile().explain())
    assert "for absent clients the models predict an answer" in " ".join(said.split())
