"""Epigraph models, and owners that are unbounded alone."""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np

from tests.answer.families.drawn import Drawn
from tests.answer.families.programs import Parts, Units, program

Rng = np.random.Generator


def epigraphs(rng: Rng, seed: int) -> Drawn | None:
    """Losses of groups below levels, and a measure of risk of the levels as the coupling's cost."""
    groups, size = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    rows = int(rng.integers(5, 40))
    true = rng.normal(size=size)
    X = rng.normal(size=(groups, rows, size))
    y = np.sign(X @ true + rng.normal(size=(groups, rows)))
    target = X @ true + rng.normal(size=(groups, rows)) + rng.normal(size=(groups, 1))
    loss = str(rng.choice(["logistic", "squares"]))
    risk = str(rng.choice(["chi-square", "max", "CVaR"]))
    share = float(rng.uniform(0.3, 0.8))

    def declare(units: Units) -> Parts:
        w, levels = units.variable("w", size), units.variable("L", groups)
        owners = {}
        for at in range(groups):
            if loss == "logistic":
                mean = cp.sum(cp.logistic(cp.multiply(-y[at], X[at] @ w))) / rows
            else:
                mean = cp.sum_squares(X[at] @ w - target[at]) / rows
            owners[f"group {at}"] = (0, [mean <= levels[at]])
        if risk == "max":
            return Parts(owners, joint=cp.max(levels))
        eta = units.variable("eta")
        if risk == "CVaR":
            tail = cp.sum(cp.pos(levels - eta)) / (groups * (1 - share))
        else:
            tail = np.sqrt(2 / groups) * cp.norm(cp.pos(levels - eta))
        return Parts(owners, joint=eta + tail)

    return program("epigraphs", f"{risk} of {loss}, {groups} groups", seed, declare, CONES)


def unbounded_alone(rng: Rng, seed: int) -> Drawn | None:
    """Linear costs per owner, bounded by the others' constraints or by couplings alone."""
    owners, size = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    how = str(rng.choice(["halves", "couplings", "quadratic beside"]))
    declare = {"halves": _halves, "couplings": _couplings, "quadratic beside": _beside}[how]
    made = partial(declare, *_data(rng, owners, size))
    return program("unbounded alone", f"{how}, {owners} owners", seed, made, PROGRAMS)


CONES = ("CLARABEL", "SCS")
PROGRAMS = ("CLARABEL", "PIQP")
"""Two methods: an interior point beside operator splitting, and two interior points of which one
is proximal. HiGHS would do for linear programs alone."""


def _data(rng: Rng, owners: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs, bounds around zero, and rows that are positive, of which sums are bounded."""
    costs = rng.normal(size=(owners, size)).round(3)
    bounds = rng.uniform(0.5, 2, size=(owners, size)).round(3)
    return costs, bounds, rng.uniform(0.2, 1, size=(owners, size, size)).round(3) + np.eye(size)


def _halves(costs: np.ndarray, bounds: np.ndarray, _: np.ndarray, units: Units) -> Parts:
    """A shared variable; each owner bounds it on the side where its own cost does not push it."""
    w = units.variable("w", costs.shape[1])
    owners = {}
    for at, (c, b) in enumerate(zip(costs, bounds, strict=True)):
        side = [w[k] <= b[k] if c[k] > 0 else w[k] >= -b[k] for k in range(len(c))]
        first = [w <= 2.5, w >= -2.5] if at == 0 else []
        owners[f"owner {at}"] = (c @ w, [*side, *first])
    return Parts(owners)


def _couplings(costs: np.ndarray, bounds: np.ndarray, A: np.ndarray, units: Units) -> Parts:
    """Each owner has x >= 0 and gains by its own; the sum of resources used is bounded."""
    x = [units.variable(f"x{at}", costs.shape[1]) for at in range(len(costs))]
    owners = {
        f"owner {at}": (-np.abs(c) @ v, [v >= 0])
        for at, (c, v) in enumerate(zip(costs, x, strict=True))
    }
    used = sum(a @ v for a, v in zip(A, x, strict=True))
    return Parts(owners, coupling=[used <= bounds.sum(axis=0)])


def _beside(costs: np.ndarray, bounds: np.ndarray, A: np.ndarray, units: Units) -> Parts:
    """Linear costs of a chain of equal variables; only the last owner has a quadratic one."""
    x = [units.variable(f"x{at}", costs.shape[1]) for at in range(len(costs))]
    owners = {f"owner {at}": (c @ v, []) for at, (c, v) in enumerate(zip(costs, x, strict=True))}
    owners[f"owner {len(x) - 1}"] = (0.5 * cp.sum_squares(A[-1] @ x[-1] - bounds[-1]), [])
    links = [units.shared(f"x{at}", f"x{at + 1}") for at in range(len(x) - 1)]
    return Parts(owners, consensus=links)
