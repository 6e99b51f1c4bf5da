"""The state of a run: its size, and the dual values that are found of it at the end."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def arrays(state: Any) -> dict[str, np.ndarray]:
    found = {k: v for k, v in vars(state).items() if isinstance(v, np.ndarray)}
    if state.channels is not None:
        found |= {f"channels.{k}": v for k, v in state.channels.arrays().items()}
    return found


@pytest.mark.parametrize("rows", [20, 20_000])
def test_a_state_has_the_size_of_its_arrays_whatever_the_clients_data(rows: int) -> None:
    """Two clients of three variables: 3 numbers an edge, 2 x 3 a side, and so on; not the rows."""
    generator = np.random.default_rng(0)
    x = [cp.Variable(3, name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for v in x:
        model.client(v.name(), cp.sum_squares(generator.normal(size=(rows, 3)) @ v - 1), [v >= 0])
    model.consensus(x[0] == x[1])
    state = model.solve().state
    assert state is not None
    held = sum(array.nbytes for array in arrays(state).values())
    assert held == 8 * (2 * 6 + 2 * 3 + 6 + 2 + 4 + 6 + 2) + 2 + 2


def test_the_dual_values_of_an_earlier_round_are_found_once_at_the_end() -> None:
    """Min (x - 3)^2 s.t. x <= 1 beside (y + 1)^2, x == y: both 1 - mu/2 ... at (1, 1) lambda 0."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rule = x <= 0.5
    model = dm.Model()
    model.client("a", cp.square(x - 3), [rule])
    model.client("b", cp.square(y + 1))
    model.consensus(x == y)
    result = model.solve()
    assert result.duals[rule] == pytest.approx(2.0, abs=1e-5)
    for solver in ("conic", "reference"):
        assert model.solve(solver=solver).duals[rule] == pytest.approx(2.0, abs=1e-5)
    steps = {"a": dm.solvers.ProximalGradientSteps(0.05, 50)}
    assert model.solve(solver=steps).duals[rule] == pytest.approx(2.0, abs=1e-3)
