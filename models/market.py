r"""An electricity market: plants that keep their costs to themselves, one balance, one price.

.. math::
    \min_q \; \sum_i a_i q_i + b_i q_i^2
    \quad \text{s.t. } 0 \le q_i \le c_i, \; \sum_i q_i = D

Plant :math:`i` produces :math:`q_i` of at most :math:`c_i`. The balance is a coupling of all
plants, to which each tells nothing but what it would produce; its multiplier, with the sign turned,
is the price, at which every plant does what is best for itself.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp

import dald_model as dm


class Plant(NamedTuple):
    """What one plant knows: cost a megawatt hour, what it rises by, and capacity."""

    cost: float
    rise: float
    capacity: float


def balanced_market(plants: Mapping[Any, Plant], demand: float) -> dm.Model:
    """Meet a demand by plants that keep their costs to themselves.

    Parameters
    ----------
    plants : dict
        Client -> what it knows.
    demand : float

    Returns
    -------
    Model
        With the coupling "balance", whose constraint has the price.
    """
    model = dm.Model("market")
    produced = {name: cp.Variable(name=f"produced by {name}") for name in plants}
    for name, plant in plants.items():
        q = produced[name]
        cost = plant.cost * q + plant.rise * cp.square(q)
        model.client(name, cost, [q >= 0, q <= plant.capacity])
    model.couple(cp.sum(cp.hstack(list(produced.values()))) == demand, name="balance")
    return model


REFERENCE = 84.1275
"""The least cost an hour, at the price 24.5, by scipy's root of supply less demand."""

DEMAND = 11.0
PLANTS = {
    "wind": Plant(0.5, 0.01, 3.0),
    "hydro": Plant(4.0, 0.25, 2.5),
    "nuclear": Plant(9.0, 0.1, 4.0),
    "coal": Plant(20.0, 1.5, 5.0),
    "gas": Plant(35.0, 2.0, 6.0),
}


def model() -> dm.Model:
    """Five plants, of which the dearest stands still."""
    return balanced_market(PLANTS, DEMAND)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
