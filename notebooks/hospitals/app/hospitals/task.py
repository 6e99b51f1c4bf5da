"""What a hospital declares from its own file."""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import load_hospital

# What the hospitals agreed on beforehand: the same units for all, and nobody's data
CENTRE = np.array([50, 0.5, 0, 0, 0.5, 130, 0, 0, 140, 0.5, 1.0])
UNIT = np.array([10, 0.5, 0.5, 0.5, 0.5, 20, 0.5, 0.5, 25, 0.5, 1.0])


def declare(name, folder=None):
    """A risk score: coefficients that all share, and an intercept of the hospital's own."""
    rows = load_hospital(name, folder)
    w, intercept = cp.Variable(11, name="w"), cp.Variable(name="intercept")
    margin = cp.multiply(rows.target, (rows.features - CENTRE) / UNIT @ w + intercept)
    loss = cp.sum(cp.logistic(-margin))
    return dm.Site(name, loss, [w >= 0, cp.sum(w) <= 1], shared=[w])
