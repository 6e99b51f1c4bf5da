"""Metrics are columns of the history, against the same numbers by hand."""

from fractions import Fraction
from typing import Any

import cvxpy as cp
import networkx as nx
import pytest

import dald_model as dm
from tests.expect import near
from tests.schedule.numbers import BY_HAND, ONE, RING, exactly, on, shared

F = Fraction
S = dm.Sequence


def test_metrics_are_columns_of_the_history() -> None:
    """On two clients: a = 1/2, b = 5/4, then 3/2 and 11/8, as in ``test_failures.py``."""
    model, x = on(nx.path_graph("ab"))
    metrics = {
        "a": lambda at: at[x["a"]].item(),
        "gap": lambda at: (at[x["a"]] - at[x["b"]]).item(),
        "cost": lambda at: at.objective,
        "own": lambda at: {n: v.item() for n, v in at.copies(x["b"]).items()},
    }
    given: dict[str, Any] = BY_HAND | {"stopping": ONE, "max_rounds": 2}
    history = model.solve(metrics=metrics, **given).history
    assert list(history.columns[-4:]) == ["a", "gap", "cost", "own"]
    assert history.a.tolist() == exactly([1 / 2, 3 / 2])
    assert history.gap.tolist() == exactly([-3 / 4, 1 / 8])
    assert history.cost.tolist() == exactly([1 / 4 + 9 / 16, 1 / 4 + 25 / 64])
    assert history.cost.tolist() == history.objective.tolist()
    assert history.own.tolist() == [exactly({"b": 5 / 4}), exactly({"b": 11 / 8})]


def test_metrics_of_a_shared_variable() -> None:
    """With a server its value; without, the mean over the copies; copies are the clients'."""
    model, w = shared()
    metrics = {
        "w": lambda at: at[w].item(),
        "copies": lambda at: {name: v.item() for name, v in at.copies(w).items()},
    }
    given: dict[str, Any] = {"rho": 1.0, "stopping": ONE, "max_rounds": 1, "metrics": metrics}
    served = model.solve(**given).history.iloc[0]
    half = {"a": 0.5, "b": 1.0, "c": 1.5, "d": 2.0}  # 2 (x - t) + 2 x = 0
    assert served.copies == exactly(half)
    assert served.w == exactly(1.25)
    model.topology(nx.path_graph("abcd"))
    peers = model.solve(sequence=S.natural(), **given).history.iloc[0]
    a = F(2, 4)
    b = (4 + 2 * a) / 6
    c = (6 + 2 * b) / 6
    d = (8 + 2 * c) / 4
    known = {"a": float(a), "b": float(b), "c": float(c), "d": float(d)}
    assert peers.copies == exactly(known)
    assert peers.w == exactly(float(sum((a, b, c, d), F(0))) / 4)


def test_metrics_of_a_maximisation_have_its_sign() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for t in (1, 3):
        model.client(t, cp.Maximize(-cp.square(w - t)))
    result = model.solve(metrics={"mine": lambda at: at.objective})
    assert result.history.mine.iloc[-1] == near(-2.0)
    assert result.history.mine.tolist() == result.history.objective.tolist()


def test_a_metric_of_a_variable_of_another_model() -> None:
    model, _ = on(RING)
    with pytest.raises(dm.ResultError) as caught:
        model.solve(metrics={"z": lambda at: at[cp.Variable(name="z")]})
    assert str(caught.value) == "metrics: 'z' is no variable of 'numbers'"


@pytest.mark.parametrize(
    "given", [3, ["norm"], {"norm": 3}, {3: abs}, abs, "norm"], ids=lambda given: str(given)[:12]
)
def test_what_are_no_metrics(given: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(metrics=given)
    assert str(caught.value) == (
        f"metrics: given {given!r}, expected a dict from the name of a column of the history to a "
        "function of a dm.Iterate, such as {'norm': lambda at: np.linalg.norm(at[w])}"
    )


def test_a_metric_does_not_replace_a_column() -> None:
    with pytest.raises(dm.OptionError):
        on(RING)[0].solve(metrics={"primal": lambda at: 7.0})
