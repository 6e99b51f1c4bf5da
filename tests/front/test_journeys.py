"""What a user finds inside of a compiled model, J4 of the design; only the data are ours."""

import cvxpy as cp
import networkx as nx
import numpy as np

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
