"""Who is solved in each round of a run of four numbers, and one sequence of every kind."""

from collections.abc import Hashable, Iterable
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np

import dald_model as dm
from tests.schedule.numbers import Every, on

S = dm.Sequence

Who = list[tuple[Hashable, ...]]
UNKNOWN: Any = SimpleNamespace(primal=np.inf, dual=np.inf)


CHAIN = nx.path_graph("abcd")
"""By colour, which is the default order: a and c, then b and d."""
FULL = ("a", "c", "b", "d")
NATURAL = ("a", "b", "c", "d")


def who(sequence: dm.Sequence, v: int, rounds: int, graph: nx.Graph = CHAIN, **options: Any) -> Who:
    """Who is solved in each of the first rounds, where ``v`` of them are an outer loop."""
    model, _ = on(graph)
    given: dict[str, Any] = {"rho": 1.0, "stopping": Every(v), "eps_pri": 0.0, "eps_dual": 0.0}
    result = model.solve(sequence=sequence, max_rounds=rounds, **given | options)
    assert result.rounds == rounds
    assert result.history.solved.tolist() == [len(names) for names in result.history.who]
    return result.history.who.tolist()


def at(round_: int, names: Iterable[Hashable], **changes: Any) -> dm.Moment:
    """Before an inner loop that closes nothing, the whole run being one outer loop."""
    stale: dict[Hashable, float] = changes.pop("stale", {})
    given = tuple(names)
    here = dm.Moment(round_, 1, round_, given, (), True, False, UNKNOWN, lambda: stale)
    return dm.Moment(**{**here.__dict__, **changes}) if changes else here


def drawn(sequence: dm.Sequence, graph: nx.Graph, rounds: Iterable[int]) -> list[set[Hashable]]:
    """Whom a sequence solves in some rounds, none of which closes an outer loop."""
    bound = sequence.bind(graph)
    loops = (bound.stages(at(r, graph)) for r in rounds)
    return [{name for stage in stages for name in stage} for stages in loops]


def two_by_lot(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
    places = generator.choice(len(moment.live), size=2, replace=False)
    return [moment.live[i] for i in places]


def kinds(names: Iterable[Hashable]) -> dict[str, dm.Sequence]:
    """One of every kind on some clients."""
    n = list(names)
    return {
        "partial": S.partial(n[::2], n[1::2]),
        "random": S.random(2, seed=1),
        "essentially cyclic": S.essentially_cyclic(2, seed=1),
        "greedy": S.greedy(2),
        "custom": S.custom(two_by_lot, seed=3),
        "repeat": S.repeat(n[:2], times=3),
        "sum": S.natural() + S.greedy(1),
        "alternate": S.alternate(S.natural(), S.random(2), S.partial(n[:1])),
        "along": S.essentially_cyclic(2).along(S.from_root(n[0])),
        "nested": S.alternate(S.repeat(n[:1]), S.random(1) + S.greedy(1)).along(S.natural()),
    }


KINDS = list(kinds("ab"))


THREE = nx.path_graph("abc")
