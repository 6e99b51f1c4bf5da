r"""Every problem of the zoo on its graphs: the answer, the dual answer and two certificates.

What is asked, and why. A run ends when its residuals, relative to the natural units of the
variables and of the gradients, are below 1e-6. An iteration that gains a factor c a round is then
1 / (1 - c) steps from the answer, and one that ends within the 1,000 rounds allowed has
c^1000 <= 1e-6, hence 1 / (1 - c) <= 73. So 1e-4 is asked of variables and multipliers, relative to
max(1, size). The objective is asked for ten times as much, as errors along the constraints cancel
at an optimum.
"""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from cvxpy.tests.solver_test_helpers import SolverTestHelper

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS, Array, Built, Shared

OBJECTIVE = 1e-5
POINT = 1e-4
MULTIPLIER = 1e-4

KINKED = ("lasso", "elastic_net", "group_lasso", "quantile", "svm", "nuclear_norm")
"""Objectives without a gradient at the optimum, which cvxpy's own certificate would ask for."""


# --- the answers prove themselves -----------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in PROBLEMS if isinstance(PROBLEMS[n](), Shared)])
def test_the_known_answer_is_optimal(name: str) -> None:
    """Where one client holds the whole pack its subdifferential at the optimum contains zero."""
    known = PROBLEMS[name]()
    x = cp.Variable(known.shape, **known.attributes)
    objective, rules = known.share(x, 0, 1)
    x.save_value(known.point)
    assert objective.value == pytest.approx(known.value, abs=1e-12)
    assert max((np.max(rule.violation()) for rule in rules), default=0.0) < 1e-12
    assert known.distance(np.zeros(known.point.size), 0, 1) < 1e-12


# --- every problem on every graph -----------------------------------------------------------------


def _assert_right(built: Built, result: dm.Result) -> None:
    """The known answer, primal and dual, and the verification against the all-in-one solve."""
    assert result.status == "optimal", str(result)
    check = result.verify(tol_objective=OBJECTIVE)
    assert check.ok, str(check)
    assert result.value == pytest.approx(built.value, rel=OBJECTIVE, abs=OBJECTIVE)
    for name, variable in built.variables.items():
        _assert_near(result[name][variable], built.points[name], POINT, f"variable of {name!r}")
        _assert_near(variable.value, built.points[name], POINT, f"value of {variable}")
    forces = {name: built.force(name, result.multipliers) for name in built.variables}
    scale = max(1.0, *(np.abs(force).max() for force in forces.values()))
    for name, force in forces.items():
        assert built.distance[name](force) <= MULTIPLIER * scale, f"multipliers at {name!r}"
    for name, duals in built.duals.items():
        rules = built.model.clients[name].constraints
        for rule, dual in zip(rules, duals, strict=True):
            if dual is not None:
                _assert_near(_flat(rule.dual_value), _flat(dual), MULTIPLIER, f"dual of {rule}")


def _assert_near(ours: Any, known: Any, tolerance: float, what: str) -> None:
    allowed = tolerance * max(1.0, float(np.abs(known).max()))
    assert float(np.abs(ours - known).max()) <= allowed, f"{what}: {ours}, expected {known}"


def _flat(dual: Any) -> Array:
    parts = dual if isinstance(dual, list) else [dual]
    return np.concatenate([np.ravel(part) for part in parts])


def _assert_certified(problem: cp.Problem, places: int) -> None:
    """The certificates of cvxpy's own tests, on the values and dual values it finds set."""
    helper = SolverTestHelper(
        (problem.objective, None), [], [(rule, None) for rule in problem.constraints]
    )
    helper.check_primal_feasibility(places)
    helper.check_dual_domains(places)
    helper.check_complementarity(places)
    helper.check_stationary_lagrangian(places)


# Every second graph; the others have this problem in ``test_sequences.py``.
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        (name, graph)
        for i, name in enumerate(PROBLEMS)
        for j, graph in enumerate(GRAPHS)
        if (i + j) % 2 == 0
    ],
)
def test_every_problem_on_every_second_graph(name: str, graph: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    _assert_right(built, built.model.solve())
    if name not in KINKED:
        _assert_certified(built.model.monolithic(), places=3)


# --- where the multipliers are known themselves ---------------------------------------------------


@pytest.mark.parametrize("graph", ["star", "chain", "tree"])
@pytest.mark.parametrize("name", ["least_squares", "huber", "logistic", "matrix_least_squares"])
def test_on_a_tree_a_multiplier_is_the_gradient_of_one_half(name: str, graph: str) -> None:
    """Summing (A2-2) over the clients on the tail's side of an edge leaves that edge alone."""
    known = PROBLEMS[name]()
    built = known.on(GRAPHS[graph]())
    result = built.model.solve()
    names = list(built.variables)
    slopes = {at: np.zeros(known.point.size) for at in result.compiled.graph}
    for at, client in enumerate(names):
        slopes[client] = known.distance.of(at, len(names)).reshape(-1, order="F")
    size = max(np.abs(slope).max() for slope in slopes.values())
    for (tail, head), mu in result.multipliers.items():
        halves = result.compiled.graph.copy()
        halves.remove_edge(tail, head)
        half = sum(slopes[client] for client in nx.node_connected_component(halves, tail))
        assert np.abs(mu + half).max() <= MULTIPLIER * max(1.0, size)


# --- other ways to write the same -----------------------------------------------------------------


@pytest.mark.parametrize("graph", ["odd ring", "tree", "grid"])
@pytest.mark.parametrize("name", ["ridge", "lasso", "portfolio", "nearest_psd"])
def test_a_shared_variable_on_a_topology(name: str, graph: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph](), "topology")
    _assert_right(built, built.model.solve())


@pytest.mark.parametrize("name", ["ridge", "quantile", "portfolio", "nearest_psd"])
def test_an_explicit_server(name: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS["star"](), "server")
    result = built.model.solve()
    _assert_right(built, result)
    assert result.compiled.servers == ("server",)


# --- other solvers --------------------------------------------------------------------------------

SOLVERS = {
    "OSQP": ("least_squares", "lasso", "huber", "quantile", "nonnegative", "simplex"),
    "SCS": ("least_squares", "lasso", "logistic", "portfolio", "entropy", "semidefinite"),
}
"""What each can solve of the zoo. First-order methods, but asked for the same accuracy."""


# Every problem on one graph, and so each solver with and without a server.
@pytest.mark.parametrize(
    ("solver", "name", "graph"),
    [
        (solver, name, ("odd ring", "star")[at % 2])
        for solver, names in SOLVERS.items()
        for at, name in enumerate(names)
    ],
)
def test_other_solvers(solver: str, name: str, graph: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    _assert_right(built, built.model.solve(solver=solver))
