r"""Curvature of the clients' objectives, from their forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import RemoteClient
from dald_model.solvers.arrays.terms import Terms

EXACT = 64
"""Up to this many variables the eigenvalues of a Hessian are computed."""
FLOOR = 1e-4
"""Ratio of eigenvalues below which a Hessian counts as flat."""
BEYOND = 1e30
"""A minimum so far away is in no unit: what slopes to there, as a logistic loss does far from its
kink, is flat."""
MANY = 200
"""Variables of a client beyond which it is not worth looking where its objective bends."""
ZERO = 1e-7
"""Ratio below which an eigenvalue is zero: a direction without curvature asks for no penalty."""


@dataclass(frozen=True)
class Curvature:
    r"""Curvature of a client's objective at a point, and what it says.

    Attributes
    ----------
    diagonal : ndarray, shape (m,)
        The diagonal of the Hessian H.
    spread : float
        :math:`\sqrt{\lambda_{\min} \lambda_{\max}}` of
        :math:`D^{-1/2} H D^{-1/2}, \; D = \operatorname{diag} H`; one beyond ``EXACT`` variables.
    kinks : ndarray, shape (m,)
        How steep the terms without a gradient are along each variable.
    elsewhere : ndarray, shape (m,)
        The same of those whose kink is elsewhere than where one variable is zero.
    answer : ndarray, shape (m,)
        Where the quadratic model has its minimum, as far as it has one: a first guess of the
        client's own answer.
    slopes : ndarray, shape (m,)
        The gradient at the point, as far as the terms have one.
    is_known : bool
        Whether every variable that the objective slopes in is curved: only then do these say
        enough of the client.
    """

    diagonal: np.ndarray
    spread: float
    kinks: np.ndarray
    elsewhere: np.ndarray
    answer: np.ndarray
    slopes: np.ndarray
    is_known: bool


def curvature(sub: Subproblem, at: np.ndarray | None = None) -> Curvature:
    """The curvature of a client at a point of shape (m,), by default zero or near it.

    It is unknown where the form has not the whole objective, and where neither point is inside of
    the objective's domain.
    """
    form, start = sub.form, np.zeros(sub.size)
    if form is None or not form.valued:
        return Curvature(start, 1.0, *np.zeros((4, sub.size)), is_known=False)
    hessian, gradient = form.quadratic.full, form.quadratic.linear
    if is_bent(sub):
        terms = Terms([_smooth(form)], sub.size)
        points = [terms.inner()[0]] if at is None else [at, terms.inner()[0]]
        inside = [(point, each) for point in points if (each := _bends(terms, point))]
        if not inside:
            return Curvature(start, 1.0, *np.zeros((4, sub.size)), is_known=False)
        start, (bent, slopes) = inside[0]
        gradient = gradient + hessian @ start + slopes
        hessian = hessian + bent
    diagonal, (sharp, elsewhere) = np.maximum(np.diag(hessian), 0.0), _kinks(form)
    diagonal[np.abs(gradient) > BEYOND * diagonal] = 0.0
    live = diagonal > 0
    root = np.sqrt(diagonal[live])
    scaled = hessian[np.ix_(live, live)] / np.outer(root, root)
    answer = start.copy()
    if live.any():
        ridged = scaled + FLOOR * np.eye(root.size)
        answer[live] -= np.linalg.solve(ridged, gradient[live] / root) / root
    spread = _spread(scaled) if sub.size <= EXACT else 1.0
    # A weight on |x_k| alone keeps at zero what does not slope by more.
    is_known = not (elsewhere[~live].any() or (np.abs(gradient) > sharp)[~live].any())
    return Curvature(diagonal, spread, sharp, elsewhere, answer, gradient, is_known)


def gradient(sub: Subproblem, at: np.ndarray) -> np.ndarray:
    """The gradient of what has one of a client's objective, at a point of its domain, (m,)."""
    assert sub.form is not None
    found = sub.form.quadratic.linear + sub.form.quadratic.full @ at
    terms = _smooth(sub.form)
    return found + Terms([terms], sub.size).gradients(None, at[None])[0] if terms else found


def middle(sub: Subproblem) -> np.ndarray:
    r"""Where the arguments A x + b of what bends an objective are smallest, shape (m,).

    There it is curved, and that point moves with the origin. Zero where it is not bent, is not
    defined everywhere, or has more than ``MANY`` variables.
    """
    if not is_bent(sub) or not is_defined_at_zero(sub) or sub.size > MANY:
        return np.zeros(sub.size)
    assert sub.form is not None
    terms = _smooth(sub.form)
    offset = np.concatenate([term.offset for term in terms])
    if not offset.any():
        return np.zeros(sub.size)
    rows = sp.vstack([sp.csr_array(term.matrix) for term in terms]).toarray()
    return np.linalg.lstsq(rows, -offset)[0]


def is_bent(sub: Subproblem) -> bool:
    """Whether the curvature of a client is known and not the same everywhere."""
    return sub.form is not None and sub.form.valued and bool(_smooth(sub.form))


def is_angular(sub: Subproblem) -> bool:
    """Whether an objective has no curvature at all, or kinks besides those at variables of zero."""
    if isinstance(sub.client, RemoteClient):
        return sub.client.introduction.is_angular
    if sub.form is None or not sub.form.valued:
        return False
    quadratic = sub.form.quadratic
    numbers = quadratic.matrix if quadratic.root is None else quadratic.root
    is_flat = not (np.any(numbers) or _smooth(sub.form))
    return is_flat or any(map(_is_elsewhere, sub.form.terms))


def is_defined_at_zero(sub: Subproblem) -> bool:
    """Whether a client whose curvature is known has no logarithm, nor what is alike."""
    return sub.form is not None and not any(term.kind.is_positive for term in _smooth(sub.form))


def _smooth(form: Form) -> tuple[Term, ...]:
    return tuple(term for term in form.terms if term.is_smooth)


def _bends(terms: Terms, at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Hessian and gradient at a point of the domain, if they are finite there.

    Of log(x) at zero they are not; below zero they are numbers all the same, of no function.
    """
    bent, slopes = terms.hessians(None, at[None])[0], terms.gradients(None, at[None])[0]
    value = terms.values(None, at[None])
    is_inside = all(np.isfinite(found).all() for found in (value, bent, slopes))
    return (bent, slopes) if is_inside else None


def _kinks(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """The sums of w |A| over the terms without a gradient, two of shape (m,).

    Of all, and of those whose kink is elsewhere than where one variable is zero.
    """
    total, elsewhere = np.zeros((2, form.size))
    for term in form.terms:
        if term.is_smooth or term.is_set:
            continue
        weight, rows = np.repeat(term.weight, term.width), _rows_of(term)
        if sp.issparse(rows):
            counts = np.diff(rows.indptr)
            steep = np.repeat(weight, counts) * np.abs(rows.data)
            total += np.bincount(rows.indices, steep, form.size)
            steep *= np.repeat((counts > 1) | (term.offset != 0), counts)
            elsewhere += np.bincount(rows.indices, steep, form.size)
        else:
            matrix = np.abs(rows)
            is_elsewhere = (np.count_nonzero(matrix, axis=1) > 1) | (term.offset != 0)
            total += weight @ matrix
            elsewhere += (weight * is_elsewhere) @ matrix
    return total, elsewhere


def _is_elsewhere(term: Term) -> bool:
    """Whether a term without a gradient has a kink elsewhere than where one variable is zero."""
    if term.is_smooth or term.is_set:
        return False
    rows = _rows_of(term)
    counts = np.diff(rows.indptr) if sp.issparse(rows) else np.count_nonzero(rows, axis=1)
    return bool((((counts > 1) | (term.offset != 0)) & (counts > 0)).any())


def _rows_of(term: Term) -> Any:
    """Its matrix, by rows where it is sparse."""
    matrix: Any = term.matrix
    return sp.csr_array(matrix) if sp.issparse(matrix) and matrix.format != "csr" else matrix


def _spread(scaled: np.ndarray) -> float:
    """See :class:`Curvature`."""
    if scaled.size == 0:
        return 1.0
    values = np.linalg.eigvalsh(scaled)
    least = values[values > ZERO * values[-1]][0]
    return float(np.sqrt(max(least, FLOOR * values[-1]) * values[-1]))
