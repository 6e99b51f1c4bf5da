"""Clients that are held and doubted at once, against the same of each by itself."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.curvature import (
    are_flat_together,
    curvature,
    curvatures,
    is_flat_together,
)
from dald_model.coordinate.doubts import doubts, is_dragged
from dald_model.coordinate.hold import WEAK, hold


def _unlike() -> Decomposition:
    """Least squares and logistic clients: firm, flat together, with kinks, and far from zero."""
    rng, model, x = np.random.default_rng(4), dm.Model("unlike"), cp.Variable(3)
    for at in range(12):
        A, b = rng.normal(size=(8, 3)), rng.normal(size=8)
        kind = at % 4
        if kind == 1:
            A[:, 2] = A[:, 1]  # which says nothing of their difference
        if kind == 3:
            model.client(at, cp.sum(cp.logistic(cp.multiply(np.sign(b), A @ x + 0.1 * at))))
        else:
            kinks = cp.norm1(A @ x - b) if kind > 0 else 0.0
            model.client(at, cp.sum_squares(A @ x - b - 30.0 * at) / 50 + kinks)
    return model.compile()


def test_holds_of_many_are_those_of_each() -> None:
    compiled = _unlike()
    subs = [sub for sub in compiled.values() if not sub.client.is_server]
    known, rng = curvatures(subs, [None] * len(subs)), np.random.default_rng(1)
    bases = np.where(np.arange(len(subs))[:, None] % 3 > 0, rng.normal(size=(len(subs), 3)), 0.0)
    many = hold(subs, known, bases)
    for at, sub in enumerate(subs):
        one = hold([sub], [known[at]], bases[at : at + 1])
        for mine, alone in zip(many, one, strict=True):
            np.testing.assert_allclose(mine[at], alone[0], rtol=1e-13)


def test_a_hold_has_the_lengths_of_its_formula() -> None:
    """X = sqrt(E / h), M = E / X with E the largest h L^2, and a penalty of WEAK sqrt(h / 2)."""
    compiled = _unlike()
    sub = compiled[0]
    known = curvature(sub)
    found = hold([sub], [known], np.zeros((1, 3)))
    h, far = known.diagonal, np.abs(known.answer)
    energy = max(h * far**2)
    np.testing.assert_allclose(found.lengths[0], np.sqrt(energy / h), rtol=1e-12)
    np.testing.assert_allclose(found.slopes[0], np.sqrt(energy * h), rtol=1e-12)
    matrix, _ = sub.sides  # each side is one variable
    np.testing.assert_allclose(found.penalties[0], WEAK * np.sqrt(matrix @ h / 2), rtol=1e-12)


def test_doubts_of_many_are_those_of_each() -> None:
    compiled = _unlike()
    subs = [sub for sub in compiled.values() if not sub.client.is_server]
    known = curvatures(subs, [None] * len(subs))
    # Near where the quadratics end, where they began, and so far out that logistic losses are flat
    ways = np.resize([0.0, 300.0, 0.5, 300.0, 1.0], len(subs))
    answers = [way * one.answer for way, one in zip(ways, known, strict=True)]
    bases = [np.zeros(3) for _ in subs]
    many = doubts(subs, known, answers, bases)
    each = [
        doubts([s], [k], [a], [b]) for s, k, a, b in zip(subs, known, answers, bases, strict=True)
    ]
    for at, kind in enumerate(many._fields):
        assert set(many[at]) == {name for one in each for name in one[at]}, kind
    assert many.flat
    assert many.nearer.keys() == {3, 11}  # logistic, and beyond their quadratic models' minima
    dragged = is_dragged(known, np.stack(answers), np.stack(bases))
    assert dragged.any()
    assert not dragged.all()


def test_who_is_flat_together_is_found_among_many() -> None:
    compiled = _unlike()
    names = [at for at in range(12) if at % 4 != 3]
    subs = [compiled[at] for at in names]
    found = are_flat_together(subs)
    assert found.tolist() == [is_flat_together(sub) for sub in subs]
    # By the ranks of the data: two columns are the same in one of three
    assert found.tolist() == [at % 4 == 1 for at in names]
