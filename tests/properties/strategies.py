"""Strategies: consensus problems of a few clients, to be declared in several ways."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from hypothesis import strategies as st

import dald_model as dm

Edge = tuple[int, int]


@dataclass(frozen=True)
class Declaration:
    """Least squares of each client, with what ``kind`` adds, and who agrees with whom."""

    kind: str
    size: int
    seed: int
    clients: int
    edges: tuple[Edge, ...]

    def declare(
        self,
        *,
        order: Sequence[int] | None = None,
        name: Callable[[int], Hashable] = lambda i: i,
        turned: Collection[Edge] = (),
        edge_scale: float = 1.0,
        cost_scale: float = 1.0,
    ) -> tuple[dm.Model, list[cp.Variable]]:
        """Declare the problem; the variables come in the order of the clients' numbers.

        ``order`` is the order of declaration, ``turned`` names the edges whose equality is written
        the other way round; the scales multiply the equalities and the objectives.
        """
        x = [cp.Variable(self.size, name=f"x{i}") for i in range(self.clients)]
        model = dm.Model()
        for i in range(self.clients) if order is None else order:
            generator = np.random.default_rng([self.seed, i])
            A = np.vstack([generator.normal(size=(2, self.size)), np.eye(self.size)])
            cost = cp.sum_squares(A @ x[i] - generator.normal(size=self.size + 2))
            if self.kind == "lasso":
                cost += 0.5 * cp.norm1(x[i])
            rules = [x[i] >= -0.1, cp.sum(x[i]) <= 1] if self.kind == "bounded" else []
            model.client(name(i), cost_scale * cost, rules)
        for a, b in self.edges:
            left, right = (b, a) if (a, b) in turned else (a, b)
            model.consensus(edge_scale * x[left] == edge_scale * x[right])
        return model, x


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    """Two to five clients on a connected graph: a tree, and some of the other pairs."""
    clients = draw(st.integers(2, 5))
    tree = {(draw(st.integers(0, i - 1)), i) for i in range(1, clients)}
    pairs = [(a, b) for b in range(clients) for a in range(b)]
    more = draw(st.sets(st.sampled_from(pairs), max_size=2))
    return Declaration(
        kind=draw(st.sampled_from(["least squares", "lasso", "bounded"])),
        size=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 999)),
        clients=clients,
        edges=tuple(sorted(tree | more)),
    )
