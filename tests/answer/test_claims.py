"""What a client that cvxpy alone can solve is above its minimum, against its closed form."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.claims import CLAIMED, overstated


def solved() -> tuple[dm.Result, list[cp.Variable]]:
    """(x - 1)^2, beside what is zero but cvxpy's alone, and (x + 1)^2: x = 0, prices -2 and 2."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(2)]
    model, y = dm.Model("a support function"), cp.Variable(2)
    only = cp.transforms.suppfunc(y, [y == 0])(x[0])  # pyright: ignore[reportAttributeAccessIssue]
    model.client("a", cp.sum_squares(x[0] - 1) + only)
    model.client("b", cp.sum_squares(x[1] + 1))
    model.consensus(x[0] == x[1])
    return model.solve(), x


@pytest.mark.parametrize("by", [0.05, 0.2, 0.4])
def test_an_answer_beside_the_minimum_is_above_it_by_the_square(by: float) -> None:
    result, x = solved()
    assert result.status == "optimal"
    assert overstated(result) is None
    recovered = result.recovered
    held = dict(recovered.at_clients)
    held["a"] = {x[0].id: np.array([0.0, by])}
    found = overstated(replace(result, recovered=replace(recovered, at_clients=held)))
    assert result.state is not None
    assert found is not None
    assert found == ("a", pytest.approx(by**2 / result.state.units.energy, rel=1e-3))
    assert found[1] > CLAIMED


def test_whom_we_can_solve_ourselves_is_not_asked() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.square(v - i))
    model.consensus(x[0] == x[1])
    result = model.solve()
    held = {0: {x[0].id: np.array(9.0)}, 1: {x[1].id: np.array(9.0)}}
    assert overstated(replace(result, recovered=replace(result.recovered, at_clients=held))) is None
