"""Servers: declared ones, and those that hold what many clients share."""

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near


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
