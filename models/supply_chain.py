r"""A supply chain: plants ship to markets, and meet each market's demand together.

.. math::
    \min_{x \ge 0} \; \sum_{i=1}^n \sum_{k=1}^m c_{ik} x_{ik}
    \quad \text{s.t. } \sum_{k=1}^m x_{ik} \le a_i, \; \sum_{i=1}^n x_{ik} \ge b_k

Plant :math:`i` makes at most :math:`a_i` cases and ships :math:`x_{ik}` of them to market
:math:`k`, at :math:`c_{ik}` thousand USD a case, which it tells nobody; market :math:`k` wants
:math:`b_k` cases. The multipliers of the demands are the markets' prices. Dantzig (1963): Linear
programming and extensions, section 3-3.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array

Plants = Mapping[Any, tuple[float, Array]]
"""Plant -> its capacity, and the cost of a case to each market, shape (m,)."""


def transport(plants: Plants, demand: Array) -> dm.Model:
    """Meet the demands of markets from plants that keep their costs to themselves.

    Parameters
    ----------
    plants : dict
        Client -> (capacity, costs).
    demand : array, shape (m,)

    Returns
    -------
    Model
        With the coupling "demand", whose constraint has the prices.
    """
    model, shipped = dm.Model("supply chain"), []
    for name, (capacity, cost) in plants.items():
        x = cp.Variable(len(demand), nonneg=True, name=f"cases from {name}")
        model.client(name, cost @ x, [cp.sum(x) <= capacity])
        shipped.append(x)
    model.couple(sum(shipped) >= demand, name="demand")
    return model


REFERENCE = 153.675
"""The least cost, thousand USD, as GAMS prints it for its first model, ``trnsport``."""

DEMAND = np.array([325.0, 300.0, 275.0])  # New York, Chicago, Topeka
FREIGHT = 90 / 1000  # thousand USD a case and thousand miles
PLANTS = {
    "Seattle": (350.0, FREIGHT * np.array([2.5, 1.7, 1.8])),
    "San Diego": (600.0, FREIGHT * np.array([2.5, 1.8, 1.4])),
}


def model() -> dm.Model:
    """Two plants and three markets."""
    return transport(PLANTS, DEMAND)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
