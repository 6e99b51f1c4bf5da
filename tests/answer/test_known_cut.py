"""Cuts from known multipliers: never above the client, whatever these are; and what they prove."""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.bound import Bounds, Parts, prices_of
from dald_model.answer.claim import Claim, split
from dald_model.answer.cone_clients import ConeClient, fallen, minimised
from dald_model.answer.judge import Judge
from dald_model.answer.known_cut import known_cut
from dald_model.compile.form import Form, Quadratic
from dald_model.deadline import TimeUpError, within
from tests.front.resolving import regularisation_path


def client() -> tuple[Form, cp.Problem, cp.Variable]:
    """One with all that may hold a client: rows, absolute values, a norm and a smooth term."""
    rng = np.random.default_rng(71)
    data = rng.normal(size=(12, 4))
    x = cp.Variable(4, name="x")
    cost = cp.norm1(data @ x - rng.normal(size=12)) + 3 * cp.norm2(x[:3] - 1)
    cost += cp.sum_squares(x) + cp.sum(cp.logistic(data[:5] @ x))
    rules = [
        cp.sum(x) == 1,
        x <= 0.4,
        cp.norm2(x[1:]) <= 5,
        cp.sum_squares(data[:3] @ x - 1) <= 900,
    ]
    model = dm.Model()
    model.client("one", cost, rules)
    model.client("two", cp.sum_squares(x))
    form = model.compile()["one"].form
    assert form is not None
    return form, cp.Problem(cp.Minimize(cost), rules), x


def height(form: Form) -> int:
    kinks = sum(term.offset.size for term in form.terms if not term.is_smooth)
    kinks += sum(term.weight.size for term in form.terms if term.is_set)
    return form.equalities.rhs.size + form.inequalities.rhs.size + kinks


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_of_any_multipliers_is_nowhere_above_the_client(seed):
    form, problem, x = client()
    rng = np.random.default_rng(seed)
    multipliers = rng.normal(scale=10.0**seed / 100, size=height(form))
    cut = known_cut(form, multipliers, rng.normal(size=4))
    assert cut is not None
    for _ in range(50):
        point = rng.normal(size=4)
        point = np.minimum(point, 0.4)
        point[3] = 1 - point[:3].sum()
        if point[3] > 0.4:
            continue
        x.value = point
        value: Any = problem.objective.value
        here = float(value)
        assert cut.level + cut.slopes @ point <= here + 1e-9 * (1 + np.abs(cut.slopes).sum())


@pytest.mark.parametrize("is_sum", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_cuts_of_limits_of_absolute_values_are_nowhere_above_the_client(seed: int, is_sum: bool):
    """Of their sum, which has an epigraph with slopes at any random multiplier; and of each."""
    rng = np.random.default_rng(seed)
    x, model = cp.Variable(3, name="x"), dm.Model()
    rules = [cp.norm1(x) <= 2] if is_sum else [cp.abs(x) <= 1, cp.sum(x) <= 2]
    model.client("one", cp.sum_squares(x - 2), rules)
    model.client("two", cp.sum_squares(x))
    form = model.compile()["one"].form
    assert form is not None
    assert bool(form.extra) == is_sum
    cut = known_cut(form, rng.exponential(size=height(form)), rng.uniform(-1, 1, size=3))
    assert cut is not None
    for point in rng.uniform(-1, 1, size=(50, 3)):
        if (np.abs(point).sum() if is_sum else point.sum()) <= 2:
            assert cut.level + cut.slopes @ point <= ((point - 2) ** 2).sum() + 1e-9


@pytest.mark.parametrize("radius", [0.5, 3.0, 1e3])
def test_a_linear_cost_in_a_ball_falls_to_minus_its_radius(radius: float):
    """By the multipliers -c, exactly; no others say more of where the cost is least."""
    rng = np.random.default_rng(7)
    c, x, model = rng.normal(size=3), cp.Variable(3, name="x"), dm.Model()
    model.client("one", c @ x, [cp.norm2(x) <= radius])
    model.client("two", cp.sum_squares(x))
    form = model.compile()["one"].form
    assert form is not None
    least = -radius * float(np.linalg.norm(c))
    exact = known_cut(form, np.concatenate([[np.linalg.norm(c)], -c]), rng.normal(size=3))
    assert exact is not None
    assert exact.level == pytest.approx(least, rel=1e-12)
    assert np.abs(exact.slopes).max() <= 1e-12
    lowest = -radius * c / np.linalg.norm(c)
    for _ in range(20):
        cut = known_cut(form, 3 * rng.normal(size=4), radius * rng.normal(size=3))
        assert cut is not None
        assert cut.level + cut.slopes @ lowest <= least * (1 - 1e-12)


class Stub:
    here = None

    def __init__(self, known: float, exact: float) -> None:
        self.known, self.exact = known, exact

    def bracket(self, *_: Any, asks: bool = True, own: Any = None) -> float:
        return self.exact if asks else self.known


@pytest.mark.parametrize("mu", [-3.0, 0.7])
def test_the_gap_of_points_that_differ_is_that_to_the_dual_value(mu: float):
    """Of (x - c)^2 with the price p the least is p c - p^2 / 4; x = 2 and y = 5 are 3 apart."""
    x, model = [cp.Variable(name=name) for name in "xy"], dm.Model("two")
    centres, points = np.array([2.0, -1.0]), np.array([2.0, 5.0])
    for one, centre in zip(x, centres, strict=True):
        model.client(one.name(), cp.square(one - centre))
    model.consensus(x[0] == x[1])
    compiled = model.compile()
    prices = prices_of(compiled, np.array([mu]))
    assert sorted(prices) == sorted([mu, -mu])
    costs, lows = (points - centres) ** 2, prices * centres - prices**2 / 4
    parts: Any = [Stub(one, one) for one in costs + prices * points - lows]
    found = Bounds(
        compiled,
        Parts([], dict(zip("xy", parts, strict=True))),
        points,
        points,
        np.ones(2),
        dict(zip("xy", costs, strict=True)),
    ).of(np.array([mu]), 0.5)
    assert found.gap == pytest.approx(costs.sum() - lows.sum(), rel=1e-12)


def test_prices_that_a_server_does_not_balance_cost_as_far_as_it_may_be():
    """1 and 1 / 2 are its clients' prices, and it may be 2 away: 3 in all."""
    w, model = cp.Variable(name="w"), dm.Model("server")
    model.client("a", cp.square(w))
    model.client("b", cp.square(w - 1))
    model.topology("server")
    compiled = model.compile()
    parts: Any = {"a": Stub(0.0, 0.0), "b": Stub(0.0, 0.0)}
    bounds = Bounds(
        compiled,
        Parts([], parts),
        np.zeros(3),
        np.zeros(3),
        np.full(3, 2.0),
        dict.fromkeys("ab", 0.0),
    )
    assert bounds.of(np.array([1.0, 0.5]), 0.5).gap == pytest.approx(3.0)


def test_a_bracket_below_zero_pays_for_no_other():
    """No feasible point is better than its own client's least: such a bracket is a solver's error.

    Five that one client loses are no gap of a tenth where another's cut is wrong by 4.9.
    """
    x, model = cp.Variable(name="x"), dm.Model()
    model.client("loses", cp.abs(x))
    model.client("wrong", cp.abs(x - 1))
    compiled = model.compile()
    stubs: Any = {"loses": Stub(5.0, 5.0), "wrong": Stub(-4.9, 0.0)}
    at = np.zeros(sum(sub.size for sub in compiled.values()))
    costs = dict.fromkeys(compiled, 0.0)
    bounds = Bounds(compiled, Parts([], stubs), at, at, np.ones(at.size), costs)
    assert bounds.of(np.zeros(compiled.size), 0.5).gap == 5.0


def test_cuts_of_many_at_once_are_as_low_as_each_clients_minimum():
    """Of two shapes in turn, in a box, by cvxpy; None of a client that is not split."""
    rng = np.random.default_rng(44)
    x, model = cp.Variable(3, name="x"), dm.Model()
    costs, rules = [], []
    for at in range(6):
        rows = rng.normal(size=(5 + at, 3))
        costs.append(cp.norm1(rows @ x - rng.normal(size=5 + at)))
        rules.append([x >= -1, x <= 1] if at % 2 else [])
        model.client(at, costs[-1], rules[-1])
    model.client("roots", cp.quad_over_lin(x, 1 + x[0]))
    compiled = model.compile()
    centres, prices = rng.normal(size=(2, 7, 3)) / 10
    clients = [
        ConeClient(compiled[name], centres[at]) for at, name in enumerate([*range(6), "roots"])
    ]
    reach, enough = np.full(3, 2.0), 1e-7
    cuts = minimised(clients, list(prices), [reach] * 7, enough)
    assert not cuts[-1]
    for (*_, cut), centre, price, cost, own in zip(
        cuts[:-1], centres, prices, costs, rules, strict=False
    ):
        box = [cp.abs(x - centre) <= reach]
        exact = cp.Problem(cp.Minimize(cost + price @ (x - centre)), own + box)
        lowest: Any = exact.solve(
            solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
        )
        least = cut.least(price, np.zeros(3), reach)
        assert lowest - enough <= least <= lowest + 1e-9


def test_cuts_of_wide_clients_are_as_low_and_take_no_hessian(monkeypatch):
    """Of more variables than rows of data, with kinks and a bound: in a box, by cvxpy."""
    rng = np.random.default_rng(45)
    size, reach, enough = 300, np.full(300, 2.0), 1e-6
    x, model = cp.Variable(size, name="x"), dm.Model()
    rows, right = rng.normal(size=(2, 20, size)), rng.normal(size=(2, 20))
    prices = rng.normal(size=(2, size)) / 10
    costs = [cp.sum_squares(A @ x - b) + cp.norm1(x) for A, b in zip(rows, right, strict=True)]
    rules = [[], [x >= -0.1]]
    for at in range(2):
        model.client(at, costs[at], rules[at])
    compiled = model.compile()
    clients = [ConeClient(compiled[at], np.zeros(size)) for at in range(2)]
    monkeypatch.setattr(Quadratic, "full", None)
    cuts = minimised(clients, list(prices), [reach] * 2, enough)
    for found, price, cost, own, b in zip(cuts, prices, costs, rules, right, strict=True):
        exact = cp.Problem(cp.Minimize(cost + price @ x), [*own, cp.abs(x) <= reach])
        lowest: Any = exact.solve(
            solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
        )
        least = found[-1].least(price, np.zeros(size), reach) + float(b @ b)  # from the origin
        assert lowest - enough <= least <= lowest + 1e-7


def test_newton_steps_of_a_proof_are_within_the_time_limit():
    x, model = cp.Variable(3, name="x"), dm.Model()
    for name in "ab":
        model.client(name, cp.norm1(np.eye(3) @ x + ord(name)))
    client = ConeClient(model.compile()["a"], np.zeros(3))
    with within(1e-9), pytest.raises(TimeUpError):
        minimised([client], [np.zeros(3)], [np.ones(3)], 1e-7)


def test_multipliers_of_another_number_are_none():
    form, _, _ = client()
    assert known_cut(form, np.zeros(height(form) - 1), np.zeros(4)) is None


def test_an_optimum_by_curvature_is_proved_by_its_own_multipliers():
    """The dual value is the optimum's: f(w) = sum |w - a_i| with rules, checked by the median."""
    numbers = [-4.0, 1.0, 2.0, 7.0, 30.0]
    model, w = dm.Model(), cp.Variable(name="w")
    for at, number in enumerate(numbers):
        model.client(at, cp.abs(w - number), [w >= -100])
    result = model.solve(disclose="curvature")
    assert result.status == "optimal"
    assert result.value == pytest.approx(sum(abs(2.0 - n) for n in numbers), rel=1e-8)
    assert result.verify().ok


@pytest.mark.parametrize("loss", ["hinge", "absolute", "l1", "group"])
def test_an_optimum_by_answers_is_proved_by_what_its_solver_knows(loss, monkeypatch):
    def never(*_: Any) -> Any:
        raise AssertionError("a cone program was solved")

    monkeypatch.setattr("dald_model.answer.cone_clients.bounded", never)
    monkeypatch.setattr("dald_model.answer.cone_clients.least_within", never)
    rng, w = np.random.default_rng(3), cp.Variable(4, name="w")
    costs = {
        "hinge": lambda A, b: (
            cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ w))) + cp.sum_squares(w)
        ),
        "absolute": lambda A, b: cp.norm1(A @ w - b),
        "l1": lambda A, b: cp.sum_squares(A @ w - b) + 20 * cp.norm1(w),
        "group": lambda A, b: cp.sum_squares(A @ w - b) + 20 * cp.norm2(w[:2]),
    }
    model = dm.Model(loss)
    for rows in (5, 40, 400):
        A = rng.normal(size=(rows, 4))
        model.client(rows, costs[loss](A, A @ [1, -2, 0, 3] + rng.normal(size=rows)))
    result = model.solve()
    assert result.status == "optimal"
    best = model.monolithic().solve(solver=cp.CLARABEL)
    assert result.value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("what", ["points", "multipliers", "nothing"])
def test_who_is_right_at_once_is_right(what: str) -> None:
    given = regularisation_path()
    given.step(20)
    result = given.model.solve(disclose="curvature")
    claim = Claim.of(result)
    if what == "points":
        values = {key: 1.001 * np.asarray(value) for key, value in claim.values.items()}
        claim = replace(claim, values=values, own=split(claim.compiled, values))
    elif what == "multipliers":
        claim = replace(claim, multipliers=1.01 * claim.multipliers)
    assert Judge(claim, 1e-4, 1e-4).is_right_at_once == (what == "nothing")


ATOMS = {
    "squares": lambda x, A, b: cp.sum_squares(A @ x - b),
    "huber": lambda x, A, b: cp.sum(cp.huber(A @ x - b)) + 0.1 * cp.sum_squares(x),
    "lasso": lambda x, A, b: cp.sum_squares(A @ x - b) + cp.norm1(x),
    "logistic": lambda x, A, b: cp.sum(cp.logistic(A @ x)) + cp.sum_squares(x),
    "absolute": lambda x, A, b: cp.norm1(A @ x - b),
    "linear": lambda x, A, b: b[:4] @ x,
}


@pytest.mark.parametrize("reach", [0.05, 10.0])
@pytest.mark.parametrize("atom", ATOMS)
def test_falls_are_those_of_cvxpy_and_no_larger(atom, reach):
    rng = np.random.default_rng(3)
    w, model, owners = cp.Variable(4, name="w"), dm.Model(), []
    for name in range(12):
        A, b = rng.normal(size=(9, 4)), rng.normal(size=9)
        goal, rules = ATOMS[atom](w, A, b), [cp.sum(w) <= 0.2 + 0.1 * name, w >= -0.1 - 0.01 * name]
        owners.append((goal, rules))
        model.client(name, goal, rules)
    compiled, at = model.compile(), rng.uniform(-0.1, 0.05, size=4)
    clients = [ConeClient(compiled[name], at) for name in range(12)]
    found = fallen(clients, [np.full(4, reach)] * 12)
    for (goal, rules), known in zip(owners, found, strict=True):
        problem = cp.Problem(cp.Minimize(goal), [*rules, cp.abs(w - at) <= reach])
        w.value = at
        true = goal.value - problem.solve(
            "CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
        )
        assert known is not None
        assert (1 - 1e-7) * true - 1e-8 <= known[0] <= (1 + 1e-9) * true + 1e-9
        assert (np.abs(known[1]) <= reach * (1 + 1e-9)).all()


def test_falls_to_a_minimiser_that_is_not_one_point_are_found():
    w, model = cp.Variable(2, name="w"), dm.Model()
    for name in range(3):
        model.client(name, cp.square(w[0] - name), [cp.sum(w) <= 1, w >= -1 - name])
    compiled = model.compile()
    clients = [ConeClient(compiled[name], np.zeros(2)) for name in range(3)]
    # From w = 0 to w[0] = min(name, 1), with any w[1]
    found = [known and known[0] for known in fallen(clients, [np.ones(2)] * 3)]
    assert found == pytest.approx([0, 1, 3], rel=1e-5)
