"""The comparison of algorithms: gaps in closed form, the same in all units; what is refused."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import matplotlib as mpl
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

mpl.use("Agg")

TARGETS = np.array([[0.0, 1.0], [2.0, -1.0], [4.0, 3.0]])


def squares(scale: float = 1.0, unit: float = 1.0) -> dm.Model:
    """Clients s |w / u - t_i|^2; at w = u t they pay s (3 |t - mean|^2 + V), and alone nothing."""
    w = cp.Variable(2, name="w")
    model = dm.Model("squares")
    for i, target in enumerate(TARGETS):
        model.client(i, scale * cp.sum_squares(w / unit - target))
    return model


AGREEING = float(((TARGETS - TARGETS.mean(axis=0)) ** 2).sum())
"""V, what agreeing on the mean costs."""


@pytest.mark.parametrize(("scale", "unit"), [(1.0, 1.0), (1e-7, 1.0), (1e6, 1e-4)])
def test_the_gap_is_relative_to_what_agreeing_costs_in_all_units(scale: float, unit: float) -> None:
    """Gradient descent from zero: each step of a quarter of 1 / L leaves 1/2 of the way."""
    step = unit**2 / (12 * scale)
    found = dm.compare(
        squares(scale, unit),
        {"gradient descent": dm.GradientDescent(step), "DALD": dm.DALD()},
        max_rounds=20,
    )
    assert found.aio == pytest.approx(scale * AGREEING, rel=1e-6)
    history = found.histories["gradient descent"]
    mean = TARGETS.mean(axis=0)
    left = 3 * (mean @ mean) * 0.25 ** np.arange(1, len(history) + 1) / AGREEING
    np.testing.assert_allclose(history.gap[:10], left[:10], rtol=1e-4)
    common = history["common objective"]
    np.testing.assert_allclose(common[:10], scale * AGREEING * (1 + left[:10]), rtol=1e-6)
    assert found.frame.gap["DALD"] < 1e-6
    assert found.frame["rounds to 1e-02"]["gradient descent"] == 1 + np.argmax(left <= 1e-2)


def test_a_problem_without_an_optimum_is_refused_before_any_run() -> None:
    w = cp.Variable(name="w")
    model = dm.Model("falling")
    for i in range(2):
        model.client(i, w)
    asked: list[Any] = []
    with pytest.raises(dm.OptionError, match=r"all-in-one problem of 'falling' is unbounded"):
        dm.compare(model, [dm.DALD()], metrics={"any": asked.append})
    assert not asked


def test_what_is_no_algorithm_is_refused() -> None:
    with pytest.raises(dm.OptionError, match="expected algorithms such as"):
        dm.compare(squares(), [dm.DALD])  # pyright: ignore[reportArgumentType] - what is tested
    with pytest.raises(dm.OptionError, match="given no algorithm"):
        dm.compare(squares(), [])


def test_a_metric_is_drawn_in_the_range_that_it_has_after_the_first_round() -> None:
    """It is 0, 1 / 2 and 3 / 4: from 1 / 2 to 3 / 4, with a twentieth of that on either side."""
    metrics = {"share": lambda at: 1 - 0.5 ** (at.round - 1)}
    found = dm.compare(squares(), [dm.FedAvg(step=0.05)], metrics=metrics, max_rounds=3)
    assert found.plot().axes[2].get_ylim() == pytest.approx((0.4875, 0.7625))


def test_server_and_peer_methods_stand_in_one_table_and_one_plot() -> None:
    """Each runs over what it can: all come to the mean, as far as a method can."""
    model = squares()
    methods = [dm.FedAvg(step=0.05), dm.FedAvg(step=0.05, count=2), dm.DGD(0.1), dm.DALD()]
    found = dm.compare(model, methods, graph=nx.path_graph(3), max_rounds=300)
    names = ["FedAvg(step=0.05)", "FedAvg(step=0.05, count=2)", "DGD(step=0.1)", "DALD"]
    assert list(found.results) == names
    assert found.frame.over.tolist() == ["server", "server", "graph", "server"]
    for name, result in found.results.items():
        assert (result.compiled.servers == ()) == (name == "DGD(step=0.1)")
        np.testing.assert_allclose(result["w"], TARGETS.mean(axis=0), atol=0.5)
    assert model.graph is None, "the model itself stays as it was"
    assert "  DGD(step=0.1)               graph " in str(found)
    figure = found.plot()
    for axis in figure.axes[:2]:
        lines = axis.get_lines()
        assert [line.get_label() for line in lines] == names
        dashes = [str(vars(line)["_unscaled_dash_pattern"]) for line in lines]
        assert len(set(dashes)) == len(names)

    model.topology(nx.cycle_graph(3))
    found = dm.compare(model, [dm.DALD(), dm.FedProx(0.1)], max_rounds=50)
    assert found.frame.over.to_dict() == {"DALD": "graph", "FedProx(alpha=0.1)": "server"}


def test_a_run_may_name_its_own_topology() -> None:
    chosen = {"star": "server", "ring": nx.cycle_graph(3), "path": nx.path_graph(3)}
    found = dm.compare(
        squares(), {n: {"algorithm": dm.DALD(), "topology": t} for n, t in chosen.items()}
    )
    assert {name: len(one.compiled.edges) for name, one in found.results.items()} == {
        "star": 3,
        "ring": 3,
        "path": 2,
    }
    assert (found.frame.gap < 1e-6).all()
    with pytest.raises(dm.OptionError, match="DGD is peer to peer"):
        dm.compare(squares(), {"DGD": {"algorithm": dm.DGD(0.01), "topology": "server"}})
    found = dm.compare(squares(), [dm.DGD(0.01)])  # no graph: a ring
    assert [len(one.compiled.edges) for one in found.results.values()] == [3]


def test_a_measured_step_is_in_the_name_and_descends_as_the_theory_says() -> None:
    """Curvatures of 2 a client and 6 of the sum: steps of 1/6, which is the mean at once."""
    methods = [dm.GradientDescent(), dm.FedAvg(), dm.FedAvg(count=3), dm.DGD(), dm.EXTRA()]
    found = dm.compare(squares(), methods, graph=nx.path_graph(3), max_rounds=300)
    assert list(found.results) == [
        "GradientDescent(step=0.167)",
        "FedAvg(step=0.5)",
        "FedAvg(step=0.5, count=3)",
        "DGD(step=0.25)",
        "EXTRA(step=0.25)",  # Metropolis weights of 1/3: W has the eigenvalues 1, 2/3 and 0
    ]
    assert found.frame["rounds to 1e-04"]["GradientDescent(step=0.167)"] == 1
    assert found.frame.gap["EXTRA(step=0.25)"] < 1e-6
    assert found.frame.status["DGD(step=0.25)"] == "settled"  # 1 / L oscillates where W is 0


def test_names_carry_functions_and_the_same_method_twice() -> None:
    def falling(k: int) -> float:
        return 0.1 / k

    methods = [dm.DGD(falling), dm.DGD(falling), dm.DGD(lambda k: 0.1 / k)]
    found = dm.compare(squares(), methods, graph=nx.path_graph(3), max_rounds=5)
    assert list(found.results) == [
        "DGD(step=falling)",
        "DGD(step=falling) (2)",
        "DGD(step=<lambda>)",
    ]
