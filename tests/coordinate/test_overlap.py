r"""Overlapped sweeps against the serial run, bit for bit, and where they are not used.

The serial run is the same one with ``pays`` patched to say no. With closed forms overlapped and
serial run agree bit for bit. Absolute values are shrunk side by side until all are done, and others
stand beside a client in a wavefront, which leaves rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate import sweeper_choice
from dald_model.coordinate.measurement import natural_units
from dald_model.coordinate.overlapped_sweeps import FIRST_BLOCK, OverlappedSweeper, pays
from dald_model.coordinate.state import State
from dald_model.coordinate.sweeper import Record
from dald_model.coordinate.units import Units
from dald_model.solvers import NAMED, Answers, Turn
from tests.coordinate.dealt import CHAIN, NATURAL, ONE, Array, deal, hospitals, same, sparse

Solve = Callable[..., dm.Result]


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sweeps each block had."""
    seen: list[int] = []
    run = OverlappedSweeper.run

    def spied(self: OverlappedSweeper, *given: Any) -> list[Record]:
        records = run(self, *given)
        seen.append(len(records))
        return records

    monkeypatch.setattr(OverlappedSweeper, "run", spied)
    return seen


@pytest.fixture
def serially(monkeypatch: pytest.MonkeyPatch) -> Solve:
    def solve(model: dm.Model, **options: Any) -> dm.Result:
        with monkeypatch.context() as patch:
            patch.setattr(sweeper_choice, "pays", lambda compiled, stages: False)
            given: dict[str, Any] = {"sequence": NATURAL, "acceleration": None} | options
            return model.solve(**given)

    return solve


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for certificates of failure, which costs seconds once a run has converged."""
    monkeypatch.setattr("dald_model.coordinate.diagnosis.PERIOD", 10**9)


def begins_as(found: dm.Result, known: dm.Result) -> None:
    """Every round of the serial run is one of the overlapped run, bit for bit."""
    columns = ["outer", "inner", "primal", "dual", "primal_scaled", "dual_scaled", "objective"]
    ours, theirs = found.history[columns], known.history[columns]
    np.testing.assert_array_equal(ours.to_numpy()[: len(theirs)], theirs.to_numpy())


# --- the iterates of the serial run ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("unwatched")
def test_the_wavefront_run_of_a_chain_of_100_equals_the_serial_run_over_500_sweeps(
    blocks: list[int], serially: Solve
) -> None:
    """Bit for bit."""
    model = deal(nx.path_graph(100), m=10)
    options = {"rho": 1.3, "stopping": ONE, "eps_pri": 0.0, "eps_dual": 0.0, "max_rounds": 500}
    found = model.solve(sequence=NATURAL, **options)
    assert sum(blocks) == found.rounds == 500
    assert max(blocks) > 100
    count = len(blocks)
    same(found, serially(model, **options))
    assert len(blocks) == count, "the serial run is one"


ORDERS: dict[str, tuple[Callable[[], dm.Model], dm.Sequence]] = {
    "chain": (lambda: deal(CHAIN), NATURAL),
    "chain, rows": (lambda: deal(CHAIN, "r"), NATURAL),
    "chain, absolute values": (lambda: deal(CHAIN, "a"), NATURAL),
    "chain, backwards": (lambda: deal(CHAIN, "sra"), dm.Sequence.from_root(0)),
    "ring": (lambda: deal(nx.cycle_graph(11), "sra"), dm.Sequence.from_root(3)),
    "grid": (lambda: deal(nx.grid_2d_graph(4, 4), "sra"), NATURAL),
    "tree": (lambda: deal(nx.full_rary_tree(2, 15), "sra"), dm.Sequence.from_root(7)),
    "random": (lambda: deal(sparse(), "sra"), NATURAL),
    "a matrix": (
        lambda: deal(CHAIN, "ra"),
        dm.Sequence.from_matrix(np.diag([*11 * [1], 0]) + np.eye(12, k=1)),
    ),
    "natural, along": (lambda: deal(CHAIN, "sa"), dm.Sequence("full").along(NATURAL)),
}
RULES: dict[str, Any] = {
    "fixed": 1.0,
    "balancing": dm.ResidualBalancing(period=3, changes=4),
    "default": None,
}
CASES = [
    (order, rule)
    for i, order in enumerate(ORDERS)
    for j, rule in enumerate(RULES)
    if (i + j) % 3 == 0 or order == "chain"
]


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(("order", "rule"), CASES)
def test_every_run_is_the_serial_one(
    blocks: list[int], serially: Solve, order: str, rule: str
) -> None:
    """To the round limit, with the last iterate for an answer."""
    make, sequence = ORDERS[order]
    model = make()
    options = {"sequence": sequence, "rho": RULES[rule], "stopping": ONE, "eps_pri": 0.0}
    found = model.solve(**options, max_rounds=60)
    assert max(blocks) > 1
    known = serially(model, **options, max_rounds=60)
    same(found, known, exactly=order in ("chain", "chain, rows"))


@pytest.mark.usefixtures("unwatched")
def test_a_server_of_some_takes_part(blocks: list[int], serially: Solve) -> None:
    """It closes a cycle of three with the first two clients of the chain."""
    model = hospitals(2)
    model.topology("server")
    options = {"stopping": ONE, "eps_pri": 0.0, "max_rounds": 60}
    found = model.solve(acceleration=None, sequence=NATURAL, **options)
    assert found.compiled.servers
    assert max(blocks) > 1
    same(found, serially(model, **options))


def test_it_goes_on_from_an_earlier_run(blocks: list[int], serially: Solve) -> None:
    """With the gradients and multipliers that the earlier run left."""
    model = deal(CHAIN, "sra")
    first = model.solve(sequence=NATURAL, stopping=ONE, max_rounds=11)
    options = {"start": first, "stopping": ONE, "eps_pri": 0.0, "max_rounds": 30}
    found = model.solve(sequence=NATURAL, **options)
    assert max(blocks) > 1
    same(found, serially(model, **options), exactly=False)


def test_inexact_steps_overlap_where_they_depend_on_the_turn_alone(
    blocks: list[int], serially: Solve
) -> None:
    """Gradient steps have slack, (29), which is measured sweep by sweep."""
    model = deal(CHAIN)
    steps = dict.fromkeys(CHAIN, dm.solvers.GradientSteps(5e-3, count=3))
    options = {"solver": steps, "rho": 1.0, "stopping": ONE, "eps_pri": 0.0, "max_rounds": 60}
    found = model.solve(sequence=NATURAL, **options)
    assert max(blocks) > 1
    assert found.history.slack.min() > 0
    same(found, serially(model, **options))


# --- where a run ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", ["s", "r", "a", "sra"])
def test_convergence_is_tested_at_the_end_of_a_block(
    blocks: list[int], serially: Solve, kinds: str
) -> None:
    """The run ends at most a block later than the serial one, whose rounds it begins with."""
    model = deal(CHAIN, kinds)
    found = model.solve(acceleration=None, sequence=NATURAL, stopping=ONE)
    known = serially(model, stopping=ONE)
    assert found.status == known.status == "optimal"
    assert max(blocks) > 1
    assert known.rounds <= found.rounds == sum(blocks) <= known.rounds + blocks[-1]
    if kinds == "s":
        begins_as(found, known)
    assert found.verify().ok


def test_the_answer_of_a_run_that_does_not_converge_is_the_best_end_of_a_block(
    serially: Solve,
) -> None:
    """Of a run that drifts away the first block ends best."""
    model = deal(CHAIN)
    options = {"algorithm": dm.DALD(2.5), "rho": 1.0, "stopping": ONE, "max_rounds": 40}
    found, known = model.solve(sequence=NATURAL, **options), serially(model, **options)
    begins_as(found, known)
    worst = found.history[["primal", "dual"]].max(axis=1)
    ends = [end for end in (FIRST_BLOCK, 3 * FIRST_BLOCK, 40) if end <= found.rounds]
    assert found.answer_round == worst[ends].idxmin()
    assert found.answer_round < found.rounds
    assert found.value == pytest.approx(found.history.objective[found.answer_round])


def _apart() -> dm.Model:
    """Client 5 is at 2 or above, the others at 1 or below."""
    x = [cp.Variable(2, name=f"x{at}") for at in range(12)]
    model = dm.Model("apart")
    for at, v in enumerate(x):
        low, high = (2, 3) if at == 5 else (-1, 1)
        model.client(at, cp.sum_squares(v), [v >= low, v <= high])
    model.consensus(*[one == two for one, two in pairwise(x)])
    return model


def _falling() -> dm.Model:
    """All go down along the second coordinate, which client 3 alone cares about."""
    x = [cp.Variable(2, name=f"x{at}") for at in range(12)]
    model = dm.Model("falling")
    for at, v in enumerate(x):
        model.client(at, cp.square(v[0]) + (v[1] if at == 3 else 0))
    model.consensus(*[one == two for one, two in pairwise(x)])
    return model


FAILING: dict[str, tuple[Callable[[], dm.Model], dict[str, Any]]] = {
    "infeasible": (_apart, {}),
    "unbounded": (_falling, {}),
    "diverged": (lambda: deal(CHAIN), {"algorithm": dm.DALD(2.5)}),
}


@pytest.mark.parametrize("status", FAILING)
def test_a_run_that_fails_is_told_so_at_the_end_of_a_block(serially: Solve, status: str) -> None:
    """Blocks are looked at when they are done; they double from 8 sweeps on."""
    make, given = FAILING[status]
    model, options = make(), {"rho": 1.0, "stopping": ONE, "acceleration": None} | given
    found, known = model.solve(sequence=NATURAL, **options), serially(model, **options)
    assert found.status == known.status == status
    assert known.rounds <= found.rounds <= 2 * known.rounds + FIRST_BLOCK + 25


def test_no_warning_is_made_of_what_is_computed_beyond_the_end() -> None:
    """Blocks go on beyond the round in which a run diverges."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = deal(CHAIN).solve(
            sequence=NATURAL, rho=1.0, stopping=ONE, algorithm=dm.DALD(30.0), max_rounds=2000
        )
    assert result.status == "diverged"


# --- where a solver fails -------------------------------------------------------------------------


class Flaky:
    """The closed form; ``fails`` is told each turn of ``client`` and how many it had before."""

    name, batches, is_exact = "flaky", False, True

    def __init__(self, client: Hashable, fails: Callable[[Turn, int], bool]) -> None:
        self.client, self.fails, self.turns = client, fails, 0

    def refuses(self, subproblem: Subproblem) -> str:
        return NAMED["factor"].refuses(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Any:
        return FlakySession(self, subproblems, NAMED["factor"].open(subproblems))


class FlakySession:
    def __init__(self, flaky: Flaky, subproblems: Sequence[Subproblem], session: Any) -> None:
        self.flaky, self.names = flaky, [sub.name for sub in subproblems]
        self.session = session
        self.lengths = np.array([sub.entries.size for sub in subproblems])
        self.sizes = np.array([sub.size for sub in subproblems])

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        answers, flaky = self.session.minimise(turn, tolerance), self.flaky
        for i, at in enumerate(turn.which.tolist()):
            if self.names[at] != flaky.client:
                continue
            stop = int(self.lengths[turn.which[: i + 1]].sum())
            mine = slice(stop - int(self.lengths[at]), stop)
            told = Turn(np.zeros(1, int), *(vector[mine] for vector in turn[1:4]))
            flaky.turns += 1
            if flaky.fails(told, flaky.turns):
                end = int(self.sizes[turn.which[: i + 1]].sum())
                points = answers.points.copy()
                points[end - int(self.sizes[at]) : end] = np.nan
                statuses = list(answers.statuses)
                statuses[i] = "solver_error"
                answers = answers._replace(points=points, statuses=statuses, messages={i: "flaky"})
        return answers


BROKEN = 5
"""The client that fails."""
OPTIONS: dict[str, Any] = {
    "rho": 1.0, "stopping": ONE, "eps_pri": 1e-9, "eps_dual": 1e-9, "max_rounds": 60,
}  # fmt: skip


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("turn", [2, 9, 20])
def test_a_client_that_nobody_can_solve_ends_the_run_with_the_block_before(turn: int) -> None:
    """Blocks are of 8, 16 and 32 sweeps; what was begun of a block is not counted."""
    flaky = Flaky(BROKEN, lambda _, turns: turns >= turn)
    found = deal(CHAIN).solve(acceleration=None, sequence=NATURAL, solver=flaky, **OPTIONS)
    assert (found.status, found.culprit) == ("solver_error", BROKEN)
    assert found.rounds == found.answer_round == (0 if turn <= FIRST_BLOCK else FIRST_BLOCK)


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("turn", [1, 9, 20])
def test_the_next_solver_takes_over_within_a_block(
    monkeypatch: pytest.MonkeyPatch, blocks: list[int], turn: int
) -> None:
    """Conic solvers follow a tolerance, so that sweeps overlap no more."""
    opened = type(NAMED["factor"]).open

    def open_(self: Any, subproblems: Sequence[Subproblem]) -> Any:
        if self.name != "factor":
            return opened(self, subproblems)
        flaky = Flaky(BROKEN, lambda _, turns: is_running and turns == turn)
        made.append(flaky)
        return FlakySession(flaky, subproblems, opened(self, subproblems))

    made: list[Flaky] = []
    is_running = False

    def measured(*given: Any) -> Units:
        """The turns in which clients are asked for their own answers are not of a round."""
        nonlocal is_running
        found = natural_units(*given)
        for one in made:
            one.turns = 0
        is_running = True
        return found

    model = deal(CHAIN)
    known = model.solve(acceleration=None, sequence=NATURAL)
    model.compile().resting = None  # else the sessions of that run serve again
    monkeypatch.setattr(type(NAMED["factor"]), "open", open_)
    monkeypatch.setattr("dald_model.coordinate.measured.natural_units", measured)
    found = model.solve(acceleration=None, sequence=NATURAL, stopping=ONE)
    assert [(e.client, e.failed, e.next) for e in found.fallbacks] == [(BROKEN, "factor", "conic")]
    assert found.status == "optimal"
    assert blocks[-1] == 1, "conic is not exact"
    assert found.value == pytest.approx(known.value, rel=1e-6)
    assert found.verify().ok


# --- where it is not used -------------------------------------------------------------------------


def _nothing(moment: dm.Moment) -> None:
    """No change."""


class Grown:
    """A penalty rule of the least kind."""

    def init(self, compiled: dm.Compiled) -> Array:
        return np.ones(compiled.size)

    def update(self, state: State, outer: int) -> Array:
        return 1.01 * state.rho


NOT: dict[str, tuple[str, dict[str, Any]]] = {
    "online": ("s", {"online": _nothing}),
    "a change to come": ("s", {"online": {30: dm.Change(absent=(3,))}}),
    "metrics": ("s", {"metrics": {"value": lambda iterate: iterate.objective}}),
    "partial": ("s", {"sequence": dm.Sequence.partial([0, 1], [4])}),
    "random": ("s", {"sequence": dm.Sequence.random(3)}),
    "greedy": ("s", {"sequence": dm.Sequence.greedy(3)}),
    "participating": ("s", {"sequence": dm.Sequence.participating(12)}),
    "jacobi": ("s", {"sequence": dm.Sequence.jacobi()}),
    "repeat": ("s", {"sequence": dm.Sequence.repeat([0], times=2)}),
    "twice": ("s", {"sequence": NATURAL + NATURAL}),
    "in turn": ("s", {"sequence": dm.Sequence.alternate(NATURAL, dm.Sequence("by colour"))}),
    "by colour": ("s", {"sequence": None}),
    "newton": ("sl", {}),
    "newton, fixed accuracy": ("sl", {"accuracy": 1e-8}),
    "reference": ("s", {"solver": "reference", "max_rounds": 3}),
    "conic": ("s", {"solver": {4: "conic"}}),
    "one round": ("s", {"max_rounds": 1}),
    "a rule that may change at any time": ("s", {"rho": Grown()}),
    "B1": ("s", {"stopping": dm.FixedTolerance()}),
    "B2": ("s", {"stopping": None}),
    "B3": ("s", {"stopping": dm.GrowingBudget()}),
    "B4 of more than one": ("s", {"stopping": dm.FixedBudget(2)}),
    "an algorithm that comes to rest": ("s", {"algorithm": dm.BCD(multipliers=False)}),
}


@pytest.mark.filterwarnings("ignore:.*Jacobi.* may diverge:dald_model.SequenceWarning")
@pytest.mark.parametrize("why", NOT)
def test_it_is_not_used_where_a_sweep_may_depend_on_more_than_the_one_before(
    blocks: list[int], why: str
) -> None:
    kinds, given = NOT[why]
    options = {"sequence": NATURAL, "stopping": ONE, "max_rounds": 12} | given
    if why == "an algorithm that comes to rest":
        options["stopping"] = None
    result = deal(CHAIN, kinds).solve(**options)
    assert result.rounds >= 1
    assert set(blocks) <= {1}


def test_all_wait_for_a_server_of_all(blocks: list[int]) -> None:
    result = hospitals(10).solve(sequence=NATURAL, stopping=ONE, max_rounds=20)
    assert result.compiled.servers
    assert blocks == []


@pytest.mark.parametrize(
    ("stages", "saves"),
    [
        ([[at] for at in range(6)], True),
        ([[0, 1], [2], [3], [4], [5]], False),
        ([[0], [1], [2], [3], [4]], False),
        ([*([at] for at in range(6)), [0]], False),
        ([[0, 2, 4], [1, 3, 5]], False),
    ],
    ids=["one by one", "neighbours", "one left out", "one twice", "two colours"],
)
def test_what_pays(stages: Any, saves: bool) -> None:
    assert pays(deal(nx.path_graph(6)).compile(), stages) == saves


# --- Ctrl-C ---------------------------------------------------------------------------------------


class Stop(Flaky):
    """Ctrl-C in a turn of the client."""

    def __init__(self, turn: int) -> None:
        super().__init__(BROKEN, lambda _, turns: self._strike(turns == turn))

    def _strike(self, now: bool) -> bool:
        if now:
            raise KeyboardInterrupt
        return False


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(("turn", "complete"), [(9, 8), (20, 8), (25, 24), (40, 24)])
def test_ctrl_c_in_a_block_leaves_the_answer_of_the_block_before(
    serially: Solve, turn: int, complete: int
) -> None:
    model = deal(CHAIN)
    found = model.solve(acceleration=None, sequence=NATURAL, solver=Stop(turn), **OPTIONS)
    assert (found.status, found.rounds, found.answer_round) == ("interrupted", complete, complete)
    assert found.detail == f"after {complete} complete rounds"
    known = serially(model, **OPTIONS | {"max_rounds": complete})
    assert found.history.objective.tolist() == known.history.objective.tolist()
    assert found.value == known.value
    for ends, mu in known.multipliers.items():
        np.testing.assert_array_equal(found.multipliers[ends], mu)
    again = model.solve(acceleration=None, sequence=NATURAL, start=found)
    assert again.status == "optimal", "and it can go on from there"
    assert again.verify().ok


def test_ctrl_c_in_the_first_block_leaves_nothing() -> None:
    model = deal(CHAIN)
    found = model.solve(acceleration=None, sequence=NATURAL, solver=Stop(3), **OPTIONS)
    assert (found.status, found.rounds, found.answer_round) == ("interrupted", 0, 0)
    assert found.detail == "after 0 complete rounds"
    assert np.isnan(found.value)
    assert found.history.empty
    assert all(v.value is None for v in model.monolithic().variables())
    assert model.solve(acceleration=None, sequence=NATURAL).status == "optimal"
