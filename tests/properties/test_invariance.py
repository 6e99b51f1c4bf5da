"""What must not matter, does not: names, order, orientation, units and the penalty."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dald_model as dm
from tests.expect import flat
from tests.properties.strategies import Declaration, declarations

ANSWER = 1e-5
"""Of variables and objectives where runs end at 1e-6, as in the zoo; multipliers ten times that."""
ITERATE = 1e-6
"""Of iterates after the same number of rounds: what the clients' solver leaves open."""

ROUNDS: dict[str, Any] = {
    "stopping": dm.FixedBudget(2),
    "sequence": dm.Sequence.natural(),
    "eps_pri": 0.0,
    "eps_dual": 0.0,
    "max_rounds": 6,
}
"""Six rounds in the order of declaration: three multiplier updates."""

few = settings(max_examples=10, deadline=None, derandomize=True, phases=[Phase.generate])
"""The same few examples every time; one that fails is small as it is and not shrunk."""


def _points(x: list[cp.Variable]) -> np.ndarray:
    return np.concatenate([flat(xi.value) for xi in x])


def _solved(model: dm.Model, **options: Any) -> dm.Result:
    result = model.solve(**options)
    assert result.status == "optimal", str(result)
    return result


@pytest.mark.slow
@few
@given(declarations(), st.data())
def test_relabelling_the_clients_leaves_the_answer(
    declaration: Declaration, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(declaration.clients)))
    names = data.draw(st.permutations(["hub", ("a", 1), 7, frozenset({2}), 0.5]))
    model, x = declaration.declare()
    other, y = declaration.declare(order=order, name=lambda i: names[i])
    one, two = _solved(model), _solved(other)
    assert two.value == pytest.approx(one.value, rel=ANSWER, abs=ANSWER)
    assert _points(y) == pytest.approx(_points(x), rel=ANSWER, abs=ANSWER)
    assert set(two.compiled) == {names[i] for i in range(declaration.clients)}


@pytest.mark.slow
@few
@given(declarations(), st.data())
def test_turning_an_edge_round_turns_its_multiplier(
    declaration: Declaration, data: st.DataObject
) -> None:
    turned = data.draw(st.sets(st.sampled_from(declaration.edges), min_size=1))
    model, x = declaration.declare()
    other, y = declaration.declare(turned=turned)
    one, two = model.solve(rho=1.0, **ROUNDS), other.solve(rho=1.0, **ROUNDS)
    assert _points(y) == pytest.approx(_points(x), abs=ITERATE)
    for a, b in declaration.edges:
        if (a, b) in turned:
            assert two.multipliers[b, a] == pytest.approx(-one.multipliers[a, b], abs=ITERATE)
        else:
            assert two.multipliers[a, b] == pytest.approx(one.multipliers[a, b], abs=ITERATE)


@pytest.mark.slow
@few
@given(declarations(), st.floats(0.5, 2.0))
def test_any_penalty_gives_the_answer(declaration: Declaration, rho: float) -> None:
    model, x = declaration.declare()
    one = _solved(model)
    points = _points(x)
    two = _solved(model, rho=rho)
    assert two.value == pytest.approx(one.value, rel=ANSWER, abs=ANSWER)
    assert _points(x) == pytest.approx(points, rel=ANSWER, abs=ANSWER)


@pytest.mark.slow
@few
@given(declarations(), st.floats(0.1, 10.0))
def test_units_of_an_edge_are_those_of_its_penalty_and_multiplier(
    declaration: Declaration, scale: float
) -> None:
    r"""With :math:`s\mathcal C`, :math:`\rho / s` and :math:`\mu / s` every term is the same."""
    model, x = declaration.declare()
    other, y = declaration.declare(edge_scale=scale)
    one, two = model.solve(rho=1.0, **ROUNDS), other.solve(rho=1 / scale, **ROUNDS)
    assert _points(y) == pytest.approx(_points(x), abs=ITERATE)
    for ends, mu in one.multipliers.items():
        assert scale * two.multipliers[ends] == pytest.approx(mu, abs=ITERATE)
    assert two.history.primal.tolist() == pytest.approx(
        (scale * one.history.primal).tolist(), rel=ITERATE, abs=ITERATE
    )


@few
@given(declarations(), st.floats(0.1, 10.0))
def test_units_of_the_objective_are_those_of_rho_squared_and_mu(
    declaration: Declaration, scale: float
) -> None:
    r"""With :math:`s f`, :math:`\sqrt s \rho` and :math:`s \mu` every term is s times as large."""
    model, x = declaration.declare()
    other, y = declaration.declare(cost_scale=scale)
    one, two = model.solve(rho=1.0, **ROUNDS), other.solve(rho=np.sqrt(scale), **ROUNDS)
    assert _points(y) == pytest.approx(_points(x), abs=ITERATE)
    for ends, mu in one.multipliers.items():
        assert two.multipliers[ends] == pytest.approx(scale * mu, abs=ITERATE * scale)
    assert two.value == pytest.approx(scale * one.value, rel=ITERATE, abs=ITERATE)


@pytest.mark.slow
@few
@given(declarations(), st.sampled_from([1e-3, 1e3]))
def test_the_default_penalty_follows_the_units_of_the_objective(
    declaration: Declaration, scale: float
) -> None:
    model, x = declaration.declare()
    other, y = declaration.declare(cost_scale=scale)
    one, two = _solved(model), _solved(other)
    assert two.value == pytest.approx(scale * one.value, rel=ANSWER, abs=ANSWER * scale)
    assert _points(y) == pytest.approx(_points(x), rel=ANSWER, abs=ANSWER)


@few
@given(declarations())
def test_every_answer_is_verified(declaration: Declaration) -> None:
    model, _ = declaration.declare()
    check = _solved(model).verify(tol_objective=ANSWER)
    assert check.ok, str(check)
