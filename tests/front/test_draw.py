"""Drawings: every node and edge is there, at its level, and every name can be read."""

from functools import cache, cached_property
from itertools import combinations, product
from typing import Any

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import dald_model as dm


def on(graph: nx.Graph, name: str = "numbers") -> dm.Model:
    x = {node: cp.Variable() for node in graph}
    model = dm.Model(name)
    for node, v in x.items():
        model.client(node, cp.square(v))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model


def star(count: int, word: str = "hospital") -> dm.Model:
    w = cp.Variable()
    model = dm.Model("star")
    for i in range(count):
        model.client(f"{word} {i}", cp.square(w - i))
    return model


MODELS = {
    "pair": on(nx.path_graph("ab")),
    "chain": on(nx.path_graph(6)),
    "star": star(5),
    "wide star": star(60, "client"),
    "grid": on(nx.grid_2d_graph(3, 3)),
    "ring": on(nx.cycle_graph(7)),
    "tree": on(nx.full_rary_tree(2, 31)),
    "long names": star(30, "the university hospital of the district"),
    "odd names": on(nx.path_graph(["$x_1$ & $^", " two\nlines", "", "<b>", (1, "1")])),
}
ORDERS: dict[str, dm.Sequence | None] = {
    "default": None,
    "natural": dm.Sequence.natural(),
}


class Seen:
    """What stands in a figure, in inches: the boxes of names, dots, and lines between them."""

    def __init__(self, figure: Figure) -> None:
        FigureCanvasAgg(figure).draw()
        self.figure = figure
        (axis,) = figure.axes
        self.texts = {text: self.inches(text.get_window_extent()) for text in axis.texts}
        self.patches = {
            text: self.inches(patch.get_window_extent())
            for text in self.names
            if (patch := text.get_bbox_patch()) is not None
        }
        found = axis.collections
        dots = [np.asarray(c.get_offsets()) for c in found if isinstance(c, PathCollection)]
        self.dots = np.concatenate([np.empty((0, 2)), *dots])
        self.arrows = [patch for patch in axis.patches if isinstance(patch, FancyArrowPatch)]
        lines = [one.get_segments() for one in found if isinstance(one, LineCollection)]
        to_inches = axis.transData.transform
        self.lines = [to_inches(line) / figure.dpi for segments in lines for line in segments]
        for arrow in self.arrows:
            corners = arrow.get_transform().transform(arrow.get_path().vertices) / figure.dpi
            self.lines.append(np.delete(corners, 1, axis=0))  # without the middle, which bends it

    def inches(self, bbox: Bbox) -> Bbox:
        return Bbox(bbox.get_points() / self.figure.dpi)

    @cached_property
    def boxes(self) -> dict[str, Bbox]:
        return {text.get_text(): box for text, box in self.patches.items()}

    @property
    def names(self) -> list[Text]:
        return [text for text in self.texts if text.get_horizontalalignment() == "center"]

    @property
    def levels(self) -> dict[str, float]:
        """What stands at the left margin -> its height."""
        return {
            t.get_text(): t.get_position()[1]
            for t in self.texts
            if t.get_horizontalalignment() == "right"
        }

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The boxes in which a line ends, the lower one first."""
        found = []
        for ends in self.lines:
            near = [
                n for n, b in self.boxes.items() if any(_holds(b, point, 0.06) for point in ends)
            ]
            assert len(near) == 2, near
            low, high = sorted(near, key=lambda n: self.boxes[n].y0)
            assert not self.levels or _holds(self.boxes[low], ends[0]), "the tail is below"
            found.append((low, high))
        return found


def _holds(box: Bbox, point: np.ndarray, slack: float = 0.03) -> bool:
    low, high = box.get_points()
    return bool((low - slack <= point).all() and (point <= high + slack).all())


@cache
def drawn(kind: str, order: str = "default") -> Seen:
    """Made once, as several tests look at the same."""
    return Seen(MODELS[kind].compile().draw(ORDERS[order]))


CASES = list(product(MODELS, ORDERS))
SMALL = [kind for kind in MODELS if kind not in ("long names", "odd names")]


def readable(seen: Seen) -> None:
    """No two boxes overlap, each name lies in its box, and nothing leaves the sheet."""
    sheet = Bbox.from_bounds(0, 0, *seen.figure.get_size_inches())
    for one, two in combinations(seen.patches.values(), 2):
        assert not one.overlaps(two)
    titles = [text for text in seen.figure.texts if text.get_text()]
    assert titles
    for text in titles:
        assert all(_holds(sheet, p, 0) for p in seen.inches(text.get_window_extent()).corners())
    for box in [*seen.patches.values(), *seen.texts.values()]:
        assert all(_holds(sheet, p, 0) for p in box.corners())
        for text in titles:
            assert not box.overlaps(seen.inches(text.get_window_extent()))
    for text in seen.names:
        assert text.get_text()
        box = seen.patches[text]
        assert all(_holds(box, point, 0.01) for point in seen.texts[text].corners())


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_a_network_can_be_read(kind: str, order: str) -> None:
    seen = drawn(kind, order)
    readable(seen)
    assert len(seen.patches) == len(MODELS[kind].compile())
    assert len(seen.lines) == len(MODELS[kind].compile().edges)


@pytest.mark.parametrize("kind", MODELS)
def test_a_consensus_graph_can_be_read(kind: str) -> None:
    seen = Seen(MODELS[kind].draw())
    readable(seen)
    assert len(seen.patches) == len(MODELS[kind].compile())
    graph = MODELS[kind].compile().graph
    assert len(seen.lines) == graph.number_of_edges()
    assert not seen.levels
    if kind in SMALL:
        assert set(seen.boxes) == set(map(str, graph))
        found = {frozenset(edge) for edge in seen.edges}
        assert found == {frozenset((str(a), str(b))) for a, b in graph.edges}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", SMALL)
def test_arrows_go_up_from_level_to_level(kind: str, order: str) -> None:
    seen = drawn(kind, order)
    compiled, sequence = MODELS[kind].compile(), ORDERS[order]
    network = compiled.network if sequence is None else sequence.network(compiled.graph)
    assert set(seen.edges) == {(str(a), str(b)) for a, b in network.edges}
    heights = {name: box.y0 + box.height / 2 for name, box in seen.boxes.items()}
    rows = [{round(heights[str(name)], 6) for name in level} for level in network.levels]
    assert all(len(row) == 1 for row in rows), "a level is a row"
    assert [row.pop() for row in rows] == sorted({round(h, 6) for h in heights.values()})


def test_a_star_by_hand() -> None:
    seen = drawn("star")
    assert set(seen.boxes) == {*(f"hospital {i}" for i in range(5)), "server"}
    assert sorted(seen.edges) == [(f"hospital {i}", "server") for i in range(5)]
    assert list(seen.levels) == ["level 1", "level 2"]
    by_place = sorted(seen.boxes, key=lambda name: seen.boxes[name].x0)
    assert [name for name in by_place if name != "server"] == [f"hospital {i}" for i in range(5)]
    assert seen.boxes["server"].y0 > seen.boxes["hospital 0"].y1
    assert seen.figure.get_suptitle() == "star: hierarchical network, 2 levels"
    assert "level 1 is solved first; servers: orange" in seen.figure.get_supxlabel()


@pytest.mark.slow
def test_a_server_stands_in_the_middle_in_orange() -> None:
    seen = Seen(MODELS["wide star"].draw())
    middle = np.array([box.min + box.max for box in seen.boxes.values()]).mean(axis=0)
    server = seen.boxes["server"]
    assert server.min + server.max == pytest.approx(middle, abs=0.2)
    colours = {text.get_text(): _colour(text) for text in seen.names}
    assert colours.pop("server") == "#ffc069"
    assert set(colours.values()) == {"#dce9f7"}
    assert seen.figure.get_suptitle() == "star: consensus graph, 60 clients, 60 edges"
    assert seen.figure.get_supxlabel() == "servers: orange"


def _colour(text: Text) -> str:
    patch = text.get_bbox_patch()
    assert patch is not None
    return to_hex(patch.get_facecolor())


def test_a_tree_from_its_root_has_parents_over_the_middle_of_their_children() -> None:
    model = MODELS["tree"]
    seen = Seen(model.compile().draw(dm.Sequence.from_root(0)))
    assert list(seen.levels) == [f"level {i}" for i in range(1, 6)]
    assert seen.figure.get_suptitle() == "numbers: hierarchical network, 5 levels"
    at = {int(name): (box.x0 + box.x1) / 2 for name, box in seen.boxes.items()}
    for parent in range(15):
        children = at[2 * parent + 1], at[2 * parent + 2]
        assert children[0] < at[parent] < children[1]
        assert at[parent] == pytest.approx(sum(children) / 2, abs=0.01)


def test_an_edge_bends_round_the_boxes_in_its_way() -> None:
    """A ring in its natural order is a column, which the last edge has to pass."""
    seen = drawn("ring", "natural")
    column = [seen.boxes[str(i)] for i in range(1, 6)]
    for arrow in seen.arrows:
        shaft = arrow.get_path().interpolated(30)
        points = arrow.get_transform().transform_path(shaft).to_polygons(closed_only=False)
        points = np.concatenate(points) / seen.figure.dpi
        assert not any(_holds(box, point, -0.02) for box in column for point in points)


def test_long_names_are_cut_in_the_middle_and_odd_ones_shown_as_they_are() -> None:
    names = set(drawn("long names").boxes)
    assert len(names) == 31
    assert "the universit...trict 17" in names
    assert {text.get_text() for text in drawn("odd names").names} == {
        "$x_1$ & $^",
        "two lines",
        "''",
        "<b>",
        "(1, '1')",
    }


@pytest.mark.slow
@pytest.mark.parametrize("order", [None, dm.Sequence.natural()])
def test_more_than_a_hundred_clients_have_no_names(order: dm.Sequence | None) -> None:
    graph = nx.connected_watts_strogatz_graph(101, 4, 0.3, seed=1)
    model = on(graph)
    for figure in (model.compile().draw(order), model.draw()):
        seen = Seen(figure)
        assert seen.names == []
        assert len(seen.dots) == 101
        assert len(seen.lines) == graph.number_of_edges()
        assert max(figure.get_size_inches()) < 25


def crowd(kind: str) -> tuple[dm.Model, nx.Graph]:
    graphs = {
        "ring": nx.cycle_graph(400),
        "grid": nx.grid_2d_graph(20, 20),
        "tree": nx.full_rary_tree(3, 400),
    }
    return on(graphs[kind]), graphs[kind]


def test_a_network_of_very_many_is_drawn_level_by_level() -> None:
    """A tree from its root, 1, 3, 9, ... of depth six, and a star."""
    seen = Seen(crowd("tree")[0].compile().draw(dm.Sequence.from_root(0)))
    readable(seen)
    assert len(seen.boxes) == len(seen.levels) == 7
    numbers = [int(name.split()[0]) if "clients" in name else 1 for name in seen.boxes]
    assert sum(numbers) == 400
    assert "0" in seen.boxes, "who is alone has its name"
    seen = Seen(star(301).compile().draw())
    assert set(seen.boxes) == {"301 clients, level 1", "server"}
    assert len(seen.lines) == 1
    (server,) = (text for text in seen.names if text.get_text() == "server")
    assert _colour(server) == "#ffc069"


def test_a_coupling_of_two_is_the_edge_between_them() -> None:
    """The user's graph: four houses in a ring, not eight nodes of which four are edges."""
    x = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model("network lasso")
    for i in range(4):
        model.client(f"house {i}", cp.square(x[i] - i))
    ring = [(i, (i + 1) % 4) for i in range(4)]
    for a, b in ring:
        model.couple(objective=0.5 * cp.abs(x[a] - x[b]))
    seen = Seen(model.draw())
    readable(seen)
    assert set(seen.boxes) == {f"house {i}" for i in range(4)}
    found = {frozenset(edge) for edge in seen.edges}
    assert found == {frozenset((f"house {a}", f"house {b}")) for a, b in ring}
    assert seen.figure.get_suptitle() == "network lasso: consensus graph, 4 clients, 4 edges"
    assert seen.figure.get_supxlabel() == "couplings: green"
    model.couple(sum(x) == 3, name="sum")
    seen = Seen(model.draw())
    assert set(seen.boxes) == {*(f"house {i}" for i in range(4)), "sum"}
    assert len(seen.lines) == 4 + 4


def test_no_figure_stays_open_and_nothing_is_computed_anew() -> None:
    model = on(nx.path_graph("abc"))
    compiled = model.compile(rho=3.0)
    figures = model.draw(), compiled.draw(), compiled.draw(dm.Sequence.natural())
    assert all(isinstance(figure, Figure) for figure in figures)
    assert plt.get_fignums() == []
    assert compiled["a"].rho["b"].value == pytest.approx(3.0), "compiling again would reset it"
    assert model.compile() is compiled


def test_a_title_that_would_be_mathematics_or_too_long() -> None:
    seen = Seen(on(nx.path_graph("ab"), "cost $x^ in $").draw())
    assert seen.figure.get_suptitle() == "cost $x^ in $: consensus graph, 2 clients, 1 edge"
    seen = Seen(on(nx.path_graph("ab"), "word " * 50).compile().draw())
    assert seen.figure.get_suptitle().endswith("...: hierarchical network, 2 levels")
    readable(seen)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(dm.DeclarationError, match="has no clients"):
        dm.Model().draw()
    x = cp.Variable(4)
    apart = dm.Model()
    y = [cp.Variable() for _ in x]
    for i, v in enumerate(y):
        apart.client(i, cp.square(v))
    apart.consensus(y[0] == y[1], y[2] == y[3])
    with pytest.raises(dm.DisconnectedError, match="falls into 2 parts"):
        apart.draw()
    compiled: Any = MODELS["pair"].compile()
    with pytest.raises(dm.SequenceError, match="the root 'z' is no client"):
        compiled.draw(dm.Sequence.from_root("z"))
