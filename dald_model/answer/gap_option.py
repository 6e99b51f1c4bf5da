"""The option ``gap`` of a solve: the certificate of an iterate as the end of a run."""

from __future__ import annotations

from collections.abc import Callable

from dald_model.answer.gap import certified
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State


def gap_test(compiled: Decomposition, gap: float) -> Callable[[State], str]:
    """A function that says what is certified of an iterate; empty where it is not within ``gap``.

    The gap, the reported value and the violation all have to be.
    """

    def test(state: State) -> str:
        mu = state.estimate
        points = {name: state.points[part] for name, part in compiled.columns.items()}
        recovered = compiled.recover(points, {}, mu)
        found = certified(compiled, state.units, recovered, mu, (gap, gap))
        return f"gap {found.gap:.1e}, violation {found.violation:.1e}" if found.ok else ""

    return test
