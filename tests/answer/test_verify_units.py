"""Verdicts do not change with the units of the objective and of variables, nor with the origin."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.answer.translated import Share, Units, declared, translated

_GENERATOR = np.random.default_rng(3)
A = _GENERATOR.normal(size=(3, 12, 3))
B = _GENERATOR.normal(size=(3, 12)) + A @ np.array([1.0, -2.0, 0.5])


def _squares(i: int, x: cp.Expression) -> tuple[Any, list[Any]]:
    return cp.sum_squares(A[i] @ x - B[i]), [x <= 0.9] if i == 1 else [cp.sum(x) >= -5]


def _lasso(i: int, x: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
    return cp.sum_squares(A[i] @ x - B[i]) + 4 * cp.norm1(x), []


def _cone(i: int, x: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
    return cp.norm1(A[i] @ x - B[i]), [cp.SOC(cp.Constant(1.5), x)] if i == 0 else []


def _linear(i: int, x: cp.Expression) -> tuple[Any, list[Any]]:
    return A[i][0] @ x, [x >= 0, cp.sum(x) == 1] if i == 0 else []


SHARES: dict[str, Share] = {
    "squares": _squares,
    "lasso": _lasso,
    "cone": _cone,
    "linear": _linear,
}
UNITS: dict[str, Units] = {
    "small objective": Units(objective=1e-6),
    "large objective": Units(objective=1e6),
    "small variable": Units(units=1e-6),
    "large variable": Units(units=1e6),
    "an entry of each size": Units(units=np.array([1e-6, 1.0, 1e6])),
    "far away": Units(origin=1e6),
    "all at once": Units(1e-6, 1e6, 1e12),
}
JUDGED = ("objective gap", "reported value", "consensus violation", "constraint violation")


@pytest.fixture(scope="module")
def solved() -> dict[str, tuple[dm.Result, dm.Result]]:
    """A converged result of each model, and one that stopped early."""
    models = {name: declared(share, 3, 3, Units()) for name, share in SHARES.items()}
    return {name: (m.solve(), m.solve(max_rounds=3)) for name, m in models.items()}


# Each unit of one model, and of the others those that hold the rest
@pytest.mark.parametrize(
    ("share", "units"),
    [
        (share, units)
        for share in SHARES
        for units in UNITS
        if share == "squares" or units in ("an entry of each size", "all at once")
    ],
)
def test_the_verdict_is_that_of_ordinary_units(solved: Any, share: str, units: str) -> None:
    model = declared(SHARES[share], 3, 3, UNITS[units])
    good, early = (translated(r, model, UNITS[units]).verify() for r in solved[share])
    assert good.ok, str(good)
    assert not early.ok, str(early)


@pytest.mark.parametrize("units", ["large objective", "an entry of each size"])
def test_the_figures_are_those_of_ordinary_units(solved: Any, units: str) -> None:
    """To two digits; an offset allows rounding of its own beside a length."""
    for share in ("squares", "lasso"):
        model = declared(SHARES[share], 3, 3, UNITS[units])
        plain = solved[share][1].verify()
        check = translated(solved[share][1], model, UNITS[units]).verify()
        for row in JUDGED:
            assert check[row].measured == pytest.approx(plain[row].measured, rel=1e-2, abs=1e-9)


def test_a_consensus_of_everybody_has_the_size_of_its_values_for_a_scale() -> None:
    """Data without noise: all want x = 3e-6, and agreeing costs nothing."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.square(1e6 * x[i] - 3))
    model.consensus(x[0] == x[1])
    result = model.solve()
    for wanted, ok in ((3e-6, True), (3.01e-6, False), (0.0, False)):
        for v in result.recovered.values:
            result.recovered.values[v] = np.array(wanted)
        for i in range(2):
            result.recovered.at_clients[i][x[i].id] = np.array(wanted)
        result.value = 2 * (1e6 * wanted - 3) ** 2
        for ends, mu in result.multipliers.items():
            result.multipliers[ends] = 0 * mu
            result.recovered.duals[model.agreements[0].constraint.id] = (np.zeros(()),)
        result.__post_init__()
        assert result.verify().ok == ok, str(result.verify())


@pytest.mark.parametrize("off", [1e-2, -1e-2])
def test_a_client_that_hardly_cares_is_no_scale(off: float) -> None:
    """It wants 100 and would pay 1e-4 for it; the other wants 0 and pays that for a move of 1e-2.

    In spreads of 100 such a move is the 1e-4 that is allowed.
    """
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("far", 1e-8 * cp.square(x[0] - 1e2))
    model.client("near", cp.square(x[1]))
    model.consensus(x[0] == x[1])
    result = model.solve(rho=1e-2)
    assert result.verify().ok, str(result.verify())
    result.recovered.at_clients["near"][x[1].id] += off
    assert not result.verify()["consensus violation"].ok
    result.recovered.values[x[1].id] += off
    assert not result.verify()["objective gap"].ok


def test_noise_around_an_optimum_of_zero_is_no_scale() -> None:
    """Both want zero, which is worth nothing; a solver stops some 1e-15 away from it."""
    unit = 0.0158
    x = [cp.Variable(1, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client("one", 4.9 * cp.sum_squares(x[0] / unit), [x[0] <= 0.75 * unit])
    model.client("other", 0.75 * cp.sum(cp.pos(-0.34 * x[1] / unit - 0.54)))
    model.consensus(x[0] == x[1])
    result = model.solve()
    assert result.verify().ok, str(result.verify())
    for one in (result.recovered.values, *result.recovered.at_clients.values()):
        for key in one:
            one[key] = np.full(1, 0.05 * unit)
    assert not result.verify().ok
