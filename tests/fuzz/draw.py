"""Draws a case from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from tests.fuzz.case import Case, Link, Owner, Units, Unknown, array
from tests.fuzz.client import Drawer, Space, draw_space

GRAPHS = {
    "shared": 0.22,
    "topology": 0.1,
    "server": 0.08,
    "chain": 0.22,
    "ring": 0.1,
    "tree": 0.1,
    "complete": 0.06,
    "affine": 0.12,
}
"""Who agrees with whom, and how often."""

ANCHORS = {"quadratic": 0.5, "mixed": 0.2, "one": 0.1, "box": 0.15, "one box": 0.05}
"""Who has what gives its objective a minimum."""


def case(seed: int) -> Case:
    """The case of a seed: always the same."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["plain", "infeasible", "unbounded"], p=[0.97, 0.015, 0.015]))
    graph = _chosen(rng, GRAPHS)
    space = draw_space(rng)
    if graph == "affine" and len(space.shape) != 1:
        graph = "chain"
    if kind != "plain" and graph == "affine":
        graph = "chain"
    count = int(rng.choice([2, 3, 4, 5], p=[0.42, 0.35, 0.15, 0.08]))
    common = graph in ("shared", "topology")
    anchors = "quadratic" if graph == "affine" else _chosen(rng, ANCHORS)
    unknowns: list[Unknown] = []
    owners: list[Owner] = []
    points = []
    for at in range(count):
        point = space.point
        if graph == "affine":
            point = rng.uniform(0.3, 1.5, int(rng.integers(1, 5))).round(2)
        here = Space(**{**space.__dict__, "shape": point.shape, "point": point})
        drawer = Drawer(rng, here, "x0" if common else f"x{at}", point, str(at))
        _fill(drawer, kind, _anchor(rng, anchors, at), at == 0, at == count - 1)
        if not common or at == 0:
            unknowns.append(_unknown(rng, here, f"y{at}"))
        main = "y0" if common else f"y{at}"
        names = (main, *(one.name for one in drawer.own))
        owners.append(Owner(f"c{at}", names, tuple(drawer.terms), tuple(drawer.rules)))
        unknowns += drawer.own
        points.append(point)
    links, topology = _graph(rng, graph, points, unknowns)
    units, how = _units(rng, len(space.shape) < 2)
    options = _options(rng, [one.name for one in owners], units == Units())
    return Case(
        seed,
        tuple(unknowns),
        tuple(owners),
        links,
        topology,
        maximises=bool(rng.random() < 0.15),
        units=units,
        options=options,
        features=(kind, graph, f"{count} clients", how, *(name for name, _ in options)),
    )


def _chosen(rng: np.random.Generator, shares: dict[str, float]) -> str:
    weights = np.array(list(shares.values()))
    return list(shares)[rng.choice(len(shares), p=weights / weights.sum())]


def _anchor(rng: np.random.Generator, how: str, at: int) -> str:
    if how == "mixed":
        return str(rng.choice(["quadratic", "box"]))
    if how in ("one", "one box"):
        return {"one": "quadratic", "one box": "box"}[how] if at == 0 else ""
    return how


def _fill(drawer: Drawer, kind: str, anchor: str, first: bool, last: bool) -> None:
    """A client's terms and constraints; of an unbounded model they only fall."""
    rng, x = drawer.rng, drawer.space.positive.format(x=drawer.x)
    if kind == "unbounded":
        drawer.terms.append(f"-{drawer.number(0.2, 1.5)} * cp.sum({x})")
        drawer.rules.append(f"{x} >= -{drawer.number(0.2, 1.5)}")
        if rng.random() < 0.5:
            drawer.terms.append(f"{drawer.number(0.2, 1.5)} * cp.sum(cp.neg({x}))")
        return
    drawer.anchor(anchor)
    for _ in range(int(rng.choice([0, 1, 2], p=[0.2, 0.5, 0.3])) if drawer.terms else 1):
        drawer.term()
    for _ in range(int(rng.choice([0, 1, 2], p=[0.45, 0.35, 0.2]))):
        drawer.rule()
    if rng.random() < 0.12:
        drawer.private()
    if kind == "infeasible" and first:
        drawer.rules.append(f"cp.sum({x}) <= -{drawer.number(0.2, 1.5)}")
    if kind == "infeasible" and last:
        drawer.rules.append(f"cp.sum({x}) >= {drawer.number(0.2, 1.5)}")


def _unknown(rng: np.random.Generator, space: Space, name: str) -> Unknown:
    attribute = str(rng.choice(list(space.attributes)))
    if attribute != "bounds":
        return Unknown(name, space.shape, attribute)
    low, high = rng.uniform(0.1, 2.0, 2).round(2)
    return Unknown(name, space.shape, "", (float(0.3 - low), float(1.5 + high)))


def _graph(
    rng: np.random.Generator, kind: str, points: Sequence[np.ndarray], unknowns: list[Unknown]
) -> tuple[tuple[Link, ...], tuple[tuple[str, str], ...]]:
    """The consensus equalities, and the topology of a shared variable."""
    count = len(points)
    tree = [(int(rng.integers(0, at)), at) for at in range(1, count)]
    pairs = {
        "chain": list(nx.path_graph(count).edges),
        "ring": list(nx.cycle_graph(count).edges) if count > 2 else [(0, 1)],
        "tree": tree,
        "complete": list(nx.complete_graph(count).edges),
        "affine": tree,
    }
    if kind == "shared":
        return (), ()
    if kind == "topology":
        more = pairs[str(rng.choice(["chain", "ring", "tree"]))]
        return (), tuple((f"c{a}", f"c{b}") for a, b in more)
    if kind == "server":
        unknowns.append(Unknown("y9", unknowns[0].shape))
        return tuple(Link("x9", f"x{at}") for at in range(count)), ()
    if kind == "affine":
        return tuple(_sides(rng, a, b, points[a], points[b]) for a, b in tree), ()
    turned = rng.random(len(pairs[kind])) < 0.3
    ends = [(b, a) if turn else (a, b) for (a, b), turn in zip(pairs[kind], turned, strict=True)]
    return tuple(Link(f"x{a}", f"x{b}") for a, b in ends), ()


def _sides(rng: np.random.Generator, a: int, b: int, left: np.ndarray, right: np.ndarray) -> Link:
    """Two affine sides that agree at the points of the two clients."""
    size = min(left.size, right.size)
    if rng.random() < 0.4:
        rows = int(rng.integers(1, size + 1))
        shift = (left[:rows] - right[:rows]).tolist()
        return Link(f"x{a}[:{rows}]", f"x{b}[:{rows}] + np.array({shift!r})")
    rows = int(rng.integers(1, size + 1))
    A = rng.uniform(-1, 1, (rows, left.size)).round(2) + np.eye(rows, left.size)
    B = rng.uniform(-1, 1, (rows, right.size)).round(2) + np.eye(rows, right.size)
    shift = A @ left - B @ right
    return Link(f"{array(A)} @ x{a}", f"{array(B)} @ x{b} + {array(shift)}")


def _units(rng: np.random.Generator, movable: bool) -> tuple[Units, str]:
    def power() -> float:
        return float(10.0 ** round(rng.uniform(-6, 6), 1))

    def offset() -> float:
        sign = rng.choice([-1.0, 1.0])
        return float(sign * 10.0 ** round(rng.uniform(0, 6), 1)) if movable else 0.0

    how = str(
        rng.choice(
            ["ordinary", "objective", "variable", "offset", "all units"],
            p=[0.5, 0.17, 0.13, 0.1, 0.1],
        )
    )
    if how == "offset" and not movable:
        how = "ordinary"
    units = {
        "ordinary": lambda: Units(),
        "objective": lambda: Units(objective=power()),
        "variable": lambda: Units(variable=power()),
        "offset": lambda: Units(offset=offset()),
        "all units": lambda: Units(power(), power(), offset()),
    }
    return units[how](), how


def _options(
    rng: np.random.Generator, names: Sequence[str], ordinary: bool
) -> tuple[tuple[str, str], ...]:
    """The options of the solve: mostly none, else one or two."""
    count, seed = len(names), int(rng.integers(0, 100))
    some = rng.choice(list(names))
    k = int(rng.integers(1, count + 1))
    choices = {
        "sequence": [
            "dm.Sequence.natural()",
            f'dm.Sequence.from_root("{some}")',
            f"dm.Sequence.random({k}, seed={seed})",
            f"dm.Sequence.essentially_cyclic({k}, seed={seed})",
            f"dm.Sequence.greedy({k})",
            f'dm.Sequence.repeat(["{some}"])',
            f'dm.Sequence.natural() + dm.Sequence.from_root("{some}")',
        ],
        "algorithm": [
            "dm.ConsensusADMM()",
            "dm.ConsensusADMM(0.7)",
            "dm.DALD(0.8)",
            "dm.BCD(multipliers=True)",
        ],
        "stopping": [
            "dm.FixedBudget(1)",
            "dm.FixedBudget(3)",
            "dm.GrowingBudget()",
            "dm.ShrinkingTolerance()",
            "dm.FixedTolerance()",
        ],
        "online": [
            f"dm.Dropout(0.2, seed={seed})",
            f"dm.LossyLinks(0.1, seed={seed})",
            f'dm.Stragglers({{"{some}": 2}})',
            f'{{3: dm.Change(absent=["{some}"])}}',
            f'{{3: dm.Change(leave=["{some}"]), 8: dm.Change(join=["{some}"])}}',
        ],
        "solver": ['"reference"', '"conic"', '"CLARABEL"', f'{{"{some}": "reference"}}'],
        "rho": ["0.5", "1.0", "2.0"],
        "accuracy": ["1e-8"],
    }
    if not ordinary:  # a penalty that somebody fixes has units
        del choices["rho"]
    if count > 3:  # a solve of cvxpy's a turn takes long
        del choices["solver"]
    drawn = rng.choice(
        list(choices), size=int(rng.choice([0, 1, 2], p=[0.55, 0.35, 0.1])), replace=False
    )
    if {"algorithm", "stopping"} <= set(drawn):
        drawn = ["algorithm"]
    return tuple((str(name), str(rng.choice(choices[name]))) for name in sorted(drawn))
