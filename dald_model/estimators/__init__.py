"""Scikit-learn's linear estimators over rows that stay with their owners.

Each solves scikit-learn's problem, with the same parameters and attributes, by a
:class:`dald_model.Model` of one client a label of ``clients``: owners exchange coefficients and no
rows. With ``constraints`` they also solve what scikit-learn cannot state.

>>> import numpy as np
>>> from sklearn.datasets import load_diabetes
>>> from sklearn.linear_model import Ridge
>>> from dald_model.estimators import FederatedRidge
>>> X, y = load_diabetes(return_X_y=True)
>>> clinic = np.arange(len(y)) % 4
>>> found = FederatedRidge(alpha=0.1).fit(X, y, clients=clinic)
>>> print(bool(np.allclose(found.coef_, Ridge(alpha=0.1).fit(X, y).coef_, rtol=1e-4)))
True
>>> monotone = FederatedRidge(alpha=0.1, constraints=lambda coef, intercept: [coef >= 0])
>>> print(bool(monotone.fit(X, y, clients=clinic).coef_.min() > -1e-3))
True

With an intercept the features are centred by the mean of all clients, which each tells its column
sums for: offsets of many spreads change no coefficient. Sparse rows are not centred.

Labels pass through scikit-learn's tools as other metadata do::

    cross_val_score(FederatedRidge(), X, y, params={"clients": clinic})
    GridSearchCV(FederatedRidge(), {"alpha": [0.1, 1, 10]}).fit(X, y, clients=clinic)
    make_pipeline(StandardScaler(), FederatedRidge()).fit(X, y, federatedridge__clients=clinic)

With scikit-learn's ``enable_metadata_routing`` ask for them by ``set_fit_request(clients=True)``;
``sample_weight`` goes the same way.
A scaler in a pipeline sees the rows of all clients together.
"""

from dald_model.estimators.classifiers import FederatedLogisticRegression, FederatedSVC
from dald_model.estimators.regressors import (
    FederatedLasso,
    FederatedLinearRegression,
    FederatedRidge,
)

__all__ = [
    "FederatedLasso",
    "FederatedLinearRegression",
    "FederatedLogisticRegression",
    "FederatedRidge",
    "FederatedSVC",
]
