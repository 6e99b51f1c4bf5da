r"""The hierarchical network, the update order of the clients (Definitions 2 and 3).

A hierarchical network is a directed acyclic graph over the consensus graph. An edge
:math:`i \to j` says that information flows from :math:`i` to :math:`j`: within one inner loop
:math:`j` is solved after :math:`i` and sees its new value. The root is solved last. Clients that
stand on one level have no edge between them and are solved side by side. Fed-DALD-CC is the
network of two levels, the clients below and the server as root.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from dald_model.errors import SequenceError
from dald_model.text import listed
from dald_model.validate import check_clients

Levels = list[list[Hashable]]


class HierarchicalNetwork(nx.DiGraph):
    """A hierarchical network as a networkx ``DiGraph``, with the paper's matrix.

    Nodes stand in the order of declaration, servers last. The network is frozen: make another to
    change the order.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> network = dm.Sequence.natural().network(common_number([0, 1, 2]).compile().graph)
    >>> network.levels
    [[0, 1, 2], ['server']]
    """

    @cached_property
    def levels(self) -> Levels:
        """The clients level by level, the level that is solved first coming first."""
        return [list(level) for level in nx.topological_generations(self)]

    @property
    def root(self) -> Hashable:
        """The client that is solved last (Definition 2).

        Where several clients hand their values to nobody (a chain in two colours, say) the
        network has several roots; this is then the one on the last level that was declared last,
        a server if there is one. :func:`from_root` gives a network with a single root.
        """
        last = set(self.levels[-1])
        return [name for name in self if name in last][-1]

    @property
    def matrix(self) -> np.ndarray:
        r"""The hierarchical matrix (Definition 3), shape (n, n), integers.

        :math:`a_{ij} = 1` if :math:`i` is a direct descendant of :math:`j`, that is if the edge
        :math:`i \to j` exists; :math:`a_{ii}` is the out-degree of :math:`i`. Rows follow the
        order of the nodes.
        """
        names = list(self)
        matrix = np.array([[int(self.has_edge(one, two)) for two in names] for one in names])
        np.fill_diagonal(matrix, matrix.sum(axis=1))
        return matrix

    @property
    def is_two_block(self) -> bool:
        r"""Whether a sweep is two-block ADMM, which converges for every :math:`\rho > 0`.

        So it is where a sweep takes a two-colouring one colour after the other (two levels); on
        a tree every order gives the same iterates up to the numbering of the rounds.
        """
        return nx.is_forest(self.to_undirected()) or len(self.levels) <= 2


def from_levels(graph: nx.Graph, levels: Iterable[Iterable[Hashable]]) -> HierarchicalNetwork:
    """The network in which every consensus edge goes from the lower to the higher level.

    Raises
    ------
    SequenceError
        If a name is unknown, visited twice or never, or neighbours stand on one level.
    """
    rank: dict[Hashable, int] = {}
    for level, names in enumerate(levels):
        for name in names:
            if name not in graph:
                check_clients("sequence: ", [name], graph, SequenceError, f" on level {level + 1}")
            if name in rank:
                raise SequenceError(
                    f"sequence: {name!r} stands on level {rank[name] + 1} and again on level "
                    f"{level + 1}; expected each client once; repeat it with Sequence.repeat"
                )
            rank[name] = level
    missing = [name for name in graph if name not in rank]
    if missing:
        raise SequenceError(
            f"sequence: {listed(missing)} is never visited, so consensus cannot be reached "
            "(Remark 1 of the paper); add it to a level"
        )
    for one, two in graph.edges:
        if rank[one] == rank[two]:
            raise SequenceError(
                f"sequence: the neighbours {one!r} and {two!r} stand together on level "
                f"{rank[one] + 1}, so neither would see the other's new value; put them on "
                "different levels"
            )
    return _directed(graph, ((a, b) if rank[a] < rank[b] else (b, a) for a, b in graph.edges))


def from_root(graph: nx.Graph, root: Hashable, depth_first: bool = False) -> HierarchicalNetwork:
    r"""The network of distances from a root (Definition 2); the farther client is solved first.

    Breadth-first, a client's distance is the number of edges of a shortest path to the root.
    Neighbours at equal distance are coloured (greedily, by saturation) and the distance is split
    into as many levels as it has colours :math:`c_d`. With :math:`m` the largest distance, the
    network has from :math:`m + 1` to :math:`\sum_{d=0}^m c_d` levels, and :math:`m + 1` on every
    bipartite graph, where neighbours are never equally far.

    Depth-first, the distance is that in the tree of a depth-first search, which is as deep as
    such a search goes: one client after the other on a ring. There, neighbours always stand one
    above the other, and the levels are those of the tree.

    Either way every client but the root has a neighbour nearer to it: the root is the only one.
    A client's level is read off the edges, as everywhere: it starts as soon as those that it
    waits for are done, so that a client next to the root may stand on the first level.

    Raises
    ------
    SequenceError
        If the root is no client, or a client cannot be reached from it.
    """
    check_clients("sequence: the root ", [root], graph, SequenceError, expected="one of")
    searched = nx.dfs_tree(graph, root) if depth_first else graph
    distance = nx.single_source_shortest_path_length(searched, root)
    apart = [name for name in graph if name not in distance]
    if apart:
        raise SequenceError(
            f"sequence: {listed(apart)} cannot be reached from the root {root!r}, expected a "
            "connected graph (Remark 1 of the paper); add a consensus equality between the parts"
        )
    equals = nx.Graph()  # a new graph keeps the order of declaration; a subgraph would not
    equals.add_nodes_from(graph)
    equals.add_edges_from((a, b) for a, b in graph.edges if distance[a] == distance[b])
    colour = nx.greedy_color(equals, strategy="saturation_largest_first")
    place = {name: (-distance[name], colour[name]) for name in graph}
    return from_levels(
        graph, ([n for n in graph if place[n] == level] for level in sorted(set(place.values())))
    )


def from_matrix(graph: nx.Graph, matrix: Any) -> HierarchicalNetwork:
    """The network of a hierarchical matrix, rows in order of declaration, servers last.

    Raises
    ------
    SequenceError
        If the shape, an entry or the diagonal is wrong, there is a cycle, or the matrix and the
        consensus graph name different edges.
    """
    names = list(graph)
    given = np.asarray(matrix)
    if given.shape != (len(names), len(names)):
        raise SequenceError(
            f"sequence: the hierarchical matrix has shape {given.shape}, expected "
            f"({len(names)}, {len(names)}): a row and a column for each of {listed(names)}"
        )
    arcs = given.copy()
    np.fill_diagonal(arcs, 0)
    if not np.isin(arcs, (0, 1)).all():
        raise SequenceError(
            "sequence: the hierarchical matrix holds other entries than 0 and 1 off its diagonal; "
            "a[i, j] is 1 if i is a direct descendant of j, else 0 (Definition 3)"
        )
    for name, stated, counted in zip(names, np.diag(given), arcs.sum(axis=1), strict=True):
        if stated != counted:
            raise SequenceError(
                f"sequence: the hierarchical matrix states out-degree {stated:g} for {name!r} on "
                f"its diagonal, but its row has {counted:g} entries; expected the same number "
                "(Definition 3)"
            )
    network = _directed(graph, ((names[i], names[j]) for i, j in np.argwhere(arcs)))
    for one, two in network.edges:
        if not graph.has_edge(one, two):
            raise SequenceError(
                f"sequence: the hierarchical matrix has an edge from {one!r} to {two!r}, which "
                "share no consensus constraint; set the entry to 0 or declare the consensus"
            )
    for one, two in graph.edges:
        if not (network.has_edge(one, two) or network.has_edge(two, one)):
            raise SequenceError(
                f"sequence: the hierarchical matrix does not order the neighbours {one!r} and "
                f"{two!r}; set one of their two entries to 1"
            )
    if not nx.is_directed_acyclic_graph(network):
        cycle = " -> ".join(repr(one) for one, _ in nx.find_cycle(network))
        raise SequenceError(
            f"sequence: the hierarchical matrix has the cycle {cycle}, so none of them could "
            "start; turn one of its edges round"
        )
    return network


def natural(graph: nx.Graph) -> HierarchicalNetwork:
    """One client after the other in order of declaration, servers last."""
    return from_levels(graph, [[name] for name in graph])


def safest(graph: nx.Graph, servers: Sequence[Hashable] = ()) -> HierarchicalNetwork:
    """The default order: one colour of the graph after the other.

    On a bipartite graph two colours suffice and a sweep is two-block ADMM, which converges for
    every penalty; the servers' colour comes last, which makes the order that of Fed-DALD-CC.
    Otherwise a greedy colouring gives few levels, and a sweep is safe for other reasons (see
    :mod:`dald_model.coordinate.convergence`).
    """
    try:
        colour = nx.bipartite.color(graph)
    except nx.NetworkXError:  # it is not bipartite
        colour = nx.greedy_color(graph, strategy="saturation_largest_first")
        levels = [[n for n in graph if colour[n] == c] for c in range(max(colour.values()) + 1)]
    else:
        last = colour[servers[0]] if servers else 1 - colour[next(iter(graph))]
        levels = [[n for n in graph if (colour[n] == last) == late] for late in (False, True)]
    return from_levels(graph, levels)


def part_of(network: HierarchicalNetwork, graph: nx.Graph) -> HierarchicalNetwork:
    """The part of a network that is on a graph of some of its clients, each on its level there."""
    found = _directed(graph, ((a, b) if network.has_edge(a, b) else (b, a) for a, b in graph.edges))
    levels = ([name for name in level if name in graph] for level in network.levels)
    found.levels = [level for level in levels if level]
    return found


def _directed(graph: nx.Graph, arcs: Iterable[tuple[Hashable, Hashable]]) -> HierarchicalNetwork:
    network = HierarchicalNetwork()
    network.add_nodes_from(graph)
    network.add_edges_from(arcs)
    return nx.freeze(network)
