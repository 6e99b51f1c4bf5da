r"""Regression with signs and bounds that are known: what experts say holds in every copy.

.. math::
    \min_w \; \sum_{i=1}^n \|A_i w - b_i\|^2 \quad \text{s.t. } l \le w \le u

:math:`A_i`, shape :math:`(N_i, m + 1)`, has a first column of ones; :math:`l` and :math:`u` bound
the intercept, then the coefficients, in units of the target a standard deviation of the feature.
A sign is a bound of 0. Lawson, Hanson (1974): Solving least squares problems, chapter 23.
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array
from dald_model.models.linear_regression import Parts, clinics, squared_error


def bounded_regression(parts: Parts, lower: Array, upper: Array) -> dm.Model:
    """Least squares with an intercept and bounds on each coefficient.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    lower, upper : array, shape (m + 1,)
        Infinite where there is no bound.

    Returns
    -------
    Model
    """
    model = dm.Model("regression with signs")
    w = cp.Variable(len(lower), bounds=[lower, upper], name="w")
    for name, (features, target) in parts.items():
        model.client(name, squared_error(w, features, target))
    return model


REFERENCE = 1266319.48196
"""The optimal value by scipy 1.17's ``lsq_linear``."""

# The columns are age, sex, bmi, bp, s1, ..., s6. Body mass, blood pressure, triglycerides (s5) and
# blood sugar (s6) do not lower the risk; the good cholesterol (s3) does not raise it.
LOWER = np.array([-np.inf, -np.inf, -np.inf, 0, 0, -20, -20, -20, -20, 0, 0])
UPPER = np.array([np.inf, np.inf, np.inf, np.inf, np.inf, 20, 20, 0, 20, np.inf, np.inf])


def model() -> dm.Model:
    """Four clinics of Diabetes; the cholesterols, nearly collinear, are kept within 20."""
    return bounded_regression(clinics(), LOWER, UPPER)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
