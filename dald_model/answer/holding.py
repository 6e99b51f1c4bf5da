r"""A cut without a solver: of a client at a point that rows, balls and kinks hold there.

Let u be the point, s the gradient of what is smooth there, p the prices, and :math:`c_k` the slope
and :math:`v_k` the value at u of a row, of a ball's edge, or of the argument of a kink. For any
multipliers z within their limits (of any sign for equalities, positive for inequalities and balls,
at most its weight for a kink) the Lagrangian is nowhere above the client, so

.. math:: f(y) \ge \varphi(u) + \sum_k z_k v_k + (s + C z)^\top (y - u).

Where a method knows z the cut is evaluated. Else, where u is the client's minimiser, least squares
find the z that leaves nothing of s + p. No program is solved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.lower_bound import AUXILIARY, Cut

ACTIVE = 1e-6
"""Share of how far it moves in the box by which a row, ball or kink may be away from a point that
it holds: what solvers leave. A multiplier of one that is farther costs a slack."""
MOST = 300
"""Slopes up to which multipliers are sought; beyond, a cone solver is as fast."""


class Holds(NamedTuple):
    """Slopes (k, m) and values (k,) of what may hold a client, and limits of its multipliers."""

    slopes: np.ndarray
    values: np.ndarray
    least: np.ndarray
    most: np.ndarray


def known_cut(form: Form, multipliers: np.ndarray, u: np.ndarray) -> Cut | None:
    """The cut at u of known z, counted from zero; None where these are not those of all that holds.

    Of equalities, inequalities, balls, and of each argument of a norm, ball or kink, in the order
    of :attr:`Form.kinked`: the gradient of each where it has one. What is beyond its limits is
    brought back to them.
    Extra variables of rows have no slope but what rounding leaves, over as far as rows take them.
    """
    kinks = form.kinked
    heights = [*form.heights, *(term.offset.size for term in kinks)]
    is_known = all(term.is_set or term.kind.name in ("abs", "norm") for term in kinks)
    is_split = form.complete and form.valued and all(_sees(form, term) for term in form.terms)
    if not (is_known and is_split and multipliers.size == sum(heights)):
        return None
    slopes, level = _smooth(form, u)
    u, slopes = (np.concatenate([one, np.zeros(form.extra)]) for one in (u, slopes))
    beyond = np.zeros(form.extra)  # how far the extra variables are from zero, if rows hold them
    equal, over, _, *parts = np.split(multipliers, np.cumsum(heights)[:-1])
    for (matrix, right), z in zip(
        (form.equalities, form.inequalities), (equal, np.maximum(over, 0.0)), strict=True
    ):
        width = matrix.shape[1]
        values, extra = matrix @ u[:width] - right, np.abs(matrix[:, form.size :])
        slopes[:width] += matrix.T @ z
        level += float(z @ values)
        if extra.size:
            far = np.abs(values)[:, None] / np.where(extra > 0, extra, np.inf)
            beyond = np.maximum(beyond, far.max(axis=0))
    for term, part in zip(kinks, parts, strict=True):
        groups = part.reshape(-1, term.width)
        sizes = np.linalg.norm(groups, axis=1)
        if term.is_set:
            level -= float(term.parameter @ sizes)
        else:
            groups = groups * (term.weight / np.maximum(sizes, term.weight))[:, None]
        z = groups.ravel()
        slopes[: form.size] += term.matrix.T @ z
        level += float(z @ (term.matrix @ u[: form.size] + term.offset))
    level -= float(slopes @ u) + AUXILIARY * float(np.abs(slopes[form.size :]) @ beyond)
    return Cut(level, slopes[: form.size]) if np.isfinite(level) else None


def _sees(form: Form, term: Term) -> bool:
    """Whether a term has no variable but the client's."""
    return term.matrix.shape[1] == form.size


def _is_split(form: Form) -> bool:
    return not form.extra and form.complete and form.valued


def _smooth(form: Form, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes and value at u of what is smooth."""
    bent = form.quadratic.times(u)
    slopes, level = bent + form.quadratic.linear, float((bent / 2 + form.quadratic.linear) @ u)
    if form.smooth:
        terms = Terms([form.smooth], form.size)
        slopes = slopes + terms.gradients(None, u[None])[0]
        level += float(terms.values(None, u[None])[0])
    return slopes, level


def held_cut(form: Form, price: np.ndarray, u: np.ndarray, reach: np.ndarray) -> Cut | None:
    """The cut at u, counted from zero; None where it is not known how the client is held.

    ``price`` and ``reach`` say what is to be left of the slopes.
    """
    if not _is_split(form):
        return None
    slopes, level = _smooth(form, u)
    over = form.inequalities.matrix @ u - form.inequalities.rhs
    near = over >= -ACTIVE * (np.abs(form.inequalities.matrix) @ reach)
    ends = np.zeros(form.equalities.rhs.size), np.zeros(int(near.sum()))
    free = form.equalities.matrix @ u - form.equalities.rhs
    holds = [
        Holds(form.equalities.matrix, free, ends[0] - np.inf, ends[0] + np.inf),
        Holds(form.inequalities.matrix[near], over[near], ends[1], ends[1] + np.inf),
    ]
    for term in form.terms:
        if not term.is_smooth:
            found = _of_term(term, u, reach)
            if found is None:
                return None
            holds.append(found)
    whole = Holds(*(np.concatenate(parts) for parts in zip(*holds, strict=True)))
    z, is_free = whole.least.copy(), whole.least < whole.most
    if is_free.sum() > MOST:
        return None
    slopes = slopes + whole.slopes[~is_free].T @ z[~is_free]
    if is_free.any():
        chosen = Holds(*(part[is_free] for part in whole))
        z[is_free] = _multipliers(chosen, reach, -(slopes + price) * reach)
        slopes = slopes + chosen.slopes.T @ z[is_free]
    level += float(z @ whole.values - slopes @ u)
    return Cut(level, slopes) if np.isfinite(level) else None


def _of_term(term: Term, u: np.ndarray, reach: np.ndarray) -> Holds | None:
    """Kinks and balls; None of a kind that is not known here, and of a norm at its kink."""
    rows = sp.csr_array(term.matrix)
    arguments = np.asarray(rows @ u) + term.offset
    moves = ACTIVE * np.asarray(abs(rows) @ reach)
    if term.kind.name == "abs":
        is_near, signs = np.abs(arguments) <= moves, term.weight * np.sign(arguments)
        least, most = (np.where(is_near, s * term.weight, signs) for s in (-1.0, 1.0))
        return Holds(rows.toarray(), arguments, least, most)
    if not (term.is_set or term.kind.name == "norm"):
        return None
    groups = arguments.reshape(-1, term.width)
    sizes, near = np.linalg.norm(groups, axis=1), moves.reshape(groups.shape).max(axis=1)
    if term.is_set:
        at_edge = (sizes >= term.parameter - near) & (sizes > 0)
        values, least = sizes - term.parameter, np.zeros(sizes.size)
        most = np.where(at_edge, np.inf, 0.0)
    elif (sizes <= near).any():
        return None
    else:
        values, least, most = sizes, term.weight, term.weight
    ways = groups / np.where(sizes > 0, sizes, 1.0)[:, None]
    blocks = rows.toarray().reshape(*groups.shape, -1)
    return Holds(np.einsum("kw,kwm->km", ways, blocks), values, least, most)


def _multipliers(holds: Holds, reach: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Multipliers within their limits that leave little of a slope, in units of the reach.

    Kinks alone in their variables, as of an l1 norm, take what they can of it first. The others are
    found by nonnegative least squares: those with a lower limit are counted from it, those without
    have a part of each sign, and upper limits are kept afterwards.
    """
    matrix, least = holds.slopes.T * reach[:, None], holds.least
    used, z = matrix != 0, np.zeros(least.size)
    rows = np.abs(matrix).argmax(axis=0)
    alone = (used.sum(axis=0) == 1) & (used.sum(axis=1)[rows] == 1)
    at = np.flatnonzero(alone)
    z[at] = np.clip(wanted[rows[at]] / matrix[rows[at], at], least[at], holds.most[at])
    left = np.flatnonzero(~alone)
    if not left.size:
        return z
    part, is_free = matrix[:, left], np.isneginf(least[left])
    base = np.where(is_free, 0.0, least[left])
    both = np.hstack([part, -part[:, is_free]])
    sizes = np.linalg.norm(both, axis=0)
    sizes[sizes == 0] = 1.0
    try:
        found = nnls(both / sizes, wanted - matrix @ z - part @ base)[0] / sizes
    except RuntimeError:  # it did not converge
        return np.clip(z, least, holds.most)
    z[left] = base + found[: left.size]
    z[left[is_free]] -= found[left.size :]
    return np.clip(z, least, holds.most)
