"""What the objectives of all clients have in common is held once, if the rest of each is linear."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.algorithms.server_topology import Star
from dald_model.errors import OptionError, TopologyError
from dald_model.models.graphical_lasso import REFERENCE
from dald_model.models.graphical_lasso import model as athletes


def model_of(count, bent, size=5, scale=1.0):
    """Clients with one bent function each has a multiple of, and linear functions of their own."""
    rng = np.random.default_rng(3)
    slopes, weights = scale * rng.normal(size=(count, size)), rng.uniform(0.5, 2, size=count)
    x, model = cp.Variable(size, name="x"), dm.Model("in common")
    for i in range(count):
        model.client(i, slopes[i] @ x + weights[i] / count * bent(x))
    return model, slopes.sum(axis=0), weights.mean(), x


def quartic(x):
    return cp.sum(cp.power(x, 4))


@pytest.mark.parametrize("count", [2, 20, 300])
def test_rounds_are_few_however_many_clients_there_are(count):
    model, slope, weight, x = model_of(count, quartic)
    result = model.solve()
    assert result.status == "optimal"
    assert result.rounds <= 6
    assert np.allclose(np.asarray(x.value), -np.cbrt(slope / (4 * weight)), rtol=1e-6)
    assert result.verify().ok
    assert result.certificate().ok


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_whatever_the_units_and_the_condition(unit):
    factors = 10.0 ** np.arange(-6, 3, 2)
    model, slope, weight, x = model_of(4, lambda x: unit * (factors @ cp.power(x, 4)), scale=unit)
    result = model.solve()
    assert result.status == "optimal"
    assert result.rounds <= 6
    assert np.allclose(
        np.asarray(x.value), -np.cbrt(slope / (4 * unit * weight * factors)), rtol=1e-6
    )
    assert result.verify().ok


def test_a_kink_holds_what_prices_do_not_move():
    model, slope, weight, x = model_of(6, lambda x: cp.norm1(x) + cp.sum_squares(x))
    result = model.solve()
    shrunk = np.sign(slope) * np.maximum(np.abs(slope) - weight, 0)
    assert 0 < np.count_nonzero(shrunk) < 5
    assert np.allclose(np.asarray(x.value), -shrunk / (2 * weight), atol=1e-7)
    assert result.rounds <= 6


def test_the_graphical_lasso_takes_few_rounds():
    result = athletes().solve()
    assert result.value == pytest.approx(REFERENCE, abs=1e-8)
    assert result.rounds <= 6


def test_what_falls_for_ever_is_unbounded():
    model, *_ = model_of(4, lambda x: 0.01 * cp.norm1(x))
    assert model.solve().status == "unbounded"


def test_the_cost_of_consensus_is_that_of_the_clients_as_declared():
    rng = np.random.default_rng(5)
    theta, model = cp.Variable((4, 4), symmetric=True), dm.Model("precision")
    for i in range(3):
        rows = rng.normal(size=(20, 4)) * rng.uniform(0.5, 2, size=4)
        data = cp.trace(rows.T @ rows / 20 @ theta)
        model.client(i, data - cp.log_det(theta) + 0.1 * cp.norm1(theta))
    result = model.solve()
    paid = result.certificate().paid
    apart, answer = 0.0, np.asarray(result[theta])
    for client in model.clients.values():
        theta.value = answer
        here = float(np.asarray(client.objective.value))
        apart += here - float(np.asarray(cp.Problem(client.objective).solve(solver=cp.CLARABEL)))
    assert 0 < paid <= (1 + 1e-4) * apart


def test_factors_are_read_however_they_are_written():
    """Four owners with 2, 1/2, 1 and 1/2 of a quartic, whose slope is 4 x^3."""
    x, model = cp.Variable(3), dm.Model("factors")
    slopes = np.random.default_rng(3).normal(size=(4, 3))
    shares = [2 * quartic(x), quartic(x) / 2, -(-1 * quartic(x)), cp.multiply(quartic(x), 0.5)]
    for i, (share, slope) in enumerate(zip(shares, slopes, strict=True)):
        model.client(i, share + slope @ x)
    assert model.compile().form.common.cost is not None
    assert model.solve().status == "optimal"
    assert np.allclose(np.asarray(x.value), -np.cbrt(slopes.sum(axis=0) / 16), rtol=1e-6)


def test_explain_and_latex_say_which():
    model, *_ = model_of(20, quartic)
    text = " ".join(str(model.compile().explain()).split())
    assert "objectives in common: " in text
    assert "of 20 clients, whose other summands are linear, and held once by 'server'" in text
    assert "none, as what clients keep is linear, so that their first answers tell" in text
    assert "x^{4} && \\text{server}" in model.latex()


def test_a_client_that_leaves_would_leave_its_part_behind():
    model, *_ = model_of(4, quartic)
    with pytest.raises(OptionError, match=r"2 is to go, .* as 'server' holds what all"):
        model.solve(online={3: dm.Change(leave=[2])})
    model.topology("server")
    assert model.solve(online={3: dm.Change(leave=[2])}).status == "reduced"


def test_a_published_algorithm_is_not_run_on_what_is_left_of_the_clients():
    model, *_ = model_of(4, quartic)
    with pytest.raises(TopologyError, match="holds what the clients have in common"):
        Star.of(model.compile(), "FedAvg", projects=True)


def _with(more):
    x, model = cp.Variable(3), dm.Model("apart")
    for i in range(3):
        objective, rules = more(x, i)
        model.client(i, objective, rules)
    return model


@pytest.mark.parametrize(
    "more",
    [
        lambda x, i: (quartic(x - i), []),
        lambda x, i: (quartic(x) + (cp.norm1(x) if i else 0), []),
        lambda x, i: (quartic(x) + i * cp.sum(x), [x >= 0]),
        lambda x, i: (quartic(x) + i * x[0] + cp.exp(cp.Variable()), []),
        lambda x, i: (cp.sum_squares(x) + i * cp.sum(x), []),
        lambda x, i: (i * cp.sum(x), [x >= 0]),
    ],
    ids=["data inside", "not everybody's", "a constraint", "private", "quadratic", "linear"],
)
def test_else_clients_keep_their_objectives(more):
    assert _with(more).compile().form.common.cost is None


def test_over_a_parameter_again():
    weight, x, model = cp.Parameter(nonneg=True, value=1.0), cp.Variable(2), dm.Model("again")
    slopes = np.random.default_rng(1).normal(size=(3, 2))
    for i in range(3):
        model.client(i, weight * quartic(x) + slopes[i] @ x)
    result = model.solve()
    for weight.value in (1.0, 5.0):
        result = model.solve(start=result)
        assert np.allclose(
            np.asarray(x.value), -np.cbrt(slopes.sum(axis=0) / (12 * weight.value)), rtol=1e-6
        )
