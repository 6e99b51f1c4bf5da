"""Refusals with a way out: integers, couplings that are not DCP or have no end."""

import cvxpy as cp
import pytest

import dald_model as dm
from tests.expect import says


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("integer", "client 'client 0': variable 'k' is integer, expected real and continuous; "
         "relax it"),
        ("boolean", "client 'client 0': variable 'k' is boolean, expected real and continuous; "
         "relax it"),
    ],
)  # fmt: skip
def test_integers_are_refused_with_a_way_out(kind: str, said: str) -> None:
    x, k = cp.Variable(name="x"), cp.Variable(name="k", **{kind: True})
    problem = cp.Problem(cp.Minimize(cp.square(x - k) + cp.square(k - 0.3)))
    with pytest.raises(dm.DeclarationError) as caught:
        problem.solve(method="dald")
    assert str(caught.value).startswith(said)
    says(caught.value, "bounds instead of boolean")


def test_a_coupling_that_is_not_dcp_is_refused_with_a_way_out() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    with pytest.raises(dm.DeclarationError) as caught:
        model.couple(cp.norm(x - y) >= 1, name="apart")
    assert str(caught.value) == (
        "coupling 'apart': constraint 0, 1.0 <= norm(x - y, 2), does not follow cvxpy's "
        "DCP rules: norm(x - y, 2) is convex, expected concave; write it as convex <= concave or "
        "affine == affine"
    )


def test_a_coupling_without_end_says_what_to_add() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x))
    model.client("b", 0 * y, [y >= 0])
    model.couple(objective=-y - x, name="gain")
    result = model.solve()
    assert result.status == "unbounded"
    assert result.culprit == "gain"
    assert result.detail == (
        "the objective falls without bound along a direction on which all clients agree; it falls "
        "fastest at client 'gain'; add a constraint or a regulariser"
    )
