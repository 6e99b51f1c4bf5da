"""The ways into the package: each solves the same model, by the same options."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp

import dald_model as dm
from tests.answer.families.programs import Parts, modelled
from tests.fuzz.crossed import Crossed
from tests.fuzz.pairs import Row

FIRST = 5
"""Rounds of the run that "start" goes on from: enough that it has learnt, too few to be over."""
BEFORE = 0.7
"""The factor of the data before the Parameter changes to 1."""


def options(row: Row, seed: int) -> dict[str, Any]:
    """What ``solve`` is given."""
    return {
        "default": {},
        "gap 1e-2": {"gap": 1e-2},
        "gap 1e-4": {"gap": 1e-4},
        "accuracy 1e-8": {"accuracy": 1e-8},
        "no acceleration": {"acceleration": None},
        "random sequence": {"sequence": dm.Sequence.random(1, seed=seed)},
        "ADMM": {"algorithm": dm.ConsensusADMM()},
        "growing budget": {"stopping": dm.GrowingBudget()},
    }[row["option"]]


def solved(row: Row, model: Crossed, seed: int) -> dm.Result:
    """The result at a point of the axes."""
    given = options(row, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of orders without a guarantee; the user would be told
        return WAYS[row["entry point"]](model, given)


def _solve(model: Crossed, given: dict[str, Any]) -> dm.Result:
    return model.drawn.build().solve(**given)


def _decompose(model: Crossed, given: dict[str, Any]) -> dm.Result:
    """All costs and constraints as one problem of cvxpy's."""
    parts: Parts = model.declare(model.units.fresh)
    total: Any = sum(parts.costs[1:], parts.costs[0])
    return dm.decompose(cp.Problem(cp.Minimize(total), parts.rules)).solve(**given)


def _start(model: Crossed, given: dict[str, Any]) -> dm.Result:
    declared = model.drawn.build()
    return declared.solve(**given, start=declared.solve(max_rounds=FIRST))


def _parameter(model: Crossed, given: dict[str, Any]) -> dm.Result:
    """Solved for other data, which a Parameter then changes, and from that result on."""
    factor = cp.Parameter(nonneg=True, value=BEFORE)
    here = model.units.fresh
    declared = modelled("parameter", model.declare(here, factor), here)
    before = declared.solve()
    factor.value = 1.0
    return declared.solve(**given, start=before)


def _sites(model: Crossed, given: dict[str, Any]) -> dm.Result:
    """Each owner declares its own part, with a variable of the same name."""
    sites, count = [], len(model.declare(model.units.fresh).owners)
    for at in range(count):
        here = model.units.fresh
        cost, rules = model.declare(here).owners[f"owner {at}"]
        sites.append(dm.Site(f"owner {at}", cost, rules, shared=[here.made["w"]]))
    return dm.Federation(dm.engines.Sites(sites)).solve(**given)


def _processes(model: Crossed, given: dict[str, Any]) -> dm.Result:
    with dm.engines.Processes(2) as engine:
        return model.drawn.build().solve(**given, engine=engine)


WAYS = {
    "solve": _solve,
    "decompose": _decompose,
    "start": _start,
    "parameter": _parameter,
    "sites": _sites,
    "processes": _processes,
}
