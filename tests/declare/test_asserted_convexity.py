"""Asserted convexity, held against eigenvalues that are chosen here."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.transforms.indicator import indicator

import dald_model as dm

Case = Callable[[cp.Variable], cp.Expression]


def with_eigenvalues(values: np.ndarray) -> np.ndarray:
    """A dense symmetric matrix with these eigenvalues: a reflection of their diagonal."""
    v = np.arange(1.0, len(values) + 1)
    mirror = np.eye(len(values)) - 2 * np.outer(v, v) / (v @ v)
    found = mirror @ np.diag(values) @ mirror
    return (found + found.T) / 2


def nsd_wrap(matrix: np.ndarray) -> cp.Expression:
    """A matrix that is asserted to be negative semidefinite."""
    return -cp.psd_wrap(-matrix)


INDEFINITE = with_eigenvalues(np.array([3.0, -0.25]))
REFUSED: dict[str, Case] = {
    "wrapped": lambda x: cp.quad_form(x, cp.psd_wrap(INDEFINITE)),
    "assumed": lambda x: cp.quad_form(x, INDEFINITE, assume_PSD=True),
    "sparse": lambda x: cp.quad_form(x, cp.psd_wrap(cp.Constant(sp.csc_array(INDEFINITE)))),
    "written as a product": lambda x: x.T @ cp.psd_wrap(INDEFINITE) @ x,
    "of an affine part": lambda x: cp.quad_form(np.eye(2) @ x - 1, cp.psd_wrap(INDEFINITE)),
    "sum of matrices": lambda x: cp.quad_form(x, cp.psd_wrap(INDEFINITE) + np.eye(2) / 8),
    "inside a maximum": lambda x: cp.maximum(0, cp.quad_form(x, cp.psd_wrap(INDEFINITE)) - 1),
    "sum of several": lambda x: cp.norm1(x) + 3 * cp.quad_form(x, cp.psd_wrap(INDEFINITE)),
    "minus a concave one": lambda x: -cp.quad_form(x, nsd_wrap(-INDEFINITE)),
    "of a perspective": lambda x: cp.perspective(
        cp.quad_form(x, cp.psd_wrap(INDEFINITE)), cp.Variable(nonneg=True)
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrapped_matrix_with_a_negative_eigenvalue_is_refused(case: str) -> None:
    """Naming client, form and eigenvalue."""
    x, model = cp.Variable(2, name="x"), dm.Model("wrapped")
    with pytest.raises(dm.DeclarationError, match=r"client 'b': quad_form\(.* is not") as caught:
        model.client("b", REFUSED[case](x))
    least = -0.125 if case == "sum of matrices" else 0.25 if "concave" in case else -0.25
    assert f"eigenvalue is {least:.3g} " in str(caught.value)
    assert "np.linalg.eigh" in str(caught.value)
    assert not model.clients


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_the_verdict_does_not_depend_on_units(scale: float) -> None:
    """Of a plain form cvxpy takes any matrix below 1e-10 for semidefinite."""
    x = cp.Variable(2, name="x")
    for share, is_fine in ((-1e-3, False), (-1e-8, False), (-1e-10, True), (0.0, True)):
        P = scale * with_eigenvalues(np.array([1.0, share]))
        forms = [cp.quad_form(x, cp.psd_wrap(P))]
        if scale < 1e-10:
            forms.append(cp.quad_form(x, P))
        for form in forms:
            if is_fine:
                dm.Model().client("a", form)
            else:
                with pytest.raises(dm.DeclarationError, match="least eigenvalue"):
                    dm.Model().client("a", form)


def test_singular_and_rounded_matrices_pass_and_are_solved() -> None:
    """A Gram matrix of rank 2 in 5 variables, whose zero eigenvalues are slightly negative."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(2, 5)), np.array([1.0, -2.0])
    P = A.T @ A - 1e-12 * np.eye(5)
    assert np.linalg.eigvalsh(P)[0] < 0
    x, model = cp.Variable(5, name="x"), dm.Model("singular")
    model.client("a", cp.quad_form(x, cp.psd_wrap(P)) - 2 * (b @ A) @ x)
    model.client("b", cp.sum_squares(x))
    result = model.solve()
    expected = np.linalg.solve(A.T @ A + np.eye(5), A.T @ b)
    np.testing.assert_allclose(result["x"], expected, atol=1e-4)
    assert result.verify().ok


@pytest.mark.parametrize("size", [1, 2, 499, 520])
@pytest.mark.parametrize("is_concave", [False, True])
def test_every_size(size: int, is_concave: bool) -> None:
    """By Gershgorin, eigenvalues or a factorisation."""
    x, sign, wrap = (
        cp.Variable(size),
        -1 if is_concave else 1,
        nsd_wrap if is_concave else cp.psd_wrap,
    )
    goal = cp.Maximize if is_concave else cp.Minimize
    for least, is_fine in ((0.0, True), (-1e-10, True), (-1e-7, False)):
        values = np.linspace(least, 2.0, size) if size > 1 else np.array([least])
        P = sign * with_eigenvalues(values)
        if is_fine and (size > 1 or least == 0):
            dm.Model().client("a", goal(cp.quad_form(x, wrap(P))))
        else:
            which = "largest" if is_concave else "least"
            with pytest.raises(
                dm.DeclarationError, match=f"its {which} eigenvalue is {-least * -sign:.2g}"
            ):
                dm.Model().client("a", goal(cp.quad_form(x, wrap(P))))


def test_one_that_is_maximised() -> None:
    """The negative of what is asserted convex is what is asserted concave."""
    x, model = cp.Variable(2, name="x"), dm.Model("maximised")
    for wrong in (
        -cp.quad_form(x, cp.psd_wrap(INDEFINITE)),
        cp.quad_form(x, nsd_wrap(INDEFINITE)),
    ):
        with pytest.raises(dm.DeclarationError, match="client 'a': quad_form"):
            model.client("a", cp.Maximize(wrong))
    model.client("a", cp.Maximize(-cp.quad_form(x - 1, cp.psd_wrap(np.ones((2, 2))))))
    model.client("b", cp.Maximize(cp.quad_form(x, nsd_wrap(-np.eye(2)))))
    np.testing.assert_allclose(model.solve()["x"], [2 / 3, 2 / 3], atol=1e-4)


def test_constraints_couplings_and_sets() -> None:
    """Wherever a form stands; a coupling is named as one."""
    x, y, model = cp.Variable(2, name="x"), cp.Variable(2, name="y"), dm.Model("everywhere")
    form = cp.quad_form(x, cp.psd_wrap(INDEFINITE))
    with pytest.raises(dm.DeclarationError, match="client 'a': quad_form"):
        model.client("a", cp.sum(x), [form <= 1])
    model.client("a", cp.sum_squares(x))
    model.client("b", cp.sum_squares(y - 1))
    apart = cp.quad_form(x - y, cp.psd_wrap(INDEFINITE))
    with pytest.raises(dm.DeclarationError, match="coupling 'near': quad_form"):
        model.couple(apart <= 1, name="near")
    with pytest.raises(dm.DeclarationError, match="coupling 'near': quad_form"):
        model.couple(objective=apart, name="near")
    with pytest.raises(dm.DeclarationError, match="client 'c': quad_form"):
        model.client("c", indicator([form <= 1]) + cp.sum_squares(x))
    model.consensus(x == y)
    np.testing.assert_allclose(model.solve()["x"], [0.5, 0.5], atol=1e-4)


def test_decompose_sites_and_clients_that_are_alike() -> None:
    """By whatever door a client comes."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    wrong = cp.quad_form(y, cp.psd_wrap(INDEFINITE))
    with pytest.raises(dm.DeclarationError, match="client 'client 1': quad_form"):
        dm.decompose(cp.Problem(cp.Minimize(cp.sum_squares(x) + wrong), [x == y]))
    with pytest.raises(dm.DeclarationError, match="client 'hospital': quad_form"):
        dm.Site("hospital", wrong, shared=[y])
    data = {"good": np.eye(2), "bad": INDEFINITE}
    with pytest.raises(dm.DeclarationError, match="client 'bad': quad_form"):
        dm.Model().clients(data, lambda P: cp.quad_form(y, cp.psd_wrap(P)))


def test_a_parameter_is_refused_before_it_has_a_value() -> None:
    """No matrix of a form is a Parameter, so none becomes indefinite later; a weight may be one."""
    x, P = cp.Variable(2, name="x"), cp.Parameter((2, 2), name="P")
    weight, model = cp.Parameter(nonneg=True, name="weight"), dm.Model("parameters")
    with pytest.raises(
        dm.DeclarationError, match=r"client 'a': .* not DPP in its Parameters \['P'\]"
    ):
        model.client("a", cp.quad_form(x, cp.psd_wrap(P)))
    with pytest.raises(dm.DeclarationError, match="client 'a': quad_form"):
        model.client("a", weight * cp.quad_form(x, cp.psd_wrap(INDEFINITE)))
    model.client("a", weight * cp.quad_form(x - 1, cp.psd_wrap(np.ones((2, 2)))))
    model.client("b", cp.sum_squares(x))
    weight.value = 0.5
    np.testing.assert_allclose(model.solve()["x"], [0.5, 0.5], atol=1e-4)
