"""The augmented terms of many clients against their definition."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays import augmented
from dald_model.solvers.arrays.augmented import Augmented, all_copies, copies
from dald_model.solvers.base import Turn


def _couplings() -> list[Subproblem]:
    """Three clients of four variables, of each of which two sums are shared with a neighbour."""
    rng = np.random.default_rng(2)
    x = [cp.Variable(4, name=f"x{i}") for i in range(3)]
    model, sums = dm.Model("sums"), rng.normal(size=(3, 2, 4)) * (rng.random((3, 2, 4)) < 0.8)
    for i in range(3):
        model.client(i, cp.sum_squares(x[i] - i))
    model.consensus(sums[0] @ x[0] == sums[1] @ x[1], sums[1] @ x[1] == sums[2] @ x[2])
    return list(model.compile().values())


@pytest.mark.parametrize("most", [0, 2**16])
def test_hessians_are_those_of_the_squares(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """K = 2 G' diag(rho^2) G, added up at once or, where there are too many, one by one."""
    monkeypatch.setattr(augmented, "PRODUCTS", most)
    subs = _couplings()
    rng, which = np.random.default_rng(0), np.array([2, 0, 1])
    rho = [rng.uniform(0.5, 2, sub.signs.size) for sub in subs]
    found = Augmented(subs).hessians(which, np.concatenate([rho[at] for at in which]))
    for at, mine in zip(which, found, strict=True):
        sides = subs[at].sides[0].toarray()
        expected = 2 * sides.T @ np.diag(rho[at] ** 2) @ sides
        np.testing.assert_allclose(mine, expected, rtol=1e-14, atol=1e-14)


def test_energies_and_gradients_are_those_of_the_hessians() -> None:
    subs = _couplings()
    rng, each = np.random.default_rng(1), Augmented(subs)
    ends, size = sum(sub.signs.size for sub in subs), sum(sub.size for sub in subs)
    mu, rho, told = rng.normal(size=ends), rng.uniform(0.5, 2, ends), rng.normal(size=ends)
    turn, points = Turn(np.arange(3), mu, rho, told), rng.normal(size=size)
    hessians: Any = sp.block_diag(list(each.hessians(turn.which, rho)))
    gradients = np.zeros(size)
    each.add_gradients(turn, points, gradients)
    np.testing.assert_allclose(gradients, hessians @ points + each.linear(turn), atol=1e-12)
    expected = (points * (hessians @ points)).reshape(3, 4).sum(axis=1)
    np.testing.assert_allclose(each.energies(turn, points), expected, atol=1e-12)


def test_equal_sides_are_counted_alike() -> None:
    x, model = cp.Variable(3), dm.Model("star")
    for i in range(5):
        model.client(i, cp.sum_squares(x - i))
    subs = [*model.compile().values(), *_couplings()]
    assert all_copies(subs).tolist() == [*map(copies, subs)] == [1, 1, 1, 1, 1, 5, 0, 0, 0]
