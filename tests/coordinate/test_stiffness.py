"""How stiff objectives are over a length, against closed forms."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.scaling.stiffness import probed


def stiffness(objective: cp.Expression, at: float, length: float) -> float:
    """Of an objective of the one variable in it, beside another client."""
    (x,) = objective.variables()
    model = dm.Model()
    model.client("probed", objective)
    model.client("other", cp.square(x - 1))
    sub = model.compile()["probed"]
    return float(probed(sub, np.array([at]), np.array([length]), np.zeros(1))[0][0])


def test_a_quadratic_is_as_stiff_as_its_second_derivative_over_any_length() -> None:
    x = cp.Variable()
    for length in (1e-3, 1.0, 1e3):
        assert stiffness(1.5 * cp.square(x - 2), 2.0, length) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("at", [1e-3, 1e-6, 1e-9])
def test_a_singularity_where_it_begins_does_not_count(at: float) -> None:
    """1 / x falls by 1 from 1/2 to 1; a quadratic that does has 3/8 of its curvature for it."""
    assert stiffness(cp.inv_pos(cp.Variable()), at, 1.0) == pytest.approx(8 / 3, rel=1e-2)


@pytest.mark.parametrize("centre", [1e2, 1e4, 1e6])
def test_one_client_alone_has_a_minimiser(centre: float) -> None:
    """Of (w - c)^2 - w the minimum is at c + 1/2, far from zero."""
    w, model = cp.Variable(name="w"), dm.Model()
    model.client("curved", cp.square(w - centre))
    model.client("straight", -w)
    result = model.solve()
    assert result.status == "optimal"
    assert result["w"] - centre == pytest.approx(0.5, abs=1e-6)


def makers(price: float, count: int = 70) -> dm.Model:
    """Many who make what is sent at costs |g|, a priced want, and who receives it."""
    made, want = cp.Variable(count, name="made"), cp.Variable(name="want", nonneg=True)
    sent = cp.Variable(name="sent")
    model = dm.Model()
    cost = cp.norm1(made) + cp.sum_squares(made) + price * want
    model.client("makers", cost, [cp.sum(made) == sent + 1 - want])
    model.client("other", cp.square(sent - 3))
    return model


@pytest.mark.parametrize("price", [1e1, 1e3, 1e5])
def test_variables_are_probed_by_themselves_where_rows_carry_their_costs(price: float) -> None:
    """|g| + g^2 rises by L + L^2 over L: that is as stiff as 2 + 2 / L. In means all are alike."""
    sub = makers(price).compile()["makers"]
    length = 0.5
    found = probed(sub, np.zeros(sub.size), np.full(sub.size, length), np.zeros(sub.size))[0]
    made, want, sent = sub.spread(found).values()
    assert made == pytest.approx(2 + 2 / length)
    assert want == pytest.approx(2 * price / length)
    assert sent == 0
