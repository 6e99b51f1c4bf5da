"""Values that the user's Parameters had at the time of a solve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.values import flat


@dataclass(frozen=True)
class Given:
    """Parameter id -> its value, flat."""

    values: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def now(cls, compiled: Decomposition) -> Given:
        """The values that the Parameters of a model have now."""
        return cls({p.id: flat(p.value).copy() for p in _parameters(compiled)})

    def changed(self, compiled: Decomposition) -> list[str]:
        """The names of the Parameters that have another value by now."""
        return [
            p.name()
            for p in _parameters(compiled)
            if p.id in self.values and not np.array_equal(self.values[p.id], flat(p.value))
        ]


def _parameters(compiled: Decomposition) -> Iterator[cp.Parameter]:
    """The Parameters of clients and consensus equalities, each once."""
    found: dict[int, cp.Parameter] = {}
    for client in compiled.model.clients.values():
        found |= {p.id: p for p in client.parameters}
    for agreement in compiled.model.agreements:
        found |= {p.id: p for p in agreement.left.parameters() + agreement.right.parameters()}
    yield from found.values()
