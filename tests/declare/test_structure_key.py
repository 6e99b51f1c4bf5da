"""Structure keys: equal for clients that differ in data alone, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import says

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 5, 3))
b, c = RNG.normal(size=(2, 5))
ones = np.ones(5)
x: Any = cp.Variable(3)
y: Any = cp.Variable(3)


def key(cost: Any, *rules: Any) -> Any:
    found = dm.Model().client("a", cost, rules).leaves
    return found and found.key


ALIKE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "other data": (lambda: cp.sum_squares(A @ x - b), lambda: cp.sum_squares(B @ x - c)),
    "another variable": (lambda: cp.norm1(A @ x), lambda: cp.norm1(A @ y)),
    "data of other signs": (
        lambda: cp.sum_squares(A @ x - b),
        lambda: cp.sum_squares(np.abs(A) @ x - np.abs(b)),
    ),
    "other weights of one sign": (lambda: 2 * cp.norm1(x), lambda: 3 * cp.norm1(x)),
}
UNLIKE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "one row": (lambda: cp.sum_squares(A @ x - b), lambda: cp.sum_squares(A[:1] @ x - b[:1])),
    "columns": (lambda: cp.sum_squares(A @ x), lambda: cp.sum_squares(A[:, :2] @ x[:2])),
    "functions": (lambda: cp.norm1(A @ x), lambda: cp.norm_inf(A @ x)),
    "numbers of atoms": (lambda: cp.sum(cp.huber(x, 1)), lambda: cp.sum(cp.huber(x, 2))),
    "exponents": (lambda: cp.sum(cp.power(x, 2)), lambda: cp.sum(cp.power(x, 4))),
    "signs": (lambda: cp.norm1(x) + np.ones(3) @ x, lambda: cp.norm1(x) - np.ones(3) @ x),
    "parts of a variable": (lambda: cp.sum_squares(x[:2]), lambda: cp.sum_squares(x[1:])),
    "orders": (lambda: cp.norm1(x - y) + cp.norm1(x), lambda: cp.norm1(x - y) + cp.norm1(y)),
    "equal weights": (
        lambda: cp.sum(cp.multiply(ones, cp.abs(A @ x))),
        lambda: cp.sum(cp.multiply(np.abs(b), cp.abs(A @ x))),
    ),
    "attributes": (lambda: cp.norm1(x), lambda: cp.norm1(cp.Variable(3, nonneg=True))),
    "goals": (lambda: cp.Minimize(np.ones(3) @ x), lambda: cp.Maximize(np.ones(3) @ x)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_clients_that_differ_in_data_have_one_structure_key(name: str) -> None:
    one, two = ALIKE[name]
    assert key(one()) is key(two()) is not None


def test_other_rows_of_data_are_other_shapes_of_one_structure_key() -> None:
    found = [
        dm.Model().client("a", cp.sum_squares(1 - A[:rows] @ x - b[:rows])).leaves
        for rows in (5, 4)
    ]
    one, two = found
    assert one is not None
    assert two is not None
    assert one.key is two.key
    assert one.shapes == ((), (5, 3), (5,), (), (5,))
    assert two.shapes == ((), (4, 3), (4,), (), (4,))


@pytest.mark.parametrize("name", UNLIKE)
def test_clients_that_differ_in_more_have_two(name: str) -> None:
    one, two = UNLIKE[name]
    found = key(one()), key(two())
    assert None not in found
    assert found[0] is not found[1]


@pytest.mark.parametrize(
    ("convex", "other"),
    [
        (lambda c: cp.square(cp.norm1(x) + c), (1.0, -1.0)),
        (lambda c: cp.square(cp.norm1(x) + cp.Constant([0.0, 0.0, c]) @ x), (0.0, 1.0)),
        (lambda c: cp.sum_squares(x - c) + c * cp.norm1(x), (cp.Constant(1.0), cp.Constant(-1.0))),
        (lambda c: cp.square(cp.exp(x[0]) + c * cp.Variable(nonneg=True)), (1.0, -1.0)),
        (lambda c: cp.square(cp.exp(x[0]) + (np.zeros(3) @ x + c)), (1.0, -1.0)),
    ],
    ids=["offset", "nothing of a variable", "twice the same", "variable of a sign", "zeros"],
)
def test_signs_that_convexity_rests_on_are_part_of_it(convex: Any, other: Any) -> None:
    good, bad = other
    assert key(convex(good)) is not None
    with pytest.raises(dm.DeclarationError):
        dm.Model().client("a", convex(bad))


def test_one_matrix_twice_is_not_two_matrices() -> None:
    """Else the second place would be read from the first."""
    same, other = cp.Constant(A), cp.Constant(B)
    twice = key(cp.sum_squares(same @ x) + cp.norm1(same @ x))
    assert twice is not key(cp.sum_squares(same @ x) + cp.norm1(other @ x))


def test_constraints_belong_to_it() -> None:
    bare, bounded = key(cp.norm1(A @ x)), key(cp.norm1(A @ x), x >= 0)
    assert bare is not bounded
    assert bounded is key(cp.norm1(B @ x), x >= 0)
    assert bounded is not key(cp.norm1(B @ x), x == 0)


@pytest.mark.parametrize(
    "cost",
    [
        cp.Parameter(nonneg=True, value=1.0) * cp.norm1(x),
        cp.quad_form(x, np.eye(3)),  # is convex by the values of its matrix
        cp.sum_squares(np.zeros((0, 3)) @ x) + cp.norm1(x),
    ],
    ids=["parameter", "quadratic form", "no rows"],
)
def test_what_depends_on_more_than_signs_has_none(cost: Any) -> None:
    assert key(cost) is None


def test_a_client_of_a_known_structure_key_is_refused_for_its_own_data() -> None:
    model = dm.Model("two")
    weight: Any = np.array([1.0, 2.0, 3.0])
    model.client("a", weight @ cp.square(x) + cp.sum_squares(A @ x - b))
    z = cp.Variable(3, integer=True)
    for cost, rules, told in (
        (weight @ cp.square(x) + cp.sum_squares(A @ x - np.nan * b), [], "NaN or infinite"),
        (-weight @ cp.square(x) + cp.sum_squares(A @ x - b), [], "expected convex"),
        (weight @ cp.square(z) + cp.sum_squares(A @ z - b), [], "integer"),
        (cp.sum_squares(A @ x - b), [weight @ cp.square(x) >= 1], "does not follow cvxpy's DCP"),
    ):
        with pytest.raises(dm.DeclarationError) as error:
            model.client("b", cost, rules)
        says(error.value, "client 'b'", told)
    assert list(model.clients) == ["a"]
