r"""A cut from multipliers: of a client at a point that rows, balls and kinks hold there.

Let u be the point, s the gradient of what is smooth there, p the prices, and :math:`c_k` the slope
and :math:`v_k` the value at u of a row, of a ball's edge, or of the argument of a kink. For any
multipliers z within their limits (of any sign for equalities, positive for inequalities and balls,
at most its weight for a kink) the Lagrangian is nowhere above the client, so

.. math:: f(y) \ge \varphi(u) + \sum_k z_k v_k + (s + C z)^\top (y - u).

No program is solved.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.lower_bound import AUXILIARY, Cut


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


def _smooth(form: Form, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes and value at u of what is smooth."""
    bent = form.quadratic.times(u)
    slopes, level = bent + form.quadratic.linear, float((bent / 2 + form.quadratic.linear) @ u)
    if form.smooth:
        terms = Terms.of([form.smooth], form.size)
        slopes = slopes + terms.gradients(None, u[None])[0]
        level += float(terms.values(None, u[None])[0])
    return slopes, level
