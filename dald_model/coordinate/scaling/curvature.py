r"""Curvature of the clients' objectives, from their forms."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.affine import MadeOnce
from dald_model.declare.remote import RemoteClient
from dald_model.sizes import FEW, MANY, TOGETHER
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.low_rank_client import LowRankClient, Separable, by_columns

FLOOR = 1e-4
"""Ratio of eigenvalues below which a Hessian counts as flat. 33 models of the panel take 1.00 and
1.03 times the rounds with 1e-6 and 1e-2, one with raw columns 3.2 times with the latter."""
UNREACHED = 1e30
"""A minimum so far away is in no unit: what slopes to there, as a logistic loss does far from its
kink, is flat."""
NO_CURVATURE = 1e-7
"""Ratio below which an eigenvalue is zero: a direction without curvature asks for no penalty."""

_ELSEWHERE = MadeOnce()


@dataclass(frozen=True)
class Curvature:
    r"""Curvature of a client's objective at a point, and what it says.

    Attributes
    ----------
    diagonal : ndarray, shape (m,)
        The diagonal of the Hessian H.
    spread : float
        :math:`\sqrt{\lambda_{\min} \lambda_{\max}}` of
        :math:`D^{-1/2} H D^{-1/2}, \; D = \operatorname{diag} H`; one beyond ``FEW`` variables.
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

    @classmethod
    def unknown(cls, size: int) -> Curvature:
        """That of which nothing is known."""
        return cls(np.zeros(size), 1.0, *np.zeros((4, size)), is_known=False)

    @classmethod
    def secant(cls, diagonal: np.ndarray, kinks: np.ndarray) -> Curvature:
        """That of which nothing else is known than a secant tells."""
        return cls(diagonal, 1.0, kinks, kinks, *np.zeros((2, kinks.size)), is_known=True)


def curvature(sub: Subproblem, at: np.ndarray | None = None) -> Curvature:
    """The curvature of a client at a point of shape (m,), by default zero or near it.

    It is unknown where the form has not the whole objective, and where neither point is inside of
    the objective's domain.
    """
    return curvatures([sub], [at])[0]


def curvatures(subs: Sequence[Subproblem], at: Sequence[np.ndarray | None]) -> list[Curvature]:
    """The same of many clients, each at a point of its own; those of one shape together."""
    alike: dict[Hashable, list[int]] = {}
    for place, sub in enumerate(subs):
        alike.setdefault(_shape(sub) or place, []).append(place)
    found: dict[int, Curvature] = {}
    for places in alike.values():
        for first in range(0, len(places), TOGETHER):
            mine = places[first : first + TOGETHER]
            points = [at[i] for i in mine]
            found |= zip(mine, _of_shape([subs[i] for i in mine], points), strict=True)
    return [found[place] for place in range(len(subs))]


def _shape(sub: Subproblem) -> Hashable:
    """The same for clients whose curvatures may be computed together; None of one by itself."""
    form = sub.form
    if form is None or not form.valued or sub.size > FEW:
        return None
    terms = form.smooth
    if any(sp.issparse(term.matrix) for term in terms):
        return None
    return sub.size, *((term.kind, term.width, term.matrix.shape) for term in terms)


def _of_shape(subs: Sequence[Subproblem], at: Sequence[np.ndarray | None]) -> list[Curvature]:
    """The curvatures of clients of one shape, or of one client."""
    forms, size = (
        [sub.form for sub in subs if sub.form is not None and sub.form.valued],
        subs[0].size,
    )
    if not forms:
        return [Curvature.unknown(size)]
    if size > FEW and sp.issparse(forms[0].quadratic.root) and not forms[0].smooth:
        return [_of_root(forms[0])]
    starts, is_inside = np.zeros((len(forms), size)), np.ones(len(forms), dtype=bool)
    hessians = np.array([form.quadratic.full for form in forms])
    gradients = np.array([form.quadratic.linear for form in forms])
    if forms[0].smooth:
        terms = Terms.of([list(form.smooth) for form in forms], size)
        inner = terms.inner()
        starts = np.array([own if one is None else one for one, own in zip(at, inner, strict=True)])
        bent, slopes, is_inside = _bends(terms, starts)
        if not is_inside.all():
            starts = np.where(is_inside[:, None], starts, inner)
            bent, slopes, is_inside = _bends(terms, starts)
        gradients += np.matmul(hessians, starts[:, :, None])[:, :, 0] + slopes
        hessians = hessians + bent
    diagonals = np.maximum(np.diagonal(hessians, axis1=1, axis2=2), 0.0)
    diagonals = np.where(np.abs(gradients) > UNREACHED * diagonals, 0.0, diagonals)
    live = diagonals > 0
    roots = np.sqrt(np.where(live, diagonals, 1.0))
    scaled = np.where(live[:, :, None] & live[:, None, :], hessians, 0.0)
    scaled /= roots[:, :, None] * roots[:, None, :]
    right = np.where(live, gradients / roots, 0.0)[:, :, None]
    answers = starts - np.linalg.solve(scaled + FLOOR * np.eye(size), right)[:, :, 0] / roots
    spreads = _spreads(scaled) if size <= FEW else np.ones(len(forms))
    found = []
    for i, form in enumerate(forms):
        sharp, elsewhere = steepness(form)
        # A weight on |x_k| alone keeps at zero what does not slope by more.
        is_kept = (np.abs(gradients[i]) <= sharp) & (elsewhere == 0)
        point = diagonals[i], float(spreads[i]), sharp, elsewhere, answers[i], gradients[i]
        is_known = bool((live[i] | is_kept).all())
        found.append(Curvature(*point, is_known) if is_inside[i] else Curvature.unknown(size))
    return found


def _of_root(form: Form) -> Curvature:
    """The curvature of a quadratic that is kept by a sparse root, without its Hessian."""
    quadratic, (sharp, elsewhere) = form.quadratic, steepness(form)
    gradient, diagonal = quadratic.linear, quadratic.diagonal
    diagonal[np.abs(gradient) > UNREACHED * diagonal] = 0.0
    live = np.flatnonzero(diagonal > 0)
    lengths = 1 / np.sqrt(diagonal[live])
    answer = np.zeros(form.size)
    method = LowRankClient(by_columns(quadratic.root[:, live], lengths), Separable.none(live.size))
    method.take(np.full(live.size, FLOOR))
    found = method.minimise(gradient[live] * lengths)
    if found is not None:
        answer[live] = found[0] * lengths
    is_flat = diagonal == 0
    is_known = not (elsewhere[is_flat].any() or (np.abs(gradient) > sharp)[is_flat].any())
    return Curvature(diagonal, 1.0, sharp, elsewhere, answer, gradient, is_known)


def middle(sub: Subproblem) -> np.ndarray:
    r"""Where the arguments A x + b of what bends an objective are smallest, shape (m,).

    There it is curved, and that point moves with the origin. Zero where it is not bent, is not
    defined everywhere, or has more than ``MANY`` variables.
    """
    if not is_bent(sub) or not is_defined_at_zero(sub) or sub.size > MANY:
        return np.zeros(sub.size)
    assert sub.form is not None
    terms = sub.form.smooth
    offset = np.concatenate([term.offset for term in terms])
    if not offset.any():
        return np.zeros(sub.size)
    rows = sp.vstack([sp.csr_array(term.matrix) for term in terms]).toarray()
    return np.linalg.lstsq(rows, -offset)[0]


def is_bent(sub: Subproblem) -> bool:
    """Whether the curvature of a client is known and not the same everywhere."""
    form = sub.form
    return form is not None and form.valued and bool(form.smooth)


def is_angular(sub: Subproblem) -> bool:
    """Whether an objective has no curvature at all, or kinks besides those at variables of zero."""
    if isinstance(sub.client, RemoteClient):
        return sub.client.is_angular
    form = sub.form
    if form is None or not form.valued:
        return False
    if any(map(_is_elsewhere, form.terms)):
        return True
    return not form.smooth and not form.quadratic.numbers.any()


def is_defined_at_zero(sub: Subproblem) -> bool:
    """Whether a client whose curvature is known has no logarithm, nor what is alike."""
    form = sub.form
    return form is not None and not any(term.kind.is_positive for term in form.smooth)


def _bends(terms: Terms, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hessians and gradients at points (k, m), and which are finite: others are zero.

    Of log(x) at zero they are not; below zero they are numbers all the same, of no function.
    """
    bent, slopes = terms.hessians(None, at), terms.gradients(None, at)
    is_inside = np.isfinite(terms.values(None, at)) & np.isfinite(slopes).all(axis=1)
    is_inside &= np.isfinite(bent).all(axis=(1, 2))
    bent, slopes = (
        np.where(is_inside[:, None, None], bent, 0.0),
        np.where(is_inside[:, None], slopes, 0.0),
    )
    return bent, slopes, is_inside


def steepness(form: Form) -> tuple[np.ndarray, np.ndarray]:
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
    parts = (term.matrix, term.offset)
    return _ELSEWHERE.of(tuple(map(id, parts)), parts, lambda: _has_kinks_elsewhere(term))


def _has_kinks_elsewhere(term: Term) -> bool:
    rows = _rows_of(term)
    counts = np.diff(rows.indptr) if sp.issparse(rows) else np.count_nonzero(rows, axis=1)
    return bool((((counts > 1) | (term.offset != 0)) & (counts > 0)).any())


def _rows_of(term: Term) -> Any:
    """Its matrix, by rows where it is sparse."""
    matrix: Any = term.matrix
    return sp.csr_array(matrix) if sp.issparse(matrix) and matrix.format != "csr" else matrix


def _spreads(scaled: np.ndarray) -> np.ndarray:
    """See :class:`Curvature`: of k matrices, (k,); one of what is not curved at all."""
    values = np.linalg.eigvalsh(scaled)
    most = np.where(values[:, -1] > 0, values[:, -1], 1.0)
    least = np.where(values > NO_CURVATURE * most[:, None], values, np.inf).min(axis=1)
    return np.sqrt(np.clip(least, FLOOR * most, most) * most)
