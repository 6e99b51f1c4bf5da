"""What the estimators have in common: rows to clients, a model, coefficients from its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dald_model.answer.result import Result
from dald_model.coordinate.status import Status
from dald_model.datasets import Array
from dald_model.errors import DeclarationError, OptionError, RunError, users_line
from dald_model.model import Model

Constraints = Callable[[cp.Variable, Any], Iterable[cp.Constraint]]
"""Coefficients and intercept, 0 where there is none, to cvxpy constraints on them."""
Loss = Callable[[cp.Variable, Any, np.ndarray], Any]
"""Coefficients, intercept and the numbers of a client's rows to its loss, an expression."""

TOLERANCE_NAMES = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
CLARABEL_FINEST = 1e-13
"""What is asked of Clarabel: by its own 1e-8 multinomial coefficients are known to 1e-5."""
_NO_ANSWER = (
    *(Status.INFEASIBLE, Status.UNBOUNDED, Status.DIVERGED),
    *(Status.SOLVER_ERROR, Status.USER_ERROR, Status.LOST),
)


class Rows(NamedTuple):
    """Rows with a weight, centred by means that the clients share, and who owns which.

    Attributes
    ----------
    features : array or csr_array, shape (N, m)
        Less ``centre``; sparse rows stay as they are, as centring would fill them.
    target : array, shape (N,)
        Of regressions less ``height``; classes are their numbers.
    weight : array, shape (N,)
        Positive.
    centre : array, shape (m,)
        The weighted means of the features, zero if they are not centred.
    height : float
        The weighted mean of the target, likewise.
    owned : dict
        Client -> the numbers of its rows.
    """

    features: Any
    target: np.ndarray
    weight: Array
    centre: Array
    height: float
    owned: dict[Any, np.ndarray]

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weight.sum())


class Fit(NamedTuple):
    """Coefficients, intercept and rounds of a solve."""

    coef: Array
    intercept: Array
    rounds: int


class Federated(BaseEstimator):
    """An estimator whose rows belong to clients.

    Subclasses have the parameters ``fit_intercept``, ``constraints`` and ``solve_options``.
    """

    fit_intercept: bool
    constraints: Constraints | None
    solve_options: Mapping[str, Any] | None
    coef_: Array
    intercept_: Any
    n_features_in_: int
    n_iter_: int

    def _features(self, X: Any) -> Any:
        """Other rows, checked against those of the fit."""
        check_is_fitted(self)
        checked: Any = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        return checked

    def _rows(
        self, X: Any, target: np.ndarray, clients: Any, sample_weight: Any, *, centred: bool
    ) -> Rows:
        """The rows that have a weight.

        With an intercept the features are centred by the mean of all clients, for which each
        gives the sum of its own: at an offset of 1e6 spreads coefficients and intercept would
        otherwise be known to 1e-12 of the curvature only. The targets of a regression as well.
        """
        owned = _owned(clients, len(target))
        if sample_weight is not None and not np.asarray(sample_weight).any():
            raise OptionError(
                "sample_weight: given zero for all rows, expected a positive weight for some"
            )
        given: Any = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        weighs = given > 0
        if not weighs.all():
            number = np.cumsum(weighs) - 1
            kept = {name: number[rows[weighs[rows]]] for name, rows in owned.items()}
            owned = {name: rows for name, rows in kept.items() if rows.size}
            X, target, given = X[weighs], target[weighs], given[weighs]
        centre, height = np.zeros(X.shape[1]), 0.0
        if self.fit_intercept and not sp.issparse(X):
            centre = _mean(X, given)
            X = X - centre
            # what the mean's rounding leaves of a constant column is no feature
            X[:, np.abs(X).max(axis=0) <= len(X) * np.finfo(float).eps * np.abs(centre)] = 0.0
        if self.fit_intercept and centred:
            height = float(_mean(target, given))
            target = target - height
        return Rows(X, target, given, centre, height, owned)

    def __sklearn_tags__(self) -> Any:
        """Scikit-learn's tags: sparse features are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _minimise(self, rows: Rows, shape: tuple[int, ...], loss: Loss, penalty: Any) -> Fit:
        """Minimise the sum of the clients' losses and a penalty of the coefficients.

        Parameters
        ----------
        rows : Rows
        shape : tuple
            Of the coefficients; the intercept has it without the last entry.
        loss : function
            Of the coefficients and the intercept of the centred rows.
        penalty : function
            Coefficients to an expression, or to 0.

        Raises
        ------
        DeclarationError
            If ``constraints`` are none, or none of cvxpy's.
        RunError
            If no coefficients satisfy the constraints, or the loss has no minimum.
        """
        coef, intercept, level = cp.Variable(shape, name="coef"), 0.0, 0.0
        if self.fit_intercept:
            level = cp.Variable(shape[:-1], name="level")
            intercept = level + rows.height - coef @ rows.centre
        rules = self._rules(coef, intercept)
        model = Model(type(self).__name__)
        for name, own in rows.owned.items():
            cost = loss(coef, level, own) + penalty(coef) / len(rows.owned)
            model.client(name, cost, rules)
        if len(rows.owned) == 1:
            _alone(model)
            rounds = 0
        else:
            result = model.solve(**(self.solve_options or {}))
            _check(result)
            rounds = result.rounds
        found = intercept.value if isinstance(intercept, cp.Expression) else np.zeros(shape[:-1])
        return Fit(np.array(coef.value), np.array(found), rounds)

    def _rules(self, coef: cp.Variable, intercept: Any) -> list[cp.Constraint]:
        if self.constraints is None:
            return []
        if not callable(self.constraints):
            raise OptionError(
                f"constraints: given a {type(self.constraints).__name__}, expected a function of "
                "the coefficients and the intercept, such as "
                "constraints=lambda coef, intercept: [coef >= 0]"
            )
        given: Any = self.constraints(coef, intercept)
        rules = [given] if isinstance(given, cp.Constraint) else given
        if not isinstance(rules, Iterable):
            raise DeclarationError(
                f"constraints: the function gave a {type(given).__name__}, expected a list of "
                "cvxpy constraints, such as [coef >= 0]"
            )
        return list(rules)


def _owned(clients: Any, rows: int) -> dict[Any, np.ndarray]:
    """Client -> the numbers of its rows, clients in order of their labels.

    Raises
    ------
    OptionError
        If there is not one label a row.
    """
    if clients is None:
        return {"all rows": np.arange(rows)}
    labels = np.asarray(clients)
    if labels.shape != (rows,):
        raise OptionError(
            f"clients: given labels of shape {labels.shape}, expected one label a row, shape "
            f"({rows},); leave it out where all rows have one owner"
        )
    try:
        names, at = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise OptionError(
            f"clients: given labels that cannot be put in order ({error}), expected all of one "
            "type; pass them as strings, [str(label) for label in clients]"
        ) from error
    return {name: np.flatnonzero(at == number) for number, name in enumerate(names.tolist())}


def _mean(values: Any, weight: Array) -> Any:
    """The weighted mean of rows, near its offset exact: the mean of what is left is added."""
    first = np.average(values, axis=0, weights=weight)
    return first + np.average(values - first, axis=0, weights=weight)


def _alone(model: Model) -> None:
    """Solve the model of one client, who has nobody to agree with, by cvxpy."""
    problem = model.monolithic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as near as it comes is what is wanted
        problem.solve(solver=cp.CLARABEL, **dict.fromkeys(TOLERANCE_NAMES, CLARABEL_FINEST))
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RunError(_no_answer(model.name, str(problem.status)))


def _check(result: Result) -> None:
    """Refuse a result without an answer; warn of one that is not there yet."""
    name, status = result.compiled.model.name, result.status
    if status in _NO_ANSWER:
        error = RunError(_no_answer(name, f"{status}, {status.message}"))
        error.result = result
        raise error
    if not status.has_answer:
        remedy = "scale the features, or pass solve_options=dict(max_rounds=...)"
        if status == Status.NO_MINIMISER:
            remedy = "add a penalty"
        warnings.warn(
            f"{name} ended with {status} after {result.rounds} rounds: {status.message}. Expected "
            f"an optimum; {remedy}.",
            ConvergenceWarning,
            stacklevel=users_line(),
        )


def _no_answer(name: str, said: str) -> str:
    return (
        f"{name} found no coefficients: {said}. Expected constraints that some coefficients "
        "satisfy, and data whose loss has a minimum; loosen the constraints, or add a penalty"
    )
