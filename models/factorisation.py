r"""Federated low-rank factorisation: one dictionary for all, coefficients stay with their owners.

.. math::
    \min_{V,\, U_1, \dots, U_n} \; \sum_{i=1}^n \|U_i V^\top - D_i\|_F^2 + \lambda \|U_i\|_F^2
    + \lambda \|V\|_F^2

:math:`D_i`, shape :math:`(N_i, m)`, are the rows of client :math:`i`, :math:`U_i`, shape
:math:`(N_i, r)`, its private coefficients, :math:`V`, shape :math:`(m, r)`, the shared dictionary.
The product makes it non-convex; with :math:`\lambda > 0` all its minima are global and differ by a
rotation (Srebro, Rennie, Jaakkola 2005: Maximum-margin matrix factorization; NIPS).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm


def federated_factors(rows: Mapping[Any, np.ndarray], rank: int, weight: float) -> dm.Model:
    r"""A shared dictionary and private coefficients.

    Parameters
    ----------
    rows : dict
        Client -> :math:`D_i`.
    rank : int
        :math:`r`.
    weight : float
        :math:`\lambda`, in units of the data.

    Returns
    -------
    Model
        Starting at the leading right singular vectors of the first client's rows.
    """
    model = dm.Model("factorisation")
    first = next(iter(rows.values()))
    _, sizes, directions = np.linalg.svd(first, full_matrices=False)
    start = directions[:rank].T * np.sqrt(sizes[:rank])
    V = cp.Variable(start.shape, name="V", value=start)
    for name, data in rows.items():
        own = data @ start @ np.linalg.inv(start.T @ start)
        U = cp.Variable(own.shape, name=f"U of {name}", value=own)
        share = weight * cp.sum_squares(V) / len(rows)
        loss = cp.sum_squares(U @ V.T - data) + weight * cp.sum_squares(U) + share
        model.client(name, loss, nonconvex=True)
    return model


REFERENCE = 18.776875882499414
"""The global minimum: soft-thresholded singular values of all rows together, by numpy's svd."""


def ratings() -> dict[str, np.ndarray]:
    """Three shops with 8, 10 and 12 customers who rate six products; two tastes and noise."""
    rng = np.random.default_rng(0)
    tastes = rng.normal(size=(6, 2))
    return {
        f"shop {i}": rng.normal(size=(size, 2)) @ tastes.T + 0.1 * rng.normal(size=(size, 6))
        for i, size in enumerate((8, 10, 12))
    }


def model() -> dm.Model:
    """Three shops, rank two."""
    return federated_factors(ratings(), 2, 0.5)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
