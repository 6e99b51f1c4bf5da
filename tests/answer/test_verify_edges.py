"""Right results where a verification used to fail or to raise, and wrong ones that it let pass."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.indicator import indicator

import dald_model as dm
from dald_model.answer.rescaling import Measure, minimise
from tests.expect import says


def _two(one: Callable[[cp.Variable], cp.Expression], other: Callable, size: int = 3) -> dm.Model:
    x = cp.Variable(size, name="x")
    model = dm.Model()
    model.client("a", one(x))
    model.client("b", other(x))
    return model


def test_an_optimum_at_the_edge_of_the_domain_of_an_atom() -> None:
    """x^1.5 has no value at -1e-9, where a solver's zero may be; F = 2 at zero."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("a", cp.sum(cp.power(x[0], 1.5)) + cp.sum(x[0]))
    model.client("b", cp.sum_squares(x[1] + 1))
    model.consensus(x[0] == x[1])
    check = model.solve().verify()
    assert check.ok, str(check)
    assert check.aio_value == pytest.approx(2.0, abs=1e-4)


def test_everybody_at_the_edge_of_a_sign() -> None:
    x = cp.Variable(2, pos=True, name="x")
    model = dm.Model()
    model.client("a", cp.sum(cp.power(x, 1.5)) + cp.sum(x))
    model.client("b", cp.sum_squares(x + 1))
    check = model.solve().verify()
    assert check.ok, str(check)


ATOMS: dict[str, Callable] = {
    "cvar": lambda x: cp.cvar(x, 0.6),
    "sum_largest": lambda x: cp.sum_largest(x, 3),
}


@pytest.mark.parametrize("atom", ATOMS)
def test_an_atom_that_cvxpy_canonicalises_wrongly_where_values_are_set(atom: str) -> None:
    result = _two(ATOMS[atom], lambda x: cp.sum_squares(x - 1)).solve()
    assert result.verify().ok
    assert result.verify().ok, "also when asked again"


def test_a_constraint_on_nothing() -> None:
    x = cp.Variable(3, name="x")
    model = dm.Model()
    model.client("a", cp.sum_squares(x), [np.zeros((0, 3)) @ x <= np.zeros(0)])
    model.client("b", cp.sum_squares(x - 1))
    assert model.solve().verify().ok


def test_a_violation_that_is_not_a_number_fails() -> None:
    """(-1, 1) is outside of the domain of the geometric mean, by one; and x <= 5 holds."""
    x = cp.Variable(2, name="x")
    model, goal = dm.Model(), cp.sum_squares(x - np.array([-1.0, 1.0]))
    model.client("a", goal, [cp.geo_mean(x) >= -1, x <= 5])
    model.client("b", goal)
    result = model.solve()
    for found in (result.recovered.values, *result.recovered.at_clients.values()):
        for key in found:
            found[key] = np.array([-1.0, 1.0])
    row = result.verify()["constraint violation"]
    assert not row.ok
    says(row.where, "GeoMean")


def test_noise_in_the_price_of_a_bound_that_is_far_away() -> None:
    x = cp.Variable(3, name="x")
    model = dm.Model()
    rules = [x <= 1e6, x >= -1e6]
    model.client("a", cp.norm(x, 2) + cp.sum(cp.exp(x)), rules)
    model.client("b", cp.sum_squares(x - 1))
    result = model.solve()
    assert result.verify().ok, str(result.verify())


def test_an_all_in_one_solution_that_its_solver_ended_early() -> None:
    """Variables of size 1e6: the optimum is that of ordinary units."""
    generator = np.random.default_rng(0)
    data = [(generator.normal(size=(8, 3)), generator.normal(size=8)) for _ in range(3)]

    def made(unit: float) -> dm.Model:
        x = [cp.Variable(3, name=f"x{i}") for i in range(3)]
        model = dm.Model()
        for i, (A, b) in enumerate(data):
            model.client(i, cp.sum_squares(A / unit @ x[i] - b), [x[i] <= 0.1 * unit])
        model.consensus(x[0] == x[1], x[1] == x[2])
        return model

    known = made(1.0).monolithic().solve(solver="CLARABEL")
    assert made(1e6).solve().verify().aio_value == pytest.approx(known, rel=1e-6)


def test_a_parameter_that_has_changed_since_is_named() -> None:
    x, target = cp.Variable(2, name="x"), cp.Parameter(name="target", value=2.0)
    model = dm.Model()
    model.client("a", cp.sum_squares(x - target))
    model.client("b", cp.sum_squares(x))
    result = model.solve()
    assert result.verify().note == ""
    target.value = 4.0
    check = result.verify()
    assert check.ok, "of the problem that was solved"
    says(check.note, "'target' has another value by now than at the time of the solve")
    assert target.value == 4.0


def test_the_value_keeps_its_digits() -> None:
    """Of the user's expressions at the clients' own variables: squares of 1e-4, not 1 - 2 + 1."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.square(1e6 * x[i] - 1e6))
    model.consensus(x[0] == x[1])
    result = model.solve(max_rounds=2)
    own = [float(result[i][x[i]]) for i in range(2)]
    assert result.value == sum((1e6 * value - 1e6) ** 2 for value in own)


def test_a_constraint_in_which_the_variables_cancel_is_broken_by_rounding_only() -> None:
    x = cp.Variable(4, name="x")
    candidates = np.random.default_rng(0).uniform(0, 1, (50, 4))
    sums = np.hstack([candidates, 1 - candidates]).sum(axis=1)
    target = candidates[np.flatnonzero(sums != 4.0)[0]]
    model = dm.Model()
    rule = cp.Zero(cp.sum(cp.hstack([x, 1 - x])) - 4)
    model.client("a", cp.sum_squares(x - target), [rule])
    model.client("b", cp.sum_squares(x - target))
    result = model.solve()
    for found in (result.recovered.values, *result.recovered.at_clients.values()):
        for key in found:
            found[key] = target
    assert result.verify()["constraint violation"].ok, str(result.verify())


def test_a_bounded_variable_is_measured_from_where_it_is() -> None:
    """One of size 5e8 that moves by 1e6."""
    unit, origin = 6.3e5, 794.0
    y = cp.Variable(2, bounds=[unit * (origin - 2), unit * (origin + 2)])
    t = y / unit - origin
    around = {y.id: Measure(np.full(2, unit * origin), np.full(2, unit))}
    costs: list[Any] = [cp.sum(cp.square(t - 1 / 3)), cp.sum(t)]
    for cost, wanted in zip(costs, (1 / 3, -2.0), strict=True):
        found = minimise(cost, [], around)
        assert found.status == "optimal"
        np.testing.assert_allclose(found.values[y.id] / unit - origin, wanted, atol=1e-8)


def test_a_constraint_on_an_indicator_is_compared() -> None:
    """Whose arguments are no expressions with values."""
    x = cp.Variable(2, name="x")
    model = dm.Model()
    held = indicator([x <= 0.5])
    model.client("a", cp.sum_squares(x - 1), [held <= 0.59])
    model.client("b", cp.sum_squares(x - 1))
    check = model.solve().verify()
    assert check.ok, str(check)
    assert check.aio_value == pytest.approx(1.0, abs=1e-6)
