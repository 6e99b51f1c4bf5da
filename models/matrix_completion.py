r"""Matrix completion: every user keeps the ratings given, all find those that are missing.

.. math::
    \min_{x_1, \dots, x_n} \; \frac12 \sum_{i=1}^n \sum_{k \in \Omega_i} (x_{ik} - r_{ik})^2
    + \lambda\, \|X\|_*, \qquad X = [x_1 \; \cdots \; x_n]^\top

User :math:`i` has rated the items :math:`\Omega_i` with :math:`r_{ik}`; row :math:`x_i`, shape
:math:`(m,)`, is the completion. Mazumder, Hastie, Tibshirani (2010): Spectral regularization
algorithms for learning large incomplete matrices. JMLR 11.
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array


def completed(ratings: Array, weight: float) -> dm.Model:
    r"""Rows of a matrix with gaps, completed to a matrix of small nuclear norm.

    Parameters
    ----------
    ratings : array, shape (n, m)
        A row a user; NaN where nothing was rated.
    weight : float
        :math:`\lambda`.

    Returns
    -------
    Model
        With the coupling "rank".
    """
    model, rows = dm.Model("matrix completion"), []
    for at, given in enumerate(ratings):
        row = cp.Variable(len(given), name=f"row {at}")
        (rated,) = np.nonzero(~np.isnan(given))
        model.client(f"user {at}", cp.sum_squares(row[rated] - given[rated]) / 2)
        rows.append(row)
    model.couple(objective=weight * cp.normNuc(cp.vstack(rows)), name="rank")
    return model


REFERENCE = 3.09659870556
"""The optimal value by accelerated proximal gradient steps, to a gap of 1e-9."""


def some_ratings() -> Array:
    """Seven users, five items, two tastes, two thirds of the entries; drawn with seed 0."""
    random = np.random.default_rng(0)
    ratings = random.normal(size=(7, 2)) @ random.normal(size=(2, 5))
    return np.where(random.random((7, 5)) < 2 / 3, ratings, np.nan)


def model() -> dm.Model:
    """The ratings of the seven users, penalty 0.5."""
    return completed(some_ratings(), weight=0.5)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
