"""Names of clients: any networkx node, as long as it is found again."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


class Odd:
    """What cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    def __hash__(self) -> int:
        return 1


NAN = float("nan")


@pytest.mark.parametrize(
    "name",
    [
        NAN,
        np.float64("nan"),
        (1, NAN),
        (1, (2, NAN)),
        np.datetime64("NaT"),
        cp.Variable(name="x"),
        cp.Variable(2) >= 0,
        (cp.Variable(), 1),
        cp.Parameter(),
        [1],
        None,
        Odd(),
    ],
    ids=[
        "nan",
        "numpy",
        "pair",
        "nested",
        "time",
        "variable",
        "rule",
        "mixed",
        "parameter",
        "list",
        "none",
        "odd",
    ],
)
def test_a_name_that_would_not_be_found_again_is_refused(name: Any) -> None:
    model = dm.Model()
    with pytest.raises(dm.DeclarationError) as caught:
        model.client(name, cp.square(cp.Variable()))
    assert str(caught.value) == (
        f"client {name!r}: the name is of type {type(name).__name__}, expected a networkx node: "
        "anything hashable that equals itself (so neither NaN nor a cvxpy expression) but None, "
        "such as a string, a number or a tuple of them"
    )
    assert not model.clients


@pytest.mark.parametrize(
    "name",
    [True, 0, 0.5, np.int64(7), "", (1, "a"), frozenset([1]), object],
    ids=["flag", "zero", "half", "numpy", "empty", "pair", "set", "class"],
)
def test_any_other_name_is_a_client(name: Any) -> None:
    x = cp.Variable()
    model = dm.Model()
    model.client(name, cp.square(x))
    model.client("b", cp.square(x - 2))
    assert model.solve()[name][x] == pytest.approx(1.0, abs=1e-5)


def test_true_and_one_are_one_name_as_in_a_dict() -> None:
    model = dm.Model()
    model.client(1, cp.square(cp.Variable()))
    with pytest.raises(dm.DeclarationError, match="client True is declared already"):
        model.client(True, cp.square(cp.Variable()))


@pytest.mark.parametrize("name", ["nobody", [1], (1, [2])], ids=["text", "list", "pair"])
def test_a_name_that_nobody_has(name: Any) -> None:
    x = cp.Variable()
    model = dm.Model("two")
    for i in range(2):
        model.client(i, cp.square(x - i))
    compiled, result = model.compile(), model.solve()
    with pytest.raises(dm.ResultError) as caught:
        compiled[name]
    assert str(caught.value) == (
        f"compiled: {name!r} is no client of 'two'; expected one of 0, 1, 'server'"
    )
    with pytest.raises(dm.ResultError, match="is neither a variable nor a client"):
        result[name]
    assert "nobody" not in compiled
    assert compiled.get("nobody") is None


@pytest.mark.parametrize(("last", "is_right"), [(0.5, True), (0.5 + 1e-9, False)])
def test_exponents_that_do_not_quite_add_up(last: float, is_right: bool) -> None:
    """Cvxpy lets them pass, and Clarabel panics."""
    x = cp.Variable(3)
    exponents = np.array([0.2, 0.3, last])
    model = dm.Model()
    rule = cp.PowConeND(x, cp.sum(x) / 3, exponents)
    if is_right:
        model.client("a", cp.sum_squares(x - 1), [rule])
        return
    with pytest.raises(dm.DeclarationError) as caught:
        model.client("a", cp.sum_squares(x - 1), [rule])
    assert str(caught.value).endswith(
        "add up to 1 but for 1.0e-09, expected 1 to the last digit; make the last of them 1 less "
        "the others"
    )
