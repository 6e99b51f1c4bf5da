r"""Parts of secant coordination against closed forms and dense linear algebra.

For quadratic clients everything is known: the response is :math:`(I + H)^{-1}`, symmetric rank one
corrections find it after as many independent answers as there are directions (Nocedal and Wright
2006, Theorem 6.1), and the consensus of the models is a linear system.
"""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.coordinate.acceleration.local_models import LocalModels
from dald_model.coordinate.acceleration.master import MANY, _inverse

RNG = np.random.default_rng(5)


def test_a_hard_constraint_and_a_free_direction_stay_within_bounds() -> None:
    model = LocalModels(np.array([0.5]), 2)
    for told in np.eye(2):
        model.learn(np.ones((1, 2)), told[None] * [0.0, 1.0], told[None])
    values = np.linalg.eigvalsh(model.stiffness())
    assert values.min() == pytest.approx(1e-6, rel=1e-3)
    assert values.max() == pytest.approx(1e6, rel=1e-3)


@pytest.mark.parametrize(("graph", "most"), [(None, 50), (nx.full_rary_tree(2, 14), 30)])
def test_answers_on_both_sides_of_kinks_are_no_hard_constraints(
    graph: nx.Graph | None, most: int
) -> None:
    """Separable lassos of very unequal clients: the optimum is soft thresholding.

    Where a negative eigenvalue passed for a hard constraint it took 55 and 42 rounds.
    """
    rng, count, size = np.random.default_rng(2), 14, 10
    rng.normal(size=(size, size))
    x, model = cp.Variable(size), dm.Model("l1")
    pulled, weight = np.zeros((2, size))
    for name in range(count):
        own = 10 ** rng.uniform(-1, 2) * rng.uniform(0.2, 1, size)
        target = rng.normal(size=size)
        model.client(name, cp.sum(cp.multiply(own, cp.square(x - target))) + 5 * cp.norm1(x))
        pulled, weight = pulled + own * target, weight + own
    model.topology(graph)
    result = model.solve()
    expected = np.sign(pulled) * np.maximum(np.abs(pulled) - 5 * count / 2, 0) / weight
    assert result.status == "optimal"
    assert result.rounds <= most
    np.testing.assert_allclose(np.asarray(x.value), expected, atol=1e-7)


@pytest.mark.parametrize("links", ["star", "path"])
def test_large_systems_of_prices_are_solved(links: str) -> None:
    """Of stars, whose leaves are eliminated first, and of other graphs; what is left over says so.

    A pivot of a leaf is its diagonal entry, so with the matrix of a graph plus the identity the
    solution is as long as the right side at most.
    """
    size = 2 * MANY
    ends = np.arange(1, size), np.arange(size - 1)
    if links == "star":  # two of them, side by side
        ends = np.arange(2, size), np.arange(2, size) % 2
    adjacent = sp.coo_array((np.ones(ends[0].size), ends), shape=(size, size))
    adjacent = sp.csr_array(adjacent + adjacent.T)
    matrix = sp.csc_array(sp.diags_array(adjacent.sum(axis=1) + 1.0) - adjacent)
    rhs = RNG.normal(size=size)
    found = _inverse(matrix)(rhs)
    np.testing.assert_allclose(matrix @ found, rhs, atol=1e-9)
    assert np.linalg.norm(found) <= np.linalg.norm(rhs)
