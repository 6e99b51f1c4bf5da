"""Sent curvature: quadratics are done at once, others are as right as by any other way."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.datasets import load
from dald_model.errors import DatasetError
from dald_model.experiments.table1 import PAPER, SEED
from dald_model.models.linear_regression import consensus_regression
from dald_model.solvers.exact.sensitivity import Sensitivity
from tests.paths import DATA
from tests.zoo import GRAPHS, PROBLEMS


def squares(graph: nx.Graph | None) -> dm.Model:
    """Least squares of twelve clients with private variables and other scales."""
    rng = np.random.default_rng(4)
    x, model = cp.Variable(4), dm.Model("squares")
    for name in range(12):
        A, own = rng.normal(size=(8, 4)) * 10 ** rng.uniform(-1, 1), cp.Variable(2)
        right = A.sum(axis=1) + rng.normal(size=8)
        model.client(name, cp.sum_squares(A @ x + rng.normal(size=(8, 2)) @ own - right))
    model.topology(graph)
    return model


@pytest.mark.parametrize(
    "graph",
    [None, nx.cycle_graph(12), nx.path_graph(12), nx.full_rary_tree(2, 12)],
    ids=["star", "ring", "path", "tree"],
)
def test_quadratic_clients_are_at_the_optimum_in_the_second_round(graph: nx.Graph | None) -> None:
    result = squares(graph).solve(acceleration=dm.ALADIN())
    assert result.status == "optimal"
    assert list(result.history["proposal"]) == ["", "aladin"]
    assert result.verify().ok


def test_affine_constraints_of_any_kind_are_met_at_once() -> None:
    x = [cp.Variable(2, name=f"x{i}") for i in range(4)]
    model = dm.Model("affine")
    for i, one in enumerate(x):
        model.client(i, cp.sum_squares(one - i))
    model.consensus(
        x[0] == 2 * x[1] + 1, cp.sum(x[1]) == x[2][0] - x[2][1], x[2] == -x[3], x[1] == x[3]
    )
    result = model.solve(acceleration=dm.ALADIN())
    assert result.rounds == 2
    assert result.verify().ok


@pytest.mark.parametrize(
    ("name", "chain", "raw"),
    [(name, (at + raw) % 2 == 0, raw) for at, name in enumerate(PAPER) for raw in (False, True)],
)
def test_table_1_takes_at_most_four_rounds(name: str, chain: bool, raw: bool) -> None:
    # The bound is that of issue 12
    try:
        rows = load(name, data=DATA)
    except DatasetError as error:
        pytest.skip(str(error))
    parts = (rows if raw else rows.standardised()).split(3, SEED)
    named = {f"node {at + 1}": part for at, part in enumerate(parts)}
    result = consensus_regression(named, chain=chain).solve(acceleration=dm.ALADIN())
    assert result.status == "optimal"
    assert result.rounds <= 4
    assert result.verify().ok


@pytest.mark.parametrize("graph", ["star", "ring"])
@pytest.mark.parametrize("problem", ["lasso", "simplex", "huber", "logistic", "group_lasso"])
def test_bends_kinks_and_rows_end_at_the_optimum(problem: str, graph: str) -> None:
    result = PROBLEMS[problem]().on(GRAPHS[graph]()).model.solve(acceleration=dm.ALADIN())
    assert result.status == "optimal"
    assert "aladin" in set(result.history["proposal"])
    assert result.verify().ok


def test_wrong_hessians_cost_rounds_and_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Sensitivity, points: np.ndarray, slopes: np.ndarray) -> Any:
        count, size = slopes.shape
        return np.arange(count), np.tile(1e-3 * np.eye(size), (count, 1, 1))

    monkeypatch.setattr(Sensitivity, "changed", wrong)
    result = squares(nx.cycle_graph(12)).solve(acceleration=dm.ALADIN())
    assert result.status == "optimal"
    assert result.verify().ok
    assert {"aladin, taken back", "secant"} <= set(result.history["proposal"])


def test_a_client_without_a_hessian_is_named() -> None:
    x, model = cp.Variable(3), dm.Model("mixed")
    model.client("smooth", cp.sum_squares(x - 1))
    model.client("cone", cp.lambda_max(cp.diag(x)))
    model.topology(None)
    with pytest.raises(dm.OptionError, match="client 'cone' has none to share: it has cones"):
        model.solve(acceleration=dm.ALADIN())


def test_explain_and_compare_say_what_is_sent_and_revealed() -> None:
    model = squares(nx.path_graph(12))
    # 12 Hessians of 10 numbers, 12 objectives, and prices at both ends of 11 edges of 4 entries
    said = " ".join(str(model.compile().explain(acceleration=dm.ALADIN())).split())
    assert f"at most {8 * (12 * 11 + 2 * 11 * 4):,} bytes per round more than without" in said
    ways = {"plain": None, "secant": dm.Secant(), "aladin": dm.ALADIN()}
    frame = dm.compare(
        model, {name: {"acceleration": way} for name, way in ways.items()}, max_rounds=5
    ).frame
    assert list(frame.revealed) == [
        "",
        "answers, prices",
        "Hessians; answers, prices, objectives",
    ]
    sides = 8 * 2 * 11 * 4
    added = {"plain": 0, "secant": 8 * 2 * 11 * 4, "aladin": 8 * (12 * 11 + 2 * 11 * 4)}
    for name, extra in added.items():
        assert frame.sent[name] == (sides + extra) * frame.rounds[name]
