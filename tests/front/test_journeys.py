"""What a user writes, J1 to J5, as settled in the design; only the data are ours."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.optimize

import dald_model as dm
from tests.expect import near

generator = np.random.default_rng(0)
A = [generator.normal(size=(30, 11)) for _ in range(3)]
b = [generator.normal(size=30) for _ in range(3)]
BEST = np.linalg.lstsq(np.vstack(A), np.concatenate(b))[0]
"""No entry is near -5, so the normal equations of all rows give the answer."""


def three_hospitals() -> tuple[dm.Model, list[cp.Variable]]:
    x = [cp.Variable(11, name=f"x{i}") for i in range(3)]
    model = dm.Model("three hospitals")
    for i in range(3):
        model.client(f"hospital {i}", cp.Minimize(cp.sum_squares(A[i] @ x[i] - b[i])), [x[i] >= -5])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x


# --- J1 -------------------------------------------------------------------------------------------


def test_j1_verify_names_what_failed_and_by_how_much() -> None:
    model, _ = three_hospitals()
    check = model.solve(max_rounds=2).verify()
    assert check.ok is False
    assert "FAILED" in str(check)
    assert {row.check for row in check.failures} >= {"objective gap", "consensus violation"}
    assert all(row.measured > (row.allowed or 0) for row in check.failures)


def test_j1_a_non_unique_optimum_is_not_a_failure() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("a", cp.square(cp.sum(x) - 1), [x >= 0])
    model.client("b", cp.square(cp.sum(y) - 3), [y <= 9])
    model.consensus(x == y)
    result = model.solve()
    assert result.value == near(2.0)
    assert np.sum(result[x]) == near(2.0)
    assert result.verify().ok


# --- J3 -------------------------------------------------------------------------------------------


def test_j3_one_global_parameter_as_federated_learning_writes_it() -> None:
    features = generator.normal(size=(60, 4))
    labels = np.where(features[:, 0] + generator.normal(size=60) > 0, 1.0, -1.0)
    shards = {f"phone {i}": (features[i::4], labels[i::4]) for i in range(4)}
    N = len(labels)

    w = cp.Variable(4, name="w")
    model = dm.Model()
    for name, (A, b) in shards.items():
        model.client(name, cp.sum(cp.logistic(cp.multiply(-b, A @ w))) / N)
    result = model.solve()  # local copies and a server are made (Fed-DALD-CC)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = -labels * (features @ w)
        slope = -labels / (1 + np.exp(-margin))
        return float(np.logaddexp(0, margin).mean()), features.T @ slope / N

    found: Any = scipy.optimize.minimize(loss, np.zeros(4), jac=True, method="BFGS", tol=1e-10)
    assert model.compile().servers == ("server",)
    assert model.compile().network.levels == [list(shards), ["server"]]
    assert w.value == near(found.x)
    assert result.value == near(found.fun)
    assert result["phone 2"][w] == near(found.x)

    model.topology(nx.path_graph(list(shards)))  # or the same clients peer to peer (Fed-DALD-DC)
    result = model.solve()
    assert model.compile().servers == ()
    assert [e.ends for e in model.compile().edges] == [
        (f"phone {i}", f"phone {i + 1}") for i in range(3)
    ]
    assert w.value == near(found.x)
    assert result.verify().ok


def test_j3_an_explicit_server_is_a_variable_that_no_client_owns() -> None:
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    z = cp.Variable(2, name="z")
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(x[i] - i - 1))
    model.consensus(*[z == xi for xi in x])
    result = model.solve()
    assert z.value == near([2.0, 2.0])
    assert result[z] == near([2.0, 2.0])
    assert len(model.clients) == 3


# --- J4 -------------------------------------------------------------------------------------------


def test_j4_look_inside() -> None:
    model, _ = three_hospitals()
    compiled = model.compile(rho=1.0)
    sub = compiled["hospital 0"]
    assert isinstance(sub, dm.Subproblem)
    assert isinstance(sub.problem, cp.Problem)
    assert sub.problem.is_dpp()
    middle = compiled["hospital 1"]
    for parameters in (middle.mu, middle.rho, middle.neighbours):
        assert list(parameters) == ["hospital 0", "hospital 2"]
        assert all(isinstance(p, cp.Parameter) for p in parameters.values())
        assert all(p.shape == (11,) for p in parameters.values())
    given = middle.problem.parameters()
    assert {p.id for p in given} == {
        p.id for group in (middle.mu, middle.rho, middle.neighbours) for p in group.values()
    }
    assert isinstance(compiled.network, nx.DiGraph)
    assert compiled.network.matrix.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    aio = model.monolithic()
    assert isinstance(aio, cp.Problem)
    assert len(aio.constraints) == 5
    assert aio.solve(solver=cp.CLARABEL) == near(
        np.sum((np.vstack(A) @ BEST - np.concatenate(b)) ** 2)
    )


def test_j4_the_parameters_enter_as_the_paper_writes_them() -> None:
    """The value of the problem is f + mu' C + ||rho o C||^2 with C = own side less neighbour's."""
    model, x = three_hospitals()
    compiled = model.compile()
    draw = np.random.default_rng(5).random
    for name, sign in (("hospital 0", 1), ("hospital 2", -1)):
        sub = compiled[name]
        mu, rho, told = draw(11), draw(11) + 0.5, draw(11)
        sub.mu["hospital 1"].value = mu
        sub.rho["hospital 1"].value = rho
        sub.neighbours["hospital 1"].value = told
        sub.problem.solve(solver=cp.CLARABEL)
        i = int(name[-1])
        # Normal equations of ||A x - b||^2 + sign mu'(x - z) + ||rho o (x - z)||^2
        left = 2 * A[i].T @ A[i] + 2 * np.diag(rho**2)
        point = np.linalg.solve(left, 2 * A[i].T @ b[i] - sign * mu + 2 * rho**2 * told)
        gap = sign * (point - told)
        assert x[i].value == near(point)
        assert sub.problem.value == near(
            np.sum((A[i] @ point - b[i]) ** 2) + mu @ gap + np.sum((rho * gap) ** 2)
        )


def test_j4_solving_by_hand_reproduces_the_iterates() -> None:
    """The paper's Algorithm 3 on the Parameters, hospital by hospital, against ``solve``."""
    model, x = three_hospitals()
    compiled = model.compile(rho=1.0)
    mu = {1: np.zeros(11), 2: np.zeros(11)}  # of x0 == x1 and of x1 == x2
    point = {i: np.zeros(11) for i in range(3)}
    walked = []
    for _ in range(3):
        for i in (0, 2, 1):
            sub = compiled[f"hospital {i}"]
            for j in (i - 1, i + 1):
                if 0 <= j <= 2:
                    sub.mu[f"hospital {j}"].value = mu[max(i, j)]
                    sub.neighbours[f"hospital {j}"].value = point[j]
            sub.problem.solve(solver=cp.CLARABEL)
            point[i] = np.array(x[i].value)
        for j in (1, 2):
            mu[j] = mu[j] + 2 * (point[j - 1] - point[j])
        walked.append(dict(point))
    for rounds, points in enumerate(walked, start=1):
        result = model.solve(rho=1.0, max_rounds=rounds, eps_pri=0, eps_dual=0)
        for i in range(3):
            assert result[x[i]] == near(points[i])


# --- J5 -------------------------------------------------------------------------------------------


def small() -> tuple[dm.Model, cp.Variable]:
    """Clients a, b, c in a row at 1, 2 and 6: the mean is 3."""
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for name, v, t in zip("abc", x, (1, 2, 6), strict=True):
        model.client(name, cp.square(v - t))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[1]


@pytest.mark.parametrize(
    "options",
    [
        {"sequence": dm.Sequence.from_matrix([[1, 1, 0], [0, 1, 1], [0, 0, 0]])},
        {"sequence": dm.Sequence.levels([["a", "c"], ["b"]])},
        {"sequence": dm.Sequence.random(k=2, seed=0)},  # a partial cycle
        {"sequence": dm.Sequence.greedy(2)},
        {"sequence": dm.Sequence.repeat(["b"])},
        {"stopping": dm.FixedBudget(v_max=1), "eps_pri": 1e-6, "eps_dual": 1e-6},  # (B4)
        {"stopping": dm.FixedTolerance()},  # (B1)
        {"stopping": dm.ShrinkingTolerance()},  # (B2)
        {"stopping": dm.GrowingBudget()},  # (B3)
        {"rho": 1.0},
        {"rho": dm.ResidualBalancing()},
        {"rho": {"a": 0.5, "b": 2.0, "c": 1.0}},
    ],
    ids=str,
)
def test_j5_steer_the_coordination(options: dict[str, Any]) -> None:
    model, middle = small()
    result = model.solve(**options)
    assert result.status == "optimal"
    assert (result.value, middle.value) == near((14.0, 3.0))
    assert result.verify().ok
