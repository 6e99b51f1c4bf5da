"""Ways of proposing that take turns, and clients too large to be learned from the start."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

import dald_model as dm
from dald_model.coordinate.acceleration.evaluation import Evaluation, Proposal
from dald_model.coordinate.acceleration.turns import TURN, Turns

LARGE = 40
"""Shared entries of a client: more than the secant takes by default."""


class Scripted:
    """Proposes what it was given, and remembers what it is told."""

    learnt = None
    recalled = ()

    def __init__(self, name: str, has_some: bool = True) -> None:
        self.name, self.is_spent, self._has_some = name, not has_some, has_some
        self.told: list[str] = []

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        self.told.append("observe")

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        return Proposal(evaluation.after, self.name) if self._has_some else None

    def reject(self, name: str) -> None:
        self.told.append("reject")

    def accept(self, name: str) -> None:
        self.told.append("accept")


def evaluated(size: float) -> Evaluation:
    """One entry, whose ends are so far apart."""
    before, sides = np.zeros((2, 1)), np.array([[size], [0.0]])
    return Evaluation(before, before, sides, np.zeros((2, 1)), np.zeros(2), np.zeros(2))


def test_who_makes_less_of_a_turn_than_was_promised_gives_way_and_all_learn():
    one, two = Scripted("one"), Scripted("two")
    turns, rho = Turns([(one,), (two,)], 0), np.ones(1)
    names = []
    for size in np.geomspace(1.0, 0.5, TURN + 1):
        turns.observe(evaluated(size), rho)
        found = turns.propose(evaluated(size), rho)
        assert found is not None
        names.append(found.name)
    assert names == [*(TURN - 1) * ["one"], "two", "two"]
    assert one.told == two.told == (TURN + 1) * ["observe"]


def test_what_is_taken_back_is_said_to_who_proposed_it_alone():
    one, two = Scripted("one"), Scripted("two")
    turns = Turns([(one, two)], 0)
    turns.reject("two")
    turns.accept("one")
    assert (one.told, two.told) == (["accept"], ["reject"])


def test_who_is_spent_ends_its_turn_and_the_next_of_its_way_proposes():
    spent, other = Scripted("spent", has_some=False), Scripted("other")
    turns, rho = Turns([(other,), (spent, other)], 1), np.ones(1)
    turns.observe(evaluated(1.0), rho)
    found = turns.propose(evaluated(1.0), rho)
    assert found is not None
    assert found.name == "other"


def rows(count: int, seed: int):
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=LARGE) / np.sqrt(LARGE)
    for _ in range(count):
        A = rng.normal(size=(2 * LARGE, LARGE))
        yield A, A @ truth + 0.5 * rng.normal(size=2 * LARGE)


def test_large_smooth_clients_on_a_path_take_fewer_rounds_than_anderson_alone():
    model, x = dm.Model("logistic"), cp.Variable(LARGE)
    parts = list(rows(8, 3))
    for name, (A, b) in enumerate(parts):
        model.client(name, cp.sum(cp.logistic(-cp.multiply(np.sign(b), A @ x))))
    model.topology(nx.path_graph(8))
    result = model.solve()
    alone = model.solve(acceleration=dm.Anderson())
    assert result.status == alone.status == "optimal"
    assert result.rounds < alone.rounds
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    signs = np.sign(b)
    point = np.zeros(LARGE)
    for _ in range(50):  # Newton's method on the pooled rows
        p = 1 / (1 + np.exp(signs * (A @ point)))
        point += np.linalg.solve((A.T * (p * (1 - p))) @ A, A.T @ (signs * p))
    assert x.value == pytest.approx(point, abs=1e-4)


def test_large_kinked_clients_are_solved_where_anderson_alone_has_no_answer():
    model, x = dm.Model("absolute"), cp.Variable(LARGE)
    parts = [(A[:24], b[:24]) for A, b in rows(8, 1)]
    for name, (A, b) in enumerate(parts):
        model.client(name, cp.norm1(A @ x - b))
    result = model.solve(max_rounds=200)
    alone = model.solve(max_rounds=200, acceleration=dm.Anderson())
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    costs = np.concatenate([np.zeros(LARGE), np.ones(b.size)])
    above = np.block([[A, -np.eye(b.size)], [-A, -np.eye(b.size)]])
    bounds = [*LARGE * [(None, None)], *b.size * [(0, None)]]
    best = linprog(costs, above, np.concatenate([b, -b]), bounds=bounds).fun
    assert result.status == "optimal"
    assert alone.status == "round_limit"
    assert result.value == pytest.approx(best, rel=1e-6)


def test_clocks_on_a_long_ring_agree_of_sixty():
    """Offsets by absolute outliers (Giridhar and Kumar 2006), against one problem of them all."""
    count, rng = 60, np.random.default_rng(3)
    true = rng.normal(0, 500, count)
    clocks, model, parts = [cp.Variable() for _ in range(count)], dm.Model("clocks"), []
    for one in range(count):
        other = (one + 1) % count
        seen = true[one] - true[other] + rng.normal(0, 2, 8)
        seen += (rng.random(8) < 0.15) * rng.normal(0, 300, 8)
        parts.append(cp.sum(cp.huber(clocks[one] - clocks[other] - seen, 5)))
    parts[0] += 1e3 * cp.square(clocks[0])
    for one, part in enumerate(parts):
        model.client(one, part)
    result = model.solve(max_rounds=300)
    assert result.status == "optimal"
    best = cp.Problem(cp.Minimize(cp.sum(parts))).solve(solver="CLARABEL")
    assert result.value == pytest.approx(best, rel=1e-6)
