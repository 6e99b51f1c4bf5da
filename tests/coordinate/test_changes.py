"""Clients, edges and sequences that change in a run: of those who are there the mean wins."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near
from tests.schedule.numbers import BY_HAND, ONE, RING, Every, best, on, values

Change = dm.Change
S = dm.Sequence

CHAIN = nx.path_graph("abcde")


# --- clients that leave and come back -------------------------------------------------------------


def test_a_client_that_leaves_for_good() -> None:
    """Of 1, 2, 4 the mean is 7/3."""
    model, x = on(RING)
    result = model.solve(online={5: Change(leave=["c"])})
    assert result.status == "reduced"
    assert result.status.has_answer
    assert result.culprit == "c"
    assert result.left == {"c": 5}
    assert result.dropped == {}
    assert result.detail == (
        "client 'c' left before round 5; what was computed is the problem of 'a', 'b', 'd', "
        "without the objectives and constraints of who left"
    )
    assert result.value == near(best(1, 2, 4))
    assert [result[x[n]] for n in "abd"] == near([7 / 3] * 3)
    assert result.multipliers["b", "c"].tolist() == [0.0], "who left has no price"
    check = result.verify()
    assert check.ok, "the AIO problem is that of who is still there"
    assert check.aio_value == near(best(1, 2, 4))
    assert all("c" not in names for names in result.history.who[5:])


@pytest.mark.parametrize("sequence", [S.random(2), S.greedy(1), S.essentially_cyclic(2)])
def test_a_client_leaves_a_partial_cycle(sequence: dm.Sequence) -> None:
    result = on(RING)[0].solve(sequence=sequence, online={5: Change(leave=["c"])})
    assert result.status == "reduced"
    assert result.value == near(best(1, 2, 4))
    assert all("c" not in names for names in result.history.who.loc[5:])


def test_a_client_named_zero_leaves() -> None:
    result = on(nx.cycle_graph(4))[0].solve(online={5: Change(leave=[0])})
    assert result.status == "reduced"
    assert result.culprit == 0
    assert result.value == near(best(2, 3, 4))


def test_two_leave_at_different_times_and_the_graph_falls_apart() -> None:
    """Without b and d a chain of five is a, c and e."""
    model, x = on(CHAIN)
    result = model.solve(online={4: Change(leave=["d"]), 9: Change(leave=["b"])})
    assert result.status == "reduced"
    assert result.left == {"d": 4, "b": 9}
    assert result.detail == (
        "client 'd' left before round 4; client 'b' left before round 9; what was computed is the "
        "problem of 'a', 'c', 'e', without the objectives and constraints of who left; the "
        "consensus graph fell into 3 parts, which agree within themselves only: 'a'; 'c'; 'e'"
    )
    assert [result[x[n]] for n in "ace"] == near([1, 3, 5])
    assert result.value == near(0)


def test_the_parts_of_a_chain_agree_within_themselves() -> None:
    model, x = on(CHAIN)
    result = model.solve(online={4: Change(leave=["c"])})
    assert result.detail.endswith(
        "; the consensus graph fell into 2 parts, which agree within themselves only: 'a', 'b'; "
        "'d', 'e'"
    )
    assert [result[x[n]] for n in "abde"] == near([1.5, 1.5, 4.5, 4.5])
    assert result.value == near(best(1, 2) + best(4, 5))


def test_a_client_that_returns_goes_on_with_what_it_left() -> None:
    model, x = on(RING)
    online = {6: Change(leave=["c"]), 15: Change(join=["c"])}
    given: dict[str, Any] = {"rho": 1.0, "stopping": ONE, "online": online}
    before, away, back = (model.solve(max_rounds=r, **given) for r in (5, 14, 15))
    slots = before.compiled.slots
    for ends, slot in slots.items():
        stays = np.array_equal(before.state.mu[slot], away.state.mu[slot])
        assert stays == ("c" in ends), ends
        assert not np.array_equal(before.state.mu[slot], back.state.mu[slot])
    result = model.solve(metrics=values(x), **given)
    history = result.history
    assert (history.c.loc[5:14] == history.c[5]).all()
    assert history.c[15] != history.c[14]
    assert result.status == "optimal"
    assert (result.left, result.culprit, result.detail) == ({}, None, "")
    assert result.value == near(best(1, 2, 3, 4))
    assert result.verify().ok


def test_leaving_and_returning_in_one_round_is_no_leave() -> None:
    """Who returns comes first: of one change, then of two."""
    model, _ = on(RING)
    result = model.solve(online={3: Change(leave=["c"]), 4: Change(join=["c"], leave=["c"])})
    assert result.left == {"c": 4}
    two = [{4: Change(leave=["c"])}, {4: Change(join=["c"])}]
    assert model.solve(online=two).status == "optimal"


def test_a_run_does_not_end_before_the_last_change() -> None:
    model, _ = on(RING)
    plain = model.solve()
    assert plain.rounds < 60
    late = model.solve(online={60: Change(leave=["c"])})
    assert late.rounds >= 60
    assert late.status == "reduced"
    assert late.left == {"c": 60}
    both = model.solve(online=[{60: Change(leave=["c"])}, {120: Change(join=["c"])}])
    assert both.rounds >= 120
    assert both.status == "optimal"
    assert both.value == near(best(1, 2, 3, 4))
    cut = model.solve(online={60: Change(leave=["c"])}, max_rounds=59)
    assert (cut.status, cut.left) == ("round_limit", {})


def test_the_server_leaves_and_everybody_is_alone() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for t, name in enumerate("abc", start=1):
        model.client(name, cp.square(w - t))
    result = model.solve(online={5: Change(leave=["server"])})
    assert result.status == "reduced"
    assert result.culprit == "server"
    assert result.detail == (
        "client 'server' left before round 5; what was computed is the problem of 'a', 'b', 'c', "
        "without the objectives and constraints of who left; the consensus graph fell into 3 "
        "parts, which agree within themselves only: 'a'; 'b'; 'c'"
    )
    assert [result[name][w] for name in "abc"] == near([1, 2, 3])
    assert result.value == near(0)
    back = model.solve(online={5: Change(leave=["server"]), 30: Change(join=["server"])})
    assert back.status == "optimal"
    assert back[w] == near(2.0)
    assert back.verify().ok


def test_a_client_leaves_a_server() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for t, name in enumerate("abc", start=1):
        model.client(name, cp.square(w - t))
    result = model.solve(online={5: Change(leave=["c"])})
    assert result.status == "reduced"
    assert result[w] == near(1.5)
    assert result.value == near(best(1, 2))
    alone = model.solve(online={5: Change(leave=["a", "b", "c"])})
    assert alone.status == "reduced"
    assert alone.value == 0.0


def test_the_value_of_a_shared_variable_is_that_of_those_who_are_there() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for t, name in enumerate("abcd", start=1):
        model.client(name, cp.square(w - t))
    model.topology(RING)
    result = model.solve(online={5: Change(leave=["d"])})
    assert result.status == "reduced"
    assert [result[name][w] for name in "abc"] == near([2, 2, 2])
    assert result[w] == near(2.0)


def test_the_objective_of_an_iterate_is_that_of_the_history() -> None:
    model, _ = on(RING)
    metrics = {"mine": lambda at: at.objective}
    history = model.solve(online={5: Change(leave=["c"])}, metrics=metrics).history
    assert history.mine.tolist() == history.objective.tolist()


# --- who is cut off ------------------------------------------------------------------------------


def lonely(*rules: Any) -> tuple[dm.Model, list[cp.Variable]]:
    """The objective of c is linear; together with the others it is bounded: 3 z^2 - ..."""
    y = [cp.Variable(name=f"y{i}") for i in range(3)]
    model = dm.Model("lonely")
    model.client("a", cp.square(y[0] - 1))
    model.client("b", cp.square(y[1] - 3))
    model.client("c", y[2], [y[2] >= -5] if rules else [])
    model.consensus(y[0] == y[1], y[1] == y[2])
    return model, y


def test_together_they_are_bounded() -> None:
    """2 (z - 1) + 2 (z - 3) + 1 = 0: z = 7/4."""
    model, y = lonely()
    result = model.solve()
    assert result.status == "optimal"
    assert result[y[0]] == near(7 / 4)
    assert result.value == near((3 / 4) ** 2 + (5 / 4) ** 2 + 7 / 4)


@pytest.mark.parametrize(
    "change", [Change(leave=["b"]), Change(disconnect=[("b", "c")])], ids=["leave", "disconnect"]
)
def test_a_linear_programme_that_is_cut_off_goes_to_its_own_optimum(change: dm.Change) -> None:
    model, y = lonely(True)
    result = model.solve(online={5: change})
    assert result.status == "reduced"
    assert "fell into 2 parts" in result.detail
    assert result[y[2]] == near(-5)
    others = 0 if change.leave else best(1, 3)
    assert result.value == near(others - 5)


CUT = pytest.mark.parametrize(
    "change", [Change(leave=["b"]), Change(disconnect=[("b", "c")])], ids=["leave", "disconnect"]
)


@CUT
def test_an_unbounded_client_that_is_cut_off_is_no_success(change: dm.Change) -> None:
    result = lonely()[0].solve(online={5: change})
    assert not result.status.has_answer
    assert result.status != "round_limit"


@CUT
def test_an_unbounded_client_that_is_cut_off_is_named(change: dm.Change) -> None:
    result = lonely()[0].solve(online={5: change})
    assert result.status == "unbounded"
    assert result.culprit == "c"


# --- edges that go and come ----------------------------------------------------------------------


def test_a_redundant_edge_of_a_ring_is_not_missed() -> None:
    model, x = on(nx.cycle_graph(6))
    result = model.solve(online={3: Change(disconnect=[(5, 0)])})
    assert result.status == "reduced"
    assert result.culprit == (0, 5)
    assert result.dropped == {(0, 5): 3}
    assert result.left == {}
    assert result.detail == (
        "edge (0, 5) was dropped before round 3; the others are still connected, so all agree"
    )
    assert result.value == near(best(*range(1, 7)))
    assert [result[v] for v in x.values()] == near([3.5] * 6)
    assert result.verify().ok, "the answer is that of the whole problem"
    assert result.multipliers[0, 5].tolist() == [0.0]


def test_a_bridge_is_missed() -> None:
    model, x = on(CHAIN)
    result = model.solve(online={3: Change(disconnect=[("c", "b")])})
    assert result.status == "reduced"
    assert result.detail == (
        "edge ('b', 'c') was dropped before round 3; the consensus graph fell into 2 parts, which "
        "agree within themselves only: 'a', 'b'; 'c', 'd', 'e'"
    )
    assert [result[v] for v in x.values()] == near([1.5, 1.5, 4, 4, 4])


def test_an_edge_that_comes_later() -> None:
    model, _ = on(nx.cycle_graph(6))
    online = {1: Change(disconnect=[(0, 5)]), 30: Change(connect=[(5, 0)])}
    result = model.solve(online=online)
    assert result.rounds >= 30
    assert (result.status, result.dropped, result.detail) == ("optimal", {}, "")
    assert result.verify().ok


@pytest.mark.slow
def test_edges_change_between_outer_loops_and_keep_their_multipliers() -> None:
    """Outer loops of five: what is asked before 7 happens before 11, after 13 before 16."""
    model, _ = on(RING)
    online = {7: Change(disconnect=[("a", "d")]), 13: Change(connect=[("d", "a")])}
    given: dict[str, Any] = BY_HAND | {"stopping": Every(5), "online": online}
    runs = {r: model.solve(max_rounds=r, **given) for r in range(1, 26)}
    assert [r for r, run in runs.items() if run.dropped] == [11, 12, 13, 14, 15]
    assert runs[11].dropped == {("a", "d"): 11}
    mu = {r: run.state.mu for r, run in runs.items()}
    for r in (5, 10, 15, 20):  # bit for bit, until five rounds later they are updated
        for later in range(r + 1, r + 5):
            np.testing.assert_array_equal(mu[r], mu[later])
    slots = runs[1].compiled.slots
    for ends, slot in slots.items():
        stays = np.array_equal(mu[10][slot], mu[15][slot])
        assert stays == (ends == ("a", "d")), ends
        assert not np.array_equal(mu[15][slot], mu[20][slot])
    alone: dict[str, Any] = given | {"online": None}
    plain = model.solve(max_rounds=10, **alone)
    np.testing.assert_array_equal(plain.state.points, runs[10].state.points)
    assert not np.array_equal(runs[11].state.points, runs[10].state.points)


def test_a_run_does_not_end_before_an_edge_has_gone() -> None:
    model, _ = on(CHAIN)
    first = model.solve(rho=1.0)
    result = model.solve(
        rho=1.0, start=first, stopping=Every(5), online={3: Change(disconnect=[("b", "c")])}
    )
    assert result.status == "reduced"
    assert result.dropped == {("b", "c"): 6}


# --- a callback ----------------------------------------------------------------------------------


def test_a_callback_changes_the_sequence_when_the_residual_is_small() -> None:
    model, _ = on(CHAIN)
    natural, asked = S.natural(), []

    def switch(moment: dm.Moment) -> dm.Change | None:
        asked.append(moment)
        return Change(sequence=natural) if moment.residuals.primal_scaled < 1e-2 else None

    result = model.solve(sequence=S.random(2, seed=1), online=switch)
    assert result.status == "optimal"
    assert result.verify().ok
    small = result.history.index[result.history.primal_scaled < 1e-2]
    assert 1 < small[0] < result.rounds
    partial = result.history.solved.loc[: small[0]]
    assert (partial == 2).any()
    assert result.history.who[small[0] + 1] == tuple("abcde")
    assert [m.round for m in asked] == list(result.history.index)
    assert [(m.outer, m.inner) for m in asked] == list(
        zip(result.history.outer, result.history.inner, strict=True)
    )
    for moment, primal in zip(asked[1:], result.history.primal, strict=False):
        assert moment.residuals.primal == primal


def test_a_callback_sends_away_who_is_stale() -> None:
    """What a moment tells: staleness, who is there, whether all are."""
    model, _ = on(RING)

    def leave(moment: dm.Moment) -> dm.Change | None:
        assert moment.everybody == (len(moment.live) == 4)
        assert set(moment.staleness) == set(RING)
        return Change(leave=["b"]) if moment.round == 4 else None

    result = model.solve(acceleration=None, online=leave)  # which goes on beyond round 4
    assert result.left == {"b": 4}
    assert result.value == near(best(1, 3, 4))


def test_a_sequence_may_change_by_schedule() -> None:
    model, _ = on(RING)
    given: dict[str, Any] = BY_HAND | {"stopping": Every(2)}
    online = {4: Change(sequence=S.partial(["d"])), 7: Change(sequence=S.natural())}
    who = model.solve(online=online, max_rounds=8, **given).history.who.tolist()
    full = tuple("abcd")
    by_colour = tuple(n for level in model.compile().network.levels for n in level)
    assert who == [full, full, full, by_colour, ("d",), by_colour, full, full]


# --- edges that are up every other round ----------------------------------------------------------


def gossiping() -> tuple[dm.Model, list[tuple[int, int]], float]:
    """Least squares on a random graph of degree four, and what numpy finds for all data."""
    rng, graph = np.random.default_rng(0), nx.random_regular_graph(4, 10, seed=0)
    w, model = cp.Variable(3, name="w"), dm.Model("gossip")
    data = {i: (rng.normal(size=(8, 3)), rng.normal(size=8)) for i in graph}
    for i, (a, b) in data.items():
        model.client(i, cp.sum_squares(a @ w - b))
    model.topology(graph)
    a, b = (np.concatenate(part) for part in zip(*data.values(), strict=True))
    return model, list(graph.edges), float(np.linalg.lstsq(a, b)[1][0])


def test_messages_that_are_lost_every_other_round() -> None:
    model, edges, least = gossiping()
    rng = np.random.default_rng(1)

    def lost(moment: dm.Moment) -> Change:
        down = [edge for edge in edges if rng.random() < 0.5]
        return Change(lost=[pair for i, j in down for pair in ((i, j), (j, i))])

    for online in (lost, dm.LossyLinks(0.5, seed=0)):
        result = model.solve(online=online)
        assert result.status == "optimal"
        assert result.value == near(least)


def test_edges_that_are_dropped_and_back_every_round_are_no_end() -> None:
    """Who drops an edge says that it does not count: another problem each round, and no answer."""
    model, edges, _ = gossiping()
    rng, off = np.random.default_rng(1), []

    def dropped(moment: dm.Moment) -> Change:
        down = [edge for edge in edges if rng.random() < 0.5]
        back = [edge for edge in off if edge not in down]
        new = [edge for edge in down if edge not in off]
        off[:] = down
        return Change(connect=back, disconnect=new)

    result = model.solve(online=dropped, max_rounds=60)
    assert result.status == "round_limit"
    assert not result.verify().ok
    assert len(result.detail) < 100, "and not a list of what was dropped when"
