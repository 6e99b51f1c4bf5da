"""Step methods: exact minimisers of many quadratics, by closed forms, certificates and peers."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from dald_model.compile.form import Form, Term
from dald_model.compile.kinds import named
from dald_model.solvers.exact.active_set import MISSED, ActiveSet
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton
from tests.solvers.quadratics import (
    form,
    hessians,
    residual,
    run,
    units,
    values,
)

TIGHT = 1e-10
"""Relative optimality residual of what counts as working accuracy, as the methods promise."""


def test_refusals_say_what_is_in_the_way() -> None:
    below, equal = (np.eye(3), np.ones(3)), (np.ones((1, 3)), [1.0])
    absolute = values(np.eye(3), np.ones(3))
    norm = Term(named("norm"), np.ones(1), np.eye(3), np.zeros(3), np.zeros(1), 3)
    smooth = Term(named("logistic"), np.ones(3), np.eye(3), np.zeros(3), np.zeros(3))
    for kind, rows in ((Factor, None), (ActiveSet, below)):
        assert kind.refuses(form(3, None, rows, [smooth])) == ""
        assert kind.refuses(form(3, None, rows, [smooth, norm])) == "it has non-smooth terms (norm)"
    assert ActiveSet.refuses(form(3)) == "it has no rows"
    assert SemismoothNewton.refuses(form(3)) == "it has neither rows nor terms without a gradient"
    assert Factor.refuses(form(3, equal)) == ActiveSet.refuses(form(3, equal, below)) == ""
    assert Factor.refuses(form(3, None, below)) == "it has 3 rows of inequalities"
    assert Factor.refuses(form(3, terms=[absolute])) == "it has non-smooth terms (abs)"
    assert ActiveSet.refuses(form(3, equal, terms=[absolute])) == "it has non-smooth terms (abs)"


@pytest.mark.parametrize("size", [5, 30])
def test_the_lasso_is_that_of_sklearn(size: int) -> None:
    rng = np.random.default_rng(50)
    data, alpha = rng.normal(size=(100, size)), 0.2
    target = data[:, : size // 2] @ rng.normal(size=size // 2) + 0.1 * rng.normal(size=100)
    peer = Lasso(alpha, fit_intercept=False, tol=1e-15, max_iter=100_000).fit(data, target)
    H, c = data.T @ data / 100, -data.T @ target / 100
    given = form(size, terms=[values(np.eye(size), np.full(size, alpha))])
    _, step = run(SemismoothNewton, [given], H[None], c[None])
    np.testing.assert_allclose(step.points[0], peer.coef_, rtol=1e-7, atol=1e-8)
    assert ((step.points[0] == 0) == (peer.coef_ == 0)).all()
    assert (step.points[0] == 0).any()


def test_soft_thresholding_is_exact() -> None:
    t, w, b = np.array([3.0, -3, 0.5, 1, 0]), np.array([1.0, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 2])
    given = form(5, terms=[values(2 * np.eye(5), w, b)])
    _, step = run(SemismoothNewton, [given], np.eye(5)[None], -t[None])
    np.testing.assert_allclose(step.points, [[1, -1, 0, 0, -1]], rtol=1e-14, atol=1e-14)
    assert step.points[0, 2] == 0
    assert step.points[0, 4] == -1


@pytest.mark.parametrize("decades", [0, 9])
@pytest.mark.parametrize("weight", [1e-4, 1.0, 1e4])
def test_absolute_values_whatever_the_units(decades: float, weight: float) -> None:
    rng = np.random.default_rng(51)
    H = hessians(rng, 5, 12, decades)
    D, c = units(H), rng.normal(size=(5, 12)) / units(H)
    # Each value in the units of its variable
    forms = [
        form(12, terms=[values(np.diag(1 / D[i]), np.full(12, weight), rng.normal(size=12))])
        for i in range(5)
    ]
    _, step = run(SemismoothNewton, forms, H, c)
    for i in range(5):
        assert of_absolute_values(forms[i], H[i], c[i], step.points[i]) <= TIGHT


def of_absolute_values(given: Form, H: np.ndarray, c: np.ndarray, x: np.ndarray) -> float:
    """How far 0 is from the subdifferential, in units in which H has a diagonal of ones.

    A is square and regular, so that the subgradient is known.
    """
    (term,), D = given.terms, units(H)
    inside = term.matrix @ x + term.offset
    s = np.linalg.solve((term.matrix * D).T, -(H @ x + c) * D)
    at_kink = np.abs(inside) <= 1e-12 * (np.abs(term.matrix) @ np.abs(x) + np.abs(term.offset))
    off = np.where(
        at_kink, np.maximum(np.abs(s) - term.weight, 0), s - np.sign(inside) * term.weight
    )
    back = np.abs(D * (term.matrix.T @ off)).max()
    return back / max(np.abs(D * c).max(), np.abs(x / D).max(), np.abs(term.weight).max())


def program(rng: np.random.Generator, D: np.ndarray, counts: Sequence[int], reach: float) -> Form:
    """Random rows, many of which hold with equality at one point that all of them allow."""
    equalities, rows, bounds = counts
    size = D.size
    simple = np.zeros((bounds, size))
    simple[range(bounds), rng.integers(size, size=bounds)] = rng.choice([-2.0, 1.0], bounds)
    A = np.vstack([simple, rng.normal(size=(rows, size)) / D])[rng.permutation(bounds + rows)]
    E, inside = rng.normal(size=(equalities, size)) / D, reach * rng.normal(size=size) * D
    room = reach * rng.choice([0.0, 1.0], bounds + rows) * (np.abs(A) @ D)
    return form(size, (E, E @ inside), (A, A @ inside + room))


PROGRAMS = {
    "seed": st.integers(0, 2**32 - 1),
    "size": st.integers(1, 8),
    "counts": st.tuples(st.integers(0, 3), st.integers(0, 10), st.integers(0, 10)).filter(any),
    "decades": st.sampled_from([0, 3, 9]),
    "reach": st.sampled_from([0.0, 1e-6, 1.0, 1e4]),
}


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(**PROGRAMS)
def test_random_programs_fulfil_their_optimality_conditions(
    seed: int, size: int, counts: tuple[int, int, int], decades: float, reach: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = (min(counts[0], size - 1), *counts[1:])
    assume(any(counts))
    H = hessians(rng, 2, size, decades)
    c = rng.normal(size=(2, size)) / units(H)
    forms = [program(rng, units(h), counts, reach) for h in H]
    method, step = run(ActiveSet, forms, H, c)
    for again in (step, method.solve(np.arange(2), c)):
        assert max(residual(forms[i], H[i], c[i], again, i) for i in range(2)) <= TIGHT


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(**PROGRAMS)
def test_an_answer_is_right_or_said_to_be_none(
    seed: int, size: int, counts: tuple[int, int, int], decades: float, reach: float
) -> None:
    # Rows in units other than those of the variables: all but parallel where it counts
    rng = np.random.default_rng(seed)
    H = hessians(rng, 2, size, decades)
    c = 10.0 ** rng.uniform(-4, 5) * rng.normal(size=(2, size)) / units(H)
    forms = [program(rng, np.ones(size), counts, reach) for _ in H]
    method = ActiveSet(forms)
    method.factor(np.arange(2), H)
    step = method.solve(np.arange(2), c)
    for i in np.flatnonzero(~step.failed):
        # Rounding apart it is the same measure
        assert residual(forms[i], H[i], c[i], step, int(i)) <= 1.001 * MISSED
