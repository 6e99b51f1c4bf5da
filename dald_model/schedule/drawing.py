"""Drawings of the consensus graph and of hierarchical networks; a unit of the axes is an inch."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from dald_model.lazy_imports import optional
from dald_model.schedule.network import HierarchicalNetwork, Levels
from dald_model.text import counted, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Mapping[Hashable, np.ndarray]
"""Node -> the middle of its box, or the box's width and height."""

WIDEST = 16.0
"""The most inches that a row of names, or a whole consensus graph, should take."""
MOST_NAMES = 100
"""The most nodes that are drawn with their names; more are dots."""
MOST_DOTS, MOST_ROWS = 300, 40
"""More nodes are drawn level by level where there are few levels: a row of dots is a grey bar."""
DOT = 0.06
"""The inches that a dot takes."""
HUB = 10
"""A server or a coupling of more neighbours is a large dot."""
CROWD = 7.0
"""The inches that a consensus graph of dots takes."""
LETTER, HIGH, GAP = 8, 0.2, 0.15
"""The size of a name in points, the height of its box, and the room between two boxes."""


def network_plot(
    model: str,
    network: HierarchicalNetwork,
    servers: Collection[Hashable],
    couplings: Collection[Hashable] = (),
) -> Figure:
    """A hierarchical network level by level, the first to be solved at the bottom.

    Levels are in the order of declaration. A row whose names need too much room has them upright;
    an arrow past a level bends outwards. Of very many nodes each level is one box, and one for its
    servers and for its couplings.
    """
    patches = optional("matplotlib.patches", "plot", "draw")

    if len(network) > MOST_DOTS and len(network.levels) <= MOST_ROWS:
        network, servers, couplings = _by_level(network, servers, couplings)
    declared = {name: at for at, name in enumerate(network)}
    rows = [sorted(level, key=declared.__getitem__) for level in network.levels]
    names = _names(network)
    boxes = {name: box for row in rows for name, box in _boxes(row, names).items()}
    places = _stacked(rows, boxes, GAP if names else 0.02)
    heights = {f"level {at}": places[row[0]][1] for at, row in enumerate(rows, start=1)}
    title = f"{shortened(model, 60)}: hierarchical network, {counted(len(rows), 'level')}"
    note = "; ".join(
        ["arrows: flow of information; level 1 is solved first", *_legend(servers, couplings)]
    )
    colours = _colours(servers, couplings)
    figure = _drawing(title, note, places, boxes, names, colours, heights)
    level = {name: at for at, row in enumerate(rows) for name in row}
    middle = np.mean([point[0] for point in places.values()]) - 1e-9
    for one, two in network.edges:
        start, end = places[one] + [0, boxes[one][1] / 2], places[two] - [0, boxes[two][1] / 2]
        side = np.sign((start + end)[0] / 2 - middle) if level[two] > level[one] + 1 else 0
        bend = f"arc3,rad={side * (end - start)[1] / np.hypot(*(end - start)) / 4}"
        how: dict[str, Any] = {"arrowstyle": "-|>", "connectionstyle": bend, "color": "0.45"}
        how |= {"lw": 0.8, "mutation_scale": 8} if names else {"lw": 0.3, "mutation_scale": 3}
        arrow = patches.FancyArrowPatch(tuple(start), tuple(end), shrinkA=0, shrinkB=0, **how)
        figure.axes[0].add_patch(arrow)
    return figure


def graph_plot(
    model: str,
    graph: nx.Graph,
    servers: Collection[Hashable],
    couplings: Collection[Hashable] = (),
) -> Figure:
    """The consensus graph: who agrees with whom.

    If a server, or one client, stands in every edge, it is put in the middle of a circle. A
    coupling of two clients is the edge between them, in green.
    """
    graph, coupled = _with_edges(graph, couplings)
    couplings = [name for name in couplings if name in graph]
    names = _names(graph)
    boxes = {name: box for one in graph for name, box in _boxes([one], names).items()}
    if not names:  # a hub among dots is seen by its size
        boxes |= {n: 4 * boxes[n] for n in (*servers, *couplings) if graph.degree[n] > HUB}
    middle = list(servers) or [max(graph, key=graph.degree.__getitem__)]
    if all(one in middle or two in middle for one, two in graph.edges):
        layout = nx.shell_layout(graph, [middle, [name for name in graph if name not in middle]])
    elif names:
        layout = nx.kamada_kawai_layout(graph)
    else:  # for which Kamada and Kawai take seconds; what begins unfolded stays so
        layout = nx.spring_layout(graph, pos=nx.spectral_layout(graph), iterations=10, seed=0)
    points = np.array([layout[n] for n in graph])
    if names:
        points = _apart(points, np.array([boxes[n] for n in graph]))
    else:
        points = points * CROWD / np.ptp(points, axis=0).max()
    places = dict(zip(graph, points, strict=True))
    clients = counted(len(graph) - len(servers) - len(couplings), "client")
    edges = counted(len(graph.edges), "edge")
    title = f"{shortened(model, 60)}: consensus graph, {clients}, {edges}"
    note = "; ".join(_legend(servers, [*couplings, *coupled]))
    figure = _drawing(title, note, places, boxes, names, _colours(servers, couplings))
    width = 0.8 if names else max(0.12, min(0.3, 100 / len(graph.edges)))
    plain = [edge for edge in graph.edges if frozenset(edge) not in coupled]
    axis, green = figure.axes[0], [tuple(edge) for edge in coupled]
    nx.draw_networkx_edges(graph, places, plain, ax=axis, edge_color="0.45", width=width)
    if green:
        nx.draw_networkx_edges(graph, places, green, ax=axis, edge_color=GREEN, width=2 * width)
    return figure


def _with_edges(
    graph: nx.Graph, couplings: Collection[Hashable]
) -> tuple[nx.Graph, set[frozenset[Hashable]]]:
    """The graph with an edge in place of each coupling of two who have none, and these edges."""
    found, coupled = nx.Graph(graph), set()
    for name in couplings:
        ends = list(graph[name])
        if len(ends) == 2 and not found.has_edge(*ends) and not set(ends) & set(couplings):
            found.remove_node(name)
            found.add_edge(*ends)
            coupled.add(frozenset(ends))
    return found, coupled


def _by_level(
    network: HierarchicalNetwork, servers: Collection[Hashable], couplings: Collection[Hashable]
) -> tuple[HierarchicalNetwork, list[Hashable], list[Hashable]]:
    """The network of the levels: what stands in one, and between which there are edges."""
    of: dict[Hashable, str] = {}
    groups: list[list[Hashable]] = [[], [], []]
    for at, level in enumerate(network.levels, start=1):
        kinds: list[list[Hashable]] = [[], [], []]
        for name in level:
            kinds[1 if name in servers else 2 if name in couplings else 0].append(name)
        for kind, members in enumerate(kinds):
            if members:
                noun = ("client", "server", "coupling")[kind]
                said = f"{counted(len(members), noun)}, level {at}" if members[1:] else members[0]
                of |= dict.fromkeys(members, str(said))
                groups[kind].append(str(said))
    found = HierarchicalNetwork()
    found.add_nodes_from(dict.fromkeys(of[name] for name in network))
    found.add_edges_from({(of[one], of[two]) for one, two in network.edges})
    return found, groups[1], groups[2]


def _legend(servers: Collection[Hashable], couplings: Collection[Hashable]) -> list[str]:
    """The legend of the colours in use."""
    said = ["servers: orange"] if servers else []
    return [*said, "couplings: green"] if couplings else said


GREEN = "#6fb36f"
"""Of the edges that couplings of two are."""


def _colours(servers: Collection[Hashable], couplings: Collection[Hashable]) -> dict[Hashable, str]:
    return dict.fromkeys(servers, "#ffc069") | dict.fromkeys(couplings, "#c5e8b7")


def _names(graph: nx.Graph) -> dict[Hashable, str]:
    """Labels of the nodes; long names are cut in the middle, as numbers stand at the end."""
    if len(graph) > MOST_NAMES:
        return {}
    names = {name: " ".join(str(name).split()) or "''" for name in graph}
    return {n: s if len(s) <= 24 else f"{s[:13]}...{s[-8:]}" for n, s in names.items()}


def _boxes(row: Collection[Hashable], names: Mapping[Hashable, str]) -> dict[Hashable, np.ndarray]:
    """Boxes of one size that hold every name of a row, or dots."""
    if not names:
        return dict.fromkeys(row, np.array([DOT, DOT]))
    long = max(1.3 * HIGH, *(_length(names[name]) for name in row))
    upright = len(row) * (long + GAP) > WIDEST
    return dict.fromkeys(row, np.array([HIGH, long] if upright else [long, HIGH]))


def _length(words: str) -> float:
    """The width in inches of the box of a label, with half a letter's room at each side."""
    textpath = optional("matplotlib.textpath", "plot", "draw")
    drawn = textpath.TextPath((0, 0), f"n{words}".replace("$", "S"), size=LETTER)
    return drawn.get_extents().width / 72


def _stacked(rows: Levels, boxes: Points, gap: float) -> dict[Hashable, np.ndarray]:
    """Rows above each other, all of one width: a parent stands over the middle of its children."""
    full = max(len(row) * (boxes[row[0]][0] + gap) for row in rows)
    rise = max(min(max(0.6, full / 10), WIDEST / len(rows)), 2 * gap)
    places, bottom = {}, 0.0
    for row in rows:
        high = boxes[row[0]][1]
        for at, name in enumerate(row):
            places[name] = np.array([full * (at + 0.5) / len(row), bottom + high / 2])
        bottom += high + rise
    return places


def _apart(points: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Scale a layout, both of shape (n, 2), until boxes do not overlap or it is ``WIDEST``."""
    need = (boxes[:, None] + boxes) / 2 + 2 * GAP
    first, second = np.triu_indices(len(points), 1)
    with np.errstate(divide="ignore"):
        scale = (need / np.abs(points[:, None] - points))[first, second].min(axis=1).max()
    return points * min(scale, WIDEST / np.ptp(points, axis=0).max())


def _drawing(
    title: str,
    note: str,
    places: Points,
    boxes: Points,
    names: Mapping[Hashable, str],
    coloured: Mapping[Hashable, str],
    heights: Mapping[str, float] | None = None,
) -> Figure:
    """The nodes at their places; ``heights`` says what stands at which height at the left."""
    plt = optional("matplotlib.pyplot", "plot", "draw")

    corners = [places[name] + side * boxes[name] / 2 for name in places for side in (-1, 1)]
    (left, low), (right, top) = np.min(corners, axis=0), np.max(corners, axis=0)
    if heights:
        bulge = (top - low) / 8 if len(heights) > 2 else 0  # what arrows past a level take at most
        left, right = left - bulge - 0.6, right + bulge
    lack = max(0, 1.35 * _length(title) - (right - left), _length(note) - (right - left)) / 2
    wide, high = right - left + 2 * lack + 0.4, top - low + 0.9
    figure = plt.figure(figsize=(wide, high))
    axis = figure.add_axes((0, 0, 1, 1))
    graph = nx.empty_graph(list(places))
    colours = [coloured.get(name, "#dce9f7") for name in places]
    if names:
        texts = nx.draw_networkx_labels(graph, places, names, LETTER, ax=axis)
        for (name, text), colour in zip(texts.items(), colours, strict=True):
            text.set(parse_math=False, rotation=90 if boxes[name][1] > HIGH else 0)
            text.set_bbox({"boxstyle": "round,pad=0.3", "fc": colour, "ec": "0.25", "lw": 0.8})
    else:
        sizes = [12 * (boxes[name][0] / DOT) ** 2 for name in places]
        dots = {"node_size": sizes, "linewidths": 0.4, "edgecolors": "0.25"}
        nx.draw_networkx_nodes(graph, places, node_color=colours, ax=axis, **dots)
    every = int(np.ceil(0.2 * len(heights or ()) / (top - low)))
    for label, height in list((heights or {}).items())[:: max(1, every)]:
        text = axis.text(left + 0.5, height, label, size=LETTER, color="0.5")
        text.set(ha="right", va="center")
    axis.set(xlim=(left - lack - 0.2, right + lack + 0.2), ylim=(low - 0.4, top + 0.5))
    axis.axis("off")
    figure.suptitle(title, fontsize=10, y=1 - 0.08 / high, parse_math=False)
    figure.supxlabel(note, fontsize=LETTER, y=0.08 / high, color="0.5")
    plt.close(figure)  # as in result_plot
    return figure
