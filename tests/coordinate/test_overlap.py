r"""Overlapped sweeps: the run is that of one sweep after the other.

The serial run is the same one with :attr:`Overlap.pays` patched to say no. With closed forms,
overlapped and serial run agree bit for bit in every iterate, multiplier and column of the history
but one: what is held against ``eps_dual`` has :math:`2\rho^2 D/\rho` in one and :math:`2\rho D` in
the other, which is some ulps. Active sets agree bit for bit as well, unless a block is computed
again, when they begin at other working sets than the serial run's. Absolute values are shrunk side
by side until all are done, and others stand beside a client in a wavefront. Both leave rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.overlapped_sweeps import Overlap, Record, Update
from dald_model.coordinate.run import REACH
from dald_model.coordinate.state import State
from dald_model.engines.dispatch import Layer
from dald_model.solvers import NAMED, Answers, Direct, Turn
from tests.coordinate.dealt import CHAIN, NATURAL, ONE, Array, deal, hospitals, same, sparse

# --- both ways ------------------------------------------------------------------------------------


@dataclass
class Spy:
    """How many sweeps each block was asked for, and how many it gave."""

    asked: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)

    def replayed(self, result: dm.Result) -> bool:
        return sum(self.given) > result.rounds


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    seen, run = Spy(), Overlap.run

    def spied(self: Overlap, state: State, closes: list[bool], update: Update) -> list[Record]:
        seen.asked.append(len(closes))
        records = run(self, state, closes, update)
        seen.given.append(len(records))
        return records

    monkeypatch.setattr(Overlap, "run", spied)
    return seen


Solve = Callable[..., dm.Result]


@pytest.fixture
def serially(monkeypatch: pytest.MonkeyPatch) -> Solve:
    def solve(model: dm.Model, **options: Any) -> dm.Result:
        with monkeypatch.context() as patch:
            patch.setattr(Overlap, "pays", property(lambda self: False))
            given: dict[str, Any] = {"sequence": NATURAL} | options
            return model.solve(**given)

    return solve


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for certificates of failure, which costs seconds once a run has converged."""
    monkeypatch.setattr("dald_model.coordinate.diagnosis.PERIOD", 10**9)


# --- the issue ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("unwatched")
def test_the_wavefront_run_of_a_chain_of_100_equals_the_serial_run_over_500_sweeps(
    spy: Spy, serially: Solve
) -> None:
    """Bit for bit."""
    model = deal(nx.path_graph(100), m=10)
    options = {"rho": 1.3, "stopping": ONE, "eps_pri": 0.0, "eps_dual": 0.0, "max_rounds": 500}
    found = model.solve(sequence=NATURAL, **options)
    assert sum(spy.given) == found.rounds == 500
    blocks = len(spy.given)
    same(found, serially(model, **options))
    assert len(spy.given) == blocks, "the serial run is one"


# --- other graphs, orders, clients, stopping conditions -------------------------------------------

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
STOPPING: dict[str, dict[str, Any]] = {
    "B1": {"rho": 1.0, "stopping": dm.FixedTolerance(), "eps_dual": 1e-3},
    "B2": {"rho": 1.0, "stopping": dm.ShrinkingTolerance(0.1, 0.5)},
    "B3": {"stopping": dm.GrowingBudget()},
    "B4, 1": {"stopping": ONE},
    "B4, 1, fixed": {"rho": 1.0, "stopping": ONE},
    "B4, 3": {"stopping": dm.FixedBudget(3)},
    "B4, 7, by tolerance": {"rho": 1.0, "stopping": dm.FixedBudget(7), "eps_dual": 1e-2},
    "default": {},
    "balancing": {"rho": dm.ResidualBalancing(period=3, changes=4), "stopping": ONE},
}
CASES = [
    (order, stopping)
    for i, order in enumerate(ORDERS)
    for j, stopping in enumerate(STOPPING)
    if (i + j) % len(STOPPING) in (0, 4) or order == "chain"
]
"""The chain, which is bit for bit, with every stopping condition; each other order with two."""


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(("order", "stopping"), CASES)
def test_every_run_is_the_serial_one(spy: Spy, serially: Solve, order: str, stopping: str) -> None:
    """To the round limit where it does not converge before, with the last iterate for an answer."""
    make, sequence = ORDERS[order]
    model = make()
    given = {"sequence": sequence, "max_rounds": 60, "eps_pri": 0.0} | STOPPING[stopping]
    found = model.solve(**given)
    assert spy.given
    assert max(spy.given) > 1
    exactly = order == "chain" or (order == "chain, rows" and not spy.replayed(found))
    same(found, serially(model, **given), exactly)


def test_all_wait_for_a_server_of_all(spy: Spy) -> None:
    result = hospitals(10).solve(sequence=NATURAL, stopping=ONE, max_rounds=20)
    assert result.compiled.servers
    assert spy.given == []


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("stopping", [ONE, dm.FixedBudget(4), dm.GrowingBudget()])
def test_a_server_of_some_takes_part(spy: Spy, serially: Solve, stopping: Any) -> None:
    """It closes a cycle of three with the first two clients of the chain."""
    model = hospitals(2)
    options = {"stopping": stopping, "eps_pri": 0.0, "max_rounds": 60}
    found = model.solve(sequence=NATURAL, **options)
    assert found.compiled.servers
    assert max(spy.given) > 1
    same(found, serially(model, **options))


@pytest.mark.slow
@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("stopping", [dm.FixedTolerance(), dm.FixedBudget(12)])
def test_inner_loops_that_end_by_the_tolerance_within_a_block_are_computed_again(
    spy: Spy, serially: Solve, stopping: Any
) -> None:
    model = deal(CHAIN, "sra")
    options = {"rho": 1.0, "stopping": stopping, "eps_pri": NEVER, "eps_dual": 1e-4}
    found = model.solve(sequence=NATURAL, max_rounds=120, **options)
    assert spy.replayed(found)
    assert found.history.outer.max() > 3
    same(found, serially(model, max_rounds=120, **options), exactly=False)


# Each kind with two conditions, and each condition with two kinds.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "stopping"),
    [
        (kinds, ("B3", "B4, 1", "B4, 3", "default")[(i + j) % 4])
        for i, kinds in enumerate(["s", "r", "a", "sra"])
        for j in range(2)
    ],
)
def test_convergence_within_a_block_ends_the_run_as_the_serial_one(
    spy: Spy, serially: Solve, kinds: str, stopping: str
) -> None:
    """The answer, too, is of the very round: its duals come from that turn's solver session."""
    model = deal(CHAIN, kinds)
    options: dict[str, Any] = STOPPING[stopping] | {"rho": None}
    found = model.solve(sequence=NATURAL, **options)
    assert found.status == "optimal"
    assert spy.given
    same(
        found,
        serially(model, **options),
        kinds == "s" or (kinds == "r" and not spy.replayed(found)),
    )
    assert found.verify().ok


def test_it_goes_on_from_an_earlier_run(spy: Spy, serially: Solve) -> None:
    """With the gradients and multipliers that the earlier run left."""
    model = deal(CHAIN, "sra")
    first = model.solve(sequence=NATURAL, stopping=ONE, max_rounds=11)
    options = {"start": first, "stopping": ONE, "eps_pri": 0.0, "max_rounds": 30}
    found = model.solve(sequence=NATURAL, **options)
    assert max(spy.given) > 1
    same(found, serially(model, **options), exactly=False)


def test_inexact_steps_overlap_where_they_depend_on_the_turn_alone(
    spy: Spy, serially: Solve
) -> None:
    """Gradient steps have slack, (29), which is measured sweep by sweep."""
    model = deal(CHAIN)
    steps = dict.fromkeys(CHAIN, dm.solvers.GradientSteps(5e-3, count=3))
    options = {"solver": steps, "rho": 1.0, "stopping": ONE, "eps_pri": 0.0, "max_rounds": 60}
    found = model.solve(sequence=NATURAL, **options)
    assert max(spy.given) > 1
    assert found.history.slack.min() > 0
    same(found, serially(model, **options))


# --- where a solver fails -------------------------------------------------------------------------


class Flaky:
    """The closed form; ``fails`` is told each turn of ``client`` and how many it had before."""

    name, batches, is_exact = "flaky", False, True

    def __init__(self, client: Hashable, fails: Callable[[Turn, int], bool]) -> None:
        self.client, self.fails, self.turns = client, fails, 0

    def refuses(self, subproblem: Subproblem) -> str:
        return NAMED["factor"].refuses(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Any:
        return _FlakySession(self, subproblems)


class _FlakySession:
    def __init__(self, flaky: Flaky, subproblems: Sequence[Subproblem]) -> None:
        self.flaky, self.names = flaky, [sub.name for sub in subproblems]
        self.session = NAMED["factor"].open(subproblems)
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


def _told(model: dm.Model, serially: Solve, round_: int, **options: Any) -> bytes:
    """What the client is told in a round of the serial run."""
    heard: list[bytes] = []
    flaky = Flaky(BROKEN, lambda turn, _: bool(heard.append(turn.neighbours.tobytes())))
    serially(model, solver=flaky, **options | {"max_rounds": round_})
    return heard[-1]


NEVER = 1e-13
"""A tolerance that is not met, but is one: a block may be the whole run where there is none."""
OPTIONS: dict[str, Any] = {
    "rho": 1.0, "stopping": ONE, "eps_pri": 0.0, "eps_dual": 0.0, "max_rounds": 60,
}  # fmt: skip


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("round_", [1, 2, 5, 8, 9, 15])
def test_a_client_that_nobody_can_solve_ends_the_run_as_the_serial_one(
    spy: Spy, serially: Solve, round_: int
) -> None:
    """The failure is of what the client is told, hence comes in every way of running."""
    model = deal(CHAIN)
    bad = _told(model, serially, round_, **OPTIONS)

    def solver() -> Flaky:
        return Flaky(BROKEN, lambda turn, _: turn.neighbours.tobytes() == bad)

    found = model.solve(sequence=NATURAL, solver=solver(), **OPTIONS)
    assert (found.status, found.culprit, found.rounds) == ("solver_error", BROKEN, round_ - 1)
    assert 0 in spy.given
    known = serially(model, solver=solver(), **OPTIONS)
    assert (known.status, known.culprit, known.rounds) == ("solver_error", BROKEN, round_ - 1)
    assert found.detail == known.detail
    if round_ > 1:
        assert found.history.objective.tolist() == known.history.objective.tolist()
        assert found.value == known.value


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("round_", [2, 5, 8, 9, 15])
def test_the_next_solver_takes_over_in_the_same_round_as_in_the_serial_run(
    spy: Spy, serially: Solve, monkeypatch: pytest.MonkeyPatch, round_: int
) -> None:
    model = deal(CHAIN)
    bad = _told(model, serially, round_, **OPTIONS)
    opened = Direct.open

    def open_(self: Direct, subproblems: Sequence[Subproblem]) -> Any:
        if self.name != "factor":
            return opened(self, subproblems)
        session = _FlakySession.__new__(_FlakySession)
        session.flaky = Flaky(BROKEN, lambda turn, _: turn.neighbours.tobytes() == bad)
        session.names = [sub.name for sub in subproblems]
        session.session = opened(self, subproblems)
        session.lengths = np.array([sub.entries.size for sub in subproblems])
        session.sizes = np.array([sub.size for sub in subproblems])
        return session

    monkeypatch.setattr(Direct, "open", open_)
    found = model.solve(sequence=NATURAL, **OPTIONS)
    assert 0 in spy.given
    known = serially(model, **OPTIONS)
    events = [(e.round, e.client, e.failed, e.next) for e in known.fallbacks]
    assert events == [(round_, BROKEN, "factor", "conic")]
    assert [(e.round, e.client, e.failed, e.next) for e in found.fallbacks] == events
    same(found, known)


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("turn", [1, 3, 8, 9, 20])
def test_a_failure_that_does_not_come_back_leaves_no_trace(
    spy: Spy, serially: Solve, turn: int
) -> None:
    """The block is thrown away, and what the serial sweep solves is solved."""
    model = deal(CHAIN)
    once = Flaky(BROKEN, lambda _, turns: turns == turn)
    found = model.solve(sequence=NATURAL, solver=once, **OPTIONS)
    assert 0 in spy.given
    same(found, serially(model, **OPTIONS))


@pytest.mark.usefixtures("unwatched")
def test_nor_does_one_that_comes_while_a_block_is_computed_again(spy: Spy, serially: Solve) -> None:
    model = deal(CHAIN)
    options = OPTIONS | {"stopping": dm.FixedTolerance(), "eps_pri": NEVER, "eps_dual": 1e-3}
    first = serially(model, **options).history.outer.tolist().count(1)
    assert 3 < first < REACH, "so that the first block is computed again"
    once = Flaky(BROKEN, lambda _, turns: turns == REACH + 3)
    found = model.solve(sequence=NATURAL, solver=once, **options)
    assert spy.given[:2] == [REACH, 0]
    same(found, serially(model, **options))


# --- where it is not used -------------------------------------------------------------------------


def _nothing(moment: dm.Moment) -> None:
    """No change."""


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
    "a rule that is not known to be steady": ("s", {"rho": "grown"}),
}


class Grown:
    """A penalty rule of the least kind."""

    def init(self, compiled: dm.Compiled) -> Array:
        return np.ones(compiled.size)

    def update(self, state: State, outer: int) -> Array:
        return 1.01 * state.rho


@pytest.mark.parametrize("why", NOT)
def test_it_is_not_used_where_a_sweep_may_depend_on_more_than_the_one_before(
    spy: Spy, why: str
) -> None:
    kinds, given = NOT[why]
    options = {"sequence": NATURAL, "stopping": ONE, "max_rounds": 12} | given
    if options.get("rho") == "grown":
        options["rho"] = Grown()
    result = deal(CHAIN, kinds).solve(**options)
    assert result.rounds >= 1
    assert spy.asked == []


def test_a_rule_that_is_not_known_to_be_steady_ends_every_block(spy: Spy, serially: Solve) -> None:
    """Several inner loops of one outer loop overlap all the same."""
    model = deal(CHAIN)
    options = {"rho": Grown(), "stopping": dm.FixedBudget(4), "eps_pri": 0.0, "max_rounds": 40}
    found = model.solve(sequence=NATURAL, **options)
    assert set(spy.asked) == {4}
    same(found, serially(model, **options))


@pytest.mark.parametrize(
    ("stages", "pays"),
    [
        ([[at] for at in range(6)], True),
        ([[0, 1], [2], [3], [4], [5]], False),
        ([[0], [1], [2], [3], [4]], False),
        ([*([at] for at in range(6)), [0]], False),
        ([[0, 2, 4], [1, 3, 5]], False),
    ],
    ids=["one by one", "neighbours", "one left out", "one twice", "two colours"],
)
def test_what_pays(stages: Any, pays: bool) -> None:
    compiled = deal(nx.path_graph(6)).compile()
    assert Overlap(compiled, Layer(compiled, None), stages).pays == pays


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
@pytest.mark.parametrize("turn", [9, 20, 24, 25, 40])
def test_ctrl_c_in_a_block_leaves_the_answer_of_the_block_before(
    spy: Spy, serially: Solve, turn: int
) -> None:
    model = deal(CHAIN)
    options: dict[str, Any] = OPTIONS | {"eps_pri": NEVER, "eps_dual": NEVER}
    found = model.solve(sequence=NATURAL, solver=Stop(turn), **options)
    complete = sum(spy.given)
    assert complete < turn <= sum(spy.asked), "it came in the last block"
    assert (found.status, found.rounds, found.answer_round) == ("interrupted", complete, complete)
    assert found.detail == f"after {complete} complete rounds"
    known = serially(model, **options | {"max_rounds": complete})
    assert known.answer_round == complete
    assert found.history.objective.tolist() == known.history.objective.tolist()
    assert found.value == known.value
    for variable in model.monolithic().variables():
        np.testing.assert_array_equal(found[variable], known[variable])
    for ends, mu in known.multipliers.items():
        np.testing.assert_array_equal(found.multipliers[ends], mu)
    again = model.solve(sequence=NATURAL, start=found)
    assert again.status == "optimal", "and it can go on from there"
    assert again.verify().ok


@pytest.mark.slow
@pytest.mark.usefixtures("unwatched")
def test_ctrl_c_leaves_an_answer_where_there_are_no_tolerances() -> None:
    options: dict[str, Any] = OPTIONS | {"max_rounds": 1000}
    found = deal(CHAIN).solve(sequence=NATURAL, solver=Stop(900), **options)
    assert found.status == "interrupted"
    assert found.rounds > 0
    assert np.isfinite(found.value)


def test_ctrl_c_in_the_first_block_leaves_nothing() -> None:
    model = deal(CHAIN)
    found = model.solve(sequence=NATURAL, solver=Stop(3), **OPTIONS)
    assert (found.status, found.rounds, found.answer_round) == ("interrupted", 0, 0)
    assert found.detail == "after 0 complete rounds"
    assert np.isnan(found.value)
    assert found.history.empty
    assert all(v.value is None for v in model.monolithic().variables())
    assert model.solve(sequence=NATURAL).status == "optimal"


# --- what a run makes of its rounds ---------------------------------------------------------------


def test_the_answer_of_a_run_that_does_not_converge_is_the_best_of_all_rounds(
    serially: Solve,
) -> None:
    model = deal(CHAIN, "r", m=4)
    options = {"rho": 0.1, "stopping": ONE, "max_rounds": 37}
    found, known = model.solve(sequence=NATURAL, **options), serially(model, **options)
    assert found.status == known.status == "round_limit"
    same(found, known)


def test_the_best_iterate_is_not_lost_when_sweeps_overlap_no_more(serially: Solve) -> None:
    """A run that drifts away is best in its first block; in the second a solver fails once."""
    model = deal(CHAIN)
    options = {"algorithm": dm.DALD(2.5), "rho": 1.0, "stopping": ONE, "max_rounds": 20}
    once = Flaky(BROKEN, lambda _, turns: turns == REACH + 3)
    found = model.solve(sequence=NATURAL, solver=once, **options)
    known = serially(model, **options)
    assert 0 < known.answer_round < REACH
    assert np.isfinite(found.value)
    same(found, known)


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
def test_a_run_that_fails_is_told_so_in_the_end(status: str) -> None:
    make, options = FAILING[status]
    assert make().solve(sequence=NATURAL, rho=1.0, stopping=ONE, **options).status == status


@pytest.mark.parametrize("status", FAILING)
def test_a_run_that_fails_ends_within_a_block_of_the_serial_one(
    serially: Solve, status: str
) -> None:
    """Blocks are looked at when they are done; they double from 8 sweeps on."""
    make, given = FAILING[status]
    model, options = make(), {"rho": 1.0, "stopping": ONE} | given
    found, known = model.solve(sequence=NATURAL, **options), serially(model, **options)
    assert found.status == known.status == status
    assert known.rounds <= found.rounds <= 2 * known.rounds + REACH + 25


@pytest.mark.slow
def test_an_algorithm_that_comes_to_rest_does_so_in_the_same_round(serially: Solve) -> None:
    """BCD of (24): no multipliers, one inner loop by (B1), which ends by the dual residual."""
    model = deal(CHAIN, m=4, seed=3)
    options = {"algorithm": dm.BCD(multipliers=False), "rho": 10.0, "max_rounds": 3000}
    found, known = model.solve(sequence=NATURAL, **options), serially(model, **options)
    assert found.status == known.status == "settled"
    assert (known.history.outer == 1).all()
    assert found.rounds == known.rounds
    assert (found.history.outer == 1).all()


def test_no_warning_is_made_of_what_is_computed_beyond_the_end(spy: Spy) -> None:
    """Blocks go on beyond the round in which a run diverges."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = deal(CHAIN).solve(
            sequence=NATURAL, rho=1.0, stopping=ONE, algorithm=dm.DALD(30.0), max_rounds=2000
        )
    assert result.status == "diverged"
