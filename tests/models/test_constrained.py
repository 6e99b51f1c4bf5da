"""The gallery's constrained federated learning against scipy on all rows together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import root_scalar
from sklearn.linear_model import Lasso

from dald_model.datasets import load_hospitals, standardised_together
from tests.models.slsqp import Function, logistic, slsqp, with_ones
from tests.models.test_regressions import gallery, reference

Array = np.ndarray


def mean_square(design: Array, target: Array, w: Array) -> tuple[float, Array]:
    """Of the residuals: value and gradient."""
    miss = design @ w - target
    return float(miss @ miss) / len(target), 2 * design.T @ miss / len(target)


def limited(limits: dict[str, float]) -> float:
    parts = gallery("linear_regression").age_groups()
    designs = {name: (with_ones(rows), target) for name, (rows, target) in parts.items()}
    design, target = (np.concatenate(part) for part in zip(*designs.values(), strict=True))
    rules = []
    for name, limit in limits.items():

        def spare(w: Array, name: str = name, limit: float = limit) -> tuple[float, Array]:
            value, slope = mean_square(*designs[name], w)
            return limit - value, -slope

        rules.append(spare)

    # in units of 1000, so that SLSQP can tell its last digits from rounding
    def thousandth(of: Function) -> Function:
        return lambda w: (of(w)[0] / 1000, of(w)[1] / 1000)

    start = np.linalg.lstsq(design, target)[0]
    whole = thousandth(lambda w: mean_square(design, target, w))
    return 1000 * slsqp(whole, start, [thousandth(rule) for rule in rules])


def loss_guarantees() -> float:
    return limited({"age group 0": 2900.0, "age group 1": 2950.0})


def minmax_fairness() -> float:
    clients = standardised_together(load_hospitals()).values()
    designs = [(with_ones(rows.features), rows.target) for rows in clients]
    size = designs[0][0].shape[1]

    def objective(x: Array) -> tuple[float, Array]:
        return x[-1] + 0.005 * float(x[:-1] @ x[:-1]), np.r_[0.01 * x[:-1], 1.0]

    def spare(design: Array, target: Array) -> Any:
        def of(x: Array) -> tuple[float, Array]:
            value, slope = mean_square(design, target, x[:-1])
            return x[-1] - value, np.r_[-slope, 1.0]

        return of

    start = np.r_[np.zeros(size), 1.0]
    return slsqp(objective, start, [spare(*one) for one in designs])


def covariance(limit: float) -> float:
    clients = gallery("group_fairness").protected_by_sex().values()
    features, target, protected = (np.concatenate(part) for part in zip(*clients, strict=True))
    design = np.column_stack([features, np.ones(len(target))])
    slope = (protected - protected.mean()) @ design / len(target)

    def objective(w: Array) -> tuple[float, Array]:
        value, gradient = logistic(target[:, None] * design, w)
        return value / len(target) + 0.005 * float(w @ w), gradient / len(target) + 0.01 * w

    both = [lambda w, s=s: (limit - s * slope @ w, -s * slope) for s in (1, -1)]
    return slsqp(objective, np.zeros(design.shape[1]), both)


def group_fairness() -> float:
    return covariance(0.05)


def lassos(price: float) -> list[tuple[Lasso, Array, Array]]:
    parts = gallery("linear_regression").age_groups().values()
    fits = Lasso(alpha=price, tol=1e-14, max_iter=1_000_000)
    return [(Lasso(**fits.get_params()).fit(X, y), X, y) for X, y in parts]


def length(price: float) -> float:
    return sum(float(np.abs(fit.coef_).sum()) for fit, _, _ in lassos(price))


def price_of_the_budget() -> float:
    return root_scalar(lambda price: length(price) - 200.0, bracket=(1.0, 30.0), xtol=1e-13).root


def sparsity_budget() -> float:
    fits = lassos(price_of_the_budget())
    return sum(float(np.mean((fit.predict(X) - y) ** 2)) / 2 for fit, X, y in fits)


FOUND: dict[str, Callable[[], float]] = {
    "loss_guarantees": loss_guarantees,
    "minmax_fairness": minmax_fairness,
    "group_fairness": group_fairness,
    "sparsity_budget": sparsity_budget,
}


@pytest.mark.parametrize("name", FOUND)
def test_the_reference_is_found_again_without_clients(name: str) -> None:
    assert reference(name) == pytest.approx(FOUND[name](), rel=1e-8)


def test_the_guarantees_bind_and_cost_what_their_multipliers_say() -> None:
    limits = {"age group 0": 2900.0, "age group 1": 2950.0}
    model = gallery("loss_guarantees").model()
    model.solve()
    for name, limit in limits.items():
        (rule,) = model.clients[name].constraints
        assert rule.args[0].value == pytest.approx(limit, rel=1e-5)
        changed = (limited(limits | {name: limit + 1}) - limited(limits | {name: limit - 1})) / 2
        assert -rule.dual_value.item() == pytest.approx(changed, rel=1e-3)


def test_the_weights_of_the_worst_served_add_up_to_one() -> None:
    model = gallery("minmax_fairness").model()
    model.solve()
    weights = [client.constraints[0].dual_value.item() for client in model.clients.values()]
    assert sum(weights) == pytest.approx(1.0, abs=1e-5)
    losses = [client.constraints[0].args[0].value for client in model.clients.values()]
    worst = max(losses)
    for weight, loss in zip(weights, losses, strict=True):
        assert weight > 1e-4 or loss < worst
        assert loss == pytest.approx(worst, rel=1e-4) or weight == pytest.approx(0, abs=1e-4)


def test_the_covariance_meets_its_bound_and_would_not_by_itself() -> None:
    model = gallery("group_fairness").model()
    model.solve()
    (rule,) = model.couplings["covariance"].constraints
    assert rule.args[0].value == pytest.approx(0.05, rel=1e-5)
    changed = (covariance(0.051) - covariance(0.049)) / 0.002
    assert -float(rule.dual_value) == pytest.approx(changed, rel=1e-3)
    free = gallery("group_fairness").fair_scores(
        gallery("group_fairness").protected_by_sex(), limit=10.0, weight=0.01
    )
    free.solve()
    (rule,) = free.couplings["covariance"].constraints
    assert rule.args[0].value == pytest.approx(0.41, abs=0.005)


def test_the_price_of_the_budget_is_the_penalty_of_every_lasso() -> None:
    model = gallery("sparsity_budget").model()
    model.solve()
    (rule,) = model.couplings["budget"].constraints
    assert float(rule.dual_value) == pytest.approx(price_of_the_budget(), rel=1e-4)
    parts = gallery("linear_regression").age_groups().values()
    free = sum(np.abs(np.linalg.lstsq(with_ones(X), y)[0][1:]).sum() for X, y in parts)
    assert free == pytest.approx(933, abs=0.5)  # what its docstring says of no budget
