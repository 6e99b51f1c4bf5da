r"""Dropouts, stragglers and lost messages, against known answers and fractions by hand.

The known answers are those of the zoo; the fractions follow each message. In this arithmetic the
clients are :math:`(x_i - t_i)^2` and :math:`\rho = 1`, so that a client of degree d, with
multipliers :math:`\pm\mu_e` and told values :math:`y_e`, answers

.. math:: x_i = \frac{2 t_i - \sum_e \pm\mu_e + 2 \sum_e y_e}{2 + 2 d},
    \qquad \mu_e \leftarrow \mu_e + 2 (x_\text{tail} - x_\text{head}).
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.coordinate.right import assert_right
from tests.schedule.numbers import BY_HAND, ONE, RING, Every, exactly, on, values
from tests.zoo import GRAPHS, PROBLEMS

Change = dm.Change
F = Fraction
S = dm.Sequence


def same(one: dm.Result, two: dm.Result) -> None:
    """Bit for bit the same run."""
    columns = [c for c in one.history.columns if c != "seconds"]
    assert one.history[columns].equals(two.history[columns])
    same_state(one, two)


def same_state(one: dm.Result, two: dm.Result) -> None:
    for name in ("points", "mu", "rho", "sides", "received"):
        np.testing.assert_array_equal(getattr(one.state, name), getattr(two.state, name), name)


# --- failures, and still the AIO optimum ---------------------------------------------------------

ZOO = list(PROBLEMS)
SHAPES = ("star", "chain", "ring", "odd ring", "complete")
MAX_ROUNDS = 5000


def failures(names: Iterable[Hashable], seed: int) -> dict[str, list[Any]]:
    first, second, *_ = names
    dropout, lossy = dm.Dropout(0.3, seed=seed), dm.LossyLinks(0.2, seed=seed)
    slow = dm.Stragglers({first: 3, second: 2})
    return {"lossy": [lossy], "stragglers": [slow], "all": [dropout, lossy, slow]}


# Every problem on every graph is in ``test_zoo.py`` and ``test_sequences.py``. Here the graphs take
# turns, so that each has three or four problems.
@pytest.mark.parametrize(
    ("name", "graph"), [(name, SHAPES[i % len(SHAPES)]) for i, name in enumerate(ZOO)]
)
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


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "graph"), [("lasso", "star"), ("simplex", "odd ring")])
def test_dropout_with_any_seed(name: str, graph: str, seed: int) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    assert_right(built, built.model.solve(online=dm.Dropout(0.3, seed=seed)))


FAILURES = ["lossy", "stragglers", "all"]


# Every kind of failure with every problem and on every graph, not every triple.
@pytest.mark.parametrize(
    ("name", "graph", "kind"),
    [
        (name, SHAPES[(i + 2 * j) % len(SHAPES)], kind)
        for i, name in enumerate(["least_squares", "lasso", "logistic", "simplex", "nearest_psd"])
        for j, kind in enumerate(FAILURES)
    ],
)
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


# --- the history ---------------------------------------------------------------------------------


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
    plain = model.solve(acceleration=None, stopping=ONE, max_rounds=15)
    online = [dm.Dropout(0.0), dm.LossyLinks(0), dm.Stragglers({0: 1}), dm.Stragglers({})]
    never = model.solve(acceleration=None, stopping=ONE, max_rounds=15, online=online)
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


# --- by hand -------------------------------------------------------------------------------------


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
