"""Drawings of the consensus graph and of hierarchical networks, level by level."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from dald_model.schedule.network import HierarchicalNetwork
from dald_model.text import counted, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDEST = 16.0
"""The most inches that a row of names, or a whole consensus graph, should take."""
MOST_NAMES = 100
"""Above so many nodes a drawing leaves out the names."""
LETTER, HIGH = 8, 0.2
"""The size of a name in points, and the height of its box in inches."""


def network_plot(model: str, network: HierarchicalNetwork, servers: Collection[Hashable]) -> Figure:
    """A hierarchical network level by level, the first to be solved at the bottom.

    A row whose names need too much room side by side has them turned upright. Within a level
    nodes stand so that few edges cross; an edge bends round the boxes in its way where it can.
    """
    names = _names(network)
    rows = _untangled(network)
    boxes: dict[Hashable, tuple[float, float]] = {}
    full = 0.0
    for row in rows:
        long, high = _box(row, names)
        upright = bool(names) and len(row) * (long + 0.15) > WIDEST
        if names and not upright:  # room for the arrows that end here, if there is room
            arrows = max(network.in_degree(name) for name in row)
            long = max(long, min(0.07 * arrows, WIDEST / 2 / len(row)))
        boxes |= dict.fromkeys(row, (high, long) if upright else (long, high))
        full = max(full, len(row) * (1.3 * high if upright or not names else long + 0.15))
    rise = max(min(max(0.6, full / 10), WIDEST / len(rows)), 0.3 if names else 0.02)
    layout = nx.multipartite_layout(network, subset_key=dict(enumerate(rows)), align="horizontal")
    unit = layout[rows[1][0]][1] - layout[rows[0][0]][1]  # the room between two nodes of a row
    places, bottom = {}, 0.0
    for row in rows:
        high = boxes[row[0]][1]
        for name in row:
            # Short rows are spread, so that a parent stands over the middle of its children.
            x = layout[name][0] / unit * full / len(row)
            places[name] = np.array([x, bottom + high / 2])
        bottom += high + rise
    lines = []
    for name in network:  # arrows end side by side, in the order of where they come from
        wide, high = boxes[name]
        lower = sorted(network.predecessors(name), key=lambda one: places[one][0])
        for at, one in enumerate(lower):
            end = places[name] + [0.8 * wide * ((at + 0.5) / len(lower) - 0.5), -high / 2]
            lines.append((one, name, places[one] + [0, boxes[one][1] / 2], end))
    levels = counted(len(rows), "level")
    title = f"{shortened(model, 60)}: hierarchical network, {levels}"
    note = "arrows: flow of information; level 1 is solved first"
    note += "; servers: orange" if servers else ""
    heights = {f"level {at}": places[row[0]][1] for at, row in enumerate(rows, start=1)}
    return _drawing((title, note), places, boxes, names, servers, lines, heights)


def graph_plot(model: str, graph: nx.Graph, servers: Collection[Hashable]) -> Figure:
    """The consensus graph: who agrees with whom.

    If a server, or one client, stands in every edge, it is put in the middle of a circle.
    """
    names = _names(graph)
    boxes = {name: _box([name], names) for name in graph}
    middle = list(servers) or [max(graph, key=graph.degree.__getitem__)]
    if all(one in middle or two in middle for one, two in graph.edges):
        layout = nx.shell_layout(graph, [middle, [name for name in graph if name not in middle]])
    else:  # above a hundred nodes Kamada and Kawai take seconds
        layout = nx.kamada_kawai_layout(graph) if names else nx.spring_layout(graph, seed=0)
    points = np.array([layout[name] for name in graph])
    if names:
        points = _apart(points, np.array([boxes[name] for name in graph]))
    else:
        points = points * WIDEST / np.ptp(points, axis=0).max()
    places = dict(zip(graph, points, strict=True))
    lines = [(a, b, places[a], places[b]) for a, b in graph.edges]
    clients = counted(len(graph) - len(servers), "client")
    edges = counted(len(lines), "edge")
    title = f"{shortened(model, 60)}: consensus graph, {clients}, {edges}"
    note = "servers: orange" if servers else ""
    return _drawing((title, note), places, boxes, names, servers, lines)


def _names(graph: nx.Graph) -> dict[Hashable, str]:
    """What stands in the boxes: long names are cut in the middle, as numbers stand at the end."""
    if len(graph) > MOST_NAMES:
        return {}
    names = {name: " ".join(str(name).split()) for name in graph}
    return {n: s if len(s) <= 24 else f"{s[:13]}...{s[-8:]}" for n, s in names.items()}


def _box(row: Collection[Hashable], names: Mapping[Hashable, str]) -> tuple[float, float]:
    """The width and height in inches of boxes that hold every name of a row."""
    if not names:
        dot = min(0.08, 0.7 * WIDEST / len(row))
        return dot, dot
    return max(1.3 * HIGH, *(_length(names[name]) for name in row)), HIGH


def _length(words: str) -> float:
    """How many inches words take, with a letter's room at each side."""
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), f"n{words}n".replace("$", "S"), size=LETTER).get_extents().width / 72


def _untangled(network: HierarchicalNetwork, sweeps: int = 8) -> list[list[Hashable]]:
    """The levels, ordered so that few edges cross, and none of a tree with one root.

    Going up, each by the mean place of those below; going down, by that of those above.
    """
    declared = {name: at for at, name in enumerate(network)}
    rows = [sorted(level, key=declared.__getitem__) for level in network.levels]
    where = {name: (at + 0.5) / len(row) for row in rows for at, name in enumerate(row)}
    for _ in range(sweeps):
        up = [(row, network.pred) for row in rows[1:]]
        down = [(row, network.succ) for row in rows[-2::-1]]
        for row, near in up + down:
            row.sort(key=lambda n: np.mean([where[other] for other in near[n]] or [where[n]]))
            where |= {name: (at + 0.5) / len(row) for at, name in enumerate(row)}
    return rows


def _apart(points: np.ndarray, boxes: np.ndarray, gap: float = 0.3) -> np.ndarray:
    """Scale a layout, both of shape (n, 2), until boxes do not overlap; then push those that do."""
    need = (boxes[:, None] + boxes) / 2 + gap
    away = np.abs(points[:, None] - points)
    first, second = np.triu_indices(len(points), 1)
    with np.errstate(divide="ignore"):
        scale = (need / away)[first, second].min(axis=1).max()
    points = points * min(scale, WIDEST / np.ptp(points, axis=0).max())
    for _ in range(200):  # the pushes of a round may make new overlaps
        step = points[second] - points[first]
        lacks = (need - gap / 2)[first, second] - np.abs(step)
        close = np.flatnonzero((lacks > 1e-9).all(axis=1))
        if not close.size:
            break
        axis = lacks[close].argmin(axis=1)
        push = np.where(step[close, axis] < 0, -0.5, 0.5) * lacks[close, axis]
        np.add.at(points, (second[close], axis), push)
        np.add.at(points, (first[close], axis), -push)
    return points


def _curve(start: np.ndarray, stop: np.ndarray, bend: float) -> np.ndarray:
    """Forty points of matplotlib's ``arc3``, a parabola, shape (40, 2)."""
    t = np.linspace(0, 1, 40)[:, None]
    across = np.array([1, -1]) * (stop - start)[::-1]
    middle = (start + stop) / 2 + bend * across
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * stop


def _bend(start: np.ndarray, stop: np.ndarray, corners: np.ndarray) -> float:
    """The least bend that meets the fewest of the boxes with these corners, shape (n, 2, 2)."""

    def met(bend: float) -> int:
        points = _curve(start, stop, bend)[:, None]
        inside = (points > corners[:, 0] - 0.04) & (points < corners[:, 1] + 0.04)
        return int(inside.all(axis=2).any(axis=0).sum())

    bends = (0.12, -0.12, 0.24, -0.24, 0.36, -0.36, 0.48, -0.48, 0.6, -0.6)
    return min((0, *bends), key=met) if met(0) else 0


def _drawing(
    words: tuple[str, str],
    places: Mapping[Hashable, np.ndarray],
    boxes: Mapping[Hashable, tuple[float, float]],
    names: Mapping[Hashable, str],
    servers: Collection[Hashable],
    lines: Collection[tuple[Hashable, Hashable, np.ndarray, np.ndarray]],
    heights: Mapping[str, float] | None = None,
) -> Figure:
    """Boxes at their places and lines between them; a unit of the axes is an inch.

    Parameters
    ----------
    words : tuple
        The title, and a note at the foot.
    lines : collection of tuples
        From which node, to which, from where, to where.
    heights : dict or None
        What stands at which height at the left. Lines are arrows if it is given.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    figure = plt.figure()
    axis = figure.add_axes((0, 0, 1, 1))
    axis.axis("off")
    sides = np.array([[-0.5], [0.5]])
    corners = np.array([places[n] + sides * boxes[n] for n in places])
    order = {name: at for at, name in enumerate(places)}
    seen = list(corners)
    long = 5 if names else 2.5
    head = f"-|>,head_length={long},head_width={0.4 * long}" if heights else "-"
    for one, two, start, stop in lines:
        others = np.delete(corners, [order[one], order[two]], axis=0)
        bend = _bend(start, stop, others) if names else 0
        seen.append(_curve(start, stop, bend))
        ends, arc = (tuple(start), tuple(stop)), f"arc3,rad={bend}"
        line = FancyArrowPatch(*ends, connectionstyle=arc, arrowstyle=head, shrinkA=0, shrinkB=0)
        line.set(color="0.45", lw=0.8 if names else 0.4)
        axis.add_patch(line)
    for name, corner in zip(places, corners, strict=True):
        wide, high = boxes[name]
        shape = "square,pad=0" if name in servers else "round,pad=0,rounding_size=0.05"
        box = FancyBboxPatch(corner[0], wide, high, boxstyle=shape, zorder=2)
        box.set(fc="#ffc069" if name in servers else "#dce9f7", ec="0.25", lw=0.8 if names else 0.4)
        axis.add_patch(box)
        if names:
            text = axis.text(*places[name], names[name], size=LETTER, parse_math=False, zorder=3)
            text.set(ha="center", va="center", rotation=90 if high > wide else 0)

    (left, low), (right, top) = (f(np.concatenate(seen), axis=0) for f in (np.min, np.max))
    if heights:
        every = int(np.ceil(0.2 * len(heights) / (top - low)))
        for label, height in list(heights.items())[::every]:
            text = axis.text(left - 0.2, height, label, size=LETTER, color="0.4")
            text.set(ha="right", va="center")
        left -= 0.8
    lack = max(0, 1.35 * _length(words[0]) - (right - left)) / 2
    axis.set(xlim=(left - lack - 0.2, right + lack + 0.2), ylim=(low - 0.4, top + 0.5))
    wide, high = right - left + 2 * lack + 0.4, top - low + 0.9
    figure.set_size_inches(wide, high)
    figure.suptitle(words[0], fontsize=10, y=1 - 0.08 / high, parse_math=False)
    figure.supxlabel(words[1], fontsize=LETTER, y=0.08 / high, color="0.4")
    plt.close(figure)  # as in result_plot
    return figure
