r"""Clients with smooth terms by their tangents and quadratic models, which are small cone programs.

Of smooth terms :math:`\varphi` and any point u of their domain

.. math:: \varphi(y) \ge \varphi(u) + \nabla\varphi(u)^\top (y - u),

so with tangents in the place of the terms the least value within a box is a lower bound. With the
Hessian beside the tangent the program is the step of a proximal Newton method, which finds the u
where the bound is sharp. Rows of data, which a cone program of the terms has one cone for each, are
multiplied out to slopes and Hessians: a client of 300 records is a program in its variables alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form
from dald_model.sizes import STEPS
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.lower_bound import BoxBound, bounded, nothing

LOSABLE = 1e-9
"""Share of what the prices are worth in the box that a bound may lose, unless told otherwise."""


def least_within(
    form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray, enough: float = 0.0
) -> BoxBound:
    """A lower bound of a client's objective plus ``linear @ x`` for :math:`|x - centre|` within.

    Parameters
    ----------
    form : Form
    linear, centre, reach : ndarray, shape (m,)
        As of :func:`dald_model.solvers.exact.lower_bound.bounded`, which is asked where the client
        has no smooth terms or tangents do not do.
    enough : float
        What the bound may lose.
    """
    best = nothing(centre)
    if is_split(form):
        if not form.smooth:
            return _bounded(split_program(form.around(centre)), linear, centre, reach)
        best, is_sharp = _by_tangents(form, linear, centre, reach, enough)
        if is_sharp:
            return best
    return max(best, bounded(form.cone, linear, centre, reach), key=lambda one: one.value)


def _bounded(
    cone: ConeProgram, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray
) -> BoxBound:
    """The bound of a program that is counted from the centre."""
    found = bounded(cone, linear, np.zeros(centre.size), reach)
    return BoxBound(found.value + float(linear @ centre), centre + found.point, found.cut)


def is_split(form: Form) -> bool:
    """Whether all of a client is known as quadratic, rows and terms."""
    return form.complete and form.valued


def split_program(form: Form) -> ConeProgram:
    """The client without smooth terms as a cone program of these parts."""
    return _program(form, np.zeros(form.size), 0.0)


def _by_tangents(
    form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray, enough: float
) -> tuple[BoxBound, bool]:
    """The best bound by tangents, and whether it is as high as the client's own values."""
    here, size = form.around(centre), form.size
    terms, worth = Terms.of([here.smooth], size), float(np.abs(linear) @ reach)
    enough = max(enough, LOSABLE * worth)
    level = float(linear @ centre)
    best, u = nothing(centre), np.zeros(size)
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            value, slopes = float(terms.values(None, u[None])[0]), terms.gradients(None, u[None])[0]
            if not (np.isfinite(value) and np.isfinite(slopes).all()):
                break
            tangent = _program(here, slopes, value - float(slopes @ u))
            found = _bounded(tangent, linear, centre, reach)
            best = max(best, found, key=lambda one: one.value)
            if here.objective(u) + float(linear @ u) + level - best.value <= enough:
                return best, True
            model = _model(here, terms, u)
            if model is None:
                break
            u = bounded(model, linear, np.zeros(size), reach).point
    return best, False


def _model(here: Form, terms: Terms, u: np.ndarray) -> ConeProgram | None:
    """The client with the quadratic model of its smooth terms at u; None where there is none."""
    with np.errstate(all="ignore"):
        slopes, bends = terms.gradients(None, u[None])[0], terms.hessians(None, u[None])[0]
    if not (np.isfinite(slopes).all() and np.isfinite(bends).all()):
        return None
    return _program(here, slopes - bends @ u, 0.0, bends)


def _program(
    form: Form, slopes: np.ndarray, level: float, bends: np.ndarray | None = None
) -> ConeProgram:
    """The client with these slopes and Hessian in the place of its smooth terms."""
    matrix = form.quadratic.full if bends is None else form.quadratic.full + bends
    found = _cone_program(form)
    full, cost = sp.csc_array(matrix), found.linear.copy()
    full.resize(found.matrix.shape)
    cost[: form.size] += form.quadratic.linear + slopes
    return found._replace(matrix=full, linear=cost, constant=form.quadratic.constant + level)


def _cone_program(form: Form) -> ConeProgram:
    """The rows and then the terms over (x, the extra variables, one for every summand's value)."""
    terms = [term for term in form.terms if not term.is_smooth]
    if not terms and not form.extra:
        return _cone_of_rows(form)
    at = form.size + form.extra
    columns = at + sum(term.weight.size for term in terms if not term.is_set)
    matrix: Any = sp.csr_array(np.vstack([form.equalities.matrix, form.inequalities.matrix]))
    matrix.resize((matrix.shape[0], columns))
    rows, linear = [matrix], [np.zeros(at)]
    rhs = [form.equalities.rhs, form.inequalities.rhs]
    cones: list[tuple[str, Any]] = [
        (kind, height)
        for kind, height in (
            ("ZeroConeT", form.equalities.rhs.size),
            ("NonnegativeConeT", form.inequalities.rhs.size),
        )
        if height
    ]
    for term in terms:
        count = term.weight.size
        matrix = sp.csr_array(term.matrix)
        matrix.resize((matrix.shape[0], columns))
        top: Any = sp.csr_array((count, columns))
        if not term.is_set:
            top = sp.eye_array(count, columns, k=at, format="csr")
            linear.append(term.weight)
            at += count
        found = term.kind.epigraph(matrix, term.offset, term.parameter, top)
        rows.append(found.rows)
        rhs.append(found.rhs)
        cones += found.cones
    return ConeProgram(
        sp.csc_array((columns, columns)),
        np.concatenate(linear),
        0.0,
        sp.csc_array(sp.vstack(rows)),
        np.concatenate(rhs),
        tuple(cones),
    )


def _cone_of_rows(form: Form) -> ConeProgram:
    """The same of a client that has rows alone."""
    parts = (("ZeroConeT", form.equalities), ("NonnegativeConeT", form.inequalities))
    return ConeProgram(
        sp.csc_array((form.size, form.size)),
        np.zeros(form.size),
        0.0,
        sp.csc_array(np.vstack([part.matrix for _, part in parts])),
        np.concatenate([part.rhs for _, part in parts]),
        tuple((kind, part.rhs.size) for kind, part in parts if part.rhs.size),
    )
