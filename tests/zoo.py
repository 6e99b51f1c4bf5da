r"""Problems with known primal and dual answers, and the graphs they are put on.

A problem deals its data among ``n`` clients as one deals cards, so that its answer is that of the
whole pack whatever ``n`` and whatever the graph. No answer comes from this package or from cvxpy:
each is a closed form, or scikit-learn's or scipy's, and stands with its source.

The dual answer is a statement about every client. Let :math:`\mathcal C_e` be the consensus
constraint of edge :math:`e` with the sides :math:`\pm G_{ie} x_i`. At the optimum, (A1-2), (A2-2),

.. math:: -\sum_{e \ni i} \pm G_{ie}^\top \mu_e \in \partial (f_i + I_{X_i})(x_i^*),

and ``distance`` says how far a vector is from that set, worked out by hand for each problem. Where
:math:`f_i` is smooth and the graph is a tree the multipliers are thereby known themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.optimize
import sklearn.linear_model
import sklearn.svm

import dald_model as dm

Array = np.ndarray
Distance = Callable[[Array, int, int], float]
"""(s, i, n) -> how far s is from the subdifferential of client i of n, at the known optimum."""

ROWS = 24
"""Rows of data in a pack; 4 to 6 clients get 4 to 6 each."""


# --- graphs ---------------------------------------------------------------------------------------


def _random() -> nx.Graph:
    """Six clients, connected: a spanning path and five of the other ten edges; has odd cycles."""
    graph = nx.path_graph(6)
    others = sorted(nx.complement(graph).edges)
    picked = np.random.default_rng(4).choice(len(others), size=4, replace=False)
    graph.add_edges_from(others[i] for i in picked)
    return graph


GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "star": lambda: nx.star_graph(["hub", "n", "e", "s", "w"]),
    "chain": lambda: nx.path_graph(5),
    "ring": lambda: nx.cycle_graph(6),
    "odd ring": lambda: nx.cycle_graph(5),
    "tree": lambda: nx.full_rary_tree(2, 6),
    "grid": lambda: nx.grid_2d_graph(2, 3),
    "complete": lambda: nx.complete_graph(4),
    "random": _random,
}
"""Name -> graph whose nodes are the clients. The hub of the star is the server of a shared
variable, and a client where the problem has no variable that all share."""


# --- problems -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """A problem on a graph, with what is known of each client.

    Attributes
    ----------
    model : dm.Model
    variables : dict
        Client -> its variable.
    points : dict
        Client -> the known optimum of that variable.
    distance : dict
        Client -> distance of a vector from the client's subdifferential at the optimum.
    maps : dict
        (client, neighbour) -> matrix of the client's side of that edge; the identity if missing.
    duals : dict
        Client -> the known dual values of its constraints; None where they are not unique.
    """

    model: dm.Model
    value: float
    variables: dict[Hashable, cp.Variable]
    points: dict[Hashable, Array]
    distance: dict[Hashable, Callable[[Array], float]]
    maps: dict[tuple[Hashable, Hashable], Array] = field(default_factory=dict)
    duals: dict[Hashable, list[Any]] = field(default_factory=dict)

    def force(self, name: Hashable, multipliers: dict[tuple[Hashable, Hashable], Array]) -> Array:
        """What the consensus constraints of a client ask of its subgradient, flat."""
        total = np.zeros(self.variables[name].size)
        for (tail, head), mu in multipliers.items():
            if name in (tail, head):
                other, sign = (head, 1.0) if name == tail else (tail, -1.0)
                total -= sign * self.maps.get((name, other), np.eye(total.size)).T @ mu
        return total


@dataclass(frozen=True)
class Shared:
    """A problem in one variable that all clients share.

    Attributes
    ----------
    share : callable
        (variable, i, n) -> objective and constraints of client ``i`` of ``n``.
    value, point :
        The known answer.
    distance : Distance
    attributes : dict
        Of the variable.
    duals : callable
        Client ``i`` of ``n`` -> the known dual values of its constraints; None where they are not
        unique.
    """

    name: str
    shape: tuple[int, ...]
    share: Callable[[cp.Variable, int, int], tuple[Any, list[Any]]]
    value: float
    point: Array
    distance: Distance
    attributes: dict[str, bool] = field(default_factory=dict)
    duals: Callable[[int, int], list[Any]] | None = None

    def on(self, graph: nx.Graph, style: str = "default") -> Built:
        """Put the problem on a graph.

        ``style`` is "peers" (every client its own variable, equalities along the edges),
        "topology" (one shared variable and ``model.topology``), "shared" (one shared variable,
        a server is made) or "server" (an explicit server). For the last two the hub of the star is
        the server, which is the default there; the default elsewhere is "peers".
        """
        hub = "hub" in graph
        style = ("shared" if hub else "peers") if style == "default" else style
        names = [name for name in graph if not (hub and name == "hub")]
        model = dm.Model(self.name)
        one = self._variable("w")
        variables = {name: self._variable(f"x{name}") for name in names}
        if style in ("shared", "topology"):
            variables = dict.fromkeys(names, one)
        for at, name in enumerate(names):
            model.client(name, *self.share(variables[name], at, len(names)))
        if style == "peers":
            model.consensus(*[variables[a] == variables[b] for a, b in graph.edges])
        elif style == "topology":
            model.topology(graph)
        elif style == "server":
            z = cp.Variable(self.shape, name="z")
            model.consensus(*[z == x for x in variables.values()])
        distance = {
            name: (lambda s, at=at: self.distance(s, at, len(names)))
            for at, name in enumerate(names)
        }
        return Built(
            model,
            self.value,
            variables,
            dict.fromkeys(names, self.point),
            distance,
            duals={name: self.duals(at, len(names)) for at, name in enumerate(names) if self.duals},
        )

    def _variable(self, name: str) -> cp.Variable:
        return cp.Variable(self.shape, name=name, **self.attributes)


Problem = Any
"""What has a ``name`` and ``on(graph) -> Built``."""

PROBLEMS: dict[str, Callable[[], Problem]] = {}


def problem(build: Callable[[], Problem]) -> Callable[[], Problem]:
    """Enter a problem into the zoo; its answer is worked out once, when first asked for."""
    kept = cache(build)
    PROBLEMS[build.__name__] = kept
    return kept


def _data(columns: int, seed: int, noise: float = 0.5) -> tuple[Array, Array]:
    """A regression: rows of features and what a sparse truth makes of them, with noise."""
    generator = np.random.default_rng(seed)
    A = generator.normal(size=(ROWS, columns))
    truth = np.where(np.arange(columns) % 2 == 0, 1.5, 0.0)
    return A, A @ truth + noise * generator.normal(size=ROWS)


@dataclass(frozen=True)
class Smooth:
    """Distance where the subdifferential is one vector, the gradient ``of(i, n)``."""

    of: Callable[[int, int], Array]

    def __call__(self, s: Array, i: int, n: int) -> float:
        """See :data:`Distance`."""
        return float(np.abs(s - self.of(i, n).reshape(-1, order="F")).max())


def _polyhedral(parts: Callable[[int, int], tuple[Array, Array, Array, Array]]) -> Distance:
    r"""For :math:`\{g + Z\theta : l \le \theta \le u\}`: a least squares problem with bounds."""

    def distance(s: Array, i: int, n: int) -> float:
        g, Z, low, high = parts(i, n)
        if Z.shape[1] == 0:
            return float(np.abs(s - g).max())
        free = (low, np.where(high > low, high, np.nextafter(low, np.inf)))
        theta = scipy.optimize.lsq_linear(Z, s - g, free, method="bvls", tol=1e-15).x
        return float(np.abs(s - g - Z @ theta).max())

    return distance


def _newton(w: Array, gradient: Callable[[Array], Array], hessian: Callable[[Array], Array]):
    """Three Newton steps: from a library's ten digits to all of them."""
    for _ in range(3):
        w = w - np.linalg.solve(hessian(w), gradient(w))
    return w


# --- least squares and its regularisers


@problem
def least_squares() -> Shared:
    """Normal equations."""
    A, b = _data(3, seed=1)
    w = np.linalg.lstsq(A, b)[0]
    return Shared(
        "least squares",
        (3,),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - b[i::n]), []),
        float(np.sum((A @ w - b) ** 2)),
        w,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ w - b[i::n])),
    )


@problem
def ridge() -> Shared:
    """Normal equations with the regulariser on the diagonal."""
    A, b = _data(3, seed=2)
    lam = 4.0
    w = np.linalg.solve(A.T @ A + lam * np.eye(3), A.T @ b)
    return Shared(
        "ridge",
        (3,),
        lambda x, i, n: (
            cp.Minimize(cp.sum_squares(A[i::n] @ x - b[i::n]) + lam / n * cp.sum_squares(x)),
            [],
        ),
        float(np.sum((A @ w - b) ** 2) + lam * w @ w),
        w,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ w - b[i::n]) + 2 * lam / n * w),
    )


def _shrunk(A: Array, b: Array, w: Array, l1: float, l2: float) -> Array:
    """The lasso's answer to all digits from the signs of an answer to a few."""
    live = np.abs(w) > 1e-8
    K = A[:, live]
    exact = np.zeros_like(w)
    exact[live] = np.linalg.solve(
        K.T @ K + l2 * np.eye(K.shape[1]), K.T @ b - l1 * np.sign(w[live])
    )
    return exact


def _penalised(name: str, A: Array, b: Array, w: Array, l1: float, l2: float) -> Shared:
    zero = w == 0
    assert zero.any()
    assert not zero.all()

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = A[i::n].T @ (A[i::n] @ w - b[i::n]) + l2 / n * w + l1 / n * np.sign(w)
        ones = np.full(int(zero.sum()), l1 / n)
        return g, np.eye(w.size)[:, zero], -ones, ones

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        cost = cp.sum_squares(A[i::n] @ x - b[i::n]) / 2 + l1 / n * cp.norm1(x)
        return (cost + l2 / (2 * n) * cp.sum_squares(x) if l2 else cost), []

    value = np.sum((A @ w - b) ** 2) / 2 + l1 * np.abs(w).sum() + l2 / 2 * w @ w
    return Shared(name, w.shape, share, float(value), w, _polyhedral(parts))


@problem
def lasso() -> Shared:
    """Scikit-learn's ``Lasso``, whose objective is ours over the number of rows."""
    A, b = _data(4, seed=3)
    l1 = 6.0
    fit = sklearn.linear_model.Lasso(l1 / ROWS, fit_intercept=False, tol=1e-10, max_iter=100_000)
    return _penalised("lasso", A, b, _shrunk(A, b, fit.fit(A, b).coef_, l1, 0.0), l1, 0.0)


@problem
def elastic_net() -> Shared:
    """Scikit-learn's ``ElasticNet``: alpha = (l1 + l2) / rows, l1_ratio = l1 / (l1 + l2)."""
    A, b = _data(4, seed=4)
    l1, l2 = 6.0, 3.0
    fit = sklearn.linear_model.ElasticNet(
        (l1 + l2) / ROWS,
        l1_ratio=l1 / (l1 + l2),
        fit_intercept=False,
        tol=1e-10,
        max_iter=100_000,
    )
    return _penalised("elastic net", A, b, _shrunk(A, b, fit.fit(A, b).coef_, l1, l2), l1, l2)


@problem
def group_lasso() -> Shared:
    """Orthonormal columns make it a block shrinkage (Yuan and Lin 2006, equation 2.4)."""
    A, b = _data(4, seed=5)
    Q = np.linalg.qr(A)[0]
    lam, groups = 1.5, (slice(0, 2), slice(2, 4))
    b = Q @ np.array([3.0, -1.0, 0.7, 0.5]) + 0.2 * (b - Q @ (Q.T @ b))
    w = np.zeros(4)
    for g in groups:
        part = Q[:, g].T @ b
        w[g] = max(0.0, 1 - lam / np.linalg.norm(part)) * part
    assert not w[groups[1]].any()
    assert w[groups[0]].any()

    def distance(s: Array, i: int, n: int) -> float:
        rest = s - Q[i::n].T @ (Q[i::n] @ w - b[i::n])
        live, dead = (rest[g] for g in groups)
        direction = w[groups[0]] / np.linalg.norm(w[groups[0]])
        outside = max(0.0, float(np.linalg.norm(dead)) - lam / n)
        return max(float(np.abs(live - lam / n * direction).max()), outside)

    return Shared(
        "group lasso",
        (4,),
        lambda x, i, n: (
            cp.sum_squares(Q[i::n] @ x - b[i::n]) / 2
            + lam / n * (cp.norm2(x[:2]) + cp.norm2(x[2:])),
            [],
        ),
        float(np.sum((Q @ w - b) ** 2) / 2 + lam * sum(np.linalg.norm(w[g]) for g in groups)),
        w,
        distance,
    )


# --- losses


@problem
def huber() -> Shared:
    """``scipy.optimize.least_squares``, whose huber loss is half of cvxpy's, and Newton steps."""
    A, b = _data(3, seed=6)
    b = b + np.where(np.arange(ROWS) % 7 == 0, 8.0, 0.0)
    width = 1

    def slope(w: Array, rows: slice = slice(None)) -> Array:
        return 2 * A[rows].T @ np.clip(A[rows] @ w - b[rows], -width, width)

    def bend(w: Array) -> Array:
        inside = A[np.abs(A @ w - b) < width]
        return 2 * inside.T @ inside

    fit = scipy.optimize.least_squares(
        lambda w: A @ w - b, np.zeros(3), loss="huber", f_scale=width
    )
    w = _newton(fit.x, slope, bend)
    r = np.abs(A @ w - b)
    assert (r > width).any()
    return Shared(
        "huber",
        (3,),
        lambda x, i, n: (cp.sum(cp.huber(A[i::n] @ x - b[i::n], width)), []),
        float(np.where(r <= width, r**2, 2 * width * r - width**2).sum()),
        w,
        Smooth(lambda i, n: slope(w, slice(i, None, n))),
    )


@problem
def quantile() -> Shared:
    """``scipy.optimize.linprog`` (HiGHS): the linear programme of Koenker and Bassett (1978)."""
    A, b = _data(3, seed=7)
    tau, eye = 0.3, np.eye(ROWS)
    cost = np.concatenate([np.zeros(3), np.full(ROWS, tau), np.full(ROWS, 1 - tau)])
    signs = [(None, None)] * 3 + [(0, None)] * (2 * ROWS)
    fit = scipy.optimize.linprog(cost, A_eq=np.hstack([A, eye, -eye]), b_eq=b, bounds=signs)
    zero = np.abs(A @ fit.x[:3] - b) < 1e-8
    assert zero.sum() == 3
    w = np.linalg.solve(A[zero], b[zero])
    r = b - A @ w

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        mine, on = A[i::n], zero[i::n]
        slopes = np.where(r[i::n] > 0, -tau, 1 - tau)[~on]
        Z = mine[on].T
        return mine[~on].T @ slopes, Z, np.full(Z.shape[1], -tau), np.full(Z.shape[1], 1 - tau)

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rest = b[i::n] - A[i::n] @ x
        return cp.sum(tau * cp.pos(rest) + (1 - tau) * cp.neg(rest)), []

    value = np.sum(np.maximum(tau * r, (tau - 1) * r)[~zero])
    return Shared("quantile", (3,), share, float(value), w, _polyhedral(parts))


def _labels(A: Array, seed: int) -> Array:
    noise = np.random.default_rng(seed).normal(size=ROWS)
    return np.where(A @ np.array([1.0, -1.0, 0.5])[: A.shape[1]] + noise > 0, 1.0, -1.0)


@problem
def logistic() -> Shared:
    """Scikit-learn's ``LogisticRegression`` with C = 1, and Newton steps."""
    A, _ = _data(3, seed=8)
    y = _labels(A, seed=8)
    fit = sklearn.linear_model.LogisticRegression(
        fit_intercept=False, solver="newton-cholesky", tol=1e-10
    )

    def chance(w: Array, rows: slice = slice(None)) -> Array:
        return 1 / (1 + np.exp(y[rows] * (A[rows] @ w)))

    def slope(w: Array) -> Array:
        return -A.T @ (y * chance(w)) + w

    def bend(w: Array) -> Array:
        p = chance(w)
        return (A.T * (p * (1 - p))) @ A + np.eye(3)

    w = _newton(fit.fit(A, y).coef_[0], slope, bend)
    return Shared(
        "logistic",
        (3,),
        lambda x, i, n: (
            cp.sum(cp.logistic(cp.multiply(-y[i::n], A[i::n] @ x))) + cp.sum_squares(x) / (2 * n),
            [],
        ),
        float(np.log1p(np.exp(-y * (A @ w))).sum() + w @ w / 2),
        w,
        Smooth(lambda i, n: -A[i::n].T @ (y[i::n] * chance(w, slice(i, None, n))) + w / n),
    )


@problem
def svm() -> Shared:
    """Scikit-learn's ``SVC`` (libsvm) with a linear kernel; the last entry is the intercept."""
    A, _ = _data(2, seed=9)
    y = _labels(A, seed=9)
    fit = sklearn.svm.SVC(kernel="linear", C=1.0, tol=1e-10).fit(A, y)
    near = np.concatenate([fit.coef_[0], fit.intercept_])
    full = np.column_stack([A, np.ones(ROWS)])
    on = np.abs(y * (full @ near) - 1) < 1e-6
    over = y * (full @ near) < 1 - 1e-6
    # libsvm stops at six digits or so; from its active set all of them follow: w and the
    # multipliers of the rows on the margin solve a linear system.
    edge, flat = y[on, None] * full[on], np.diag([1.0, 1.0, 0.0])
    system = np.block([[flat, -edge.T], [edge, np.zeros((on.sum(), on.sum()))]])
    answer = np.linalg.solve(system, np.concatenate([full[over].T @ y[over], np.ones(on.sum())]))
    w, theta = answer[:3], answer[3:]
    assert np.abs(w - near).max() < 1e-5
    assert theta.min() > 0
    assert theta.max() < 1

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        mine, sign = full[i::n], y[i::n]
        g = flat @ w / n - mine[over[i::n]].T @ sign[over[i::n]]
        Z = -(sign[on[i::n], None] * mine[on[i::n]]).T
        return g, Z, np.zeros(Z.shape[1]), np.ones(Z.shape[1])

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        margin = 1 - cp.multiply(y[i::n], full[i::n] @ x)
        return cp.sum(cp.pos(margin)) + cp.sum_squares(x[:2]) / (2 * n), []

    hinge = np.maximum(0, 1 - y * (full @ w))[over]
    value = float(hinge.sum() + w[:2] @ w[:2] / 2)
    return Shared("support vector machine", (3,), share, value, w, _polyhedral(parts))


# --- constraints


@problem
def nonnegative() -> Shared:
    """``scipy.optimize.nnls``; one client alone knows the signs, so its dual is the gradient."""
    A, b = _data(4, seed=10)
    b = b - A[:, 1] * 2
    w = scipy.optimize.nnls(A, b)[0]
    live = w > 0
    assert not live.all()
    w[live] = np.linalg.lstsq(A[:, live], b)[0]
    slope = 2 * A.T @ (A @ w - b)

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = 2 * A[i::n].T @ (A[i::n] @ w - b[i::n])
        Z = -np.eye(4)[:, ~live] if i == 0 else np.zeros((4, 0))
        return g, Z, np.zeros(Z.shape[1]), np.full(Z.shape[1], np.inf)

    return Shared(
        "non-negative least squares",
        (4,),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - b[i::n]), [x >= 0] if i == 0 else []),
        float(np.sum((A @ w - b) ** 2)),
        w,
        _polyhedral(parts),
        duals=lambda i, n: [np.where(live, 0.0, slope)] if i == 0 else [],
    )


@problem
def simplex() -> Shared:
    """Projection onto the simplex by sorting (Held, Wolfe, Crowder 1974); all know the rules."""
    points = np.random.default_rng(11).normal(size=(ROWS, 4)) + np.array([0.8, 0.2, -0.6, 0.1])
    mean = points.mean(axis=0)
    ordered = np.sort(mean)[::-1]
    steps = (np.cumsum(ordered) - 1) / np.arange(1, 5)
    w = np.maximum(mean - steps[np.flatnonzero(ordered > steps)[-1]], 0.0)
    assert 0 < (w == 0).sum() < 3

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = (w - points[i::n]).sum(axis=0)
        Z = np.column_stack([np.ones(4), -np.eye(4)[:, w == 0]])
        low = np.zeros(Z.shape[1])
        low[0] = -np.inf
        return g, Z, low, np.full(Z.shape[1], np.inf)

    return Shared(
        "simplex",
        (4,),
        lambda x, i, n: (
            sum(cp.sum_squares(x - p) for p in points[i::n]) / 2,
            [x >= 0, cp.sum(x) == 1],
        ),
        float(np.sum((w - points) ** 2) / 2),
        w,
        _polyhedral(parts),
    )


@problem
def portfolio() -> Shared:
    """The efficient frontier (Merton 1972): the first client bounds the risk, the last the sum."""
    generator = np.random.default_rng(12)
    gains = generator.normal(size=(ROWS, 3)) / 20 + np.array([0.02, 0.05, 0.03])
    gain = gains.sum(axis=0)
    factor = np.tril(generator.normal(size=(3, 3)) / 3 + np.eye(3))
    risk = factor @ factor.T
    inverse, one = np.linalg.inv(risk), np.ones(3)
    A, B, C = one @ inverse @ one, one @ inverse @ gain, gain @ inverse @ gain
    bound = 1.5 / np.sqrt(A)
    slope = np.sqrt((bound**2 - 1 / A) / (C - B**2 / A))
    w = inverse @ (one / A + slope * (gain - B / A * one))
    price = bound / slope  # of the risk; that of the sum follows from stationarity
    level = B / A - 1 / (slope * A)

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        rays = [(risk @ w / bound, 0.0)] if i == 0 else []
        rays += [(one, -np.inf)] if i == n - 1 else []
        Z = np.column_stack([r for r, _ in rays]) if rays else np.zeros((3, 0))
        return (
            -gains[i::n].sum(axis=0),
            Z,
            np.array([r for _, r in rays]),
            np.full(Z.shape[1], np.inf),
        )

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rules: list[Any] = [cp.SOC(bound, factor.T @ x)] if i == 0 else []
        rules += [cp.sum(x) == 1] if i == n - 1 else []
        return cp.Maximize(gains[i::n].sum(axis=0) @ x), rules

    def duals(i: int, n: int) -> list[Any]:
        known: list[Any] = [[price, -price * factor.T @ w / bound]] if i == 0 else []
        return known + ([level] if i == n - 1 else [])

    return Shared("portfolio", (3,), share, float(gain @ w), w, _polyhedral(parts), duals=duals)


@problem
def entropy() -> Shared:
    """The Gibbs distribution: softmax, its value the free energy; the first client has the sum."""
    costs = np.random.default_rng(13).normal(size=(ROWS, 3)) / 3
    cost = costs.sum(axis=0)
    w = np.exp(-cost) / np.exp(-cost).sum()
    free = -np.log(np.exp(-cost).sum())

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        Z = np.ones((3, 1)) if i == 0 else np.zeros((3, 0))
        wide = np.full(Z.shape[1], np.inf)
        return costs[i::n].sum(axis=0) + (np.log(w) + 1) / n, Z, -wide, wide

    return Shared(
        "entropy",
        (3,),
        lambda x, i, n: (
            costs[i::n].sum(axis=0) @ x - cp.sum(cp.entr(x)) / n,
            [cp.sum(x) == 1] if i == 0 else [],
        ),
        float(free),
        w,
        _polyhedral(parts),
        # Stationarity of the sum: cost + log w + 1 + level = 0, and log w = free - cost.
        duals=lambda i, n: [-1.0 - free] if i == 0 else [],
    )


# --- matrices


def _symmetric(size: int, seed: int) -> Array:
    raw = np.random.default_rng(seed).normal(size=(ROWS, size, size))
    return (raw + raw.transpose(0, 2, 1)) / 2


@problem
def matrix_least_squares() -> Shared:
    """Normal equations, one column of the unknown at a time."""
    generator = np.random.default_rng(14)
    A, B = generator.normal(size=(ROWS, 2)), generator.normal(size=(ROWS, 3))
    X = np.linalg.lstsq(A, B)[0]
    return Shared(
        "matrix least squares",
        (2, 3),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - B[i::n]), []),
        float(np.sum((A @ X - B) ** 2)),
        X,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ X - B[i::n])),
    )


@problem
def nuclear_norm() -> Shared:
    """Shrinking the singular values of the mean (Cai, Candes, Shen 2010, theorem 2.1)."""
    truth = np.outer([1.0, 2.0], [1.0, -1.0])
    Y = truth + np.random.default_rng(15).normal(size=(ROWS, 2, 2)) / 2
    lam = 0.5 * ROWS
    U, sizes, V = np.linalg.svd(Y.mean(axis=0))
    kept = np.maximum(sizes - lam / ROWS, 0.0)
    assert kept[0] > 0 == kept[1]
    X = U @ np.diag(kept) @ V

    def distance(s: Array, i: int, n: int) -> float:
        rest = s.reshape(2, 2, order="F") - (X - Y[i::n]).sum(axis=0)
        seen = U.T @ rest @ V.T * n / lam  # diag(1, t) with |t| <= 1
        outside = max(0.0, abs(seen[1, 1]) - 1)
        return lam / n * float(max(*np.abs(seen - np.diag([1.0, seen[1, 1]])).flat, outside))

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        return sum(cp.sum_squares(x - y) for y in Y[i::n]) / 2 + lam / n * cp.normNuc(x), []

    value = np.sum((X - Y) ** 2) / 2 + lam * kept.sum()
    return Shared("nuclear norm", (2, 2), share, float(value), X, distance)


@problem
def semidefinite() -> Shared:
    """The least eigenvalue as a semidefinite programme; the last client alone has the trace."""
    costs = _symmetric(3, seed=16)
    values, vectors = np.linalg.eigh(costs.sum(axis=0))
    v = vectors[:, 0]

    def distance(s: Array, i: int, n: int) -> float:
        # Multipliers of the entries above and below the diagonal matter through their sum.
        given = s.reshape(3, 3, order="F")
        dual = costs[i::n].sum(axis=0) - (given + given.T) / 2  # of X >> 0, less that of the trace
        if i == n - 1:
            dual = dual - (v @ dual @ v) * np.eye(3)
        return float(max(np.abs(dual @ v).max(), -np.linalg.eigvalsh(dual)[0]))

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rules = [x >> 0, cp.trace(x) == 1] if i == n - 1 else [x >> 0]
        return cp.trace(costs[i::n].sum(axis=0) @ x), rules

    return Shared(
        "least eigenvalue",
        (3, 3),
        share,
        float(values[0]),
        np.outer(v, v),
        distance,
        {"symmetric": True},
        duals=lambda i, n: [None, -values[0]] if i == n - 1 else [None],
    )


@problem
def nearest_psd() -> Shared:
    """Clipping the eigenvalues of the mean (Higham 1988); a variable with an attribute."""
    given = _symmetric(2, seed=17)
    values, vectors = np.linalg.eigh(given.mean(axis=0))
    assert values[0] < 0 < values[1]
    X = values[1] * np.outer(vectors[:, 1], vectors[:, 1])

    def distance(s: Array, i: int, n: int) -> float:
        asked = s.reshape(2, 2, order="F")
        dual = (X - given[i::n]).sum(axis=0) - (asked + asked.T) / 2  # of the attribute
        return float(max(-np.linalg.eigvalsh(dual)[0], np.abs(dual @ vectors[:, 1]).max()))

    return Shared(
        "nearest PSD matrix",
        (2, 2),
        lambda x, i, n: (sum(cp.sum_squares(x - y) for y in given[i::n]) / 2, []),
        float(np.sum((X - given) ** 2) / 2),
        X,
        distance,
        {"PSD": True},
    )


# --- clients that share parts only


@dataclass(frozen=True)
class Overlap:
    """Client i has one entry of its own and two for each neighbour: ``x0[1:3] == x1[3:5]``.

    Normal equations of the whole; each multiplier is the gradient of one client in the entries
    that it shares with the other, whatever the graph.
    """

    name: str = "partial overlap"

    def on(self, graph: nx.Graph) -> Built:
        """Put the problem on a graph."""
        generator = np.random.default_rng(18)
        edges = list(graph.edges)
        model, start = dm.Model(self.name), len(graph)
        places: dict[Hashable, list[int]] = {name: [at] for at, name in enumerate(graph)}
        slots: dict[tuple[Hashable, Hashable], slice] = {}
        for a, b in edges:
            for one, two in ((a, b), (b, a)):
                slots[one, two] = slice(len(places[one]), len(places[one]) + 2)
                places[one] += [start, start + 1]
            start += 2
        data = {
            name: (
                generator.normal(size=(len(at) + 3, len(at))),
                generator.normal(size=len(at) + 3),
            )
            for name, at in places.items()
        }
        stacked = np.vstack([A @ np.eye(start)[places[name]] for name, (A, _) in data.items()])
        target = np.concatenate([b for _, b in data.values()])
        z = np.linalg.lstsq(stacked, target)[0]
        x = {name: cp.Variable(len(at), name=f"x{name}") for name, at in places.items()}
        for name, (A, b) in data.items():
            model.client(name, cp.sum_squares(A @ x[name] - b))
        model.consensus(*[x[a][slots[a, b]] == x[b][slots[b, a]] for a, b in edges])
        points = {name: z[at] for name, at in places.items()}
        maps = {pair: np.eye(len(places[pair[0]]))[slot] for pair, slot in slots.items()}
        return Built(
            model,
            float(np.sum((stacked @ z - target) ** 2)),
            x,
            points,
            _gradients(data, points),
            maps,
        )


@dataclass(frozen=True)
class Unequal:
    """Clients of two and three dimensions agree on two: ``M @ x == y``, ``M @ x == N @ y``.

    The linear system of optimality (KKT) of the whole, with the common summary as an unknown.
    """

    name: str = "unequal dimensions"

    def on(self, graph: nx.Graph) -> Built:
        """Put the problem on a graph."""
        generator = np.random.default_rng(19)
        model, data, maps, x = dm.Model(self.name), {}, {}, {}
        for at, name in enumerate(graph):
            size = 2 + at % 2
            data[name] = generator.normal(size=(size + 2, size)), generator.normal(size=size + 2)
            maps[name] = generator.normal(size=(2, 3)) + np.eye(2, 3) if size == 3 else np.eye(2)
            x[name] = cp.Variable(size, name=f"x{name}")
        sizes = [v.size for v in x.values()]
        total, n = sum(sizes), len(sizes)
        hessian, linear = np.zeros((total + 2, total + 2)), np.zeros(total + 2)
        rules = np.zeros((2 * n, total + 2))
        cuts = np.cumsum([0, *sizes])
        for at, name in enumerate(graph):
            mine = slice(cuts[at], cuts[at + 1])
            A, b = data[name]
            hessian[mine, mine], linear[mine] = 2 * A.T @ A, 2 * A.T @ b
            rules[2 * at : 2 * at + 2, mine] = maps[name]
            rules[2 * at : 2 * at + 2, total:] = -np.eye(2)
        system = np.block([[hessian, rules.T], [rules, np.zeros((2 * n, 2 * n))]])
        answer = np.linalg.solve(system, np.concatenate([linear, np.zeros(2 * n)]))
        points = {name: answer[cuts[at] : cuts[at + 1]] for at, name in enumerate(graph)}
        value = sum(np.sum((A @ points[name] - b) ** 2) for name, (A, b) in data.items())
        for name, (A, b) in data.items():
            model.client(name, cp.sum_squares(A @ x[name] - b))
        side = {name: x[name] if x[name].size == 2 else maps[name] @ x[name] for name in graph}
        model.consensus(*[side[a] == side[b] for a, b in graph.edges])
        pairs = {(a, b): maps[a] for one, two in graph.edges for a, b in ((one, two), (two, one))}
        return Built(model, float(value), x, points, _gradients(data, points), pairs)


def _gradients(
    data: dict[Hashable, tuple[Array, Array]], points: dict[Hashable, Array]
) -> dict[Hashable, Callable[[Array], float]]:
    slopes = {name: 2 * A.T @ (A @ points[name] - b) for name, (A, b) in data.items()}
    return {name: (lambda s, g=g: float(np.abs(s - g).max())) for name, g in slopes.items()}


@problem
def partial_overlap() -> Overlap:
    return Overlap()


@problem
def unequal_dimensions() -> Unequal:
    return Unequal()
