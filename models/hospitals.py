r"""Constrained logistic regression over four hospitals: a risk score for heart disease.

.. math::
    \min_{w, c_1, \dots, c_4} \; \sum_{i=1}^4 \sum_{k=1}^{N_i}
    \log\big(1 + \exp(-b_{ik} (a_{ik}^\top w + c_i))\big)
    \quad \text{s.t. } w \ge 0, \; \mathbf 1^\top w \le 1

:math:`a_{ik}` are the eleven features of patient :math:`k` at hospital :math:`i`, :math:`b_{ik}`
is +1 where a heart disease was found, else -1. The hospitals agree on the coefficients :math:`w`.
Each keeps an intercept :math:`c_i` of its own: between a third and nine tenths of their patients
are ill.
"""

from collections.abc import Mapping

import cvxpy as cp

import dald_model as dm
from dald_model.datasets import Dataset, load_hospitals, standardised_together


def consensus_classifier(hospitals: Mapping[str, Dataset]) -> dm.Model:
    """Logistic regression with coefficients that are not negative and sum to at most one.

    Parameters
    ----------
    hospitals : dict
        Client -> its rows, with targets +1 and -1; all on one scale.

    Returns
    -------
    Model
        The coefficients ``w`` are shared through a server; each intercept stays at its hospital.
    """
    model = dm.Model("risk score of the hospitals")
    w = cp.Variable(next(iter(hospitals.values())).features.shape[1], name="w")
    for name, rows in hospitals.items():
        intercept = cp.Variable(name=f"intercept at {name}")
        margin = cp.multiply(rows.target, rows.features @ w + intercept)
        model.client(name, cp.sum(cp.logistic(-margin)), [w >= 0, cp.sum(w) <= 1])
    return model


REFERENCE = 386.01302255
"""The optimal value by scipy 1.17's SLSQP with analytic gradients."""


def model() -> dm.Model:
    """The four hospitals of the heart data, which ship with the package."""
    return consensus_classifier(standardised_together(load_hospitals()))


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
