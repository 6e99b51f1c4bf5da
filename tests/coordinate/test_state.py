"""The state of a run: arrays that travel without pickle, and back to the very same iterates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS

ROUNDS = 7


def solved(name: str, **options: Any) -> dm.Result:
    built = PROBLEMS[name]().on(GRAPHS["star"]())
    return built.model.solve(eps_pri=0, eps_dual=0, max_rounds=ROUNDS, **options)


def arrays(state: Any) -> dict[str, np.ndarray]:
    found = {k: v for k, v in vars(state).items() if isinstance(v, np.ndarray)}
    if state.channels is not None:
        found |= {f"channels.{k}": v for k, v in state.channels.arrays().items()}
    return found


@pytest.mark.parametrize("online", [None, dm.Dropout(0.2, seed=1)], ids=["all", "dropout"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_state_is_read_as_it_was_written(name: str, online: Any, tmp_path: Path) -> None:
    state = solved(name, online=online).state
    assert state is not None
    state.save(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz", allow_pickle=False) as stored:
        assert all(stored[key].dtype != object for key in stored)
    again = type(state).load(tmp_path / "state.npz")
    assert arrays(again).keys() == arrays(state).keys()
    for key, array in arrays(state).items():
        np.testing.assert_array_equal(arrays(again)[key], array, key)
        assert arrays(again)[key].dtype == array.dtype


@pytest.mark.parametrize("rows", [20, 20_000])
def test_a_state_has_the_size_of_its_arrays_whatever_the_clients_data(
    rows: int, tmp_path: Path
) -> None:
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
    state.save(tmp_path / "state.npz")
    assert (tmp_path / "state.npz").stat().st_size < held + 13 * 400  # npz's headers


def test_a_run_goes_on_from_a_state_that_was_stored(tmp_path: Path) -> None:
    """Least squares in closed form: the rounds of one long run, bit for bit."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(5)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(np.diag([1.0, 3.0]) @ v - i))
    model.consensus(*[x[a] == x[b] for a, b in nx.cycle_graph(5).edges])
    options: dict[str, Any] = {
        "rho": 1.0, "stopping": dm.FixedBudget(1), "eps_pri": 0.0, "eps_dual": 0.0,
    }  # fmt: skip
    whole = model.solve(max_rounds=12, **options)
    first = model.solve(max_rounds=5, **options)
    assert first.state is not None
    first.state.save(tmp_path / "state.npz")
    first.state = type(first.state).load(tmp_path / "state.npz")
    rest = model.solve(max_rounds=7, start=first, **options)
    assert rest.history.objective.tolist() == whole.history.objective.tolist()[5:]
    for v in x:
        np.testing.assert_array_equal(rest[v], whole[v])


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", mu=np.zeros(3))
    kind: Any = type(solved("ridge").state)
    with pytest.raises(dm.OptionError) as error:
        kind.load(tmp_path / "other.npz")
    assert "holds the arrays mu, expected those of a saved state: encodings, " in str(error.value)


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
