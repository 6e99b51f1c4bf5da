"""The problems of cvxpy's tutorial and example notebooks, small: name -> what makes one.

Written from their descriptions, with numbers drawn here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cvxpy as cp
import numpy as np

Make = Callable[[np.random.Generator], cp.Problem]
PROBLEMS: dict[str, Make] = {}


def stated(goal: Any, rules: Iterable[Any] = ()) -> cp.Problem:
    """A problem; comparisons with ``==`` are bool to type checkers."""
    return cp.Problem(goal, list(rules))


def problem(function: Make) -> Make:
    PROBLEMS[function.__name__.replace("_", " ")] = function
    return function


@problem
def least_squares(rng: np.random.Generator) -> cp.Problem:
    x, A, b = cp.Variable(6), rng.normal(size=(20, 6)), rng.normal(size=20)
    return stated(cp.Minimize(cp.sum_squares(A @ x - b)))


@problem
def linear_program(rng: np.random.Generator) -> cp.Problem:
    A, s, y = rng.normal(size=(12, 6)), rng.random(12), rng.random(12)
    x = cp.Variable(6)
    return stated(cp.Minimize(-(A.T @ y) @ x), [A @ x <= A @ rng.normal(size=6) + s])


@problem
def quadratic_program(rng: np.random.Generator) -> cp.Problem:
    P, G, x = rng.normal(size=(6, 6)), rng.normal(size=(8, 6)), cp.Variable(6)
    goal = 0.5 * cp.quad_form(x, P.T @ P) + rng.normal(size=6) @ x
    return stated(cp.Minimize(goal), [G @ x <= rng.random(8), np.ones((1, 6)) @ x == 0.1])


@problem
def second_order_cone_program(rng: np.random.Generator) -> cp.Problem:
    x, balls = cp.Variable(5), []
    for _ in range(3):
        A, b, c = rng.normal(size=(4, 5)), rng.normal(size=4), rng.normal(size=5)
        balls.append(cp.SOC(c @ x + 4 + np.linalg.norm(b), A @ x + b))
    return stated(cp.Minimize(rng.normal(size=5) @ x), [*balls, cp.norm(x) <= 3])


@problem
def semidefinite_program(rng: np.random.Generator) -> cp.Problem:
    X, C = cp.Variable((3, 3), symmetric=True), rng.normal(size=(3, 3))
    return stated(cp.Minimize(cp.trace((C + C.T) @ X)), [X >> 0, cp.trace(X) == 1])


@problem
def ridge_regression(rng: np.random.Generator) -> cp.Problem:
    A, b, w = rng.normal(size=(20, 5)), rng.normal(size=20), cp.Variable(5)
    return stated(cp.Minimize(cp.sum_squares(A @ w - b) + 2 * cp.sum_squares(w)))


@problem
def lasso(rng: np.random.Generator) -> cp.Problem:
    A, b, w = rng.normal(size=(30, 8)), rng.normal(size=30), cp.Variable(8)
    return stated(cp.Minimize(cp.sum_squares(A @ w - b) + 5 * cp.norm1(w)))


@problem
def huber_regression(rng: np.random.Generator) -> cp.Problem:
    A, w = rng.normal(size=(40, 4)), cp.Variable(4)
    b = A @ rng.normal(size=4) + rng.standard_t(1.5, size=40)
    return stated(cp.Minimize(cp.sum(cp.huber(A @ w - b, 1))))


@problem
def quantile_regression(rng: np.random.Generator) -> cp.Problem:
    A, w = np.column_stack([np.ones(40), rng.normal(size=(40, 3))]), cp.Variable(4)
    r = A @ rng.normal(size=4) + rng.normal(size=40) - A @ w
    return stated(cp.Minimize(cp.sum(0.5 * cp.abs(r) + (0.8 - 0.5) * r)))


@problem
def logistic_regression(rng: np.random.Generator) -> cp.Problem:
    A, w = rng.normal(size=(40, 4)), cp.Variable(4)
    y = np.where(A @ rng.normal(size=4) + rng.normal(size=40) > 0, 1.0, 0.0)
    loss = cp.sum(cp.multiply(y, A @ w) - cp.logistic(A @ w))
    return stated(cp.Maximize(loss / 40 - 0.1 * cp.norm(w, 1)))


@problem
def support_vector_machine(rng: np.random.Generator) -> cp.Problem:
    A, w, v = rng.normal(size=(40, 4)), cp.Variable(4), cp.Variable()
    y = np.sign(A @ rng.normal(size=4) + rng.normal(size=40))
    loss = cp.sum(cp.pos(1 - cp.multiply(y, A @ w - v)))
    return stated(cp.Minimize(loss / 40 + 0.1 * cp.norm(w, 1)))


@problem
def portfolio(rng: np.random.Generator) -> cp.Problem:
    F, mu, w = rng.normal(size=(8, 8)), np.abs(rng.normal(size=8)), cp.Variable(8)
    risk = cp.quad_form(w, F.T @ F + 0.1 * np.eye(8))
    return stated(cp.Maximize(mu @ w - risk), [cp.sum(w) == 1, w >= 0])


@problem
def worst_case_risk(rng: np.random.Generator) -> cp.Problem:
    S, w = cp.Variable((4, 4), PSD=True), rng.normal(size=4)
    F = rng.normal(size=(4, 4))
    nominal, D = F.T @ F, cp.Variable((4, 4), symmetric=True)
    rules = [nominal + D == S, cp.diag(D) == 0, cp.abs(D) <= 0.2]
    return stated(cp.Maximize(cp.sum(cp.multiply(np.outer(w, w), S))), rules)


@problem
def water_filling(rng: np.random.Generator) -> cp.Problem:
    x, a = cp.Variable(6), 0.2 + rng.random(6)
    return stated(cp.Maximize(cp.sum(cp.log(a + x))), [x >= 0, cp.sum(x) == 1])


@problem
def maximum_entropy(rng: np.random.Generator) -> cp.Problem:
    x, A = cp.Variable(8), rng.normal(size=(3, 8))
    start = rng.random(8)
    return stated(cp.Maximize(cp.sum(cp.entr(x))), [A @ x == A @ start, x <= 2])


@problem
def optimal_control(rng: np.random.Generator) -> cp.Problem:
    A, B = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2))
    x, u = cp.Variable((3, 9)), cp.Variable((2, 8))
    cost = cp.sum_squares(x) + cp.sum_squares(u)
    rules = [x[:, 1:] == A @ x[:, :-1] + B @ u, cp.abs(u) <= 1]
    return stated(cp.Minimize(cost), [*rules, x[:, 0] == rng.normal(size=3), x[:, 8] == 0])


@problem
def control_step_by_step(rng: np.random.Generator) -> cp.Problem:
    A, B = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2))
    x, u = cp.Variable((3, 9)), cp.Variable((2, 8))
    cost: Any = 0.0
    rules: list[Any] = []
    for t in range(8):
        cost += cp.sum_squares(x[:, t + 1]) + cp.sum_squares(u[:, t])
        rules += [x[:, t + 1] == A @ x[:, t] + B @ u[:, t], cp.norm(u[:, t], "inf") <= 1]
    return stated(cp.Minimize(cost), [*rules, x[:, 0] == rng.normal(size=3)])


@problem
def network_flow(rng: np.random.Generator) -> cp.Problem:
    A = np.zeros((5, 8))
    ends = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (0, 3)]
    for k, (i, j) in enumerate(ends):
        A[i, k], A[j, k] = -1, 1
    f, s = cp.Variable(8), np.array([-2.0, 0, 0, 0, 2])
    cost = rng.random(8) @ f + cp.sum_squares(f) / 4
    return stated(cp.Minimize(cost), [A @ f == s, f >= 0, f <= 1.5])


@problem
def total_variation(rng: np.random.Generator) -> cp.Problem:
    y = np.repeat(rng.normal(size=4), 8) + 0.2 * rng.normal(size=32)
    x = cp.Variable(32)
    return stated(cp.Minimize(cp.sum_squares(x - y) + cp.tv(x)))


@problem
def trend_filter(rng: np.random.Generator) -> cp.Problem:
    y, x = np.cumsum(rng.normal(size=30)), cp.Variable(30)
    D = np.diff(np.eye(30), 2, axis=0)
    return stated(cp.Minimize(0.5 * cp.sum_squares(y - x) + 3 * cp.norm(D @ x, 1)))


@problem
def sparse_covariance(rng: np.random.Generator) -> cp.Problem:
    Y = rng.normal(size=(40, 4))
    C, S = np.cov(Y.T), cp.Variable((4, 4), PSD=True)
    goal = cp.log_det(S) - cp.trace(S @ C)
    return stated(cp.Maximize(goal), [cp.sum(cp.abs(S)) <= 8])


@problem
def matrix_completion(rng: np.random.Generator) -> cp.Problem:
    M, X = np.outer(rng.normal(size=5), rng.normal(size=5)), cp.Variable((5, 5))
    known = rng.random((5, 5)) < 0.7
    return stated(cp.Minimize(cp.normNuc(X)), [cp.multiply(known, X) == known * M])


@problem
def chebyshev_centre(rng: np.random.Generator) -> cp.Problem:
    A, r, x = rng.normal(size=(10, 3)), cp.Variable(), cp.Variable(3)
    lengths = np.linalg.norm(A, axis=1)
    return stated(cp.Maximize(r), [A @ x + r * lengths <= 1, cp.abs(x) <= 5])


@problem
def geometric_median(rng: np.random.Generator) -> cp.Problem:
    points, x = rng.normal(size=(7, 2)), cp.Variable(2)
    return stated(cp.Minimize(sum(cp.norm(x - p) for p in points)))


@problem
def optimal_advertising(rng: np.random.Generator) -> cp.Problem:
    m, n = 4, 6
    R, T = rng.random((m, n)), 1 + rng.random(n)
    D, c, S = cp.Variable((m, n)), rng.random(m), 0.5 + rng.random(m)
    income = cp.sum([cp.minimum(R[i] @ D[i], S[i]) for i in range(m)])
    rules = [D >= 0, cp.sum(D, axis=0) <= T, cp.sum(D, axis=1) >= 0.2 * c]
    return stated(cp.Maximize(income), rules)


@problem
def censored_data(rng: np.random.Generator) -> cp.Problem:
    X, w = rng.normal(size=(40, 5)), cp.Variable(5)
    y = X @ rng.normal(size=5) + 0.3 * rng.normal(size=40)
    seen = y < 0.5
    return stated(cp.Minimize(cp.sum_squares(X[seen] @ w - y[seen])), [X[~seen] @ w >= 0.5])


@problem
def fault_detection(rng: np.random.Generator) -> cp.Problem:
    A, x = rng.normal(size=(20, 10)), cp.Variable(10)
    y = A @ (rng.random(10) < 0.2) + 0.3 * rng.normal(size=20)
    goal = cp.sum_squares(A @ x - y) + 0.5 * cp.sum(x)
    return stated(cp.Minimize(goal), [x >= 0, x <= 1])


@problem
def experiment_design(rng: np.random.Generator) -> cp.Problem:
    V, lam = rng.normal(size=(3, 8)), cp.Variable(8)
    goal = cp.log_det(sum(lam[i] * np.outer(V[:, i], V[:, i]) for i in range(8)))
    return stated(cp.Maximize(goal), [cp.sum(lam) == 1, lam >= 0])


@problem
def largest_cut(rng: np.random.Generator) -> cp.Problem:
    W = np.triu(rng.random((5, 5)), 1)
    L = np.diag((W + W.T).sum(axis=1)) - (W + W.T)
    X = cp.Variable((5, 5), PSD=True)
    return stated(cp.Maximize(cp.trace(L @ X) / 4), [cp.diag(X) == 1])


@problem
def cvar_portfolio(rng: np.random.Generator) -> cp.Problem:
    R, w = 0.05 + 0.2 * rng.normal(size=(30, 4)), cp.Variable(4)
    risk = cp.cvar(-R @ w, 0.9)
    return stated(cp.Minimize(risk - R.mean(axis=0) @ w), [cp.sum(w) == 1, w >= 0])


@problem
def robust_approximation(rng: np.random.Generator) -> cp.Problem:
    A, b, x = rng.normal(size=(10, 4)), rng.normal(size=10), cp.Variable(4)
    return stated(cp.Minimize(cp.norm(A @ x - b) + 0.3 * cp.norm(x)))


@problem
def infinity_norm_fit(rng: np.random.Generator) -> cp.Problem:
    A, b, x = rng.normal(size=(12, 4)), rng.normal(size=12), cp.Variable(4)
    return stated(cp.Minimize(cp.norm(A @ x - b, "inf")))


@problem
def poisson_rates(rng: np.random.Generator) -> cp.Problem:
    A, x = rng.random((20, 4)), cp.Variable(4)
    k = rng.poisson(A @ np.full(4, 2.0)).astype(float)
    rate = A @ x
    return stated(cp.Maximize(cp.sum(cp.multiply(k, cp.log(rate)) - rate)), [x >= 0])


@problem
def fisher_market(rng: np.random.Generator) -> cp.Problem:
    U, X = rng.random((4, 3)), cp.Variable((4, 3), nonneg=True)
    utility = cp.sum(cp.log(cp.sum(cp.multiply(U, X), axis=1)))
    return stated(cp.Maximize(utility), [cp.sum(X, axis=0) <= 1])


@problem
def transport(rng: np.random.Generator) -> cp.Problem:
    C, T = rng.random((3, 4)), cp.Variable((3, 4), nonneg=True)
    rules = [cp.sum(T, axis=1) == np.array([1.0, 2, 1]), cp.sum(T, axis=0) == np.ones(4)]
    return stated(cp.Minimize(cp.sum(cp.multiply(C, T))), rules)
