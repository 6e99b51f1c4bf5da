"""Safety: the spectrum of one sweep an update, where it diverges, and the defaults."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS, Array

ONE = dm.FixedBudget(1)
NATURAL = dm.Sequence.natural()
COLOUR = dm.Sequence("by colour")


# --- the spectrum ---------------------------------------------------------------------------------


def _sweep(curvatures: Array, edges: list[tuple[int, int]], step: float, w: float) -> Array:
    r"""The linear map of one sweep in natural order and one update: (x, mu) -> (x, mu).

    Scalar clients :math:`h_i x^2 / 2`; client after client, as the text says it: whoever is solved
    takes the newest of the others.
    """
    n, q = len(curvatures), len(edges)
    state = np.eye(n + q)
    for i in range(n):
        bend, row = curvatures[i], np.zeros(n + q)
        for at, (tail, head) in enumerate(edges):
            if i in (tail, head):
                other, sign = (head, 1.0) if i == tail else (tail, -1.0)
                bend += w
                row += w * state[other] - sign * state[n + at]
        state[i] = row / bend
    for at, (tail, head) in enumerate(edges):
        state[n + at] += step * w * (state[tail] - state[head])
    return state


def _radius(curvatures: Array, edges: list[tuple[int, int]], step: float, w: float) -> float:
    """Less the ones: multipliers that go round a cycle have no effect and never change."""
    n = len(curvatures)
    values = np.linalg.eigvals(_sweep(curvatures, edges, step, w))
    apart = np.sort(np.abs(values - 1))
    cycles = len(edges) - n + 1
    assert (apart[:cycles] < 1e-9).all()
    return float(np.abs(values[np.argsort(np.abs(values - 1))[cycles:]]).max())


def _ring(n: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % n) for i in range(n)]


LEAST = {
    "a ring of 4": (_ring(4), 1.51),
    "a triangle": (_ring(3), 1.56),
    "a ring of 5": (_ring(5), 1.28),
    "a ring of 7": (_ring(7), 1.19),
    "a ring of 15": (_ring(15), 1.08),
}
"""The least diverging dual steps on a grid of 0.01, as the docstring of safety has them."""


@pytest.mark.parametrize("name", LEAST)
def test_the_least_diverging_steps_of_the_docstring(name: str) -> None:
    edges, least = LEAST[name]
    n = 1 + max(map(max, edges))
    radii = {
        step: max(_radius(np.full(n, h), edges, step, 1.0) for h in (1e-4, 0.01, 0.1, 1.0))
        for step in (0.1, 0.5, 1.0, least - 0.01, least)
    }
    assert max(radii[0.1], radii[0.5], radii[1.0]) < 1
    assert radii[least - 0.01] < 1 < radii[least]


# --- diverging instances --------------------------------------------------------------------------

WARNING = (
    "the dual step {step:g} with FixedBudget(v_max=1) on Sequence('{order}') may diverge: "
    "a step above 1 is covered by theory only where a sweep is two-block ADMM, and this "
    "network has {levels} levels and a cycle; take dual_step=1, the default stopping, or an order "
    "of two colours if the graph has one"
)


def ring(n: int) -> dm.Model:
    """Clients (x - i)^2 / 100, so that the curvature is 0.02 where 2 rho^2 is 2."""
    x = [cp.Variable(name=f"x{i}") for i in range(n)]
    model = dm.Model(f"ring of {n}")
    for i in range(n):
        model.client(i, 1e-2 * cp.square(x[i] - i))
    model.consensus(*[x[i] == x[(i + 1) % n] for i in range(n)])
    return model


def solve(n: int, step: float, **options: Any) -> dm.Result:
    given = {"rho": 1.0, "stopping": ONE, "max_rounds": 2000} | options
    return ring(n).solve(algorithm=dm.DALD(step), **given)


DIVERGING = {
    "a ring of 7": (7, 1.3, NATURAL, 1.111, "diverged"),
    "a ring of 5": (5, 1.5, NATURAL, 1.222, "diverged"),
    "an even ring in natural order": (4, 1.6, NATURAL, 1.054, "diverged"),
    "a triangle": (3, 1.6, COLOUR, 1.036, "stalled"),
}
"""Clients, step, order, spectral radius and how the run ends: 1.036 takes more than its patience to
grow by 1e8."""


@pytest.mark.parametrize("name", DIVERGING)
def test_long_dual_steps_diverge_as_the_spectrum_says_and_are_warned_of(name: str) -> None:
    n, step, order, radius, status = DIVERGING[name]
    assert _radius(np.full(n, 0.02), _ring(n), step, 2.0) == pytest.approx(radius, abs=1e-3)
    with pytest.warns(dm.SequenceWarning) as caught:
        result = solve(n, step, sequence=order)
    label = "natural" if order is NATURAL else "by colour"
    text = WARNING.format(step=step, order=label, levels=n)
    assert [str(one.message) for one in caught] == [text]
    assert result.status == status
    late = result.history.primal.to_numpy()[-60:]
    grown = (late[30:].max() / late[:30].max()) ** (1 / 30)
    assert grown == pytest.approx(radius, abs=0.02)


def test_the_warning_points_to_the_line_that_solves() -> None:
    with pytest.warns(dm.SequenceWarning) as caught:
        ring(3).solve(algorithm=dm.DALD(1.6), stopping=ONE, rho=1.0, max_rounds=1)
    assert caught[0].filename == __file__


SAFE: dict[str, tuple[int, float, dict[str, Any]]] = {
    "the step 1": (7, 1.0, {"sequence": NATURAL}),
    "a step below 1": (7, 0.9, {"sequence": NATURAL}),
    "two colours": (4, 1.6, {}),
    "two colours by name": (4, 1.6, {"sequence": dm.Sequence.levels([[0, 2], [1, 3]])}),
    "B2": (7, 1.3, {"sequence": NATURAL, "stopping": dm.ShrinkingTolerance()}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE)
def test_safe_ones_converge_and_are_not_warned_of(name: str) -> None:
    n, step, options = SAFE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(n, step, **options)
    assert result.status == "optimal"
    for variable in result.compiled.model.monolithic().variables():
        assert variable.value == pytest.approx((n - 1) / 2, abs=1e-3)
    if options.get("stopping", ONE) is ONE and options.get("sequence") is NATURAL:
        assert _radius(np.full(n, 0.02), _ring(n), step, 2.0) < 1


@pytest.mark.slow
@pytest.mark.parametrize(("n", "step"), [(7, 1.3), (3, 1.6)])
def test_the_default_converges_or_warns_where_the_dual_step_is_long(n: int, step: float) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(n, step, sequence=NATURAL, stopping=None)
    assert caught or result.status == "optimal"


def test_a_tree_is_two_block_in_every_order() -> None:
    """So that a step of 1.6 is covered; a model with a server is, too."""
    for graph in ("chain", "tree", "star"):
        model = PROBLEMS["ridge"]().on(GRAPHS[graph]()).model
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = model.solve(sequence=NATURAL, algorithm=dm.DALD(1.6), stopping=ONE)
        assert result.status == "optimal"


# --- the default stopping condition ---------------------------------------------------------------

FULL: dict[str, dm.Sequence] = {
    "default": COLOUR,
    "natural": NATURAL,
    "from the root": dm.Sequence.from_root(2),
    "jacobi": dm.Sequence.jacobi(),
    "repeat": dm.Sequence.repeat([0, 1], times=3),
    "twice": NATURAL + COLOUR,
    "in turn, all full": dm.Sequence.alternate(NATURAL, COLOUR),
    "partial and full": dm.Sequence.random(2) + NATURAL,
}
SOME: dict[str, tuple[dm.Sequence, int]] = {
    "one": (dm.Sequence.random(1), 7),
    "two": (dm.Sequence.random(2), 4),
    "four": (dm.Sequence.greedy(4), 3),
    "all of them": (dm.Sequence.random(6), 2),
    "lists": (dm.Sequence.partial([0, 1], [2, 3, 4]), 4),
    "packs": (dm.Sequence.essentially_cyclic(3), 3),
    "two halves": (dm.Sequence.random(2) + dm.Sequence.random(1), 3),
    "in turn": (dm.Sequence.alternate(NATURAL, dm.Sequence.random(2)), 4),
}
"""Budgets for six clients: one loop more than gives everybody a turn on average."""


@pytest.mark.parametrize("name", FULL)
def test_full_cycles_end_inner_loops_by_the_shrinking_tolerance(name: str) -> None:
    chosen = dm.ShrinkingTolerance(start=1.0, factor=0.97)
    given = {"sequence": FULL[name], "max_rounds": 25, "eps_pri": 0.0, "rho": 1.0}
    default = ring(6).solve(**given)
    named = ring(6).solve(**given, stopping=chosen)
    assert default.history.outer.tolist() == named.history.outer.tolist()
    assert default.history.objective.tolist() == named.history.objective.tolist()


@pytest.mark.parametrize("name", SOME)
def test_partial_cycles_have_a_budget(name: str) -> None:
    sequence, budget = SOME[name]
    history = ring(6).solve(sequence=sequence, max_rounds=30, eps_pri=0.0, eps_dual=0.0).history
    assert history.inner.max() == budget
    assert history.groupby("outer").inner.max().iloc[:-1].eq(budget).all()


def test_the_condition_follows_a_sequence_that_changes() -> None:
    change = {10: dm.Change(sequence=dm.Sequence.random(2))}
    result = ring(6).solve(sequence=NATURAL, online=change, max_rounds=40, eps_pri=0.0)
    assert (result.history.inner.loc[20:] <= 4).all()


# Each kink on two graphs and each graph with two kinks; more of them are in ``test_zoo.py``.
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        (name, ("chain", "star", "ring", "grid", "tree")[(i + j) % 5])
        for i, name in enumerate(["lasso", "quantile", "svm", "group_lasso", "simplex"])
        for j in (0, 2)
    ],
)
def test_kinks_on_bipartite_graphs_are_solved_by_default(name: str, graph: str) -> None:
    """As test_zoo has it: objectives to 1e-5, as relative residuals of 1e-6 mean."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    assert nx.is_bipartite(built.model.compile().graph)
    result = built.model.solve(max_rounds=2000)
    assert result.status == "optimal"
    assert result.value == pytest.approx(built.value, rel=1e-5, abs=1e-5)
