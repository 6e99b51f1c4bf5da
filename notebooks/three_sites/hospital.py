"""One hospital: declares its client from its own file, and answers the coordinator's messages.

    python hospital.py cleveland FOLDER SOCKET

FOLDER holds the hospital's own file, and no other is read. This process alone sees the rows; what
it sends is listed in the docstring of ``dald_model.Site``.
"""

import sys

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import load_hospital

# What the hospitals agreed on beforehand: the same units for all, and nobody's data
CENTRE = np.array([50, 0.5, 0, 0, 0.5, 130, 0, 0, 140, 0.5, 1.0])
UNIT = np.array([10, 0.5, 0.5, 0.5, 0.5, 20, 0.5, 0.5, 25, 0.5, 1.0])


def declare(name: str, folder: str) -> dm.Site:
    """A risk score: coefficients that all share, and an intercept of the hospital's own."""
    rows = load_hospital(name, folder)
    w, intercept = cp.Variable(11, name="w"), cp.Variable(name="intercept")
    margin = cp.multiply(rows.target, (rows.features - CENTRE) / UNIT @ w + intercept)
    loss = cp.sum(cp.logistic(-margin))
    return dm.Site(name, loss, [w >= 0, cp.sum(w) <= 1], shared=[w])


if __name__ == "__main__":
    site = declare(*sys.argv[1:3])
    print(site, flush=True)
    site.serve(sys.argv[3])
