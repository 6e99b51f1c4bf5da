"""What the classical algorithms say of wrong arguments, mixing weights and upper bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.errors import OptionError
from tests.algorithms.small import alone, peers, refused, shared

# --- arguments ------------------------------------------------------------------------------------

POSITIVE: list[tuple[Any, str]] = [
    (dm.ProximalPoint, "alpha"),
    (dm.ProximalGradient, "step"),
    (dm.DistributedProximal, "alpha"),
    (dm.FedProx, "alpha"),
    (dm.FedAvg, "step"),
    (dm.GradientDescent, "step"),
    (dm.NewtonMethod, "damping"),
    (dm.MiniBatchGradientDescent, "step"),
    (dm.StochasticGradientDescent, "step"),
    (dm.StochasticNewton, "damping"),
    (dm.DGD, "step"),
    (dm.AsynchronousDGD, "step"),
    (dm.JacobiGradientDescent, "step"),
    (dm.DouglasRachford, "step"),
    (dm.PDHG, "primal"),
    (dm.FedADMM, "penalty"),
    (dm.LinearisedADMM, "penalty"),
]
MEASURED = [dm.ProximalGradient, dm.FedAvg, dm.GradientDescent, dm.EXTRA]
"""Those whose step is measured where it is None."""
FALLING = [dm.MiniBatchGradientDescent, dm.StochasticGradientDescent, dm.DGD, dm.AsynchronousDGD]
"""Those whose step may also be a function of the round."""


@pytest.mark.parametrize("given", [0, -1.0, float("nan"), float("inf"), True, "1", None, [1.0]])
@pytest.mark.parametrize(("algorithm", "what"), POSITIVE)
def test_numbers_that_have_to_be_positive(algorithm: Any, what: str, given: Any) -> None:
    said = f"{algorithm.__name__}: given {what}={given!r}, expected a positive number"
    if algorithm in FALLING:
        said += ", a function from the round to one"
    if algorithm in MEASURED + FALLING:
        if given is None:
            assert algorithm().step is None
            return
        said += ", or None for a measured one"
    with pytest.raises(OptionError) as caught:
        algorithm(**{what: given} | ({"dual": 1.0} if algorithm is dm.PDHG else {}))
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(
            lambda: dm.DALD(0),
            "DALD: given dual_step=0, expected a positive number (1 is the paper's)",
            id="DALD",
        ),
        pytest.param(
            lambda: dm.ConsensusADMM(0),
            "ConsensusADMM: given dual_step=0, expected a positive number (1 is the paper's)",
            id="ConsensusADMM",
        ),
        pytest.param(
            lambda: dm.DistributedProximal({"one": 1.0, "two": 0}),
            "DistributedProximal: given alpha=0, expected a positive number",
            id="one alpha",
        ),
        pytest.param(
            lambda: dm.FedAvg(0.1, weights={"one": 0}),
            "FedAvg: given weights=0, expected a positive number",
            id="one weight",
        ),
        pytest.param(
            lambda: dm.BSUM(3),  # pyright: ignore[reportArgumentType]
            "BSUM: given 3, expected a function of a client and its point that returns a cvxpy "
            "expression",
            id="BSUM",
        ),
    ],
)
def test_arguments(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: dm.BCGD(0), id="BCGD step"),
        pytest.param(lambda: dm.BCGD(0.1, count=0), id="BCGD count"),
        pytest.param(lambda: dm.BCPG(-1.0), id="BCPG step"),
        pytest.param(lambda: dm.BCPG(0.1, count=0), id="BCPG count"),
        pytest.param(lambda: dm.FedAvg(0.1, count=0), id="FedAvg count"),
        pytest.param(lambda: dm.FedAvg(0.1, k=0), id="FedAvg k"),
        pytest.param(lambda: dm.FedAvg(0.1, k="a"), id="FedAvg k, text"),  # pyright: ignore[reportArgumentType]
        pytest.param(lambda: dm.FedAvg(0.1, k=1, seed=-1), id="FedAvg seed"),
        pytest.param(lambda: dm.FedAvg(0.1, weights=[1, 2]), id="FedAvg weights"),  # pyright: ignore[reportArgumentType]
        pytest.param(lambda: dm.MiniBatchGradientDescent(0.1, k=0), id="mini-batch k"),
        pytest.param(lambda: dm.StochasticGradientDescent(0.1, seed=-1), id="SGD seed"),
        pytest.param(lambda: dm.StochasticNewton(k=0), id="stochastic Newton k"),
        pytest.param(lambda: dm.AsynchronousDGD(0.1, k=0), id="asynchronous k"),
        pytest.param(lambda: dm.AsynchronousDGD(0.1, k=-1), id="asynchronous k, negative"),
        pytest.param(lambda: dm.AsynchronousDGD(0.1, k=1.5), id="asynchronous k, fraction"),  # pyright: ignore[reportArgumentType]
        pytest.param(lambda: dm.AsynchronousDGD(0.1, seed=-1), id="asynchronous seed"),
        pytest.param(lambda: dm.DGD(0.1, weights="metropolis"), id="DGD weights"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_wrong_arguments_are_refused_in_the_algorithms_name(make: Callable[[], Any]) -> None:
    """When it is made, as with the step; the message begins with what the user wrote."""
    with pytest.raises(OptionError) as caught:
        make()
    assert re.match("(BCGD|BCPG|FedAvg|Mini|Stochastic|Asynchronous|DGD)", str(caught.value))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"one": 1.0}, "given values for 'one', expected one for each of 'one', 'two'"),
        (
            {"one": 1.0, "two": 1.0, "six": 1.0},
            "given values for 'one', 'two', 'six', expected one for each of 'one', 'two'",
        ),
    ],
)
def test_values_by_client(given: dict[Any, float], said: str) -> None:
    refused(shared(), dm.DistributedProximal(given), f"DistributedProximal: {said}")
    refused(shared(), dm.FedAvg(0.1, weights=given), f"FedAvg: {said}")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({}, "the edge ('one', 'two') has the weights [], expected one number from 0, below 1"),
        (
            {("one", "two"): 1.0},
            "the edge ('one', 'two') has the weights [1.0], expected one number from 0, below 1",
        ),
        (
            {("one", "two"): 0.2, ("two", "one"): 0.2},
            "the edge ('one', 'two') has the weights [0.2, 0.2], expected one number from 0, "
            "below 1",
        ),
        (
            {("one", "two"): 0.2, ("one", "six"): 0.2},
            "weights name ('one', 'six'), which is no edge; expected pairs of neighbours such as "
            "('one', 'two')",
        ),
    ],
)
def test_mixing_weights(weights: Any, said: str) -> None:
    refused(peers(), dm.DGD(0.1, weights=weights), f"DGD: {said}")
    refused(peers(), dm.AsynchronousDGD(0.1, weights=weights), f"AsynchronousDGD: {said}")


@pytest.mark.parametrize("weights", [{("one", "two"): 0.2, "one": 0.1}, {("one", "two"): "0.2"}])
def test_mixing_weights_of_the_wrong_type(weights: Any) -> None:
    with pytest.raises(OptionError, match=r"^DGD: given the weight"):
        peers().solve(algorithm=dm.DGD(0.1, weights=weights))


def test_mixing_weights_that_leave_less_than_nothing() -> None:
    w = cp.Variable(2, name="w")
    model = dm.Model("three")
    for name in "abc":
        model.client(name, cp.sum_squares(w))
    model.topology(nx.path_graph("abc"))
    said = "the weights of client 'b' add up to 1.3, expected at most 1: the rest is its own"
    refused(model, dm.DGD(0.1, weights={("a", "b"): 0.6, ("c", "b"): 0.7}), f"DGD: {said}")


# --- upper bounds ---------------------------------------------------------------------------------


def quadratic(size: float, below: float = 0.0) -> Any:
    """The bound of curvature ``size`` on |x - 3|^2, of which 2 is the true one."""

    def make(client: dm.Client, at: Any) -> Any:
        (x,) = client.variables
        linear, constant = cp.Parameter(x.shape), cp.Parameter()

        def refresh(values: Any) -> None:
            y = values[x]
            g = 2 * (y - 3)
            linear.value = g - size * y
            constant.value = np.sum((y - 3) ** 2) - g @ y + size / 2 * y @ y - below

        return constant + linear @ x + size / 2 * cp.sum_squares(x), refresh

    return make


def _three() -> dm.Model:
    return alone(lambda x: cp.sum_squares(x - 3))


FAILED = "the solver failed on client 'two'; choose another by the option solver, or scale the "


def test_a_bound_below_the_objective() -> None:
    """Of curvature 1, not 2.

    With rho = 1 and the server at 0 the client minimises 18 - 6 (x1 + x2) + |x|^2 / 2 + |x|^2, so
    x = (2, 2), where the bound is 18 - 24 + 4 = -2 and the objective 2: twice that too low.
    """
    result = _three().solve(algorithm=dm.BSUM(quadratic(1.0)), rho=1.0)
    said = f"{FAILED}client's data (BSUM: the surrogate is 2.0e+00 below the objective)"
    assert (result.status, result.culprit, result.detail) == ("solver_error", "two", said)


@pytest.mark.parametrize(("below", "gap"), [(0.9, "-5.0e-02"), (-1.8, "1.0e-01")])
def test_a_bound_that_does_not_touch(below: float, gap: str) -> None:
    """Off by 0.9 or 1.8 at zero, where the objective is 18."""
    result = _three().solve(algorithm=dm.BSUM(quadratic(4.0, below)), rho=1.0)
    told = f"BSUM: the surrogate is {gap} off the objective where it is to touch it"
    assert (result.status, result.culprit) == ("solver_error", "two")
    assert result.detail == f"{FAILED}client's data ({told})"


def test_a_bound_of_the_right_curvature_is_taken() -> None:
    result = _three().solve(algorithm=dm.BSUM(quadratic(2.0), multipliers=True), rho=1.0)
    assert result.status == "optimal"


STRAY = cp.Variable(2, name="stray")
SCALAR = "expected a scalar cvxpy expression in its variables x"
CONVEX = (
    "is not convex, or not DPP in its Parameters; expected a bound such as c + g @ x + L/2 * "
    "cp.sum_squares(x - y), where c, with -g @ y in it, and g are Parameters of your own that the "
    "function sets which you return beside it: (bound, refresh)"
)


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        pytest.param(
            lambda x, y: cp.sum_squares(STRAY),
            f"the surrogate of client 'two' is sum_squares(stray), {SCALAR}",
            id="foreign",
        ),
        pytest.param(
            lambda x, y: cp.sum_squares(x) + cp.sum(STRAY),
            f"the surrogate of client 'two' is sum_squares(x) + sum(stray), {SCALAR}",
            id="partly foreign",
        ),
        pytest.param(
            lambda x, y: x + 1, f"the surrogate of client 'two' is x + 1.0, {SCALAR}", id="vector"
        ),
        pytest.param(
            lambda x, y: 4.0, f"the surrogate of client 'two' is 4.0, {SCALAR}", id="number"
        ),
        pytest.param(
            lambda x, y: None, f"the surrogate of client 'two' is None, {SCALAR}", id="nothing"
        ),
        pytest.param(
            lambda x, y: -cp.sum_squares(x),
            f"the surrogate -sum_squares(x) of client 'two' {CONVEX}",
            id="concave",
        ),
        pytest.param(
            lambda x, y: cp.sum_squares(cp.multiply(y, x - y)),
            f"the surrogate sum_squares(multiply(x before, x - x before)) of client 'two' {CONVEX}",
            id="not DPP",
        ),
    ],
)
def test_what_is_no_bound(bound: Any, said: str) -> None:
    def make(client: dm.Client, at: Any) -> Any:
        (x,) = client.variables
        return bound(x, at[x])

    with pytest.raises(OptionError) as caught:
        _three().solve(algorithm=dm.BSUM(make), rho=1.0)
    assert str(caught.value) == f"BSUM: {said}"


def test_the_bound_that_the_message_recommends() -> None:
    def make(client: dm.Client, at: Any) -> Any:
        (x,) = client.variables
        y, c, g = at[x], cp.Parameter(), cp.Parameter(2)

        def refresh(values: Any) -> None:
            g.value = 2 * (values[x] - 3)
            c.value = np.sum((values[x] - 3) ** 2) - g.value @ values[x]

        return c + g @ x + 4 / 2 * cp.sum_squares(x - y), refresh

    result = _three().solve(algorithm=dm.BSUM(make), rho=1.0)
    assert result.status == "settled"
