"""Runs that go on from another are the run without a break; what is no start is refused."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near
from tests.schedule.numbers import EXACT, ONE, RING, Every, exactly, on, shared
from tests.zoo import GRAPHS, PROBLEMS

Change = dm.Change
S = dm.Sequence


def broken(name: str, graph: str, k: int, **options: Any) -> tuple[dm.Result, dm.Result]:
    """Twenty rounds at once, and the last of them after a break."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    given: dict[str, Any] = {"rho": 0.8, "stopping": ONE, "eps_pri": 0.0, "eps_dual": 0.0}
    given |= options
    whole = built.model.solve(max_rounds=20, **given)
    part = built.model.solve(max_rounds=k, **given)
    return whole, built.model.solve(max_rounds=20 - k, start=part, **given)


STATE = ("points", "mu", "rho", "sides", "received")


@pytest.mark.parametrize("k", [1, 2, 7, 19])
@pytest.mark.parametrize("graph", ["star", "chain", "ring", "odd ring", "complete"])
@pytest.mark.parametrize("name", ["least_squares", "matrix_least_squares", "unequal_dimensions"])
def test_going_on_is_the_run_without_a_break(name: str, graph: str, k: int) -> None:
    """Bit for bit, where the penalty is fixed and each round updates the multipliers."""
    whole, rest = broken(name, graph, k)
    for field in STATE:
        ours, theirs = getattr(rest.state, field), getattr(whole.state, field)
        np.testing.assert_array_equal(ours, theirs, field)
    columns = ["primal", "dual", "objective", "rho", "who"]
    ours = rest.history[columns].reset_index(drop=True)
    assert ours.equals(whole.history[columns].iloc[k:].reset_index(drop=True))


@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("graph", ["star", "chain", "odd ring"])
@pytest.mark.parametrize("name", ["lasso", "simplex"])
def test_going_on_where_solvers_remember(name: str, graph: str, k: int) -> None:
    """What begins elsewhere comes to the same point by other roundings."""
    whole, rest = broken(name, graph, k, accuracy=1e-12)
    for field in STATE:
        ours, theirs = getattr(rest.state, field), getattr(whole.state, field)
        np.testing.assert_allclose(ours, theirs, rtol=EXACT, atol=EXACT, err_msg=field)


def test_a_start_is_left_as_it_was() -> None:
    model, _ = on(RING)
    first = model.solve(acceleration=None, max_rounds=4)
    mu, points = first.state.mu.copy(), first.state.points.copy()
    model.solve(acceleration=None, start=first)
    np.testing.assert_array_equal(first.state.mu, mu)
    np.testing.assert_array_equal(first.state.points, points)
    assert first.rounds == 4


def test_from_the_answer_it_is_over_at_once() -> None:
    model, _ = on(RING)
    first = model.solve(eps_pri=1e-9, eps_dual=1e-9)
    again = model.solve(start=first)
    assert again.status == "optimal"
    assert again.rounds == 1
    assert again.value == near(5.0)
    assert again.verify().ok


def test_the_penalty_goes_on_unless_it_is_given() -> None:
    model, _ = on(RING)
    first = model.solve(rho=0.7, max_rounds=3)
    assert model.solve(start=first, max_rounds=1).history.rho[1] == exactly(0.7)
    assert model.solve(start=first, max_rounds=1, rho=2.0).history.rho[1] == exactly(2.0)


def test_going_on_after_clients_left() -> None:
    """A start knows nothing of who left: everybody is there again, with the multipliers kept."""
    model, _ = on(RING)
    before = model.solve(acceleration=None, max_rounds=4, rho=1.0, stopping=ONE)
    left = model.solve(acceleration=None, online={5: Change(leave=["c"])}, rho=1.0, stopping=ONE)
    assert left.status == "reduced"
    slot = left.compiled.slots["b", "c"]
    np.testing.assert_array_equal(before.state.mu[slot], left.state.mu[slot])
    result = model.solve(acceleration=None, start=left)
    assert result.status == "optimal"
    assert result.left == {}
    assert result.value == near(5.0)


def test_on_another_topology_values_and_multipliers_of_edges_that_stay_are_kept() -> None:
    """The ring gains an edge (a, d) of multiplier zero; its first round is worked out by hand."""
    model, w = shared()
    model.topology(nx.path_graph("abcd"))
    first = model.solve(rho=1.0, max_rounds=7)
    model.topology(RING)
    second = model.solve(
        start=first, rho=1.0, stopping=Every(2), sequence=S.natural(), max_rounds=1
    )
    slots, before = second.compiled.slots, first.compiled.slots
    assert set(slots) == {*before, ("a", "d")}
    mu = {ends: first.state.mu[before[ends]].item() for ends in before} | {("a", "d"): 0.0}
    for ends, slot in slots.items():
        assert second.state.mu[slot].item() == mu[ends]
    x = {name: first[name][w].item() for name in "abcd"}
    last = {n: first.state.points[first.compiled.columns[n]].item() for n in "abcd"}
    assert x.keys() == last.keys()
    for t, name in enumerate("abcd", start=1):
        pull = sum((1 if e[0] == name else -1) * m for e, m in mu.items() if name in e)
        told = sum(last[other] for other in RING[name])
        last[name] = (2 * t - pull + 2 * told) / 6
    assert [second[name][w] for name in "abcd"] == exactly(list(last.values()))
    done = model.solve(start=first)
    assert done.status == "optimal"
    assert done.verify().ok


def test_from_a_server_to_a_topology_and_back() -> None:
    """No edge stays, the values do: all clients answer from where they were."""
    model, w = shared()
    first = model.solve()
    assert "server" in first.compiled
    model.topology(RING)
    second = model.solve(start=first, max_rounds=1, rho=1.0, stopping=Every(2))
    assert not second.state.mu.any()
    late = second.compiled.network.levels[0]
    told = {n: first[n][w].item() for n in "abcd"}
    for name in late:
        t = 1 + "abcd".index(str(name))
        known = (2 * t + 2 * sum(told[other] for other in RING[name])) / 6
        assert second[name][w] == exactly(known)
    model.topology(None)
    back = model.solve(start=second)
    assert back.status == "optimal"
    assert back[w] == near(2.5)


def test_an_edge_that_is_named_the_other_way_round_stays_too() -> None:
    model, _ = shared()
    model.topology(nx.path_graph("abcd"))
    first = model.solve(rho=1.0, max_rounds=7)
    model.topology(nx.path_graph("dcba"))
    second = model.solve(start=first, rho=1.0, stopping=Every(2), max_rounds=1)
    for (tail, head), slot in second.compiled.slots.items():
        mine = second.state.mu[slot]
        assert mine == -first.state.mu[first.compiled.slots[head, tail]]


def test_a_model_that_has_grown_starts_from_the_smaller_one() -> None:
    model, w = shared()
    first = model.solve()
    model.client("e", cp.square(w - 10))
    result = model.solve(start=first)
    assert result.status == "optimal"
    assert result[w] == near(4.0)


@pytest.mark.parametrize("start", [3, "result", {"a": 1.0}, np.zeros(3)], ids=repr)
def test_what_is_no_start(start: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(start=start)
    assert str(caught.value) == (
        f"start: given {start!r}, expected the result of an earlier solve of this model"
    )


def test_the_result_of_another_model_is_no_start() -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(start=on(nx.path_graph(3))[0].solve())
    assert str(caught.value) == (
        "start: given the result of 'numbers', which has none of the clients 'a', 'b', 'c', 'd'; "
        "expected the result of an earlier solve of this model"
    )
