"""Copies: of a model over the same variables, of a result with other arrays; others are refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def three() -> tuple[dm.Model, cp.Variable]:
    """Of sum_i |w - i|^2 over two entries the minimum is 4, at w = (1, 1)."""
    w = cp.Variable(2, name="w")
    model = dm.Model("three")
    for i in range(3):
        model.client(i, cp.sum_squares(w - i), [w >= -5])
    return model, w


def optimum(model: dm.Model) -> float:
    return float(model.monolithic().solve(solver=cp.CLARABEL))  # pyright: ignore[reportArgumentType]


# --- a shallow copy is a model of its own ---------------------------------------------------------


@pytest.mark.parametrize("solved", [False, True])
def test_what_is_declared_in_a_copy_is_not_in_the_original(solved: bool) -> None:
    model, w = three()
    if solved:
        model.solve()
    other = copy.copy(model)
    other.client("new", cp.sum_squares(w - 30))
    assert list(model.clients) == [0, 1, 2]
    assert list(other.clients) == [0, 1, 2, "new"]
    # 0, 1, 2 and 30 have the mean 33/4 and the sum of squares 905
    for one, expected in ((model, 4.0), (other, 2 * (905 - 33**2 / 4)), (model, 4.0)):
        result = one.solve()
        assert result.value == pytest.approx(expected, rel=1e-4)
        assert optimum(one) == pytest.approx(expected, rel=1e-4)
        assert result.verify().ok


def test_what_is_declared_in_the_original_is_not_in_a_copy() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.square(x[i] - i))
    model.consensus(x[0] == x[1])
    other = copy.copy(model)
    model.consensus(x[1] == x[2])
    assert len(model.agreements) == 2
    assert len(other.agreements) == 1
    other.consensus(x[1] - 1 == x[2])
    # x - i and x - 1 - 2: the mean of 0, 1 and 3 is 4/3
    assert other.solve().value == pytest.approx(10 - 16 / 3, rel=1e-4)
    assert model.solve().value == pytest.approx(2, rel=1e-4)


def test_a_copy_checks_the_sides_that_it_inherited() -> None:
    """The equalities of the original bind a client that is declared in the copy."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("a", cp.square(x[0]))
    model.client("b", cp.square(x[1]))
    model.consensus(x[0] == x[1])
    for one in (model, copy.copy(model)):
        with pytest.raises(dm.DeclarationError, match="consensus x0 == x1"):
            one.client("both", cp.square(x[0] - x[1]))


def test_a_copy_of_a_client_a_compiled_model_and_a_result_say_the_same() -> None:
    model, w = three()
    result = model.solve()
    assert copy.copy(model.clients[0]).variables == [w]
    assert list(copy.copy(model.compile())) == [0, 1, 2, "server"]
    np.testing.assert_array_equal(copy.copy(result)[w], result[w])
    assert copy.copy(result).verify().ok
    assert copy.copy(result.verify()).ok


# --- a deep copy of a result has arrays of its own ------------------------------------------------


def test_a_deep_copy_of_a_result_has_other_arrays_of_the_same_variables() -> None:
    model, w = three()
    result = model.solve()
    result.verify()
    other = copy.deepcopy(result)
    assert other.compiled is result.compiled
    assert list(other.duals) == list(result.duals)
    rule = model.constraints[0]
    np.testing.assert_array_equal(other.duals[rule], result.duals[rule])
    kept, own = result[w].copy(), result[0][w].copy()
    other[w][:] = 7.0
    other[0][w][:] = 7.0
    np.testing.assert_array_equal(result[w], kept)
    np.testing.assert_array_equal(result[0][w], own)
    assert not other.verify().ok
    assert result.verify().ok
    assert model.solve(start=copy.deepcopy(result)).rounds < result.rounds


def test_a_deep_copy_of_a_result_knows_clients_by_their_identity() -> None:
    class Name:
        pass

    a, b = Name(), Name()
    w = cp.Variable()
    model = dm.Model()
    model.client(a, cp.square(w))
    model.client(b, cp.square(w - 2))
    other = copy.deepcopy(model.solve())
    assert other[a][w] == pytest.approx(1.0, abs=1e-5)
    assert other.verify().ok


# --- what would mean other variables --------------------------------------------------------------

PARTS: dict[str, Callable[[dm.Result], Any]] = {
    "Model 'three'": lambda r: r.compiled.model,
    "Client 0": lambda r: r.compiled.model.clients[0],
    "Compiled": lambda r: r.compiled,
    "Subproblem 0": lambda r: r.compiled[0],
    "Edge": lambda r: r.compiled.edges[0],
}
RESULTS: dict[str, Callable[[dm.Result], Any]] = {
    "Result": lambda r: r,
    "Duals": lambda r: r.duals,
    "Result ": lambda r: r.verify(),
}


@pytest.fixture(scope="module")
def solved() -> dm.Result:
    return three()[0].solve()


@pytest.mark.parametrize("name", PARTS)
def test_a_deep_copy_is_refused_in_words(name: str, solved: dm.Result) -> None:
    with pytest.raises(dm.CopyError) as caught:
        copy.deepcopy(PARTS[name](solved))
    assert str(caught.value).startswith(
        f"{name}: a deep copy has cvxpy variables of its own, which none of your names means; "
        "expected no deep copy; "
    )
    assert solved.verify().ok


@pytest.mark.parametrize("name", PARTS | RESULTS)
def test_a_pickle_is_refused_in_words(name: str, solved: dm.Result) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(dm.CopyError) as caught:
            pickle.dumps((PARTS | RESULTS)[name](solved), protocol)
        assert str(caught.value).startswith(
            f"{name.strip()}: cannot be pickled or sent to another process, since cvxpy numbers "
            "the variables of each process anew and would take others for these; expected data; "
        )


def test_what_the_refusals_advise_works(solved: dm.Result) -> None:
    model = solved.compiled.model
    sent = {v.name(): solved[v] for v in model.variables}, solved.history, solved.value
    values, history, value = pickle.loads(pickle.dumps(sent))
    np.testing.assert_array_equal(values["w"], solved[model.variables[0]])
    assert value == solved.value
    assert history.equals(solved.history)
    assert dm.unpack(pickle.loads(pickle.dumps(dm.pack(solved.compiled[0])))).size == 2
    assert pickle.loads(pickle.dumps(solved.status)).message == solved.status.message
