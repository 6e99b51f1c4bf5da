"""What cannot be a coupling, and what the message says to do instead."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import says


def two() -> tuple[dm.Model, cp.Variable, cp.Variable]:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("a", cp.sum_squares(x - 1))
    model.client("b", cp.sum_squares(y + 1))
    return model, x, y


def refused(model: dm.Model, *given: Any, **options: Any) -> str:
    with pytest.raises(dm.DeclarationError) as caught:
        model.couple(*given, **options)
    return str(caught.value)


def test_what_is_no_constraint_says_how_to_pass_it() -> None:
    model, x, y = two()
    says(refused(model, cp.norm(x - y)), "coupling 'coupling'", "pass an objective as objective=")
    says(refused(model, cp.Minimize(x[0])), "given the expression", "objective=...")
    says(refused(model, [x == y]), "given a list", "model.couple(*constraints)")
    says(refused(model, 5), "constraint 0 is 5 of type int", "such as x >= 0")
    says(refused(model), "given nothing", "model.couple(x0 + x1 == demand)")
    says(refused(model, constraints=x <= y), "expected a list of cvxpy constraints")
    assert not model.couplings


def test_what_is_not_convex_or_not_dpp() -> None:
    model, x, y = two()
    p = cp.Parameter(name="p", value=1.0)
    says(refused(model, cp.norm(x - y) >= 1), "constraint 0", "does not follow cvxpy's DCP rules")
    says(refused(model, objective=cp.sqrt(x[0] - y[0])), "concave", "expected convex for Minimize")
    says(refused(model, objective=x - y), "shape (2,)", "real scalar")
    says(refused(model, p * (p * x[0]) <= y[0]), "not DPP", "'p'")
    says(refused(model, x + y <= np.array([1, np.nan])), "1 NaN or infinite", "clean the data")


def test_whole_numbers_say_how_to_relax_them() -> None:
    model, x, _ = two()
    on = cp.Variable(2, name="on", boolean=True)
    says(refused(model, x <= on, name="switch"), "coupling 'switch'", "'on' is boolean", "relax it")


def test_couplings_of_one_client_as_links_that_only_one_uses() -> None:
    model, x, y = two()
    t = cp.Variable(name="t")
    own: Any = x[0] <= 0.5
    both: Any = x + y == np.array([3.0, 1.0])
    model.couple(own, name="own")
    model.couple(both, name="both")
    model.couple(x[1] <= t, objective=cp.square(t), name="with a variable of its own")
    result = model.solve()
    assert result.status == "optimal"
    assert result.verify().ok
    prices = own.dual_value, both.dual_value
    aio: Any = model.monolithic()
    aio.solve(solver="CLARABEL")
    np.testing.assert_allclose(result.value, aio.value, rtol=1e-5)
    np.testing.assert_allclose(prices[0], own.dual_value, atol=1e-4)
    np.testing.assert_allclose(prices[1], both.dual_value, atol=1e-4)


def test_variables_that_no_client_uses() -> None:
    model, _, _ = two()
    s, t = cp.Variable(name="s"), cp.Variable(name="t")
    model.couple(s <= t)
    with pytest.raises(dm.DeclarationError) as caught:
        model.compile()
    says(caught.value, "that no client uses", "expected at least one of a client")


def test_names_are_new_among_clients_and_couplings() -> None:
    model, x, y = two()
    model.couple(x <= y, name="order")
    says(refused(model, x >= y, name="order"), "coupling 'order' is declared already; expected")
    says(refused(model, x >= y, name="a"), "coupling 'a' is declared already, as a client")
    says(refused(model, x >= y, name=["a"]), "expected a networkx node")
    with pytest.raises(dm.DeclarationError) as caught:
        model.client("order", cp.square(cp.Variable()))
    says(caught.value, "client 'order' is declared already, as a coupling")
    assert model.couple(x + y <= 3).name == "coupling"
    assert model.couple(x + y >= -3).name == "coupling 2"


def test_consensus_names_couple() -> None:
    model, x, y = two()
    z = cp.Variable(2)
    model.client("c", cp.sum_squares(z))
    for given in (x <= y, x + y == z):
        with pytest.raises(dm.DeclarationError) as caught:
            model.consensus(given)
        says(caught.value, "model.couple(...)")


def test_data_that_nobody_of_those_who_share_the_variable_has() -> None:
    w, t = cp.Variable(2, name="w"), cp.Variable(name="t")
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(w - i))
    model.couple(objective=t, constraints=[cp.sum_squares(np.eye(2) @ w - 7) <= t])
    with pytest.raises(dm.DeclarationError) as caught:
        model.compile()
    says(caught.value, "coupling 'coupling'", "'w'", "the clients 0, 1, 2 share", "none of them")
    says(caught.value, "model.client(name, ..., [loss <= t])")


def test_clients_may_be_declared_after_their_coupling() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    model.couple(sum(x) == 3, name="sum")
    for i, v in enumerate(x):
        model.client(i, cp.square(v))
    assert sorted(map(str, model.compile()["sum"].neighbours)) == ["0", "1", "2"]
