"""Well-conditioned models of every kind: in units, with constants, perfect fits, redundant rows."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from tests.answer.families.drawn import Drawn
from tests.answer.families.programs import Parts, Units, program

Rng = np.random.Generator

KINDS = {
    "least squares": "PIQP",
    "ridge": "PIQP",
    "lasso": "PIQP",
    "quantile": "PIQP",
    "hinge": "PIQP",
    "box": "PIQP",
    "logistic": "SCS",
    "groups": "SCS",
    "balance": "PIQP",
    "budget": "PIQP",
}
"""Kind -> the second solver beside Clarabel."""

UNITS = {
    "as it is": Units(),
    "constants 1e9": Units(constant=1e9),
    "objective 1e-6": Units(objective=1e-6),
    "objective 1e6": Units(objective=1e6),
    "variables 1e-6": Units(size=1e-6),
    "variables 1e6": Units(size=1e6),
    "offset 1e4": Units(offset=1e4),
}
EDGES = ("perfect fit", "all zero", "zero and redundant rows")


class Data(NamedTuple):
    """Rows and right sides of each owner, and what else a kind may need."""

    A: np.ndarray
    b: np.ndarray
    weight: float
    edge: str


def ordinary(rng: Rng, seed: int) -> Drawn | None:
    """One kind, in one unit or at one edge."""
    owners, size = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    how = str(rng.choice([*UNITS, *EDGES]))
    kind = str(rng.choice(list(KINDS)))
    if how == "perfect fit":
        kind = str(rng.choice(["least squares", "quantile"]))
    rows = int(rng.integers(size + 2, 25))
    A = rng.normal(size=(owners, rows, size))
    true = rng.normal(size=size)
    b = A @ true + (rng.normal(size=(owners, rows)) if how != "perfect fit" else 0.0)
    if how == "all zero":
        kind, b = str(rng.choice(["ridge", "lasso", "balance"])), 0 * b
    data = Data(A, b, float(rng.uniform(0.2, 2)), how)
    declare = partial(_declared, kind, data)
    name = f"{kind}, {how}, {owners} owners"
    return program("ordinary", name, seed, declare, ("CLARABEL", KINDS[kind]), UNITS.get(how))


def degenerate(rng: Rng, seed: int) -> Drawn | None:
    """Linear programs with more active rows than variables, coupled or with a shared variable."""
    owners, size = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    vertex = rng.integers(-2, 3, size=size).astype(float)
    rows = rng.integers(-2, 3, size=(owners, size + 1, size)).astype(float)
    prices = rng.integers(0, 3, size=(owners, size + 1)).astype(float)
    pull = np.einsum("ij,ijk->ik", prices, rows)[rng.permutation(owners)]
    coupled = rng.random() < 0.4

    def declare(units: Units) -> Parts:
        if coupled:
            x = [units.variable(f"x{at}", size) for at in range(owners)]
            total: Any = cp.sum(cp.vstack(x), axis=0)
            mine = {
                f"owner {at}": (prices[at, 0] * cp.sum(v), [v >= 0, v <= 2])
                for at, v in enumerate(x)
            }
            return Parts(mine, coupling=[total == 2.0, 2 * total[0] == 4.0])
        w = units.variable("w", size)
        return Parts(
            {
                f"owner {at}": (-pull[at] @ w, [rows[at] @ w <= rows[at] @ vertex])
                for at in range(owners)
            }
        )

    kind = f"{'coupled' if coupled else 'shared'}, {owners} owners"
    return program("degenerate", kind, seed, declare, ("CLARABEL", "HIGHS"))


def _declared(kind: str, data: Data, units: Units) -> Parts:
    if kind in ("balance", "budget"):
        return _coupled(kind, data, units)
    w = units.variable("w", data.A.shape[2])
    owners = {}
    for at, (A, b) in enumerate(zip(data.A, data.b, strict=True)):
        cost, rules = _owner(kind, A, b, data.weight, w)
        if data.edge == "zero and redundant rows":
            rules = [*rules, 0 * w <= 1, cp.sum(w) <= 50, 2 * cp.sum(w) <= 100]
        owners[f"owner {at}"] = (cost, rules)
    return Parts(owners)


def _owner(
    kind: str, A: np.ndarray, b: np.ndarray, weight: float, w: cp.Expression
) -> tuple[Any, list[cp.Constraint]]:
    """The cost and the constraints of one owner; every sum is bounded below by zero."""
    fit = A @ w - b
    margin = cp.multiply(np.where(b >= 0, 1.0, -1.0), A @ w)
    if kind == "ridge":
        return cp.sum_squares(fit) + weight * cp.sum_squares(w), []
    if kind == "lasso":
        return 0.5 * cp.sum_squares(fit) + weight * len(b) / 4 * cp.norm1(w), []
    if kind == "quantile":
        return cp.sum(0.3 * cp.pos(fit) + 0.7 * cp.neg(fit)), []
    if kind == "hinge":
        return cp.sum(cp.pos(1 - margin)) + weight * cp.sum_squares(w), []
    if kind == "box":
        return cp.sum_squares(fit), [w >= -0.5, w <= 0.5]
    if kind == "logistic":
        return cp.sum(cp.logistic(-margin)) + 0.1 * weight * cp.sum_squares(w), []
    if kind == "groups":
        return 0.5 * cp.sum_squares(fit) + weight * cp.norm(w, 2), []
    return cp.sum_squares(fit), []


def _coupled(kind: str, data: Data, units: Units) -> Parts:
    """Quadratic costs of private variables whose sum is given, or at most a budget."""
    owners, x = {}, []
    for at, (A, b) in enumerate(zip(data.A, data.b, strict=True)):
        x.append(units.variable(f"x{at}", data.A.shape[2]))
        owners[f"owner {at}"] = (cp.sum_squares(A @ x[at] - b) / len(b), [x[at] >= -3, x[at] <= 3])
    total: Any = cp.sum(cp.vstack(x), axis=0)
    rules = [total == 0.0] if kind == "balance" else [total <= 1.0, cp.sum(total) <= 0.5]
    if data.edge == "zero and redundant rows":
        rules = [*rules, 2 * total[0] == 0.0 if kind == "balance" else 2 * total[0] <= 2.0]
    return Parts(owners, coupling=rules)
