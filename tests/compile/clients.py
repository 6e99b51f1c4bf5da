"""Clients by name: functions that lowering knows, and many that are nearly one of those.

A function that is taken for another is a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

untyped: Any = cp
"""Where cvxpy's annotations are narrower than cvxpy."""

RNG = np.random.default_rng(7)
A = RNG.normal(size=(8, 3))
b = RNG.normal(size=8)
F = RNG.normal(size=(3, 3))
W = RNG.random(8) + 0.5
SPD = F @ F.T + np.eye(3)
LONG = RNG.normal(size=(2, 6))


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
plain("cube", "cube", lambda x: W @ cp.power(cp.abs(A @ x - b), 3))
plain("quartic", "quartic", lambda x: W @ cp.power(A @ x - b, 4))
plain("quartic by hand", None, lambda x: cp.sum(cp.square(cp.square(A @ x - b))))
plain("dead zone", "abs", lambda x: cp.sum(cp.pos(cp.abs(A @ x - b) - 0.4)))
plain("dead zone, weighted", "abs", lambda x: W @ cp.maximum(2 * cp.abs(A @ x - b) - 0.4, 0))
plain("dead zone of no width", "abs", lambda x: cp.sum(cp.pos(cp.abs(A @ x - b))))
plain("dead zone of a quantile", None, lambda x: cp.sum(cp.pos(cp.scalene(x, 3, 1) - 0.4)))
plain("squared dead zone", "hinge", lambda x: W @ cp.square(cp.pos(cp.abs(A @ x - b) - 0.4)))
plain("dead zone below zero", None, lambda x: cp.sum(cp.pos(cp.abs(A @ x - b) + 0.4)))
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


@client("reciprocal")
def _reciprocal() -> Share:
    x = cp.Variable(3)
    return W[:3] @ cp.inv_pos(x + 2) + cp.sum_squares(x), []


@client("log")
def _kl_div_to_counts() -> Share:
    x = cp.Variable(3)
    return cp.sum(cp.kl_div(np.array([3.0, 0.0, 1.0]), x + 1)) + cp.sum_squares(x + 2), []


@client("log")
def _log_that_counts_for_nothing() -> Share:
    x = cp.Variable(3)
    counts = np.array([3.0, 0.0, 1.0])
    return cp.sum(x - cp.multiply(counts, cp.log(x + 1))) + cp.sum_squares(x + 2), [x[2] <= 0.5]


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


@client(None, duals=True)
def indicator() -> Share:
    x = cp.Variable(3)
    held = untyped.transforms.indicator([F @ x <= 0.2, cp.norm(x) <= 0.9])
    return cp.sum_squares(A @ x - b) + 2 * held, [cp.sum(x) <= 0.1, x[0] == 0.05]


@client(None)
def indicator_and_entropy() -> Share:
    x = cp.Variable(3)
    return cp.sum_squares(A @ x - b) - cp.sum(cp.entr(x)) + untyped.transforms.indicator(
        [F @ x <= 0.2, cp.sum(x) <= 3]
    ), []


# --- fits to several variables, which have a block of data each
FITS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "blocks of two widths": lambda p, q, M: cp.sum_squares(A @ p + A[:, :2] @ q - b),
    "blocks of one width": lambda p, q, M: cp.sum_squares(A @ p + A[:, ::-1] @ M[:, 0] - b),
    "three blocks": lambda p, q, M: cp.sum_squares(A @ p + A[:, :2] @ q - A @ M[:, 1] - b),
    "a stack": lambda p, q, M: cp.sum_squares(np.hstack([A, A[:, :2]]) @ cp.hstack([p, q]) - b),
    "matrices": lambda p, q, M: cp.sum_squares(A @ M + cp.outer(b, q) - A[:, :2]),
    "quad_over_lin": lambda p, q, M: cp.quad_over_lin(A @ p + A[:, :2] @ q - b, 2.5),
    "squares one by one": lambda p, q, M: W @ cp.square(A @ p + A[:, :2] @ q - b),
    "form": lambda p, q, M: cp.quad_form(F @ p + F[:, :2] @ q, SPD),
    "dense and sparse": lambda p, q, M: cp.sum_squares(
        A @ p + sp.csr_array(np.eye(8)[:, :2]) @ q - b
    ),
}


def fit(name: str) -> Share:
    """A fit to three variables, kept near zero."""
    p, q, M = cp.Variable(3, name="p"), cp.Variable(2, name="q"), cp.Variable((3, 2), name="M")
    apart = cp.sum_squares(p) + cp.sum_squares(q - 1) + cp.sum_squares(M)
    return FITS[name](p, q, M) + apart / 4, []


for title in FITS:
    CLIENTS[f"fit of {title}"] = (set(), partial(fit, title))


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
plain("cube of a positive part", None, lambda x: cp.sum(cp.power(cp.pos(x), 3)))
plain("another power", None, lambda x: cp.sum(cp.power(cp.abs(x), 1.5)))
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
plain("inv_pos", "reciprocal", lambda x: cp.sum(cp.inv_pos(x + 2)))
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
