"""What is used of cvxpy beyond its documentation, one test each: what breaks here if it changes.

These run first under `make test-next`, where a failure names the touch that cvxpy has moved.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from dald_model._cvxpy import (
    INDEX,
    PICKS,
    STACKED,
    CanonicalProblem,
    DivExpression,
    Elementwise,
    Equality,
    Inequality,
    NegExpression,
    Sum,
    arguments,
    domain_of_atoms,
    held,
    is_affine_throughout,
    record_solution,
    value_of,
    with_parts,
)

untyped: Any = cp
"""Where cvxpy's annotations are narrower than cvxpy."""


# --- kinds of expressions and constraints ---------------------------------------------------------


def test_kinds_of_affine_expressions() -> None:
    """Compile and decompose: else sums and products go to the slow way, by cvxpy's gradients."""
    x: Any = cp.Variable(3)
    y, A = cp.Variable(3), np.ones((2, 3))
    kinds = {
        type(x + y): cp.AddExpression,
        type(-x): NegExpression,
        type(x / 2): DivExpression,
        type(A @ x): cp.MulExpression,
        type(cp.multiply(np.arange(3.0), x)): cp.multiply,
        type(2 * x): cp.multiply,
        type(cp.quad_form(x, np.eye(3))): cp.QuadForm,
    }
    assert all(kind is expected for kind, expected in kinds.items())
    assert [arg.id for arg in (x + y + x).args] == [x.id, y.id, x.id], "sums are flat"
    (minus,) = (-x).args
    assert minus is x
    assert (x / 2).args[0] is x


def test_what_a_parameter_holds() -> None:
    """Solve again: else every Parameter has changed at every turn, or never."""
    given, sparse = cp.Parameter(2), cp.Parameter((2, 2), diag=True)
    assert held(given) is None
    given.value = value = np.array([1.0, 2.0])
    assert held(given) is held(given) is given.value
    given.value = value.copy()
    before = held(given)
    given.value = value.copy()
    assert held(given) is not before
    sparse.value = np.eye(2)
    assert held(sparse) is held(sparse)


def test_sums_and_atoms_of_entries() -> None:
    """Compile: else every client of another number of rows is canonicalised by itself."""
    x = cp.Variable(3)
    total: Any = cp.sum(cp.abs(x))
    assert type(total) is Sum
    assert total.get_data() == cp.quad_over_lin(x, 1).get_data() == [None, False]
    assert cp.norm1(x).get_data() == [None]
    for atom in (cp.abs(x), cp.logistic(x), cp.huber(x), cp.maximum(x, 0), cp.square(x)):
        assert isinstance(atom, Elementwise)
    assert not isinstance(cp.cumsum(x), Elementwise)


def test_sums_of_stacks_are_told() -> None:
    """Decompose: else `cp.sum(cp.hstack([f, g]))` is one summand."""
    x: Any = cp.Variable(3)
    for stack in (cp.hstack([x, x]), cp.vstack([x, x]), cp.concatenate([x, x])):
        total = cp.sum(stack)
        assert isinstance(total, Sum)
        inside: Any = total.args[0]
        assert [arg.id for arg in inside.args] == [x.id, x.id]
        assert isinstance(inside, STACKED)


def test_entries_that_are_selected_are_told_by_indexing_numbers() -> None:
    matrix, numbers = cp.Variable((3, 3)), np.arange(9).reshape(3, 3)
    for key in (1, (slice(None), 2), [0, 2], (1, 2)):
        node = matrix[key]
        assert isinstance(node, INDEX)
        assert np.array_equal(np.reshape(node.numeric([numbers]), node.shape), numbers[key])
    for node in (cp.diag(matrix), cp.trace(matrix), cp.upper_tri(matrix)):
        assert isinstance(node, PICKS)


def test_an_affine_atom_is_told_from_zero_times_a_logarithm() -> None:
    """Compile: else the domain of the logarithm is lost."""
    x = cp.Variable(3)
    assert (0 * cp.log(x)).is_affine(), "by cvxpy"
    assert not is_affine_throughout(0 * cp.log(x))
    assert not is_affine_throughout(cp.log(x))
    for affine in (x, 0 * x, cp.sum(x[:2]) - 1, cp.hstack([x, -x]) / 2, cp.diag(x).T):
        assert is_affine_throughout(affine)


def test_a_domain_is_that_of_atoms_without_the_attributes_of_variables() -> None:
    x, t = cp.Variable(2, nonneg=True), cp.Variable(nonneg=True)
    assert domain_of_atoms(cp.norm(x)) == []
    one, two = domain_of_atoms(cp.quad_over_lin(x, t - 1) - cp.log(x[0]))
    limits = {id(v): rule for rule in (one, two) for v in rule.variables()}
    t.save_value(0.5)
    x.save_value(np.array([-0.25, 1.0]))
    assert limits[id(t)].violation() == pytest.approx(0.5)
    assert limits[id(x)].violation() == pytest.approx(0.25)
    # cvxpy evaluates all the same: (1/16 + 1) / (-1/2)
    assert cp.quad_over_lin(x, t - 1).value == pytest.approx(-2.125)
    inside = untyped.transforms.indicator([x <= 1])
    assert domain_of_atoms(inside + cp.sum(x)) == []


def test_an_equality_and_an_inequality_hold_both_sides_and_their_difference() -> None:
    """Consensus, compile, decompose: else no edge is read, and no row."""
    x, y = cp.Variable(2), cp.Variable(2)
    x.value, y.value = np.array([1.0, 5.0]), np.array([3.0, 4.0])
    for rule, kind in ((x == y, Equality), (x <= y, Inequality), (y >= x, Inequality)):
        assert type(rule) is kind
        assert rule.args[0] is x
        assert rule.args[1] is y
        np.testing.assert_array_equal(rule.expr.value, [-2.0, 1.0])


RULES = {
    "inequality": lambda x: x <= 1,
    "equality": lambda x: x == 1,
    "NonNeg": lambda x: cp.NonNeg(x - 1),
    "Zero": lambda x: cp.Zero(x - 1),
    "SOC": lambda x: cp.SOC(x[0], x[1:]),
    "SOC by rows": lambda x: cp.SOC(x[:2], cp.vstack([x, x])[:, :2], axis=1),
    "PSD": lambda x: cp.PSD(cp.diag(x)),
    "ExpCone": lambda x: cp.ExpCone(x[0], x[1], x[2]),
    "PowCone3D": lambda x: cp.PowCone3D(x[0], x[1], x[2], 0.3),
    "PowConeND": lambda x: cp.PowConeND(x[:2], x[2], np.array([0.4, 0.6])),
}


@pytest.mark.parametrize("name", RULES)
def test_a_constraint_is_made_again_from_its_arguments_and_data_without_the_id(name: str) -> None:
    """Compile: else a template states another constraint, or takes the id of the user's."""
    x = cp.Variable(3)
    x.value = np.array([2.0, 0.5, 7.0])
    rule: Any = RULES[name](x)
    assert rule.get_data()[-1] == rule.id
    again: Any = type(rule)(*rule.args, *arguments(rule))
    assert again.id != rule.id
    np.testing.assert_array_equal(again.residual, rule.residual)


def test_an_atom_is_made_again_on_other_arguments() -> None:
    """Compile: else a template has another function."""
    x, y = cp.Variable((2, 3)), cp.Variable((2, 3))
    x.value, y.value = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    atoms: list[Any] = [cp.sum(x, axis=0), cp.norm(x, 1, axis=1), untyped.huber(x, 0.3)]
    for atom in (*atoms, cp.power(x, 3)):
        again = atom.copy([y])
        assert type(again) is type(atom)
        assert again.get_data() == atom.get_data()
        assert again.args[0] is y
    assert atoms[0].get_data() != untyped.sum(x, axis=1).get_data()


def test_a_tree_is_copied_with_some_of_its_leaves_replaced() -> None:
    """Consensus and printing: else a client keeps the shared variable instead of its own copy."""
    x, mine = cp.Variable(2), cp.Variable(2)
    mine.value = np.array([1.0, 2.0])
    expression = cp.sum_squares(3 * x).tree_copy({id(x): mine})
    assert expression.value == pytest.approx(45.0)
    assert [v.id for v in expression.variables()] == [mine.id]
    rule = (x <= 1).tree_copy({id(x): mine})
    np.testing.assert_array_equal(rule.violation(), [0.0, 1.0])


def test_an_atom_that_holds_more_than_its_arguments_is_copied_as_well() -> None:
    """Consensus: else a client with one of three atoms keeps the shared variable."""
    x, mine = cp.Variable(2), cp.Variable(2)
    y, s = cp.Variable(2), cp.Variable(nonneg=True, value=0.5)
    mine.value = np.array([3.0, -4.0])
    f = cp.sum_squares(x)
    parts: list[tuple[Any, float]] = [
        (cp.perspective(f, s), 25 / 0.5),
        (untyped.transforms.indicator([x <= 3]), 0.0),
        (untyped.transforms.indicator([x <= 2]), np.inf),
        (untyped.transforms.suppfunc(y, [cp.norm(y) <= 1])(2 * x), 10.0),
    ]
    for part, expected in parts:
        copied = with_parts(3 * part + cp.sum(x), {id(x): mine})
        assert x.id not in [v.id for v in copied.variables()]
        assert copied.value == pytest.approx(3 * expected - 1, abs=1e-6)


def test_attributes_are_a_dictionary_of_all_kinds_that_makes_the_variable_again() -> None:
    """Compile: else what ``nonneg`` or bounds say is lost."""
    for given in ({"nonneg": True}, {"bounds": [-1.0, 2.0]}, {"symmetric": True}, {}):
        x = untyped.Variable((2, 2), **given)
        found = {k: v for k, v in x.attributes.items() if v is not None and v is not False}
        assert set(found) == set(given)
        again = cp.Variable((2, 2), **found)
        point = np.array([[-5.0, 1.0], [7.0, 3.0]])
        np.testing.assert_array_equal(again.project(point), x.project(point))


# --- values ---------------------------------------------------------------------------------------


def test_a_value_is_saved_unchecked() -> None:
    """Everywhere: else a point that is off by rounding, or None, is refused."""
    x = cp.Variable(2, nonneg=True)
    x.save_value(np.array([-1e-3, 1.0]))
    np.testing.assert_array_equal(x.value, [-1e-3, 1.0])
    untyped.Variable.save_value(x, None)
    assert x.value is None


def test_a_dual_value_is_saved_in_its_dual_variables() -> None:
    """Results: else ``dual_value`` is not set, or has another shape than after cvxpy's solve."""
    x = cp.Variable(3)
    rules: list[Any] = [x <= 1, cp.SOC(cp.sum(x) + 9, x)]
    cp.Problem(cp.Minimize(cp.sum_squares(x - 2)), rules).solve(solver=cp.CLARABEL)
    for rule in rules:
        kept = [np.copy(d.value) for d in rule.dual_variables]
        for dual in rule.dual_variables:
            dual.save_value(None)
        for dual, value in zip(rule.dual_variables, kept, strict=True):
            dual.save_value(value)
        np.testing.assert_array_equal(
            np.hstack([np.ravel(d.value) for d in rule.dual_variables]),
            np.hstack([np.ravel(v) for v in kept]),
        )
    rules[0].save_dual_value(np.arange(3.0))
    np.testing.assert_array_equal(rules[0].dual_value, np.arange(3.0))


def test_a_gradient_is_the_transposed_jacobian() -> None:
    """Compile: else affine atoms that are not read from their data have another matrix."""
    x = cp.Variable(2)
    x.value = np.ones(2)
    A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal((A @ x).grad[x].toarray(), A.T)


def test_the_residual_of_a_dual_value_says_how_far_it_is_outside_of_the_dual_cone() -> None:
    """The duality gap: else a multiplier outside of its cone certifies a bound."""
    x = cp.Variable(2)
    rule: Any = cp.SOC(x[0], x[1:])
    for top, expected in ((2.0, 0.0), (0.0, np.sqrt(0.5))):
        rule.dual_variables[0].save_value(np.array([top]))
        rule.dual_variables[1].save_value(np.array([[1.0]]))
        assert np.max(rule.dual_residual) == pytest.approx(expected, abs=1e-9)


def test_cvxpy_still_needs_help_with_a_sum_of_the_largest_whose_variable_has_a_value() -> None:
    """If this fails cvxpy is mended, and dald_model/declare/problem.py can go."""
    x = cp.Variable(3)
    x.value = np.arange(3.0)
    for atom, error in ((cp.cvar(x, 0.6), TypeError), (cp.sum_largest(x, 3), ValueError)):
        with pytest.raises(error):
            cp.Problem(cp.Minimize(atom + cp.sum_squares(x))).solve(solver=cp.CLARABEL)


# --- the canonical form ---------------------------------------------------------------------------


def test_the_numbers_of_a_canonical_problem_follow_its_parameters() -> None:
    """Compile: P, q, d, A and b are what every form is made of."""
    x, y = cp.Variable(2), cp.Variable()
    weight, level = cp.Parameter(nonneg=True, value=1.0), cp.Parameter(value=0.0)
    cost = weight * cp.sum_squares(x) + level * y + 7
    rules: list[Any] = [y >= 2, cp.sum(x) == 5 * y]
    program = CanonicalProblem(cp.Problem(cp.Minimize(cost), rules))
    P, q, d, A, b = program.numbers({weight.id: np.array(3.0), level.id: np.array(4.0)})
    assert (weight.value, level.value) == (1.0, 0.0), "the Parameters are left alone"
    u, v = program.columns(x), program.columns(y)
    assert sorted([*u, *v]) == [0, 1, 2]
    assert program.columns(cp.Variable(3)).size == 0
    np.testing.assert_allclose(P.toarray()[np.ix_(u, u)], 6 * np.eye(2))
    np.testing.assert_allclose(q[v], [4.0])
    assert float(np.ravel(d)[0]) == 7.0
    point = np.zeros(3)
    point[u], point[v] = [1.0, 2.0], 10.0
    rows = A @ point + b
    assert (program.dims.zero, program.dims.nonneg) == (1, 1)
    assert abs(rows[0]) == pytest.approx(47.0), "equalities come first"
    assert rows[1] == pytest.approx(8.0), "what is at least zero has that sign"


def test_a_linear_problem_has_no_matrix() -> None:
    """Compile: else a linear client is asked for its quadratic part."""
    x = cp.Variable(2)
    assert CanonicalProblem(cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0])).numbers({})[0] is None


def test_the_cones_come_in_the_order_and_by_the_names_of_dims() -> None:
    """Compile: rows are given to cones by these sizes."""
    x, S = cp.Variable(6), cp.Variable((3, 3), symmetric=True)
    rules: list[Any] = [
        cp.PowConeND(x[:2], x[2], np.array([0.4, 0.6])),
        cp.PowCone3D(x[0], x[1], x[2], 0.3),
        cp.ExpCone(x[0], x[1], x[2]),
        cp.PSD(S),
        cp.SOC(x[0], x[1:5]),
        x[0] <= 4,
        cp.sum(x) == 1,
    ]
    program = CanonicalProblem(cp.Problem(cp.Minimize(cp.trace(S)), rules))
    dims, b = program.dims, program.numbers({})[4]
    found = [dims.zero, dims.nonneg, list(dims.soc), list(dims.psd), dims.exp]
    assert found == [1, 1, [5], [3], 1]
    assert list(dims.p3d) == [0.3]
    assert [list(one) for one in dims.pnd] == [[0.4, 0.6]]
    assert b.size == 1 + 1 + 5 + 6 + 3 + 3 + 3


def test_multipliers_go_back_to_the_constraints_that_were_stated() -> None:
    """Results: the duals of clients are those of the template's rows."""
    x, y = cp.Variable(), cp.Variable()
    rules: list[Any] = [x <= 2, y == 7]
    problem = cp.Problem(cp.Minimize(cp.square(x) - 6 * x + y), rules)
    program = CanonicalProblem(problem)
    assert (program.dims.zero, program.dims.nonneg) == (1, 1)
    # The Lagrangian x^2 - 6 x + y + 2 (x - 2) - (y - 7) is flat at (2, 7).
    found = program.duals(np.array([-1.0, 2.0]))
    assert set(found) == {rule.id for rule in rules}
    for rule, expected in zip(rules, (2.0, -1.0), strict=True):
        rule.save_dual_value(found[rule.id])
        assert rule.dual_value == pytest.approx(expected)
    problem.solve(solver=cp.CLARABEL)
    assert [rule.dual_value for rule in rules] == pytest.approx([2.0, -1.0], abs=1e-6)


# --- a problem's own solve ------------------------------------------------------------------------


def test_a_method_is_registered_and_called_with_its_options() -> None:
    """``problem.solve(method="dald")``."""
    seen: dict[str, Any] = {}

    def method(problem: cp.Problem, **options: Any) -> float:
        seen.update(options, problem=problem)
        return 1.5

    problem = cp.Problem(cp.Minimize(cp.square(cp.Variable())))
    cp.Problem.register_solve("a method of the tests", method)
    assert problem.solve(method="a method of the tests", level=3) == 1.5
    assert seen == {"level": 3, "problem": problem}


def test_a_solution_is_recorded_as_by_an_ordinary_solve() -> None:
    """``problem.solve(method="dald")``: else status, value and statistics are not set."""
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)))
    record_solution(problem, "optimal", 5.0, {x.id: np.array([1.0, 2.0])}, num_iters=4)
    assert (problem.status, problem.value) == ("optimal", 5.0)
    np.testing.assert_array_equal(x.value, [1.0, 2.0])
    stats: Any = problem.solver_stats
    assert (stats.solver_name, stats.num_iters) == ("DALD", 4)


def test_values_of_expressions() -> None:
    """Results: else the cost of each client is walked through for Parameters once more a solve."""
    x, scale = cp.Variable(3, value=np.arange(3.0)), cp.Parameter(nonneg=True, value=2.0)
    for expression in (scale * cp.sum_squares(x) + 1, x[1], scale, cp.Constant(4.0), cp.norm1(-x)):
        np.testing.assert_array_equal(value_of(expression), expression.value)
    assert value_of(cp.sum_squares(cp.Variable())) is None
