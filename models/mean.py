r"""The mean of what several owners know: the smallest model of all, which examples use.

.. math:: \min_w \; \sum_{i=1}^n (w - v_i)^2

Its optimum is the mean of the :math:`v_i`, and its value the sum of squares around it.
"""

from collections.abc import Iterable

import cvxpy as cp
import networkx as nx

import dald_model as dm


def common_number(values: Iterable[float], peers: bool = False) -> dm.Model:
    """Owners 0, 1, ... of a number each, who agree on one.

    Parameters
    ----------
    values : list of float
        The number that each owner wants; one owner alone agrees with a server.
    peers : bool
        Whether they talk along a chain, peer to peer; else through a server.

    Returns
    -------
    Model

    Examples
    --------
    >>> common_number([0, 1, 2]).solve().value
    2.0
    """
    model, w = dm.Model("mean"), cp.Variable(name="w")
    for name, value in enumerate(values):
        model.client(name, cp.square(w - value))
    if peers:
        model.topology(nx.path_graph(list(model.clients)))
    elif len(model.clients) == 1:
        model.consensus(cp.Variable(name="z") == w)
    else:
        model.topology("server")
    return model


REFERENCE = 2.0
"""The mean of 0, 1 and 2 is 1."""


def model() -> dm.Model:
    """Three owners of 0, 1 and 2."""
    return common_number([0.0, 1.0, 2.0])


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
