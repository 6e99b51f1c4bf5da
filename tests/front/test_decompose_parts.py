"""Problems whose parts nothing connects."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.front.taken_apart import near, pulled, swaps, variables


def test_independent_parts_are_solved_by_themselves_and_said_so() -> None:
    x, y, z, u, v = (cp.Variable(2, name=name) for name in "xyzuv")
    meet, least = x == y, z >= 3
    costs = [cp.sum_squares(x - 1), cp.sum_squares(y), cp.norm(z - 2), cp.sum_squares(u + v)]
    problem = cp.Problem(cp.Minimize(sum(costs) + cp.norm1(v - 4) + 5), [meet, least])
    value = problem.solve(method="dald")
    assert problem.status == "optimal"
    assert value == near(1 + np.sqrt(2) + 5)
    found = np.concatenate([np.asarray(one.value) for one in (x, z, v, u)])
    assert found == near(np.repeat([0.5, 3, 4, -4], 2))
    # The gradient of sum_squares(x - 1) at 1/2 is -1
    assert meet.dual_value == near([1, 1])
    assert least.dual_value == near(np.sqrt([0.5, 0.5]))
    model = dm.decompose(problem)
    assert model.parts == [["client 0", "client 1"], ["client 2"], ["client 3", "client 4"]]
    assert str(model).endswith(
        "\n  3 independent parts: {'client 0', 'client 1'}; {'client 2'}; {'client 3', 'client 4'}"
    )
    result = model.solve()
    assert result.verify().ok
    assert result.certificate().ok


PARTS: dict[str, Callable[[cp.Variable], tuple[Any, list[Any]]]] = {
    "linear program": lambda z: (np.arange(1, 5) @ z, [cp.sum(z) == 2, z >= 0, z <= 1]),
    "a point among many": lambda z: (cp.sum_squares(np.ones((2, 4)) @ z - 1), []),
    "feasibility": lambda z: (0 * cp.sum(z), [z >= 1, cp.sum(z) <= 4]),
    "barrier": lambda z: (-cp.sum(cp.log(z)), [cp.sum(z) <= 8]),
    "cone": lambda z: (cp.sum(z), [cp.norm(z - 3) <= 2]),
}
VALUES = {
    "linear program": 3.0,
    "a point among many": 0.0,
    "feasibility": 0.0,
    "barrier": -4 * np.log(2),
    "cone": 8.0,
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_one_client_is_solved_beside_the_others(kind: str) -> None:
    (x, y), z = variables(2, 2), cp.Variable(4, name="z")
    cost, rules = PARTS[kind](z)
    problem = cp.Problem(cp.Minimize(sum(pulled([x, y])) + cost), [x == y, *rules])
    assert problem.solve(method="dald") == near(1 + VALUES[kind])
    assert x.value == near([1.5, 1.5])
    result: Any = problem.solver_stats.extra_stats["result"]
    assert result.verify().ok


def test_a_problem_of_single_clients_is_a_model_too() -> None:
    x = variables(3, 2)
    model = swaps(cp.Problem(cp.Minimize(sum(pulled(x))), [v >= 1.5 for v in x]))
    assert model.parts == [["client 0"], ["client 1"], ["client 2"]]


def test_an_infeasible_part_makes_the_whole_infeasible() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    problem = cp.Problem(cp.Maximize(-cp.square(x) - cp.square(y)), [y >= 1, y <= 0])
    assert problem.solve(method="dald") == -np.inf
    assert problem.status == "infeasible"
    assert y.value is None
