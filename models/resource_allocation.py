r"""Rates in a network by prices: each user wants more, each link has a capacity.

.. math::
    \max_x \; \sum_{s=1}^n \omega_s \log x_s
    \quad \text{s.t. } \sum_{s \text{ over } l} x_s \le c_l \text{ for every link } l

:math:`x_s` is the rate of user :math:`s`, in the units of the capacity :math:`c_l`;
:math:`\omega_s`, what a user is willing to pay a unit of time. A link is a coupling that sees the
rates over it; its multiplier is the price of a unit of rate. The rates are proportionally fair:
each user gets what it pays for at the prices of its route, :math:`x_s = \omega_s / \sum_l \pi_l`.
Kelly, Maulloo, Tan (1998): Rate control for communication networks. J. Oper. Res. Soc. 49(3).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp

import dald_model as dm

Routes = Mapping[Any, tuple[float, tuple[str, ...]]]
"""User -> what it is willing to pay, and the links of its route."""


def shared_links(routes: Routes, capacity: Mapping[str, float]) -> dm.Model:
    """Proportionally fair rates over links that several users share.

    Parameters
    ----------
    routes : dict
        Client -> (willingness to pay, links).
    capacity : dict
        Link -> its capacity; a link that fewer than two users share limits its user alone.

    Returns
    -------
    Model
        With a coupling a shared link, whose constraint has the price.
    """
    model = dm.Model("rates by prices")
    x = {user: cp.Variable(name=f"rate of {user}") for user in routes}
    over = {link: [user for user in routes if link in routes[user][1]] for link in capacity}
    for user, (pays, links) in routes.items():
        alone = [x[user] <= capacity[link] for link in links if len(over[link]) == 1]
        model.client(user, cp.Maximize(pays * cp.log(x[user])), alone)
    for link, users in over.items():
        if len(users) > 1:
            model.couple(
                cp.sum(cp.hstack([x[user] for user in users])) <= capacity[link], name=link
            )
    return model


REFERENCE = 13.9489538729
"""The optimal value by scipy 1.17's SLSQP with analytic gradients."""

CAPACITY = {"north": 10.0, "east": 6.0, "south": 8.0, "west": 12.0}
ROUTES = {
    "video": (3.0, ("north", "east")),
    "backup": (1.0, ("east", "south")),
    "calls": (2.0, ("south",)),
    "games": (2.0, ("north", "west")),
    "mail": (1.0, ("west",)),
}


def model() -> dm.Model:
    """Five users over four links."""
    return shared_links(ROUTES, CAPACITY)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
