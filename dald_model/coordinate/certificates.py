r"""Proof that the problem of all clients together has no solution.

No drift of the iterates proves anything: medians of house prices drift for long and are bounded. So
what is suspected is proved on the cone program of all clients and consensus constraints at once, in
natural units around the clients' own answers, by Clarabel; and checked by
:mod:`dald_model.solvers.exact.cone_certificates`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.edge_values import sides_of
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.deadline import check_time
from dald_model.declare.wording import short
from dald_model.solvers.exact.cone_certificates import infeasibility, is_unbounded
from dald_model.solvers.exact.native import STATUSES, solved_once
from dald_model.text import SHOWN, counted
from dald_model.values import flat

CARRYING_SHARE = 1e-3
"""Share of the largest multiplier from which on a row has part in a proof: an interior point leaves
multipliers of other rows at some 1e-6 of it."""
LEAST_RAY = 0.5
"""Length that a ray has at least: where there is any, the steepest reaches the box of one."""


PATHS: tuple[dict[str, Any], ...] = (
    {},
    {"equilibrate_enable": False},
    {"static_regularization_enable": False},
)
"""Clarabel's settings that are tried in turn until it solves or proves: it stumbles on some plain
programs without a solution, on each of these paths on others."""


def contradiction(
    compiled: Decomposition, cone: ConeProgram, z: np.ndarray, rows: Mapping[Hashable, slice]
) -> str:
    r"""The constraints that a Farkas proof rests on, by how much each misses; "" if not known.

    With z such that :math:`A^\top z = 0` and :math:`b^\top z < 0`, rows relaxed to
    :math:`b + \delta` stay infeasible while :math:`\delta^\top z < -b^\top z`: a constraint with
    multipliers :math:`\lambda` misses :math:`-b^\top z / \|\lambda\|_1` at least in each of its
    entries.

    ``rows`` says where each client's rows lie in the program.
    """
    vertex = infeasibility(cone)  # of linear rows: it rests on as few as may be
    z = z if vertex is None else vertex
    sizes = np.abs(z) * np.sqrt(sp.csr_array(cone.rows).power(2).sum(axis=1))
    carried = np.where(sizes >= CARRYING_SHARE * sizes.max(), z, 0.0)
    fall = -float(cone.rhs @ carried)
    found = []
    for name, part in rows.items():
        sub = compiled[name]
        if sub.form is None or not carried[part].any() or not sub.is_constrained:
            continue
        found += _of_client(compiled, sub, carried[part], fall)
    if not found:
        return ""
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"these contradict each other: {'; '.join(found[:SHOWN])}{more}"


def _of_client(compiled: Decomposition, sub: Subproblem, z: np.ndarray, fall: float) -> list[str]:
    """The constraints of one client or coupling that have multipliers, and what each misses."""
    found, rules = [], compiled.stated(sub.name)
    for rule, duals in zip(rules, sub.cone_duals(z), strict=False):
        weight = sum(float(np.abs(flat(dual)).sum()) for dual in duals)
        if weight > 0:
            whose = f"{sub.client.kind} {sub.name!r}"
            if sub.name == compiled.holder:
                whose = counted(len(compiled.form.common.places), "client")
            found.append(f"{short(rule, 40)} of {whose} (misses by {fall / weight:.3g})")
    return found


class Proof(NamedTuple):
    """The proved status, the client with most weight in it, and the constraints in conflict."""

    status: Status
    client: Hashable
    conflict: str = ""


def proof(compiled: Decomposition, state: State) -> Proof | None:
    """A proof that the consensus is infeasible or the objective unbounded; None if there is none.

    There is none either where a client has no cone program that we can read.
    """
    off = None if state.channels is None else state.channels.off
    joint = Joint.of(compiled, state.units, off)
    if joint is None:
        return None
    cone = joint.cone
    for options in PATHS:
        found = solved_once(cone, **options)
        status = STATUSES.get(str(found.status))
        # Rows in units far apart are "solved" to tolerances in which they contradict each other
        if status in ("infeasible", "optimal"):
            z = infeasibility(cone, found.z)
            if z is not None:
                return joint.infeasible(compiled, z)
        if status == "optimal":
            return None
        if status == "unbounded" and is_unbounded(cone, found.x, found.s):
            return joint.falling(compiled, np.array(found.x))
    ray = _steepest(cone)
    return None if ray is None else joint.falling(compiled, ray)


def _steepest(cone: ConeProgram) -> np.ndarray | None:
    r"""The ray of length one along which the objective falls most; None where it falls along none.

    .. math:: \min \; q^\top d \quad\text{s.t. } P d = 0, \; -A d \in K, \; |d| \le 1,

    a program with an optimum, where the search for one of the program itself came to no end.
    """
    size, bent = cone.linear.size, sp.csr_array(cone.matrix)
    bent = bent[np.flatnonzero(np.diff(bent.indptr))]
    box, height = sp.eye_array(size), cone.rhs.size
    rays = ConeProgram(
        sp.csc_array((size, size)),
        cone.linear,
        0.0,
        sp.csc_array(sp.vstack([cone.rows, bent, box, -box])),
        np.concatenate([np.zeros(height + bent.shape[0]), np.ones(2 * size)]),
        (*cone.cones, ("ZeroConeT", bent.shape[0]), ("NonnegativeConeT", 2 * size)),
    )
    found = solved_once(rays)
    ray, slacks = np.array(found.x), np.array(found.s)[:height]
    is_whole = STATUSES.get(str(found.status)) == "optimal" and np.abs(ray).max() >= LEAST_RAY
    return ray if is_whole and is_unbounded(cone, ray, slacks) else None


def is_nonnegative(compiled: Decomposition) -> bool:
    """Whether the signs of cvxpy say that no objective is ever below zero, so none is unbounded."""
    clients = [sub.client for sub in compiled.values() if not sub.client.is_server]
    return all(not client.is_remote and client.cost.is_nonneg() for client in clients)


def conflict_of(compiled: Decomposition, sub: Subproblem) -> str:
    """The constraints of one client that contradict each other; "" if they are not known."""
    if sub.form is None:
        return ""
    cone = sub.form.cone
    z = infeasibility(cone, solved_once(cone).z)
    every = {sub.name: slice(0, cone.rhs.size)}
    return "" if z is None else contradiction(compiled, cone, z, every)


def has_point(sub: Subproblem) -> bool:
    """Whether a client by itself has a point, whatever its objective."""
    if sub.form is None:
        return False
    return STATUSES.get(str(solved_once(_without_cost(sub.form.cone)).status)) == "optimal"


def _without_cost(cone: ConeProgram) -> ConeProgram:
    return cone._replace(matrix=0 * cone.matrix, linear=np.zeros(cone.linear.size))


def is_proved_infeasible(sub: Subproblem) -> bool:
    """Whether it is proved that one client by itself has no point.

    Taken to be of who has no cone program that we can read. A solver's proof may need what is left
    of the client's numbers where the rows are met best: beside an offset they have no digits.
    """
    if sub.form is None:
        return True
    cone = sub.form.cone
    near = cone.around(lsmr(cone.rows, cone.rhs)[0][: sub.size])
    return any(infeasibility(one, solved_once(one).z) is not None for one in (cone, near))


class Joint(NamedTuple):
    """The cone program of all, and where each client's rows and columns lie in it.

    Its objective is that of all clients divided by ``energy``.
    """

    cone: ConeProgram
    rows: dict[Hashable, slice]
    columns: dict[Hashable, slice]
    energy: float

    @classmethod
    def of(
        cls, compiled: Decomposition, units: Units, off: np.ndarray | None = None
    ) -> Joint | None:
        """Everything in natural units around the clients' own answers.

        ``off`` says which entries of edges are not in the problem, (size,) bool; None is no entry.
        """
        scales = []
        parts: list[ConeProgram] = []
        for name, sub in compiled.items():
            if sub.form is None and not sub.client.is_server:
                return None
            check_time()  # the program of a client with much data takes seconds
            mine = compiled.columns[name]
            own = sub.form.cone if sub.form else _nothing(sub.size)
            cone = own.around(units.start[mine])
            scale = np.ones(cone.linear.size)
            scale[: sub.size] = units.point_lengths[mine]
            parts.append(cone)
            scales.append(scale)
        stops = np.cumsum([scale.size for scale in scales])
        columns = {
            name: slice(int(stop) - scale.size, int(stop))
            for name, scale, stop in zip(compiled, scales, stops, strict=True)
        }
        heights = np.cumsum([part.rhs.size for part in parts])
        rows = {
            name: slice(int(stop) - part.rhs.size, int(stop))
            for name, part, stop in zip(compiled, parts, heights, strict=True)
        }
        agree, apart = _consensus(compiled, units, off, columns, int(stops[-1]))
        scale = sp.diags_array(np.concatenate(scales))
        linear = scale @ np.concatenate([part.linear for part in parts])
        # What slopes for ever and agrees on nothing has no energy that its slopes compare with.
        energy = max(float((units.lengths * units.slopes).max()), np.abs(linear).max(initial=0.0))
        own = sp.block_diag([part.rows for part in parts])
        bends = sp.block_diag([part.matrix for part in parts])
        cone = ConeProgram(
            sp.csc_array(scale @ bends @ scale / energy),
            linear / energy,
            0.0,
            sp.csc_array(sp.vstack([own, agree]) @ scale),
            np.concatenate([*(part.rhs for part in parts), apart]),
            (*(one for part in parts for one in part.cones), ("ZeroConeT", apart.size)),
        )
        return cls(cone, rows, columns, energy)

    def infeasible(self, compiled: Decomposition, z: np.ndarray) -> Proof:
        """The proof that a certificate of infeasibility gives."""
        said = contradiction(compiled, self.cone, z, self.rows)
        weights = np.abs(self.cone.rhs * z)
        return Proof(Status.INFEASIBLE, self.heaviest(weights, self.rows), said)

    def falling(self, compiled: Decomposition, ray: np.ndarray) -> Proof | None:
        """The proof that a ray gives along which the objective falls."""
        # It falls also where no point keeps all constraints
        z = infeasibility(self.cone, solved_once(_without_cost(self.cone)).z)
        if z is not None:
            return self.infeasible(compiled, z)
        if is_nonnegative(compiled):
            return None
        client = self.heaviest(-self.cone.linear * ray, self.columns)
        return Proof(Status.UNBOUNDED, client)

    def heaviest(self, weights: np.ndarray, parts: dict[Hashable, slice]) -> Hashable:
        """The client with most of these weights."""
        return max(parts, key=lambda name: weights[parts[name]].sum())


def _nothing(size: int) -> ConeProgram:
    """The cone program of a server."""
    empty = sp.csc_array((size, size))
    return ConeProgram(empty, np.zeros(size), 0.0, sp.csc_array((0, size)), np.zeros(0), ())


def _consensus(
    compiled: Decomposition,
    units: Units,
    off: np.ndarray | None,
    columns: dict[Hashable, slice],
    width: int,
) -> tuple[sp.csc_array, np.ndarray]:
    """The rows of the consensus constraints that are in the problem, and their right sides."""
    counted = np.ones(compiled.size, dtype=bool) if off is None else ~off
    data, rows, where = [], [], []
    for name, sub in compiled.items():
        matrix = sub.sides[0].tocoo()
        data.append(matrix.data * sub.signs[matrix.row])
        rows.append(sub.entries[matrix.row])
        where.append(columns[name].start + matrix.col)
    at = np.concatenate(rows), np.concatenate(where)
    found = sp.csr_array(sp.coo_array((np.concatenate(data), at), shape=(compiled.size, width)))
    sides = sides_of(compiled, units.start)
    inverse = 1 / units.lengths
    found = sp.diags_array(inverse) @ found
    return sp.csc_array(found[np.flatnonzero(counted)]), ((sides[1] - sides[0]) * inverse)[counted]
