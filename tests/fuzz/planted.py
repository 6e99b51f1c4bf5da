"""Wrong results, planted in right ones: neither the certificate nor ``verify`` may pass them.

Every size is relative to the truth's own scale, and just above what the truth calls wrong: 2e-3 of
the scale for a value, 2e-3 of its size for a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dald_model as dm
from tests.answer.families.drawn import TOL, WRONG, Truth
from tests.fuzz.axes import point
from tests.fuzz.axes_judge import SECONDS, outcome, witnesses
from tests.fuzz.crossed import Crossed, crossed
from tests.fuzz.judge import TimeoutReached, limited
from tests.fuzz.pairs import Row

STEP = 2 * WRONG * TOL
"""Twice what the truth calls wrong."""
ENTRY = {"option": "default", "entry point": "solve"}
"""Results are planted in plain runs: how they were found says nothing of what is planted."""
VISIBLE = 1e-7
"""A result prints eight digits: a smaller share of the value is not said, so it cannot be wrong."""
DIRECTIONS = 8
"""Random directions beside the axes, of which the flattest is taken."""
HALVINGS = 60
"""Of a step along a direction, to where the objective is above the least by the wanted amount."""


@dataclass(frozen=True)
class Planted:
    """A wrong result and what was done to it."""

    what: str
    result: Any


def planted(row: Row, model: Crossed, result: Any, rng: np.random.Generator) -> Iterator[Planted]:
    """All that can be planted in a right result."""
    truth, scale = model.drawn.truth, model.drawn.truth.scale
    if _is_visible(truth):
        shifted = result.value + STEP * scale * rng.choice([-1.0, 1.0])
        yield Planted("value shifted", replace(result, value=shifted))
    half = result.value + 0.5 * max(abs(result.value), scale)
    yield Planted("value + 50 %", replace(result, value=half))
    yield Planted("value NaN", replace(result, value=np.nan))
    yield from _copies(truth, result, rng)
    values = {name: np.asarray(result[name], dtype=float) for name in truth.units}
    if row["graph"] == "couple" and (swapped := _swapped(model, values)):
        yield Planted("clients swapped", placed(result, swapped))
    if moved := _along_a_flat_direction(row, model, values, rng):
        found = replace(placed(result, moved), value=truth.objective(moved))
        yield Planted("a flat direction", found)
    early = model.drawn.build().solve(max_rounds=1)
    if not early.status.has_answer and truth.label(early) == "wrong":
        yield Planted("status relabelled", replace(early, status=dm.Status("optimal")))


def missed(seed: int) -> Counter[tuple[str, str, str]]:
    """(corruption, witness, outcome) -> count; empty where the honest result is not right."""
    row = {**point(seed), **ENTRY}
    counts: Counter[tuple[str, str, str]] = Counter()
    try:
        with limited(SECONDS):
            model = crossed(row, seed)
            if model is None:
                return counts
            result = model.drawn.build().solve()
            if result.status != "optimal" or model.drawn.truth.label(result) != "right":
                return counts
            for one in planted(row, model, result, np.random.default_rng([seed, 2])):
                for name, check in witnesses(one.result).items():
                    counts[one.what, name, outcome(check)] += 1
    except (TimeoutReached, dm.DaldError) as error:
        counts["the rest", "neither", type(error).__name__] += 1
    return counts


def placed(
    result: Any, values: Mapping[str, np.ndarray], holder: Any = None, point: bool = True
) -> Any:
    """The result with other values by names of variables, at all who hold them or at one."""
    clients = {**result.compiled.form.clients}
    recovered = result.recovered
    held = {
        name: {
            key: _as(values, _name(clients, name, key), old) if holder in (None, name) else old
            for key, old in mine.items()
        }
        for name, mine in recovered.at_clients.items()
    }
    names = {v.id: v.name() for v in result.compiled.model.variables}
    own = {key: _as(values, names.get(key, ""), old) for key, old in recovered.values.items()}
    whole = own if point else recovered.values
    return replace(result, recovered=replace(recovered, values=whole, at_clients=held))


def _name(clients: Mapping[Any, Any], holder: Any, key: int) -> str:
    return next((v.name() for v in clients[holder].variables if v.id == key), "")


def _as(values: Mapping[str, np.ndarray], name: str, old: Any) -> Any:
    return values[name].reshape(np.shape(old)) if name in values else old


def _copies(truth: Truth, result: Any, rng: np.random.Generator) -> Iterator[Planted]:
    """One entry of one holder's copy, a server's included, and of what the user reads."""
    names = list(truth.units)
    holders = list(result.recovered.at_clients)
    servers = [name for name in holders if name in result.compiled.servers]
    owners = [name for name in holders if name not in servers]
    for what, among in (("an owner's copy", owners), ("a server's copy", servers)):
        clients = result.compiled.form.clients
        held = [(h, v.name()) for h in among for v in clients[h].variables if v.name() in names]
        if held:
            moved = _moved(truth, result, held[0][1], rng)
            yield Planted(what, placed(result, moved, held[0][0], point=False))
    moved = _moved(truth, result, names[0], rng)
    yield Planted("the point alone", placed(result, moved, holder="nobody"))


def _is_visible(truth: Truth) -> bool:
    """Whether a step is more than rounding, and more than the last digit that is printed."""
    step = STEP * truth.scale
    return step > 10 * truth.grain and step > VISIBLE * abs(truth.optimum - truth.constant)


def _moved(truth: Truth, result: Any, name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One entry of a variable moved by ``STEP`` of the variable's size."""
    unit, at = truth.units[name], np.array(result[name], dtype=float)
    size = max(1.0, float(np.abs(truth.point[name] / unit).max(initial=0.0)))
    step = np.zeros(at.size)
    step[int(rng.integers(at.size))] = STEP * size * rng.choice([-1.0, 1.0])
    return {name: at + unit * step.reshape(at.shape)}


def _swapped(model: Crossed, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first two owners' values exchanged; empty where they are the same."""
    if "x1" not in values or np.allclose(values["x0"], values["x1"], rtol=STEP, atol=0):
        return {}
    other = {**values, "x0": values["x1"], "x1": values["x0"]}
    return other if model.drawn.truth.label_of(other, model.drawn.optimum) == "wrong" else {}


def _along_a_flat_direction(
    row: Row, model: Crossed, values: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """A common move in the flattest direction, to where F - F* is ``STEP`` times the scale.

    Owners that agree move together; those that share out a sum move against one another.
    """
    truth, units = model.drawn.truth, model.units
    wanted = STEP * truth.scale
    names = [name for name in values if name not in ("L", "eta")]
    natural = {name: units.natural(name, values[name]) for name in names}
    if row["graph"] == "epigraph" or not _is_visible(truth):
        return {}
    signs = dict.fromkeys(names, 1.0)
    if row["graph"] == "couple":
        signs = {name: {"x0": 1.0, "x1": -1.0}.get(name, 0.0) for name in names}

    def at(step: float, way: np.ndarray) -> dict[str, np.ndarray]:
        moved = {n: z + signs[n] * step * way for n, z in natural.items()}
        return {name: units.user(name, z) for name, z in moved.items()}

    size = natural[names[0]].size
    ways = [*np.eye(size), *rng.normal(size=(DIRECTIONS, size))]
    flat = min((way / np.linalg.norm(way) for way in ways), key=lambda w: truth.excess(at(1.0, w)))
    if not truth.excess(at(1.0, flat)) > wanted:
        return {}
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if truth.excess(at(middle, flat)) > wanted else (middle, high)
    return at(high, flat)
