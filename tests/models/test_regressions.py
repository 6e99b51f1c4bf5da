"""The gallery's regressions and classifiers against scikit-learn and scipy on all rows together."""

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares, lsq_linear, minimize
from sklearn.covariance import graphical_lasso
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LogisticRegression,
    MultiTaskLasso,
    QuantileRegressor,
)
from sklearn.svm import SVC

from tests.models.slsqp import with_ones
from tests.paths import GALLERY, MANUAL

Array = np.ndarray


def gallery(name: str) -> Any:
    return importlib.import_module(f"dald_model.models.{name}")


def reference(name: str) -> float:
    return gallery(name).REFERENCE


def together(parts: Any) -> tuple[Array, Array]:
    """The rows of all clients, one below the other."""
    features, targets = zip(*parts.values(), strict=True)
    return np.concatenate(features), np.concatenate(targets)


def elastic_net() -> float:
    X, y = together(gallery("linear_regression").clinics())
    fit = ElasticNet(alpha=1.0, l1_ratio=0.5, tol=1e-12, max_iter=100_000).fit(X, y)
    penalty = np.abs(fit.coef_).sum() / 2 + np.sum(fit.coef_**2) / 4
    return np.sum((fit.predict(X) - y) ** 2) / (2 * len(y)) + penalty


def group_lasso() -> float:
    X, Y = gallery("group_lasso").athletes()
    fit = MultiTaskLasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(X, Y)
    miss = np.sum((fit.predict(X) - Y) ** 2) / (2 * len(Y))
    return miss + 0.1 * np.linalg.norm(fit.coef_, axis=0).sum()


def huber() -> float:
    X, y = together(gallery("linear_regression").clinics())
    design = with_ones(X)
    options: dict[str, Any] = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)
    found = least_squares(
        lambda w: design @ w - y,
        np.linalg.lstsq(design, y)[0],
        jac=lambda _: design,  # pyright: ignore[reportArgumentType]  scipy's stub lacks it
        loss="huber",
        f_scale=50.0,
        **options,
    )
    return 2 * found.cost  # scipy's has one half


def quantile() -> float:
    X, y = together(gallery("linear_regression").clinics())
    fit = QuantileRegressor(quantile=0.9, alpha=0.0).fit(X, y)
    miss = y - fit.predict(X)
    return np.maximum(0.9 * miss, -0.1 * miss).mean()


def multinomial() -> float:
    X, y = gallery("multinomial").irises()
    fit = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X, y)
    return -fit.predict_log_proba(X)[np.arange(len(y)), y].sum() + np.sum(fit.coef_**2) / 2


def hinge(fit: SVC, X: Array, y: Array, square: float, cost: float) -> float:
    return square / 2 + cost * np.maximum(0, 1 - y * fit.decision_function(X)).sum()


def svm() -> float:
    X, y = gallery("logistic").breast_cancer()
    fit = SVC(kernel="linear", C=0.01, tol=1e-10).fit(X, y)
    return hinge(fit, X, y, float(np.sum(fit.coef_**2)), 0.01)


def kernel_svm() -> float:
    model = gallery("kernel_svm")
    X, y = together(model.half_moons())

    def gauss(one: Array, other: Array) -> Array:
        return np.exp(-np.sum((one[:, None] - other[None]) ** 2, axis=2))

    across = gauss(X, model.LANDMARKS)
    kernel = across @ np.linalg.solve(gauss(model.LANDMARKS, model.LANDMARKS), across.T)
    fit = SVC(kernel="precomputed", C=1.0, tol=1e-10).fit(kernel, y)
    dual = np.zeros(len(y))
    dual[fit.support_] = fit.dual_coef_[0]
    return hinge(fit, kernel, y, float(dual @ kernel @ dual), 1.0)


def graphical_lasso_() -> float:
    rows = np.column_stack(gallery("group_lasso").athletes())[:, :4]
    covariance = rows.T @ rows / len(rows)
    _, precision = graphical_lasso(covariance, 0.2, tol=1e-12, enet_tol=1e-12, max_iter=1000)
    off = np.abs(precision).sum() - np.abs(np.diag(precision)).sum()
    return np.sum(covariance * precision) - np.linalg.slogdet(precision)[1] + 0.2 * off


def isotonic() -> float:
    model = gallery("isotonic")
    X, y = together(gallery("linear_regression").clinics())
    level = np.digitize(X[:, 3], model.LEVELS)
    return np.sum((IsotonicRegression().fit(level, y).predict(level) - y) ** 2)


def signed_regression() -> float:
    model = gallery("signed_regression")
    X, y = together(gallery("linear_regression").clinics())
    found = lsq_linear(with_ones(X), y, (model.LOWER, model.UPPER), method="bvls", tol=1e-14)
    return 2 * found.cost


def shared_private() -> float:
    parts = gallery("linear_regression").age_groups()
    X, y = together(parts)
    alpha, beta = 1000.0, 2000.0
    # The Lasso has one weight: a column divided by its own weight has weight one. A private
    # intercept is a column of ones at one client; the shared one is the Lasso's own.
    private = np.zeros((len(y), 0))
    start = 0
    for features, target in parts.values():
        block = np.zeros((len(y), features.shape[1] + 1))
        block[start : start + len(target)] = with_ones(features)
        private, start = np.column_stack([private, block]), start + len(target)
    design = np.column_stack([X / alpha, private / beta])
    fit = Lasso(alpha=1 / (2 * len(y)), tol=1e-14, max_iter=1_000_000).fit(design, y)
    return np.sum((fit.predict(design) - y) ** 2) + np.abs(fit.coef_).sum()


def personalised() -> float:
    parts = list(gallery("linear_regression").age_groups().values())
    n, m = len(parts), parts[0][0].shape[1] + 1
    # ||A_i w_i - b_i||² and 100 ||w_i - w||² as the rows of one least-squares problem
    rows, right = [], []
    for at, (features, target) in enumerate(parts):
        fit = np.zeros((len(target), (n + 1) * m))
        fit[:, at * m : (at + 1) * m] = with_ones(features)
        near = np.zeros((m, (n + 1) * m))
        near[:, at * m : (at + 1) * m], near[:, n * m :] = 10 * np.eye(m), -10 * np.eye(m)
        rows += [fit, near]
        right += [target, np.zeros(m)]
    A, b = np.vstack(rows), np.concatenate(right)
    return float(np.sum((A @ np.linalg.lstsq(A, b)[0] - b) ** 2))


def robust_regression() -> float:
    parts = gallery("linear_regression").clinics()
    mean = np.mean(np.concatenate([target for _, target in parts.values()]))
    errors = (1.0, 1.0, 1.0, 5.0)

    def worst(w: Array) -> tuple[float, Array]:
        size = np.linalg.norm(w)
        value, slope = sum(errors) * size, sum(errors) * w / size
        for features, target in parts.values():
            miss = features @ w - (target - mean)
            far = np.linalg.norm(miss)
            value, slope = value + far, slope + features.T @ miss / far
        return float(value), slope

    X, y = together(parts)
    start = np.linalg.lstsq(X, y - mean)[0]
    return float(minimize(worst, start, jac=True, method="BFGS", options={"gtol": 1e-7}).fun)


FOUND: dict[str, Callable[[], float]] = {
    "elastic_net": elastic_net,
    "group_lasso": group_lasso,
    "huber": huber,
    "quantile": quantile,
    "multinomial": multinomial,
    "svm": svm,
    "kernel_svm": kernel_svm,
    "graphical_lasso": graphical_lasso_,
    "isotonic": isotonic,
    "signed_regression": signed_regression,
    "shared_private": shared_private,
    "personalised": personalised,
    "robust_regression": robust_regression,
}


@pytest.mark.parametrize("name", FOUND)
def test_the_reference_is_found_again_without_clients(name: str) -> None:
    assert reference(name) == pytest.approx(FOUND[name](), rel=1e-8)


def test_the_manual_lists_every_file_of_the_gallery_once() -> None:
    table = (MANUAL / "gallery.md").read_text()
    listed = [name.strip("`") for name in re.findall(r"`\w+`", table)]
    assert sorted(listed) == sorted(
        file.stem for file in GALLERY.glob("*.py") if file.stem != "__init__"
    )
