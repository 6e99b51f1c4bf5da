"""The client coordination sequence: order and participation (Section V-A)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from dald_model.schedule import checks
from dald_model.schedule import network as networks
from dald_model.schedule import participation as strategies
from dald_model.schedule.coordination import Coordination
from dald_model.schedule.participation import Chooser, Strategy


class Constructed(type):
    """Of a class whose constructors are what a user looks for behind its name and a dot."""

    def __dir__(cls) -> list[str]:
        found = [pair for kind in cls.__mro__ for pair in vars(kind).items()]
        made = [name for name, one in found if isinstance(one, classmethod)]
        return [name for name in [*made, "along"] if not name.startswith("_")]


@dataclass(frozen=True, repr=False)
class Sequence(Coordination, metaclass=Constructed):
    """A client coordination sequence: an order and a participation strategy.

    * Full cycle (the default): every client in each inner loop; ``natural``, ``levels``,
      ``from_root``, ``from_matrix`` say in what order.
    * Partial cycle: some; ``partial``, ``random``, ``essentially_cyclic``, ``greedy``, ``custom``.
    * Selective-repetitive: some more often; ``repeat``.
    * Compositions: ``a + b`` goes through a and then b in each inner loop, ``alternate(a, b)``
      takes them in turn, loop by loop, and ``a.along(b)`` is the strategy of a in the order of b.

    Where an inner loop may leave clients out, the last one of an outer loop is a full cycle, as
    Section V-A recommends, so that multipliers are updated consistently. :meth:`explain` says what
    is known of a sequence's convergence.

    Use the constructors below rather than this one.

    Attributes
    ----------
    label : str
        What tables call the sequence.
    order : callable or None
        Consensus graph -> hierarchical network; ``None`` is the default order
        (:func:`dald_model.schedule.network.safest`).
    strategy : Strategy
        The participants of an inner loop; not asked where there are parts.
    parts : tuple of Sequence
        What a composition is made of.
    in_turn : bool
        Whether one part after the other has an inner loop; else all have each.

    Examples
    --------
    >>> import dald_model as dm
    >>> dm.Sequence.natural(), dm.Sequence.random(2, seed=1)
    (Sequence('natural'), Sequence('random 2'))
    """

    @classmethod
    def natural(cls) -> Sequence:
        """One client after the other in order of declaration, servers last.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.natural()
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        return cls("natural", networks.natural)

    @classmethod
    def levels(cls, levels: Iterable[Iterable[Hashable]]) -> Sequence:
        """Level after level, the clients of a level side by side.

        Raises
        ------
        SequenceError
            When solving: if a name is unknown, visited twice or never, or neighbours stand on
            one level.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.levels([[0, 2], [1]])
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        fixed = checks.levels(levels)
        return cls("levels", lambda graph: networks.from_levels(graph, fixed))

    @classmethod
    def from_root(cls, root: Hashable, depth_first: bool = False) -> Sequence:
        """The order by distance from ``root``, which is solved last; the farther goes first.

        Definition 2. Distances are counted breadth-first, which gives few levels, or along a
        depth-first search, which gives many; see :func:`dald_model.schedule.network.from_root`.

        Raises
        ------
        SequenceError
            When solving: if the root is no client.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.from_root(1)
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        checks.check_depth_first(depth_first)
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

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.from_matrix([[1, 1, 0], [0, 0, 0], [0, 1, 1]])
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        fixed = checks.matrix(matrix)
        return cls("matrix", lambda graph: networks.from_matrix(graph, fixed))

    @classmethod
    def partial(cls, *subsets: Iterable[Hashable]) -> Sequence:
        """Partial cycle: given clients; of several lists the next in each inner loop.

        Raises
        ------
        SequenceError
            If there is none or an empty list; when solving: if a name is unknown.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.partial([0], [1, 2])
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        return cls._by(strategies.Given(checks.subsets(subsets)))

    @classmethod
    def random(cls, k: int, seed: int = 0) -> Sequence:
        """Partial cycle: ``k`` clients drawn with equal probability for each inner loop.

        A ``k`` above the number of clients means all of them. The draws depend on the seed and
        the number of the round alone.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.random(k=2, seed=0)
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        k = checks.count(k, "random")
        return cls._by(strategies.Random(k, checks.seed(seed, "random")))

    @classmethod
    def participating(cls, k: int, seed: int = 0) -> Sequence:
        """Partial participation: ``k`` clients drawn for each inner loop, and every server.

        As federated learning has it: unlike with :meth:`random` servers are not drawn, and no full
        cycle closes an outer loop.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.participating(k=2, seed=0)
        >>> print(common_number([0, 1, 2]).solve(sequence=sequence).status)
        optimal
        """
        k = checks.count(k, "participating")
        return cls._by(strategies.Participation(k, checks.seed(seed, "participating")))

    @classmethod
    def jacobi(cls) -> Sequence:
        """Jacobi coordination (60): everybody at once, with values of the round before.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> model, sequence = common_number([0, 1, 2]), dm.Sequence.jacobi()
        >>> result = model.solve(algorithm=dm.BCD(), sequence=sequence)
        >>> print(result.status, round(float(result["w"]), 3))
        settled 1.0
        """
        return cls._by(strategies.Jacobi())

    @classmethod
    def essentially_cyclic(cls, k: int, seed: int = 0) -> Sequence:
        """Partial cycle: ``k`` clients a loop from a pack that is shuffled when it is empty.

        At random, but nobody waits for more than two packs.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.essentially_cyclic(k=2, seed=0)
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        k = checks.count(k, "essentially_cyclic")
        return cls._by(strategies.EssentiallyCyclic(k, checks.seed(seed, "essentially_cyclic")))

    @classmethod
    def greedy(cls, k: int) -> Sequence:
        """Partial cycle: the ``k`` clients whose neighbours have moved most since their turn.

        A ``k`` above the number of clients means all of them.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.greedy(k=2)
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        return cls._by(strategies.Greedy(checks.count(k, "greedy")))

    @classmethod
    def custom(cls, choose: Chooser, seed: int = 0, label: str = "custom") -> Sequence:
        """Partial cycle: the clients that ``choose(moment, generator)`` names.

        Parameters
        ----------
        choose : callable
            Takes a :class:`Moment` (``live``, ``round``, ``staleness``, ...) and a
            ``numpy.random.Generator`` made from the seed and the number of the round; returns the
            clients of the inner loop in any order. It is tried on 2,000 inner loops before a run
            begins: see :func:`dald_model.schedule.checks.check_fairness`.
        seed : int
        label : str
            What tables and messages call it.

        Raises
        ------
        SequenceError
            When solving: if it names no client, or never chooses one.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.custom(
        ...     lambda moment, rng: rng.choice(moment.live, 2, replace=False).tolist()
        ... )
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        checks.check_chooser(choose)
        return cls._by(strategies.Custom(choose, label, checks.seed(seed, "custom")))

    @classmethod
    def repeat(cls, clients: Iterable[Hashable], times: int = 2) -> Sequence:
        """Selective-repetitive: ``clients`` are gone through ``times`` times, then everybody.

        "Achieved by combining the first two coordination types": partial cycles and a full one.

        Raises
        ------
        SequenceError
            When solving: if a name is unknown.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> sequence = dm.Sequence.repeat([1], times=2)
        >>> print(common_number([0, 1, 2], peers=True).solve(sequence=sequence).status)
        optimal
        """
        times = checks.count(times, "repeat")
        chosen = checks.clients(clients)
        again = (times - 1) * (cls._by(strategies.Given((chosen,), "repeat")),) if chosen else ()
        return cls("repeat", parts=(*again, cls("full cycle")))

    @classmethod
    def _by(cls, strategy: Strategy) -> Sequence:
        return cls(strategy.label, strategy=strategy)
