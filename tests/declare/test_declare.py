"""Declaring clients: what is refused, and with which words."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from tests.declare.pair import at, pair
from tests.expect import near, says


def refused(objective: Any, constraints: Any = (), name: Any = "ward") -> str:
    with pytest.raises(dm.DeclarationError) as caught:
        dm.Model().client(name, objective, constraints)
    return str(caught.value)


X = cp.Variable(name="x")
V = cp.Variable(2, name="v")


@pytest.mark.parametrize(
    ("objective", "parts"),
    [
        (
            cp.square(X) + cp.log(1 + cp.exp(X)),
            ["in it, log(1.0 + exp(x)) breaks the rules, since log is concave and its argument"],
        ),
        (cp.square(X) + cp.sqrt(X), ["in it, power(x, 0.5) is concave"]),
        (X * cp.square(X), ["since it multiplies two expressions of variables"]),
        (
            cp.Parameter(name="weight", value=1.0) * cp.abs(X),
            ["the sign of the Parameter 'weight' is unknown", "cp.Parameter(nonneg=True)"],
        ),
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
        (cp.abs(X) >= 1, ["abs(x) is convex, expected concave"]),
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
        says(message, f"the first is {bad} at [0, 1]")
    said = f"holds the constant {bad}"
    says(refused(cp.square(X), [bad >= X]), "client 'ward'", "x <= ", said, "clean")
    says(refused(cp.square(X) + bad), "client 'ward'", said, "clean")
    says(refused(cp.Minimize(bad), [X >= 0]), "client 'ward'", said, "clean")


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


UPPER: Any = cp.upper_tri(np.eye(2))


@pytest.mark.skipif(
    np.shape(UPPER.value) == UPPER.shape, reason="this cvxpy gives cp.upper_tri the shape it says"
)
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


def test_a_column_and_a_vector_of_one_length_are_warned_of() -> None:
    """Least squares of a 5 x 5 matrix, where five residuals were meant."""
    w, data, target = cp.Variable(2, name="w"), np.ones((5, 2)), np.arange(5.0)
    column = data @ cp.reshape(w, (2, 1), order="F")
    with pytest.warns(UserWarning, match=r"client 'a': .* add up to a matrix of shape \(5, 5\)"):
        dm.Model().client("a", cp.sum_squares(column - target))
    dm.Model().client("a", cp.sum_squares(column - target[:, None]))
    dm.Model().client("a", cp.sum_squares(column - target[None, :]))  # an outer sum, as it says
