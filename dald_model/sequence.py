"""Sequence: which clients an inner loop solves, and in what order (Section V-A)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from dald_model import network as networks
from dald_model.errors import SequenceError
from dald_model.network import HierarchicalNetwork, Levels

Staleness = Mapping[Hashable, float]
"""Client -> how far its neighbours have moved since it was last solved (max norm)."""

Choice = Callable[[HierarchicalNetwork, np.random.Generator, Staleness], Levels]
"""Which clients one inner loop solves, as stages of clients that are solved side by side."""


@dataclass(frozen=True)
class Sequence:
    """How the clients are gone through: an order, and a choice of who takes part.

    Full-cycle coordination (the default) solves every client in each inner loop. Partial-cycle
    coordination (``random``, ``greedy``) solves a few; selective-repetitive coordination
    (``repeat``) solves some several times. With either the last inner loop of an outer loop is a
    full cycle, as Section V-A recommends, so that multipliers are updated consistently.

    Use the constructors below rather than this one.

    Attributes
    ----------
    label : str
        What tables call the sequence.
    order : callable or None
        Consensus graph -> hierarchical network; ``None`` is the default order
        (:func:`dald_model.network.safest`).
    choice : callable or None
        Who takes part in an inner loop; ``None`` is everybody.
    per_loop : int or None
        The number of clients that an inner loop solves; ``None`` where it solves them all.
    seed : int
        Of the generator that ``choice`` draws from.
    """

    label: str
    order: Callable[[nx.Graph], HierarchicalNetwork] | None = None
    choice: Choice | None = None
    per_loop: int | None = None
    seed: int = 0

    @classmethod
    def natural(cls) -> Sequence:
        """One client after the other in order of declaration, servers last."""
        return cls("natural", networks.natural)

    @classmethod
    def levels(cls, levels: Iterable[Iterable[Hashable]]) -> Sequence:
        """Level after level, the clients of a level side by side.

        Raises
        ------
        SequenceError
            When solving: if a name is unknown, visited twice or never, or neighbours stand on
            one level.
        """
        try:
            fixed = [list(level) for level in levels]
        except TypeError as error:
            raise SequenceError(
                f"Sequence.levels: given {levels!r}, expected a list of levels, each a list of "
                "clients, such as [['a', 'c'], ['b']]"
            ) from error
        return cls("levels", lambda graph: networks.from_levels(graph, fixed))

    @classmethod
    def from_root(cls, root: Hashable, depth_first: bool = False) -> Sequence:
        """Branch from ``root``, which is solved last; the farther client is solved first.

        Definition 2. Distances are counted breadth-first, which gives few levels, or along a
        depth-first search, which gives many; see :func:`dald_model.network.from_root`.

        Raises
        ------
        SequenceError
            When solving: if the root is no client.
        """
        if not isinstance(depth_first, bool):
            raise SequenceError(
                f"Sequence.from_root: given depth_first={depth_first!r}, expected True or False; "
                "a sequence has one root"
            )
        return cls(f"root {root}", lambda graph: networks.from_root(graph, root, depth_first))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Sequence:
        """The order of the paper's hierarchical matrix (Definition 3).

        Rows follow the order of declaration, servers last: entry (i, j) is 1 if i is solved
        before its neighbour j, the diagonal is the number of ones in the row.

        Raises
        ------
        SequenceError
            When solving: if the matrix is no hierarchical matrix of the consensus graph.
        """
        try:
            fixed = np.array(matrix, dtype=float)
        except (TypeError, ValueError) as error:
            raise SequenceError(
                f"Sequence.from_matrix: given {matrix!r}, expected a square array of numbers with "
                "a row and a column for each client (a sparse one by its toarray())"
            ) from error
        return cls("matrix", lambda graph: networks.from_matrix(graph, fixed))

    @classmethod
    def random(cls, k: int, seed: int = 0) -> Sequence:
        """Partial cycle: ``k`` clients drawn with equal probability for each inner loop.

        A ``k`` above the number of clients means all of them.
        """
        _check_count(k, "random")
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise SequenceError(f"Sequence.random: given seed={seed!r}, expected an int from 0")

        def draw(
            network: HierarchicalNetwork, generator: np.random.Generator, _: Staleness
        ) -> Levels:
            names = list(network)
            picked = generator.choice(len(names), size=min(k, len(names)), replace=False)
            return _only(network, {names[i] for i in picked})

        return cls(f"random {k}", choice=draw, per_loop=k, seed=seed)

    @classmethod
    def greedy(cls, k: int) -> Sequence:
        """Partial cycle: the ``k`` clients whose neighbours have moved most since their turn.

        A ``k`` above the number of clients means all of them.
        """
        _check_count(k, "greedy")

        def pick(
            network: HierarchicalNetwork, _: np.random.Generator, staleness: Staleness
        ) -> Levels:
            ranked = sorted(network, key=lambda name: -staleness[name])
            return _only(network, set(ranked[:k]))

        return cls(f"greedy {k}", choice=pick, per_loop=k)

    @classmethod
    def repeat(cls, clients: Iterable[Hashable], times: int = 2) -> Sequence:
        """Selective-repetitive: ``clients`` are gone through ``times`` times, then everybody.

        Raises
        ------
        SequenceError
            When solving: if a name is unknown.
        """
        _check_count(times, "repeat")
        if not isinstance(clients, Iterable):
            raise SequenceError(
                f"Sequence.repeat: given {clients!r}, expected a list of clients such as ['a']"
            )
        chosen = list(clients)

        def revisit(network: HierarchicalNetwork, _: np.random.Generator, __: Staleness) -> Levels:
            unknown = [name for name in chosen if name not in network]
            if unknown:
                raise SequenceError(
                    f"sequence: {unknown[0]!r} in repeat is no client; expected names among "
                    f"{', '.join(map(repr, network))}"
                )
            return (times - 1) * _only(network, set(chosen)) + network.levels

        return cls("repeat", choice=revisit)

    def network(self, graph: nx.Graph, servers: tuple[Hashable, ...] = ()) -> HierarchicalNetwork:
        """The hierarchical network that this sequence makes of a consensus graph."""
        return networks.safest(graph, servers) if self.order is None else self.order(graph)

    def stages(
        self,
        network: HierarchicalNetwork,
        generator: np.random.Generator,
        staleness: Staleness,
        full: bool,
    ) -> Levels:
        """The stages of one inner loop; ``full`` asks for a cycle that leaves nobody out."""
        if self.choice is None or (full and self.is_partial):
            return network.levels
        return self.choice(network, generator, staleness)

    @property
    def is_partial(self) -> bool:
        """Whether an inner loop may leave clients out."""
        return self.per_loop is not None


def _only(network: HierarchicalNetwork, chosen: set[Hashable]) -> Levels:
    stages = [[name for name in level if name in chosen] for level in network.levels]
    return [stage for stage in stages if stage]


def _check_count(count: int, name: str) -> None:
    if not isinstance(count, int | np.integer) or count < 1:
        raise SequenceError(f"Sequence.{name}: given {count!r}, expected a whole number from 1")
