r"""Norms and balls by semismooth Newton steps, against closed forms and cvxpy.

How far a point may be from the minimiser is the tolerance itself: the method promises an error of
at most that in every variable, relative to max(1, its size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile.form import Form, Quadratic, Rows, Term
from dald_model.compile.kinds import named
from dald_model.solvers import NAMED, Choice, SemismoothNewton, Turn
from dald_model.values import flat
from tests.duals import duals

M = 6
EVERYONE = np.arange(1)


def term(
    kind: str,
    columns: Sequence[int],
    *,
    width: int = 1,
    weight: Any = 1.0,
    factors: Any = 1.0,
    centre: Any = 0.0,
    bound: Any = 0.0,
    size: int = M,
) -> Term:
    """A term of single variables: arguments ``factors * (x[columns] - centre)``."""
    rows = len(columns)
    factor, middle = np.broadcast_to(factors, rows), np.broadcast_to(centre, rows)
    matrix = sp.csr_array((factor.astype(float), (np.arange(rows), columns)), shape=(rows, size))
    count = rows // width
    return Term(
        named(kind),
        np.broadcast_to(np.asarray(weight, float), count).copy(),
        matrix.toarray(),
        -factor * middle,
        np.broadcast_to(np.asarray(bound, float), count).copy(),
        width,
    )


def make_form(*terms: Term, size: int = M, rows: Any = None) -> Form:
    none = Rows(np.zeros((0, size)), np.zeros(0))
    quadratic = Quadratic(np.zeros((size, size)), np.zeros(size), 0.0)
    return Form(size, quadratic, none, rows or none, terms, True, lambda: cast(Any, None))


def solve(form: Form, H: np.ndarray, c: np.ndarray, tolerance: float = 1e-10) -> Any:
    method = SemismoothNewton([form])
    assert not method.factor(EVERYONE, H[None].copy()).any()
    return method.solve(EVERYONE, c[None], tolerance)


def expression(form: Form, x: cp.Variable) -> tuple[Any, list[Any]]:
    """The terms for cvxpy."""
    cost, rules = cp.Constant(0.0), []
    for one in form.terms:
        u = one.matrix @ x + one.offset
        for at, (weight, bound) in enumerate(zip(one.weight, one.parameter, strict=True)):
            size = cp.norm(u[at * one.width : (at + 1) * one.width])
            if one.kind.name == "ball":
                rules.append(size <= bound)
            else:
                cost = cost + weight * size
    return cost, rules


def hessian(rng: np.random.Generator, condition: float, size: int = M) -> np.ndarray:
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return (Q * np.geomspace(1, condition, size)) @ Q.T


def closed(c: np.ndarray, diagonal: np.ndarray, one: Term) -> np.ndarray:
    """The minimiser for a diagonal H that is constant in every group."""
    x = -c / diagonal
    for at in range(one.weight.size):
        rows = slice(at * one.width, (at + 1) * one.width)
        picked = np.abs(one.matrix[rows]).argmax(axis=1)
        factor = one.matrix[rows][np.arange(one.width), picked]
        centre = -one.offset[rows] / factor
        away = x[picked] - centre
        size = np.linalg.norm(away)
        scale = abs(factor[0])
        if one.kind.name == "ball":
            share = min(1.0, one.parameter[at] / scale / size)
        else:
            share = max(0.0, 1 - one.weight[at] * scale / diagonal[picked[0]] / size)
        x[picked] = centre + share * away
    return x


TERMS: dict[str, Callable[[], Term]] = {
    "abs": lambda: term("abs", range(M), weight=[0.1, 0.5, 1, 2, 5, 0.3]),
    "abs scaled and shifted": lambda: term(
        "abs", [4, 0, 2], weight=[0.1, 0.7, 2], factors=[-3, 0.5, 1], centre=[1, -2, 0.2]
    ),
    "one norm": lambda: term("norm", range(M), width=M, weight=0.8),
    "norms": lambda: term("norm", [5, 0, 3, 1], width=2, weight=[0.3, 30]),
    "norms scaled and shifted": lambda: term(
        "norm",
        [5, 0, 3, 1],
        width=2,
        weight=[0.3, 2],
        factors=[2, -2, 0.5, 0.5],
        centre=[1, 2, 3, 4],
    ),
    "ball": lambda: term("ball", range(M), width=M, bound=0.6),
    "balls": lambda: term("ball", [1, 2, 4, 3], width=2, bound=[0.2, 100.0]),
    "balls scaled and shifted": lambda: term(
        "ball", [1, 2, 4, 3], width=2, bound=[0.2, 1.5], factors=[-4, 4, 3, 3], centre=[1, 0, -1, 2]
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_prox_is_its_closed_form(name: str) -> None:
    rng = np.random.default_rng(1)
    one = TERMS[name]()
    form = make_form(one)
    assert SemismoothNewton.refuses(form) == ""
    for scale in (1.0, 1e-3, 1e3):
        diagonal = np.full(M, scale)
        for _ in range(5):
            c = scale * rng.normal(size=M) * 2
            step = solve(form, np.diag(diagonal), c, 1e-12)
            answer = closed(c, diagonal, one)
            np.testing.assert_allclose(step.points[0], answer, atol=1e-11, rtol=1e-11)
            assert step.energy[0] == pytest.approx(scale * answer @ answer, rel=1e-9, abs=1e-12)


def test_a_group_that_is_shrunk_is_exactly_at_its_centre() -> None:
    form = make_form(term("norm", [0, 1, 2], width=3, weight=50, centre=[1.0, -2, 0.1]))
    step = solve(form, hessian(np.random.default_rng(2), 10), np.ones(M))
    np.testing.assert_allclose(step.points[0, :3], [1.0, -2, 0.1], rtol=1e-15)


MIXED = [
    lambda: make_form(TERMS["abs"]()),
    lambda: make_form(TERMS["norms scaled and shifted"]()),
    lambda: make_form(TERMS["balls scaled and shifted"]()),
    lambda: make_form(
        term("abs", [0, 3], weight=[0.5, 2], centre=1),
        term("norm", [1, 2], width=2, weight=0.7, factors=[2, -2]),
        term("ball", [4, 5], width=2, bound=0.4, centre=[0.3, -0.3]),
    ),
]


@pytest.mark.parametrize("condition", [1.0, 30.0, 3000.0])
@pytest.mark.parametrize("which", range(len(MIXED)))
def test_mixed_groups_have_the_answer_of_cvxpy(which: int, condition: float) -> None:
    rng = np.random.default_rng(which)
    form = MIXED[which]()
    H, c = hessian(rng, condition), 3 * rng.normal(size=M)
    step = solve(form, H, c)
    x = cp.Variable(M)
    cost, rules = expression(form, x)
    problem = cp.Problem(cp.Minimize(cp.quad_form(x, cp.psd_wrap(H)) / 2 + c @ x + cost), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    # Modulus 1: two points whose objectives are within gap differ by the root of twice the gap
    gap = 1e-10 * max(1, abs(float(cast(Any, problem.value))))
    np.testing.assert_allclose(step.points[0], flat(x.value), atol=2 * np.sqrt(2 * gap))
    duals = [float(flat(rule.dual_value)[0]) for rule in rules]
    if duals:
        np.testing.assert_allclose(step.balls[0], duals, atol=1e-3)


def exact(form: Form, H: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The same method, to rounding: what it is measured against was checked above."""
    return solve(form, H, c, 0.0).points[0]


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("which", range(len(MIXED)))
def test_the_error_is_at_most_the_tolerance(which: int, tolerance: float) -> None:
    rng = np.random.default_rng(20 + which)
    form = MIXED[which]()
    for condition in (1.0, 10.0, 1e3):
        for scales in (np.ones(M), np.geomspace(1e-3, 1e3, M)):
            H = hessian(rng, condition) * np.outer(scales, scales)
            c = scales * rng.normal(size=M) * 5
            method = SemismoothNewton([form])
            if method.factor(EVERYONE, H[None].copy()).any():
                continue
            found = method.solve(EVERYONE, c[None], tolerance).points[0]
            answer = exact(form, H, c)
            missed = np.abs(found - answer) / np.maximum(1, np.abs(answer))
            assert missed.max() <= tolerance * (1 + 1e-6) + 1e-11


@pytest.mark.parametrize("weight", [0.1, 1.0, 5.0])
def test_the_norm_of_a_difference_is_its_closed_form(weight: float) -> None:
    """Hallac, Leskovec and Boyd (2015): both ends move towards each other, by half at most."""
    rng, h = np.random.default_rng(0), 2.0
    edge = np.hstack([np.eye(3), -np.eye(3)])
    a, b = rng.normal(size=(2, 4, 3))
    one = Term(named("norm"), np.full(1, weight), edge, np.zeros(3), np.zeros(1), 3)
    method, which = SemismoothNewton([make_form(one)] * 4), np.arange(4)
    assert not method.factor(which, np.tile(h * np.eye(6), (4, 1, 1))).any()
    found = method.solve(which, -h * np.hstack([a, b]), 1e-12).points
    length = np.linalg.norm(a - b, axis=1, keepdims=True)
    stays = np.maximum(1 - weight / (h * length), 0.5)
    expected = np.hstack([stays * a + (1 - stays) * b, (1 - stays) * a + stays * b])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_ball_that_does_not_bind_has_no_multiplier() -> None:
    form = make_form(term("ball", range(M), width=M, bound=1e3))
    rng = np.random.default_rng(4)
    H, c = hessian(rng, 10), rng.normal(size=M)
    step = solve(form, H, c, 1e-12)
    np.testing.assert_allclose(step.points[0], np.linalg.solve(H, -c), atol=1e-11)
    assert step.balls.shape == (1, 1)
    assert abs(step.balls[0, 0]) <= 1e-10


BALLS: dict[str, Callable[[cp.Variable], tuple[Any, Any]]] = {
    "norm": lambda x: (cp.norm(x) <= 0.5, True),
    "squares": lambda x: (cp.sum_squares(x) <= 0.5, True),
    "shifted norm": lambda x: (cp.norm(x - np.array([1.0, 2, 3])) <= 0.5, True),
    "shifted squares": lambda x: (cp.sum_squares(x + 1) <= 0.5, True),
    "scaled arguments": lambda x: (cp.norm(3 * x - 1) <= 2, True),
    "scaled squares of arguments": lambda x: (cp.sum_squares(3 * x - 1) <= 2, True),
    "scaled norm": lambda x: (2 * cp.norm(x) <= 0.5, True),
    "scaled squares": lambda x: (cp.sum_squares(x) / 4 <= 0.05, True),
    "turned round": lambda x: (cp.Constant(0.5) >= cp.norm(x[:2]), True),
    "inactive norm": lambda x: (cp.norm(x) <= 50, False),
    "inactive squares": lambda x: (cp.sum_squares(x) <= 50, False),
}


@pytest.mark.parametrize("name", BALLS)
def test_the_dual_value_of_a_ball_is_that_of_cvxpy(name: str) -> None:
    x, y = cp.Variable(3), cp.Variable(3)
    rule, is_active = BALLS[name](x)
    model = dm.Model("ball")
    model.client("a", cp.sum_squares(x - np.array([2.0, 1.0, -1.0])) + cp.sum(x), [rule])
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    sub = model.compile()["a"]
    rng = np.random.default_rng(9)
    q = sub.entries.size
    turn = Turn(EVERYONE, rng.normal(size=q), 1 + rng.random(q), rng.normal(size=q))
    solver = Choice("auto").chain(sub)[0]
    if not name.startswith("scaled ") or "arguments" in name:
        assert solver is NAMED["semismooth"]
    answers = solver.open([sub]).minimise(turn, 1e-10)
    sub.set(turn.mu, turn.rho, turn.neighbours)
    precise: dict[str, Any] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-8)
    sub.problem.solve(solver=cp.CLARABEL, **precise)
    np.testing.assert_allclose(answers.points, sub.point(), atol=1e-4)  # of cvxpy: root of its gap
    theirs = float(flat(sub.client.constraints[0].dual_value)[0])
    ours = float(flat(duals(sub, answers)[0][0])[0])
    assert (theirs > 1e-3) == is_active
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
