r"""Sequences of every kind solve the zoo, against its known answers, and close their loops.

In the zoo a run that ends after R rounds has gained a factor c a round with :math:`c^R` about
1e-6, and is then up to :math:`1 / (1 - c) = R / \ln 10^6` steps of 1e-6 from the answer: see
``test_zoo.py``, which puts R = 1,000 for the limit.
"""

from typing import Any

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.coordinate.right import assert_right, steps
from tests.schedule.numbers import on
from tests.schedule.turns import KINDS, kinds
from tests.zoo import GRAPHS, PROBLEMS

S = dm.Sequence

# --- closing loops --------------------------------------------------------------------------------

STOPPING = {
    "default": None,
    "B1": dm.FixedTolerance(),
    "B2": dm.ShrinkingTolerance(start=0.5, factor=0.6),
    "B3": dm.GrowingBudget(start=2, growth=1.3),
    "B4": dm.FixedBudget(4),
}


# Every kind with two conditions, and every condition with four kinds.
@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (kind, list(STOPPING)[(i + j) % len(STOPPING)])
        for i, kind in enumerate(KINDS)
        for j in (0, 2)
    ],
)
def test_whatever_ends_an_outer_loop_its_last_loop_is_full(kind: str, condition: str) -> None:
    """Section V-A; also where it is the residual that ends it, and where the run is over."""
    graph = nx.cycle_graph(5)
    model, _ = on(graph)
    options: dict[str, Any] = {"stopping": STOPPING[condition], "max_rounds": 4000}
    result = model.solve(sequence=kinds(graph)[kind], **options)
    assert result.status == "optimal", str(result)
    assert result.value == pytest.approx(10.0, rel=1e-5)
    last = result.history.groupby("outer").who.last()
    assert all(set(names) == set(graph) for names in last)
    if not kind.startswith(("repeat", "sum")):
        assert all(len(names) >= 5 for names in last)


# --- every kind solves the zoo and verifies ------------------------------------------------------

ZOO = list(PROBLEMS)
CASES = [
    (others[(i + j) % len(others)], graph, kind)
    for j, graph in enumerate(GRAPHS)
    for others in [ZOO[(j + 1) % 2 :: 2]]
    for i, kind in enumerate(KINDS)
    if (i + j) % 2 == 0
]
"""Every kind on every second graph, with problems that ``test_zoo.py`` does not have there."""
MAX_ROUNDS = 5000
"""Absolute losses and linear objectives take up to 2,000 rounds where few are solved in each."""


@pytest.mark.parametrize(("name", "graph", "kind"), CASES)
def test_every_sequence_kind_solves_the_zoo_and_verifies(name: str, graph: str, kind: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    sequence = kinds(built.model.compile())[kind]
    result = built.model.solve(sequence=sequence, max_rounds=MAX_ROUNDS)
    assert_right(built, result)
    forces = {client: built.force(client, result.multipliers) for client in built.variables}
    scale = max(1.0, *(np.abs(force).max() for force in forces.values()))
    for client, force in forces.items():
        assert built.distance[client](force) <= 1e-6 * steps(result) * scale, client


@pytest.mark.slow
@pytest.mark.parametrize("root", range(5))
def test_a_chain_from_any_root(root: int) -> None:
    """Absolute losses; one sweep a multiplier update, with a penalty that moves, can stall here."""
    built = PROBLEMS["quantile"]().on(GRAPHS["chain"]())
    result = built.model.solve(sequence=S.from_root(root), max_rounds=MAX_ROUNDS)
    assert result.status == "optimal", str(result)
    assert result.verify().ok
