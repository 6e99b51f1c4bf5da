"""Every gallery file runs as a script, passes its verification and gives its reference answer."""

import contextlib
import importlib
import importlib.util
import inspect
import io
import runpy
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Lasso, LinearRegression, Ridge

import dald_model as dm
from dald_model.datasets import Dataset, load, load_hospitals, standardised_together
from dald_model.models.portfolio import Desk
from tests.paths import GALLERY

FILES = sorted(file.stem for file in GALLERY.glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize("name", FILES)
def test_each_file_runs_as_a_script_and_gives_its_reference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DALD_DATA", raising=False)  # the gallery needs nothing else
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found = runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
    model, result = found["model"](), found["result"]
    assert isinstance(model, dm.Model)
    assert result.status == ("optimal" if model.compile().is_convex else "stationary")
    assert result.value == pytest.approx(found["REFERENCE"], rel=1e-6)
    assert f"Result of {model.name!r}\n" in printed.getvalue()
    assert f"Verification of {model.name!r}: passed\n" in printed.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_each_file_imports_without_data_and_names_its_builder_otherwise_than_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DALD_DATA", raising=False)
    module = importlib.import_module(f"dald_model.models.{name}")
    builders = [
        thing.__name__
        for thing in vars(module).values()
        if inspect.isfunction(thing)
        and thing.__module__ == module.__name__
        and thing.__annotations__.get("return") is dm.Model
    ]
    assert builders, "a gallery file builds its model by a function that returns a Model"
    assert name not in builders
    assert module.REFERENCE > 0
    # `python models/ridge.py` puts models/ first on the path: a file there would hide a library.
    assert importlib.util.find_spec(name) is None


# --- the references, found again by other means ---------------------------------------------------


def reference(name: str) -> float:
    return importlib.import_module(f"dald_model.models.{name}").REFERENCE


def squared_error(fit: Any, rows: Dataset) -> float:
    return float(np.sum((fit.predict(rows.features) - rows.target) ** 2))


def test_the_references_of_the_regressions_are_those_of_scikit_learn() -> None:
    rows = load("diabetes").standardised()
    X, y = rows.features, rows.target

    plain = LinearRegression().fit(X, y)
    assert reference("linear_regression") == pytest.approx(squared_error(plain, rows), rel=1e-10)

    ridge = Ridge(alpha=50.0).fit(X, y)
    value = squared_error(ridge, rows) + 50.0 * np.sum(ridge.coef_**2)
    assert reference("ridge") == pytest.approx(value, rel=1e-10)

    lasso = Lasso(alpha=1.0, tol=1e-12, max_iter=100_000).fit(X, y)
    value = squared_error(lasso, rows) / (2 * len(y)) + np.sum(np.abs(lasso.coef_))
    assert reference("lasso") == pytest.approx(value, rel=1e-10)


def test_the_reference_of_the_logistic_regression_is_that_of_lbfgs() -> None:
    rows: Any = load_breast_cancer()
    scaled = (rows.data - rows.data.mean(axis=0)) / rows.data.std(axis=0)
    signed = np.where(rows.target, 1.0, -1.0)[:, None] * np.column_stack([scaled, np.ones(569)])
    weight = 4 * 0.0025

    def loss(parts: np.ndarray) -> tuple[float, np.ndarray]:
        """At w = parts[0] - parts[1], both not negative: there the norm is a sum."""
        z = -signed @ (parts[:31] - parts[31:])
        slope = signed.T @ (-1 / (1 + np.exp(-z))) / 569
        return np.logaddexp(0, z).mean() + weight * parts.sum(), np.r_[slope, -slope] + weight

    found = minimize(
        loss,
        np.zeros(62),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * 62,
        options={"ftol": 1e-16, "gtol": 1e-12, "maxcor": 50, "maxiter": 10_000},
    )
    assert reference("logistic") == pytest.approx(found.fun, rel=1e-10)


def test_the_reference_of_the_hospitals_is_that_of_slsqp() -> None:
    hospitals = list(standardised_together(load_hospitals()).values())
    m, n = len(hospitals[0].columns), len(hospitals)

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros(m + n)
        for at, rows in enumerate(hospitals):
            z = -rows.target * (rows.features @ point[:m] + point[m + at])
            value += np.logaddexp(0, z).sum()
            pull = -rows.target / (1 + np.exp(-z))
            slope[:m] += rows.features.T @ pull
            slope[m + at] += pull.sum()
        return value, slope

    budget = -np.r_[np.ones(m), np.zeros(n)]
    found = minimize(
        loss,
        np.zeros(m + n),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * m + [(None, None)] * n,
        constraints={"type": "ineq", "fun": lambda x: 1 + budget @ x, "jac": lambda x: budget},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert reference("hospitals") == pytest.approx(found.fun, rel=1e-8)


def test_the_reference_of_the_portfolio_is_that_of_slsqp() -> None:
    desks = portfolio_desks()
    returns = np.concatenate([desk.returns for desk in desks.values()])
    rules: list[dict[str, Any]] = [
        {"type": "eq", "fun": lambda y: y.sum() - 1, "jac": np.ones_like}
    ]
    start = 0
    for desk in desks.values():
        stop = start + len(desk.returns)
        alike = np.where(np.eye(stop - start) > 0, 1.0, desk.correlation)
        covariance = np.zeros((len(returns), len(returns)))
        covariance[start:stop, start:stop] = alike * np.outer(desk.deviations, desk.deviations)
        rules.append(
            {
                "type": "ineq",
                "fun": lambda y, C=covariance, limit=desk.limit: limit**2 - y @ C @ y,
                "jac": lambda y, C=covariance: -2 * C @ y,
            }
        )
        start = stop
    found = minimize(
        lambda y: -returns @ y,
        np.full(len(returns), 1 / len(returns)),
        jac=lambda y: -returns,
        method="SLSQP",
        bounds=[(0, None)] * len(returns),
        constraints=rules,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert reference("portfolio") == pytest.approx(-found.fun, rel=1e-8)


def test_the_price_of_the_market_is_the_root_of_supply_less_demand() -> None:
    market: Any = importlib.import_module("dald_model.models.market")

    def supply(price: float) -> np.ndarray:
        each = [(price - p.cost) / (2 * p.rise) for p in market.PLANTS.values()]
        return np.clip(each, 0.0, [p.capacity for p in market.PLANTS.values()])

    price: Any = brentq(lambda at: supply(at).sum() - market.DEMAND, 0.0, 100.0, xtol=1e-13)
    cost = sum(
        p.cost * q + p.rise * q**2
        for p, q in zip(market.PLANTS.values(), supply(price), strict=True)
    )
    assert reference("market") == pytest.approx(cost, rel=1e-12)
    model = market.model()
    result = model.solve()
    (balance,) = model.couplings["balance"].constraints
    assert balance.dual_value == pytest.approx(-price, rel=1e-5)
    assert [*result.recovered.values.values()][:5] == pytest.approx(supply(price), abs=1e-5)


def portfolio_desks() -> Mapping[Any, Desk]:
    return importlib.import_module("dald_model.models.portfolio").DESKS


# --- what a model says beyond its value -----------------------------------------------------------


def test_a_unit_of_capital_earns_the_same_at_every_desk_of_the_portfolio() -> None:
    builder = importlib.import_module("dald_model.models.portfolio").consensus_portfolio
    model = builder(portfolio_desks())
    result = model.solve()
    prices = [float(result.duals[a.constraint]) for a in model.agreements]
    assert prices == pytest.approx([prices[0]] * 3, abs=1e-4)
    assert abs(prices[0]) > 0.5, "capital is scarce, so it has a price"


def test_the_hospitals_share_the_coefficients_and_keep_their_intercepts() -> None:
    builder = importlib.import_module("dald_model.models.hospitals").consensus_classifier
    model = builder(standardised_together(load_hospitals()))
    assert [v.name() for v in model.shared] == ["w"]
    own = [client.variables[1].name() for client in model.clients.values()]
    assert own == [f"intercept at {name}" for name in model.clients]


@pytest.mark.parametrize(("rows", "divisor"), [(None, 7), (100, 100)])
def test_a_client_of_the_logistic_regression_has_the_paper_s_function(
    rows: int | None, divisor: int
) -> None:
    random = np.random.default_rng(0)
    shards = {
        name: (random.normal(size=(size, 3)), random.choice([-1.0, 1.0], size))
        for name, size in (("a", 2), ("b", 5))
    }
    builder = importlib.import_module("dald_model.models.logistic").sparse_logistic
    model = builder(shards, rows=rows, weight=0.5)
    assert [(v.name(), v.shape) for v in model.shared] == [("w", (4,))]
    (w,) = model.shared
    w.value = np.array([1.0, -2.0, 3.0, 0.25])
    for name, (features, target) in shards.items():
        margins = target * (features @ [1.0, -2.0, 3.0] + 0.25)
        value = np.log(1 + np.exp(-margins)).sum() / divisor + 0.5 * 6.25
        assert model.clients[name].objective.value == pytest.approx(value, rel=1e-12)
        assert not model.clients[name].constraints
    assert cp.norm1 in model.clients["a"].objective.atoms()
    assert cp.norm1 not in builder(shards, rows=rows).clients["a"].objective.atoms()
