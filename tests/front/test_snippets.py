"""Every snippet of journeys.md, the design's, as it is printed; data and assertions are ours."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import cvxpy as cp
import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

import dald_model as dm
from dald_model.cli import main
from tests.expect import near

mpl.use("Agg")

PAGE = (Path(__file__).parent / "journeys.md").read_text()
DRAW = np.random.default_rng(0)


def ran(journey: str, **names: Any) -> dict[str, Any]:
    """The names after the Python blocks of a journey, with pages' common imports before them."""
    names |= {"cp": cp, "dm": dm, "np": np, "nx": nx}
    for code in blocks(journey, "python"):
        exec(compile(code, f"journeys.md, {journey}", "exec"), names)
    return names


def blocks(journey: str, language: str) -> list[str]:
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)[int(journey[1:])]
    assert section.startswith(f"{journey} ")
    fence = "" if language == "sh" else language
    return re.findall(rf"^```{fence}\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)


def hospitals() -> dict[str, Any]:
    return {"A": DRAW.normal(size=(3, 30, 11)), "b": DRAW.normal(size=(3, 30))}


def means(names: Any = "abc", weight: Any = 1.0) -> tuple[dm.Model, cp.Variable]:
    """Owners of 0, 1, 2, ... who share a number: the mean."""
    w, model = cp.Variable(name="w"), dm.Model("means")
    for i, name in enumerate(names):
        model.client(name, weight * cp.square(w - i))
    return model, w


def test_j1() -> None:
    data = hospitals()
    found = ran("J1", **data)
    A, b = np.vstack(data["A"]), np.concatenate(data["b"])
    best = np.linalg.lstsq(A, b)[0]
    model, result, check = found["model"], found["result"], found["check"]
    assert (result.status, result.value) == ("optimal", near(np.sum((A @ best - b) ** 2)))
    assert all(v.value == near(best) for v in found["x"])
    assert result[found["x"][0]] == near(best)
    assert len(result.history) == result.rounds
    first, second = (one.constraint for one in model.agreements)
    slopes = [2 * A.T @ (A @ best - b) for A, b in zip(data["A"], data["b"], strict=True)]
    assert result.duals[first] == near(-slopes[0])
    assert second.dual_value == near(slopes[2])
    assert check.ok is True
    assert "passed" in str(check)


def test_j2() -> None:
    """Minimise |x + 1|^2 + |x + 2|^2 + |x - 1|^2 over x >= 0: 0, and prices as by cvxpy."""
    x = [cp.Variable(2, name=f"x{i}") for i in (1, 2, 3)]
    f = [cp.sum_squares(x[0] + 1), cp.sum_squares(x[1] + 2), cp.sum_squares(x[2] - 1)]
    given = {f"x{i}": v for i, v in enumerate(x, 1)} | {f"f{i}": g for i, g in enumerate(f, 1)}
    problem = ran("J2", **given)["problem"]
    assert (problem.status, problem.value) == ("optimal", near(12.0))
    assert all(v.value == near([0.0, 0.0]) for v in x)
    # Stationarity at 0: 2 + d1 - lam = 0, 4 - d1 + d2 = 0, -2 - d2 = 0
    duals = [rule.dual_value for rule in problem.constraints]
    assert np.array(duals) == near(np.array([[2.0, 2.0], [-2.0, -2.0], [4.0, 4.0]]))


def test_j3() -> None:
    """Each row is one weight, seen with +1 p times and with -1 n times: w = log(p / n)."""
    eye = np.eye(784)
    ups = {"phone 0": [1, -1], "phone 1": [1, 1, -1]}
    shards = {k: (np.vstack([eye] * len(u)), np.repeat(u, 784)) for k, u in ups.items()}
    found = ran("J3", shards=shards, N=5 * 784)
    assert found["w"].value == near(np.full(784, np.log(3 / 2)))
    assert found["model"].graph is not None


def test_j4() -> None:
    found = ran("J4", model=ran("J1", **hospitals())["model"])
    assert found["sub"].problem.is_dpp()
    network = found["compiled"].network
    assert network.matrix.shape == (3, 3)
    assert isinstance(network, nx.DiGraph)


def test_j5() -> None:
    model, w = means()
    model.topology(nx.path_graph("abc"))
    ran("J5", model=model, S=[[1, 1, 0], [0, 1, 1], [0, 0, 0]])
    assert w.value == near(1.0)


def test_j6(capsys: pytest.CaptureFixture[str]) -> None:
    """A server for FedProx and a ring for DGD, as the model says neither."""
    model, w = means()
    ran("J6", model=model)
    assert "(53)" in capsys.readouterr().out
    proximal = model.solve(algorithm=dm.FedProx(alpha=0.1))
    assert proximal.compiled.servers == ("server",)
    assert proximal[w] == near(1.0)  # alike quadratics: the mean of proximal points is that of all
    gossip = model.solve(algorithm=dm.DGD(step=0.1))
    assert set(map(frozenset, gossip.compiled.slots)) == set(map(frozenset, ["ab", "bc", "ca"]))
    # Metropolis weights of a triangle are 1/3: x = mean - 2 s (x - t), so x = 1 + (t - 1) 0.2 / 1.2
    assert [gossip[name]["w"] for name in "abc"] == near([5 / 6, 1.0, 7 / 6])
    assert "over             a ring of clients, chosen for the algorithm" in str(gossip)
    told = str(model.compile().explain(algorithm=dm.DGD(step=1e-3)))
    assert "over a ring of clients, chosen for the algorithm" in told


def test_j7() -> None:
    model, _ = means()
    result, compiled = model.solve(), model.compile()
    ran("J7", model=model, result=result, compiled=compiled)
    assert pd.DataFrame(result.history).shape[0] == result.rounds
    assert model._repr_html_().startswith("<")
    assert "min" in model.latex()


@pytest.mark.parametrize("line", blocks("J8", "sh")[0].splitlines())
def test_j8(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "table1" in line:
        pytest.skip("a minute; see tests/experiments/test_table1.py and test_cli.py")
    program, *given = shlex.split(line, comments=True)
    assert program == "dald"
    if given[0] == "solve":  # the gallery lies beside the tests
        given[1] = str(Path(__file__).parents[2] / given[1])
    assert main(given) == 0
    assert capsys.readouterr().out


def test_j9() -> None:
    """With all inequalities loose but the balance: x = wish + price / 2 where that is >= 0."""
    wish = 1 + DRAW.random((12, 2)) / 10
    wish[0] -= 0.5  # below those of area 1
    wish[1:3] -= 0.2
    found = ran("J9", wish=wish, demand=30.0)
    assert found["result"].status == "optimal"
    assert found["result"].verify().ok
    assert abs(found["result"].certificate().gap) < 1e-4
    slopes = [2 * (found["x"][5].value - wish[5]), 2 * (found["x"][7].value - wish[7])]
    assert slopes == near(np.full((2, 2), -float(found["balance"].dual_value)))


def test_j10() -> None:
    features = [f"f{i}" for i in range(10)]
    frame = pd.DataFrame(DRAW.normal(size=(200, 10)), columns=pd.Index(features))
    frame["school"], frame["score"] = np.arange(200) % 8, DRAW.normal(size=200)
    found = ran("J10", frame=frame, features=features)
    assert found["model"].solve().status == "optimal"
    best = LinearRegression(fit_intercept=False).fit(frame[features].to_numpy(), frame.score)
    assert found["w"].value == near(best.coef_)
    assert len(found["model"].clients) == 8


def test_j11(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weight = cp.Parameter(nonneg=True, value=1.0)
    model, w = means(weight=weight)
    compiled = model.compile()
    result = ran("J11", model=model, weight=weight)["result"]
    assert result.value == near(0.3 * 2.0)
    assert w.value == near(1.0)
    assert result.compiled is compiled


def test_j12(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    w, x = cp.Variable(name="w"), [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model("areas")
    for i in range(2):
        model.client(f"area {i}", cp.square(w + x[i] - i) + cp.square(x[i]))
    found = ran("J12", result=model.solve())
    assert found["answer"]["w"] == near(0.5)
    assert found["answer"]["area 0"]["x0"] == near(-0.25)


def test_j13() -> None:
    X = DRAW.normal(size=(90, 3))
    y = (X[:, 0] + DRAW.normal(size=90) > 0).astype(int)
    hospital = np.arange(90) % 3
    given = {"cross_val_score": cross_val_score, "LeaveOneGroupOut": LeaveOneGroupOut}
    score = ran("J13", X=X, y=y, hospital=hospital, **given)["score"]
    assert score.shape == (3,)
    assert score.mean() > 0.6


def test_there_is_a_test_for_every_journey() -> None:
    told = re.findall(r"^## (J\d+) ", PAGE, flags=re.MULTILINE)
    assert [name.lower() for name in told] == [f"j{i}" for i in range(1, 14)]
    assert {f"test_{name.lower()}" for name in told} <= set(globals())
