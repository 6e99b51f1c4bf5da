"""Programs of other tools as models, against the tools' own solvers and cvxpy's."""

from pathlib import Path
from typing import Any

import cvxpy as cp
import highspy
import linopy
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr

import dald_model as dm
from tests.expect import near, says

SIZE, HEIGHT = 12, 7
OWNERS = ["a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c"]


def program(seed: int = 0) -> dict[str, Any]:
    """A convex quadratic program with equalities, ranges and one-sided rows, feasible at 1/2."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(HEIGHT, SIZE)) * (rng.uniform(size=(HEIGHT, SIZE)) < 0.5)
    rows[0] = rows[0] * [owner == "a" for owner in OWNERS]
    at = rows @ np.full(SIZE, 0.5)
    low = np.array([at[0] - 1, at[1], at[2] - 0.1, -1e20, at[4] - 0.2, -np.inf, at[6]])
    high = np.array([at[0], at[1], np.inf, at[3], at[4] + 0.1, at[5] + 0.3, at[6]])
    quadratic = np.diag(rng.uniform(0.5, 2, size=SIZE))
    quadratic[0, 3] = quadratic[3, 0] = 0.2  # both of a
    return {
        "cost": rng.normal(size=SIZE),
        "rows": sp.csc_array(rows),
        "low": low,
        "high": high,
        "lower": 0.0,
        "upper": np.where(np.arange(SIZE) < 6, 1.0, np.inf),
        "quadratic": quadratic,
        "constant": 3.0,
    }


def by_cvxpy(given: dict[str, Any]) -> tuple[float, np.ndarray]:
    x, rows = cp.Variable(SIZE), given["rows"]
    low, high = np.maximum(given["low"], -1e3), np.minimum(given["high"], 1e3)
    upper = np.minimum(given["upper"], 1e3)
    cost = given["cost"] @ x + cp.quad_form(x, given["quadratic"] / 2) + given["constant"]
    rules = [rows @ x >= low, rows @ x <= high, x >= given["lower"], x <= upper]
    cp.Problem(cp.Minimize(cost), rules).solve(solver=cp.CLARABEL)
    return float(cost.value), np.asarray(x.value)


@pytest.mark.parametrize(
    "owners",
    [
        OWNERS,
        np.array(OWNERS),
        {"a": [0, 3, 6, 9], "b": [1, 4, 7, 10], "c": range(2, 12, 3)},
        lambda column: OWNERS[column],
        3,
    ],
    ids=["names", "array", "dict", "function", "number"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_program_has_the_solution_of_cvxpy_in_the_order_of_its_columns(
    owners: Any, seed: int
) -> None:
    given = program(seed)
    model = dm.from_matrices(**given, owners=owners)
    assert len(model.clients) == 3
    result = model.solve()
    value, x = by_cvxpy(given)
    assert result.status == "optimal"
    assert result.value == near(value)
    assert result["x"] == near(x)


def test_a_number_of_owners_keeps_together_what_the_quadratic_ties() -> None:
    given = program()
    model = dm.from_matrices(**given, owners=4)
    sizes = [sum(v.size for v in client.variables) for client in model.clients.values()]
    assert len(sizes) == 4
    with pytest.raises(dm.DecompositionError) as caught:
        dm.from_matrices(**given, owners=[*"bbbaaaaaaaaa"])
    says(caught.value, "quadratic ties column 0 of 'b' to column 3 of 'a'", "give both to one")


def test_a_maximum_has_a_concave_objective() -> None:
    model = dm.from_matrices(
        [4.0, 2.0], [[1.0, 1.0]], -np.inf, 2.0, quadratic=-2 * np.eye(2), maximise=True, owners=2
    )
    result = model.solve()  # x = (1.5, 0.5) where 4 - 2 x = 2 - 2 y and x + y = 2
    assert result["x"] == near([1.5, 0.5])
    assert result.value == near(4.5)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"owners": ["a"] * 5}, "5 of 12 columns have an owner"),
        ({"owners": {"a": [0, 1]}}, "2 of 12 columns have an owner, not 2, 3, 4, 5, 6 and 5 more"),
        ({"owners": {"a": [0, 1], "b": [1]}}, "column 1 of 'b' is of 'a'"),
        ({"owners": {"a": [40]}}, "column 40 of 'a' is none"),
        ({"owners": 1}, "given 1, expected 2 clients or more"),
        ({"low": [1.0]}, "low has shape (1,), expected (7,) or a number"),
        ({"rows": np.ones((2, 3))}, "rows have shape (2, 3) and cost has 12 entries"),
        ({"quadratic": np.eye(3)}, "quadratic has shape (3, 3), expected (12, 12)"),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(dm.DecompositionError) as caught:
        dm.from_matrices(**{**program(), "owners": OWNERS, **changed})
    says(caught.value, said)


def test_a_quadratic_that_is_not_convex_is_refused() -> None:
    given = program()
    given["quadratic"][2, 2] = -1.0
    with pytest.raises(dm.DeclarationError, match=r"client 'c': .* its least eigenvalue is -"):
        dm.from_matrices(**given, owners=OWNERS)


MPS = """NAME PLANTS
ROWS
 N cost
 G demand
 L north
COLUMNS
 n_coal cost 3 demand 1
 n_coal north 1
 n_wind cost 1 demand 1
 n_wind north 2
 s_gas cost 2 demand 1
RHS
 rhs demand 10 north 8
BOUNDS
 UP bnd s_gas 6
QUADOBJ
 n_coal n_coal 1
 n_wind n_wind 0.5
 s_gas s_gas 1
ENDATA
"""


def test_an_mps_file_has_the_optimum_of_highs(tmp_path: Path) -> None:
    path = tmp_path / "plants.mps"
    path.write_text(MPS)
    solver = highspy.Highs()
    solver.silent()
    solver.readModel(str(path))
    solver.run()
    model = dm.from_mps(path, owners=lambda column: column[0])
    assert list(model.clients) == ["n", "s"]
    result = model.solve()
    assert result.value == near(solver.getInfo().objective_function_value)
    assert result["x"] == near(np.array(solver.getSolution().col_value))


def test_a_file_that_cannot_be_read_or_has_integers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dm.DecompositionError, match=r"HiGHS cannot read .*nothing.mps"):
        dm.from_mps(tmp_path / "nothing.mps", owners=2)
    path = tmp_path / "whole.lp"
    path.write_text("Minimize\n x + y\nSubject To\n c: x + y >= 1\nGenerals\n x\nEnd\n")
    with pytest.raises(dm.DecompositionError, match="1 integer columns, such as 'x'"):
        dm.from_mps(path, owners=2)


def regions() -> linopy.Model:
    """Plants of three regions over four hours, a flow that no region owns, and one demand."""
    region = pd.Index(["north", "south", "west"], name="region")
    plant = pd.Index(["coal", "wind"], name="plant")
    hour = pd.RangeIndex(4, name="hour")
    found = linopy.Model()
    power = found.add_variables(lower=0, upper=5, coords=[region, plant, hour], name="power")
    imported = found.add_variables(lower=-1, upper=1, coords=[hour], name="import")
    demand = xr.DataArray([12.0, 15, 9, 20], coords=[hour])
    found.add_constraints(power.sum(["plant", "region"]) + imported == demand, name="demand")
    found.add_constraints(power.sum("plant") <= 8, name="line")
    cost = xr.DataArray([[3.0, 1], [2, 1], [4, 0.5]], coords=[region, plant])
    found.add_objective((power * cost).sum() + (power * power).sum() + (5 * imported).sum())
    return found


def test_a_linopy_model_by_region_has_the_optimum_of_highs() -> None:
    theirs = regions()
    model = dm.from_linopy(theirs, by="region")
    assert list(model.clients) == ["north", "south", "west", "import"]
    result = model.solve()
    theirs.solve("highs", output_flag=False)
    assert result.value == near(theirs.objective.value)
    assert result["x"] == near(theirs.matrices.sol)


def test_owners_of_a_linopy_model_by_a_function_and_what_is_no_dimension() -> None:
    model = dm.from_linopy(
        regions(), by=lambda name, at: "grid" if name == "import" else at["plant"]
    )
    assert list(model.clients) == ["coal", "wind", "grid"]
    with pytest.raises(dm.DecompositionError) as caught:
        dm.from_linopy(regions(), by="bus")
    says(caught.value, "no variable has the dimension 'bus'", "'hour', 'plant', 'region'")
