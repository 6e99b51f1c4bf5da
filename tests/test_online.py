r"""What changes while a run goes on, and runs that go on from another.

Clients that drop out, lag or lose messages, against the known answers of the zoo and, message by
message, against the same arithmetic in fractions. Clients and edges that leave and come back,
against closed forms: of numbers pulled to t the mean wins, whoever is there.

In the arithmetic by hand the clients are :math:`(x_i - t_i)^2` and :math:`\rho = 1`, so that a
client of degree d, with multipliers :math:`\pm\mu_e` and told values :math:`y_e`, answers

.. math:: x_i = \frac{2 t_i - \sum_e \pm\mu_e + 2 \sum_e y_e}{2 + 2 d},
    \qquad \mu_e \leftarrow \mu_e + 2 (x_\text{tail} - x_\text{head}).
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS, Built

S, Change, F = dm.Sequence, dm.Change, Fraction
EXACT = 1e-12
"""What is left of numbers of size 1 after a few rounds of doubles."""
NEAR = 1e-5
"""Ten times the tolerances of ``solve``."""
ONE = dm.FixedBudget(1)
BY_HAND: dict[str, Any] = {
    "rho": 1.0,
    "sequence": S.natural(),
    "eps_pri": 0.0,
    "eps_dual": 0.0,
}


@dataclass(frozen=True)
class Every:
    """An outer loop is ``v`` inner loops, whatever the residuals are."""

    v: int

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return inner >= self.v


def on(graph: nx.Graph) -> tuple[dm.Model, dict[Hashable, cp.Variable]]:
    """One number a node, pulled to 1, 2, 3, ..."""
    x = {node: cp.Variable(name=f"x{node}") for node in graph}
    model = dm.Model("numbers")
    for t, (node, v) in enumerate(x.items(), start=1):
        model.client(node, cp.square(v - t))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model, x


def best(*targets: float) -> float:
    """The least sum of squared distances to numbers."""
    return float(np.sum((np.array(targets) - np.mean(targets)) ** 2))


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def exactly(value: Any) -> Any:
    return pytest.approx(value, rel=EXACT, abs=EXACT)


def values(x: dict[Hashable, cp.Variable]) -> dict[str, Callable[[dm.Iterate], Any]]:
    """The metric of each variable, under the name of its client."""
    return {f"{node}": lambda at, v=v: at[v].item() for node, v in x.items()}


def same(one: dm.Result, two: dm.Result) -> None:
    """Bit for bit the same run."""
    columns = [c for c in one.history.columns if c != "seconds"]
    assert one.history[columns].equals(two.history[columns])
    same_state(one, two)


def same_state(one: dm.Result, two: dm.Result) -> None:
    for name in ("points", "mu", "rho", "sides", "seen", "gradient"):
        np.testing.assert_array_equal(getattr(one.state, name), getattr(two.state, name), name)


# --- (a) failures, and still the AIO optimum -----------------------------------------------------

ZOO = list(PROBLEMS)
SHAPES = ("star", "chain", "ring", "odd ring", "complete")
MAX_ROUNDS = 5000


def assert_right(built: Built, result: dm.Result) -> None:
    """As ``test_zoo.py`` asks; of more than 1,000 rounds in proportion, see there."""
    assert result.status == "optimal", str(result)
    check = result.verify(tol_objective=1e-5)
    assert check.ok, str(check)
    assert result.value == pytest.approx(built.value, rel=1e-5, abs=1e-5)
    steps = max(100.0, result.rounds / log(1e6))
    for client, variable in built.variables.items():
        known = built.points[client]
        off = np.abs(result[client][variable] - known).max()
        assert off <= 1e-6 * steps * max(1.0, float(np.abs(known).max())), client


def failures(names: Iterable[Hashable], seed: int) -> dict[str, list[Any]]:
    first, second, *_ = names
    dropout, lossy = dm.Dropout(0.3, seed=seed), dm.LossyLinks(0.2, seed=seed)
    slow = dm.Stragglers({first: 3, second: 2})
    return {"lossy": [lossy], "stragglers": [slow], "all": [dropout, lossy, slow]}


@pytest.mark.parametrize("graph", SHAPES)
@pytest.mark.parametrize("name", ZOO)
def test_dropout_of_30_percent_still_reaches_the_aio_optimum(name: str, graph: str) -> None:
    """Each client at random with equal probability, in each loop; seeds in rotation."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    seed = ZOO.index(name) + 7 * SHAPES.index(graph)
    result = built.model.solve(online=dm.Dropout(0.3, seed=seed), max_rounds=MAX_ROUNDS)
    assert_right(built, result)
    absent = result.history.absent.sum()
    clients = len(result.compiled) - len(result.compiled.servers)
    draws = result.rounds * clients
    assert abs(absent - 0.3 * draws) <= 6 * np.sqrt(0.3 * 0.7 * draws)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("name", "graph"), [("lasso", "star"), ("simplex", "odd ring")])
def test_dropout_with_any_seed(name: str, graph: str, seed: int) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    assert_right(built, built.model.solve(online=dm.Dropout(0.3, seed=seed)))


@pytest.mark.parametrize("kind", ["lossy", "stragglers", "all"])
@pytest.mark.parametrize("graph", SHAPES)
@pytest.mark.parametrize("name", ["least_squares", "lasso", "logistic", "simplex", "nearest_psd"])
def test_other_failures_still_reach_the_aio_optimum(name: str, graph: str, kind: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    online = failures(built.variables, seed=SHAPES.index(graph))[kind]
    assert_right(built, built.model.solve(online=online, max_rounds=MAX_ROUNDS))


@pytest.mark.parametrize(
    "sequence",
    [S.random(2), S.greedy(2), S.essentially_cyclic(2), S.natural() + S.random(1)],
    ids=lambda s: s.label,
)
def test_dropout_in_other_sequences(sequence: dm.Sequence) -> None:
    """Partial cycles too, whose closing full cycle then lacks who is absent."""
    built = PROBLEMS["ridge"]().on(GRAPHS["odd ring"]())
    result = built.model.solve(
        sequence=sequence, online=dm.Dropout(0.3, seed=4), max_rounds=MAX_ROUNDS
    )
    assert_right(built, result)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: dm.Dropout(0.3, seed=seed),
        lambda seed: dm.LossyLinks(0.2, seed=seed),
        lambda seed: [dm.Dropout(0.3, seed=seed), dm.LossyLinks(0.2, seed=seed + 1)],
    ],
    ids=["dropout", "lossy", "both"],
)
@pytest.mark.parametrize("graph", ["star", "odd ring"])
def test_equal_seeds_give_equal_iterates_bit_for_bit(make: Any, graph: str) -> None:
    built = PROBLEMS["lasso"]().on(GRAPHS[graph]())
    one, two, other = (built.model.solve(online=make(s), max_rounds=40) for s in (5, 5, 6))
    same(one, two)
    assert not np.array_equal(one.state.points, other.state.points)


def test_nobody_may_be_there_at_first() -> None:
    """No value before everybody was solved once, and no success."""
    model, _ = on(nx.path_graph("ab"))
    result = model.solve(online={r: Change(absent=["a", "b"]) for r in (1, 2, 3)})
    assert result.status == "optimal"
    assert result.history.who.tolist()[:4] == [(), (), (), ("a", "b")]
    short = model.solve(online={r: Change(absent=["b"]) for r in (1, 2)}, max_rounds=2)
    assert short.status == "round_limit"
    assert short.answer_round == 0
    assert np.isnan(short.value)


# --- (b) the history -----------------------------------------------------------------------------


def order(result: dm.Result) -> list[Hashable]:
    return [name for level in result.compiled.network.levels for name in level]


@pytest.mark.parametrize("graph", SHAPES)
def test_the_history_says_who_was_there(graph: str) -> None:
    """Against the same draws: one a client and round, from the seed and the round."""
    built = PROBLEMS["least_squares"]().on(GRAPHS[graph]())
    result = built.model.solve(online=dm.Dropout(0.3, seed=9), max_rounds=30)
    names = [name for name in result.compiled if name not in result.compiled.servers]
    assert ("server" in result.compiled) == (graph == "star")
    for round_, row in zip(result.history.index, result.history.to_dict("records"), strict=True):
        luck = np.random.default_rng((9, round_)).random(len(names))
        absent = {name for name, drawn in zip(names, luck, strict=True) if drawn < 0.3}
        there = tuple(name for name in order(result) if name not in absent)
        assert (row["who"], row["absent"], row["solved"]) == (there, len(absent), len(there))


def test_only_who_is_named_drops_out_servers_too() -> None:
    built = PROBLEMS["ridge"]().on(GRAPHS["star"]())
    online = dm.Dropout(0.5, seed=1, clients=iter(["server", "n"]))
    history = built.model.solve(online=online, max_rounds=40).history
    for round_, names in history.who.items():
        luck = np.random.default_rng((1, round_)).random(2)
        gone = {name for name, drawn in zip(["server", "n"], luck, strict=True) if drawn < 0.5}
        assert set(names) == {"n", "e", "s", "w", "server"} - gone


def test_nobody_drops_out_with_probability_zero() -> None:
    model, _ = on(nx.cycle_graph(4))
    plain = model.solve(stopping=ONE, max_rounds=15)
    online = [dm.Dropout(0.0), dm.LossyLinks(0), dm.Stragglers({0: 1}), dm.Stragglers({})]
    never = model.solve(stopping=ONE, max_rounds=15, online=online)
    np.testing.assert_array_equal(plain.state.points, never.state.points)
    np.testing.assert_array_equal(plain.state.mu, never.state.mu)
    assert (never.history.absent == 0).all()


def test_each_message_is_lost_equally_often() -> None:
    """One a loop along each edge and direction; the same draws in the same round."""
    neighbours = {name: tuple(RING[name]) for name in RING}
    pairs = [(sender, name) for name in RING for sender in RING[name]]
    model, asked = on(RING)[0], []
    model.solve(online=lambda moment: asked.append(moment), max_rounds=1)
    counts, lossy, draws = dict.fromkeys(pairs, 0), dm.LossyLinks(0.2, seed=1), 3000
    for round_ in range(1, draws + 1):
        moment = replace(asked[0], round=round_)
        change, again = (lossy.before(moment, neighbours) for _ in range(2))
        assert change is not None
        assert change == again
        for each in change.lost:
            counts[each] += 1
    for count in counts.values():
        assert abs(count - 0.2 * draws) <= 6 * np.sqrt(0.2 * 0.8 * draws)


def test_slow_clients_answer_in_every_kth_loop() -> None:
    model, _ = on(nx.path_graph("abc"))
    given: dict[str, Any] = BY_HAND | {"stopping": ONE, "max_rounds": 12}
    history = model.solve(online=dm.Stragglers({"a": 3, "c": 2}), **given).history
    for round_, names in enumerate(history.who, start=1):
        assert ("a" in names) == (round_ % 3 == 0)
        assert ("c" in names) == (round_ % 2 == 0)
        assert "b" in names
    assert history.absent.tolist() == [3 - len(names) for names in history.who]


def test_failures_leave_the_sequence_what_it_is() -> None:
    """Who is absent is left out of a loop, and nobody takes the place."""
    graph = nx.path_graph("abcd")
    model, _ = on(graph)
    given: dict[str, Any] = BY_HAND | {"sequence": S.random(2, seed=3), "stopping": Every(4)}
    plain = model.solve(max_rounds=24, **given).history.who
    history = model.solve(max_rounds=24, online=dm.Dropout(0.4, seed=2), **given).history
    for round_ in range(1, 25):
        luck = np.random.default_rng((2, round_)).random(4)
        there = [name for name, drawn in zip("abcd", luck, strict=True) if drawn >= 0.4]
        assert list(history.who[round_]) == [n for n in plain[round_] if n in there]
        assert history.absent[round_] == 4 - len(there), "also of those who had no turn"


# --- (c) by hand ---------------------------------------------------------------------------------


def pair(online: Any, rounds: int, **options: Any) -> list[tuple[float, float, float]]:
    """The values of a and b and the multiplier after each round; a is solved before b."""
    model, x = on(nx.path_graph("ab"))
    found = []
    for stop in range(1, rounds + 1):
        given = BY_HAND | {"stopping": ONE, "max_rounds": stop, "metrics": values(x)} | options
        result = model.solve(online=online, **given)
        last = result.history.iloc[-1]
        found.append((last["a"], last["b"], result.state.mu.item()))
    return found


def assert_pair(found: list[tuple[float, float, float]], *known: tuple[Any, Any, Any]) -> None:
    for ours, theirs in zip(found, known, strict=True):
        assert ours == exactly(tuple(map(float, theirs)))


FIRST = (F(1, 2), F(5, 4), F(-3, 2))


def test_the_arithmetic_where_nothing_fails() -> None:
    assert_pair(pair(None, 3), FIRST, (F(3, 2), F(11, 8), F(-5, 4)), (F(3, 2), F(23, 16), F(-9, 8)))


def test_an_absent_client_keeps_its_value_and_its_multiplier() -> None:
    third = (F(21, 16), F(41, 32), F(-23, 16))
    found = pair({2: Change(absent=["a"])}, 3)
    assert_pair(found, FIRST, (F(1, 2), F(7, 8), F(-3, 2)), third)
    assert_pair(pair({1: Change(absent=["a", "b"])}, 2), (0, 0, 0), FIRST)


def test_a_lost_message_to_the_first_leaves_it_with_the_old_value() -> None:
    """A knew b = 0 when it was solved before; 5/4 does not arrive."""
    found = pair({2: Change(lost=[("b", "a")])}, 2)
    assert_pair(found, FIRST, (F(7, 8), F(17, 16), F(-3, 2)))


def test_a_lost_message_in_the_first_round() -> None:
    """There the old value is the start, whoever is told nothing."""
    assert_pair(pair({1: Change(lost=[("a", "b")])}, 1), (F(1, 2), 1, 0))
    assert_pair(pair({1: Change(lost=[("b", "a")])}, 1), (F(1, 2), F(5, 4), 0))


def test_a_lost_message_to_the_second_leaves_it_with_the_old_value() -> None:
    """B was told a = 1/2 in round 1; 3/2 does not arrive, so b = (4 - 3/2 + 1) / 4."""
    found = pair({2: Change(lost=[("a", "b")])}, 2)
    assert_pair(found, FIRST, (F(3, 2), F(7, 8), F(-3, 2)))


def test_the_second_of_two_is_slow() -> None:
    """It is told a = 0 before round 1 and a = 1/2 before round 3, and answers a round later.

    The multiplier follows what it was told: 2 (0 - 1) = -2, then -2 + 2 (1/2 - 3/4) = -5/2.
    """
    third, fourth = (F(3, 2), 1, -2), (F(3, 2), F(3, 4), F(-5, 2))
    known = (F(1, 2), 0, 0), (F(1, 2), 1, -2), third, fourth
    assert_pair(pair(dm.Stragglers({"b": 2}), 4), *known)


def test_the_first_of_two_is_slow() -> None:
    """It is told b = 0 before round 1 and b = 5/4 before round 3, not what b is then."""
    second, third = (F(1, 2), F(5, 4), 1), (F(1, 2), F(3, 2), 1)
    fourth = (F(7, 8), F(27, 16), F(1, 4))
    assert_pair(pair(dm.Stragglers({"a": 2}), 4), (0, 1, 0), second, third, fourth)


def test_a_client_away_keeps_its_value_and_its_multiplier() -> None:
    """The other is tied to its own last value alone, by a thousandth of the penalty."""
    found = pair({2: Change(leave=["a"]), 4: Change(join=["a"])}, 4)
    r = F(1, 10**6)
    second = (4 + 2 * r * F(5, 4)) / (2 + 2 * r)
    third = (4 + 2 * r * second) / (2 + 2 * r)
    a = (2 + F(3, 2) + 2 * third) / 4
    b = (4 - F(3, 2) + 2 * a) / 4
    known = (F(1, 2), second, F(-3, 2)), (F(1, 2), third, F(-3, 2))
    assert_pair(found, FIRST, *known, (a, b, F(-3, 2) + 2 * (a - b)))


class Hand:
    """The same arithmetic in fractions on a graph, one client after the other."""

    def __init__(self, result: dm.Result) -> None:
        self.edges = list(result.compiled.slots)
        self.names = list(result.compiled)
        self.t = {name: F(t) for t, name in enumerate(self.names, start=1)}
        self.x = dict.fromkeys(self.names, F(0))
        self.mu = dict.fromkeys(self.edges, F(0))
        self.told = {pair: F(0) for e in self.edges for pair in (e, e[::-1])}

    def loop(self, absent: Iterable[Hashable] = (), lost: Iterable[Any] = ()) -> None:
        there = [name for name in self.names if name not in set(absent)]
        lost = set(lost)
        for name in self.names:
            mine = [e for e in self.edges if name in e]
            others = [(e[0] if e[1] == name else e[1], 1 if e[0] == name else -1) for e in mine]
            for other, _ in others:
                if (other, name) not in lost:
                    self.told[other, name] = self.x[other]
            if name in there:
                total = 2 * self.t[name] + 2 * sum(self.told[other, name] for other, _ in others)
                total -= sum(s * self.mu[e] for e, (_, s) in zip(mine, others, strict=True))
                self.x[name] = total / (2 + 2 * len(mine))
        for tail, head in self.edges:
            if {tail, head} <= set(there) and not {(tail, head), (head, tail)} & lost:
                self.mu[tail, head] += 2 * (self.x[tail] - self.x[head])

    def matches(self, result: dm.Result) -> None:
        at = [result.state.points[result.compiled.columns[n]].item() for n in self.names]
        assert at == exactly([float(self.x[n]) for n in self.names])
        assert result.state.mu.tolist() == exactly([float(self.mu[e]) for e in self.edges])


@pytest.mark.parametrize("graph", [nx.star_graph(3), nx.cycle_graph(5)], ids=["star", "ring"])
def test_ten_rounds_of_dropout_in_fractions(graph: nx.Graph) -> None:
    model, _ = on(graph)
    given: dict[str, Any] = BY_HAND | {"stopping": ONE}
    hand = Hand(model.solve(max_rounds=1))
    for round_ in range(1, 11):
        luck = np.random.default_rng((3, round_)).random(len(graph))
        hand.loop(absent=[n for n, drawn in zip(graph, luck, strict=True) if drawn < 0.3])
        hand.matches(model.solve(online=dm.Dropout(0.3, seed=3), max_rounds=round_, **given))


@pytest.mark.parametrize("graph", [nx.star_graph(3), nx.cycle_graph(5)], ids=["star", "ring"])
def test_ten_rounds_of_lost_messages_in_fractions(graph: nx.Graph) -> None:
    model, _ = on(graph)
    given: dict[str, Any] = BY_HAND | {"stopping": ONE}
    hand = Hand(model.solve(max_rounds=1))
    known = model.compile().graph
    pairs = [(sender, name) for name in known for sender in known[name]]
    for round_ in range(1, 11):
        luck = np.random.default_rng((3, round_)).random(len(pairs))
        hand.loop(lost=[p for p, drawn in zip(pairs, luck, strict=True) if drawn < 0.2])
        hand.matches(model.solve(online=dm.LossyLinks(0.2, seed=3), max_rounds=round_, **given))


def test_messages_lost_on_the_way_to_who_is_solved_first_in_fractions() -> None:
    """The hub of the star goes first, so all that it is told is of the round before."""
    model, _ = on(nx.star_graph(3))
    given: dict[str, Any] = BY_HAND | {"stopping": ONE}
    hand = Hand(model.solve(max_rounds=1))
    lost = {r: [(1 + r % 3, 0), (1 + r * r % 3, 0)] for r in range(1, 11)}
    online = {r: Change(lost=pairs) for r, pairs in lost.items()}
    for round_ in range(1, 11):
        hand.loop(lost=lost[round_])
        hand.matches(model.solve(online=online, max_rounds=round_, **given))


# --- (d) clients that leave and come back --------------------------------------------------------

RING = nx.cycle_graph("abcd")
CHAIN = nx.path_graph("abcde")


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

    result = model.solve(online=leave)
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


# --- (e) what is refused -------------------------------------------------------------------------

NAMES = "'a', 'b', 'c', 'd'"


@pytest.mark.parametrize("where", ["leave", "join", "absent", "stale"])
def test_clients_that_are_none(where: str) -> None:
    change: dict[str, Any] = {where: ["a", "z"]}
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online={2: Change(**change)})
    assert str(caught.value) == f"online: 'z' is no client; expected names among {NAMES}"


PAIRS: list[Any] = [
    (where, given)
    for where in ("lost", "disconnect", "connect")
    for given in (("a", "c"), ("a", "z"))
]
NO_PAIRS: list[Any] = [
    pytest.param(where, given, id=f"{where} {given}")
    for where in ("disconnect", "connect", "lost")
    for given in ("ab", 3, ("a", "b", "c"), ("a",))
]


@pytest.mark.parametrize(("where", "given"), [*PAIRS, *NO_PAIRS])
def test_edges_that_are_none(where: str, given: Any) -> None:
    change: dict[str, Any] = {where: [given]}
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(stopping=ONE, online={2: Change(**change)})
    assert str(caught.value) == (
        f"online: {given!r} is no consensus edge; expected pairs of neighbours such as "
        "('a', 'b'); declare every edge that may ever be there, and disconnect it before round 1 "
        "if it is to come later"
    )


@pytest.mark.parametrize("given", [{"leave": [["a"]]}, {"lost": [(["a"], "b")]}], ids=str)
def test_names_that_cannot_be_names(given: dict[str, Any]) -> None:
    with pytest.raises(dm.OptionError):
        on(RING)[0].solve(stopping=ONE, online={2: Change(**given)})


def test_nobody_is_left() -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online={2: Change(leave=["a", "b"]), 3: Change(leave=["d", "c"])})
    assert str(caught.value) == (
        "online: after dm.Change(leave=('d', 'c')) before round 3 nobody is left; keep one client"
    )


@pytest.mark.parametrize(("make", "name"), [(dm.Dropout, "Dropout"), (dm.LossyLinks, "LossyLinks")])
@pytest.mark.parametrize("p", [1, 1.0, -0.1, 2, float("nan"), "0.3", None])
def test_what_is_no_probability(make: Any, name: str, p: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make(p)
    assert str(caught.value) == (
        f"{name}: given p={p!r}, expected a probability from 0, below 1; who never answers left: "
        "dm.Change(leave=[...])"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dm.Dropout(0.3, seed=-1), "Dropout: given seed=-1, expected an int from 0"),
        (
            lambda: dm.LossyLinks(0.3, seed=0.5),  # pyright: ignore[reportArgumentType] - what is tested
            "LossyLinks: given seed=0.5, expected an int from 0",
        ),
        (
            lambda: dm.Dropout(0.3, clients="ab"),
            "Dropout: given clients='ab', expected a list of clients",
        ),
        (
            lambda: dm.Dropout(0.3, clients=3),  # pyright: ignore[reportArgumentType] - what is tested
            "Dropout: given clients=3, expected a list of clients",
        ),
        (
            lambda: dm.Stragglers(["a"]),  # pyright: ignore[reportArgumentType] - what is tested
            "Stragglers: given ['a'], expected a dict client -> k such as {'a': 3}: the client "
            "responds every k-th round",
        ),
        (
            lambda: dm.Stragglers({"a": 0}),
            "Stragglers: given 0 for client 'a', expected a whole number from 1",
        ),
        (
            lambda: dm.Stragglers({"a": 1.5}),  # pyright: ignore[reportArgumentType] - what is tested
            "Stragglers: given 1.5 for client 'a', expected a whole number from 1",
        ),
        (
            lambda: Change(sequence="natural"),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given sequence='natural', expected a dm.Sequence",
        ),
        (
            lambda: Change(leave="ab"),
            "Change: given leave='ab', expected a list of clients",
        ),
        (
            lambda: Change(absent=3),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given absent=3, expected a list of clients",
        ),
        (
            lambda: Change(lost="ab"),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given lost='ab', expected a list of pairs of clients",
        ),
    ],
)
def test_a_constructor_says_what_it_expected(make: Any, message: str) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("online", "message"),
    [
        (
            dm.Dropout(0.3, clients=["z"]),
            f"Dropout: 'z' is no client; expected names among {NAMES}",
        ),
        (
            dm.Stragglers({"a": 2, "z": 2}),
            f"Stragglers: 'z' is no client; expected names among {NAMES}",
        ),
        ({0: Change()}, "online: given the round 0, expected a whole number from 1"),
        ({"1": Change()}, "online: given the round '1', expected a whole number from 1"),
        (
            {1: ["a"]},
            "online: given ['a'], expected a dm.Change such as dm.Change(leave=['a'])",
        ),
        (
            {1: None},
            "online: given None, expected a dm.Change such as dm.Change(leave=['a'])",
        ),
        (
            lambda moment: ["a"],
            "online: given ['a'], expected a dm.Change such as dm.Change(leave=['a']) or None",
        ),
        (
            lambda moment: False,
            "online: given False, expected a dm.Change such as dm.Change(leave=['a']) or None",
        ),
        (
            lambda moment: Change(leave=["z"]),
            f"online: 'z' is no client; expected names among {NAMES}",
        ),
    ],
)
def test_what_online_refuses(online: Any, message: str) -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online=online)
    assert str(caught.value) == message


@pytest.mark.parametrize("online", [3, "dropout", dm.Dropout, 0.3, [dm.Dropout(0.3), 3]])
def test_what_is_not_online(online: Any) -> None:
    wrong = online[-1] if isinstance(online, list) else online
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online=online)
    assert str(caught.value) == (
        f"online: given {wrong!r}, expected dm.Dropout(p), dm.Stragglers(...), dm.LossyLinks(p), "
        "a dict {round: dm.Change(...)}, a function of a moment that returns a dm.Change or None, "
        "or a list of these"
    )


def test_a_sequence_that_comes_later_and_does_not_fit() -> None:
    with pytest.raises(dm.SequenceError, match="'z' in partial is no client"):
        on(RING)[0].solve(online={3: Change(sequence=S.partial(["z"]))})


def test_a_change_shows_what_it_changes() -> None:
    assert repr(Change()) == "Change()"
    shown = repr(Change(leave=iter("ab"), lost=[("a", "b")]))
    assert shown == "Change(leave=('a', 'b'), lost=(('a', 'b'),))"


# --- (f) going on from a result ------------------------------------------------------------------


def broken(name: str, graph: str, k: int) -> tuple[dm.Result, dm.Result]:
    """Twenty rounds at once, and the last of them after a break."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    given: dict[str, Any] = {"rho": 0.8, "stopping": ONE, "eps_pri": 0.0, "eps_dual": 0.0}
    whole = built.model.solve(max_rounds=20, **given)
    part = built.model.solve(max_rounds=k, **given)
    return whole, built.model.solve(max_rounds=20 - k, start=part, **given)


STATE = ("points", "mu", "rho", "sides", "seen")


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
    """An active set that begins elsewhere comes to the same point by other roundings."""
    whole, rest = broken(name, graph, k)
    for field in STATE:
        ours, theirs = getattr(rest.state, field), getattr(whole.state, field)
        np.testing.assert_allclose(ours, theirs, rtol=EXACT, atol=EXACT, err_msg=field)


def test_a_start_is_left_as_it_was() -> None:
    model, _ = on(RING)
    first = model.solve(max_rounds=4)
    mu, points = first.state.mu.copy(), first.state.points.copy()
    model.solve(start=first)
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
    before = model.solve(max_rounds=4, rho=1.0, stopping=ONE)
    left = model.solve(online={5: Change(leave=["c"])}, rho=1.0, stopping=ONE)
    assert left.status == "reduced"
    slot = left.compiled.slots["b", "c"]
    np.testing.assert_array_equal(before.state.mu[slot], left.state.mu[slot])
    result = model.solve(start=left)
    assert result.status == "optimal"
    assert result.left == {}
    assert result.value == near(5.0)


def shared() -> tuple[dm.Model, cp.Variable]:
    w = cp.Variable(name="w")
    model = dm.Model("shared")
    for t, name in enumerate("abcd", start=1):
        model.client(name, cp.square(w - t))
    return model, w


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


# --- (g) metrics ---------------------------------------------------------------------------------


def test_metrics_are_columns_of_the_history() -> None:
    """On two clients: a = 1/2, b = 5/4, then 3/2 and 11/8, as above."""
    model, x = on(nx.path_graph("ab"))
    metrics = {
        "a": lambda at: at[x["a"]].item(),
        "gap": lambda at: (at[x["a"]] - at[x["b"]]).item(),
        "cost": lambda at: at.objective,
        "own": lambda at: {n: v.item() for n, v in at.copies(x["b"]).items()},
    }
    given: dict[str, Any] = BY_HAND | {"stopping": ONE, "max_rounds": 2}
    history = model.solve(metrics=metrics, **given).history
    assert list(history.columns[-4:]) == ["a", "gap", "cost", "own"]
    assert history.a.tolist() == exactly([1 / 2, 3 / 2])
    assert history.gap.tolist() == exactly([-3 / 4, 1 / 8])
    assert history.cost.tolist() == exactly([1 / 4 + 9 / 16, 1 / 4 + 25 / 64])
    assert history.cost.tolist() == history.objective.tolist()
    assert history.own.tolist() == [exactly({"b": 5 / 4}), exactly({"b": 11 / 8})]


def test_metrics_of_a_shared_variable() -> None:
    """With a server its value; without, the mean over the copies; copies are the clients'."""
    model, w = shared()
    metrics = {
        "w": lambda at: at[w].item(),
        "copies": lambda at: {name: v.item() for name, v in at.copies(w).items()},
    }
    given: dict[str, Any] = {"rho": 1.0, "stopping": ONE, "max_rounds": 1, "metrics": metrics}
    served = model.solve(**given).history.iloc[0]
    half = {"a": 0.5, "b": 1.0, "c": 1.5, "d": 2.0}  # 2 (x - t) + 2 x = 0
    assert served.copies == exactly(half)
    assert served.w == exactly(1.25)
    model.topology(nx.path_graph("abcd"))
    peers = model.solve(sequence=S.natural(), **given).history.iloc[0]
    a = F(2, 4)
    b = (4 + 2 * a) / 6
    c = (6 + 2 * b) / 6
    d = (8 + 2 * c) / 4
    known = {"a": float(a), "b": float(b), "c": float(c), "d": float(d)}
    assert peers.copies == exactly(known)
    assert peers.w == exactly(float(sum((a, b, c, d), F(0))) / 4)


def test_metrics_of_a_maximisation_have_its_sign() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for t in (1, 3):
        model.client(t, cp.Maximize(-cp.square(w - t)))
    result = model.solve(metrics={"mine": lambda at: at.objective})
    assert result.history.mine.iloc[-1] == near(-2.0)
    assert result.history.mine.tolist() == result.history.objective.tolist()


def test_a_metric_of_a_variable_of_another_model() -> None:
    model, _ = on(RING)
    with pytest.raises(dm.ResultError) as caught:
        model.solve(metrics={"z": lambda at: at[cp.Variable(name="z")]})
    assert str(caught.value) == "metrics: 'z' is no variable of 'numbers'"


@pytest.mark.parametrize(
    "given", [3, ["norm"], {"norm": 3}, {3: abs}, abs, "norm"], ids=lambda given: str(given)[:12]
)
def test_what_are_no_metrics(given: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(metrics=given)
    assert str(caught.value) == (
        f"metrics: given {given!r}, expected a dict from the name of a column of the history to a "
        "function of a dm.Iterate, such as {'norm': lambda at: np.linalg.norm(at[w])}"
    )


def test_a_metric_does_not_replace_a_column() -> None:
    with pytest.raises(dm.OptionError):
        on(RING)[0].solve(metrics={"primal": lambda at: 7.0})
