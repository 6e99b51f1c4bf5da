"""What the estimators have in common: rows to clients, a model, coefficients from its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from dald_model.answer.result import Result
from dald_model.coordinate.status import Status
from dald_model.datasets import Array
from dald_model.errors import DeclarationError, OptionError, RunError
from dald_model.model import Model

Constraints = Callable[[cp.Variable, Any], Iterable[cp.Constraint]]
"""Coefficients and intercept, 0 where there is none, to cvxpy constraints on them."""
Loss = Callable[[cp.Variable, Any, np.ndarray], Any]
"""Coefficients, intercept and the numbers of a client's rows to its loss, an expression."""

_NO_ANSWER = (
    *(Status.INFEASIBLE, Status.UNBOUNDED, Status.DIVERGED),
    *(Status.SOLVER_ERROR, Status.USER_ERROR, Status.LOST),
)


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

    def _features(self, X: Any) -> Array:
        """Other rows, checked against those of the fit."""
        check_is_fitted(self)
        checked: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _rows(self, clients: Any, rows: int) -> dict[Any, np.ndarray]:
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

    def _minimise(
        self, owned: Mapping[Any, np.ndarray], shape: tuple[int, ...], loss: Loss, penalty: Any
    ) -> Fit:
        """Minimise the sum of the clients' losses and a penalty of the coefficients.

        Parameters
        ----------
        owned : dict
            Client -> the numbers of its rows.
        shape : tuple
            Of the coefficients; the intercept has it without the last entry.
        loss : function
        penalty : function
            Coefficients to an expression, or to 0.

        Raises
        ------
        DeclarationError
            If ``constraints`` are none, or none of cvxpy's.
        RunError
            If no coefficients satisfy the constraints, or the loss has no minimum.
        """
        coef = cp.Variable(shape, name="coef")
        intercept = cp.Variable(shape[:-1], name="intercept") if self.fit_intercept else 0.0
        rules = self._rules(coef, intercept)
        model = Model(type(self).__name__)
        for name, rows in owned.items():
            cost = loss(coef, intercept, rows) + penalty(coef) / len(owned)
            model.client(name, cost, rules)
        if len(owned) == 1:
            _alone(model)
            rounds = 0
        else:
            result = model.solve(**(self.solve_options or {}))
            _check(result)
            rounds = result.rounds
        found = intercept.value if isinstance(intercept, cp.Variable) else np.zeros(shape[:-1])
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


def _alone(model: Model) -> None:
    """Solve the model of one client, who has nobody to agree with, by cvxpy."""
    problem = model.monolithic()
    problem.solve()
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
            stacklevel=4,
        )


def _no_answer(name: str, said: str) -> str:
    return (
        f"{name} found no coefficients: {said}. Expected constraints that some coefficients "
        "satisfy, and data whose loss has a minimum; loosen the constraints, or add a penalty"
    )
