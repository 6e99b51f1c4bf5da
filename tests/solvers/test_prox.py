r"""Proximal operators, against closed forms in plain numpy and cvxpy solves of the definition.

Clarabel's own points are off by up to 3e-5 where cones are curved; so what is compared tightly are
the values of :math:`\alpha \pi(x) + |x - v|^2 / 2`, which is strongly convex with modulus 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dald_model._cvxpy import Equality
from dald_model.compile.lowered import Lowered
from dald_model.compile.lowering import Lowering
from dald_model.errors import DeclarationError, OptionError
from dald_model.solvers import Prox
from dald_model.solvers.prox import prox
from tests.duals import held
from tests.solvers.prox_cases import (
    BETTER,
    BETTER_OF_CONES,
    EXACT,
    FORMULAS,
    SOLVED,
    TOTALS,
    ZERO,
    M,
    X,
    check,
    make_sub,
    minimise,
    soft,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_a_closed_form_is_the_formula(rng: np.random.Generator, name: str, alpha: float):
    cost, rules, text, formula = FORMULAS[name]
    operator = Prox([make_sub(cost, rules)])
    assert operator.explain == [text]
    for size in (0.1, 1.0, 30.0):
        v = size * rng.normal(size=M)
        found = operator(np.zeros(1, int), v, alpha)
        assert not found.messages
        assert found.points == pytest.approx(formula(v, alpha), abs=EXACT * max(1, size))
        assert prox(cost, v, alpha, rules) == pytest.approx(found.points, abs=10 * EXACT)


@pytest.mark.parametrize("name", SOLVED)
def test_the_point_minimises_the_definition(rng: np.random.Generator, name: str):
    cost, rules, text = (FORMULAS | SOLVED)[name][:3]
    operator = Prox([make_sub(cost, rules)])
    assert operator.explain == [text]
    x = cost.variables()[0]
    for alpha in (0.5, 2.0):
        v = rng.normal(size=M)
        found = operator(np.zeros(1, int), v, alpha)
        assert not found.messages
        better = BETTER_OF_CONES if text == "conic" else BETTER
        check(found.points, cost, rules, x, v, alpha, better)


def test_clients_of_all_kinds_and_sizes_in_any_order_are_each_their_own(rng: np.random.Generator):
    y = cp.Variable(3)
    cases = [*((c, r) for c, r, *_ in FORMULAS.values()), *((c, r) for c, r, _ in SOLVED.values())]
    cases += [(cp.norm1(y), []), (cp.norm(y), [])]
    subs = [make_sub(*case) for case in cases]
    together, sizes = Prox(subs), [sub.size for sub in subs]
    v = [2 * rng.normal(size=size) for size in sizes]
    alone = [Prox([s])(np.zeros(1, int), one, 0.7).points for s, one in zip(subs, v, strict=True)]
    everyone = np.arange(len(subs))
    for which in (everyone, everyone[::2], everyone[3:9], rng.permutation(everyone)[:12]):
        for _ in range(3):  # the third time from what was kept
            found = together(which, np.concatenate([v[i] for i in which]), 0.7)
            wanted = np.concatenate([alone[i] for i in which])
            assert found.points == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "box",
        "fixed",
        "l1 and box",
        "simplex",
        "full simplex",
        "simplex from lower bounds",
        "planes",
        "dependent planes and a box",
        "a ball",
        "balls of groups",
        "half-spaces",
        "box and a plane",
        "ball and box",
        "power cone",
    ],
)
def test_dual_values_prove_that_the_point_minimises(rng: np.random.Generator, name: str):
    """Where they are unique they are cvxpy's own; else they are feasible and as good."""
    cost, rules, _ = (FORMULAS | SOLVED)[name][:3]
    v, alpha = 2 * rng.normal(size=M), 0.5
    sub = make_sub(cost, rules)
    landed = Prox([sub])(np.zeros(1, int), v, alpha)
    duals = held(sub, landed.multipliers())
    x = cost.variables()[0]
    assert [len(d) for d in duals] == [len(r.dual_variables) for r in rules]
    parts = zip(rules, duals, strict=True)
    x.value = landed.points
    # The Lagrangian with these dual values is convex: its minimum must be at the point
    lagrangian: Any = cost + cp.sum_squares(x - v) / (2 * alpha)
    for rule, values in parts:
        value = np.asarray(values[0])
        if not isinstance(rule, Equality):
            assert (value >= -1e-9).all()
            assert np.abs(value * rule.args[0].value - value * rule.args[1].value).max() < 1e-6
        lagrangian = lagrangian + cp.sum(cp.multiply(value, rule.args[0] - rule.args[1]))
    at_point = lagrangian.value
    assert minimise(lagrangian) == pytest.approx(at_point, abs=1e-6)


def test_a_client_without_a_point_says_so():
    impossible = [
        [X >= 1, X <= 0],
        [X >= 0, cp.sum(X) == -1],
        [cp.sum(X) == 1, cp.sum(X) == 2],
        [X >= 0, TOTALS[0] @ X <= 1, -TOTALS[0] @ X <= -2],
    ]
    subs = [make_sub(ZERO), *(make_sub(ZERO, rules) for rules in impossible)]
    found = Prox(subs)(np.arange(5), np.ones(5 * M), 1.0)
    assert {at: status for at, (status, _) in found.messages.items()} == dict.fromkeys(
        range(1, 5), "infeasible"
    )
    table = found.points.reshape(5, M)
    assert np.isnan(table[1:]).all()
    assert (table[0] == 1).all()


def test_kinks_that_mix_variables_hold_no_constraint():
    """The multipliers that a solver told of them are none of the client's."""
    landed = Prox([make_sub(cp.tv(X))])(np.zeros(1, int), np.arange(M) ** 2.0, 0.5)
    assert landed.multipliers().lengths.tolist() == [0]


def test_constraints_alone_of_an_objective_that_cvxpy_alone_knows(rng: np.random.Generator):
    cost, rules = cp.sum(cp.power(X, 4)), [X >= 0]
    sub = make_sub(cost, rules)
    operator = Prox([sub])
    v = rng.normal(size=M)
    assert operator.explain == ["active_set"]
    landed = operator(np.zeros(1, int), v, 0.5)
    assert landed.points == pytest.approx(np.maximum(v, 0), abs=EXACT)
    duals = held(sub, landed.multipliers())
    assert duals[0][0] == pytest.approx(np.maximum(-v, 0) / 0.5)


def test_what_cannot_be_written_as_a_cone_program_goes_to_cvxpy(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    def unreadable(self: Lowering, client: Any, before: Lowered | None = None) -> None:
        return None

    monkeypatch.setattr(Lowering, "__call__", unreadable)
    cost, v = cp.sum(cp.power(X, 4)), rng.normal(size=M)
    rules, never = [X >= 0, cp.sum(X) <= 1], [X >= 1, X <= 0]
    sub = make_sub(cost, rules)
    operator = Prox([sub, make_sub(cost, never)])
    assert operator.explain == ["reference (CLARABEL)"] * 2
    landed = operator(np.arange(2), np.r_[v, v], 0.5)
    minimise(cp.sum_squares(X - v), rules)
    assert landed.points[:M] == pytest.approx(X.value, abs=1e-5)
    minimise(cp.sum_squares(X - v) / (2 * 0.5), rules)
    duals = held(sub, landed.multipliers())
    assert duals[0][0] == pytest.approx(rules[0].dual_value, abs=1e-4)
    assert landed.messages == {1: ("infeasible", "CLARABEL: infeasible")}
    assert np.isnan(landed.points[M:]).all()


def test_smooth_parts_of_a_client_are_not_in_its_operator(rng: np.random.Generator):
    A = rng.normal(size=(4, M))
    cost = cp.sum_squares(A @ X) + cp.sum(cp.logistic(X)) + 5 * X[0] + 0.3 * cp.norm1(X)
    operator, v = Prox([make_sub(cost)]), rng.normal(size=M)
    assert operator(np.zeros(1, int), v, 1.0).points == pytest.approx(soft(v, 0.3), abs=EXACT)


vectors = st.lists(st.floats(-50, 50), min_size=M, max_size=M).map(np.array)


@cache
def prox_of(name: str) -> Prox:
    return Prox([make_sub(*FORMULAS[name][:2])])


@settings(max_examples=60, deadline=None)
@given(v=vectors, u=vectors, alpha=st.floats(0.01, 10))
@example(v=np.eye(M)[0] * -2.2e-309, u=np.zeros(M), alpha=0.03125)  # below the normal doubles
@pytest.mark.parametrize(
    "name", ["l1", "norms of groups", "balls of groups", "l1 and box", "simplex", "full simplex"]
)
def test_an_operator_is_firmly_nonexpansive(name: str, v: np.ndarray, u: np.ndarray, alpha: float):
    operator = prox_of(name)
    p, q = (operator(np.zeros(1, int), one, alpha).points for one in (v, u))
    assert (p - q) @ (p - q) <= (p - q) @ (v - u) + 1e-9


def test_prox_of_smooth_parts_and_of_what_only_cones_describe(rng: np.random.Generator):
    A, v = rng.normal(size=(8, M)), rng.normal(size=M)
    point = np.linalg.solve(np.eye(M) + 2 * 0.3 * A.T @ A, v - 0.3 * 2)
    assert prox(cp.sum_squares(A @ X) + 2 * cp.sum(X), v, 0.3) == pytest.approx(point, abs=1e-10)
    costs = [
        cp.sum(cp.logistic(A @ X)) + cp.norm1(X),
        cp.sum_squares(A @ X) + cp.norm1(X),
        cp.max(X),
        3 * cp.sum(X) + cp.norm(X),
        cp.sum_largest(X, 2) + cp.sum_squares(X),
    ]
    for cost in costs:
        check(prox(cost, v, 0.3), cost, [], X, v, 0.3)


def test_prox_keeps_shapes_and_values_and_thresholds_singular_values(rng: np.random.Generator):
    Y = cp.Variable((3, 2), value=np.ones((3, 2)))
    V = rng.normal(size=(3, 2))
    found = prox(cp.sum(cp.abs(Y)), V, 0.5)
    assert found == pytest.approx(soft(V, 0.5), abs=EXACT)
    U, s, W = np.linalg.svd(V, full_matrices=False)
    assert prox(cp.normNuc(Y), V, 0.5) == pytest.approx((U * soft(s, 0.5)) @ W, abs=1e-6)
    assert (Y.value == 1).all()
    z = cp.Variable()
    assert prox(cp.abs(z), 3.0) == pytest.approx(2.0)
    S = cp.Variable((3, 3), PSD=True)
    B = rng.normal(size=(3, 3))
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    wanted = (vectors * np.maximum(values, 0)) @ vectors.T
    assert prox(0 * cp.trace(S), B) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("attribute", ["symmetric", "PSD"])
def test_a_log_det_moves_eigenvalues(rng: np.random.Generator, attribute: str, alpha: float):
    r"""The closed form :math:`\lambda + \sqrt{\lambda^2 + 4 \alpha}` over 2 of each eigenvalue."""
    is_psd = attribute == "PSD"
    U, B = cp.Variable((5, 5), symmetric=not is_psd, PSD=is_psd), 3 * rng.normal(size=(5, 5))
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    moved = (values + np.sqrt(values**2 + 4 * alpha)) / 2
    found = prox(-cp.log_det(U), B, alpha)
    np.testing.assert_allclose(found, (vectors * moved) @ vectors.T, rtol=0, atol=1e-9 * moved[-1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            lambda x, y: (-cp.norm1(x), np.zeros(2)),
            DeclarationError,
            "prox: the expression -norm1(x) is concave by cvxpy's DCP rules, expected convex; "
            "rewrite it with cvxpy's atoms (https://www.cvxpy.org/tutorial/dcp)",
        ),
        (
            lambda x, y: (cp.norm1(x) + cp.norm1(y), np.zeros(2)),
            DeclarationError,
            "prox: the expression norm1(x) + norm1(y) and the constraints hold 2 variables ('x', "
            "'y'), expected one; stack several into one variable",
        ),
        (
            lambda x, y: (0, np.zeros(2)),
            DeclarationError,
            "prox: the expression 0.0 and the constraints hold 0 variables (none), expected one; "
            "stack several into one variable",
        ),
        (
            lambda x, y: (x, np.zeros(2)),
            DeclarationError,
            "prox: the expression is of shape (2,), expected a scalar cvxpy expression such as "
            "cp.norm1(x), or 0 to project on constraints",
        ),
        (
            lambda x, y: (cp.norm1(x), np.zeros(2), 1.0, [cp.norm1(x) >= 1]),
            DeclarationError,
            "prox: the constraint 1.0 <= norm1(x) does not follow cvxpy's DCP rules, expected "
            "convex <= concave or affine == affine",
        ),
        (
            lambda x, y: (cp.norm1(x), np.zeros(3)),
            OptionError,
            "prox: the point is of shape (3,), expected finite numbers of shape (2,), that of the "
            "variable 'x'",
        ),
        (
            lambda x, y: (cp.norm1(x), [np.nan, 0]),
            OptionError,
            "prox: the point is not finite, expected finite numbers of shape (2,), that of the "
            "variable 'x'",
        ),
        (
            lambda x, y: (cp.norm1(x), "here"),
            OptionError,
            "prox: the point is no array of numbers, expected finite numbers of shape (2,), that "
            "of the variable 'x'",
        ),
        (
            lambda x, y: (cp.norm1(x), np.zeros(2), 0.0),
            OptionError,
            "prox: alpha is 0.0, expected a positive finite number; 1.0 is the plain operator",
        ),
        (
            lambda x, y: (cp.norm1(x), np.zeros(2), 1.0, [x >= 1, x <= 0]),
            DeclarationError,
            "prox: no point was found for norm1(x) with 2 constraints (infeasible: CLARABEL: "
            "PrimalInfeasible); expected constraints that some point of the "
            "expression's domain meets",
        ),
        (
            lambda x, y: (cp.norm1(cp.Variable(2, name="b", boolean=True)), np.zeros(2)),
            DeclarationError,
            "prox: variable 'b' is boolean, expected real and continuous; relax it (bounds "
            "instead of boolean, real and imaginary parts instead of complex)",
        ),
        (
            lambda x, y: (cp.Parameter(nonneg=True, name="p") * cp.norm1(x), np.zeros(2)),
            DeclarationError,
            "prox: the Parameter 'p' has no value; set its value before",
        ),
    ],
)
def test_prox_says_what_is_wrong(arguments: Any, error: type[Exception], message: str):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    with pytest.raises(error) as caught:
        prox(*arguments(x, y))
    assert str(caught.value) == message
