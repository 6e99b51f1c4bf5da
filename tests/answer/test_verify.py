"""Verification: it must fail whatever part of a result is corrupted, and say so in plain words."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import flat

Corruption = Callable[[dm.Result], dm.Result]


class Case(NamedTuple):
    model: dm.Model
    result: dm.Result
    variable: cp.Variable
    rules: dict[str, Any]


@pytest.fixture(scope="module")
def peers() -> Case:
    """Three clients in a chain, with one constraint of each kind, two of them active."""
    x = [cp.Variable(3, name=f"x{i}") for i in range(3)]
    rules = {
        "inequality": x[0] <= 1,
        "equality": cp.sum(x[1]) == 1.5,
        "cone": cp.SOC(cp.Constant(1.25), x[2]),
    }
    model = dm.Model("peers")
    targets = ([3.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 2.0, -1.0])
    for i, (target, rule) in enumerate(zip(targets, rules.values(), strict=True)):
        model.client(i, cp.sum_squares(x[i] - np.array(target)), [rule])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return Case(model, model.solve(), x[1], rules | {"edge": model.agreements[0].constraint})


@pytest.fixture(scope="module")
def federated() -> Case:
    """Three clients of a server: they maximise, and the first bounds a matrix from below."""
    w = cp.Variable((2, 2), name="w", symmetric=True)
    rule = w >> 0
    model = dm.Model("federated")
    for i in range(3):
        target = np.diag([1.0 + i, -1.0])
        model.client(i, cp.Maximize(-cp.sum_squares(w - target)), [rule] if i == 0 else [])
    return Case(model, model.solve(), w, {"semidefinite": rule})


# --- the fixtures are what they should be ---------------------------------------------------------


def test_an_honest_result_passes(peers: Case, federated: Case) -> None:
    for case in (peers, federated):
        check = case.result.verify()
        assert check.ok, str(check)
        assert bool(check)
        assert check.failures == []
    # max of -(sum over i of |W - diag(1 + i, -1)|^2) over W >> 0 is at diag(2, 0): -(2 + 3).
    assert federated.result.value == pytest.approx(-5.0, abs=1e-5)
    assert peers.rules["inequality"].dual_value.max() > 0.1
    assert peers.rules["cone"].dual_value[0] > 0.1


# --- corruptions ----------------------------------------------------------------------------------


def _values(case: Case, by: float) -> dm.Result:
    values = dict(case.result.recovered.values)
    values[case.variable.id] = values[case.variable.id] + by
    return replace(case.result, recovered=replace(case.result.recovered, values=values))


def _client(case: Case, name: Any, by: float) -> dm.Result:
    at = {n: dict(found) for n, found in case.result.recovered.at_clients.items()}
    at[name][case.variable.id] = at[name][case.variable.id] + by
    return replace(case.result, recovered=replace(case.result.recovered, at_clients=at))


def _multiplier(case: Case, ends: tuple[Any, Any], by: float, entry: int = 0) -> dm.Result:
    mu = {pair: m.copy() for pair, m in case.result.multipliers.items()}
    mu[ends][entry] += by
    return replace(case.result, multipliers=mu)


def _dual(case: Case, rule: str, change: Callable[[list[Any]], list[Any]]) -> dm.Result:
    duals = dict(case.result.recovered.duals)
    key = case.rules[rule].id
    duals[key] = tuple(change([np.array(part) for part in duals[key]]))
    return replace(case.result, recovered=replace(case.result.recovered, duals=duals))


def _fails_in(result: dm.Result, *rows: str) -> None:
    """At least these rows fail, of both witnesses together."""
    check = result.verify()
    assert not check.ok
    assert set(rows) <= {row.check for row in check.failures}, str(check)


def _fails(result: dm.Result, *rows: str) -> None:
    check = result.verify()
    assert not check.ok
    assert not bool(check)
    assert [row.check for row in check.failures] == list(rows), str(check)
    assert str(check).split("\n")[0].endswith(f"FAILED ({', '.join(rows)})")


def test_a_corrupt_value_of_a_variable(peers: Case, federated: Case) -> None:
    """Of the user's value alone: F there is no longer what is reported, nor the copies'."""
    rows = ("reported value", "constraint violation", "consensus violation")
    _fails_in(_values(peers, 1e-2), *rows)
    _fails_in(_values(federated, 1e-2), "reported value", "consensus violation")


@pytest.mark.parametrize("by", [1e-3, -1e-3])
def test_a_corrupt_value_at_a_client(peers: Case, federated: Case, by: float) -> None:
    _fails_in(_client(peers, 1, by), "consensus violation")
    assert "consensus violation" in [r.check for r in _client(federated, 2, by).verify().failures]
    assert "consensus violation" in [
        r.check for r in _client(federated, "server", by).verify().failures
    ]


@pytest.mark.parametrize("by", [1e-2, -1e-2, np.nan, np.inf])
def test_a_corrupt_objective_value(peers: Case, federated: Case, by: float) -> None:
    for case in (peers, federated):
        _fails(replace(case.result, value=case.result.value + by), "reported value")


def test_a_corrupt_objective_value_beside_prices_that_are_far_larger() -> None:
    """Two owners pay 2,000 for agreeing at w = 1/2, where F = (w - 1/2)^2 + 1 is 1."""
    model, w = dm.Model(), cp.Variable()
    model.client("one", 1e3 * w, [cp.abs(w) <= 1])
    model.client("two", cp.square(w - 0.5) + 1 - 1e3 * w, [cp.abs(w) <= 1])
    result = model.solve()
    assert result.value == pytest.approx(1, rel=1e-6)
    assert result.verify().ok
    assert not replace(result, value=1.001).verify().ok
    assert not replace(result, value=1.001).certificate().ok
    # At w = 0.6 F is 1.01: 0.01 too much is small beside 2,000, and one in a hundred to a reader
    found = result.recovered
    values = {key: value + 0.1 for key, value in found.values.items()}
    at = {i: {key: v + 0.1 for key, v in one.items()} for i, one in found.at_clients.items()}
    moved = replace(result, value=1.01, recovered=replace(found, values=values, at_clients=at))
    failures = [row.check for row in moved.certificate().failures]
    assert failures == ["in plain sight", "multipliers"]  # of a price 0.2 off the slope there
    assert moved.certificate().outcome == "cannot be judged"
    assert "in plain sight" in {row.check for row in moved.verify().failures}


def test_a_maximum_with_the_sign_of_a_minimum(federated: Case) -> None:
    _fails(replace(federated.result, value=-federated.result.value), "reported value")


@pytest.mark.parametrize("by", [0.1, -0.1])
def test_a_corrupt_multiplier(peers: Case, federated: Case, by: float) -> None:
    for ends in ((0, 1), (1, 2)):
        for entry in range(3):
            _fails_in(_multiplier(peers, ends, by, entry), "multipliers", "dual values")
    for i in range(3):
        _fails_in(_multiplier(federated, ("server", i), by), "multipliers")


def test_multipliers_with_the_wrong_sign(peers: Case, federated: Case) -> None:
    for case in (peers, federated):
        mu = {ends: -m for ends, m in case.result.multipliers.items()}
        _fails_in(replace(case.result, multipliers=mu), "multipliers")


def test_a_corrupt_consensus_dual(peers: Case) -> None:
    _fails(_dual(peers, "edge", lambda parts: [parts[0] + 0.1]), "dual values")
    _fails(_dual(peers, "edge", lambda parts: [-parts[0]]), "dual values")


def test_a_consensus_dual_and_its_multiplier_corrupt_alike(peers: Case) -> None:
    """Then they do not contradict each other, but they prove nothing either."""
    both = _dual(peers, "edge", lambda parts: [parts[0] + 0.1])
    mu = dict(both.multipliers)
    mu[0, 1] = mu[0, 1] + 0.1
    _fails_in(replace(both, multipliers=mu), "multipliers")


CHANGES = {
    "larger": lambda parts: [part + 0.1 for part in parts],
    "smaller": lambda parts: [part - 0.1 for part in parts],
    "doubled": lambda parts: [2 * part for part in parts],
    "nothing": lambda parts: [0 * part for part in parts],
    "other sign": lambda parts: [-part for part in parts],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rule", ["inequality", "equality", "cone"])
def test_a_corrupt_dual_of_a_client(peers: Case, rule: str, change: str) -> None:
    _fails(_dual(peers, rule, CHANGES[change]), "dual values")


@pytest.mark.parametrize("change", CHANGES)
def test_a_corrupt_dual_of_a_semidefinite_constraint(federated: Case, change: str) -> None:
    _fails(_dual(federated, "semidefinite", CHANGES[change]), "dual values")


def test_a_corrupt_status(peers: Case) -> None:
    result = replace(peers.result, status=dm.Status.INFEASIBLE)
    check = result.verify()
    assert not check.ok
    assert check["status"].where == "infeasible, AIO optimal"


def test_an_answer_where_there_is_none() -> None:
    """A result that claims an optimum of an infeasible problem, made by cutting its set away."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    bound = cp.Parameter(value=0.0)
    model = dm.Model()
    model.client(0, cp.square(x[0]), [x[0] >= bound])
    model.client(1, cp.square(x[1]), [x[1] <= 1])
    model.consensus(x[0] == x[1])
    result = model.solve()
    assert result.verify().ok
    bound.value = 2.0
    check = replace(result, given=()).verify()  # else that of the value that it was solved with
    assert not check.ok
    assert check["status"].where == "optimal, AIO infeasible"


# --- what is not corruption -----------------------------------------------------------------------


def test_another_optimum_is_no_failure() -> None:
    """Any x in [0, 1] is optimal: |x - 0| + |x - 1| = 1."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.abs(x[i] - i))
    model.consensus(x[0] == x[1])
    result = model.solve()
    assert result.verify().ok
    shifted = {v.id: np.array(0.125) for v in x}
    at = {i: {x[i].id: np.array(0.125)} for i in range(2)}
    moved = replace(result.recovered, values=shifted, at_clients=at)
    check = replace(result, recovered=moved, value=1.0).verify()
    assert check.ok, str(check)


def test_verifying_leaves_values_and_duals_alone(peers: Case) -> None:
    """Also where the result is not the one that they come from."""
    leaves = peers.model.monolithic().variables()
    leaves += [d for rule in peers.rules.values() for d in rule.dual_variables]
    before = [np.copy(flat(leaf.value)) for leaf in leaves]
    _dual(peers, "cone", CHANGES["doubled"]).verify(solver="SCS")
    after = [np.copy(flat(leaf.value)) for leaf in leaves]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_tolerance_nobody_meets(peers: Case) -> None:
    check = peers.result.verify(tol_objective=0.0, tol_feasibility=1.0, tol_dual=1.0)
    assert [row.check for row in check.failures] == ["gap to the bound"]


def test_a_solver_that_cannot(peers: Case) -> None:
    with pytest.raises(
        dm.OptionError, match="verify: cvxpy could not solve the all-in-one problem with OSQP"
    ):
        peers.result.verify(solver="OSQP")


def test_a_cone_at_its_tip_is_no_division_by_zero() -> None:
    """A cone's residual in cvxpy is divided by the size of its argument, which is zero here."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    model.client(0, cp.sum_squares(x[0]), [cp.SOC(cp.Constant(1.0), x[0])])
    model.client(1, cp.sum_squares(x[1]), [x[1] == 0])
    model.consensus(x[0] == x[1])
    result = model.solve()
    values = {v.id: np.zeros(2) for v in x}
    at = {i: {x[i].id: np.zeros(2)} for i in range(2)}
    zero = replace(result.recovered, values=values, at_clients=at)
    assert replace(result, recovered=zero).verify().ok


def test_a_corrupt_dual_of_a_constraint_that_two_clients_share() -> None:
    w = cp.Variable(2, name="w")
    rule = w >= 1
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.sum_squares(w - i / 2), [rule])
    case = Case(model, model.solve(), w, {"shared": rule})
    # The gradient of |w|^2 + |w - 1/2|^2 at 1 is 2 + 1.
    assert rule.dual_value == pytest.approx(np.full(2, 3.0), abs=1e-4)
    _fails(_dual(case, "shared", CHANGES["doubled"]), "dual values")


# --- exact printed texts --------------------------------------------------------------------------


def test_the_table_of_a_verification_that_fails(peers: Case) -> None:
    result = replace(peers.result, value=1.25, seconds=0.504, rounds=42)
    kind = type(peers.result.verify().rows[0])
    rows = (
        kind("objective gap", 1.23e-7, 1.0, 1e-4),
        kind("consensus violation", 0.02, 0.5, 1e-4, "edge 0 - 1"),
        kind("solution distance", 0.5, 2.0, None, "x0"),
    )
    check = dm.Verification(result, rows, "optimal", 1.2499999, 0.0123)
    assert str(check) == (
        "Verification of 'peers': FAILED (consensus violation)\n"
        "  distributed  1.25       optimal  0.50 s, 42 rounds\n"
        "  all-in-one   1.2499999  optimal  0.01 s\n"
        "  check                difference  measured by  share    allowed          where\n"
        "  objective gap        1.2e-07     1.0e+00      1.2e-07  1e-04    ok\n"
        "  consensus violation  2.0e-02     5.0e-01      4.0e-02  1e-04    FAILED  edge 0 - 1\n"
        "  solution distance    5.0e-01     2.0e+00      2.5e-01           info    x0"
    )
    assert repr(check) == str(check)


def test_the_table_of_a_verification_that_passes() -> None:
    """All of it, with times and measured figures, which are the machine's, masked."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model("two")
    model.client("left", cp.square(x[0] - 1), [x[0] >= -1])
    model.client("right", cp.square(x[1] + 1))
    model.consensus(x[0] == x[1])
    # Without acceleration something is left to be told of
    text = str(model.solve(acceleration=None).verify())
    masked = re.sub(r"\d\.\de[+-]\d\d", "#.#e-##", re.sub(r"\d+\.\d\d s", "#.## s", text))
    masked = re.sub(r"\d+ rounds", "# rounds", masked)
    masked = re.sub(r"(  (?:distributed|certificate|all-in-one) +)[\d.e-]+ +", r"\1#  ", masked)
    # Both ends are as far off as each other, so which is the worst is rounding's
    masked = re.sub(r"(distance .* info|most of it at| at) .*", r"\1", masked)
    masked = re.sub(r" +#\.#e-##", " #", masked)
    # Alone they choose 1 and -1, together 0: agreeing costs each of them one
    assert masked == (
        "Verification of 'two': passed\n"
        "  distributed        #  optimal  #.## s, # rounds\n"
        "  certificate        #  bound    by client solves alone\n"
        "  all-in-one         #  optimal  #.## s\n"
        "  cost of consensus  2                   lower bound of sum f_i(x) - min f_i\n"
        "  check                 difference  measured by  share    allowed        where\n"
        "  objective gap # #  1e-04    ok\n"
        "  in plain sight # #  1e-03    ok\n"
        "  gap to the bound # # #  1e-04    ok    most of it at\n"
        "  reported value # #  1e-04    ok\n"
        "  constraint violation # # #  1e-04    ok    x0 == x1\n"
        "  consensus violation # # #  1e-04    ok    edge ('left', 'right')\n"
        "  multipliers # # #  1e-04    ok    at\n"
        "  dual values # #  1e-04    ok\n"
        "  dual value distance # # #           info\n"
        "  solution distance # # #           info"
    )
