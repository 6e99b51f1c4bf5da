r"""A kernel machine over several owners of rows, by landmarks that all know.

.. math::
    \min_{w, c} \; & \frac12 \|w\|^2
    + C \sum_{i=1}^n \sum_{k=1}^{N_i} \max\big(0, 1 - b_{ik} (\phi(a_{ik})^\top w + c)\big), \\
    \phi(a) = {} & K_{ZZ}^{-1/2} \big(\kappa(z_1, a), \dots, \kappa(z_q, a)\big)^\top

:math:`\kappa(z, a) = \exp(-\gamma \|z - a\|^2)`, and :math:`z_1, \dots, z_q` are landmarks, points
that are nobody's rows. Each client maps its rows by itself; the machine is then the linear one of
``svm.py`` with :math:`q` features, and the same as that with the kernel
:math:`\phi(a)^\top \phi(a')`. Williams, Seeger (2001): Using the Nyström method to speed up kernel
machines. NIPS.
"""

from typing import Any

import numpy as np

import dald_model as dm
from dald_model.datasets import Array
from dald_model.models.logistic import Shards
from dald_model.models.svm import consensus_machine


def landmark_features(features: Array, landmarks: Array, gamma: float) -> Array:
    r"""The map :math:`\phi`, row by row.

    Parameters
    ----------
    features : array, shape (N, m)
    landmarks : array, shape (q, m)
    gamma : float
        How fast the kernel falls with the squared distance.

    Returns
    -------
    array, shape (N, q)
    """

    def kernel(rows: Array) -> Array:
        apart = rows[:, None, :] - landmarks[None, :, :]
        return np.exp(-gamma * np.sum(apart**2, axis=2))

    values, vectors = np.linalg.eigh(kernel(landmarks))
    return kernel(features) @ (vectors / np.sqrt(values)) @ vectors.T


def kernel_machine(shards: Shards, landmarks: Array, gamma: float, cost: float) -> dm.Model:
    """A support vector machine with a Gaussian kernel, each client with its own rows.

    Parameters
    ----------
    shards : dict
        Client -> (features, target), targets +1 or -1.
    landmarks : array, shape (q, m)
    gamma, cost : float

    Returns
    -------
    Model
    """
    mapped: dict[Any, tuple[Array, Array]] = {
        name: (landmark_features(features, landmarks, gamma), target)
        for name, (features, target) in shards.items()
    }
    return consensus_machine(mapped, cost)


REFERENCE = 26.2667426848
"""The optimal value at scikit-learn 1.9's ``SVC(kernel="precomputed")``."""

LANDMARKS = np.array([[x, y] for x in (-1.0, 0.0, 1.0, 2.0) for y in (-0.5, 0.25, 1.0)])


def half_moons() -> Shards:
    """Three clients with forty points each, of two half moons that no line separates."""
    from sklearn.datasets import make_moons  # slow to import

    points, moon = make_moons(120, noise=0.2, random_state=0)
    parts = enumerate(np.split(np.arange(120), 3))
    return {f"client {at}": (points[part], np.where(moon[part], 1.0, -1.0)) for at, part in parts}


def model() -> dm.Model:
    """The two moons with twelve landmarks on a grid."""
    return kernel_machine(half_moons(), LANDMARKS, gamma=1.0, cost=1.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
