r"""Consensus model-predictive control: vehicles agree on where to meet, each plans its own way.

.. math::
    \min_{u, s, z} \; \sum_{i=1}^n \sum_{t=0}^{T-1} \|u_{it}\|^2
    \quad \text{s.t. } s_{i,t+1} = A s_{it} + B u_{it}, \; s_{i0} = \bar s_i, \;
    |u_{it}| \le \bar u, \; s_{iT} = (z, 0)

:math:`s_{it}`, shape (4,), are the place, in m, and velocity, in m/s, of vehicle :math:`i` after
:math:`t` seconds, :math:`u_{it}`, shape (2,), its acceleration, m/s². All stop at one place
:math:`z`, shape (2,), which is all that they share; where a vehicle is, and what it can do, nobody
else learns. Keviczky, Borrelli, Fregene, Godbole, Balas (2008): Decentralized receding horizon
control and coordination of autonomous vehicle formations. IEEE Trans. Control Syst. Technol. 16(1).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array

DRIFT = np.kron(np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2))
PUSH = np.kron(np.array([[0.5], [1.0]]), np.eye(2))


def rendezvous(states: Mapping[Any, Array], steps: int, limit: float) -> dm.Model:
    """The plans of vehicles that meet at rest, at least effort.

    Parameters
    ----------
    states : dict
        Client -> place and velocity now, shape (4,).
    steps : int
        The horizon, seconds.
    limit : float
        The largest acceleration along each axis.

    Returns
    -------
    Model
    """
    model = dm.Model("rendezvous")
    meeting = cp.Variable(2, name="meeting")
    for name, state in states.items():
        u = cp.Variable((2, steps), bounds=[-limit, limit], name=f"u of {name}")
        s = cp.Variable((4, steps + 1), name=f"s of {name}")
        moves = s[:, 1:] == DRIFT @ s[:, :-1] + PUSH @ u
        ends = [s[:, 0] == state, s[:2, -1] == meeting, s[2:, -1] == 0]
        model.client(name, cp.sum_squares(u), [moves, *ends])
    return model


REFERENCE = 2.57101571663
"""The least effort by scipy 1.17's SLSQP with analytic gradients."""

STATES = {
    "red": np.array([0.0, 0.0, 1.0, 0.0]),
    "green": np.array([10.0, 2.0, 0.0, 1.0]),
    "blue": np.array([4.0, 12.0, -1.0, -1.0]),
}


def model() -> dm.Model:
    """Three vehicles, eight seconds, at most 0.4 m/s² along each axis."""
    return rendezvous(STATES, steps=8, limit=0.4)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
