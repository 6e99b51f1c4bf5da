r"""Linear regression over several owners of rows: the problem of the paper's Table 1.

.. math::
    \min_{x_1, \dots, x_n} \sum_{i=1}^n \|A_i x_i - b_i\|^2
    \quad \text{s.t. } x_1 = x_2, \; x_2 = x_3, \; \dots, \; x_{n-1} = x_n

Client :math:`i` owns the rows :math:`A_i`, shape :math:`(N_i, m + 1)` with a first column of ones
for the intercept, and their targets :math:`b_i`.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array, load

Parts = Mapping[Any, tuple[Array, Array]]
"""Client -> its features, shape (N_i, m), and its targets, shape (N_i,)."""


def clinics(count: int = 4) -> dict[str, tuple[Array, Array]]:
    """The rows of Diabetes, standardised, dealt to clinics with seed 0."""
    parts = load("diabetes").standardised().split(count, 0)
    return {f"clinic {at}": part for at, part in enumerate(parts)}


def age_groups(count: int = 4) -> dict[str, tuple[Array, Array]]:
    """The rows of Diabetes, standardised, by age: clients that differ as owners of data do."""
    rows = load("diabetes").standardised()
    youngest_first = np.argsort(rows.features[:, rows.columns.index("age")], kind="stable")
    parts = enumerate(np.array_split(youngest_first, count))
    return {f"age group {at}": (rows.features[part], rows.target[part]) for at, part in parts}


def squared_error(w: cp.Expression, features: Array, target: Array) -> cp.Expression:
    r"""The sum of squares :math:`\|[\mathbf 1 \; A] w - b\|^2`, without a factor 1/N.

    Parameters
    ----------
    w : cp.Expression, shape (m + 1,)
        The intercept, then the coefficients.
    features, target : array
        The rows :math:`A`, shape (N, m), and :math:`b`, shape (N,).
    """
    rows = np.column_stack([np.ones(len(target)), features, target])
    # [1 A b] = Q R with orthonormal columns in Q, so the sum of squares is ‖R (w, -1)‖² exactly,
    # with m + 2 rows instead of N: a re-solve costs the same for ten rows and for ten million.
    # R's last row meets no coefficient; it carries the error that no w can remove.
    triangle = np.linalg.qr(rows).R
    return cp.sum_squares(triangle[:, :-1] @ w - triangle[:, -1])


def consensus_regression(parts: Parts, *, chain: bool = False) -> dm.Model:
    """Least squares with an intercept, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    chain : bool
        Whether each client has a vector of its own and agrees with the next one, as in the paper
        (Fed-DALD-DC). Otherwise all use one vector ``w``, for which a server is made
        (Fed-DALD-CC).

    Returns
    -------
    Model
    """
    model = dm.Model("linear regression")
    size = next(iter(parts.values()))[0].shape[1] + 1
    shared = cp.Variable(size, name="w")
    vectors = [shared] * len(parts)
    if chain:
        vectors = [cp.Variable(size, name=f"x{at + 1}") for at in range(len(parts))]
    for x, (name, (features, target)) in zip(vectors, parts.items(), strict=True):
        model.client(name, squared_error(x, features, target))
    if chain:
        model.consensus(*[x == y for x, y in pairwise(vectors)])
    return model


REFERENCE = 1263985.7856
"""The optimal value, 442 x 2859.6963, by scikit-learn 1.9's ``LinearRegression``."""


def model() -> dm.Model:
    """Three nodes in a chain with the rows of Diabetes."""
    parts = enumerate(load("diabetes").standardised().split(3, 0), start=1)
    return consensus_regression({f"node {at}": part for at, part in parts}, chain=True)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
