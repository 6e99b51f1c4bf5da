"""The estimators: scikit-learn's own checks, its central estimators' coefficients, its tools."""

import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import dald_model as dm
from dald_model.datasets import load_hospitals
from dald_model.estimators import (
    FederatedLasso,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedRidge,
    FederatedSVC,
)

ALL = (
    FederatedLinearRegression,
    FederatedRidge,
    FederatedLasso,
    FederatedLogisticRegression,
    FederatedSVC,
)


@pytest.mark.filterwarnings("ignore")  # some checks give data to be warned of
@parametrize_with_checks([estimator() for estimator in ALL])
def test_scikit_learn_s_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


# --- coefficients against the central estimators --------------------------------------------------


def raw(load: Any) -> tuple[np.ndarray, np.ndarray]:
    return load(return_X_y=True)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    return raw(load_diabetes)


def tumours() -> tuple[np.ndarray, np.ndarray]:
    X, y = raw(load_breast_cancer)
    return StandardScaler().fit_transform(X[:, :8]), y


def irises() -> tuple[np.ndarray, np.ndarray]:
    X, y = raw(load_iris)
    return StandardScaler().fit_transform(X), y


def owners(y: np.ndarray) -> np.ndarray:
    """Five clients of unequal size, named by text."""
    draws = np.random.default_rng(0).choice(5, size=len(y), p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return np.array([f"owner {at}" for at in draws])


EXACT: dict[str, Any] = {"tol": 1e-12, "max_iter": 1_000_000}
CLOSE: dict[str, Any] = EXACT | {"tol": 1e-8}  # liblinear gets no nearer
CENTRAL: list[tuple[Any, Any, Any]] = [
    (FederatedLinearRegression(), LinearRegression(), diabetes),
    (
        FederatedLinearRegression(fit_intercept=False),
        LinearRegression(fit_intercept=False),
        diabetes,
    ),
    (FederatedRidge(0.3), Ridge(0.3), diabetes),
    (FederatedLasso(0.1), Lasso(0.1, **EXACT), diabetes),
    (FederatedLogisticRegression(0.5), LogisticRegression(C=0.5, **EXACT), tumours),
    (FederatedLogisticRegression(), LogisticRegression(**EXACT), irises),
    (
        FederatedLogisticRegression(fit_intercept=False),
        LogisticRegression(fit_intercept=False, **EXACT),
        irises,
    ),
    (FederatedSVC(0.05), SVC(kernel="linear", C=0.05, tol=1e-9), tumours),
    (
        FederatedSVC(0.5, fit_intercept=False),
        LinearSVC(C=0.5, loss="hinge", fit_intercept=False, **CLOSE),
        irises,
    ),
]


@pytest.mark.parametrize(
    ("federated", "central", "data"), CENTRAL, ids=[repr(case[0]) for case in CENTRAL]
)
def test_coefficients_are_those_of_the_central_estimator(
    federated: Any, central: Any, data: Any
) -> None:
    X, y = data()
    found, right = federated.fit(X, y, clients=owners(y)), central.fit(X, y)
    size = np.abs(right.coef_).max()
    assert found.coef_.shape == right.coef_.shape
    assert found.coef_ == pytest.approx(right.coef_, abs=2e-4 * size)
    assert np.shape(found.intercept_) == np.shape(right.intercept_) or not found.fit_intercept
    assert found.intercept_ == pytest.approx(right.intercept_, abs=2e-4 * size)
    assert found.n_iter_ > 1
    assert found.score(X, y) == pytest.approx(right.score(X, y), abs=1e-3)
    if hasattr(right, "predict_proba"):
        assert found.predict_proba(X) == pytest.approx(right.predict_proba(X), abs=1e-3)


def test_without_clients_nobody_is_asked() -> None:
    X, y = diabetes()
    alone, one = FederatedRidge().fit(X, y), FederatedRidge().fit(X, y, clients=["a"] * len(y))
    assert (alone.n_iter_, one.n_iter_) == (0, 0)
    assert alone.coef_ == pytest.approx(Ridge().fit(X, y).coef_, rel=1e-5)
    assert np.array_equal(alone.coef_, one.coef_)


def test_a_client_may_have_rows_of_one_class_only() -> None:
    X, y = tumours()
    found = FederatedLogisticRegression(0.1).fit(X, y, clients=y)
    right = LogisticRegression(C=0.1, **EXACT).fit(X, y)
    assert found.coef_ == pytest.approx(right.coef_, abs=1e-4)


# --- offsets, units, weights, sparse rows ---------------------------------------------------------

SHIFTED: list[tuple[Any, Any]] = [
    (FederatedLinearRegression(), LinearRegression()),
    (FederatedRidge(1.0), Ridge(1.0)),
    (FederatedLasso(0.05), Lasso(0.05, **EXACT)),
    (FederatedLogisticRegression(1.0), LogisticRegression(C=1.0, **EXACT)),
    (FederatedSVC(0.1), SVC(kernel="linear", C=0.1, tol=1e-9)),
]
NAMES = [type(case[0]).__name__ for case in SHIFTED]


def weighted(kind: str) -> tuple[np.ndarray, ...]:
    """Features of spread 1 about zero, targets, positive weights, and unequal owners."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 5))
    target = Z @ [1.0, -2.0, 0.5, 0.0, 3.0] + rng.logistic(size=200) + 7
    weight, owner = rng.uniform(0.2, 3, 200), rng.choice(4, 200, p=[0.6, 0.2, 0.15, 0.05])
    return Z, target > 7 if kind == "classes" else target, weight, owner


def agree(found: Any, right: Any, spreads: Any = 1.0) -> None:
    """To what the printed tolerances of the runs give, in units of the largest coefficient."""
    wanted = np.ravel(right.coef_) * spreads
    assert np.ravel(found.coef_) * spreads == pytest.approx(wanted, abs=1e-5 * max(abs(wanted)))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(("federated", "central"), SHIFTED, ids=NAMES)
def test_offsets_and_units_change_nothing(
    federated: Any, central: Any, parts: int, offset: float
) -> None:
    """Against scikit-learn on features about zero, in the same units: exact ones are taken off.

    Offsets are of spreads; powers of two are units that round nothing.
    """
    kind = "classes" if hasattr(federated, "C") else "numbers"
    Z, y, weight, owner = weighted(kind)
    units = 2.0 ** np.arange(-3, 2)
    X = (Z + offset) * units
    own, about_zero = owner % parts, X - offset * units
    fresh: Any = clone(federated)
    found = fresh.fit(X, y, clients=own, sample_weight=weight)
    right = central.fit(about_zero, y, sample_weight=weight)
    agree(found, right, units)
    if kind == "classes":
        scores = found.decision_function(X), right.decision_function(about_zero)
    else:
        scores = found.predict(X), right.predict(about_zero)
    assert scores[0] == pytest.approx(scores[1], abs=2e-5 * np.abs(scores[1]).max())


@pytest.mark.parametrize(("federated", "central"), SHIFTED, ids=NAMES)
def test_a_weight_is_so_many_rows_and_none_is_no_row(federated: Any, central: Any) -> None:
    """An owner whose rows have no weight is not asked."""
    Z, y, _, owner = weighted("classes" if hasattr(federated, "C") else "numbers")
    times = np.where(owner == 3, 0, np.arange(200) % 3)
    fresh: Any = clone(federated)
    found = fresh.fit(Z, y, clients=owner, sample_weight=times)
    again = np.repeat(np.arange(200), times)
    agree(found, central.fit(Z[again], y[again]))


@pytest.mark.parametrize(("federated", "central"), SHIFTED, ids=NAMES)
def test_sparse_rows_are_taken(federated: Any, central: Any) -> None:
    Z, y, weight, owner = weighted("classes" if hasattr(federated, "C") else "numbers")
    X = np.where(np.abs(Z) > 0.8, Z, 0.0)
    fresh: Any = clone(federated)
    found = fresh.fit(sp.csr_array(X), y, clients=owner, sample_weight=weight)
    agree(found, central.fit(X, y, sample_weight=weight))
    assert found.predict(sp.coo_array(X)) == pytest.approx(found.predict(X))


def test_a_constant_column_far_from_zero_is_no_feature() -> None:
    Z, y, _, owner = weighted("numbers")
    X = np.column_stack([Z, np.full(200, 123456.7)])
    found = FederatedRidge(1.0).fit(X, y, clients=owner)
    assert found.coef_[-1] == pytest.approx(0.0, abs=1e-9)
    assert found.coef_[:-1] == pytest.approx(Ridge(1.0).fit(Z, y).coef_, abs=1e-6)


def test_weights_are_routed_as_labels_are() -> None:
    Z, y, weight, owner = weighted("numbers")
    with sklearn.config_context(enable_metadata_routing=True):
        asks: Any = FederatedRidge().set_fit_request
        central: Any = Ridge().set_fit_request
        scales: Any = StandardScaler().set_fit_request
        scaler = scales(sample_weight=True)
        own, theirs = asks(clients=True, sample_weight=True), central(sample_weight=True)
        searched: Any = GridSearchCV(
            make_pipeline(scaler, own.set_score_request(sample_weight=True)),
            {"federatedridge__alpha": [0.1, 300.0]},
            cv=3,
        )
        right: Any = GridSearchCV(
            make_pipeline(scaler, theirs.set_score_request(sample_weight=True)),
            {"ridge__alpha": [0.1, 300.0]},
            cv=3,
        )
        searched.fit(Z, y, clients=owner, sample_weight=weight)
        right.fit(Z, y, sample_weight=weight)
    scores = [one.cv_results_["mean_test_score"] for one in (searched, right)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


# --- constraints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("federated", "central"),
    [
        (FederatedLinearRegression, LinearRegression(positive=True)),
        (FederatedRidge, Ridge(1.0, positive=True, tol=1e-10)),
        (FederatedLasso, Lasso(1.0, positive=True, **EXACT)),
    ],
)
def test_coefficients_that_may_not_be_negative_are_scikit_learn_s_positive(
    federated: Any, central: Any
) -> None:
    X, y = diabetes()
    found = federated(constraints=lambda coef, intercept: coef >= 0).fit(X, y, clients=owners(y))
    right = central.fit(X, y)
    assert found.coef_ == pytest.approx(right.coef_, abs=1e-4 * np.abs(right.coef_).max())


def test_a_classifier_keeps_what_it_is_told_of_its_intercept_and_coefficients() -> None:
    X, y = tumours()

    def told(coef: cp.Variable, intercept: cp.Variable) -> list[cp.Constraint]:
        return [cp.norm1(coef) <= 1, intercept == 0.25]

    for estimator in (FederatedLogisticRegression, FederatedSVC):
        found = estimator(constraints=told).fit(X, y, clients=owners(y))
        assert np.abs(found.coef_).sum() == pytest.approx(1, abs=1e-4)
        assert found.intercept_ == pytest.approx([0.25], abs=1e-5)


# --- scikit-learn's tools -------------------------------------------------------------------------


def hospitals() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = load_hospitals()
    X = np.vstack([rows.features for rows in found.values()])
    y = np.concatenate([rows.target for rows in found.values()])
    return X, y, np.repeat(list(found), [len(rows.target) for rows in found.values()])


def test_each_hospital_left_out_is_scored_as_by_the_central_estimator() -> None:
    X, y, hospital = hospitals()
    X = StandardScaler().fit_transform(X[:, :4])
    central = cross_val_score(LogisticRegression(), X, y, cv=LeaveOneGroupOut(), groups=hospital)
    score = cross_val_score(
        FederatedLogisticRegression(C=1.0),
        X,
        y,
        params={"clients": hospital},
        cv=LeaveOneGroupOut(),
        groups=hospital,
    )
    assert score == pytest.approx(central, abs=1e-9)
    with sklearn.config_context(enable_metadata_routing=True):
        asks: Any = FederatedLogisticRegression(C=1.0).set_fit_request  # made by scikit-learn
        routed = cross_val_score(
            asks(clients=True),
            X,
            y,
            params={"clients": hospital, "groups": hospital},
            cv=LeaveOneGroupOut(),
        )
    assert routed == pytest.approx(central, abs=1e-9)


def test_a_pipeline_and_a_grid_search_pass_the_labels_on() -> None:
    X, y, hospital = hospitals()
    piped: Any = make_pipeline(StandardScaler(), FederatedRidge(10.0))
    piped.fit(X, y, federatedridge__clients=hospital)
    assert piped[-1].n_iter_ > 1
    right = make_pipeline(StandardScaler(), Ridge(10.0)).fit(X, y)
    assert piped.predict(X) == pytest.approx(right.predict(X), abs=1e-4)

    weights = {"alpha": [100.0, 10_000.0]}
    scaled = StandardScaler().fit_transform(X)
    searched: Any = GridSearchCV(FederatedRidge(), weights, cv=2).fit(scaled, y, clients=hospital)
    central = GridSearchCV(Ridge(), weights, cv=2).fit(scaled, y)
    assert searched.best_params_ == central.best_params_
    scores = [one.cv_results_["mean_test_score"] for one in (searched, central)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    best: Any = clone(searched.best_estimator_)
    assert best.get_params() == searched.best_estimator_.get_params()


# --- refusals -------------------------------------------------------------------------------------


def refused(error: type[Exception], message: str):
    return pytest.raises(error, match=f"^{re.escape(message)}")


def test_labels_that_fit_no_rows_are_refused() -> None:
    X, y = diabetes()
    with refused(
        dm.OptionError,
        "clients: given labels of shape (3,), expected one label a row, shape (442,); leave it",
    ):
        FederatedRidge().fit(X, y, clients=[1, 2, 3])
    mixed = np.array([None, *["a"] * 441], dtype=object)
    with refused(dm.OptionError, "clients: given labels that cannot be put in order ('<' not"):
        FederatedRidge().fit(X, y, clients=mixed)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (FederatedRidge(alpha=-1), "alpha: given -1, expected a finite number from 0"),
        (FederatedLasso(alpha="1"), "alpha: given '1', expected a finite number from 0"),  # type: ignore[arg-type] - refused
        (FederatedSVC(C=0), "C: given 0, expected a positive number"),
        (
            FederatedRidge(constraints=[1]),  # type: ignore[arg-type] - refused
            "constraints: given a list, expected a function of the coefficients and the intercept",
        ),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_fit(estimator: Any, message: str) -> None:
    X, y = tumours()
    with refused(dm.OptionError, message):
        estimator.fit(X, y)


def test_what_is_no_constraint_is_refused() -> None:
    X, y = diabetes()
    with refused(
        dm.DeclarationError,
        "constraints: the function gave a float, expected a list of cvxpy constraints",
    ):
        FederatedRidge(constraints=lambda coef, intercept: 1.0).fit(X, y)  # type: ignore[arg-type] - refused


@pytest.mark.parametrize("parts", [1, 3])
def test_constraints_that_nothing_satisfies_are_said_to_be_infeasible(parts: int) -> None:
    X, y = diabetes()
    both = FederatedRidge(constraints=lambda coef, intercept: [coef[0] >= 1, coef[0] <= 0])
    with refused(dm.RunError, "FederatedRidge found no coefficients: infeasible"):
        both.fit(X, y, clients=np.arange(len(y)) % parts)


def test_weights_that_leave_no_row_are_refused() -> None:
    X, y = diabetes()
    with refused(dm.OptionError, "sample_weight: given zero for all rows, expected a positive"):
        FederatedRidge().fit(X, y, sample_weight=np.zeros(len(y)))


def test_rows_of_one_class_are_refused() -> None:
    X, y = tumours()
    with refused(dm.DeclarationError, "y: given one class, 1, in all rows, expected rows of two"):
        FederatedSVC().fit(X, np.ones(len(y), dtype=int), clients=y)


def test_rounds_that_do_not_suffice_are_warned_of_as_scikit_learn_does() -> None:
    X, y = diabetes()
    few = FederatedLasso(solve_options={"max_rounds": 2, "acceleration": None})
    with pytest.warns(
        ConvergenceWarning, match="^FederatedLasso ended with round_limit after 2 rounds: "
    ):
        few.fit(X, y, clients=owners(y))
    assert few.n_iter_ == 2
