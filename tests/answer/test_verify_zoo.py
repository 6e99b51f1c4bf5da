"""Verification on the zoo: the honest result passes, and one entry off by a thousandth fails.

A thousandth of scales that are found here and not by the verification: of a variable, how far the
clients' own answers, by plain cvxpy, are from the known optimum; of the value, what agreeing costs
by them; of multipliers, the largest.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import flat, preserved
from tests.zoo import GRAPHS, PROBLEMS, Built

CORRUPT = 1e-3
BOUNDED = ("least_squares", "lasso", "quantile", "logistic", "nonnegative", "simplex")
"""One or two of every kind whose clients have an answer of their own: smooth, kinked, polyhedral,
and two with constraints."""
SMOOTH = "least_squares", "logistic"


class Solved(NamedTuple):
    """A solved problem, with a spread of its variables and the cost of agreeing."""

    built: Built
    result: dm.Result
    spread: float
    cost: float


@pytest.fixture(scope="module", params=BOUNDED)
def solved(request: pytest.FixtureRequest) -> Solved:
    built = PROBLEMS[request.param]().on(GRAPHS["chain"]())
    result = built.model.solve()
    spread, cost = 0.0, built.value
    for client in built.model.clients.values():
        variable = built.variables[client.name]
        with preserved([variable, *(d for c in client.constraints for d in c.dual_variables)]):
            alone = cp.Problem(cp.Minimize(client.cost), list(client.constraints))
            alone.solve(solver="CLARABEL")
            away = flat(variable.value) - flat(built.points[client.name])
        value: Any = alone.value
        cost -= float(value)
        spread = max(spread, float(np.abs(away).max()))
    return Solved(built, result, spread, cost)


def _moved(value: np.ndarray, entry: int, by: float) -> np.ndarray:
    found = flat(value).copy()
    found[entry] += by
    return found.reshape(np.shape(value), order="F")


def _values(case: Solved) -> Iterator[dm.Result]:
    """Each entry of each variable."""
    recovered = case.result.recovered
    for key, value in recovered.values.items():
        for entry in range(np.size(value)):
            values = recovered.values | {key: _moved(value, entry, CORRUPT * case.spread)}
            yield replace(case.result, recovered=replace(recovered, values=values))


def _at_clients(case: Solved) -> Iterator[dm.Result]:
    """Each entry of each variable at its client."""
    recovered = case.result.recovered
    for name, own in recovered.at_clients.items():
        for key, value in own.items():
            for entry in range(np.size(value)):
                moved = own | {key: _moved(value, entry, CORRUPT * case.spread)}
                held = recovered.at_clients | {name: moved}
                yield replace(case.result, recovered=replace(recovered, at_clients=held))


def _multipliers(case: Solved) -> Iterator[dm.Result]:
    """Each entry of the multipliers, up and down, the declared duals along with it."""
    result, compiled = case.result, case.result.compiled
    largest = max(np.abs(mu).max() for mu in result.multipliers.values())
    for edge in compiled.edges:
        for entry in range(edge.size):
            for by in (CORRUPT * largest, -CORRUPT * largest):
                mu = _moved(result.multipliers[edge.ends], entry, by)
                duals = dict(result.recovered.duals)
                for part in edge.parts:
                    rule = part.agreement.constraint
                    dual = part.sign * mu[part.start : part.stop]
                    duals[rule.id] = (dual.reshape(part.agreement.left.shape, order="F"),)
                yield replace(
                    result,
                    multipliers=result.multipliers | {edge.ends: mu},
                    recovered=replace(result.recovered, duals=duals),
                )


def _local_duals(case: Solved) -> Iterator[dm.Result]:
    """Each entry of the dual values of each client's constraints, up and down."""
    result = case.result
    largest = max(np.abs(mu).max() for mu in result.multipliers.values())
    for name, shares in result.recovered.local_duals.items():
        for at, (share,) in enumerate(shares):
            rule = result.compiled.model.clients[name].constraints[at]
            for entry in range(np.size(share)):
                # Rows of one variable reach a part of what the sums of prices do
                for by in (5 * CORRUPT * largest, -5 * CORRUPT * largest):
                    moved = (_moved(share, entry, by),)
                    held = (*shares[:at], moved, *shares[at + 1 :])
                    recovered = replace(
                        result.recovered,
                        local_duals=dict(result.recovered.local_duals) | {name: held},
                        duals=result.recovered.duals | {rule.id: moved},
                    )
                    yield replace(result, recovered=recovered)


def _few(results: Iterator[dm.Result], most: int = 6) -> list[dm.Result]:
    """Some of many, the same in every run."""
    found = list(results)
    if len(found) <= most:
        return found
    picked = np.random.default_rng(0).choice(len(found), most, replace=False)
    return [found[i] for i in picked]


def test_the_honest_result_passes_and_one_that_stopped_early_fails(solved: Solved) -> None:
    check = solved.result.verify()
    assert check.ok, str(check)
    assert not solved.built.model.solve(max_rounds=3).verify().ok


def test_one_entry_of_a_value_off_by_a_thousandth(solved: Solved) -> None:
    for result in (*_few(_values(solved)), *_few(_at_clients(solved))):
        check = result.verify()
        assert not check["consensus violation"].ok, str(check)
        assert not result.certificate()["consensus violation"].ok


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_value_off_by_a_thousandth(solved: Solved, sign: float) -> None:
    value = solved.result.value + sign * CORRUPT * solved.cost
    check = replace(solved.result, value=value).verify()
    assert [row.check for row in check.failures] == ["reported value"], str(check)
    assert not replace(solved.result, value=value).certificate().ok


def test_one_entry_of_a_multiplier_off_by_a_thousandth(solved: Solved) -> None:
    """It passes only where it is right as well: at a kink a client has many subgradients."""
    built = solved.built
    for result in _few(_multipliers(solved)):
        forces = {name: built.force(name, result.multipliers) for name in built.variables}
        wrong = max(built.distance[name](force) for name, force in forces.items())
        largest = max(np.abs(mu).max() for mu in result.multipliers.values())
        check = result.verify()
        assert not check.ok or wrong < 0.1 * CORRUPT * largest, str(check)


@pytest.mark.parametrize("solved", SMOOTH, indirect=True)
def test_a_multiplier_of_a_smooth_client_off_by_a_thousandth(solved: Solved) -> None:
    """A gap is off by the square of the error; the row of the multipliers by the error itself."""
    for result in _few(_multipliers(solved)):
        check = result.verify()
        assert not check["multipliers"].ok, str(check)
        assert not result.certificate().ok


def test_one_entry_of_a_local_dual_off_by_five_thousandths(solved: Solved) -> None:
    for result in _few(_local_duals(solved)):
        check = result.verify()
        assert not check["dual values"].ok, str(check)
