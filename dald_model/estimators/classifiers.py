"""Logistic regression and support vector machine over rows that stay with their owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import cvxpy as cp
import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dald_model.datasets import Array
from dald_model.errors import DeclarationError
from dald_model.estimators.federated import Constraints, Federated
from dald_model.validate import check_positive


class FederatedClassifier(ClassifierMixin, Federated):
    """A linear classifier with the parameters and attributes of its two kinds."""

    classes_: np.ndarray

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        constraints: Constraints | None = None,
        solve_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.constraints = constraints
        self.solve_options = solve_options

    def fit(self, X: Any, y: Any, clients: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : array, shape (N, m)
        y : array, shape (N,)
            Classes; a client may have rows of one class only.
        clients : array of labels, shape (N,), optional
            Whose row it is. By default all rows are one client's, and cvxpy solves at once.

        Raises
        ------
        OptionError
            If there is not one label a row, or C is not positive.
        DeclarationError
            If all rows have one class.
        RunError
            If no coefficients satisfy the constraints.
        """
        features, target = self._checked(X, y)
        self._fit(features, target, self._rows(clients, len(target)))
        return self

    def _fit(self, X: Array, target: np.ndarray, owned: Mapping[Any, np.ndarray]) -> None:
        """Set the attributes, of rows whose classes are numbers, by client."""
        raise NotImplementedError

    def _checked(self, X: Any, y: Any) -> tuple[Array, np.ndarray]:
        """The features, and of each row the number of its class.

        Raises
        ------
        DeclarationError
            If all rows have one class.
        """
        check_positive("C: given ", self.C)
        checked: Any = validate_data(self, X, y, dtype=np.float64)
        features, classes = checked
        check_classification_targets(classes)
        self.classes_, target = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            (only,) = self.classes_.tolist()
            raise DeclarationError(
                f"y: given one class, {only!r}, in all rows, expected rows of two classes or more "
                "over all clients together; one client may have rows of one"
            )
        return features, target

    def decision_function(self, X: Any) -> Array:
        """Scores, shape (N,) with two classes, where positive is the second; else (N, classes)."""
        scores = self._features(X) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The classes of other rows, shape (N,)."""
        scores = self.decision_function(X)
        return self.classes_[
            (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        ]


class FederatedLogisticRegression(FederatedClassifier):
    r"""Logistic regression, as scikit-learn's ``LogisticRegression``.

    .. math::
        \min_{w, c} \; \sum_{i=1}^n \sum_{k=1}^{N_i}
        \log\big(1 + e^{-b_{ik} (a_{ik}^\top w + c)}\big) + \frac1{2C} \|w\|^2

    :math:`a_{ik}` are the features of row k of client i, :math:`b_{ik}` is +1 or -1. With q > 2
    classes it is the multinomial model, with intercepts that add up to 0.

    Parameters
    ----------
    C : float
        The inverse of the weight of the penalty, positive.
    fit_intercept : bool
        Whether there is an intercept.
    constraints : function, optional
        Of the coefficients, a cvxpy Variable of shape (m,), with q > 2 classes (q, m), and the
        intercept, () or (q,), to a list of cvxpy constraints.
    solve_options : dict, optional
        Options of :meth:`dald_model.Model.solve`.

    Attributes
    ----------
    coef_ : array, shape (1, m), with q > 2 classes (q, m)
    intercept_ : array, shape (1,) or (q,)
    classes_ : array, shape (q,)
    n_features_in_ : int
    n_iter_ : int
        Rounds of communication; 0 where all rows are one client's.

    Examples
    --------
    >>> import numpy as np
    >>> from dald_model.estimators import FederatedLogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = FederatedLogisticRegression(C=1.0).fit(X, [0, 0, 1, 1], clients=["a", "a", "b", "b"])
    >>> fit.predict(X).tolist()
    [0, 0, 1, 1]
    """

    def _fit(self, X: Array, target: np.ndarray, owned: Mapping[Any, np.ndarray]) -> None:
        several = len(self.classes_) > 2
        shape = (len(self.classes_), X.shape[1]) if several else (X.shape[1],)

        def loss(coef: cp.Variable, intercept: Any, rows: np.ndarray) -> Any:
            features, own = X[rows], target[rows]
            if several:
                return _multinomial(coef, intercept, features, np.eye(len(self.classes_))[own])
            sign = np.where(own == 1, 1.0, -1.0)
            return cp.sum(cp.logistic(-((sign[:, None] * features) @ coef + sign * intercept)))

        def penalty(coef: cp.Variable) -> cp.Expression:
            return cp.sum_squares(coef) / (2 * self.C)

        fit = self._minimise(owned, shape, loss, penalty)
        self.coef_ = np.atleast_2d(fit.coef)
        self.intercept_, self.n_iter_ = np.atleast_1d(fit.intercept), fit.rounds
        if several:
            # a constant on all classes changes no probability
            self.intercept_ = self.intercept_ - self.intercept_.mean()

    def predict_proba(self, X: Any) -> Array:
        """The probabilities of the classes, shape (N, q)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))


class FederatedSVC(FederatedClassifier):
    r"""A linear support vector machine, as scikit-learn's ``SVC(kernel="linear")``.

    .. math::
        \min_{w, c} \; \frac12 \|w\|^2
        + C \sum_{i=1}^n \sum_{k=1}^{N_i} \max\big(0, 1 - b_{ik} (a_{ik}^\top w + c)\big)

    The intercept is not penalised; ``LinearSVC(loss="hinge")`` does that, and is the same without
    an intercept. With q > 2 classes there are q machines, each class against all others, as
    ``LinearSVC`` has them.

    Parameters
    ----------
    C : float
        Weight of the loss, positive.
    fit_intercept : bool
        Whether there is an intercept.
    constraints : function, optional
        Of the coefficients of one machine, a cvxpy Variable of shape (m,), and its intercept, to a
        list of cvxpy constraints.
    solve_options : dict, optional
        Options of :meth:`dald_model.Model.solve`.

    Attributes
    ----------
    coef_ : array, shape (1, m), with q > 2 classes (q, m)
    intercept_ : array, shape (1,) or (q,)
    classes_ : array, shape (q,)
    n_features_in_ : int
    n_iter_ : int
        Rounds of communication, the most that a machine took.

    Examples
    --------
    >>> import numpy as np
    >>> from dald_model.estimators import FederatedSVC
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = FederatedSVC(C=1.0).fit(X, [0, 0, 1, 1], clients=["a", "a", "b", "b"])
    >>> fit.predict(X).tolist()
    [0, 0, 1, 1]
    """

    def _fit(self, X: Array, target: np.ndarray, owned: Mapping[Any, np.ndarray]) -> None:
        first = 1 if len(self.classes_) == 2 else 0
        fits = []
        for number in range(first, len(self.classes_)):
            sign = np.where(target == number, 1.0, -1.0)

            def loss(
                coef: cp.Variable, intercept: Any, rows: np.ndarray, sign: Array = sign
            ) -> Any:
                own = sign[rows]
                margin = (own[:, None] * X[rows]) @ coef + own * intercept
                return self.C * cp.sum(cp.pos(1 - margin))

            def penalty(coef: cp.Variable) -> cp.Expression:
                return cp.sum_squares(coef) / 2

            fits.append(self._minimise(owned, (X.shape[1],), loss, penalty))
        self.coef_ = np.array([fit.coef for fit in fits])
        self.intercept_ = np.array([float(fit.intercept) for fit in fits])
        self.n_iter_ = max(fit.rounds for fit in fits)


def _multinomial(coef: cp.Variable, intercept: Any, X: Array, hot: Array) -> Any:
    """The multinomial loss; ``hot`` has a 1 a row, in the column of its class."""
    scores = X @ coef.T
    if isinstance(intercept, cp.Variable):
        scores += np.ones((len(X), 1)) @ cp.reshape(intercept, (1, hot.shape[1]), order="C")
    return cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(hot, scores))
