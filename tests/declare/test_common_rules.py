"""Constraints that every client repeats are held once, by the server."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm


def data(count, seed=1):
    rng = np.random.default_rng(seed)
    A, truth = rng.normal(size=(count, 15, 10)), rng.normal(size=10)
    return A, A @ truth + rng.normal(size=(count, 15))


def model_of(count, rules):
    """Least squares over one variable, each client with rules of its own making."""
    A, b = data(count)
    w, model = cp.Variable(10, name="w"), dm.Model("in common")
    for i in range(count):
        model.client(i, cp.sum_squares(A[i] @ w - b[i]), rules(w, i))
    return model


def box(w, i):
    return [w >= 0, w <= 0.6]


def test_rounds_do_not_grow_with_the_clients():
    few, many = model_of(20, box).solve(), model_of(300, box).solve()
    assert few.status == many.status == "optimal"
    assert many.rounds <= 1.5 * few.rounds


@pytest.mark.parametrize(
    "rules",
    [
        box,
        lambda w, i: [w >= 0, cp.sum(w) == 1],
        lambda w, i: [cp.norm(w) <= 0.5],
        lambda w, i: [cp.norm1(w) <= 1, w[0] >= 0.1],
    ],
    ids=["box", "simplex", "ball", "cross and a sign"],
)
def test_the_prices_come_back_at_the_constraints_of_each_client(rules):
    model = model_of(4, rules)
    result = model.solve()
    assert model.compile().holder == "server"
    assert result.verify().ok
    value = model.monolithic().solve(solver=cp.CLARABEL)
    assert result.value == pytest.approx(value, rel=1e-6)
    ours = _sums(model)
    reference = model.monolithic()
    reference.solve(solver=cp.CLARABEL)
    for mine, theirs in zip(ours, _sums(model), strict=True):
        assert np.allclose(mine, theirs, atol=1e-4 * (1 + np.abs(theirs).max()))


def _sums(model):
    """The dual values of the first, second, ... constraints, summed over the clients."""
    rules = zip(*(client.constraints for client in model.clients.values()), strict=True)
    return [np.sum([rule.dual_value for rule in same], axis=0) for same in rules]


def test_a_constraint_object_that_all_share_has_the_whole_price():
    A, b = data(3)
    w, model = cp.Variable(10), dm.Model("one object")
    rule = w >= 0
    for i in range(3):
        model.client(i, cp.sum_squares(A[i] @ w - b[i]), [rule])
    model.solve()
    mine = np.array(rule.dual_value)
    cp.Problem(cp.Minimize(sum(cp.sum_squares(A[i] @ w - b[i]) for i in range(3))), [rule]).solve(
        solver=cp.CLARABEL
    )
    assert np.allclose(mine, np.array(rule.dual_value), atol=1e-5)


def test_explain_says_which():
    text = " ".join(str(model_of(20, box).compile().explain()).split())
    assert (
        "rules in common: 0.0 <= w, w <= 0.6, stated by 20 clients and held once by 'server'; "
        'model.topology("server") leaves them with the clients'
    ) in text


def test_a_server_that_is_asked_for_only_averages():
    model = model_of(5, box)
    model.topology("server")
    compiled = model.compile()
    assert compiled.averages == compiled.servers == ("server",)
    assert all(len(compiled[i].client.constraints) == 2 for i in range(5))


def test_peers_keep_their_rules():
    model = model_of(5, box)
    model.topology(nx.cycle_graph(5))
    assert all(len(sub.client.constraints) == 2 for sub in model.compile().values())


def test_published_algorithms_get_the_server_that_only_averages():
    result = model_of(5, box).solve(algorithm=dm.FedProx(alpha=0.1), max_rounds=3)
    assert result.compiled.averages == ("server",)


@pytest.mark.parametrize(
    "rules",
    [
        lambda w, i: [w >= -i],  # other numbers
        lambda w, i: [w >= 0] if i else [],  # not everybody's
        lambda w, i: [cp.Variable() >= 0],  # no shared variable
    ],
    ids=["other numbers", "one without", "private"],
)
def test_rules_that_not_all_have_in_common_stay(rules):
    assert model_of(4, rules).compile().holder is None


def test_what_a_client_needs_to_be_bounded_stays():
    w, model = cp.Variable(3), dm.Model("linear")
    for i in range(4):
        model.client(i, np.arange(3.0) @ w - i * w[0], [w >= 0, cp.sum(w) == 1])
    assert model.compile().holder is None
    assert model.solve().status == "optimal"


def test_a_client_that_is_only_rules_keeps_them():
    A, b = data(3)
    w, model = cp.Variable(10), dm.Model("only rules")
    for i in range(3):
        model.client(i, cp.sum_squares(A[i] @ w - b[i]), [w >= 0])
    model.client("public", 0, [w >= 0])
    compiled = model.compile()
    assert len(compiled["public"].client.constraints) == 1
    assert not compiled[0].client.constraints
    result = model.solve()
    assert result.status == "optimal"
    assert result.verify().ok


def test_a_client_that_leaves_takes_no_rule_of_the_others_with_it():
    model = model_of(4, box)
    result = model.solve(online={3: dm.Change(leave=[1])})
    assert result.verify().ok
    others = [c for name, c in model.clients.items() if name != 1]
    problem = cp.Problem(
        cp.Minimize(sum(c.cost for c in others)), [r for c in others for r in c.constraints]
    )
    assert result.value == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6)


def test_rules_in_common_without_a_point_name_the_rules():
    model = model_of(3, lambda w, i: [w >= 1, cp.sum(w) <= 1])
    result = model.solve()
    assert result.status == "infeasible"
    assert "sum(w) <= 1.0 of 3 clients" in result.detail


def test_a_parameter_in_a_rule_moves_it():
    cap = cp.Parameter(value=0.6)
    model = model_of(6, lambda w, i: [w >= 0, w <= cap])
    first = model.solve()
    cap.value = 0.3
    second = model.solve(start=first)
    assert second.status == "optimal"
    assert second.value == pytest.approx(model.monolithic().solve(solver=cp.CLARABEL), rel=1e-6)


def test_a_saved_result_comes_back_with_its_prices(tmp_path):
    model = model_of(3, box)
    result = model.solve()
    result.save(tmp_path / "kept")
    again = dm.load(tmp_path / "kept", model)
    rule = model.clients[1].constraints[0]
    assert np.array_equal(again.duals[rule], result.duals[rule])
    assert again.verify().ok
