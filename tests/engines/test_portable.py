"""Clients as bytes: what arrives is what was sent, and it is solved where cvxpy is not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.solvers import NAMED, Choice, Turn
from tests.duals import duals
from tests.engines import tampered
from tests.zoo import GRAPHS, PROBLEMS


def cones() -> dict[str, Any]:
    """Clients of every cone, over a variable of three."""
    w = np.array([0.2, 0.3, 0.5])
    return {
        "second order": lambda x: [cp.SOC(0.4, x)],
        "exponential": lambda x: [cp.ExpCone(x[0], x[1] + 1, x[2])],
        "power": lambda x: [cp.PowCone3D(x[0] + 1, x[1] + 1, x[2], 0.3)],
        "powers": lambda x: [cp.PowConeND(x + 1, x[2], w)],
        "semidefinite": lambda x: [cp.diag(x) + 0.2 * np.ones((3, 3)) >> 0],
        "rows": lambda x: [x <= 1, cp.sum(x) == 0.5],
        "ball": lambda x: [cp.norm(x) <= 0.5],
        "norm": lambda x: [cp.norm1(x) <= 0.5, cp.norm_inf(x) <= 0.4],
    }


def of_cone(name: str) -> dm.Subproblem:
    x, y = cp.Variable(3), cp.Variable(3)
    model = dm.Model(name)
    model.client("a", cp.sum_squares(x - np.array([1.0, 2.0, 3.0])), cones()[name](x))
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    return model.compile()["a"]


def clients(name: str) -> list[dm.Subproblem]:
    compiled = PROBLEMS[name]().on(GRAPHS["star"]()).model.compile()
    return [sub for sub in compiled.values() if not sub.client.is_server]


def same(one: Any, two: Any) -> None:
    """Equal to the last bit, dense or sparse or missing alike."""
    if one is None:
        assert two is None
        return
    assert sp.issparse(one) == sp.issparse(two)
    assert one.shape == two.shape
    dense = [a.toarray() if sp.issparse(a) else a for a in (one, two)]
    np.testing.assert_array_equal(*dense)


def same_client(sub: dm.Subproblem, found: Any) -> None:
    form = sub.form
    assert form is not None
    assert found.name == str(sub.name)
    assert found.size == sub.size
    assert found.form.size == form.size
    assert found.form.complete == form.complete
    assert found.form.shape == form.shape
    same(form.quadratic.matrix, found.form.quadratic.matrix)
    same(form.quadratic.root, found.form.quadratic.root)
    same(form.quadratic.linear, found.form.quadratic.linear)
    assert found.form.quadratic.constant == form.quadratic.constant
    for one, two in (
        (form.equalities, found.form.equalities),
        (form.inequalities, found.form.inequalities),
    ):
        same(one.matrix, two.matrix)
        same(one.rhs, two.rhs)
    assert len(found.form.terms) == len(form.terms)
    for one, two in zip(form.terms, found.form.terms, strict=True):
        assert (one.kind, one.width) == (two.kind, two.width)
        for what in ("weight", "matrix", "offset", "parameter"):
            same(getattr(one, what), getattr(two, what))
    cone, other = form.cone, found.form.cone
    for what in ("matrix", "linear", "rows", "rhs"):
        same(getattr(cone, what), getattr(other, what))
    assert other.constant == cone.constant
    assert [kind for kind, _ in other.cones] == [kind for kind, _ in cone.cones]
    for (_, one), (_, two) in zip(cone.cones, other.cones, strict=True):
        assert (one is None) == (two is None)
        np.testing.assert_array_equal(np.ravel(one), np.ravel(two))
    same(sub.sides[0], found.sides[0])
    same(sub.sides[1], found.sides[1])
    same(sub.signs, found.signs)


def turn(sub: dm.Subproblem, seed: int = 0) -> Turn:
    rng = np.random.default_rng(seed)
    q = sub.entries.size
    return Turn(np.zeros(1, int), rng.normal(size=q), 1 + rng.random(q), rng.normal(size=q))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_client_of_the_zoo_arrives_as_it_was_sent(name: str) -> None:
    for sub in clients(name):
        same_client(sub, dm.unpack(dm.pack(sub)))


@pytest.mark.parametrize("name", cones())
def test_every_cone_arrives_and_is_solved_alike(name: str) -> None:
    sub = of_cone(name)
    found = dm.unpack(dm.pack(sub))
    same_client(sub, found)
    given = turn(sub)
    solver = Choice("auto").chain(sub)[0]
    here = solver.open([sub]).minimise(given, 1e-8)
    there = solver.open([found]).minimise(given, 1e-8)  # pyright: ignore[reportArgumentType]
    assert here.statuses[0] in ("optimal", "optimal_inaccurate")
    np.testing.assert_array_equal(here.points, there.points)
    np.testing.assert_array_equal(here.objectives, there.objectives)
    conic = NAMED["conic"]
    np.testing.assert_array_equal(
        conic.open([sub]).minimise(given, 1e-8).points,
        conic.open([found]).minimise(given, 1e-8).points,  # pyright: ignore[reportArgumentType]
    )


def test_the_multipliers_of_a_packed_client_are_turned_into_dual_values_by_its_owner() -> None:
    for name in ("rows", "ball", "second order", "powers"):
        sub = of_cone(name)
        solver, given = Choice("auto").chain(sub)[0], turn(sub)
        here = duals(sub, solver.open([sub]).minimise(given, 1e-9))
        packed: Any = dm.unpack(dm.pack(sub))
        back = duals(sub, solver.open([packed]).minimise(given, 1e-9))
        assert here
        for one, two in zip(here, back, strict=True):
            for a, b in zip(one, two, strict=True):
                np.testing.assert_array_equal(a, b)


def test_the_bytes_hold_no_code_and_a_small_header() -> None:
    for name in ("logistic", "lasso", "semidefinite"):
        for sub in clients(name):
            with np.load(io.BytesIO(dm.pack(sub)), allow_pickle=False) as stored:
                arrays = dict(stored)
            assert all(array.dtype.kind in "iufb" for array in arrays.values())
            header = arrays["header"].tobytes()
            assert json.loads(header)["version"] == 2
            assert len(header) < 1000


def test_bytes_grow_with_the_data_and_not_with_the_client() -> None:
    A = np.random.default_rng(1).normal(size=(300, 40))
    x, y = cp.Variable(40), cp.Variable(40)
    model = dm.Model("large")
    model.client("a", cp.sum(cp.logistic(A @ x)))
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    # The matrix of the terms and the same in the cone program: values, and an index to each
    assert len(dm.pack(model.compile()["a"])) < 6 * A.nbytes


PROGRAM = """
import sys
import numpy as np

def refuse(*args, **kwargs):
    raise AssertionError("cvxpy was asked")

import cvxpy
from dald_model import unpack
from dald_model.solvers import NAMED, Turn
for name in ("Problem", "Variable", "Parameter", "Minimize", "Constant"):
    getattr(cvxpy, name).__init__ = refuse
folder, *names = sys.argv[1:]
for name in names:
    with open(f"{folder}/{name}", "rb") as file:
        client = unpack(file.read())
    with np.load(f"{folder}/{name}-turn.npz") as given:
        turn = Turn(np.zeros(1, int), given["mu"], given["rho"], given["neighbours"])
    answers = NAMED[name].open([client]).minimise(turn, 1e-8)
    assert answers.statuses[0] == "optimal", (name, answers.statuses)
    np.savez(f"{folder}/{name}-answer.npz", points=answers.points, objectives=answers.objectives)
"""
SOLVED_BY = {
    "factor": "least_squares",
    "active_set": "simplex",
    "semismooth": "group_lasso",
    "newton": "logistic",
    "conic": "semidefinite",
}


@pytest.mark.slow
def test_another_process_that_cannot_use_cvxpy_finds_the_same_points(tmp_path: Path) -> None:
    """One process for all, as it takes two seconds to begin."""
    subs = {
        solver: next(sub for sub in clients(problem) if not NAMED[solver].refuses(sub))
        for solver, problem in SOLVED_BY.items()
    }
    turns = {solver: turn(sub, 3) for solver, sub in subs.items()}
    for solver, given in turns.items():
        (tmp_path / solver).write_bytes(dm.pack(subs[solver]))
        file = tmp_path / f"{solver}-turn.npz"
        np.savez(file, mu=given.mu, rho=given.rho, neighbours=given.neighbours)
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path), *SOLVED_BY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for solver, sub in subs.items():
        here = NAMED[solver].open([sub]).minimise(turns[solver], 1e-8)
        with np.load(tmp_path / f"{solver}-answer.npz") as found:
            np.testing.assert_allclose(
                found["points"], here.points, rtol=1e-12, atol=1e-13, err_msg=solver
            )
            np.testing.assert_allclose(
                found["objectives"], here.objectives, rtol=1e-12, err_msg=solver
            )


def test_bytes_of_another_version_are_refused() -> None:
    with np.load(io.BytesIO(dm.pack(of_cone("rows")))) as given:
        arrays = dict(given)
    header = json.loads(arrays["header"].tobytes()) | {"version": 99}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with pytest.raises(dm.OptionError) as caught:
        dm.unpack(tampered.stored(arrays))
    assert str(caught.value) == (
        "unpack: the client was packed in format 99, expected 2; "
        "pack and unpack with the same version of dald_model"
    )


def test_a_server_has_no_numbers_to_send() -> None:
    compiled = PROBLEMS["least_squares"]().on(GRAPHS["star"]()).model.compile()
    (server,) = compiled.servers
    with pytest.raises(dm.OptionError) as caught:
        dm.pack(compiled[server])
    assert str(caught.value) == (
        f"client {server!r} has no numerical form: it is a server, or cvxpy alone can "
        "solve it; keep it in this process"
    )
