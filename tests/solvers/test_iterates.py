r"""Runs by the fast solvers against runs by the reference, over the whole zoo.

In every round both answer the same question, each asked for ``ACCURACY``. The reference
is Clarabel, which stops on the duality gap; it is asked for 1e-13, and a strongly convex problem's
point is off by up to the root of that, 3e-7, times a constant. Hence ``SAME``.
"""

import networkx as nx
import numpy as np
import pytest

from tests.zoo import GRAPHS, PROBLEMS

ACCURACY = 1e-9
SAME = 2e-6


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
    """What "auto" picks over the zoo: so the test above speaks for each of them."""
    seen: set[str] = set()
    for problem in PROBLEMS.values():
        compiled = problem().on(nx.path_graph(5)).model.compile()
        seen |= {reason.solver for reason in compiled.explain()}
    exact = {"factor", "active_set"}
    assert seen == exact | {"semismooth", "newton", "nuclear", "conic"}
