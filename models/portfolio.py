r"""Capital allocation to trading desks, coupled by sums (second-order cones).

.. math::
    \max_{y_1, y_2, y_3, t} \; \sum_{i=1}^3 r_i^\top y_i
    \quad \text{s.t. } y_i \ge 0, \; \|L_i^\top y_i\| \le \sigma_i, \;
    t \ge 0, \; \mathbf 1^\top t = 1, \; \mathbf 1^\top y_i = t_i

Desk :math:`i` chooses the holdings :math:`y_i` of its own assets, with expected returns
:math:`r_i` and covariance :math:`L_i L_i^\top`, and may not risk more than :math:`\sigma_i`. The
treasury deals out the capital :math:`t`. Nobody sees what a desk holds, only the sum; the
multipliers of the sums are what a unit of capital earns at each desk, so they are equal.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm


class Desk(NamedTuple):
    """What one desk knows: in per cent of the capital invested, a year."""

    returns: list[float]
    deviations: list[float]
    correlation: float
    limit: float


def consensus_portfolio(desks: Mapping[Any, Desk]) -> dm.Model:
    """Deal out a capital of one to desks that keep their holdings to themselves.

    Parameters
    ----------
    desks : dict
        Client -> what it knows.

    Returns
    -------
    Model
        With one client more, the treasury.
    """
    model = dm.Model("portfolio")
    capital = cp.Variable(len(desks), name="t")
    agreements = []
    for at, (name, desk) in enumerate(desks.items()):
        size = len(desk.returns)
        holdings = cp.Variable(size, name=f"holdings of {name}")
        alike = np.full((size, size), desk.correlation) + (1 - desk.correlation) * np.eye(size)
        factor = np.diag(desk.deviations) @ np.linalg.cholesky(alike)
        rules = [holdings >= 0, cp.norm(factor.T @ holdings) <= desk.limit]
        model.client(name, cp.Maximize(np.array(desk.returns) @ holdings), rules)
        agreements.append(cp.sum(holdings) == capital[at])
    model.client("treasury", cp.Maximize(0), [capital >= 0, cp.sum(capital) == 1])
    model.consensus(*agreements)
    return model


REFERENCE = 4.48246164
"""The optimal value, in per cent a year, by scipy 1.17's SLSQP with analytic gradients."""

DESKS = {
    "bonds": Desk([2.0, 3.0, 4.5], [3.0, 5.0, 8.0], correlation=0.3, limit=2.0),
    "shares": Desk([6.0, 7.0, 9.0], [16.0, 18.0, 25.0], correlation=0.6, limit=5.0),
    "commodities": Desk([4.0, 5.0], [15.0, 22.0], correlation=0.1, limit=2.0),
}


def model() -> dm.Model:
    """Three desks, of bonds, shares and commodities."""
    return consensus_portfolio(DESKS)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
