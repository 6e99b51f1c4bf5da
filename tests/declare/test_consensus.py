"""The consensus graph: equalities, shared variables, servers and topologies."""

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


# --- equalities of every form ---------------------------------------------------------------------

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


# --- bad equalities -------------------------------------------------------------------------------


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


# --- servers --------------------------------------------------------------------------------------


def test_an_explicit_server_is_a_variable_that_no_client_owns() -> None:
    t = np.array([[1.0, 5.0], [2.0, 0.0], [6.0, 4.0]])
    v = [cp.Variable(2, name=f"v{i}") for i in range(3)]
    s = cp.Variable(2, name="s")
    edges = [s == v[0], v[1] == s, s == v[2]]
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(v[i] - t[i]))
    model.consensus(*edges)
    result = model.solve()
    mean = t.mean(axis=0)
    assert model.compile().servers == ("server",)
    assert model.compile().network.levels == [[0, 1, 2], ["server"]]
    assert all(result[u] == near(mean) for u in (*v, s))
    assert result["server"] == {s: near(mean)}
    # 2 (v - t) + mu = 0 with the sign of the side that v stands on
    assert [result.duals[e] for e in edges] == [
        near(sign * 2 * (mean - t[i])) for i, sign in enumerate([1, -1, 1])
    ]
    assert result.verify().ok


@pytest.mark.parametrize(
    ("attributes", "project"),
    [
        ({"nonneg": True}, lambda m: np.maximum(m, 0)),
        ({"nonpos": True}, lambda m: np.minimum(m, 0)),
        ({"bounds": [-0.5, 1.0]}, lambda m: np.clip(m, -0.5, 1)),
    ],
    ids=["nonneg", "nonpos", "bounds"],
)
def test_a_server_with_attributes_holds_its_clients_to_them(
    attributes: dict, project: Callable
) -> None:
    t = np.array([[1.0, -5.0], [2.0, 1.0], [6.0, -2.0]])
    v = [cp.Variable(2, name=f"v{i}") for i in range(3)]
    s = cp.Variable(2, name="s", **attributes)
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(v[i] - t[i]))
    model.consensus(*[s == u for u in v])
    result = model.solve()
    assert result[s] == near(project(t.mean(axis=0)))
    assert result.verify().ok


def test_a_server_of_which_clients_see_different_maps() -> None:
    """To minimise sum ||M_i z - t_i||^2 is least squares, here of seven rows."""
    generator = np.random.default_rng(3)
    maps = [generator.normal(size=(k, 3)) for k in (2, 3, 2)]
    t = [generator.normal(size=len(A)) for A in maps]
    v = [cp.Variable(len(A), name=f"v{i}") for i, A in enumerate(maps)]
    s = cp.Variable(3, name="s")
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(v[i] - t[i]))
    model.consensus(*[A @ s == u for A, u in zip(maps, v, strict=True)])
    result = model.solve()
    A, b = np.vstack(maps), np.concatenate(t)
    best = np.linalg.lstsq(A, b)[0]
    assert result[s] == near(best)
    assert result.value == near(np.sum((A @ best - b) ** 2))


def test_two_servers_that_share_a_client() -> None:
    t = [1.0, 2.0, 6.0]
    v = [cp.Variable(2, name=f"v{i}") for i in range(3)]
    p, q = cp.Variable(name="p"), cp.Variable(name="q")
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(v[i] - t[i]))
    model.consensus(p == v[0][0], p == v[1][0], q == v[1][1], q == v[2][1])
    result = model.solve()
    assert model.compile().servers == ("server p", "server q")
    assert (result[p], result[q]) == near((1.5, 4.0))
    assert result[v[1]] == near([1.5, 4.0])
    assert result.value == near(2 * 0.25 + 2 * 4.0)


def test_variables_that_stand_together_in_a_side_make_one_server() -> None:
    """Minimise (x - 1)^2 + (y - 4)^2 + (u - 2)^2 with u = x + y: each residual has a third of 3."""
    v = [cp.Variable(name=f"v{i}") for i in range(3)]
    p, q = cp.Variable(name="p"), cp.Variable(name="q")
    model = dm.Model()
    for i, t in enumerate((1.0, 4.0, 2.0)):
        model.client(i, cp.square(v[i] - t))
    model.consensus(v[0] == p, v[1] == q, v[2] == p + q)
    result = model.solve()
    assert model.compile().servers == ("server",)
    assert [result[u] for u in (*v, p, q)] == near([0.0, 3.0, 3.0, 0.0, 3.0])


def test_servers_in_a_row() -> None:
    a, b, p, q = (cp.Variable(name=n) for n in "abpq")
    model = dm.Model()
    model.client("a", cp.square(a - 1))
    model.client("b", cp.square(b - 5))
    edges = [a == p, p == q, q == b]
    model.consensus(*edges)
    result = model.solve()
    assert [result[v] for v in (a, p, q, b)] == near([3.0] * 4)
    assert [result.duals[edge] for edge in edges] == near([-4.0] * 3)


def test_one_client_and_a_server() -> None:
    a, s = cp.Variable(name="a"), cp.Variable(name="s")
    model = dm.Model()
    model.client("a", cp.square(a - 3), [a <= 2])
    model.consensus(a == s)
    result = model.solve()
    assert (result[a], result[s], result.value) == near((2.0, 2.0, 1.0))


def test_a_client_may_be_called_server() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    model.client("server", cp.square(w - 1))
    model.client("server 2", cp.square(w - 3))
    result = model.solve()
    assert list(model.compile()) == ["server", "server 2", "server 3"]
    assert result[w] == near(2.0)


# --- shared variables and topologies --------------------------------------------------------------


def sharing(*targets: float, name: str = "shared") -> tuple[dm.Model, cp.Variable]:
    w = cp.Variable(2, name="w")
    model = dm.Model(name)
    for client, t in zip("abcdef", targets, strict=False):
        model.client(client, cp.sum_squares(w - np.array([t, 2 * t])))
    return model, w


GRAPHS: dict[str, nx.Graph] = {
    "path": nx.path_graph("abcd"),
    "star": nx.star_graph("abcd"),
    "ring": nx.cycle_graph("abcd"),
    "complete": nx.complete_graph("abcd"),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_shared_variable_over_any_graph_and_back_to_a_server(kind: str) -> None:
    model, w = sharing(1, 2, 4, 9)
    graph = GRAPHS[kind]
    model.topology(graph)
    result = model.solve()
    assert nx.utils.graphs_equal(nx.Graph(model.compile().graph.edges), nx.Graph(graph.edges))
    assert result[w] == near([4.0, 8.0])
    assert all(result[name][w] == near([4.0, 8.0]) for name in "abcd")
    assert result.verify().ok
    model.topology(None)
    result = model.solve()
    assert model.compile().servers == ("server",)
    assert result[w] == near([4.0, 8.0])


def test_shared_variables_and_equalities_go_together() -> None:
    """Clients a and b share w, b and c share v, a and c agree on u: the normal equations."""
    w, v, one, two = (cp.Variable(name=n) for n in ("w", "v", "one", "two"))
    model = dm.Model()
    model.client("a", cp.square(w - 1) + cp.square(one - w))
    model.client("b", cp.square(w - v))
    model.client("c", cp.square(v - 5) + cp.square(two))
    model.consensus(one == two)
    rows = np.array([[1, 0, 0], [-1, 0, 1], [1, -1, 0], [0, 1, 0], [0, 0, 1.0]])  # w, v, u
    known = np.linalg.lstsq(rows, np.array([1, 0, 0, 5, 0.0]))[0]
    for graph in (None, nx.path_graph("abc")):
        model.topology(graph)
        result = model.solve()
        assert [result[u] for u in (w, v, one)] == near(known)
        assert result[two] == near(result[one])


def test_the_users_graph_may_change_afterwards() -> None:
    model, w = sharing(1, 2, 6)
    graph = nx.path_graph("abc")
    model.topology(graph)
    graph.remove_edge("a", "b")
    assert model.solve()[w] == near([3.0, 6.0])


@pytest.mark.parametrize(
    ("graph", "parts"),
    [
        (3, ["given int", "expected an undirected networkx.Graph"]),
        ([("a", "b")], ["given list", "expected an undirected networkx.Graph"]),
        (nx.DiGraph([("a", "b"), ("b", "c")]), ["given DiGraph", "order", "sequence"]),
        (nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")]), ["given MultiGraph", "expected an"]),
        (nx.path_graph("abcz"), ["'z' is no client of 'shared'", "among 'a', 'b', 'c'"]),
        (nx.path_graph(3), ["0, 1, 2 is no client", "expected nodes among"]),
        (nx.path_graph("ab"), ["client 'c'", "'w'", "no node of the graph", "add it"]),
        (
            nx.Graph(list(zip("abb", "bcb", strict=True))),
            ["client 'b'", "an edge to itself", "remove it"],
        ),
        (nx.empty_graph("abc"), ["'w'", "3 parts: {'a'}; {'b'}; {'c'}", "Remark 1", "add an edge"]),
    ],
    ids=["int", "list", "directed", "multi", "stranger", "numbers", "missing", "loop", "apart"],
)
def test_a_topology_that_does_not_fit_is_refused_at_once(graph: Any, parts: list[str]) -> None:
    model, w = sharing(1, 2, 6)
    with pytest.raises(dm.DeclarationError) as caught:
        model.topology(graph)
    says(str(caught.value), "topology", *parts)
    assert model.graph is None
    assert model.solve()[w] == near([3.0, 6.0])


def test_the_users_of_each_shared_variable_must_reach_one_another() -> None:
    v, w = cp.Variable(name="v"), cp.Variable(name="w")
    model = dm.Model()
    model.client("a", cp.square(w) + cp.square(v))
    model.client("b", cp.square(w))
    model.client("c", cp.square(v))
    with pytest.raises(dm.DisconnectedError) as caught:
        model.topology(nx.path_graph("abc"))
    says(str(caught.value), "the clients that use 'v'", "{'a'}; {'c'}", "add an edge")


def test_a_topology_needs_a_shared_variable(model: dm.Model) -> None:
    with pytest.raises(dm.DeclarationError, match=r"no variable of 'three' is used by several"):
        model.topology(nx.path_graph("abc"))


def test_a_client_that_comes_after_the_topology_is_asked_for() -> None:
    model, w = sharing(1, 2, 6)
    model.topology(nx.path_graph("abc"))
    model.client("d", cp.sum_squares(w - 7))
    with pytest.raises(dm.DeclarationError) as caught:
        model.solve()
    says(str(caught.value), "topology: client 'd'", "'w'", "no node of the graph", "add it")
    model.topology(nx.path_graph("abcd"))
    assert model.solve()[w] == near([(1 + 2 + 6 + 7) / 4, (2 + 4 + 12 + 7) / 4])
