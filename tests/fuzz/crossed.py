"""The model at a point of the axes: written in natural coordinates, solved in the user's."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from tests.answer.families.drawn import Drawn
from tests.answer.families.programs import Parts, Units, program
from tests.fuzz.coordinates import Coordinates, maps
from tests.fuzz.pairs import Row

INSIDE = 0.1
"""The point whose entries are all this satisfies every drawn constraint, so all are feasible."""
DELTA = 0.5
"""Where the Huber loss turns linear; residuals are about 1."""


class Data(NamedTuple):
    """What is drawn: rows and right sides per owner, weights and constants per owner."""

    A: np.ndarray
    b: np.ndarray
    weights: np.ndarray
    constants: np.ndarray
    form: int


class Crossed(NamedTuple):
    """A model, its declaration, which takes units and a factor of the data, and its coordinates."""

    drawn: Drawn
    declare: Any
    units: Coordinates


def crossed(row: Row, seed: int) -> Crossed | None:
    """The model of a point; None where the truth is not certain.

    The natural model depends on the seed, and on those axes alone that change the problem; units
    and coordinates are drawn beside it, so that the same seed in other units is the same model.
    """
    rng = np.random.default_rng(seed)
    owners, size = int(row["owners"]), int(rng.integers(2, 5))
    data = _data(rng, row, owners, size)
    declare = partial(_declared, row, data)
    names = ["w"] if row["graph"] in ("shared", "epigraph") else [f"x{i}" for i in range(owners)]
    if row["graph"] == "server":
        names.append("s")
    beside = np.random.default_rng([seed, 1])
    axes = (row["condition"], row["entry unit"], row["owner unit"])
    units = Coordinates(maps=maps(beside, names, size, *axes))
    smooth = row["kind"] in ("logistic", "cone") or row["graph"] == "epigraph"
    solvers = ("CLARABEL", "SCS" if smooth and row["kind"] != "linear" else "PIQP")
    drawn = program("axes", f"{row['kind']}, {row['graph']}", seed, declare, solvers, units)
    return drawn and Crossed(drawn, declare, units)


def _data(rng: np.random.Generator, row: Row, owners: int, size: int) -> Data:
    rows = int(rng.integers(size + 1, 10))
    A = rng.normal(size=(owners, rows, size))
    b = A @ rng.normal(size=size) + rng.normal(size=(owners, rows))
    unit = row["owner unit"]
    weights, constants = np.ones(owners), np.zeros(owners)
    power = float(unit[-1]) if unit[-1].isdigit() else 0.0
    if unit.startswith("spreads"):
        for feature in range(size):  # one owner has the spread 1, the others less
            spread = np.linspace(0, power, owners) if owners > 1 else np.zeros(1)
            A[:, :, feature] *= 10.0 ** -rng.permutation(spread)[:, None]
    if unit.startswith("objectives"):
        spread = np.linspace(-0.5, 0.5, owners) if owners > 1 else np.zeros(1)
        weights = 10.0 ** (rng.permutation(spread) * power)
    if unit.startswith("constants"):
        constants = 10.0**power * rng.normal(size=owners)
    return Data(A, b, weights, constants, int(rng.integers(3)))


def _declared(row: Row, data: Data, units: Units, factor: Any = 1.0) -> Parts:
    graph, count, size = row["graph"], len(data.A), data.A.shape[2]
    one = graph in ("shared", "epigraph")
    shared = units.variable("w", size) if one else None
    z = [units.variable(f"x{i}", size) if shared is None else shared for i in range(count)]
    owners = {}
    for at in range(count):
        cost, rules = _cost(row["kind"], data, at, z[at], factor)
        bounded = graph in ("couple", "epigraph") or at == 0
        if row["kind"] == "linear" and bounded:
            rules = [*rules, z[at] >= -1, z[at] <= 1]
        if at == count - 1:
            rules = [*rules, *_rows(row["rows"], z[at])]
        owners[f"owner {at}"] = (data.weights[at] * cost + data.constants[at], rules)
    if graph == "epigraph":
        return _epigraph(owners, data, units)
    if graph == "couple":
        return _coupled(owners, z, data.form)
    return Parts(owners, _links(graph, count, size, units))


def _cost(kind: str, data: Data, at: int, z: Any, factor: Any) -> tuple[Any, list[Any]]:
    A, b = data.A[at], data.b[at]
    fit = A @ z - factor * b
    if kind == "logistic":
        margin = cp.multiply(np.where(b >= 0, 1.0, -1.0), A @ z)
        return cp.sum(cp.logistic(-margin)) + 0.1 * factor * cp.sum_squares(z), []
    if kind == "huber":
        return cp.sum(cp.huber(fit, DELTA)), []  # pyright: ignore[reportArgumentType]
    if kind == "l1":
        return cp.norm1(fit), []
    if kind == "lasso":
        return 0.5 * cp.sum_squares(fit) + cp.norm1(z), []
    if kind == "box":
        return cp.sum_squares(fit), [z >= -0.5, z <= 0.5]
    if kind == "linear":
        return factor * (A[0] @ z), []
    if kind == "cone":
        return cp.norm(fit, 2) + 0.5 * cp.norm(z, 2), [cp.norm(z, 2) <= 2]
    return cp.sum_squares(fit), []


def _rows(which: str, z: Any) -> list[Any]:
    """Constraints of the last owner; all hold at the point inside."""
    level = INSIDE * z.size
    if which == "zero and redundant":
        return [0 * z[0] <= 1, cp.sum(z) <= 300, 2 * cp.sum(z) <= 600]
    if which == "tight":
        return [cp.sum(z) == level]
    if which == "degenerate":
        return [z[0] <= INSIDE, 2 * z[0] <= 2 * INSIDE, z <= INSIDE, cp.sum(z) <= level]
    return []


def _links(graph: str, count: int, size: int, units: Units) -> list[cp.Constraint]:
    if graph == "server":
        units.variable("s", size)
        return [units.shared("s", f"x{at}") for at in range(count)]
    ends = [(at, at + 1) for at in range(count - 1)] if graph in ("chain", "ring") else []
    if graph == "ring" and count > 2:
        ends.append((count - 1, 0))
    return [units.shared(f"x{a}", f"x{b}") for a, b in ends]


def _coupled(owners: dict[str, Any], z: list[Any], form: int) -> Parts:
    """The sum of all is given, or bounded, or has a cost."""
    total: Any = cp.sum(cp.vstack(z), axis=0)
    level = INSIDE * len(z)
    if form == 0:
        return Parts(owners, coupling=[total == level])
    if form == 1:
        return Parts(owners, coupling=[total <= level, 2 * total[0] <= 2 * level])
    return Parts(owners, joint=0.5 * cp.sum_squares(total - level))


def _epigraph(owners: dict[str, Any], data: Data, units: Units) -> Parts:
    """Each owner's cost is below its level; the coupling's cost is of the levels."""
    levels = units.variable("L", len(owners))
    mine = {
        name: (0, [*rules, cost / data.A.shape[1] <= levels[at]])
        for at, (name, (cost, rules)) in enumerate(owners.items())
    }
    if data.form == 0:
        return Parts(mine, joint=cp.max(levels))
    eta = units.variable("eta")
    if data.form == 1:
        return Parts(mine, joint=eta + cp.sum(cp.pos(levels - eta)) / (0.5 * len(owners)))
    return Parts(mine, joint=eta + np.sqrt(2 / len(owners)) * cp.norm(cp.pos(levels - eta)))
