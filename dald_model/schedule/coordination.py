"""A coordination sequence: an order, a strategy, and the convergence results for the two."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import networkx as nx

from dald_model.errors import SequenceError
from dald_model.schedule import network as networks
from dald_model.schedule import participation as strategies
from dald_model.schedule.network import HierarchicalNetwork, Levels
from dald_model.schedule.participation import Everybody, Strategy
from dald_model.schedule.round_state import Moment

Names = tuple[Hashable, ...]

FULL = Everybody()


class Bound(NamedTuple):
    """A sequence applied to a graph: its hierarchical network and its stages."""

    network: HierarchicalNetwork
    stages: Callable[[Moment], Levels]


@dataclass(frozen=True, repr=False)
class Coordination:
    """An order and a participation strategy, or several of these.

    :class:`dald_model.schedule.sequence.Sequence` makes them, and says what the attributes are.
    """

    label: str
    order: Callable[[nx.Graph], HierarchicalNetwork] | None = None
    strategy: Strategy = FULL
    parts: tuple[Self, ...] = ()
    in_turn: bool = False

    @classmethod
    def alternate(cls, *sequences: Self) -> Self:
        """Sequences in turn, one an inner loop; each outer loop begins with the first.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.alternate(dm.Sequence.natural(), dm.Sequence.random(2))
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        if not sequences or not all(isinstance(one, cls) for one in sequences):
            raise SequenceError(
                f"Sequence.alternate: given {sequences!r}, expected sequences such as "
                "Sequence.natural(), Sequence.random(2)"
            )
        label = " / ".join(one.label for one in sequences)
        return cls(label, sequences[0].order, parts=sequences, in_turn=True)

    def __add__(self, other: Self) -> Self:
        kind = type(self)
        if not isinstance(other, kind):
            return NotImplemented
        return kind(f"{self.label} + {other.label}", self.order, parts=(self, other))

    def along(self, other: Coordination) -> Self:
        """The strategy of this sequence in the order of another.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.random(2).along(dm.Sequence.from_root(1))
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        parts = tuple(part.along(other) for part in self.parts)
        return replace(
            self, label=f"{self.label} along {other.label}", order=other.order, parts=parts
        )

    @property
    def per_loop(self) -> int | None:
        """How many clients an inner loop solves, about; ``None`` where it solves them all."""
        if not self.parts:
            return self.strategy.per_loop
        counts = [part.per_loop for part in self.parts]
        known = [count for count in counts if count is not None]
        if self.in_turn:
            return min(known) if known else None
        return sum(known) if len(known) == len(counts) else None

    @property
    def is_partial(self) -> bool:
        """Whether an inner loop may leave clients out."""
        return self.per_loop is not None

    @property
    def leaves_out(self) -> bool:
        """Whether clients may stay out of a whole outer loop."""
        return isinstance(self.strategy, strategies.Participation) or any(
            part.leaves_out for part in self.parts
        )

    @property
    def only_leaves_out(self) -> bool:
        """Whether every inner loop has the same stages but for clients that stay out."""
        strategy = self.strategy
        is_drawn = isinstance(strategy, strategies.Participation) and not strategy.at_once
        return is_drawn and not self.parts

    @property
    def is_jacobi(self) -> bool:
        """Whether neighbours may be solved side by side, with each other's values of before."""
        return isinstance(self.strategy, strategies.Jacobi) or any(
            part.is_jacobi for part in self.parts
        )

    @property
    def is_plain(self) -> bool:
        """Whether every inner loop is everybody's in the default order."""
        return self.order is None and not self.parts and self.strategy == FULL

    @property
    def is_constant(self) -> bool:
        """Whether every inner loop has the same stages."""
        return (
            self.strategy == FULL
            and all(part.is_constant for part in self.parts)
            and (not self.in_turn or len(self.parts) == 1)
        )

    def network(self, graph: nx.Graph, servers: Names = ()) -> HierarchicalNetwork:
        """The hierarchical network that this sequence makes of a consensus graph.

        Of a composition, that of its first part.

        Examples
        --------
        >>> import dald_model as dm
        >>> import networkx as nx
        >>> print(dm.Sequence.natural().network(nx.path_graph(3)).levels)
        [[0], [1], [2]]
        """
        if self.order is None:
            return networks.safest(graph, servers)
        return self.order(graph)

    def bind(
        self, graph: nx.Graph, servers: Names = (), safest: HierarchicalNetwork | None = None
    ) -> Bound:
        """Make the sequence ready for a consensus graph, of which the default order may be known.

        Raises
        ------
        SequenceError
            If it does not fit the graph.
        """
        known = safest if self.order is None else None
        network = known or self.network(graph, servers)
        self.strategy.check(network)
        parts = [part.bind(graph, servers) for part in self.parts]
        turns = [0] * len(parts)  # each part counts the loops that are its own

        def stages(moment: Moment) -> Levels:
            if moment.closing and self.is_partial:
                return strategies.alive(network, moment)
            if not parts:
                return self.strategy.stages(network, moment)
            loop = replace(moment, closing=False)
            if self.in_turn:
                at = (moment.inner - 1) % len(parts)
                turns[at] += 1
                return parts[at].stages(replace(loop, round=turns[at], inner=turns[at]))
            return [stage for part in parts for stage in part.stages(loop)]

        return Bound(network, stages)

    def __repr__(self) -> str:
        return f"Sequence({self.label!r})"

    def explain(self) -> str:
        """The order, the strategy and the convergence results of the sequence, with sources.

        Examples
        --------
        >>> import dald_model as dm
        >>> print(dm.Sequence.natural().explain())
        natural: every limit point of an inner loop minimises the augmented Lagrangian ...
        """
        if not self.parts:
            return f"{self.label}: {self.strategy.known}"
        lines = [f"{self.label}: {'in turn' if self.in_turn else 'in each inner loop'}"]
        lines += [f"  {part.explain()}" for part in dict.fromkeys(self.parts)]
        return "\n".join(lines)
