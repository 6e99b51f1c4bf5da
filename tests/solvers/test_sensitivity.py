r"""How minimisers move with what clients are told: closed forms, and differences of solves.

The client of these tests shares all its variables, :math:`M = I`: it answers :math:`\tau` with the
minimiser of :math:`f(x) + \tfrac12 |x - \tau|^2`, which Clarabel finds here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers.exact.sensitivity import Sensitivity, no_manifold

RNG = np.random.default_rng(11)
SIZE = 4
A, B = RNG.normal(size=(9, SIZE)), RNG.normal(size=9)
ROWS = RNG.normal(size=(5, SIZE))
SIGNED = np.sign(B)[:, None] * A

Stated = tuple[Any, list[Any]]
CLIENTS: dict[str, Callable[[cp.Variable], Stated]] = {
    "least squares": lambda x: (cp.sum_squares(A @ x - B), []),
    "huber": lambda x: (cp.sum(cp.huber(A @ x - B, 1)), []),
    "lasso": lambda x: (cp.sum_squares(A @ x - B) + 1.5 * cp.norm1(x), []),
    "group lasso": lambda x: (cp.sum_squares(A @ x - B) + 2 * cp.norm(x[:2]), []),
    "dropped group": lambda x: (cp.sum_squares(A @ x - B) + 50 * cp.norm(x[:2]), []),
    "box": lambda x: (cp.sum_squares(A @ x - B), [x >= -0.1, x <= 0.1]),
    "rows": lambda x: (cp.sum_squares(A @ x - B), [ROWS @ x <= 0.05, cp.sum(x) == 0.2]),
    "ball": lambda x: (cp.sum_squares(A @ x - B), [cp.norm(x - 0.3) <= 0.4]),
    "line and ball": lambda x: (A[0] @ x, [cp.norm(x) <= 0.7]),
}


def subproblem(stated: Callable[[cp.Variable], Stated]) -> dm.Subproblem:
    """One of two clients that share all variables."""
    x, model = cp.Variable(SIZE), dm.Model("two")
    model.client("one", *stated(x))
    model.client("other", cp.sum_squares(x))
    model.topology(None)
    return model.compile()["one"]


def answer(stated: Callable[[cp.Variable], Stated], told: np.ndarray) -> np.ndarray:
    x = cp.Variable(SIZE)
    objective, constraints = stated(x)
    near = objective + cp.sum_squares(x - told) / 2
    cp.Problem(cp.Minimize(near), constraints).solve(
        solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9
    )
    assert x.value is not None
    return np.round(x.value, 8)  # exact solvers give zeros where this gives 1e-10


@pytest.mark.parametrize("name", CLIENTS)
def test_the_response_is_the_derivative_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("dald_model.solvers.exact.sensitivity.GIVE", 1e-12)
    monkeypatch.setattr("dald_model.solvers.exact.sensitivity.ACTIVE", 1e-6)
    stated, told, step = CLIENTS[name], np.array([0.3, -0.2, 0.5, 0.1]), 1e-3
    sensitivity = Sensitivity([subproblem(stated)], np.eye(SIZE)[None])
    point = answer(stated, told)
    which, found = sensitivity.changed(point[None], (told - point)[None])
    assert which.tolist() == [0]
    expected = np.column_stack(
        [
            (answer(stated, told + step * e) - answer(stated, told - step * e)) / (2 * step)
            for e in np.eye(SIZE)
        ]
    )
    np.testing.assert_allclose(found[0], expected, atol=2e-5)


def test_the_response_of_a_logistic_loss_is_that_of_its_hessian() -> None:
    client = subproblem(lambda x: (cp.sum(cp.logistic(-SIGNED @ x)), []))
    point = np.array([0.3, -0.2, 0.5, 0.1])
    share = 1 / (1 + np.exp(SIGNED @ point))
    hessian = SIGNED.T @ ((share * (1 - share))[:, None] * SIGNED)
    sensitivity = Sensitivity([client], np.eye(SIZE)[None])
    _, found = sensitivity.changed(point[None], np.zeros((1, SIZE)))
    np.testing.assert_allclose(found[0], np.linalg.inv(np.eye(SIZE) + hessian), rtol=1e-9)


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        (lambda x: (cp.sum_squares(x), [cp.norm1(x) <= 1]), "variables that stand nowhere else"),
        (lambda x: (cp.lambda_max(cp.diag(x)), []), "cones that its solver knows no Hessian on"),
        (lambda x: (cp.norm1(A @ x - B), []), "kinks at rows of data"),
        (lambda x: (cp.sum(cp.pos(1 - A @ x)) + cp.sum_squares(x), []), "kinks at rows of data"),
    ],
    ids=["extra variables", "cones", "absolute", "hinge"],
)
def test_what_has_no_manifold_says_why(stated: Callable[[cp.Variable], Stated], why: str) -> None:
    assert why in no_manifold(subproblem(stated))
