r"""Answers moved into the domains of the user's expressions that rounding has left them outside of.

A solver that keeps :math:`x \ge 0` to its accuracy may answer -1e-17, where a square root or an
entropy has no value: the user's objective there would be NaN and a constraint violated without
end. Such a point is moved to the edge, by no more than ``MOVE`` of the natural lengths, a tenth of
what consensus is kept to by default.

A matrix that has to be positive semidefinite for an atom, as of ``matrix_frac``, is moved a little
inside: where an optimum is singular an eigenvalue of 1e-13 in the place of 1e-9 makes anything of
:math:`p^\top X^{-1} p`, and the value in the limit is met from inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import cvxpy as cp
import numpy as np
import scipy.sparse.linalg as spla

from dald_model._cvxpy import Inequality, is_affine_throughout
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.recovered import Recovered
from dald_model.declare.affine import affine_map
from dald_model.declare.client import unique_variables
from dald_model.values import flat, holding, is_inside

MOVE = 1e-7
"""How far a point is moved at most, in natural lengths."""
LIFT = 1e-8
"""The least eigenvalue of such a matrix, in what the natural lengths make of its entries."""
AGREED = 1e-6
"""How far a matrix is moved at most, in natural lengths: a mean of copies is as far from them."""
MISSING = 1e-6
"""Share of a move that may be missing."""
PLANES, JUST_BEYOND = 8, 4 * np.finfo(float).eps
"""So often it is moved onto the planes that it is behind, and how little beyond: sums round."""

Values = Mapping[int, np.ndarray]
"""By variable id, in the variables' shapes."""


def clients_inside(
    compiled: Decomposition, points: Mapping[Hashable, np.ndarray], lengths: np.ndarray
) -> dict[Hashable, np.ndarray]:
    """The clients' points, each inside of what its own objective and constraints are defined on.

    ``lengths`` are those of all clients' variables, one after the other.
    """
    found = dict(points)
    for name, rules in compiled.limited.items():
        sub = compiled[name]
        near = sub.spread(lengths[compiled.columns[name]])
        values = sub.spread(points[name])
        moved = values | inside(rules, values, near)
        found[name] = np.concatenate([flat(moved[v.id]) for v in sub.variables])
    return found


def settle(compiled: Decomposition, recovered: Recovered, lengths: np.ndarray) -> None:
    """Have the values of variables that clients share inside as well, of all clients' domains.

    They are a server's, or means, and so nobody's own.
    """
    if not compiled.limited:  # as mostly
        return
    near: dict[int, np.ndarray] = {}
    parts = {n: sub.spread(lengths[compiled.columns[n]]) for n, sub in compiled.items()}
    for key, homes in compiled.form.homes.items():
        near[key] = np.max([parts[name][v.id] for name, v in homes.items()], axis=0)
    for client in compiled.arrays.clients.values():
        recovered.values.update(inside(client.domains, recovered.values, near))
    recovered.values.update(compiled.arrays.with_arrays(recovered.values))


def inside(
    rules: Sequence[cp.Constraint], values: Values, lengths: Values
) -> dict[int, np.ndarray]:
    """The values that have to be others for a point to be inside; none where nothing is amiss.

    And none where no point near by was found: domains that are neither half-spaces nor of
    semidefinite matrices are left alone.
    """
    moved = _on_planes(rules, values, lengths)
    return moved | lifted(rules, {**values, **moved}, lengths)


def lifted(
    rules: Sequence[cp.Constraint], values: Values, lengths: Values
) -> dict[int, np.ndarray]:
    """The values that have to be others for semidefinite matrices to be a little inside."""
    found: dict[int, np.ndarray] = {}
    for rule in rules:
        if not isinstance(rule, cp.PSD) or not is_affine_throughout(rule.expr):
            continue
        variables = unique_variables([rule])
        if not variables:
            continue
        point = np.concatenate([flat(found.get(v.id, values[v.id])) for v in variables])
        reach = np.concatenate([flat(lengths[v.id]) for v in variables])
        matrix, offset = affine_map(rule.expr, variables)
        entries = (matrix @ point + offset).reshape(rule.expr.shape, order="F")
        if not np.isfinite(entries).all():
            continue
        least = LIFT * float((abs(matrix) @ reach).max())
        low = float(np.linalg.eigvalsh((entries + entries.T) / 2)[0])
        if low >= least:
            continue
        wanted = flat((least - low) * np.eye(len(entries)))
        step = spla.lsqr(matrix, wanted, atol=MISSING**2, btol=MISSING**2)[0]
        is_met = np.allclose(matrix @ step, wanted, rtol=0.0, atol=MISSING * (least - low))
        if is_met and (np.abs(step) <= AGREED * reach).all():
            at = 0
            for v in variables:
                part = (point + step)[at : at + v.size]
                found[v.id] = part.reshape(v.shape, order="F")
                at += v.size
    return found


def _on_planes(
    rules: Sequence[cp.Constraint], values: Values, lengths: Values
) -> dict[int, np.ndarray]:
    """The same of half-spaces."""
    variables = unique_variables(rules)
    given = {v.id: np.asarray(values[v.id], dtype=float) for v in variables}
    if not variables or _is_within(rules, variables, given):
        return {}
    planes = [
        rule.expr
        for rule in rules
        if isinstance(rule, Inequality) and is_affine_throughout(rule.expr)
    ]
    if not planes:
        return {}
    maps = [affine_map(expression, variables) for expression in planes]
    matrix = np.concatenate([part.toarray() for part, _ in maps])
    offset = np.concatenate([level for _, level in maps])
    sizes = np.square(matrix).sum(axis=1)
    reach = MOVE * np.concatenate([flat(lengths[v.id]) for v in variables])
    start = np.concatenate([flat(given[v.id]) for v in variables])
    point, beyond = start.copy(), JUST_BEYOND
    for _ in range(PLANES):
        for row, level, size in zip(matrix, offset, sizes, strict=True):
            over = float(row @ point) + level
            if over > 0 and size > 0:
                point -= row * (over * (1 + beyond) / size)
        if not (np.abs(point - start) <= reach).all():
            return {}
        moved, at = {}, 0
        for v in variables:
            moved[v.id] = point[at : at + v.size].reshape(v.shape, order="F")
            at += v.size
        if _is_within(rules, variables, moved):
            return {key: one for key, one in moved.items() if not np.array_equal(one, given[key])}
        beyond *= 4
    return {}


def _is_within(
    rules: Sequence[cp.Constraint], variables: Sequence[cp.Variable], values: Values
) -> bool:
    with holding((v, values[v.id]) for v in variables):
        return is_inside(rules)
