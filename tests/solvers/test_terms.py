"""Terms of many clients that are met again with other numbers."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from dald_model.compile.form import Term
from dald_model.compile.kinds import ABSOLUTE, named
from dald_model.solvers.arrays.terms import Terms
from tests.solvers.smooth_terms import BOUND, SMOOTH, expression, make_term, random_form


@pytest.mark.parametrize("moved", ["weights", "offsets", "matrices"])
def test_terms_that_are_met_again_have_the_values_of_their_numbers(moved: str) -> None:
    """The sums of w |A x + b|, whatever of them is another; those before keep their own."""
    rng = np.random.default_rng(0)
    count, rows, size = 3, 4, 5
    first = [[Term(ABSOLUTE, *_numbers(rng, rows, size), np.zeros(rows))] for _ in range(count)]
    second = []
    for (term,) in first:
        weight, matrix, offset = _numbers(rng, rows, size)
        change = {"weights": {"weight": weight}, "offsets": {"offset": offset}}
        second.append([term._replace(**change.get(moved, {"matrix": matrix, "weight": weight}))])
    terms = Terms(first, size)
    others = terms.again(second)
    which, x = np.array([2, 0]), rng.normal(size=(2, size))
    for found, own in ((others, second), (terms, first)):
        expected = [
            own[at][0].weight @ np.abs(own[at][0].matrix @ point + own[at][0].offset)
            for at, point in zip(which, x, strict=True)
        ]
        np.testing.assert_allclose(found.values(which, x), expected, rtol=1e-13)


def _numbers(
    rng: np.random.Generator, rows: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.uniform(1, 2, rows), rng.normal(size=(rows, size)), rng.normal(size=rows)


@pytest.mark.parametrize("kind", [*SMOOTH, "abs", "norm"])
def test_terms_agree_with_cvxpys_atoms(kind: str) -> None:
    rng = np.random.default_rng(1)
    matrix, x = rng.standard_normal((2, 12, 4)), rng.standard_normal((2, 4))
    terms = []
    for i in range(2):
        offset = rng.standard_normal(12)
        if named(kind).is_positive:
            offset = 0.1 + rng.random(12) - matrix[i] @ x[i]
        weight = 0.5 + rng.random(4 if kind in ("logsumexp", "norm") else 12)
        terms.append(make_term(kind, matrix[i], offset, weight))
    stacked = Terms([[term] for term in terms], 4)
    both = np.arange(2)
    for i, term in enumerate(terms):
        variable = cp.Variable(4, value=x[i])
        right = expression(term, variable)
        one = np.array([i])
        assert stacked.values(both, x)[i] == pytest.approx(right.value, rel=1e-13)
        if term.is_smooth:
            slope = right.grad[variable].toarray()[:, 0]
            np.testing.assert_allclose(stacked.gradients(both, x)[i], slope, rtol=1e-12, atol=1e-13)
            hessian = stacked.hessians(both, x)[i]
            step = 1e-5  # the error of central differences is of order step^2, and 1e-16 / step
            for j, unit in enumerate(step * np.eye(4)):
                change = stacked.gradients(one, x[one] + unit) - stacked.gradients(
                    one, x[one] - unit
                )
                np.testing.assert_allclose(
                    hessian[j], change[0] / (2 * step), atol=1e-7 * np.abs(hessian).max()
                )
        else:
            assert stacked.kinks(both, x)[i] == pytest.approx(right.value, rel=1e-13)


@pytest.mark.parametrize("density", [0.03, 0.5])
@pytest.mark.parametrize("kind", SMOOTH)
def test_sparse_matrices_give_the_same(kind: str, density: float) -> None:
    rng = np.random.default_rng(2)
    dense = [rng.standard_normal((60, 8)) * (rng.random((60, 8)) < density) for _ in range(3)]
    offset = 8 + rng.standard_normal(60)
    full = Terms([[make_term(kind, a, offset)] for a in dense], 8)
    thin = Terms([[make_term(kind, sp.csr_array(a), offset)] for a in dense], 8)
    assert (thin.bytes == 0) == (density < 0.1)
    x, which = 0.3 * rng.standard_normal((2, 8)), np.array([2, 0])
    for name in ("values", "gradients", "hessians"):
        found, right = getattr(thin, name)(which, x), getattr(full, name)(which, x)
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12 * np.abs(right).max())


def test_huge_and_tiny_arguments_are_safe() -> None:
    def at(kind: str, *u: float) -> tuple[float, np.ndarray, np.ndarray]:
        terms = Terms([[make_term(kind, np.eye(len(u)))]], len(u))
        one, x = np.array([0]), np.array([u])
        return terms.values(one, x)[0], terms.gradients(one, x)[0], terms.hessians(one, x)[0]

    value, slope, hessian = at("logistic", 800, -800)
    assert value == 800
    np.testing.assert_allclose(slope, [1, 0], atol=1e-300)
    assert np.abs(hessian).max() < 1e-300
    value, slope, hessian = at("logsumexp", 1e4, 1e4, -1e4)
    assert value == pytest.approx(1e4 + np.log(2), rel=1e-15)
    np.testing.assert_allclose(slope, [0.5, 0.5, 0])
    np.testing.assert_allclose(hessian[:2, :2], [[0.25, -0.25], [-0.25, 0.25]])
    value, slope, _ = at("huber", 1e300, -BOUND / 2)
    assert value == pytest.approx(BOUND * 1e300)
    np.testing.assert_allclose(slope, [BOUND, -BOUND / 2])
    value, slope, hessian = at("entropy", 1e-300, 1.0)
    assert value == pytest.approx(0, abs=1e-290)
    np.testing.assert_allclose(slope, [1 - 300 * np.log(10), 1])
    np.testing.assert_allclose(np.diag(hessian), [1e300, 1])
    assert at("entropy", 0.0)[0] == 0
    for kind, u in (("entropy", -1e-9), ("log", 0.0), ("log", -1.0), ("exp", 1000.0)):
        assert at(kind, u)[0] == np.inf


def test_a_part_of_evenly_spaced_clients_shares_their_matrices() -> None:
    rng = np.random.default_rng(3)
    terms = Terms([random_form("exp", rng).terms for _ in range(6)], 4)
    whole = terms.part(np.arange(6))._stacks[0].matrix
    for which in (np.arange(2, 5), np.array([1, 3, 5]), np.array([4])):
        assert np.shares_memory(terms.part(which)._stacks[0].matrix.full, whole.full)
