"""Clients lowered by another of their structure: the very arrays of cvxpy's own reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile import lowering as room
from dald_model.compile.lowering import Lowering
from dald_model.declare.checked import declare_client
from tests.compile.clients import Share, untyped
from tests.expect import largest, number, preserved

Make = Callable[[np.random.Generator, Any], Share]
ROWS, SIZE = 9, 3


def data(rng: np.random.Generator, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(rows, SIZE)), rng.normal(size=rows)


def squares(rng: np.random.Generator, x: Any) -> Any:
    A, b = data(rng)
    return cp.sum_squares(A @ x - b)


def logistic(rng: np.random.Generator, x: Any) -> Any:
    A, b = data(rng)
    return cp.sum(cp.logistic(cp.multiply(-np.sign(b), A @ x)))


MAKERS: dict[str, Make] = {
    "squares": lambda rng, x: (squares(rng, x), []),
    "bounds and a budget": lambda rng, x: (squares(rng, x), [x >= 0, cp.sum(x) <= 1]),
    "rows of data": lambda rng, x: (
        squares(rng, x),
        [data(rng)[0][:2] @ x <= 1 + rng.random(2), rng.random(SIZE) @ x == rng.random()],
    ),
    "logistic": lambda rng, x: (logistic(rng, x), []),
    "a mean": lambda rng, x: (logistic(rng, x) / rng.integers(2, 9), []),
    "lasso": lambda rng, x: (squares(rng, x) + rng.random() * cp.norm1(x), []),
    "huber": lambda rng, x: (cp.sum(untyped.huber(data(rng)[0] @ x - data(rng)[1], 0.7)), []),
    "weights of rows": lambda rng, x: (
        rng.random(ROWS) @ cp.square(data(rng)[0] @ x - data(rng)[1]),
        [],
    ),
    "one weight of all rows": lambda rng, x: (
        cp.sum(cp.multiply(np.full(ROWS, 1 + rng.random()), cp.abs(data(rng)[0] @ x))),
        [],
    ),
    "data inside of a stack": lambda rng, x: (cp.sum_squares(cp.hstack([x, data(rng)[1]])), []),
    "a constant made of data": lambda rng, x: (
        cp.sum_squares((2 * cp.Constant(data(rng)[0])) @ x - cp.Constant(data(rng)[1]) / 3),
        [],
    ),
    "sparse data": lambda rng, x: (
        cp.sum_squares(untyped.Constant(sp.csr_array(np.diag(rng.random(SIZE)))) @ x - 1),
        [],
    ),
    "two variables": lambda rng, x: (
        squares(rng, x) + squares(rng, cp.Variable(SIZE, name="own")),
        [],
    ),
    "a function with a threshold of data": lambda rng, x: (
        cp.sum(cp.maximum(data(rng)[0] @ x, 0.25)) + cp.sum_squares(x),
        [],
    ),
    "a cone": lambda rng, x: (squares(rng, x), [cp.norm(data(rng)[0][:2] @ x) <= 1.5]),
    "a bound for each row of a matrix": lambda rng, x: (
        squares(rng, x),
        [cp.vstack([x, 2 * x]) <= 1 + rng.random((2, 1))],
    ),
    "one bound for each column of a matrix": lambda rng, x: (
        squares(rng, x),
        [cp.vstack([x, 2 * x]) >= -rng.random((1, SIZE))],
    ),
    "logarithms": lambda rng, x: (-cp.sum(cp.log(rng.random((4, SIZE)) @ x + 1)), [x >= 0]),
}


def arrays(form: Any) -> list[np.ndarray]:
    """All numbers of a form, cone program included."""
    root = form.quadratic.matrix if form.quadratic.root is None else form.quadratic.root
    found = [root, form.quadratic.linear, np.array(form.quadratic.constant)]
    found += [*form.equalities, *form.inequalities]
    found += chain.from_iterable((t.weight, t.matrix, t.offset, t.parameter) for t in form.terms)
    cone = form.cone
    found += [cone.matrix, cone.linear, np.array(cone.constant), cone.rows, cone.rhs]
    return [one.toarray() if sp.issparse(one) else np.asarray(one) for one in found]


def read_off(clients: list[dm.Client], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """All but the first, and what is read off it, once it has the arrays of their own reading."""
    alone = [Lowering()(one) for one in clients]
    lowering = Lowering()
    assert lowering(clients[0]) is not None
    # From now on nothing is asked of cvxpy's trees
    monkeypatch.setattr(room, "split", None)
    for client, own in zip(clients[1:], alone[1:], strict=True):
        found = lowering(client)
        assert found is not None
        assert own is not None
        assert found.form.shape == own.form.shape
        for one, two in zip(arrays(found.form), arrays(own.form), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-14)
        yield client, found


@pytest.mark.parametrize("name", MAKERS)
def test_the_second_of_a_structure_key_has_the_arrays_of_its_own_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, x = np.random.default_rng(0), cp.Variable(SIZE, name="x")
    clients = [declare_client(at, *MAKERS[name](rng, x)) for at in range(6)]
    assert len({id(one.leaves and one.leaves.key) for one in clients}) == 1
    for client, found in read_off(clients, monkeypatch):
        with preserved(client.variables):
            point = np.abs(rng.normal(size=found.form.size))
            at = 0
            for v in client.variables:
                v.value, at = point[at : at + v.size], at + v.size
            np.testing.assert_allclose(
                found.form.objective(point), number(client.cost.value), rtol=1e-11
            )


def residual(rng: np.random.Generator, rows: int, x: Any) -> Any:
    A, b = data(rng, rows)
    return A @ x - b


WEIGHTS = 0.5 + np.arange(ROWS)
BY_ROWS: dict[str, Callable[[np.random.Generator, int, Any], Share]] = {
    "squares": lambda rng, rows, x: (cp.sum_squares(residual(rng, rows, x)), []),
    "a mean": lambda rng, rows, x: (cp.sum_squares(residual(rng, rows, x)) / rows, [x >= 0]),
    "absolute values with a ridge": lambda rng, rows, x: (
        cp.norm1(residual(rng, rows, x)) + 0.1 * cp.sum_squares(x),
        [x >= -1, cp.sum(x) <= rng.random()],
    ),
    "hinge": lambda rng, rows, x: (
        cp.sum(cp.pos(1 - cp.multiply(np.sign(data(rng, rows)[1]), residual(rng, rows, x)))),
        [],
    ),
    "logistic and lasso": lambda rng, rows, x: (
        cp.sum(cp.logistic(residual(rng, rows, x))) + 0.3 * cp.norm1(x),
        [],
    ),
    "two losses of other rows": lambda rng, rows, x: (
        cp.norm1(residual(rng, rows, x)) + cp.sum(cp.huber(residual(rng, rows + 1, x), 1)),
        [],
    ),
    "a function with a threshold": lambda rng, rows, x: (
        cp.sum(cp.maximum(residual(rng, rows, x), 0.25)) + cp.sum_squares(x),
        [],
    ),
    "one variable for all rows": lambda rng, rows, x: (
        cp.sum_squares(x[0] - data(rng, rows)[1]) + cp.norm1(residual(rng, rows, x) - x[1]),
        [],
    ),
    "sparse data": lambda rng, rows, x: (
        cp.sum(cp.logistic(sp.csr_array(data(rng, rows)[0]) @ x)) + cp.sum_squares(x),
        [],
    ),
    "a scaled matrix": lambda rng, rows, x: (
        cp.sum_squares((2 * cp.Constant(data(rng, rows)[0])) @ x - data(rng, rows)[1] / 3),
        [],
    ),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_clients_of_other_rows_have_the_arrays_of_their_own_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, x = np.random.default_rng(1), cp.Variable(SIZE, name="x")
    clients = [
        declare_client(at, *BY_ROWS[name](rng, rows, x)) for at, rows in enumerate((9, 4, 25, 9, 2))
    ]
    for client, found in read_off(clients, monkeypatch):
        assert _is_of(found.form, client, rng)


NOT_BY_ROWS: dict[str, Callable[[np.random.Generator, int, Any], Share]] = {
    "rules of data": lambda rng, rows, x: (
        cp.sum_squares(residual(rng, 5, x)),
        [residual(rng, rows, x) <= 9],
    ),
    "differences of rows": lambda rng, rows, x: (cp.norm1(cp.diff(residual(rng, rows, x))), []),
    "a norm": lambda rng, rows, x: (cp.norm(residual(rng, rows, x)), []),
    "weights of rows": lambda rng, rows, x: (
        cp.sum(cp.multiply(WEIGHTS[:rows], cp.abs(residual(rng, rows, x)))),
        [],
    ),
    "a stack": lambda rng, rows, x: (cp.sum_squares(cp.hstack([x, data(rng, rows)[1]])), []),
}


@pytest.mark.parametrize("name", NOT_BY_ROWS)
def test_what_is_more_than_one_function_of_each_row_is_read_anew(name: str) -> None:
    rng, x, lowering = np.random.default_rng(2), cp.Variable(SIZE, name="x"), Lowering()
    for at, rows in enumerate((9, 4, 9, 7, 4)):
        client = declare_client(at, *NOT_BY_ROWS[name](rng, rows, x))
        found = lowering(client)
        assert found is not None
        assert _is_of(found.form, client, rng)


def _is_of(form: Any, client: Any, rng: np.random.Generator) -> bool:
    """Whether a form has the values of a client."""
    if not form.valued:
        return True
    with preserved(client.variables):
        (x,) = client.variables
        x.value = rng.normal(size=x.shape)
        violated = max((largest(rule.residual) for rule in client.constraints), default=0.0)
        return bool(
            np.isclose(form.objective(x.value), number(client.cost.value), rtol=1e-11)
            and np.isclose(form.violation(x.value), violated, rtol=1e-11)
        )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda x: cp.sum(cp.maximum(x, 0.25)), lambda x: cp.sum(cp.maximum(x, 0.5))),
        (
            lambda x: cp.sum(cp.multiply(cp.Constant(np.eye(SIZE)) @ np.ones(SIZE), cp.abs(x))),
            lambda x: cp.sum(cp.multiply(cp.Constant(np.eye(SIZE)) @ [1.0, 2.0, 2.5], cp.abs(x))),
        ),
    ],
    ids=["a threshold", "weights that were one by chance"],
)
def test_numbers_that_a_template_holds_are_not_anothers(one: Any, two: Any) -> None:
    x = cp.Variable(SIZE)
    lowering = Lowering()
    for at, make in enumerate((one, two, one)):
        client = declare_client(at, make(x) + cp.sum_squares(x))
        found = lowering(client)
        assert found is not None
        for seed in range(4):
            x.value = point = np.random.default_rng(seed).normal(size=SIZE)
            theirs = number(client.cost.value)
            np.testing.assert_allclose(found.form.objective(point), theirs, rtol=1e-10)


def test_a_template_that_holds_its_numbers_is_not_anothers() -> None:
    """Of a loss below a bound cvxpy's program has the weight in its rows, not in a Parameter."""
    rng, x, t, lowering = np.random.default_rng(2), cp.Variable(SIZE), cp.Variable(), Lowering()
    for weight in (2.0, 3.0, 5.0):
        found = lowering(
            declare_client(weight, t + 0.1 * cp.sum_squares(x), [squares(rng, x) / weight <= t])
        )
        assert found is not None
        rows = found.form.cone.rows.toarray()
        assert np.isclose(np.abs(rows), 1 / weight).any()


@pytest.mark.parametrize("name", ["bounds and a budget", "rows of data", "a cone"])
def test_dual_values_of_many_clients_are_those_that_cvxpy_gives_of_each(name: str) -> None:
    rng, x = np.random.default_rng(1), cp.Variable(SIZE, name="x")
    lowering = Lowering()
    found = [lowering(declare_client(at, *MAKERS[name](rng, x))) for at in range(2)]
    for lowered in found:
        assert lowered is not None
        way_back, rows = lowered.template.way_back, lowered.instantiator.program.rows
        for _ in range(3 * way_back.height):
            multipliers = rng.normal(size=rows.shape[0])
            ours = lowered.cone_duals(multipliers)
            theirs = way_back.by_cvxpy(rows.T @ multipliers)
            for mine, its in zip(chain(*ours), chain(*theirs), strict=True):
                assert np.shape(mine) == np.shape(its)
                np.testing.assert_allclose(mine, its, rtol=1e-15)
