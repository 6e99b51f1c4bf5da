"""The penalty rho in every form, its rules and its default, against rounds in closed form."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.coordinate.chain import ONE, TARGETS, by_hand, chain, follows
from tests.expect import near, says

# --- rho ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rho"),
    [
        (1.0, 1.0),
        (2, 2.0),
        (np.float64(0.5), 0.5),
        (dm.Fixed(0.7), 0.7),
        (np.array([1.0, 2.0, 3.0, 4.0]), [[1, 2], [3, 4]]),
        ([1, 2, 3, 4], [[1, 2], [3, 4]]),
        ({"a": 0.5, "b": 2.0, "c": 2.0}, [[1.0, 1.0], [2.0, 2.0]]),  # geometric mean of the ends
        ({"a": 3.0, "c": 0.5}, [[3.0, 3.0], [0.5, 0.5]]),
        ({"b": 3.0}, 3.0),
        ({("a", "b"): 2.0, ("c", "b"): 0.5}, [[2.0, 2.0], [0.5, 0.5]]),
        ({("b", "a"): [1.0, 2.0], "c": 3.0}, [[1.0, 2.0], [3.0, 3.0]]),
        ({("a", "b"): 2.0, "a": 9.0, "b": 1.0}, [[2.0, 2.0], [1.0, 1.0]]),  # the pair goes first
    ],
    ids=[
        "float",
        "int",
        "numpy",
        "rule",
        "array",
        "list",
        "clients",
        "ends",
        "middle",
        "pairs",
        "pair and client",
        "pair first",
    ],
)
def test_rho_in_every_form_enters_as_its_square_without_one_half(given: Any, rho: Any) -> None:
    follows(by_hand(rho, 6), rho=given)


def test_the_history_tells_the_geometric_mean_of_rho() -> None:
    model, _ = chain()
    result = model.solve(rho=[1, 2, 4, 8], max_rounds=2)
    assert list(result.history.rho) == pytest.approx([2**1.5] * 2)


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, [1, 2, 3, -4], {"a": 0, "b": 1, "c": 1}])
def test_rho_must_be_positive_and_finite(bad: Any) -> None:
    model, _ = chain()
    for act in (lambda: model.solve(rho=bad), lambda: model.compile(rho=bad)):
        with pytest.raises(dm.OptionError) as caught:
            act()
        says(caught.value, "rho", "given", "expected positive finite numbers", "squ")


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        ("one", ["rho: given 'one'", "a positive number or an array of 4 of them"]),
        ([1, 2], ["rho: given [1, 2]", "an array of 4"]),
        ({("a", "b"): [1, 2, 3], "c": 1}, ["rho[('a', 'b')]", "an array of 2"]),
        ({}, ["the edge ('a', 'b') has no penalty", "add 'a', 'b' or ('a', 'b')"]),
        ({"c": 1}, ["the edge ('a', 'b') has no penalty"]),
        ({"z": 1}, ["'z' is neither a client nor a pair", "'a', 'b', 'c'", "('a', 'b')"]),
        ({("a", "c"): 1}, ["('a', 'c') is neither a client nor a pair of neighbours"]),
        ({("a", "b", "c"): 1}, ["('a', 'b', 'c') is neither a client nor a pair"]),
        ({(): 1}, ["() is neither a client nor a pair"]),
        (dm.Fixed, ["rho: given <class", "a positive number"]),
    ],
    ids=[
        "text",
        "short",
        "long",
        "empty",
        "half",
        "stranger",
        "no neighbours",
        "three",
        "nobody",
        "class",
    ],
)
def test_rho_that_fits_no_edge(bad: Any, parts: list[str]) -> None:
    model, _ = chain()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(rho=bad)
    says(caught.value, *parts)


def test_residual_balancing_moves_a_bad_start_and_a_fixed_rho_stays() -> None:
    model, _ = chain()
    for start in (0.01, 100.0):
        fixed = model.solve(acceleration=None, rho=start, max_rounds=60)
        assert fixed.status == "round_limit"
        assert fixed.history.rho.nunique() == 1
        moved = model.solve(
            acceleration=None, rho=dm.ResidualBalancing(start=start), max_rounds=200, stopping=ONE
        )
        assert moved.status == "optimal"
        assert moved.history.rho.iloc[0] == pytest.approx(start)
        assert 0.02 < moved.history.rho.iloc[-1] < 50


def test_residual_balancing_keeps_its_period_and_its_number_of_changes() -> None:
    model, _ = chain()
    rule = dm.ResidualBalancing(start=100.0, period=7, changes=2)
    rho = model.solve(
        acceleration=None, rho=rule, max_rounds=60, stopping=ONE
    ).history.rho.to_numpy()
    changed = 1 + np.flatnonzero(np.diff(rho))  # the last round under the old penalty
    assert list(changed) == [7, 14]


@pytest.mark.parametrize("bad", [{"period": 0}, {"threshold": 0.5}, {"changes": -1}])
def test_residual_balancing_refuses_what_means_nothing(bad: dict[str, Any]) -> None:
    with pytest.raises(dm.OptionError) as caught:
        dm.ResidualBalancing(**bad)
    says(caught.value, "ResidualBalancing: given", "expected period >= 1, threshold >= 1")


def test_a_rule_of_ones_own() -> None:
    class Doubling:
        def init(self, compiled: dm.Compiled) -> np.ndarray:
            return np.ones(compiled.size)

        def update(self, state: Any, outer: int) -> np.ndarray:
            return 2 * state.rho

    model, _ = chain()
    result = model.solve(acceleration=None, rho=Doubling(), max_rounds=4, stopping=ONE)
    assert list(result.history.rho) == pytest.approx([1, 2, 4, 8])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_default_penalty_is_indifferent_to_the_units_of_the_objective(scale: float) -> None:
    model = dm.Model()
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for i in range(3):
        model.client(i, scale * cp.sum_squares(x[i] - TARGETS[i]))
    model.consensus(x[0] == x[1], x[1] == x[2])
    result = model.solve()
    assert result.status == "optimal"
    # The penalty of the paper's augmented Lagrangian is scale^1/2 times that of scale 1.
    assert result.history.rho.iloc[0] == pytest.approx(np.sqrt(scale), rel=1e-4)
    assert result[x[1]] == near(TARGETS.mean(axis=0))


# --- what the defaults must manage without tuning -------------------------------------------------


@pytest.mark.parametrize("rounds", [100])
@pytest.mark.parametrize(
    ("one", "other"), [(1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1e-3, 3e-3), (1e4, 3e4)]
)
def test_two_numbers_agree_within_a_hundred_rounds(one: float, other: float, rounds: int) -> None:
    """Also where the answer is zero (1 and -1) and where all agree already (1 and 1)."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x - one))
    model.client("b", cp.square(y - other))
    model.consensus(x == y)
    result = model.solve(max_rounds=rounds)
    assert result.status == "optimal"
    assert result[x] == near((one + other) / 2)


def test_flat_directions_do_not_slow_the_default_penalty_down() -> None:
    """The middle client's (u + v)^2 has no curvature along u = -v."""
    u, v = cp.Variable(name="u"), cp.Variable(name="v")
    model = dm.Model()
    model.client("a", cp.square(u - 1))
    model.client("b", cp.square(u + v))
    model.client("c", cp.square(v - 2))
    result = model.solve(max_rounds=100)
    # The normal equations: 2 u + v = 1, u + 2 v = 2.
    assert result.status == "optimal"
    assert (result[u], result[v]) == near((0.0, 1.0))


def test_many_small_rings_of_two_kinds() -> None:
    for graph in (nx.cycle_graph(4), nx.cycle_graph(3)):
        x = {n: cp.Variable(name=f"x{n}") for n in graph}
        model = dm.Model()
        for n, v in x.items():
            model.client(n, cp.square(v - n - 1))
        model.consensus(*[x[a] == x[b] for a, b in graph.edges])
        result = model.solve(max_rounds=200)
        assert result.status == "optimal"
        assert result.value == near(sum((n + 1 - (len(graph) + 1) / 2) ** 2 for n in graph))


@pytest.mark.parametrize(
    "rho",
    [1e-300, 1e-160, 1e-76, 1e76, 1e160, {"a": 1e-300, "server": 1.0}, np.array([1.0, 1e-300])],
    ids=str,
)
def test_a_penalty_whose_square_is_no_use_is_refused(rho: Any) -> None:
    model = _two()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(rho=rho)
    assert str(caught.value).startswith("rho")
    assert str(caught.value).endswith(
        ", expected numbers from 1e-75 to 1e+75; the penalty enters as its square, and the square "
        "of that must still be a number; measure the data in other units"
    )


@pytest.mark.parametrize("rho", [True, np.True_, 1j, np.ones(2, complex), np.ones(2, bool), "1"])
def test_what_is_no_number_is_no_penalty(rho: Any) -> None:
    model = _two()
    with pytest.raises(dm.OptionError, match="expected a positive number or an array of 2 of them"):
        model.solve(rho=rho)


@pytest.mark.parametrize("rho", [1e-75, 1e75])
def test_the_largest_and_the_least_penalty_end_in_a_status(rho: float) -> None:
    """What is found is worth nothing, and is not called optimal: x = 1 at a value of 2."""
    with np.errstate(all="ignore"):
        result = _two().solve(rho=rho, max_rounds=100)
    assert not result.status.has_answer


def _two() -> dm.Model:
    x = cp.Variable()
    model = dm.Model()
    model.client("a", cp.square(x))
    model.client("b", cp.square(x - 2))
    return model


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("graph", [None, nx.full_rary_tree(2, 14)], ids=["star", "tree"])
def test_who_kinks_at_zero_keep_there_is_asked_by_more_than_curvature(
    graph: nx.Graph | None, seed: int
) -> None:
    """Separable lassos of which some have next to no data: the optimum is soft thresholding.

    A price has to turn by twice a kink's slope before who is at zero moves. While the first penalty
    was of curvature alone that took up to 87 rounds.
    """
    rng, count, size, slope = np.random.default_rng(seed), 14, 10, 20.0
    x, model = cp.Variable(size), dm.Model("l1")
    pulled, weight = np.zeros((2, size))
    for name in range(count):
        own = (200 if name % 3 else 0.3) * rng.uniform(0.5, 1, size)
        target = rng.normal(size=size) / 2
        model.client(name, cp.sum(cp.multiply(own, cp.square(x - target))) + slope * cp.norm1(x))
        pulled, weight = pulled + own * target, weight + own
    model.topology(graph)
    result = model.solve()
    expected = np.sign(pulled) * np.maximum(np.abs(pulled) - slope * count / 2, 0) / weight
    assert result.status == "optimal"
    assert result.rounds <= 30
    assert 0 < np.count_nonzero(expected) < size
    np.testing.assert_allclose(np.asarray(x.value), expected, atol=1e-6)
