"""Least squares, ridge and lasso over rows that stay with their owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from dald_model.datasets import Array
from dald_model.estimators.federated import Constraints, Federated, Rows
from dald_model.validate import check_from_zero


class FederatedLinearRegression(RegressorMixin, Federated):
    r"""Least squares, as scikit-learn's ``LinearRegression``.

    .. math:: \min_{w, c} \; \sum_{i=1}^n \|A_i w + c \mathbf 1 - b_i\|^2

    Client i has the rows :math:`A_i`, shape :math:`(N_i, m)`, and their targets :math:`b_i`.

    Parameters
    ----------
    fit_intercept : bool
        Whether there is an intercept c.
    constraints : function, optional
        Of the coefficients, a cvxpy Variable of shape (m,), and the intercept, to a list of cvxpy
        constraints: ``lambda coef, intercept: [coef >= 0, cp.sum(coef) <= 1]``.
    solve_options : dict, optional
        Options of :meth:`dald_model.Model.solve`.

    Attributes
    ----------
    coef_ : array, shape (m,)
    intercept_ : float
    n_features_in_ : int
    n_iter_ : int
        Rounds of communication; 0 where all rows are one client's.

    Examples
    --------
    >>> import numpy as np
    >>> from dald_model.estimators import FederatedLinearRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = FederatedLinearRegression().fit(X, [1, 3, 5, 7], clients=["a", "a", "b", "b"])
    >>> fit.coef_.round(3).tolist(), round(float(fit.intercept_), 3)
    ([2.0], 1.0)
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        constraints: Constraints | None = None,
        solve_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.constraints = constraints
        self.solve_options = solve_options

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : array, shape (N, m)
        y : array, shape (N,)
        clients : array of labels, shape (N,), optional
            Whose row it is. By default all rows are one client's, and cvxpy solves at once.
        sample_weight : array, shape (N,), optional
            Of each row's square, not negative; by default 1.

        Raises
        ------
        OptionError
            If there is not one label a row, or a parameter is out of range.
        RunError
            If no coefficients satisfy the constraints.
        """
        checked: Any = validate_data(
            self, X, y, dtype=np.float64, accept_sparse="csr", y_numeric=True
        )
        features, target = checked[0], np.asarray(checked[1], dtype=np.float64)
        rows = self._rows(features, target, clients, sample_weight, centred=True)

        def loss(coef: cp.Variable, level: Any, own: np.ndarray) -> Any:
            return self._scale(rows.total) * _squares(coef, level, rows, own)

        fit = self._minimise(rows, (features.shape[1],), loss, self._penalty)
        self.coef_, self.intercept_, self.n_iter_ = fit.coef, float(fit.intercept), fit.rounds
        return self

    def predict(self, X: Any) -> Array:
        """The targets of other rows, shape (N,)."""
        return self._features(X) @ self.coef_ + self.intercept_

    def _scale(self, rows: float) -> float:
        """What the sum of squares is multiplied by."""
        return 1.0

    def _penalty(self, coef: cp.Variable) -> Any:
        return 0.0


class FederatedRidge(FederatedLinearRegression):
    r"""Least squares with a squared penalty, as scikit-learn's ``Ridge``.

    .. math:: \min_{w, c} \; \sum_{i=1}^n \|A_i w + c \mathbf 1 - b_i\|^2 + \alpha \|w\|^2

    Each client carries its share of the penalty.

    Parameters
    ----------
    alpha : float
        Weight of the penalty, not negative.
    fit_intercept, constraints, solve_options
        As of :class:`FederatedLinearRegression`, and so are the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from dald_model.estimators import FederatedRidge
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = FederatedRidge(alpha=1.0).fit(X, [1, 3, 5, 7], clients=["a", "a", "b", "b"])
    >>> fit.coef_.round(3).tolist(), round(float(fit.intercept_), 3)
    ([1.667], 1.5)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        constraints: Constraints | None = None,
        solve_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept, constraints=constraints, solve_options=solve_options
        )
        self.alpha = alpha

    def _penalty(self, coef: cp.Variable) -> Any:
        check_from_zero("alpha: given ", self.alpha)
        return self.alpha * cp.sum_squares(coef)


class FederatedLasso(FederatedRidge):
    r"""Least squares with an absolute penalty, as scikit-learn's ``Lasso``.

    .. math::
        \min_{w, c} \; \frac{1}{2N} \sum_{i=1}^n \|A_i w + c \mathbf 1 - b_i\|^2 + \alpha \|w\|_1,
        \qquad N = \sum_{i=1}^n N_i

    Parameters
    ----------
    alpha : float
        Weight of the penalty, not negative.
    fit_intercept, constraints, solve_options
        As of :class:`FederatedLinearRegression`, and so are the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from dald_model.estimators import FederatedLasso
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = FederatedLasso(alpha=0.5).fit(X, [1, 3, 5, 7], clients=["a", "a", "b", "b"])
    >>> fit.coef_.round(3).tolist(), round(float(fit.intercept_), 3)
    ([1.6], 1.6)
    """

    def _scale(self, rows: float) -> float:
        return 1 / (2 * rows)

    def _penalty(self, coef: cp.Variable) -> Any:
        check_from_zero("alpha: given ", self.alpha)
        return self.alpha * cp.norm1(coef)


def _squares(coef: cp.Variable, level: Any, rows: Rows, own: np.ndarray) -> cp.Expression:
    """The weighted squares of features coef + level - target, in at most m + 2 rows."""
    X = rows.features[own].toarray() if sp.issparse(rows.features) else rows.features[own]
    joined = np.column_stack([X, np.ones(len(own)), rows.target[own]])
    # orthonormal columns in front change no sum of squares
    triangle = np.linalg.qr(np.sqrt(rows.weight[own])[:, None] * joined).R
    return cp.sum_squares(triangle[:, :-2] @ coef + triangle[:, -2] * level - triangle[:, -1])
