r"""Clients that constraints and kinks hold: a bound from multipliers at their own points.

Let u be a client's own point, g the gradient of what is smooth there, p its prices, and C the
slopes of what may hold it: rows that are met, balls that it is at the edge of, kinks that it is at.
For any multipliers z within their limits (of any sign for equalities, positive for inequalities and
balls, at most its weight for a kink) the Lagrangian is nowhere above objective and prices, so

.. math:: f(y) + p^\top y \ge \ell(u) - |g + p + C z|^\top |y - u|

with :math:`\ell(u)` its value at u. Where u is the client's minimiser, least squares find the z
that leaves nothing of the slope, and no program is solved.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.terms import Terms

ACTIVE = 1e-6
"""Share of how far it moves in the box by which a row, ball or kink may be away from a point that
it holds: what solvers leave. A multiplier of one that is farther costs a slack."""
MOST = 300
"""Slopes up to which multipliers are sought; beyond, a cone solver is as fast."""


class _Holds:
    """Slopes, values at the point, and limits of the multipliers of what may hold a client."""

    def __init__(self) -> None:
        self.slopes: list[np.ndarray] = []
        self.values: list[float] = []
        self.least: list[float] = []
        self.most: list[float] = []

    def add(self, slope: np.ndarray, value: float, least: float, most: float) -> None:
        """One more."""
        self.slopes.append(slope)
        self.values.append(value)
        self.least.append(least)
        self.most.append(most)


def held_bracket(
    form: Form, price: np.ndarray, at: np.ndarray, own: np.ndarray, reach: np.ndarray
) -> float:
    """How much lower a client's objective and prices can be in the box; infinite if not known."""
    if form.extra or not (form.complete and form.valued):
        return np.inf
    away, quadratic = own - at, form.quadratic
    here, bent = quadratic.times(at) + quadratic.linear + price, quadratic.times(away)
    slope, lower = here + bent, float((here + bent / 2) @ away)
    if form.smooth:
        terms = Terms([form.smooth], form.size)
        slope = slope + terms.gradients(None, own[None])[0]
        lower += float(terms.values(None, own[None])[0] - terms.values(None, at[None])[0])
    holds = _rows(form, own, reach)
    for term in form.terms:
        if term.is_smooth:
            continue
        if not term.is_set:
            lower -= float(term.values(at[None])[0])
        found = _of_term(term, own, reach, holds)
        if found is None:
            return np.inf
        slope, lower = slope + found[0], lower + found[1]
    if len(holds.values) > MOST:
        return np.inf
    if holds.values:
        matrix = np.stack(holds.slopes, axis=1)
        z = _multipliers(matrix * reach[:, None], -slope * reach, holds)
        slope, lower = slope + matrix @ z, lower + float(z @ holds.values)
    gap = float(np.abs(slope) @ (np.abs(away) + reach)) - lower
    return gap if np.isfinite(gap) else np.inf


def _rows(form: Form, own: np.ndarray, reach: np.ndarray) -> _Holds:
    """The equalities, and the inequalities that are met."""
    holds = _Holds()
    for row, right in zip(*form.equalities, strict=True):
        holds.add(row, float(row @ own - right), -np.inf, np.inf)
    matrix, right = form.inequalities
    if right.size:
        over = matrix @ own - right
        near = over >= -ACTIVE * (np.abs(matrix) @ reach)
        for row, value in zip(matrix[near], over[near].tolist(), strict=True):
            holds.add(row, value, 0.0, np.inf)
    return holds


def _of_term(
    term: Term, own: np.ndarray, reach: np.ndarray, holds: _Holds
) -> tuple[np.ndarray, float] | None:
    """The slope and value of the parts of a term that are fixed; the others are added to holds.

    None of a kind that is not known here, and of a norm at its kink.
    """
    matrix = sp.csr_array(term.matrix)
    u = np.asarray(matrix @ own) + term.offset
    moves = np.asarray(abs(matrix) @ reach)
    if term.kind.name == "abs":
        near = np.abs(u) <= ACTIVE * moves
        for i in np.flatnonzero(near):
            w = float(term.weight[i])
            holds.add(matrix[[i]].toarray().ravel(), float(u[i]), -w, w)
        sign = np.where(near, 0.0, term.weight * np.sign(u))
        return np.asarray(matrix.T @ sign), float(sign @ u)
    if not (term.is_set or term.kind.name == "norm"):
        return None
    groups, wide = u.reshape(-1, term.width), moves.reshape(-1, term.width)
    sizes, slope, value = np.linalg.norm(groups, axis=1), np.zeros(own.size), 0.0
    for i, (size, group) in enumerate(zip(sizes.tolist(), groups, strict=True)):
        near = ACTIVE * float(wide[i].max())
        rows = matrix[i * term.width : (i + 1) * term.width]
        if term.is_set:
            if size - term.parameter[i] >= -near and size > 0:
                holds.add(rows.T @ (group / size), size - float(term.parameter[i]), 0.0, np.inf)
        elif size <= near:
            return None
        else:
            slope = slope + term.weight[i] * (rows.T @ (group / size))
            value += float(term.weight[i]) * size
    return slope, value


def _multipliers(matrix: np.ndarray, wanted: np.ndarray, holds: _Holds) -> np.ndarray:
    """Multipliers within their limits that leave little of a slope.

    Kinks alone in their variables, as of an l1 norm, take what they can of it first. The others are
    found by nonnegative least squares: those with a lower limit are counted from it, those without
    have a part of each sign, and upper limits are kept afterwards.
    """
    least, most = np.array(holds.least), np.array(holds.most)
    z = np.zeros(least.size)
    used = np.count_nonzero(matrix, axis=0)
    others = np.count_nonzero(matrix, axis=1)
    alone = (used == 1) & (others[np.abs(matrix).argmax(axis=0)] == 1)
    for at in np.flatnonzero(alone):
        row = int(np.abs(matrix[:, at]).argmax())
        z[at] = np.clip(wanted[row] / matrix[row, at], least[at], most[at])
    left = np.flatnonzero(~alone)
    if not left.size:
        return z
    base = np.where(np.isneginf(least[left]), 0.0, least[left])
    part, is_free = matrix[:, left], np.isneginf(least[left])
    both = np.hstack([part, -part[:, is_free]])
    sizes = np.linalg.norm(both, axis=0)
    sizes[sizes == 0] = 1.0
    try:
        found = nnls(both / sizes, wanted - matrix @ z - part @ base)[0] / sizes
    except RuntimeError:  # it did not converge
        return z
    z[left] = base + found[: left.size]
    z[left[is_free]] -= found[left.size :]
    return np.clip(z, least, most)
