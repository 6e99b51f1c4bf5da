"""The models of the panel: named, of many kinds, and none chosen for what a change does to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import load
from dald_model.experiments import table1
from dald_model.models.linear_regression import consensus_regression
from tests.benchmarks import acceleration, real_cases
from tests.front import couplings
from tests.paths import DATA, GALLERY, NONCONVEX
from tests.zoo import GRAPHS, PROBLEMS

Make = Callable[[], dm.Model]

KINKS = ("absolute", "hinge")
"""Kinds of `acceleration.KINDS` that stand on each of four graphs."""
OTHERS = ("huber", "simplex", "linear program", "cone")
"""Kinds that stand on two."""


def panel() -> dict[str, Make]:
    """Name -> what declares the model anew; about a hundred."""
    found: dict[str, Make] = {
        f"gallery: {name}": partial(_gallery, name) for name in _gallery_names()
    }
    found |= {f"zoo: {name}": partial(_zoo, name) for name in PROBLEMS}
    for kind in KINKS:
        for graph in ("star", "ring", "grid", "tree"):
            found[f"{kind}, {graph}"] = partial(acceleration.drawn, kind, graph)
    for kind in OTHERS:
        for graph in ("star", "path"):
            found[f"{kind}, {graph}"] = partial(acceleration.drawn, kind, graph)
    found |= {f"coupling: {name}": partial(_coupling, name) for name in couplings.ZOO}
    found["network lasso of logistic districts"] = real_cases.Network().model
    for kind in ("least squares", "lasso", "logistic", "absolute"):
        for change in CHANGES:
            found[f"units: {kind}, {change}"] = partial(_units, kind, change)
    return found | (_published() if DATA.is_dir() else {})


def _published() -> dict[str, Make]:
    """Those of data that have to be downloaded first."""
    found: dict[str, Make] = {"classes, chain": partial(acceleration.schools, chain=True)}
    for name, chain, raw in product(table1.PAPER, (False, True), (False, True)):
        graph, columns = "chain" if chain else "server", ", raw columns" if raw else ""
        found[f"table 1: {name}, {graph}{columns}"] = partial(_table1, name, chain, raw)
    for case in real_cases.owners():
        found[f"owners: {case.title.split(',')[0]}, {case.loss}"] = case.model
    return found


def _gallery_names() -> list[str]:
    return sorted({file.stem for file in GALLERY.glob("[!_]*.py")} - NONCONVEX)


def _gallery(name: str) -> dm.Model:
    return import_module(f"dald_model.models.{name}").model()


def _zoo(name: str) -> dm.Model:
    return PROBLEMS[name]().on(GRAPHS["random"]()).model


def _coupling(name: str) -> dm.Model:
    return couplings.ZOO[name]().model


def _table1(name: str, chain: bool, raw: bool) -> dm.Model:
    rows = load(name, DATA) if raw else load(name, DATA).standardised()
    parts = {f"node {at}": part for at, part in enumerate(rows.split(3, table1.SEED))}
    return consensus_regression(parts, chain=chain)


CHANGES = ("columns from 1e-3 to 1e3", "objective in 1e6", "owners from 1 to 1e4")


def _units(kind: str, change: str) -> dm.Model:
    """Eight clients of one kind in other units: of the columns, of all, or of each owner."""
    rng, model = np.random.default_rng(17), dm.Model(f"{kind}, {change}")
    x, truth = cp.Variable(4), rng.normal(size=4)
    columns = np.logspace(-3, 3, 4) if change == CHANGES[0] else np.ones(4)
    for at in range(8):
        A = rng.normal(size=(15, 4))
        b = A @ truth + rng.normal(size=15)
        weight = {CHANGES[1]: 1e6, CHANGES[2]: 10.0 ** (4 * at / 7)}.get(change, 1.0)
        A = A * columns
        if kind == "lasso":
            # The penalty is on the variables in their old units
            cost = cp.sum_squares(A @ x - b) + 2 * cp.norm1(cp.multiply(columns, x))
        elif kind == "logistic":
            cost = acceleration.KINDS["logistic, no ridge"](A, b, x)
            cost = cost + 0.1 * cp.sum_squares(cp.multiply(columns, x))
        else:
            cost = acceleration.KINDS[kind](A, b, x)
        model.client(at, weight * cost)
    return model
