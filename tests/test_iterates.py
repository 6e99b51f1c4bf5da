r"""The fast solvers against the reference, iterate by iterate.

Both run the same rounds, each client minimised to ``ACCURACY``. The reference solves by Clarabel,
which stops on the duality gap: at the gap 1e-12 that it is asked for, a point is off by up to its
root, 1e-6, where the objective is flat, and the errors of successive rounds add up. Hence ``SAME``.
"""

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS

ACCURACY = 1e-10
SAME = 1e-5
ROUNDS = (1, 2, 5, 12)


def points(built, solver: str, rounds: int) -> tuple[np.ndarray, np.ndarray, dm.Result]:
    """The clients' variables and the multipliers after so many rounds."""
    result = built.model.solve(
        solver=solver, accuracy=ACCURACY, eps_pri=0, eps_dual=0, max_rounds=rounds
    )
    assert result.status == "round_limit", str(result)
    assert result.rounds == rounds
    at_clients = result.compiled.gather(result.recovered)
    multipliers = np.concatenate(list(result.multipliers.values()))
    return np.concatenate(list(at_clients.values())), multipliers, result


@pytest.mark.parametrize("graph", ["star", "odd ring"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_round_is_the_reference_solvers(name: str, graph: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    for rounds in ROUNDS:
        ours, multipliers, result = points(built, "auto", rounds)
        theirs, their_multipliers, _ = points(built, "reference", rounds)
        assert not result.fallbacks
        np.testing.assert_allclose(ours, theirs, rtol=SAME, atol=SAME)
        scale = np.maximum(1, np.abs(their_multipliers).max())
        np.testing.assert_allclose(multipliers, their_multipliers, rtol=0, atol=SAME * scale)


def test_every_fast_solver_is_among_those_compared() -> None:
    """What "auto" picks over the zoo: so the test above speaks for each of them."""
    seen: set[str] = set()
    for problem in PROBLEMS.values():
        compiled = problem().on(nx.path_graph(5)).model.compile()
        seen |= {reason.solver for reason in compiled.explain()}
    assert seen == {"factor", "active_set", "shrink", "proximal", "newton", "conic"}
