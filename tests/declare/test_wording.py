"""What is printed of an expression is what a user types: Python reads it, and the values agree."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from dald_model.declare.wording import short, symbolic

x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
t, u = cp.Variable(name="t"), cp.Variable(nonneg=True, name="u")
S = cp.Variable((2, 2), symmetric=True, name="S")
A, c = cp.Parameter((4, 3), name="A"), cp.Parameter(4, name="c")
Q = cp.Parameter((3, 3), PSD=True, name="Q", value=np.eye(3) + 1)

EXPRESSIONS = [
    cp.sum_squares(A @ x - c) / 4 + 0.1 * cp.norm1(x),
    cp.sum_squares(c - A @ (x + y) + t) - cp.sum(cp.log(u + 1)),
    3 * cp.square(t - (u - 2 * t)) - (t - 1) / (2 + 1),
    cp.sum(cp.logistic(cp.multiply(-c, A @ x))) / 7,
    cp.sum(cp.multiply(t, A @ x)) - t * 2,
    cp.sum(cp.huber(A @ x - c, 2)),
    cp.norm(x) + cp.norm(x, "inf") + cp.pnorm(y, 3),
    cp.sum_largest(x, 2) + cp.max(y) - cp.min(x) + cp.cvar(A @ x, 0.5),
    cp.maximum(x[0], 0, y[1:][0]) + (A @ x)[2] + (x + y)[0] + x[[0, 2]] @ y[:2],
    cp.quad_over_lin(x - y, u + 1) + cp.quad_form(x, Q),
    cp.power(u, 3) + cp.inv_pos(u + 1) + cp.sqrt(u),
    cp.sum(cp.abs(cp.hstack([x, t, 1])) + cp.concatenate([y, c[:2]])),
    cp.sum(cp.vstack([x, y]), axis=0) @ A[0],
    cp.trace(2 * S.T) + cp.normNuc(S) + cp.lambda_max(S),
    cp.tv(x) + cp.norm1(cp.diff(y)) + cp.mean(x) - cp.sum(x.T),
    cp.log_sum_exp(x) + cp.sum(cp.kl_div(u, 2)) + cp.sum(cp.exp(y) / 2),
    -(x[0] + t) + cp.geo_mean(cp.hstack([u, u + 1])),
]
RULES = [
    cp.norm(x) <= 3 - t,
    A @ x - c == 0,
    x >= -5,
    cp.sum(cp.hstack([x, y])) == 2 * t,
]


def read(text: str) -> Any:
    public = {name: value for name, value in vars(cp).items() if not name.startswith("_")}
    mine = {one.name(): one for one in (x, y, t, u, S, A, c, Q)}
    return eval(text, public | mine)


def test_there_is_nothing_of_cvxpys_making_in_the_text() -> None:
    for part in (*EXPRESSIONS, *RULES):
        for made in ("Promote", "None, False", "Approx", "quad_over_lin(A", "+ -("):
            assert made not in short(part, 1000)


@pytest.mark.parametrize("part", [*EXPRESSIONS, *RULES], ids=lambda part: short(part, 40))
def test_the_text_of_an_expression_has_its_value(part: Any) -> None:
    draw = np.random.default_rng(3)
    A.value, c.value = draw.normal(size=(4, 3)), draw.normal(size=4)
    again = read(short(part, 1000))
    for _ in range(3):
        for v in (x, y, t):
            v.value = draw.normal(size=v.shape)
        u.value, S.value = draw.random(), (lambda M: M + M.T)(draw.normal(size=(2, 2)))
        if isinstance(part, cp.Constraint):
            assert type(again) is type(part)
            assert again.violation() == pytest.approx(part.violation(), rel=1e-12, abs=1e-12)
        else:
            assert again.value == pytest.approx(part.value, rel=1e-9)


def test_data_are_named_by_their_shapes_and_variables_as_they_are_called() -> None:
    data = np.ones((4, 3))
    loss = cp.sum_squares(data @ x - data[:, 0] + 2)
    assert symbolic(loss, {x.id: "w"}) == "sum_squares([4x3] @ w - [4] + 2.0)"
    assert symbolic(cp.quad_form(x, np.eye(3))) == "quad_form(x, [3x3])"
    assert symbolic(cp.suppfunc(x, [cp.norm(x) <= 1])(y)) == "SuppFuncAtom(y)"
    assert short(cp.sum(x[[0, 1, 2, 1, 0]] - 1)) == "sum(x[5 entries] + -1.0)"
    assert short(cp.Maximize(t - 1)) == "maximize t - 1.0"
    assert short(S >> 0) == "S >> 0"
    assert short(cp.SOC(t, x)) == "SOC(t, x)"
