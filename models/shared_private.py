r"""A shared part and a sparse private part: clients that differ in a few coefficients.

.. math::
    \min_{w, v_1, \dots, v_n} \; \sum_{i=1}^n \|A_i (w + v_i) - b_i\|^2
    + \alpha \sum_{k=1}^m |w_k| + \beta \sum_{i=1}^n \sum_{k=0}^m |v_{ik}|

:math:`w`, with the intercept :math:`w_0`, is what all clients use; :math:`v_i` is by how much
client :math:`i` differs, seen by nobody else. Of a coefficient that is alike everywhere nothing
is private where :math:`\beta` is large enough. Gross, Tibshirani (2016): Data shared lasso.
Computational Statistics and Data Analysis 101.
"""

import cvxpy as cp

import dald_model as dm
from dald_model.models.linear_regression import Parts, age_groups, squared_error


def data_shared_lasso(parts: Parts, alpha: float, beta: float) -> dm.Model:
    r"""Least squares on the sum of a shared and a private vector of coefficients.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    alpha, beta : float
        What a unit of shared and of private coefficients costs.

    Returns
    -------
    Model
    """
    model = dm.Model("shared and private")
    size = next(iter(parts.values()))[0].shape[1] + 1
    shared = cp.Variable(size, name="shared")
    for name, (features, target) in parts.items():
        private = cp.Variable(size, name=f"private to {name}")
        loss = squared_error(shared + private, features, target)
        penalty = alpha / len(parts) * cp.norm1(shared[1:]) + beta * cp.norm1(private)
        model.client(name, loss + penalty)
    return model


REFERENCE = 1360583.37194
"""The optimal value at scikit-learn 1.9's ``Lasso`` of all coefficients side by side."""


def model() -> dm.Model:
    """Four age groups of Diabetes, a private unit twice as dear as a shared one."""
    return data_shared_lasso(age_groups(), alpha=1000.0, beta=2000.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
