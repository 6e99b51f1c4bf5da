"""Accelerated runs: bad proposals do no harm, rounds are few, what does not apply is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.acceleration.evaluation import Evaluation, Proposal
from dald_model.coordinate.acceleration.safeguard import PROGRESS, Safeguard
from dald_model.coordinate.status import ClientFailedError, Termination
from dald_model.coordinate.sweeper import SerialSweeper
from tests.zoo import GRAPHS, PROBLEMS


@dataclass
class Wrecker:
    """Proposes random points as far away as ``size`` times the residual; rests when refused."""

    size: float
    rest: int = 0
    learnt = None
    recalled = ()

    def open(self, *given: Any) -> Wrecker:
        return self

    def explain(self) -> str:
        return "wrecks"

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        pass

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        if self.rest:
            self.rest -= 1
            return None
        rng = np.random.default_rng(int(1e6 * evaluation.size(rho)) % 1000)
        change = rng.normal(size=evaluation.after.shape) * evaluation.size(rho)
        return Proposal(evaluation.after + self.size * change, "wrecker")

    def reject(self, name: str) -> None:
        self.rest = 8

    def accept(self, name: str) -> None:
        pass


@pytest.mark.parametrize("size", [1.0, 100.0, 1e12, np.nan])
@pytest.mark.parametrize("problem", ["least_squares", "lasso", "simplex"])
def test_random_proposals_cost_rounds_and_no_answers(problem: str, size: float) -> None:
    built = PROBLEMS[problem]().on(GRAPHS["ring"]())
    result = built.model.solve(acceleration=Wrecker(size), max_rounds=3000)
    assert result.status == "optimal"
    assert result.verify().ok
    taken_back = result.history["proposal"].str.endswith(", taken back")
    labels = [line.get_label() for line in result.plot().axes[0].get_lines()]
    assert ("taken back" in labels) == taken_back.any()
    # Farther than FARTHEST, or no number: not even tried
    assert taken_back.any() == (size <= 100.0)
    assert (result.history["proposal"] == "").any()


class Watcher(dm.Fixed):
    """Notes the residuals of the states that penalties are judged by, in the metric of these."""

    seen: list[float]

    def update(self, state: Any, outer: int) -> np.ndarray:
        weight = np.sqrt(2) * state.rho
        parts = [weight * one for one in (state.primal, *state.dual)]
        self.seen.append(float(np.linalg.norm(parts)))
        return state.rho


def test_penalties_are_not_judged_by_points_that_are_taken_back() -> None:
    """Areas of IEEE 118 stalled: every change of the penalties fell on the same bad point."""
    rule = Watcher(1.0)
    object.__setattr__(rule, "seen", [])
    built = PROBLEMS["least_squares"]().on(GRAPHS["ring"]())
    result = built.model.solve(acceleration=Wrecker(100.0), rho=rule, max_rounds=3000)
    assert result.status == "optimal"
    assert result.history["proposal"].str.endswith(", taken back").any()
    least = np.minimum.accumulate(rule.seen)
    assert (rule.seen[1:] <= least[:-1] / PROGRESS).all()


class Breaker(Wrecker):
    """Proposes prices for which a client has no minimum."""

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal:
        return Proposal(np.where([[True], [False]], 1e5, evaluation.after), "breaker")


def test_a_solver_that_fails_at_a_proposal_says_nothing_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = SerialSweeper.run

    def failing(self, state, *args):
        if np.abs(state.mu).max() > 1e4:
            raise ClientFailedError(Termination(dm.Status.INFEASIBLE, 0, "cold start"))
        return honest(self, state, *args)

    monkeypatch.setattr(SerialSweeper, "run", failing)
    built = PROBLEMS["least_squares"]().on(GRAPHS["ring"]())
    result = built.model.solve(acceleration=Breaker(1.0), max_rounds=2000)
    assert result.status == "optimal"
    assert (result.history["proposal"] == "breaker, taken back").any()
    assert len(result.history) == result.rounds


def chain(count: int, m: int, graph: nx.Graph | None) -> dm.Model:
    rng = np.random.default_rng(3)
    x, model = cp.Variable(m), dm.Model("fit")
    for i in range(count):
        A = rng.normal(size=(3 * m, m)) * 10.0 ** rng.uniform(-1, 1)
        model.client(i, cp.sum_squares(A @ x - rng.normal(size=3 * m)))
    if graph is not None:
        model.topology(graph)
    return model


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("star", None),
        ("path of 100", nx.path_graph(100)),
        ("ring of 50", nx.cycle_graph(50)),
        ("tree", nx.full_rary_tree(2, 63)),
        ("grid", nx.convert_node_labels_to_integers(nx.grid_2d_graph(7, 7))),
    ],
)
def test_heterogeneous_least_squares_take_at_most_20_rounds_on_any_graph(
    name: str, graph: nx.Graph | None
) -> None:
    # The bound is that of issue 12; plain iterations take hundreds on the path
    result = chain(50 if graph is None else len(graph), 5, graph).solve()
    assert result.status == "optimal"
    assert result.rounds <= 20
    assert result.verify().ok


def test_anderson_ends_on_a_linear_map_after_as_many_rounds_as_it_has_dimensions() -> None:
    # Two clients with three shared entries: of (mu, b) six numbers, GMRES's bound plus the first
    x, model = cp.Variable(3), dm.Model("two")
    rng = np.random.default_rng(8)
    for i in range(2):
        model.client(i, cp.sum_squares(rng.normal(size=(6, 3)) @ x - rng.normal(size=6)))
    model.topology(nx.path_graph(2))
    result = model.solve(acceleration=dm.Anderson(), rho=1.0)
    assert result.status == "optimal"
    assert result.rounds <= 8


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sequence": dm.Sequence.random(1)}, "is another order from round to round"),
        (
            {"sequence": dm.Sequence.natural() + dm.Sequence.natural()},
            "client 0 is solved several times a round",
        ),
        ({"stopping": dm.GrowingBudget()}, "lets an outer loop have several rounds"),
        ({"solver": dm.solvers.GradientSteps(1e-3, 5)}, "clients take local steps in place of"),
        ({"algorithm": dm.DALD(dual_step=0.5)}, "the algorithm is not dm.DALD with a dual step"),
    ],
)
def test_what_cannot_be_accelerated_is_refused_if_asked_for(options, why: str) -> None:
    model = chain(3, 2, nx.path_graph(3))
    with pytest.raises(dm.OptionError, match=why):
        model.solve(acceleration=dm.Anderson(), **options)
    assert set(model.solve(max_rounds=5, **options).history["proposal"]) == {""}


def test_a_client_too_large_for_the_secant_goes_to_anderson() -> None:
    model = chain(3, 40, nx.path_graph(3))
    with pytest.raises(dm.OptionError, match="clients of up to 32 shared entries, and 'fit' has"):
        model.solve(acceleration=dm.Secant())
    names = set(model.solve().history["proposal"].str.removesuffix(", taken back"))
    assert names == {"", "anderson"}


def test_none_is_plain() -> None:
    history = chain(4, 2, nx.path_graph(4)).solve(acceleration=None).history
    assert set(history["proposal"]) == {""}


def test_explain_says_what_is_seen_and_sent() -> None:
    compiled = chain(3, 2, nx.path_graph(3)).compile()
    said = " ".join(str(compiled.explain()).split())
    assert "adds nothing to the messages; for absent clients the models predict" in said
    # Prices to both ends of 2 edges of 2 entries, and 3 objectives
    assert "at most 88 bytes per round more than without" in said
    alone = " ".join(str(compiled.explain(acceleration=dm.Anderson())).split())
    assert "at most 480 bytes per round more than without" in alone  # 20 sums of 3 clients
    assert "acceleration: none, as it is None" in str(compiled.explain(acceleration=None))
    steps = str(compiled.explain(solver=dm.solvers.GradientSteps(1e-3, 5)))
    assert "acceleration: none, as clients take local steps" in " ".join(steps.split())
    jacobi = str(compiled.explain(sequence=dm.Sequence.jacobi()))
    assert "acceleration: none, as" in jacobi


def test_penalties_are_judged_by_the_prices_of_the_point_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where an excursion is farther off.

    Prices are mu and 2 rho^2 times what the other end's value moved by: at the tail
    lambda = mu_before + 2 rho^2 (own - received) and mu = mu_before + 2 rho^2 (own - other).
    """
    seen: list[Evaluation] = []
    told: list[tuple[np.ndarray, np.ndarray]] = []

    class Watching(Wrecker):
        def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
            seen.append(evaluation)

    original = Safeguard.nearest

    def nearest(self: Safeguard, state: Any) -> Any:
        found = original(self, state)
        if found is not state:
            weight = 2 * found.rho**2
            tail = found.mu + weight * (found.sides[1] - found.received[0])
            head = found.mu - weight * (found.sides[0] - found.received[1])
            told.append((found.sides, np.array([tail, head])))
        return found

    monkeypatch.setattr(Safeguard, "nearest", nearest)
    built = PROBLEMS["lasso"]().on(GRAPHS["ring"]())
    assert built.model.solve(acceleration=Watching(100.0), max_rounds=3000).status == "optimal"
    assert told
    for sides, prices in told:
        kept = [e for e in seen if np.array_equal(e.sides, sides)]
        assert any(np.allclose(e.estimates, prices, rtol=1e-12, atol=1e-12) for e in kept)
