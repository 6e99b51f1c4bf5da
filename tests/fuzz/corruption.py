"""Results with one entry off: what the judge then calls wrong, ``verify`` must fail.

A thousandth in ordinary units, in which the data are about 1, of an entry of a value, and of the
variation of F of the reported value. A multiplier is moved by a tenth of the slopes, variation over
spread, as what the judge sees of it, the fall of a bound, is of second order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import dald_model as dm
from tests.expect import flat
from tests.fuzz.case import Case
from tests.fuzz.draw import case as drawn
from tests.fuzz.judge import RIGHT, WRONG, errors, judge, solve
from tests.fuzz.multipliers import dual_gap
from tests.fuzz.reference import SPREAD, Reference, reference

VALUE, PRICE = 1e-3, 1e-1
OF_ALL = "an entry of a value"


def missed(seed: int) -> list[str] | None:
    """What ``verify`` did not see of a drawn model's corruptions.

    None where there is nothing to corrupt, as the honest result is not right and verified.
    """
    case = drawn(seed)
    if judge(case).verdict != "right":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known, result = reference(case), solve(case)
        if not (result.status.has_answer and known.status == "optimal" and result.verify().ok):
            return None
        rng = np.random.default_rng(seed)
        return [
            f"seed {seed}, {what}: {is_wrong}"
            for what, other in corrupted(case, known, result, rng)
            if (is_wrong := _wrong(case, known, other, what)) and other.verify().ok
        ]


def corrupted(
    case: Case, known: Reference, result: dm.Result, rng: np.random.Generator
) -> Iterator[tuple[str, dm.Result]]:
    """One entry of each kind, and what it is."""
    units, recovered = case.units, result.recovered
    measured = {one.name: one.measured for one in case.unknowns}
    by = VALUE * SPREAD * rng.choice([-1.0, 1.0])
    name = str(rng.choice([owner.name for owner in case.owners]))
    own = recovered.at_clients[name]
    names = {v.id: v.name() for v in result.compiled.model.clients[name].variables}
    key = next(k for k in own if measured[names[k]])
    step = by * units.variable
    moved = own | {key: _moved(own[key], rng, step)}
    held = recovered.at_clients | {name: moved}
    yield f"an entry at {name}", replace(result, recovered=replace(recovered, at_clients=held))
    if key in recovered.values:
        values = recovered.values | {key: _moved(recovered.values[key], rng, step)}
        yield OF_ALL, replace(result, recovered=replace(recovered, values=values))
    off = units.objective * known.variation * by
    yield "the reported value", replace(result, value=result.value + off)
    yield "a multiplier", _priced(case, known, result, rng)


def _priced(case: Case, known: Reference, result: dm.Result, rng: np.random.Generator) -> dm.Result:
    """One entry of a multiplier moved, and the declared dual value along with it."""
    scale = case.units.objective / case.units.variable * known.variation / SPREAD
    edges = list(result.compiled.edges)
    edge = edges[int(rng.integers(len(edges)))]
    mu = _moved(result.multipliers[edge.ends], rng, PRICE * scale * rng.choice([-1.0, 1.0]))
    duals = dict(result.recovered.duals)
    for part in edge.parts:
        rule = part.agreement.constraint
        if rule is not None:
            dual = part.sign * mu[part.start : part.stop]
            duals[rule.id] = (dual.reshape(part.agreement.left.shape, order="F"),)
    multipliers = result.multipliers | {edge.ends: mu}
    return replace(
        result, multipliers=multipliers, recovered=replace(result.recovered, duals=duals)
    )


def _moved(value: Any, rng: np.random.Generator, by: float) -> np.ndarray:
    found = flat(value).copy()
    found[int(rng.integers(found.size))] += by
    return found.reshape(np.shape(value), order="F")


def _wrong(case: Case, known: Reference, result: dm.Result, what: str) -> str:
    """What the judge finds wrong of a result; empty where it is still right.

    It looks at the clients' own values; a value that is no client's is wrong as such.
    """
    if what == OF_ALL:
        return f"{VALUE} from the clients'"
    gap, violation, reported = errors(case, known, result)
    if max(abs(gap), violation, reported) > WRONG:
        return f"gap {gap:.1e}, violation {violation:.1e}, reported {reported:.1e}"
    short = dual_gap(case, known, result)
    priced = short if short <= 1e-2 * RIGHT else short / known.variation
    return f"multipliers {priced:.1e}" if priced > WRONG else ""
