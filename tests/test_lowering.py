r"""Clients as arrays, against cvxpy's own values, violations, minimisers and dual values.

Nothing here knows how a form is found. A form says what a client is, so at every point its
objective and its violation are cvxpy's; and with any augmented terms added the minimiser and the
multipliers are those of cvxpy's solve of the user's problem. A function that is taken for another
is a wrong answer, hence the many that are nearly one of those that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.curvature import hessian, probed_hessian
from dald_model.declare.client import declare_client
from dald_model.solvers import Answers, Choice, Turn
from dald_model.solvers.base import FOUND
from dald_model.values import flat, largest, number

untyped: Any = cp
"""Where cvxpy's annotations are narrower than cvxpy."""

RNG = np.random.default_rng(7)
A = RNG.normal(size=(8, 3))
b = RNG.normal(size=8)
F = RNG.normal(size=(3, 3))
W = RNG.random(8) + 0.5
SPD = F @ F.T + np.eye(3)
LONG = RNG.normal(size=(2, 6))
GAP = 1e-8

Share = tuple[Any, Sequence[Any]]
Make = Callable[[], Share]
CLIENTS: dict[str, tuple[set[str] | None, Make]] = {}
"""Name -> kinds of terms that the form must have, or None where it need not be complete."""
DUALS: list[str] = []
"""Clients whose dual values are unique."""


def known(kinds: str | None) -> set[str] | None:
    if kinds == "square ball":
        return {kinds}
    return None if kinds is None else set(kinds.split())


def client(kinds: str | None, *, duals: bool = False) -> Callable[[Make], Make]:
    def enter(make: Make) -> Make:
        name = make.__name__.removeprefix("_")
        CLIENTS[name] = (known(kinds), make)
        if duals:
            DUALS.append(name)
        return make

    return enter


def plain(name: str, kinds: str | None, make: Callable[[Any], Any], size: int = 3) -> None:
    """A client with a function of one vector variable and a quadratic."""

    def share() -> Share:
        x = cp.Variable(size)
        made = make(x)
        cost, rules = made if isinstance(made, tuple) else (made, [])
        return cost + cp.sum_squares(x - 0.3) / 4, rules

    CLIENTS[name] = (known(kinds), share)
    if isinstance(make(cp.Variable(size)), tuple):
        DUALS.append(name)


def matrix(x: Any) -> Any:
    """An affine 2 x 3 matrix of a vector of three."""
    return cp.vstack([x, 2 * x[::-1] - 1])


# --- functions that are known
plain("least squares", "", lambda x: cp.sum_squares(A @ x - b))
plain("few rows of many columns", "", lambda x: cp.sum_squares(LONG @ x - 1), 6)
plain("squares by hand", "", lambda x: cp.sum(cp.square(A @ x - b)) + 3)
plain("weighted squares", "", lambda x: W @ cp.square(A @ x - b))
plain("quadratic form", "", lambda x: cp.quad_form(x - 1, SPD) / 2 - x[0])
plain("singular form", "", lambda x: cp.quad_form(A @ x, cp.psd_wrap(np.ones((8, 8)))))
plain("form in Maximize", "", lambda x: -1 * (-2 * cp.quad_form(x, SPD)))
plain("negative form", "", lambda x: -cp.quad_form(x, -SPD))
plain("zero form", None, lambda x: cp.quad_form(x, np.zeros((3, 3))))
plain("quad_over_lin of a constant", "", lambda x: cp.quad_over_lin(A @ x - b, 2.5))
plain("norm squared", None, lambda x: cp.square(cp.norm(A @ x - b)))
plain("Frobenius squared", "", lambda x: cp.sum_squares(cp.outer(x, np.ones(2)) - F[:, :2]))
plain("logistic", "logistic", lambda x: cp.sum(cp.logistic(A @ x - b)))
plain("weighted logistic", "logistic", lambda x: W @ cp.logistic(-cp.multiply(b, A @ x)))
plain("logistic of entries", "logistic", lambda x: 2 * cp.logistic(x[0]) + cp.logistic(x[0] - x[1]))
plain("log_sum_exp", "logsumexp", lambda x: cp.log_sum_exp(A @ x - b))
plain("log_sum_exp of rows", "logsumexp", lambda x: cp.sum(cp.log_sum_exp(matrix(x), axis=1)))
plain("log_sum_exp of columns", "logsumexp", lambda x: cp.sum(cp.log_sum_exp(matrix(x), axis=0)))
plain("huber", "huber", lambda x: cp.sum(untyped.huber(A @ x - b)))
plain("huber of another width", "huber", lambda x: W @ untyped.huber(A @ x - b, 0.3))
plain(
    "two hubers",
    "huber",
    lambda x: cp.sum(untyped.huber(x, 0.1)) + cp.sum(untyped.huber(3 * x - 1, 2)),
)
plain("exp", "exp", lambda x: W @ cp.exp(A @ x - b))
plain("squared hinge", "hinge", lambda x: cp.sum(cp.square(cp.pos(1 - A @ x))))
plain("weighted squared hinge", "hinge", lambda x: W @ cp.square(cp.pos(b - A @ x)))
plain("lasso", "abs", lambda x: cp.sum_squares(A @ x - b) + 0.7 * cp.norm1(x))
plain("hinge", "abs", lambda x: cp.sum(cp.pos(1 - A @ x)))
plain("quantile", "abs", lambda x: cp.sum(0.3 * cp.pos(A @ x - b) + 0.7 * cp.neg(A @ x - b)))
plain("maximum of two", "abs", lambda x: cp.sum(cp.maximum(A @ x - b, 2 * (A @ x) + 1)))
plain("max of two", "abs", lambda x: cp.max(x[:2]))
plain("minimum of two", "abs", lambda x: -cp.sum(cp.minimum(A @ x - b, 1)))
plain("norm1 of a matrix", "abs", lambda x: cp.norm1(cp.vec(matrix(x), order="F")))
plain("fused lasso", "abs", lambda x: cp.tv(x), 4)
plain("max and abs", "abs", lambda x: cp.max(x[:2]) + cp.abs(x[2]))
plain("abs and max", "abs", lambda x: cp.abs(x[2]) + cp.max(x[:2]))
plain("two maxima", "abs", lambda x: cp.max(x[:2]) + cp.max(x[2:]), 4)
plain("maxima of products", "abs", lambda x: cp.max(A[:2] @ x) + cp.max(A[2:4] @ x - b[2:4]))
plain("group lasso", "norm", lambda x: cp.norm(x[:2]) + 2 * cp.norm(x[1:]))
plain("mixed norm", "norm", lambda x: cp.sum(cp.norm(matrix(x), axis=1)))
plain("mixed norm of columns", "norm", lambda x: cp.sum(cp.norm(matrix(x) - 1, axis=0)))
plain("norm of scaled rows", "norm", lambda x: cp.norm(cp.multiply(np.array([1.0, -4, 9]), x) - 1))
plain("ball", "ball", lambda x: (cp.sum(x), [cp.norm(x - 1) <= 0.5]))
plain("ball of squares", "square ball", lambda x: (cp.sum(x), [cp.sum_squares(x - 1) <= 0.25]))
plain("scaled ball", "ball", lambda x: (cp.sum(x), [2 * cp.norm(A @ x - b) <= 9]))
plain("half a ball", None, lambda x: (cp.sum(x), [cp.sum_squares(x) / 2 <= 0.1]))
plain("three balls of squares", None, lambda x: (cp.sum(x), [3 * cp.sum_squares(x) <= 0.1]))
plain("ball on the left", "ball", lambda x: (cp.sum(x), [cp.Constant(0.25) >= cp.norm(x)]))
plain("ball with a constant", "ball", lambda x: (cp.sum(x), [cp.norm(x) - 1 <= -0.7]))
plain("wide ball", "ball", lambda x: (cp.sum(x), [cp.norm(x) <= 100]))
plain("linear rows", "", lambda x: (cp.sum(A @ x), [A @ x <= 2 + np.abs(b), x[0] == 0.1]))
plain("scalar row", "", lambda x: (-cp.sum(x), [cp.sum(x) <= 0.2]))
plain("matrix row", "", lambda x: (-cp.sum(x), [matrix(x) <= 0.1 + np.arange(6).reshape(2, 3) / 9]))
plain("matrix equality", "", lambda x: (x[2], [cp.reshape(x[:2], (1, 2), order="F") == 0.1]))
plain("both sides", "", lambda x: (-cp.sum(x), [cp.cumsum(x) <= 0.4 - x[::-1]]))
plain("rows of zeros", "", lambda x: (x[0], [0 * x <= 1, x >= -0.1]))
plain("no rows", "", lambda x: (x[0], [x[:0] <= 0]))
plain("no rows of data", "", lambda x: (x[0], [np.zeros((0, 3)) @ x <= np.zeros(0), x[1] >= 1]))
plain("constant row that holds", "", lambda x: (x[0], [cp.Constant(0) <= 1, x <= 0.1]))
plain("repeated terms", "abs", lambda x: cp.norm1(x) + cp.norm1(x) + 2 * cp.norm1(x - 1))
plain("zero weight", None, lambda x: 0 * cp.norm1(x) + 0 * cp.sum(cp.exp(x)))
plain("zero weight outside of a domain", None, lambda x: 0 * cp.sum(cp.inv_pos(x)))
plain("zero weights among others", None, lambda x: np.array([0, 1.0, 2]) @ cp.abs(x))
plain("kept constants", "logistic", lambda x: 5 + cp.sum(cp.logistic(x + 1)) - np.ones(3) @ (x + 2))
plain("power 1", None, lambda x: cp.sum(cp.power(x, 1)))
plain("power 2", "", lambda x: cp.sum(cp.power(x - 1, 2)))


@client("log")
def _log() -> Share:
    x = cp.Variable(3)
    return -W[:3] @ cp.log(x + 2) + cp.sum_squares(x), []


@client("entropy")
def _entropy() -> Share:
    x = cp.Variable(3)
    return -W[:3] @ cp.entr(2 * x + 1) + cp.sum_squares(x), []


@client("entropy")
def _kl_div_from_a_constant() -> Share:
    x = cp.Variable(3)
    return cp.sum(cp.kl_div(x, W[:3])) + cp.sum(cp.rel_entr(x, 2.0)), []


@client("log")
def _kl_div_to_a_constant() -> Share:
    x = cp.Variable(3)
    return cp.sum(cp.kl_div(1.0, x + 1)) + cp.sum_squares(x), []


@client("", duals=True)
def _attributes() -> Share:
    x = cp.Variable(3, nonneg=True)
    y = cp.Variable(2, nonpos=True)
    z = cp.Variable(3, bounds=[np.array([-1.0, -np.inf, 0.1]), np.array([0.5, 0.3, np.inf])])
    return cp.sum_squares(x - b[:3]) + cp.sum_squares(y - 1) + cp.sum_squares(z - 2), [x[0] <= 1]


@client("")
def _symmetric() -> Share:
    S = cp.Variable((3, 3), symmetric=True)
    return cp.sum_squares(S - F) + cp.trace(F @ S), [cp.sum(S) == 1]


@client("")
def _diagonal() -> Share:
    D = cp.Variable((3, 3), diag=True)
    return cp.sum_squares(D - F) + cp.trace(F @ D), [cp.sum(D) <= 1]


@client("", duals=True)
def _several_variables() -> Share:
    x, y, Z = cp.Variable(3), cp.Variable(), cp.Variable((2, 3))
    cost = cp.sum_squares(A @ x - b + y) + cp.sum_squares(Z @ F) + cp.sum(Z)
    return cost, [Z[0] + x <= y, cp.sum(Z) == y]


@client("abs norm logistic", duals=True)
def _everything() -> Share:
    x, y = cp.Variable(3), cp.Variable(2)
    cost = cp.norm1(x) + cp.norm(x - 2) + cp.sum(cp.logistic(y - x[:2])) + cp.sum_squares(y)
    return cost, [cp.sum(x) + cp.sum(y) <= 0.3]


@client("")
def _objective_of_zero() -> Share:
    x = cp.Variable(3)
    return cp.Constant(0), [x >= 0.1, cp.sum(x) == 1]


@client("")
def _objective_of_a_constant() -> Share:
    x = cp.Variable(3)
    return cp.Constant(4.5), [x >= 0.1]


@client("")
def _zero_dimensional() -> Share:
    x = cp.Variable()
    return cp.square(x - 1) + cp.square(x), [x <= 0.3, x >= -1]


@client("abs logistic")
def _one_element() -> Share:
    x = cp.Variable((1, 1))
    return cp.norm1(x) + cp.sum(cp.logistic(x - 1)) + cp.sum_squares(x - 2), [x <= 0.3]


@client("")
def _maximised() -> Share:
    x = cp.Variable(3)
    return cp.Maximize(b[:3] @ x - cp.quad_form(x, SPD)), [x <= 1]


@client("log")
def _maximised_logarithms() -> Share:
    x = cp.Variable(3)
    return cp.Maximize(cp.sum(cp.log(x + 2)) - cp.sum_squares(x)), []


@client("")
def _parameters() -> Share:
    x = cp.Variable(3)
    P, q = cp.Parameter((8, 3), value=A), cp.Parameter(nonneg=True, value=2.0)
    return cp.sum_squares(P @ x - b) + q * cp.sum_squares(x - 1), [cp.sum(x) <= q / 9]


# --- functions that look like the known ones
plain("abs with unequal slopes", None, lambda x: cp.sum(cp.maximum(-2 * x, 0.5 * x + 0.1)))
plain("max of three", None, lambda x: cp.sum(cp.maximum(x, -x, 0.5)))
plain("max of all", None, lambda x: cp.max(A @ x - b))
plain("max of one", None, lambda x: cp.max(x[:1]) + cp.maximum(x[1], 2 * x[1] - x[1]))
plain(
    "huber of an array",
    None,
    lambda x: cp.sum(untyped.huber(x, 0.5)) + cp.sum(untyped.huber(x, 0.4)),
)
plain(
    "huber with a Parameter",
    None,
    lambda x: cp.sum(untyped.huber(x, cp.Parameter(nonneg=True, value=0.4))),
)
plain("huber of huber", None, lambda x: cp.sum(untyped.huber(untyped.huber(x, 0.5))))
plain("log(2 + e^x)", None, lambda x: cp.log_sum_exp(cp.hstack([x[0], np.log(2)])))
plain("log(1 + 1 + e^x)", None, lambda x: cp.log_sum_exp(cp.hstack([x[0], 0, 0])))
plain("log(1 + e^x) by hand", None, lambda x: cp.log_sum_exp(cp.hstack([x[0], 0])))
plain("scaled log_sum_exp", None, lambda x: 3 * cp.log_sum_exp(2 * x + 1) - 2)
plain("log_sum_exp of one", None, lambda x: cp.log_sum_exp(x[:1]))
plain(
    "log_sum_exp of functions",
    None,
    lambda x: cp.log_sum_exp(cp.hstack([cp.abs(x[0]), cp.square(x[1])])),
)
plain("logistic of a function", None, lambda x: cp.sum(cp.logistic(cp.abs(x) - 1)))
plain("exp of a function", None, lambda x: cp.sum(cp.exp(cp.square(x) - 1)))
plain("exp of exp", None, lambda x: cp.sum(cp.exp(0.3 * cp.exp(x / 3))))
plain("perspective of exp", None, lambda x: cp.sum(cp.maximum(cp.exp(x), 1.0)))
plain("norm of one element", None, lambda x: cp.norm(x[:1]) + cp.norm(x[1:2] - 1, 2))
plain("norm_inf", None, lambda x: cp.norm_inf(A @ x - b))
plain("norm of functions", None, lambda x: cp.norm(cp.hstack([cp.abs(x[0]), cp.pos(x[1]), 1])))
plain("norm with a constant", None, lambda x: cp.norm(cp.hstack([x, 1])))
plain("norm of order 3", None, lambda x: untyped.pnorm(x, 3))
plain("norm of order 1.5", None, lambda x: untyped.pnorm(x - 1, 1.5))
plain("Frobenius norm", None, lambda x: cp.norm(matrix(x), "fro"))
plain("spectral norm", None, lambda x: cp.norm(matrix(x), 2))
plain("nuclear norm", None, lambda x: cp.norm(matrix(x), "nuc"))
plain("induced norm", None, lambda x: cp.norm(matrix(x), 1))
plain("mixed norm 1 inf", None, lambda x: untyped.mixed_norm(matrix(x), 1, np.inf))
plain("quad_over_lin", None, lambda x: cp.quad_over_lin(x[:2], x[2] + 3))
plain("power 1.5", None, lambda x: cp.sum(cp.power(x + 1, 1.5)))
plain("power 3", None, lambda x: cp.sum(cp.power(x + 1, 3)))
plain("power 4", None, lambda x: cp.sum(cp.power(x, 4)))
plain("power -1", None, lambda x: cp.sum(cp.power(x + 2, -1)))
plain("power of abs", None, lambda x: cp.sum(cp.square(cp.abs(x) + 1)))
plain("square of maximum", None, lambda x: cp.sum(cp.square(cp.maximum(x, 0.5))))
plain("square of maximum of two", None, lambda x: cp.square(cp.maximum(x[0], x[1], 0)))
plain("square of abs", None, lambda x: cp.sum(cp.square(cp.abs(x - 1))))
plain("square of norm1", None, lambda x: cp.square(cp.norm1(x)))
plain("square of a square", None, lambda x: cp.sum(cp.square(cp.square(x))))
plain("inv_pos", None, lambda x: cp.sum(cp.inv_pos(x + 2)))
plain("kl_div of two", None, lambda x: cp.kl_div(x[0] + 1, x[1] + 1))
plain("rel_entr of two", None, lambda x: cp.rel_entr(x[0] + 1, x[1] + 1) + cp.rel_entr(1, x[2] + 2))
plain("log_det", None, lambda x: -cp.log_det(np.eye(3) + cp.diag(x) / 9))
plain("geo_mean", None, lambda x: -cp.geo_mean(x + 2))
plain("sum_largest", None, lambda x: cp.sum_largest(A @ x, 2))
plain("lambda_max", None, lambda x: cp.lambda_max(cp.diag(x) + SPD))
plain("total variation", None, lambda x: cp.tv(matrix(x)))
plain("matrix_frac", None, lambda x: cp.matrix_frac(x, SPD))
plain("log of concave", None, lambda x: -cp.log(cp.sqrt(x[0] + 2) + cp.minimum(x[1], 1) + 3))
plain("log1p", None, lambda x: -cp.sum(cp.log1p(x + 1)))
plain("xexp", None, lambda x: cp.sum(cp.logistic(x)) + cp.sum(cp.exp(x)) + cp.norm(x) + cp.norm1(x))
plain("sum of hinge and linear", None, lambda x: cp.sum(cp.square(cp.pos(x)) + cp.pos(x) + x))
plain(
    "indefinite by rounding", None, lambda x: cp.quad_form(x, cp.psd_wrap(np.ones((3, 3)) - 1e-13))
)
plain("ball of norm1", None, lambda x: (cp.sum(x), [cp.norm1(x) <= 0.4]))
plain("ball of norm_inf", None, lambda x: (cp.sum(x), [cp.norm_inf(x) <= 0.4]))
plain("moving ball", None, lambda x: (cp.sum(x), [cp.norm(x[:2]) <= x[2] + 1]))
plain("moving ball of squares", None, lambda x: (cp.sum(x), [cp.sum_squares(x[:2]) <= x[2] + 1]))
plain("ball and norm", None, lambda x: (cp.norm(x - 1), [cp.norm(x) <= 0.3]))
plain("sum of two norms", None, lambda x: (cp.sum(x), [cp.norm(x[:2]) + cp.norm(x[1:]) <= 0.6]))
plain("ball of a sum of squares", None, lambda x: (cp.sum(x), [cp.quad_over_lin(x, 2) <= 0.2]))
plain("ball of a form", None, lambda x: (cp.sum(x), [cp.quad_form(x, SPD) <= 0.2]))
plain(
    "ball of a form and a line", None, lambda x: (cp.sum(x), [cp.quad_form(x, SPD) + x[0] <= 0.2])
)
plain("squares in rows", None, lambda x: (cp.sum(x), [cp.square(x) <= np.array([0.1, 0.2, 5])]))
plain("exp in rows", None, lambda x: (-cp.sum(x), [cp.exp(x) <= 1.2]))
plain("log in rows", None, lambda x: (cp.sum(x), [cp.log(x + 2) >= 0.8]))
plain("logistic in rows", None, lambda x: (-cp.sum(x), [cp.sum(cp.logistic(x)) <= 2]))
plain("abs in rows", None, lambda x: (-cp.sum(x), [cp.abs(x) <= 0.1 * np.arange(1, 4)]))
plain("maxima in rows", None, lambda x: (-cp.sum(x), [cp.max(x) <= 0.2, cp.min(x) >= -1]))
plain("cone SOC", None, lambda x: (cp.sum(x), [cp.SOC(0.4, x)]))
plain(
    "cone SOC of columns",
    None,
    lambda x: (cp.sum(x), [cp.SOC(np.array([0.3, 0.4]), cp.vstack([x[:2], x[1:]]), axis=0)]),
)
plain(
    "cone SOC of rows",
    None,
    lambda x: (cp.sum(x), [cp.SOC(np.array([0.3, 0.4]), cp.vstack([x[:2], x[1:]]), axis=1)]),
)
plain("cone of exponentials", None, lambda x: (x[2], [cp.ExpCone(x[0], x[1] + 1, x[2])]))
plain("cone of powers", None, lambda x: (-x[2], [cp.PowCone3D(x[0] + 1, x[1] + 1, x[2], 0.3)]))
plain(
    "cone of several powers",
    None,
    lambda x: (-x[2], [cp.PowConeND(cp.hstack([x[0], x[1], 1]), x[2], np.array([0.2, 0.3, 0.5]))]),
)
plain("cone of matrices", None, lambda x: (cp.sum(x), [cp.diag(x) + SPD / 9 >> 0.1 * np.eye(3)]))
plain(
    "constraint classes",
    None,
    lambda x: (
        cp.sum(x),
        [untyped.constraints.NonNeg(x + 0.1), untyped.constraints.Zero(x[0] - 0.2)],
    ),
)


@client(None)
def _semidefinite_variable() -> Share:
    S = cp.Variable((3, 3), PSD=True)
    return cp.sum_squares(S - F), [cp.trace(S) == 1]


@client(None)
def _sign_of_an_affine_part() -> Share:
    x, y = cp.Variable(3), cp.Variable(nonneg=True)
    return cp.square(cp.sum_squares(x) + y) + cp.sum(x), []


@client(None, duals=True)
def _matrix_variable_with_a_cone() -> Share:
    X = cp.Variable((2, 3))
    return cp.sum_squares(X - F[:2]) + cp.norm(X, "nuc"), [cp.sum(X, axis=0) == 1, X[0] <= 0.5]


@client(None)
def _shared_expression() -> Share:
    x = cp.Variable(3)
    size = cp.norm(x - 1)
    return size + cp.square(size), [size <= 1.2]


def whole(make: Make) -> Subproblem:
    """The client as a subproblem whose edges tie all its variables, its names kept."""
    cost, rules = make()
    return compiled(cost, rules)["client"]


def compiled(cost: Any, rules: Sequence[Any]) -> dm.Compiled:
    model = dm.Model("one")
    model.client("client", cost, list(rules))
    goal = cost if isinstance(cost, cp.Minimize | cp.Maximize) else cp.Minimize(cost)
    variables = {v.id: v for part in (goal, *rules) for v in part.variables()}
    copies = {key: cp.Variable(v.shape) for key, v in variables.items()}
    other: Any = sum(cp.sum_squares(v) for v in copies.values())
    model.client("other", cp.Maximize(-other) if isinstance(goal, cp.Maximize) else other)
    model.consensus(*[variables[key] == copies[key] for key in variables])
    return model.compile()


def turn(sub: Subproblem, seed: int) -> Turn:
    rng = np.random.default_rng(seed)
    q = sub.entries.size
    return Turn(np.zeros(1, int), rng.normal(size=q), 1 + rng.random(q), rng.normal(size=q) / 2)


def by_cvxpy(sub: Subproblem, given: Turn) -> tuple[np.ndarray, float, list[Any]]:
    """Point, augmented Lagrangian and dual values of the user's own constraints."""
    sub.set(given.mu, given.rho, given.neighbours)
    options: dict[str, Any] = {"tol_gap_abs": GAP, "tol_gap_rel": GAP, "tol_feas": GAP}
    sub.problem.solve(solver=cp.CLARABEL, **options)
    assert sub.problem.status == "optimal"
    duals = [[d.value for d in rule.dual_variables] for rule in sub.client.constraints]
    return sub.point(), number(sub.problem.value), duals


def native(cones: Any) -> tuple[Any, list[Any]]:
    """Clarabel's module, which declares no types, and its cones."""
    kinds: Any = clarabel
    made = []
    for kind, argument in cones:
        if kind == "GenPowerConeT":
            made.append(kinds.GenPowerConeT(list(argument), 1))
        else:
            made.append(getattr(kinds, kind)(*([] if argument is None else [argument])))
    return kinds, made


def by_clarabel(sub: Subproblem, given: Turn) -> tuple[np.ndarray, float, Any]:
    """The form's cone program with the augmented terms, given to Clarabel by hand."""
    cone, (G, g) = sub.form.cone, sub.sides
    n, m = cone.linear.size, sub.size
    weight = given.rho**2
    K = sp.block_array(
        [[2 * G.T @ sp.diags_array(weight) @ G, None], [None, sp.csr_array((n - m, n - m))]]
    )
    c = np.zeros(n)
    c[:m] = G.T @ (sub.signs * given.mu + 2 * weight * (g - given.neighbours))
    gap = g - given.neighbours
    constant = given.mu @ (sub.signs * gap) + weight @ gap**2
    kinds, cones = native(cone.cones)
    settings = kinds.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = GAP
    P = sp.csc_array(sp.triu(cone.matrix + K, format="csc"))
    found = kinds.DefaultSolver(P, cone.linear + c, cone.rows, cone.right, cones, settings).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x)[:m], found.obj_val + cone.constant + constant, np.array(found.z)


def first_answer(sub: Subproblem, given: Turn, tolerance: float) -> Answers:
    """That of the first of the client's solvers that has one, else that of the last."""
    tried = (solver.open([sub]).minimise(given, tolerance) for solver in Choice("auto").chain(sub))
    answers = next(tried)
    while answers.statuses[0] not in FOUND:
        following = next(tried, None)
        if following is None:
            break
        answers = following
    return answers


def allowed(given: Turn, value: float) -> float:
    r"""How far two points may be apart, both within GAP of the optimum.

    The augmented terms make it strongly convex with modulus :math:`2 \min \rho^2`.
    """
    modulus = 2 * given.rho.min() ** 2
    return 2 * np.sqrt(2 * 10 * GAP * max(1.0, abs(value)) / modulus)


def compare_duals(ours: Any, theirs: Any, atol: float = 2e-4) -> None:
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs, strict=True):
        assert len(one) == len(two)
        for a, c in zip(one, two, strict=True):
            assert np.shape(a) == np.shape(c)
            np.testing.assert_allclose(flat(a), flat(c), atol=atol, rtol=1e-3)


def points_of(sub: Subproblem, count: int = 30) -> Any:
    """Random points of several sizes that attributes allow, half of them positive."""
    rng = np.random.default_rng(11)
    for at in range(count):
        scale = (0.1, 1.0, 10.0)[at % 3]
        for v in sub.variables:
            raw = scale * rng.normal(size=v.shape)
            v.save_value(v.project(np.abs(raw) if at % 2 else raw))
        yield np.concatenate([flat(v.value) for v in sub.variables])


def is_plain(sub: Subproblem) -> bool:
    """Whether the form describes the client at every point, without further variables."""
    return sub.form is not None and sub.form.complete and not getattr(sub.form, "extra", 0)


@pytest.mark.parametrize(
    "name", [name for name, (kinds, _) in CLIENTS.items() if kinds is not None]
)
def test_a_known_client_is_recognised(name: str) -> None:
    kinds, make = CLIENTS[name]
    sub = whole(make)
    assert sub.form is not None
    assert sub.form.complete
    assert {term.kind.name for term in sub.form.terms} == kinds


@pytest.mark.parametrize("name", CLIENTS)
def test_a_recognised_client_has_the_values_and_violations_of_cvxpy(name: str) -> None:
    sub = whole(CLIENTS[name][1])
    if not is_plain(sub):
        assert CLIENTS[name][0] is None
        return
    form = sub.form
    assert form is not None
    with np.errstate(all="ignore"):
        for point in points_of(sub):
            value = sub.client.cost.value
            theirs = np.nan if value is None else float(flat(value)[0])
            ours = form.objective(point)
            if np.isfinite(theirs):
                assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-10)
            else:
                assert not np.isfinite(ours)
            # cvxpy's `violation` of its class NonNeg is a norm; what a row misses is meant
            stated = [largest(rule.residual) for rule in sub.client.constraints]
            assert form.violation(point) == pytest.approx(
                max(stated, default=0), abs=1e-10, rel=1e-10
            )


@pytest.mark.parametrize("name", CLIENTS)
def test_the_cone_program_of_a_client_has_the_answer_of_cvxpy(name: str) -> None:
    sub = whole(CLIENTS[name][1])
    if sub.form is None:
        assert CLIENTS[name][0] is None
        return
    if name == "zero weight outside of a domain":
        pytest.skip("nothing holds its cone: Clarabel gives three digits, whoever asks it")
    given = turn(sub, 3)
    point, value, duals = by_cvxpy(sub, given)
    mine, objective, multipliers = by_clarabel(sub, given)
    assert objective == pytest.approx(value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(mine, point, rtol=0, atol=allowed(given, value))
    found = sub.cone_duals(multipliers)
    if name in DUALS:
        compare_duals(found, duals)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_solver_of_a_client_has_the_answer_of_cvxpy(name: str) -> None:
    sub = whole(CLIENTS[name][1])
    for seed in (3, 4):
        given = turn(sub, seed)
        point, value, duals = by_cvxpy(sub, given)
        answers = first_answer(sub, given, 1e-7)
        assert answers.statuses[0] in FOUND
        np.testing.assert_allclose(answers.points, point, rtol=0, atol=allowed(given, value) + 1e-6)
        if name in DUALS:
            compare_duals(answers.duals(0), duals, atol=1e-3)


# --- what clients share, and what they must not


def lowered(*shares: Share) -> tuple[Lowering, list[Any]]:
    """Several clients by one Lowering, as the clients of a model are."""
    lowering = Lowering()
    clients = [declare_client(at, *share) for at, share in enumerate(shares)]
    return lowering, [(one, lowering(one)) for one in clients]


def same_minimiser(one: Any, found: Any, seed: int = 0) -> None:
    """The cone program's minimiser with a linear and a quadratic term is cvxpy's."""
    assert found is not None
    rng = np.random.default_rng(seed)
    cone, m = found.form.cone, found.form.size
    c = rng.normal(size=m)
    stacked = cp.hstack([cp.vec(v, order="F") for v in one.variables])
    goal = one.cost + c @ stacked + cp.sum_squares(stacked)
    problem = cp.Problem(cp.Minimize(goal), list(one.constraints))
    problem.solve(solver=cp.CLARABEL)
    # Strongly convex with modulus 2: as far as the roots of the two gaps
    apart = 2 * np.sqrt(1e-7 * max(1.0, abs(number(problem.value))))
    theirs = np.concatenate([flat(v.value) for v in one.variables])
    v, full = cp.Variable(cone.linear.size), np.zeros(cone.linear.size)
    full[:m] = c
    kinds, cones = native(cone.cones)
    settings = kinds.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-7
    extra = sp.diags_array(np.where(np.arange(v.size) < m, 2.0, 0.0))
    P = sp.csc_array(sp.triu(cone.matrix + extra, format="csc"))
    answer = kinds.DefaultSolver(
        P, cone.linear + full, cone.rows, cone.right, cones, settings
    ).solve()
    assert str(answer.status) == "Solved"
    np.testing.assert_allclose(np.array(answer.x)[:m], theirs, rtol=0, atol=apart)


def leaks() -> dict[str, list[Share]]:
    """Clients alike in everything but one number that stands outside of all expressions."""
    shares: dict[str, list[Share]] = {}
    shares["axis of a cone"] = []
    for axis in (0, 1):
        X = cp.Variable((2, 2))
        rule = cp.SOC(np.array([1.0, 2.0]), X, axis=axis)
        shares["axis of a cone"].append((cp.sum_squares(X - F[:2, :2] - 3), [rule]))
    shares["exponent of a cone"] = []
    for alpha in (0.3, 0.7):
        x = cp.Variable(3)
        rule = cp.PowCone3D(x[0], x[1], x[2], alpha)
        shares["exponent of a cone"].append((cp.sum_squares(x - np.array([1.0, 2.0, 4.0])), [rule]))
    shares["exponents of a cone"] = []
    for weights in ([0.2, 0.3, 0.5], [0.5, 0.2, 0.3]):
        x, z = cp.Variable(3), cp.Variable()
        rule = cp.PowConeND(x, z, np.array(weights))
        cost = cp.sum_squares(x - np.array([1.0, 2.0, 4.0])) + cp.square(z - 5)
        shares["exponents of a cone"].append((cost, [rule]))
    shares["long bounds"] = []
    for at in (500, 600):
        upper = np.ones(1100)
        upper[at] = 0.25
        x = cp.Variable(1100, bounds=[np.zeros(1100), upper])
        shares["long bounds"].append((cp.sum_squares(x - 2), []))
    shares["bounds of many digits"] = []
    for digit in (0.0, 1e-9):
        x = cp.Variable(2, bounds=[np.zeros(2), np.array([0.123456789, 0.5]) + digit])
        shares["bounds of many digits"].append((cp.sum_squares(x - 2), []))
    shares["sparsity"] = []
    for pattern in ([(0, 1), (1, 0)], [(0, 1), (0, 1)]):
        X = cp.Variable((2, 2), sparsity=pattern)
        shares["sparsity"].append((cp.sum_squares(X - 1), []))
    shares["width of a huber"] = []
    for width in (0.3, 2.0):
        x = cp.Variable(3)
        shares["width of a huber"].append((cp.sum(untyped.huber(x - 3, width)), []))
    shares["order of a norm"] = []
    for order in (1.5, 3):
        x = cp.Variable(3)
        shares["order of a norm"].append((untyped.pnorm(x - 3, order), []))
    shares["exponents of a mean"] = []
    for weights in ([1, 2, 3], [3, 2, 1]):
        x = cp.Variable(3)
        shares["exponents of a mean"].append((-cp.geo_mean(x, weights), []))
    shares["axis of a function"] = []
    for axis in (0, 1):
        X = cp.Variable((2, 2))
        shares["axis of a function"].append((cp.sum(cp.norm(X - F[:2, :2], axis=axis)), []))
    shares["constant matrix of a fraction"] = []
    for other in (SPD, SPD[::-1, ::-1]):
        x = cp.Variable(3)
        shares["constant matrix of a fraction"].append((cp.matrix_frac(x - b[:3], other), []))
    shares["constant argument"] = []
    for other in (0.5, 2.0):
        x = cp.Variable(3)
        shares["constant argument"].append((cp.sum(cp.maximum(x - 1, other)), []))
    shares["sign of a form"] = []
    for other in (SPD, 0 * SPD, SPD):
        x = cp.Variable(3)
        shares["sign of a form"].append((cp.quad_form(x - 1, other), []))
    return shares


@pytest.mark.filterwarnings("ignore:Reading from a sparse CVXPY")  # cvxpy warns of itself
@pytest.mark.parametrize("name", leaks())
def test_a_client_gets_its_own_numbers_and_none_of_its_likes(name: str) -> None:
    shares = leaks()[name]
    for order in (shares, shares[::-1]):
        for one, found in lowered(*order)[1]:
            same_minimiser(one, found)


def test_bounds_are_those_of_the_client_to_the_last_digit() -> None:
    for (one, found), digit in zip(
        lowered(*leaks()["bounds of many digits"])[1], (0.0, 1e-9), strict=True
    ):
        assert one.variables[0].attributes["bounds"][1][0] == 0.123456789 + digit
        assert 0.123456789 + digit in found.form.inequalities.right


SHARING: dict[str, Callable[[Any, float], Any]] = {
    "norm": lambda x, w: w * cp.norm1(x),
    "norm divided": lambda x, w: w / 4 * cp.norm1(x),
    "logistic": lambda x, w: cp.multiply(w, cp.sum(cp.logistic(x))),
    "weights": lambda x, w: np.full(4, w) @ cp.abs(x),
    "form": lambda x, w: w * cp.quad_form(x, w * np.eye(4)),
    "log": lambda x, w: -(w * cp.sum(cp.log(x))),
    "huber": lambda x, w: w * cp.sum(untyped.huber(x)),
    "log_sum_exp": lambda x, w: w * cp.log_sum_exp(x),
    "hinge": lambda x, w: w * cp.sum(cp.pos(x)),
    "squared hinge": lambda x, w: w * cp.sum(cp.square(cp.pos(x))),
    "squares": lambda x, w: w * cp.sum_squares(x),
    "halves": lambda x, w: cp.sum_squares(x) / 2 + w * cp.norm1(x),
    "quotient": lambda x, w: cp.norm1(x) / w,
}


@pytest.mark.parametrize("name", SHARING)
def test_clients_that_differ_in_weights_share_a_skeleton(name: str) -> None:
    shares = []
    for weight in (0.5, 1.7, 3.1):
        x = cp.Variable(4)
        shares.append((SHARING[name](x, weight), [x >= weight]))
    lowering, pairs = lowered(*shares)
    for (one, found), share in zip(pairs, shares, strict=True):
        x = one.variables[0]
        x.value = np.array([0.3, 1.0, 2.0, 4.0])
        ours = found.form.objective(x.value)
        assert ours == pytest.approx(number(share[0].value), rel=1e-11)
    assert [len(alike) for alike in lowering._skeletons.values()] == [1]


def test_clients_of_one_shape_have_their_own_data_and_weights() -> None:
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(6):
        x = cp.Variable(4)
        data, weight, bound = rng.normal(size=(9, 4)), rng.random() + 0.1, rng.random(4) + 1
        cost = cp.sum_squares(data @ x - rng.normal(size=9)) + weight * cp.norm1(x)
        cost += cp.multiply(weight, cp.sum(cp.logistic(x)))
        shares.append((cost + cp.quad_form(x, data.T @ data), [x <= bound, cp.sum(x) == weight]))
    lowering, pairs = lowered(*shares)
    assert len(lowering._skeletons) == 1
    for one, found in pairs:
        assert found.form.complete
        for _ in range(20):
            x = one.variables[0]
            x.value = rng.normal(size=4)
            assert found.form.objective(x.value) == pytest.approx(number(one.cost.value), rel=1e-11)
            stated = max(largest(rule.violation()) for rule in one.constraints)
            assert found.form.violation(x.value) == pytest.approx(stated, rel=1e-11, abs=1e-12)


def test_weights_that_vanish_or_change_their_size_are_read_afresh() -> None:
    x = cp.Variable(3)
    weight = cp.Parameter(nonneg=True)
    signed = cp.Parameter(3)
    scale = cp.Parameter((2, 3))
    width = cp.Parameter(nonneg=True, value=1)
    cost = weight * cp.norm1(x - 1) + signed @ x + cp.sum_squares(scale @ x - 1)
    cost += weight * cp.sum(cp.logistic(x)) + cp.sum(untyped.huber(x, width))
    one = declare_client("a", cost, [cp.sum(x) <= weight, scale @ x <= 3])
    lowering = Lowering()
    rng = np.random.default_rng(6)
    for value in (1.0, 0.0, 2.0, 1e-7, 1.0, 0.0):
        weight.value, width.value = value, 1 + value
        signed.value, scale.value = rng.normal(size=3), rng.normal(size=(2, 3)) * (value > 0)
        found = lowering(one)
        assert found is not None
        same_minimiser(one, found)
        if found.form.complete and not getattr(found.form, "extra", 0):
            for _ in range(10):
                x.value = rng.normal(size=3)
                assert found.form.objective(x.value) == pytest.approx(number(cost.value), rel=1e-10)


def test_a_parameter_that_changes_between_solves_changes_the_form() -> None:
    x = cp.Variable(3)
    target = cp.Parameter(3, value=np.ones(3))
    sub = compiled(cp.sum_squares(x - target) + cp.norm1(x), [x <= target + 1])["client"]
    for value in (np.ones(3), np.zeros(3), -np.arange(3.0)):
        target.value = value
        given = turn(sub, 8)
        point, _, _ = by_cvxpy(sub, given)
        mine, _, _ = by_clarabel(sub, given)
        np.testing.assert_allclose(mine, point, atol=1e-4)


def test_a_function_is_not_mistaken_at_points_of_another_sign() -> None:
    """Rows that a piece does not touch must not shift those that it does."""
    for size in (2, 3, 4, 5):
        for extra in (
            lambda y: cp.abs(y),
            lambda y: cp.max(cp.hstack([y, 1])),
            lambda y: cp.pos(y),
        ):
            w, y = cp.Variable(size), cp.Variable()
            for cost in (cp.max(w[:2]) + extra(y), extra(y) + cp.max(w[-2:])):
                one = declare_client("a", cost)
                found = Lowering()(one)
                assert found is not None
                assert found.form.complete
                rng = np.random.default_rng(9)
                for _ in range(30):
                    for v in one.variables:
                        v.value = rng.normal(size=v.shape)
                    point = np.concatenate([flat(v.value) for v in one.variables])
                    ours = found.form.objective(point)
                    assert ours == pytest.approx(number(cost.value), abs=1e-10)


def test_a_constant_that_cannot_hold_is_infeasible() -> None:
    for rule in (lambda x: cp.Constant(1) <= 0, lambda x: 0 * x <= -1, lambda x: 0 * x == 1):
        x, y = cp.Variable(2), cp.Variable(2)
        model = dm.Model("infeasible")
        model.client("a", cp.sum_squares(x), [rule(x)])
        model.client("b", cp.sum_squares(y - 1))
        model.consensus(x == y)
        sub = model.compile()["a"]
        assert sub.form is not None
        assert sub.form.complete
        assert sub.form.violation(np.zeros(2)) == 1
        given = turn(sub, 1)
        assert first_answer(sub, given, 1e-6).statuses[0] == "infeasible"


def test_the_same_answer_whatever_was_lowered_and_forgotten_before() -> None:
    """What is kept by the identity of an object must keep the object."""
    lowering = Lowering()
    rng = np.random.default_rng(10)
    for at in range(30):
        y = cp.Variable(nonneg=True)
        x = cp.Variable(2 + at % 3)
        lowering(declare_client("gone", cp.square(cp.sum_squares(x) + y)))
        v = cp.Variable(2 + at % 4)
        cost = cp.sum_squares(v - at) + cp.norm1(v[: 1 + at % 2]) + cp.sum(cp.exp(v))
        found = lowering(declare_client("kept", cost))
        assert found is not None
        assert found.form.complete
        v.value = rng.normal(size=v.size)
        assert found.form.objective(v.value) == pytest.approx(number(cost.value), rel=1e-11)


def test_few_rows_keep_their_root() -> None:
    sub = whole(CLIENTS["few rows of many columns"][1])
    assert sub.form is not None
    x = cp.Variable(6)
    found = Lowering()(declare_client("a", cp.sum_squares(LONG @ x - 1)))
    assert found is not None
    root = found.form.quadratic.root
    assert found.form.quadratic.matrix is None
    assert root is not None
    assert root.shape == (2, 6)
    np.testing.assert_allclose(root.T @ root, 2 * LONG.T @ LONG, rtol=1e-12)


SMOOTH = [
    name
    for name, (kinds, _) in CLIENTS.items()
    if kinds is not None and kinds <= {"logistic", "logsumexp", "exp"}
]


@pytest.mark.parametrize("name", SMOOTH)
def test_the_curvature_of_a_form_is_that_of_cvxpys_gradients(name: str) -> None:
    sub = whole(CLIENTS[name][1])
    diagonal, spread = hessian(sub)
    probed, other = probed_hessian(sub)
    # A central difference over a step of 1e-3 errs by its square times a fourth derivative
    np.testing.assert_allclose(diagonal, probed, rtol=1e-4, atol=1e-5)
    assert spread == pytest.approx(other, rel=1e-3)
