"""Declaring clients: what is refused and with which words, and what is legal though unusual."""

import re
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import dald_model as dm
from dald_model.declare.client import MISSHAPEN
from tests.expect import near, says


def at(v: cp.Variable) -> Any:
    return v.value


def refused(objective: Any, constraints: Any = (), name: Any = "ward") -> str:
    with pytest.raises(dm.DeclarationError) as caught:
        dm.Model().client(name, objective, constraints)
    return str(caught.value)


# --- bad input ------------------------------------------------------------------------------------


X = cp.Variable(name="x")
V = cp.Variable(2, name="v")


@pytest.mark.parametrize(
    ("objective", "parts"),
    [
        (cp.sqrt(X), ["is concave", "expected convex for Minimize", "rewrite", "dcp"]),
        (cp.Minimize(cp.log(X)), ["log(x)", "is concave", "expected convex for Minimize"]),
        (cp.Maximize(cp.exp(X)), ["exp(x)", "is convex", "expected concave for Maximize"]),
        (cp.exp(cp.log(X)), ["exp(log(x))", "expected convex", "rewrite"]),
        (V, ["an expression of shape (2,)", "expected", "scalar cvxpy expression"]),
        ("x**2", ["is str", "expected cp.Minimize, cp.Maximize"]),
        (None, ["is NoneType", "expected cp.Minimize, cp.Maximize"]),
        (np.ones(3), ["is ndarray", "expected cp.Minimize"]),
        (1j, ["is complex", "expected cp.Minimize", "real"]),
        (cp.Problem(cp.Minimize(cp.square(X))), ["is Problem", "expected cp.Minimize"]),
        (3.0, ["3.0", "hold no cvxpy Variable", "needs at least one"]),
    ],
)
def test_an_objective_that_is_not_dcp_real_and_scalar(objective: Any, parts: list[str]) -> None:
    says(refused(objective), "client 'ward'", "objective", *parts)


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        (cp.sqrt(X) <= 1, ["does not follow", "DCP", "write it as convex <= concave"]),
        (cp.square(X) == 1, ["does not follow", "DCP", "affine == affine"]),
        (cp.FiniteSet(X, [1, 2]), ["discrete", "expected a convex constraint", "relax it"]),
        (X, ["of type Variable", "expected a cvxpy constraint such as x >= 0"]),
        (True, ["is True of type bool", "expected a cvxpy constraint"]),
        ([X >= 0], ["of type list", "expected a cvxpy constraint"]),
    ],
)
def test_a_constraint_that_is_none_names_its_position(rule: Any, parts: list[str]) -> None:
    says(refused(cp.square(X), [X >= 1, rule]), "client 'ward'", "constraint 1", *parts)


@pytest.mark.parametrize("given", [X >= 0, None, 5])
def test_constraints_that_are_no_list(given: Any) -> None:
    message = refused(cp.square(X), given)
    says(message, "client 'ward'", type(given).__name__, "expected a list", "[x >= 0]")


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"boolean": True}, "boolean"),
        ({"integer": True}, "integer"),
        ({"boolean": [(0,)]}, "boolean"),
        ({"integer": [(1,)]}, "integer"),
        ({"complex": True}, "complex"),
        ({"imag": True}, "complex"),
    ],
)
def test_variables_that_are_not_real_and_continuous(attributes: dict, kind: str) -> None:
    odd = cp.Variable(2, name="odd", **attributes)
    for objective, rules in [(cp.sum(cp.abs(odd)), []), (cp.square(X), [cp.abs(odd) <= 1])]:
        message = refused(objective, rules)
        says(message, "client 'ward'", "'odd'", f"is {kind}", "expected real and continuous")
        says(message, "relax it")


def test_a_hermitian_variable_is_complex() -> None:
    odd = cp.Variable((2, 2), name="odd", hermitian=True)
    says(refused(cp.real(cp.trace(odd))), "'odd' is complex", "expected real")


def test_complex_data_are_refused_too() -> None:
    for part in (1j, cp.Parameter(name="p", complex=True)):
        says(refused(cp.abs(X - part)), "client 'ward'", "complex data", "expected real", "write")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_are_refused_with_their_number_and_shape(bad: float) -> None:
    data = np.array([[1.0, bad], [bad, 2.0], [3.0, 4.0]])
    for given in (data, sp.csr_array(data)):
        message = refused(cp.sum_squares(given @ V))
        says(message, "client 'ward'", "2 NaN or infinite", "shape (3, 2)", "clean the data")
    says(refused(cp.square(X), [bad >= X]), "client 'ward'", "x <= ", "1 NaN or infinite", "clean")
    says(refused(cp.square(X) + bad), "client 'ward'", "1 NaN or infinite", "clean")
    says(refused(cp.Minimize(bad), [X >= 0]), "client 'ward'", "1 NaN or infinite", "clean")


def test_infinite_bounds_are_no_data() -> None:
    low, high = np.array([-np.inf, 1.0]), np.array([3.0, np.inf])
    x, y = cp.Variable(2, bounds=[low, high]), cp.Variable(2)
    model = dm.Model()
    model.client("a", cp.sum_squares(x - np.array([9.0, 0.0])))
    model.client("b", cp.sum_squares(y - np.array([9.0, 0.0])))
    model.consensus(x == y)
    model.solve()
    assert x.value == near([3.0, 1.0])


@pytest.mark.parametrize(
    "objective",
    [
        lambda p, q: cp.square(p * q * X),
        lambda p, q: cp.square(X) + p * (q * X + 1),
    ],
    ids=["inside", "outside"],
)
def test_products_of_parameters_are_not_dpp(objective: Callable) -> None:
    message = refused(objective(cp.Parameter(name="p"), cp.Parameter(name="q")))
    says(message, "client 'ward'", "not DPP", "'p'", "'q'", "make it affine in them")


def test_a_name_is_taken_once() -> None:
    model = dm.Model("wards")
    model.client("ward", cp.square(X))
    with pytest.raises(dm.DeclarationError, match=r"client 'ward' is declared already.*new name"):
        model.client("ward", cp.square(cp.Variable()))
    assert list(model.clients) == ["ward"]


@pytest.mark.parametrize("name", [None, ["a"], {"a": 1}, ([1],)])
def test_a_name_must_be_a_networkx_node(name: Any) -> None:
    message = refused(cp.square(X), name=name)
    says(message, f"client {name!r}", type(name).__name__, "expected a networkx node", "hashable")


def test_a_refused_client_leaves_the_model_as_it_was() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x - 1))
    model.consensus(x == y)
    with pytest.raises(dm.DeclarationError, match="'x' is used by the clients 'a', 'b'"):
        model.client("b", cp.square(y - x))
    model.client("b", cp.square(y - 2))
    assert model.solve().value == near(0.5)


def test_every_error_is_of_one_tree() -> None:
    for kind in (dm.DeclarationError, dm.DecompositionError, dm.SequenceError, dm.OptionError):
        assert issubclass(kind, dm.DaldError)
        assert issubclass(kind, ValueError)
    assert issubclass(dm.DisconnectedError, dm.DeclarationError)


# --- legal though unusual -------------------------------------------------------------------------


def pair(x: cp.Variable, f: Any, y: cp.Variable, g: Any) -> dm.Model:
    """Two clients that agree in everything; with ``x is y`` through a server."""
    model = dm.Model()
    model.client("f", f)
    model.client("g", g)
    if x is not y:
        model.consensus(x == y)
    return model


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


# --- Parameters -----------------------------------------------------------------------------------


def test_parameters_change_the_answer_and_not_what_is_compiled() -> None:
    """Soft thresholding: min (x - p)^2 + lam |x| + (x - p)^2 with x >= floor."""
    p, lam = cp.Parameter(name="p"), cp.Parameter(name="lam", nonneg=True)
    floor = cp.Parameter(name="floor")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    client = model.client("a", cp.square(x - p) + lam * cp.abs(x), [x >= floor])
    model.client("b", cp.square(y - p))
    model.consensus(x == y)
    assert client.parameters == [p, lam, floor]
    compiled = model.compile()
    programs = [sub.problem for sub in compiled.values()]
    for p.value, lam.value, floor.value in [(3, 2, -9), (-3, 2, -9), (0.1, 2, -9), (-3, 2, -1)]:
        shrunk = np.sign(p.value) * max(abs(p.value) - lam.value / 4, 0)
        expected = max(shrunk, floor.value)
        result = model.solve()
        assert result[x] == near(expected)
        assert result.value == near(2 * (expected - p.value) ** 2 + lam.value * abs(expected))
        assert model.compile() is compiled
        assert [sub.problem for sub in compiled.values()] == programs
    assert all(program.is_dpp() for program in programs)


def test_parameters_of_a_shared_variable_and_its_constraints() -> None:
    p, top = cp.Parameter(2, name="p"), cp.Parameter(name="top")
    w = cp.Variable(2, name="w")
    model = dm.Model()
    model.client("a", cp.sum_squares(w - p), [w <= top])
    model.client("b", cp.sum_squares(cp.multiply(p, w) - 4))
    for middle, most in [(np.array([1.0, 2.0]), 9.0), (np.array([2.0, 3.0]), 1.5)]:
        p.value, top.value = middle, most
        expected = np.minimum(5 * middle / (1 + middle**2), most)
        model.solve()
        assert w.value == near(expected)


def test_a_parameter_without_a_finite_value_is_named_before_anything_is_computed() -> None:
    p = cp.Parameter(2, name="p")
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = pair(x, cp.sum_squares(x - p), y, cp.sum_squares(y))
    with pytest.raises(dm.OptionError, match=r"client 'f'.*Parameter 'p' has no value; set its"):
        model.solve()
    p.value = [1.0, np.inf]
    with pytest.raises(dm.OptionError, match=r"client 'f'.*Parameter 'p' holds NaN or inf.*set"):
        model.solve()
    p.value = [2.0, 4.0]
    model.solve()
    assert x.value == near([1.0, 2.0])


def test_a_parameter_of_a_constraint_is_looked_at_too() -> None:
    p = cp.Parameter(name="p")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x), [x >= p])
    model.client("b", cp.square(y))
    model.consensus(x == y)
    with pytest.raises(dm.OptionError, match=re.escape("client 'a': the Parameter 'p' has no")):
        model.solve()


# --- a model that goes on growing -----------------------------------------------------------------


def test_a_model_may_grow_between_solves_and_old_results_stay() -> None:
    x, y, z = (cp.Variable(name=n) for n in "xyz")
    model = dm.Model()
    model.client("f", cp.square(x))
    model.client("g", cp.square(y - 2))
    edge = x == y
    model.consensus(edge)
    first = model.solve()
    model.client("h", cp.square(z - 7))
    model.consensus(y == z)
    second = model.solve()
    assert (second[x], second[z], second.value) == near((3.0, 3.0, 9 + 1 + 16))
    assert (first[x], first.value) == near((1.0, 2.0))
    assert first.duals[edge] == near(-2.0)
    assert at(x) == near(3.0)
    assert first.verify().ok
    assert second.verify().ok
    with pytest.raises(dm.ResultError, match="variable 'z' has no value"):
        first[z]


def test_the_declaration_can_be_read_but_not_changed_from_outside() -> None:
    x, y = cp.Variable(), cp.Variable()
    model = pair(x, cp.square(x), y, cp.square(y))
    dict(model.clients).clear()
    assert [c.name for c in model.clients.values()] == ["f", "g"]
    assert [str(a) for a in model.agreements] == [f"{x} == {y}"]
    assert model.shared == []
    assert model.graph is None
    with pytest.raises(AttributeError):
        model.clients["f"].name = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.skipif(not MISSHAPEN, reason="this cvxpy gives cp.upper_tri the shape it says")
def test_upper_tri_is_refused_with_what_can_be_verified_in_its_place() -> None:
    target = np.array([[3.0, 1.0], [1.0, -2.0]])
    K = cp.Variable((2, 2), name="K")
    for rule in (cp.upper_tri(K) == 0, cp.sum(cp.abs(cp.upper_tri(K) - 1)) <= 1):
        with pytest.raises(dm.DeclarationError, match=r"client 0: .* holds cp\.upper_tri"):
            dm.Model().client(0, cp.sum_squares(K - target), [rule])
    places = np.flatnonzero(np.triu(np.ones(K.shape), 1))
    mask = np.triu(np.ones(K.shape), 1)
    for rule in (cp.vec(K, order="C")[places] == 0, cp.multiply(mask, K) == 0):
        model = dm.Model()
        for i in range(2):
            model.client(i, cp.sum_squares(K - target - i), [rule])
        result = model.solve()
        assert (result.status, result.verify().ok) == ("optimal", True)
        assert result["K"] == pytest.approx(np.array([[3.5, 0.0], [1.5, -1.5]]), abs=1e-5)
