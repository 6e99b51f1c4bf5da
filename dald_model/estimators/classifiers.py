"""Logistic regression and support vector machine over rows that stay with their owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dald_model.datasets import Array
from dald_model.errors import DeclarationError
from dald_model.estimators.federated import Constraints, Federated, Rows
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

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : array, shape (N, m)
        y : array, shape (N,)
            Classes; a client may have rows of one class only.
        clients : array of labels, shape (N,), optional
            Whose row it is. By default all rows are one client's, and cvxpy solves at once.
        sample_weight : array, shape (N,), optional
            Of each row's loss, not negative; by default 1.

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
        self._fit(self._rows(features, target, clients, sample_weight, centred=False))
        return self

    def _fit(self, rows: Rows) -> None:
        """Set the attributes, of rows whose classes are numbers."""
        raise NotImplementedError

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """The features, and of each row the number of its class.

        Raises
        ------
        DeclarationError
            If all rows have one class.
        """
        check_positive("C: given ", self.C)
        checked: Any = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
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

    def _fit(self, rows: Rows) -> None:
        several = len(self.classes_) > 2
        features = rows.features.shape[1]
        shape = (len(self.classes_), features) if several else (features,)

        def loss(coef: cp.Variable, level: Any, own: np.ndarray) -> Any:
            X, weight = rows.features[own], rows.weight[own]
            if several:
                hot = np.eye(len(self.classes_))[rows.target[own]]
                return _multinomial(coef, level, X, hot, weight)
            sign = np.where(rows.target[own] == 1, 1.0, -1.0)
            return weight @ cp.logistic(-(_times(sign, X) @ coef + sign * level))

        def penalty(coef: cp.Variable) -> cp.Expression:
            return cp.sum_squares(coef) / (2 * self.C)

        fit = self._minimise(rows, shape, loss, penalty)
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

    def _fit(self, rows: Rows) -> None:
        first = 1 if len(self.classes_) == 2 else 0
        fits = []
        for number in range(first, len(self.classes_)):
            sign = np.where(rows.target == number, 1.0, -1.0)

            def loss(coef: cp.Variable, level: Any, own: np.ndarray, sign: Array = sign) -> Any:
                margin = _times(sign[own], rows.features[own]) @ coef + sign[own] * level
                return self.C * (rows.weight[own] @ cp.pos(1 - margin))

            def penalty(coef: cp.Variable) -> cp.Expression:
                return cp.sum_squares(coef) / 2

            fits.append(self._minimise(rows, (rows.features.shape[1],), loss, penalty))
        self.coef_ = np.array([fit.coef for fit in fits])
        self.intercept_ = np.array([float(fit.intercept) for fit in fits])
        self.n_iter_ = max(fit.rounds for fit in fits)


def _multinomial(coef: cp.Variable, level: Any, X: Any, hot: Array, weight: Array) -> Any:
    """The multinomial loss; ``hot`` has a 1 a row, in the column of its class."""
    scores = X @ coef.T
    if isinstance(level, cp.Variable):
        scores += np.ones((X.shape[0], 1)) @ cp.reshape(level, (1, hot.shape[1]), order="C")
    chosen = cp.sum(cp.multiply(weight[:, None] * hot, scores))
    return weight @ cp.log_sum_exp(scores, axis=1) - chosen


def _times(sign: Array, X: Any) -> Any:
    """The rows of X, sparse or not, each with its sign."""
    return sp.csr_array(X.multiply(sign[:, None])) if sp.issparse(X) else sign[:, None] * X
