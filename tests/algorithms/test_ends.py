"""Where the classical algorithms end: at the optimum, at a known distance from it, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import sklearn.datasets
import sklearn.linear_model

import dald_model as dm
from dald_model.models.mean import common_number
from tests.algorithms.blocks import above, coupled
from tests.algorithms.textbook import (
    NAMES,
    Loss,
    alone,
    clients,
    dimension,
    iterates,
    lipschitz,
    of,
    on_graph,
    on_star,
    paw,
    run,
    same,
    smooth,
    squares,
    table,
    total,
)


@pytest.mark.parametrize("rho", [1.0, 0.5])
@smooth
def test_blocks_come_to_rest_at_the_minimiser_of_the_coupled_objective(
    kind: str, rho: float
) -> None:
    problem = coupled(kind, rho=rho)
    model, x = problem.model()
    step = 1 / problem.largest()
    best = problem.minimiser()
    assert np.abs(problem.gradient(best)).max() < 1e-12
    known = scipy.optimize.minimize(
        problem.value, np.zeros(10), jac=problem.gradient, method="BFGS", options={"gtol": 1e-10}
    )
    assert best == pytest.approx(known.x, abs=1e-6)
    algorithms = [dm.BCD(), dm.BCGD(step), dm.JacobiGradientDescent(step), dm.BCPG(step, count=2)]
    for algorithm in algorithms:
        result = model.solve(algorithm=algorithm, rho=rho, eps_dual=1e-10, accuracy=1e-12)
        assert result.status == "settled", algorithm
        found = np.concatenate([result[v] for v in x])
        assert found == pytest.approx(best, abs=1e-7), algorithm
        gap = np.abs(problem.A[0] @ found[:6] + problem.A[1] @ found[6:] - problem.b).max()
        said = f"the clients are {gap:.1e} apart, as multipliers are not updated"
        assert result.detail == said
        assert not result.verify().ok, "the consensus does not hold"


@smooth
def test_proximal_blocks_come_to_rest_at_the_minimiser_with_absolute_values(kind: str) -> None:
    problem = coupled(kind, l1=0.08)
    model, x = problem.model()
    u = [cp.Variable(m) for m in problem.sizes]
    own = sum(f.express(v) + 0.08 * cp.norm1(v) for f, v in zip(problem.losses, u, strict=True))
    gap = problem.A[0] @ u[0] + problem.A[1] @ u[1] - problem.b
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    whole = cp.Problem(cp.Minimize(own + cp.sum_squares(gap)))
    whole.solve(solver=cp.CLARABEL, **tight)
    result = model.solve(algorithm=dm.BCPG(1 / problem.largest()), rho=1.0, eps_dual=1e-9)
    assert result.status == "settled"
    for mine, best in zip(x, u, strict=True):
        assert mine.value == pytest.approx(best.value, abs=1e-5)


PRIVATE = {
    1: Loss(
        lambda v: (v[0] - 1) ** 2 + (v[1] - 5) ** 2 / 10,
        lambda v: np.array([2 * (v[0] - 1), (v[1] - 5) / 5]),
        lambda v: np.diag([2, 1 / 5]),
        lambda v: cp.square(v[0] - 1) + cp.square(v[1] - 5) / 10,
    ),
    2: Loss(
        lambda v: (v[0] + 1) ** 2,
        lambda v: 2 * (v + 1),
        lambda v: np.full((1, 1), 2.0),
        lambda v: cp.sum_squares(v + 1),
    ),
}
"""f1 = (a - 1)^2 + (y - 5)^2 / 10 with y private, f2 = (x + 1)^2.

So flat that y takes hundreds of rounds where a and x take thirty.
"""


def _private() -> tuple[dm.Model, cp.Variable]:
    mine, x = cp.Variable(2, name="mine"), cp.Variable(1, name="x")
    model = dm.Model("private")
    model.client(1, PRIVATE[1].express(mine))
    model.client(2, PRIVATE[2].express(x))
    model.consensus(mine[:1] == x)
    return model, mine


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [dm.BCGD(0.1), dm.JacobiGradientDescent(0.1), dm.BCPG(0.1)],
    ids=["BCGD", "Jacobi", "BCPG"],
)
def test_private_variables_have_to_come_to_rest_too(algorithm: Any) -> None:
    """With rho = 1 and multipliers zero: a = 1 / 3, x = -1 / 3, and y = 5 by itself."""
    model, mine = _private()
    result = model.solve(algorithm=algorithm, rho=1.0, max_rounds=5000, accuracy=1e-10)
    assert result.status == "settled"
    assert mine.value == pytest.approx([1 / 3, 5], abs=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        dm.BCGD(0.3, multipliers=True),
        dm.BCPG(0.3, multipliers=True),
    ],
    ids=["BCGD", "BCPG"],
)
def test_private_variables_are_optimal_where_a_run_says_so(algorithm: Any) -> None:
    model, mine = _private()
    result = model.solve(algorithm=algorithm, rho=1.0, max_rounds=10_000)
    assert result.status == "optimal"
    assert result.verify().ok
    assert mine.value == pytest.approx([0, 5], abs=1e-2)


@pytest.mark.slow
def test_a_bound_that_keeps_the_absolute_values_is_optimal_where_a_run_says_so() -> None:
    """The bound has no gradient, so the movement tells how far it is from the objective."""
    mine, x = cp.Variable(2, name="mine"), cp.Variable(1, name="x")
    model = dm.Model("absolute values")
    loss = squares(np.diag([1.0, 0.3]), np.array([1.0, 1.5]))
    model.client(1, loss.express(mine) + 0.18 * cp.norm1(mine))
    model.client(2, cp.sum_squares(x + 1))
    model.consensus(mine[:1] == x)
    smooth_part = above({1: loss, 2: PRIVATE[2]}, 3.0)

    def make(client: dm.Client, at: Mapping[cp.Variable, cp.Parameter]) -> Any:
        bound, refresh = smooth_part(client, at)
        kinks = 0.18 * cp.norm1(client.variables[0]) if client.name == 1 else 0
        return bound + kinks, refresh

    result = model.solve(algorithm=dm.BSUM(make, multipliers=True), rho=1.0, max_rounds=10_000)
    assert result.status == "optimal"
    # y: 0.18 (y - 5) + 0.18 = 0, and a: 2 (a - 1) + 2 (a + 1) + 0.18 sign(a) = 0
    assert mine.value == pytest.approx([0, 4], abs=1e-2)


SETTLING = {
    "distributed": dm.DistributedProximal(2.0),
    "FedProx": dm.FedProx(2.0),
    "FedAvg": dm.FedAvg(0.2, count=5),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [*(("logistic", name) for name in SETTLING), ("least squares", "FedProx")]
)
def test_fixed_multipliers_settle_and_the_distance_is_told(kind: str, name: str) -> None:
    losses, size = clients(kind), dimension(kind)
    model, w = on_star(losses, size)
    result = model.solve(algorithm=SETTLING[name], max_rounds=5000, accuracy=1e-10)
    assert (result.status, result.rounds < 5000) == ("settled", True)
    apart = max(np.abs(result[n][w] - result[w]).max() for n in NAMES)
    assert apart > 1e-2
    assert result.detail == f"the clients are {apart:.1e} apart, as multipliers are not updated"
    assert result.status.message.startswith("the iterates stopped moving")
    check = result.verify()
    assert not check.ok
    assert "consensus violation" in [row.check for row in check.failures]
    if name != "FedAvg":
        # Where sum grad f_i(x_i) = 0, at points that differ
        slopes = [f.gradient(result[n][w]) for f, n in zip(losses, NAMES, strict=True)]
        assert np.sum(slopes, axis=0) == pytest.approx(0, abs=1e-4)
        assert max(np.abs(g).max() for g in slopes) > 1e-3


@pytest.mark.slow
def test_decentralised_descent_settles_at_a_distance_in_proportion_to_its_step() -> None:
    generator = np.random.default_rng(12)
    losses = [
        squares(generator.normal(size=(rows, 3)), generator.normal(size=rows), 1 / rows)
        for rows in (9, 12, 20, 31)
    ]
    model, w = on_graph(losses, 3, paw())
    best = total(losses).argmin(np.zeros(3), 0.0)
    off = []
    for step in (0.02, 0.01):
        result = model.solve(algorithm=dm.DGD(step), eps_dual=1e-8, max_rounds=20_000)
        assert result.status == "settled"
        points = np.stack([result[name][w] for name in NAMES])
        apart = max(
            np.abs(points[i] - points[j]).max() for i, j in ((0, 1), (1, 2), (0, 2), (2, 3))
        )
        said = f"the clients are {apart:.1e} apart, as multipliers are not updated"
        assert result.detail == said
        off.append(np.abs(points - best).max())
    assert off[0] / off[1] == pytest.approx(2, abs=0.3)


OPTIMAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "gradient descent": (dm.GradientDescent(0.24), {}),
    "Newton": (dm.NewtonMethod(), {}),
    "damped Newton": (dm.NewtonMethod(damping=0.5), {}),
    "ADMM": (dm.ConsensusADMM(), {}),
    "ADMM, longer": (dm.ConsensusADMM(dual_step=1.6), {}),
    "DALD": (dm.DALD(), {}),
    "BCD": (dm.BCD(multipliers=True), {}),
    "BCGD": (dm.BCGD(0.2, multipliers=True), {"rho": 0.4}),
    "BCPG": (dm.BCPG(0.2, multipliers=True), {"rho": 0.4}),
    "Jacobi": (dm.JacobiGradientDescent(0.3, multipliers=True), {"rho": 0.3}),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    # Steps on the first table take thousands of rounds: two of its columns are nearly parallel.
    [("logistic", name) for name in OPTIMAL]
    + [("least squares", name) for name in ("Newton", "ADMM, longer", "DALD")],
)
def test_the_others_end_at_the_optimum(kind: str, name: str) -> None:
    losses, size = clients(kind), dimension(kind)
    algorithm, options = OPTIMAL[name]
    model, w = on_star(losses, size)
    result = model.solve(algorithm=algorithm, max_rounds=20_000, **options)
    assert (result.status, result.detail) == ("optimal", "")
    check = result.verify()
    assert check.ok, check
    assert w.value == pytest.approx(total(losses).argmin(np.zeros(size), 0.0), abs=1e-3)


@pytest.mark.parametrize(
    "algorithm", [dm.ProximalPoint(5.0), dm.ProximalGradient(1.0)], ids=["PA", "PG"]
)
def test_one_client_ends_at_the_optimum(algorithm: Any) -> None:
    whole = total(clients("logistic"))
    assert lipschitz(whole, 8) < 1
    model, _, z = alone(whole, 8)
    result = model.solve(algorithm=algorithm, eps_pri=1e-7, eps_dual=1e-7)
    assert result.status == "optimal"
    assert result.verify().ok
    assert z.value == pytest.approx(whole.argmin(np.zeros(8), 0.0), abs=1e-3)


def test_proximal_gradients_end_at_the_lasso_of_scikit_learn() -> None:
    A, b = table("diabetes")
    whole = squares(A, b, 1 / (2 * len(A)))
    model, _, z = alone(whole, 10, lambda x: 0.05 * cp.norm1(x))
    step = 1 / lipschitz(whole, 10)
    result = model.solve(algorithm=dm.ProximalGradient(step), eps_dual=1e-9, max_rounds=20_000)
    assert result.status == "optimal"
    assert result.verify().ok
    fit = sklearn.linear_model.Lasso(0.05, fit_intercept=False, tol=1e-14, max_iter=100_000)
    assert z.value == pytest.approx(fit.fit(A, b).coef_, abs=1e-6)
    assert (z.value == 0).sum() == (fit.coef_ == 0).sum() > 0


STOCHASTIC: dict[str, Any] = {
    "mini-batch": dm.MiniBatchGradientDescent(0.1, k=2),
    "SGD": dm.StochasticGradientDescent(0.1),
    "Newton": dm.StochasticNewton(k=2, damping=0.1),
    "FedAvg": dm.FedAvg(0.1, count=2, k=2),
}


@pytest.mark.parametrize("name", [*STOCHASTIC, "asynchronous"])
def test_stochastic_methods_run_every_round_and_answer_with_the_last(name: str) -> None:
    losses = clients("least squares")
    if name == "asynchronous":
        model, w = on_graph(losses, 10, paw())
        algorithm: Any = dm.AsynchronousDGD(0.1, k=2)
    else:
        model, w = on_star(losses, 10)
        algorithm = STOCHASTIC[name]
    # Tolerances that any iterate meets
    result = model.solve(
        algorithm=algorithm, max_rounds=77, eps_pri=1e3, eps_dual=1e3, metrics={"x": of(w)}
    )
    assert (result.status, result.rounds, result.answer_round) == ("round_limit", 77, 77)
    assert result.detail == "after 77 rounds; see result.diagnose()"
    assert result[w] == pytest.approx(result.history["x"].iloc[-1], abs=1e-14)
    again = model.solve(algorithm=algorithm, max_rounds=77)
    assert (again[w] == result[w]).all(), "the same seed has the same draws"


def test_steps_that_are_too_long_diverge() -> None:
    losses = clients("least squares")
    model, _ = on_star(losses, 10)
    step = 1 / lipschitz(total(losses), 10)
    for algorithm in (dm.GradientDescent(3 * step), dm.FedAvg(4 * 12 * step)):
        result = model.solve(algorithm=algorithm, max_rounds=5000)
        assert result.status == "diverged", algorithm
    problem = coupled("least squares")
    model, _ = problem.model()
    result = model.solve(algorithm=dm.JacobiGradientDescent(3 / problem.largest()), rho=1.0)
    assert result.status == "diverged"


def test_a_run_goes_on_from_another() -> None:
    """Fixed multipliers: 10 rounds and 15 more are 25 rounds."""
    losses = clients("least squares")
    model, w = on_star(losses, 10)
    for algorithm in (
        dm.GradientDescent(0.1),
        dm.NewtonMethod(0.3),
        dm.FedAvg(0.2, 3),
        dm.FedProx(2.0),
    ):
        whole = iterates(model, algorithm, w)
        _, first = run(model, algorithm, of(w), rounds=10)
        later, _ = run(model, algorithm, of(w), rounds=15, start=first)
        same(later, whole[10:], 1e-12)


PEERS = {dm.DGD, dm.EXTRA}


@pytest.mark.parametrize(
    ("long", "said", "short"),
    [
        (dm.GradientDescent(step=10.0), "a smaller step; step=None", dm.GradientDescent()),
        (dm.FedAvg(step=10.0), "a smaller step; step=None", dm.FedAvg()),
        (dm.SCAFFOLD(step=10.0), "a smaller step; step=None", dm.SCAFFOLD()),
        (dm.DGD(step=10.0), "a smaller step; step=None", dm.DGD()),
        (dm.EXTRA(step=10.0), "a smaller step; step=None", dm.EXTRA()),
        (dm.BCGD(step=10.0), "a smaller step", dm.BCGD(step=0.1)),
        (dm.NewtonMethod(damping=3.0), "a smaller damping", dm.NewtonMethod(damping=0.5)),
        (dm.LinearisedADMM(1.0, proximal=0), "a larger proximal", dm.LinearisedADMM(1.0)),
        (dm.DALD(dual_step=5.0), "a smaller dual step", dm.DALD(dual_step=1.0)),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_what_a_diverged_method_is_told_to_try_mends_it(long: Any, said: str, short: Any) -> None:
    model = common_number([0, 1, 5], peers=type(long) in PEERS)
    result = model.solve(algorithm=long)
    assert result.status == "diverged"
    assert f"; try {said}" in result.detail
    assert result.diagnose().remedies == ["model.solve()"]
    assert model.solve(algorithm=short).status in ("optimal", "settled")


def test_a_diverged_solver_is_told_its_own_step() -> None:
    model = common_number([0, 1, 5])
    result = model.solve(solver=dm.solvers.GradientSteps(step=10.0))
    assert (result.status, result.detail.split("; try ")[1]) == (
        "diverged",
        "a smaller step of the option solver",
    )
