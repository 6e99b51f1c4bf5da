r"""Newton's method, against cvxpy's atoms, proofs of optimality and other solvers.

How far a point x may be from the minimiser is proved, not compared. Where the objective is strongly
convex with modulus s, x minimises a problem whose cost differs by :math:`r^\top x` and whose rows
are moved by e, with multipliers :math:`\nu, \lambda \ge 0` and

.. math::
    r = \nabla F(x) + E^\top \nu + A^\top \lambda, \qquad e = \min(\lambda, b - A x),

so x is within :math:`\|r\| / s`, and a multiple of e, of the minimiser.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import lambertw

import dald_model as dm
from dald_model.solvers import Newton, Turn
from dald_model.solvers.exact import semismooth_turn
from dald_model.solvers.exact.line_search import flattened, turned
from tests.solvers.quadratics import BOUND, make_form, make_term


@dataclass
class Stub:
    """What a session needs of a subproblem: its edges tie every variable."""

    form: Any
    name: str = "client"
    side: Any = None
    size: int = field(init=False)
    sides: Any = field(init=False)
    signs: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.form.size
        side = np.eye(self.size) if self.side is None else self.side
        self.sides = (sp.csr_array(side), np.zeros(len(side)))
        self.signs = np.ones(len(side))


def open_session(forms: Sequence[Any]) -> Any:
    stubs = [Stub(form) for form in forms]
    assert not any(Newton().refuses(cast(dm.Subproblem, stub)) for stub in stubs)
    return Newton().open(cast("list[dm.Subproblem]", stubs))


def everyone(mu: np.ndarray, rho: float = 0.7) -> Turn:
    """A turn of clients with a row of mu each, whose neighbours are at zero."""
    flat = mu.ravel()
    return Turn(np.arange(len(mu)), flat, np.full(flat.size, rho), np.zeros(flat.size))


# --- one client -----------------------------------------------------------------------------------


def test_closed_forms() -> None:
    # exp(x) + mu x with mu = -5, entropy on the simplex, -log x + x^2 with the start at its edge
    exp = make_form([make_term("exp", np.eye(1))])
    found = open_session([exp]).minimise(everyone(np.array([[-5.0]]), rho=0.0), 1e-10)
    assert found.points[0] == pytest.approx(np.log(5), abs=1e-10)
    cost = np.array([1.0, 2.0, 4.0])
    simplex = (np.ones((1, 3)), np.ones(1))
    entropy = make_form([make_term("entropy", np.eye(3))], equal=simplex)
    found = open_session([entropy]).minimise(everyone(cost[None], rho=0.0), 1e-10)
    np.testing.assert_allclose(found.points, np.exp(-cost) / np.exp(-cost).sum(), atol=1e-10)
    log = make_form([make_term("log", np.eye(1))])
    found = open_session([log]).minimise(everyone(np.zeros((1, 1)), rho=1.0), 1e-10)
    assert found.points[0] == pytest.approx(np.sqrt(0.5), abs=1e-10)


def test_no_tiny_step_far_from_the_minimum_is_taken_for_the_end() -> None:
    """Near the pole of the logarithm Newton's steps are tiny: they double x and no more."""
    log = make_form([make_term("log", np.eye(1))])
    session = open_session([log])
    near = session.minimise(everyone(np.array([[1e9]]), rho=0.0), 1e-12)
    assert near.points[0] == pytest.approx(1e-9, abs=1e-12)
    far = session.minimise(everyone(np.array([[1.0]]), rho=0.0), 1e-6)
    assert far.points[0] == pytest.approx(1.0, abs=1e-6)


def minima(weight: np.ndarray, bend: float, price: np.ndarray) -> np.ndarray:
    """Where w u log u + bend u^2 / 2 + price u is least: w (log u + 1) + bend u + price = 0."""
    return weight / bend * lambertw(bend / weight * np.exp(-1 - price / weight)).real


@pytest.mark.parametrize("with_row", [False, True])
@pytest.mark.parametrize("before", [20.0, 30.0, 40.0, 60.0])
def test_a_price_that_is_gone_lets_an_entropy_leave_its_pole(before: float, with_row: bool) -> None:
    """Next to the pole Newton's steps are many times the argument, and far below any tolerance."""
    row = (np.array([[0.0, 1.0]]), np.array([5.0])) if with_row else None
    entropy = make_term("entropy", np.array([[1.0, 0.0]]))
    session = open_session([make_form([entropy], quadratic=np.eye(2), below=row)])
    near = session.minimise(everyone(np.array([[before, 1.0]]), rho=0.0), 1e-9)
    assert near.points[0] < 1e-8
    far = session.minimise(everyone(np.array([[0.0, -1.0]]), rho=0.0), 1e-6)
    assert far.statuses == ["optimal"], far.messages
    expected = minima(np.ones(1), 1.0, np.zeros(1))[0]
    np.testing.assert_allclose(far.points, [expected, 1.0], atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1.0, 3.7, -250.0])
def test_a_row_at_the_edge_of_a_domain_leaves_no_point_at_its_pole(offset: float) -> None:
    """A step to such a row is in the domain by rounding alone, and there all steps are rounding."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        weight = 10.0 ** rng.uniform(-3, 3, 3)
        entropy = make_term("entropy", np.eye(3), np.full(3, offset), weight)
        form = make_form([entropy], quadratic=np.eye(3), below=(-np.eye(3), np.full(3, offset)))
        session = open_session([form])
        for _ in range(6):
            price = weight * rng.uniform(-5, 20, 3)
            found = session.minimise(everyone((price + offset)[None], rho=0.0), 1e-8)
            assert found.statuses == ["optimal"], found.messages
            expected = minima(weight, 1.0, price) - offset
            np.testing.assert_allclose(found.points, expected, atol=1e-8 + 1e-12 * abs(offset))


def test_a_singular_hessian_is_no_obstacle() -> None:
    """Variable 1 is in no edge, and at zero its huber terms are saturated."""
    form = make_form([make_term("huber", np.array([[1.0, 0], [0, 1], [0, 1]]), np.full(3, -9.0))])
    stub = Stub(form, side=np.array([[1.0, 0.0]]))
    session = Newton().open(cast("list[dm.Subproblem]", [stub]))
    turn = Turn(np.array([0]), np.zeros(1), np.ones(1), np.zeros(1))
    found = session.minimise(turn, 1e-9)
    assert found.statuses == ["optimal"], found.messages
    np.testing.assert_allclose(found.points, [BOUND / 2, 9.0], atol=1e-8)


# --- what has no answer ---------------------------------------------------------------------------


def test_no_minimum_is_never_called_optimal() -> None:
    form = make_form([make_term("logistic", -np.eye(2))])  # separable: ever lower
    found = open_session([form]).minimise(everyone(np.zeros((1, 2)), rho=0.0), 1e-6)
    assert found.statuses == ["solver_error"]
    assert np.isnan(found.points).all()
    assert np.isnan(found.objectives).all()
    assert "steps that do not shrink" in found.messages[0]


def test_an_empty_domain_is_left_to_another_solver_and_the_others_go_on() -> None:
    empty = make_form([make_term("log", np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]))])
    good = make_form([make_term("log", np.array([[1.0], [-1.0]]), np.array([-1.0, 3.0]))])
    found = open_session([empty, good]).minimise(everyone(np.zeros((2, 1)), rho=0.0), 1e-9)
    assert found.statuses == ["solver_error", "optimal"]
    assert "domain" in found.messages[0]
    assert found.points[1] == pytest.approx(2.0, abs=1e-9)


def test_after_a_failure_the_client_starts_anew() -> None:
    form = make_form([make_term("logistic", -np.eye(2))])
    session = open_session([form])
    assert session.minimise(everyone(np.zeros((1, 2)), 0.0), 1e-6).statuses == ["solver_error"]
    found = session.minimise(everyone(np.full((1, 2), 0.5), 0.0), 1e-9)
    np.testing.assert_allclose(found.points, [0.0, 0.0], atol=1e-9)


# --- rounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [45.0, 4.5e-3, 4.5e5])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e3])
def test_a_bounded_variable_that_only_rows_and_its_price_hold(price: float, unit: float) -> None:
    """A reservoir feeds pipes: its price alone, no curvature, says how much it gives."""
    rng = np.random.default_rng(0)
    pipes, feed = cp.Variable(4, name="pipes"), cp.Variable(name="feed")
    cost = cp.sum(cp.exp(pipes / 20) + cp.exp(-pipes / 20)) * price - price * unit * feed / 50
    wish = rng.normal(20, 10, size=4)
    model = dm.Model("reservoir")
    model.client("district", cost, [cp.sum(pipes) == unit * feed - 3, feed >= 0])
    model.client("rest", 1e-2 * price * cp.sum_squares(pipes - wish))
    result = model.solve()
    assert result.status == "optimal"
    assert "newton" in str(model.compile().explain())
    found: Any = pipes.value, feed.value
    assert result.verify().ok
    # The stationary point by hand: the reservoir takes whatever the pipes bring
    slope = np.sinh(found[0] / 20) / 10 + 2e-2 * (found[0] - wish)
    np.testing.assert_allclose(slope, 1 / 50, atol=1e-5)
    np.testing.assert_allclose(unit * found[1], found[0].sum() + 3, rtol=1e-6)


def test_rows_beyond_a_domain_are_refused_where_no_step_is_left(monkeypatch: pytest.MonkeyPatch):
    """Of -log x with x <= -1 steps end at zero, each as the last: no use to take 200 of them."""
    x, y, model = cp.Variable(3), cp.Variable(3), dm.Model()
    model.client("empty", -cp.sum(cp.log(x)), [x[0] <= -1])
    model.client("other", cp.sum_squares(y - 1))
    model.consensus(x[0] == y[0])
    searches: list[int] = []
    search = semismooth_turn.flattened
    monkeypatch.setattr(
        semismooth_turn, "flattened", lambda *given: searches.append(1) or search(*given)
    )
    assert model.solve().status == "infeasible"
    assert len(searches) < 100


def test_stiff_kinks_on_the_way_are_not_looked_for_by_halves():
    """Of t^3 / 3 - t / 4 and kinks of 1 / 40 between slopes -1 and 1 only the cube is not known."""
    places, asked = np.linspace(0.05, 0.95, 40), list[float]()
    stiff = 1e6

    def plain(t: np.ndarray) -> np.ndarray:
        return np.clip(stiff * (t[:, None] - places), -1, 1).sum(axis=1) / 40 - 0.25

    def slope(t: np.ndarray) -> np.ndarray:
        asked.append(float(t[0]))
        return plain(t) + t**2

    def zero(low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray) -> np.ndarray:
        curved = below - plain(low)
        rise = (above - plain(high) - curved) / (high - low)
        spans = np.stack([places - 1 / stiff, places + 1 / stiff])[:, None]
        start = plain(np.zeros(1)) + curved - low * rise
        return turned(start, rise, np.full((1, 40), stiff / 40), spans)

    first, last = slope(np.zeros(1)), slope(np.ones(1))
    asked.clear()
    found = flattened(slope, first, last, zero)
    # Between two kinks k of 40 are behind: (2 k - 40) / 40 - 1 / 4 + t^2 changes sign at one
    assert abs(slope(found)[0]) <= 0.1 * abs(first[0])
    assert len(asked) <= 5
