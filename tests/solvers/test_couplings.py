"""What solves couplings, by a certificate and beside a general cone solver."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import Choice, Turn
from tests.expect import says

PARTIES, SIZE = 4, 3
DATA = np.random.default_rng(11)
WEIGHTS = DATA.normal(size=(PARTIES, SIZE))


def coupled(part: Any) -> dm.Model:
    """Some clients and one coupling of their variables, a constraint or an objective."""
    x = [cp.Variable(SIZE, name=f"x{i}") for i in range(PARTIES)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v))
    made = part(x)
    if isinstance(made, tuple):
        model.couple(*made[0], objective=made[1], name="all")
    elif isinstance(made, list):
        model.couple(*made, name="all")
    else:
        model.couple(objective=made, name="all")
    return model


COUPLINGS = {
    "market": lambda x: [sum(x) == np.arange(3.0)],
    "weighted": lambda x: [sum(a @ v for a, v in zip(WEIGHTS, x, strict=True)) == 2],
    "budget": lambda x: [cp.sum(cp.hstack(x)) <= -2],
    "box": lambda x: [sum(x) <= 0.2, sum(x) >= -0.1],
    "order": lambda x: [x[0] <= x[1], x[2] <= x[3]],
    "norm": lambda x: 0.7 * cp.norm(x[0] - x[1]) + 0.2 * cp.norm(x[2] + x[3]),
    "absolute": lambda x: 0.4 * cp.norm1(x[0] + x[1] + x[2] + x[3]),
    "ball": lambda x: [cp.norm(sum(x)) <= 0.5],
    "limit and cost": lambda x: ([sum(x) <= 0.2], 0.3 * cp.sum_squares(sum(x) - 1)),
    "limit and cost of differences": lambda x: (
        [-2 * sum(x) <= 0.5],
        cp.sum_squares(cp.diff(sum(x))) + cp.sum(x[0] + x[3]),
    ),
}


def turn(sub: dm.Subproblem, rng: np.random.Generator) -> Turn:
    """Random multipliers and neighbours, penalties from 0.1 to 10 by edge."""
    rho = np.repeat(
        10 ** rng.uniform(-1, 1, size=len(sub.others)), sub.signs.size // len(sub.others)
    )
    edges = rng.normal(size=(2, sub.signs.size))
    return Turn(np.array([0]), edges[0], rho, edges[1], np.zeros(sub.size))


@pytest.mark.parametrize("name", COUPLINGS)
def test_the_point_is_that_of_cvxpy(name: str) -> None:
    sub = coupled(COUPLINGS[name]).compile()["all"]
    session = Choice("auto").chain(sub)[0].open([sub])
    rng = np.random.default_rng(5)
    for _ in range(3):
        given = turn(sub, rng)
        answers = session.minimise(given, 1e-12)
        assert answers.statuses == ["optimal"]
        sub.set(given.mu, given.rho, given.neighbours)
        sub.problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        assert answers.points == pytest.approx(sub.point(), abs=2e-6)
        assert answers.objectives[0] == pytest.approx(sub.client.cost.value, abs=2e-6)


@pytest.mark.parametrize("name", ["market", "weighted", "budget", "box", "order"])
def test_rows_have_multipliers_that_balance_the_augmented_gradient(name: str) -> None:
    sub = coupled(COUPLINGS[name]).compile()["all"]
    assert sub.form is not None
    session = Choice("auto").chain(sub)[0].open([sub])
    given = turn(sub, np.random.default_rng(6))
    answers = session.minimise(given, 1e-12)
    matrix, offset = sub.sides
    pull = sub.signs * given.mu + 2 * given.rho**2 * (
        matrix @ answers.points + offset - given.neighbours
    )
    equal, below = np.split(answers.multipliers.values, [sub.form.equalities.rhs.size])
    rest = matrix.T @ pull + sub.form.equalities.matrix.T @ equal
    rest = rest + sub.form.inequalities.matrix.T @ below
    assert rest == pytest.approx(np.zeros(sub.size), abs=1e-9)
    assert (below >= 0).all()


def test_couplings_of_one_shape_and_different_sums_are_solved_together() -> None:
    """Two rows each, in one coupling multiples of each other."""
    x = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.square(v - i))
    model.couple(x[0] + x[1] <= 0, -x[0] - x[1] <= 1, name="one sum")
    model.couple(x[2] <= 1, 2 * x[3] <= 3 + 0 * x[0], name="two sums")
    model.couple(sum(x) <= 5)
    result = model.solve()
    assert result.verify().ok


def test_a_solver_named_for_all_leaves_couplings_that_it_cannot_take() -> None:
    model = coupled(COUPLINGS["norm"])
    for given, expected in [
        ("factor", "semismooth"),
        ("conic", "conic"),
        ({"all": "conic"}, "conic"),
    ]:
        found = {name: one.solver for one in model.compile().explain(given) for name in one.clients}
        assert found["all"] == expected
    with pytest.raises(dm.OptionError) as caught:
        model.compile().explain({"all": "factor"})
    says(caught.value, "'factor' cannot take client 'all'")
