"""The consensus graph: equalities of every form, and bad ones."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from tests.expect import near, says

Array = np.ndarray


def nearest(
    targets: list[Array], left: list[Array], right: Array | None = None
) -> tuple[Array, Array]:
    r"""Minimise sum ||x_i - t_i||^2 with sum_i left_i x_i = right by the optimality system.

    Gives the stacked point and the multiplier.
    """
    t, G = np.concatenate(targets), np.hstack(left)
    rest = G @ t - (0 if right is None else right)
    mu = 2 * np.linalg.solve(G @ G.T, rest)
    return t - G.T @ mu / 2, mu


DATA = np.random.default_rng(7)
M = DATA.normal(size=(2, 4))
N = DATA.normal(size=(2, 3))
TX, TY = DATA.normal(size=4), DATA.normal(size=3)


@pytest.mark.parametrize(
    ("equality", "left", "offset"),
    [
        (lambda x, y: x[:3] == y, np.eye(3, 4), 0),
        (lambda x, y: x[1:] == y[::-1], [np.eye(4)[1:], -np.eye(3)[::-1]], 0),
        (lambda x, y: x[[3, 0]] == y[[0, 0]], [np.eye(4)[[3, 0]], -np.eye(3)[[0, 0]]], 0),
        (lambda x, y: M @ x == y[:2], [M, -np.eye(2, 3)], 0),
        (lambda x, y: sp.csr_array(M) @ x == N @ y, [M, -N], 0),
        (lambda x, y: 2 * x[:3] + 1 == 3 * y - 4, [2 * np.eye(3, 4), -3 * np.eye(3)], -5),
        (lambda x, y: cp.sum(x) == cp.sum(y), [np.ones((1, 4)), -np.ones((1, 3))], 0),
        (lambda x, y: x[0] == -y[2], [np.eye(1, 4), np.eye(3)[2:]], 0),
        (lambda x, y: cp.diff(x) == y, [np.diff(np.eye(4), axis=0), -np.eye(3)], 0),
        (lambda x, y: cp.hstack([x[0], x[3]]) == y[1:], [np.eye(4)[[0, 3]], -np.eye(3)[1:]], 0),
    ],
    ids=[
        "slice",
        "reverse",
        "index",
        "matrix",
        "sparse",
        "scale",
        "sum",
        "negative",
        "difference",
        "stack",
    ],
)
def test_each_side_is_any_affine_map_of_one_client(
    equality: Callable, left: Any, offset: float
) -> None:
    x, y = cp.Variable(4, name="x"), cp.Variable(3, name="y")
    edge = equality(x, y)
    model = dm.Model()
    model.client("x", cp.sum_squares(x - TX))
    model.client("y", cp.sum_squares(y - TY))
    model.consensus(edge)
    result = model.solve()
    G = [left, -np.eye(3)] if isinstance(left, Array) else left
    point, mu = nearest([TX, TY], G, np.full(len(G[0]), offset))
    assert np.concatenate([result[x], result[y]]) == near(point)
    assert np.ravel(result.duals[edge]) == near(mu)
    assert result.verify().ok


def test_a_transposed_matrix_keeps_its_entries_and_its_duals_in_place() -> None:
    T = np.arange(6.0).reshape(2, 3)
    X, Y = cp.Variable((2, 3), name="X"), cp.Variable((3, 2), name="Y")
    edge = X == Y.T
    model = dm.Model()
    model.client("x", cp.sum_squares(X - T))
    model.client("y", cp.sum_squares(Y))
    model.consensus(edge)
    result = model.solve()
    assert result[X] == near(T / 2)
    assert result[Y] == near(T.T / 2)
    # 2 (X - T) + mu = 0
    assert edge.dual_value == near(T)


def test_the_multiplier_has_the_sign_of_cvxpy() -> None:
    """L = (x - 1)^2 + (y - 3)^2 + mu (x - y): mu = -2 (x - 1) = -2 at x = y = 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    for edge, expected in [(x == y, -2.0), (y == x, 2.0), (3 * x == 3 * y, -2 / 3)]:
        model = dm.Model()
        model.client("a", cp.square(x - 1))
        model.client("b", cp.square(y - 3))
        model.consensus(edge)
        result = model.solve()
        assert result.duals[edge] == near(expected)
        assert edge.dual_value == near(expected)
        assert result.multipliers[model.compile().edges[0].ends] == near([expected])


def test_parallel_equalities_form_one_edge_whatever_their_orientation() -> None:
    t = np.arange(4.0)
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    one, two = x[:2] == y[:2], y[2:] == x[2:]
    model = dm.Model()
    model.client("a", cp.sum_squares(x - t))
    model.client("b", cp.sum_squares(y))
    model.consensus(one, two)
    result = model.solve()
    (edge,) = model.compile().edges
    assert (edge.ends, edge.size) == (("a", "b"), 4)
    assert [(p.start, p.stop, p.sign) for p in edge.parts] == [(0, 2, 1), (2, 4, -1)]
    assert result[x] == near(t / 2)
    assert one.dual_value == near(t[:2])
    assert two.dual_value == near(-t[2:])


def test_redundant_equalities_do_no_harm() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("a", cp.sum_squares(x - 1))
    model.client("b", cp.sum_squares(y - 4))
    edges = [x == y, y == x, 2 * x[0] == 2 * y[0], cp.sum(x) == cp.sum(y)]
    model.consensus(*edges)
    result = model.solve()
    assert result[x] == near([2.5, 2.5])
    # Only this sum of the multipliers is determined: the gradient of the first client.
    d = [result.duals[e] for e in edges]
    assert d[0] - d[1] + np.array([2 * d[2], 0]) + d[3] == near([-3.0, -3.0])
    assert result.verify().ok


def test_an_equality_declared_twice_counts_once() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    edge = x == y
    model = dm.Model()
    model.client("a", cp.square(x - 1))
    model.client("b", cp.square(y - 3))
    model.consensus(edge, edge)
    model.consensus(edge)
    model.solve()
    assert len(model.agreements) == 1
    assert edge.dual_value == near(-2.0)


def test_equalities_may_come_before_the_clients() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.consensus(x == y)
    model.client("a", cp.square(x - 1))
    model.client("b", cp.square(y - 3))
    assert model.solve().value == near(2.0)
    assert model.compile().servers == ()


def test_a_parameter_in_a_side_changes_the_answer_and_not_what_is_compiled() -> None:
    """Minimise (x - 4)^2 + y^2 with p x + q = y: x = (4 - p q) / (1 + p^2)."""
    p, q = cp.Parameter(name="p"), cp.Parameter(name="q")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x - 4))
    model.client("b", cp.square(y))
    model.consensus(p * x + q == y)
    with pytest.raises(dm.OptionError, match=r"consensus p \* x \+ q == y.*'p' has no value; set"):
        model.solve()
    compiled = model.compile()
    for p.value, q.value in [(1, 0), (3, 0), (-2, 5), (1, 0)]:
        result = model.solve()
        expected = (4 - p.value * q.value) / (1 + p.value**2)
        assert (result[x], result[y]) == near((expected, p.value * expected + q.value))
        assert model.compile() is compiled
    q.value = np.inf
    with pytest.raises(dm.OptionError, match=r"consensus .*'q' holds NaN or infinite entries; set"):
        model.solve()


def test_a_ring_closes() -> None:
    """Three clients, each apart from the next by what the equalities say."""
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.square(x[i] - i))
    model.consensus(x[0] == x[1] + 1, x[1] == x[2] + 1, x[2] == x[0] - 2)
    result = model.solve()
    assert [result[v] for v in x] == near([2.0, 1.0, 0.0])


@pytest.fixture
def model() -> dm.Model:
    """Clients a, b, c with x, y, z."""
    model = dm.Model("three")
    for name, v in zip("abc", VARIABLES, strict=True):
        model.client(name, cp.sum_squares(v))
    return model


VARIABLES = x, y, z = [cp.Variable(2, name=name) for name in "xyz"]
SERVANT = cp.Variable(2, name="s")


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (x + y == z, ["x + y == z", "x + y mixes", "x of 'a', y of 'b'", "one client on each"]),
        (z == x - y, ["mixes the clients' variables x of 'a', y of 'b'", "write x0 == x1"]),
        (x == 3 * x, ["both sides belong to client 'a'", "expected two clients", "constraints of"]),
        (x == x[::-1], ["both sides belong to client 'a'", "put the equality into"]),
        (cp.square(x) == y, ["is convex", "expected affine", "introduce a variable"]),
        (y == cp.exp(x), ["the side exp(x) is convex", "expected affine", "introduce"]),
        (x == y[0], ["shapes (2,) and ()", "expected equal shapes", "index or reshape"]),
        (cp.reshape(x, (2, 1), order="F") == y, ["shapes (2, 1) and (2,)", "expected equal"]),
        (x[:0] == y[:0], ["shape (0,)", "hold nothing", "check the slice"]),
        (x - y == 0, ["the side 0.0 holds no variable", "variables on each side"]),
        (x == 3, ["the side 3.0 holds no variable", "client's constraints instead"]),
        (x <= y, ["x <= y of type Inequality", "expected a cvxpy equality such as x0 == x1"]),
        (cp.Zero(x - y), ["of type Zero", "expected a cvxpy equality"]),
        (True, ["given True of type bool", "expected a cvxpy equality"]),
        ("x == y", ["given 'x == y' of type str", "expected a cvxpy equality"]),
        ([x == y, y == z], ["of type list", "model.consensus(*equalities)"]),
        ({"e": x == y}.values(), ["of type dict_values", "model.consensus(*equalities)"]),
        (x + np.array([np.nan, 1]) == y, ["1 NaN or infinite", "shape (2,)", "clean the data"]),
        (x == np.array([[1, np.inf], [0, 1]]) @ y, ["1 NaN or infinite", "clean the data"]),
        (x == 1j * y, ["complex data", "expected real"]),
        (x == cp.Variable(2, name="o", complex=True), ["'o' is complex", "relax it"]),
        (x == cp.Variable(2, name="o", integer=True), ["'o' is integer", "expected real and"]),
        (x == cp.Variable(2, name="o", boolean=True), ["'o' is boolean", "relax it"]),
    ],
    ids=lambda case: "" if isinstance(case, list) and isinstance(case[0], str) else None,
)
def test_what_is_no_consensus_is_refused_at_once(
    model: dm.Model, given: Any, parts: list[str]
) -> None:
    with pytest.raises(dm.DeclarationError) as caught:
        model.consensus(y == z, given)
    says(str(caught.value), "consensus", *parts)
    assert model.agreements == (), "all or none"


def test_a_late_client_is_held_against_the_equalities() -> None:
    model = dm.Model()
    model.client("a", cp.sum_squares(x))
    model.consensus(x == y + z)
    model.client("b", cp.sum_squares(y))
    with pytest.raises(dm.DeclarationError, match=r"y \+ z mixes.*y of 'b', z of 'c'"):
        model.client("c", cp.sum_squares(z))
    other = dm.Model()
    other.consensus(x == y)
    with pytest.raises(dm.DeclarationError, match="both sides belong to client 'ab'"):
        other.client("ab", cp.sum_squares(x + y))


def test_a_shared_variable_is_in_consensus_already() -> None:
    model = dm.Model()
    model.client("a", cp.sum_squares(x))
    model.client("b", cp.sum_squares(x) + cp.sum_squares(y))
    model.client("c", cp.sum_squares(z))
    with pytest.raises(dm.DeclarationError) as caught:
        model.consensus(x == z)
    says(str(caught.value), "x == z", "'x' is used by the clients 'a', 'b'", "already", "drop the")
    model.consensus(y == z)
    with pytest.raises(dm.DeclarationError, match="'z' is used by the clients 'c', 'd'"):
        model.client("d", cp.sum_squares(z))


def test_a_client_without_coupling_is_named_with_its_variables(model: dm.Model) -> None:
    model.consensus(x == y)
    for act in (model.compile, model.solve):
        with pytest.raises(dm.DeclarationError) as caught:
            act()
        says(str(caught.value), "client 'c' has no coupling", "(z)", "add model.consensus(...)")
    model.consensus(y == z)
    assert model.solve().status == "optimal"


def test_a_disconnected_graph_is_named_by_its_components() -> None:
    v = [cp.Variable(name=f"v{i}") for i in range(5)]
    model = dm.Model()
    for i in range(5):
        model.client(f"c{i}", cp.square(v[i]))
    model.consensus(v[0] == v[1], v[3] == v[2], v[4] == v[2])
    with pytest.raises(dm.DisconnectedError) as caught:
        model.solve()
    says(str(caught.value), "2 parts", "{'c0', 'c1'}; {'c2', 'c3', 'c4'}", "Remark 1")
    says(str(caught.value), "add a consensus equality between them")


def test_shared_variables_alone_can_leave_clients_apart() -> None:
    v, w = cp.Variable(name="v"), cp.Variable(name="w")
    model = dm.Model()
    for name, shared in [("a", v), ("b", v), ("c", w), ("d", w)]:
        model.client(name, cp.square(shared))
    model.solve()  # through a server all hang together
    model.topology(nx.Graph([("a", "b"), ("c", "d")]))
    with pytest.raises(dm.DisconnectedError) as caught:
        model.compile()
    says(str(caught.value), "{'a', 'b'}; {'c', 'd'}")


def test_variables_of_two_clients_each_are_edges_and_need_no_server() -> None:
    v, w, z = cp.Variable(name="v"), cp.Variable(2, name="w"), cp.Variable(name="z")
    model = dm.Model()
    model.client("a", cp.square(v))
    model.client("b", cp.square(v - 2) + cp.sum_squares(w))
    model.client("c", cp.sum_squares(w - 4) + cp.square(z - 5))
    result = model.solve()
    assert [(*edge.ends, edge.size) for edge in result.compiled.edges] == [
        ("a", "b", 1),
        ("b", "c", 2),
    ]
    assert [result[v], *result[w], result[z]] == near([1.0, 2.0, 2.0, 5.0])
    says(model, "shared between two clients each: v, w")
    assert result.verify().ok
    model.client("d", cp.square(v - 4))
    result = model.solve()
    assert result.compiled.servers == ("server",), "a server that is needed has them all"
    assert result[v] == near(2.0)
    says(model, "shared through a server: v, w")


def test_no_clients_no_model() -> None:
    with pytest.raises(dm.DeclarationError, match=r"'empty' has no clients.*model.client"):
        dm.Model("empty").solve()
    only = dm.Model("edges")
    only.consensus(x == y)
    with pytest.raises(dm.DeclarationError, match=r"'edges' has no clients"):
        only.compile()


def test_a_topology_needs_a_shared_variable(model: dm.Model) -> None:
    with pytest.raises(dm.DeclarationError, match=r"no variable of 'three' is used by several"):
        model.topology(nx.path_graph("abc"))
