r"""The fast solvers against the reference, iterate by iterate, over the whole zoo.

In every round of a run both answer the same question, each asked for ``ACCURACY``. The reference
is Clarabel, which stops on the duality gap; it is asked for 1e-13, and a strongly convex problem's
point is off by up to the root of that, 3e-7, times a constant. Hence ``SAME``.
"""

from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers import Answers, Choice, Reference, Turn
from tests.duals import joined
from tests.zoo import GRAPHS, PROBLEMS

ACCURACY = 1e-9
SAME = 2e-6
ROUNDS = 12
"""The penalty is first balanced after ten."""


class Twins:
    """Answers as "auto" does, and compares each answer with the reference solver's."""

    name = "twins"
    batches = False
    is_exact = False

    def __init__(self) -> None:
        self.compared = 0

    def refuses(self, subproblem: Subproblem) -> str:
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> "_Session":
        return _Session(self, subproblems)


class _Session:
    def __init__(self, twins: Twins, subproblems: Sequence[Subproblem]) -> None:
        self.twins, self.subproblems = twins, subproblems
        choice = Choice("auto")
        self.fast = [choice.chain(sub)[0].open([sub]) for sub in subproblems]
        self.slow = [Reference().open([sub]) for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        found: list[Answers] = []
        lengths = [self.subproblems[at].entries.size for at in turn.which]
        stops = np.cumsum(lengths)
        for at, start, stop in zip(turn.which, stops - lengths, stops, strict=True):
            part = slice(start, stop)
            one = Turn(np.zeros(1, int), *(vector[part] for vector in turn[1:4]))
            ours, theirs = (s[at].minimise(one, tolerance) for s in (self.fast, self.slow))
            assert ours.statuses == ["optimal"], ours.messages
            assert theirs.statuses == ["optimal"], theirs.messages
            np.testing.assert_allclose(ours.points, theirs.points, rtol=SAME, atol=SAME)
            self.twins.compared += 1
            found.append(ours)
        return Answers(
            np.concatenate([one.points for one in found]),
            np.concatenate([one.objectives for one in found]),
            ["optimal"] * len(found),
            joined(found),
            {},
        )


@pytest.mark.parametrize("graph", ["star", "odd ring"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_answer_is_the_reference_solvers(name: str, graph: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    twins = Twins()
    result = built.model.solve(
        solver=twins, accuracy=ACCURACY, eps_pri=0, eps_dual=0, max_rounds=ROUNDS
    )
    assert result.rounds == ROUNDS, str(result)
    compiled = built.model.compile()  # of whose servers one may hold rules in common
    assert twins.compared == ROUNDS * (len(compiled) - len(compiled.averages))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_is_the_reference_solvers(name: str) -> None:
    """Errors add up from round to round, and are amplified where an order is not two-block."""
    built = PROBLEMS[name]().on(GRAPHS["chain"]())
    runs = [
        built.model.solve(solver=s, accuracy=ACCURACY, eps_pri=0, eps_dual=0, max_rounds=5)
        for s in ("auto", "reference")
    ]
    ours, theirs = (np.concatenate(list(r.compiled.gather(r.recovered).values())) for r in runs)
    np.testing.assert_allclose(ours, theirs, rtol=5 * SAME, atol=5 * SAME)
    mine, other = (np.concatenate(list(r.multipliers.values())) for r in runs)
    np.testing.assert_allclose(mine, other, rtol=0, atol=5 * SAME * max(1, np.abs(other).max()))


@pytest.mark.slow
def test_every_fast_solver_is_among_those_compared() -> None:
    """What "auto" picks over the zoo: so the tests above speak for each of them."""
    seen: set[str] = set()
    for problem in PROBLEMS.values():
        compiled = problem().on(nx.path_graph(5)).model.compile()
        seen |= {reason.solver for reason in compiled.explain()}
    exact = {"factor", "active_set"}
    assert seen == exact | {"semismooth", "newton", "conic"}
