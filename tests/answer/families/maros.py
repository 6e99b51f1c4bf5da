"""Programs of the Maros-Meszaros set, their columns dealt to 2, 3 or 4 owners.

Rows that touch one owner are its own, all others are one coupling. Columns that the cost ties stay
together. The optima are those of I. Maros and C. Meszaros, "A repository of convex quadratic
programming problems", Optimization Methods and Software 11 (1999), 671-681, table 3.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.io
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from tests.answer.families.drawn import Drawn
from tests.answer.families.programs import Parts, Units, program
from tests.paths import DATA

OPTIMUM = {
    "PRIMALC1": -6.15525083e3,
    "QADLITTL": 4.80318859e5,
    "QAFIRO": -1.59078179,
    "QPCBLEND": -7.84254092e-3,
    "QRECIPE": -2.66616e2,
    "QSC205": -5.81395178e-3,
    "QSCTAP1": 1.41586111e3,
    "QSHARE2B": 1.17036917e4,
}
INFINITE = 1e20
"""The files write no bound as a larger number."""


class Programme(NamedTuple):
    """min x'Px / 2 + q'x + r subject to low <= A x <= high, and the owner of each column."""

    P: Any
    q: np.ndarray
    constant: float
    A: Any
    low: np.ndarray
    high: np.ndarray
    owner: np.ndarray


def maros(rng: np.random.Generator, seed: int) -> Drawn | None:
    """A program of the set; None where the data are absent."""
    name, owners = str(rng.choice(list(OPTIMUM))), int(rng.integers(2, 5))
    path = DATA / "maros" / f"{name}.mat"
    if not path.is_file():
        return None
    declare = partial(declared, read(path, owners))
    solvers = ("CLARABEL", "PIQP", "HIGHS")
    kind = f"{name}, {owners} owners"
    return program("Maros", kind, seed, declare, solvers, published=OPTIMUM[name])


def read(path: Path, owners: int) -> Programme:
    """A file of the set, its columns dealt in order of blocks that the cost ties."""
    data = scipy.io.loadmat(path)
    P, A = sp.csc_matrix(data["P"]).astype(float), sp.csr_matrix(data["A"]).astype(float)
    q, low, high = (data[key].ravel().astype(float) for key in "qlu")
    constant = float(np.ravel(data.get("r", [0]))[0])
    count, label = connected_components(P + P.T + sp.eye(len(q)))
    owner, dealt = np.zeros(len(q), int), 0
    for part in np.argsort([np.flatnonzero(label == c)[0] for c in range(count)]):
        owner[label == part] = min(owners - 1, dealt * owners // len(q))
        dealt += int((label == part).sum())
    return Programme(P, q, constant, A, low, high, owner)


def declared(given: Programme, units: Units) -> Parts:
    """The program over a variable per owner."""
    A, owner = given.A, given.owner
    names = sorted(set(owner.tolist()))
    columns = {o: np.flatnonzero(owner == o) for o in names}
    x = {o: units.variable(f"x{o}", len(columns[o])) for o in names}
    touched = [set(owner[A.indices[a:b]]) for a, b in zip(A.indptr, A.indptr[1:], strict=False)]
    owners = {}
    for o in names:
        mine = [row for row, who in enumerate(touched) if who == {o}]
        P = cp.psd_wrap(given.P[columns[o]][:, columns[o]])
        cost = 0.5 * cp.quad_form(x[o], P) + given.q[columns[o]] @ x[o]
        rules = _rows(A[mine][:, columns[o]] @ x[o], given, mine) if mine else []
        owners[f"owner {o}"] = (cost + (given.constant if o == names[0] else 0), rules)
    between = [row for row, who in enumerate(touched) if len(who) > 1]
    if not between:
        return Parts(owners)
    total = sum(A[between][:, columns[o]] @ x[o] for o in names)
    return Parts(owners, coupling=_rows(total, given, between))


def _rows(expression: Any, given: Programme, rows: list[int]) -> list[cp.Constraint]:
    low, high = given.low[rows], given.high[rows]
    same = low == high
    below, above = (high < INFINITE) & ~same, (low > -INFINITE) & ~same
    found: list[cp.Constraint] = []
    if same.any():
        found.append(expression[np.flatnonzero(same)] == low[same])
    if above.any():
        found.append(expression[np.flatnonzero(above)] >= low[above])
    if below.any():
        found.append(expression[np.flatnonzero(below)] <= high[below])
    return found
