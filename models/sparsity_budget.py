r"""A budget of coefficients over all clients: who gains most from features is given most.

.. math::
    \min_{w_1, \dots, w_n} \; \sum_{i=1}^n \frac{1}{2 N_i} \|A_i w_i - b_i\|^2
    \quad \text{s.t. } \sum_{i=1}^n \sum_{k=1}^m |w_{ik}| \le B

Each client has a model of its own, :math:`w_i` with its intercept :math:`w_{i0}`; only the budget
:math:`B`, in units of the target, is common. Its multiplier is the price of a unit, at which every
client solves a lasso of its own. A client tells the length of its coefficients and not these.
Tibshirani (1996): Regression shrinkage and selection via the lasso. JRSS B 58(1).
"""

import cvxpy as cp

import dald_model as dm
from dald_model.models.linear_regression import Parts, age_groups, squared_error


def budgeted_lasso(parts: Parts, budget: float) -> dm.Model:
    """Sparse models, one a client, whose lengths together do not exceed a budget.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    budget : float

    Returns
    -------
    Model
        With the coupling "budget", whose constraint has the price.
    """
    model = dm.Model("budget of coefficients")
    lengths = []
    for name, (features, target) in parts.items():
        w = cp.Variable(features.shape[1] + 1, name=f"w of {name}")
        model.client(name, squared_error(w, features, target) / (2 * len(target)))
        lengths.append(cp.norm1(w[1:]))
    model.couple(cp.sum(cp.hstack(lengths)) <= budget, name="budget")
    return model


REFERENCE = 6121.13289386
"""The optimal value at scikit-learn 1.9's ``Lasso`` of each client, at the price at which their
lengths are the budget, by scipy's ``brentq``."""


def model() -> dm.Model:
    """Four age groups of Diabetes; without the budget they use 933 together."""
    return budgeted_lasso(age_groups(), budget=200.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
