"""Declarations that are legal though unusual."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import dald_model as dm
from tests.declare.pair import at, pair
from tests.expect import near


def test_names_are_any_networkx_nodes() -> None:
    names = [(0, 1), 7, frozenset({1}), 2.5]
    x = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model()
    for i, name in enumerate(names):
        model.client(name, cp.square(x[i] - i))
    model.consensus(*[x[i] == x[i + 1] for i in range(3)])
    result = model.solve(rho={((0, 1), 7): 1.0, 7: 1.0, frozenset({1}): 1.0, 2.5: 1.0})
    assert list(model.clients) == list(model.compile()) == names
    assert result[(0, 1)][x[0]] == near(1.5)
    assert result[frozenset({1})] == {x[2]: near(1.5)}


def test_constraints_may_come_from_a_generator() -> None:
    x, y = cp.Variable(3), cp.Variable(3)
    model = dm.Model()
    client = model.client("a", cp.sum_squares(x), (x[i] >= i for i in range(3)))
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    model.solve()
    assert len(client.constraints) == 3
    assert x.value == near([0.0, 1.0, 2.0])


@pytest.mark.parametrize("zero", [0, 0.0, cp.Constant(0), cp.Minimize(0)])
def test_a_client_without_objective(zero: Any) -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", zero, [x >= 3])
    model.client("b", cp.square(y - 1))
    model.consensus(x == y)
    assert model.solve().value == near(4.0)
    assert (at(x), at(y)) == near((3.0, 3.0))


def test_constant_terms_count() -> None:
    x, y = cp.Variable(), cp.Variable()
    result = pair(x, cp.square(x) + 10, y, cp.Minimize(cp.square(y - 2) - 3)).solve()
    assert result.value == near(2 + 7)


def test_everybody_maximises() -> None:
    # max log(x) - x + log(x) - 2 x + log(x) - 3 x at x = 1/2
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.Maximize(cp.log(x[i]) - (i + 1) * x[i]))
    edge = x[0] == x[1]
    model.consensus(edge, x[1] == x[2])
    result = model.solve()
    assert isinstance(model.monolithic().objective, cp.Maximize)
    assert result.value == near(3 * np.log(0.5) - 3)
    assert result[x[0]] == near(0.5)
    # Lagrangian of a maximisation in cvxpy's sign: the dual is that of minimising the negative.
    assert result.duals[edge] == near(1 / 0.5 - 1)
    assert result.verify().ok


def test_some_maximise_and_others_minimise() -> None:
    # min x^2 + x/2 - sqrt(x) has its minimum at x = 1/4: 1/2 + 1/2 = 1 / (2 sqrt(1/4))
    x, y, z = (cp.Variable(name=n) for n in "xyz")
    model = dm.Model()
    model.client("max", cp.Maximize(cp.sqrt(x)))
    model.client("min", cp.Minimize(cp.square(y)))
    model.client("expression", z / 2)
    model.consensus(x == y, y == z)
    result = model.solve()
    assert isinstance(model.monolithic().objective, cp.Minimize)
    assert at(x) == near(0.25)
    assert result.value == near(0.0625 + 0.125 - 0.5)


def test_one_constraint_object_in_two_clients_has_the_sum_as_its_dual() -> None:
    # min (x - 1)^2 + (x - 2)^2 with x >= 3: the multiplier of the one constraint is 4 + 2
    w = cp.Variable(2, name="w")
    rule = w >= 3
    model = dm.Model()
    model.client("a", cp.sum_squares(w - 1), [rule])
    model.client("b", cp.sum_squares(w - 2), [rule])
    model.solve()
    assert rule.dual_value == near([6.0, 6.0])


def test_variables_may_have_one_name() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="x")
    result = pair(x, cp.square(x), y, cp.square(y - 2)).solve()
    assert (result[x], result[y]) == near((1.0, 1.0))


def test_a_client_may_keep_variables_to_itself() -> None:
    x, y, t = cp.Variable(2, name="x"), cp.Variable(2, name="y"), cp.Variable(name="t")
    model = dm.Model()
    client = model.client("a", cp.sum_squares(x - 1) + cp.abs(t - 5), [t <= 2])
    model.client("b", cp.sum_squares(y))
    model.consensus(x[0] == y[1])
    result = model.solve()
    assert [v.name() for v in client.variables] == ["x", "t"]
    assert x.value == near([0.5, 1.0])
    assert y.value == near([0.0, 0.5])
    assert (at(t), result.value) == near((2.0, 3.5))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_data_dense_and_sparse(make: Callable) -> None:
    generator = np.random.default_rng(0)
    A = generator.normal(size=(12, 3)) * (generator.random((12, 3)) < 0.6)
    b = A @ np.array([1.0, -2.0, 3.0]) + generator.normal(size=12)
    x, y = cp.Variable(3), cp.Variable(3)
    model = pair(
        x, cp.sum_squares(make(A[:6]) @ x - b[:6]), y, cp.sum_squares(make(A[6:]) @ y - b[6:])
    )
    model.solve()
    assert x.value == near(np.linalg.lstsq(A, b)[0])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (2, 3), (3, 1)])
@pytest.mark.parametrize("style", ["peers", "shared", "server"])
def test_every_shape_comes_back(shape: tuple[int, ...], style: str) -> None:
    target = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape) + 1
    x = cp.Variable(shape, name="x")
    y = x if style == "shared" else cp.Variable(shape, name="y")
    z = cp.Variable(shape, name="z")
    edges = {"peers": [x == y], "shared": [], "server": [z == x, y == z]}[style]
    model = dm.Model()
    model.client("a", cp.sum_squares(x))
    model.client("b", cp.sum_squares(y - target))
    model.consensus(*edges)
    result = model.solve()
    for v in {x, y}:
        assert np.shape(at(v)) == np.shape(result[v]) == shape
        assert np.asarray(v.value) == near(target / 2)
    for edge in edges:
        assert np.shape(result.duals[edge]) == shape
    assert np.shape(result["a"][x]) == shape


MATRIX = np.array([[1.0, -3.0], [2.0, -1.0]])


def _clipped(least: float) -> np.ndarray:
    """The nearest matrix with eigenvalues on one side of zero (Higham 1988)."""
    values, vectors = np.linalg.eigh((MATRIX + MATRIX.T) / 2)
    kept = np.maximum(values, 0) if least == 0 else np.minimum(values, 0)
    return vectors @ np.diag(kept) @ vectors.T


@pytest.mark.parametrize("shared", [False, True], ids=["private", "shared"])
@pytest.mark.parametrize(
    ("attributes", "nearest"),
    [
        ({"nonneg": True}, np.maximum(MATRIX, 0)),
        ({"pos": True}, np.maximum(MATRIX, 0)),
        ({"nonpos": True}, np.minimum(MATRIX, 0)),
        ({"neg": True}, np.minimum(MATRIX, 0)),
        ({"symmetric": True}, (MATRIX + MATRIX.T) / 2),
        ({"diag": True}, np.diag(np.diag(MATRIX))),
        ({"PSD": True}, _clipped(0)),
        ({"NSD": True}, _clipped(1)),
        ({"bounds": [-2.0, 1.5]}, np.clip(MATRIX, -2, 1.5)),
        ({"bounds": [np.full((2, 2), -0.5), None]}, np.maximum(MATRIX, -0.5)),
    ],
    ids=["nonneg", "pos", "nonpos", "neg", "symmetric", "diag", "PSD", "NSD", "box", "floor"],
)
def test_attributes_project(attributes: dict, nearest: np.ndarray, shared: bool) -> None:
    """Two clients at MATRIX + 1 and MATRIX - 1: the answer is the projection of MATRIX."""
    x = cp.Variable((2, 2), name="x", **attributes)
    y = x if shared else cp.Variable((2, 2), name="y", **attributes)
    result = pair(x, cp.sum_squares(x - MATRIX - 1), y, cp.sum_squares(y - MATRIX + 1)).solve()
    assert np.asarray(result[x]) == near(nearest)
    assert result.value == near(2 * np.sum((nearest - MATRIX) ** 2) + 8)
    assert result.verify().ok


# Objectives of every kind, beside the same function in numpy for scipy to minimise from ``low`` on.
SCALAR: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "square": (cp.square, np.square, -5),
    "huber": (lambda x: cp.huber(x + 4, 2), lambda t: _huber(t + 4, 2), -5),
    "logistic": (cp.logistic, lambda t: np.logaddexp(0, t), -5),
    "exp": (cp.exp, np.exp, -5),
    "inv_pos": (cp.inv_pos, lambda t: 1 / t, 0),
    "minus log": (lambda x: -cp.log(x), lambda t: -np.log(t), 0),
    "minus sqrt": (lambda x: -cp.sqrt(x), lambda t: -np.sqrt(t), 0),
    "minus entr": (lambda x: -cp.entr(x), lambda t: t * np.log(t), 0),
    "kl_div": (lambda x: cp.kl_div(x, 2), lambda t: t * np.log(t / 2) - t + 2, 0),
    "power": (lambda x: cp.power(cp.pos(x), 1.5), lambda t: max(t, 0) ** 1.5, -5),
    "quad_form": (lambda x: cp.quad_form(cp.hstack([x, 1]), np.eye(2)), lambda t: t**2 + 1, -5),
    "quad_over_lin": (lambda x: cp.quad_over_lin(x, x + 4), lambda t: t**2 / (t + 4), -3.9),
    "log_sum_exp": (
        lambda x: cp.log_sum_exp(cp.hstack([x, 0, -x])),
        lambda t: np.log(np.exp(t) + 1 + np.exp(-t)),
        -5,
    ),
    "max": (lambda x: cp.max(cp.hstack([x, 3 * x, -x])), lambda t: max(3 * t, -t, t), -5),
    "geo_mean": (lambda x: -cp.geo_mean(cp.hstack([x, 1])), lambda t: -np.sqrt(t), 0),
    "lambda_max": (
        lambda x: cp.lambda_max(x * np.array([[0, 1], [1, 0]]) + np.eye(2)),
        lambda t: abs(t) + 1,
        -5,
    ),
    "suppfunc": (lambda x: SUPPORT(cp.hstack([x])), lambda t: max(2 * t, -t), -5),
    "perspective": (lambda x: cp.perspective(cp.square(S), T) + cp.square(x), np.square, -5),
}
S, T = cp.Variable(name="s"), cp.Variable(name="t", nonneg=True)
U = cp.Variable(1, name="u")
SUPPORT = cp.suppfunc(U, [U >= -1, U <= 2])


def _huber(t: float, m: float) -> float:
    return t**2 if abs(t) <= m else 2 * m * abs(t) - m**2


@pytest.mark.parametrize("kind", SCALAR)
def test_objectives_of_every_kind(kind: str) -> None:
    atom, function, low = SCALAR[kind]
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    result = pair(x, atom(x), y, cp.square(y - 1)).solve()
    found: Any = scipy.optimize.minimize_scalar(
        lambda t: function(t) + (t - 1) ** 2,
        bounds=(low, 5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert result.value == near(found.fun)
    assert result[y] == near(found.x)


def test_matrix_atoms_of_a_shared_symmetric_variable() -> None:
    # min trace(X) + lambda_max(X) + ||X - D||^2/2 for a diagonal D = diag(5, 1), X >> I:
    # the trace takes 1 off both, the eigenvalue another 1 off the first; X >> I lifts the second.
    X = cp.Variable((2, 2), name="X", symmetric=True)
    D = np.diag([5.0, 1.0])
    model = dm.Model()
    model.client("a", cp.trace(X) + cp.lambda_max(X), [X >> np.eye(2)])
    model.client("b", cp.sum_squares(X - D) / 2)
    result = model.solve()
    assert X.value == near(np.diag([3.0, 1.0]))
    assert result.value == near(4 + 3 + 2)
