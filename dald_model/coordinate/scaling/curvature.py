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
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.low_rank_client import LowRankClient, Separable, by_columns

EXACT = 64
"""Up to this many variables the eigenvalues of a Hessian are computed."""
FLOOR = 1e-4
"""Ratio of eigenvalues below which a Hessian counts as flat."""
BEYOND = 1e30
"""A minimum so far away is in no unit: what slopes to there, as a logistic loss does far from its
kink, is flat."""
MANY = 200
"""Variables of a client beyond which it is not worth looking where its objective bends."""
TOGETHER = 256
"""Clients whose curvatures are computed together: enough to be fast, few enough for memory."""
ZERO = 1e-7
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

    @classmethod
    def secant(cls, diagonal: np.ndarray, kinks: np.ndarray) -> Curvature:
        """That of which nothing else is known than a secant tells."""
        return cls(diagonal, 1.0, kinks, kinks, *np.zeros((2, kinks.size)), is_known=True)


def curvature(sub: Subproblem, at: np.ndarray | None = None) -> Curvature:
    """The curvature of a client at a point of shape (m,), by default zero or near it.

    It is unknown where the form has not the whole objective, and where neither point is inside of
    the objective's domain.
    """
    form, start = sub.form, np.zeros(sub.size)
    if form is None or not form.valued:
        return Curvature(start, 1.0, *np.zeros((4, sub.size)), is_known=False)
    if sp.issparse(form.quadratic.root) and not form.smooth:
        return _of_root(form)
    hessian, gradient = form.quadratic.full, form.quadratic.linear
    if is_bent(sub):
        terms = Terms([form.smooth], sub.size)
        points = [terms.inner()[0]] if at is None else [at, terms.inner()[0]]
        inside = [(point, each) for point in points if (each := _bends(terms, point))]
        if not inside:
            return Curvature(start, 1.0, *np.zeros((4, sub.size)), is_known=False)
        start, (bent, slopes) = inside[0]
        gradient = gradient + hessian @ start + slopes
        hessian = hessian + bent
    diagonal, (sharp, elsewhere) = np.maximum(np.diag(hessian), 0.0), steepness(form)
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


def _of_root(form: Form) -> Curvature:
    """The curvature of a quadratic that is kept by a sparse root, without its Hessian."""
    quadratic, (sharp, elsewhere) = form.quadratic, steepness(form)
    gradient, diagonal = quadratic.linear, quadratic.diagonal
    diagonal[np.abs(gradient) > BEYOND * diagonal] = 0.0
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


def curvatures(subs: Sequence[Subproblem], at: Sequence[np.ndarray | None]) -> list[Curvature]:
    """The curvatures of many clients, each at a point of its own as :func:`curvature` takes it.

    Those of one shape are computed together, as far as all their variables are curved.
    """
    found: list[Curvature | None] = [None] * len(subs)
    alike: dict[Hashable, list[int]] = {}
    for place, sub in enumerate(subs):
        alike.setdefault(_shape(sub), []).append(place)
    for shape, places in alike.items():
        for first in range(0, len(places), TOGETHER) if shape and len(places) > 1 else ():
            mine = places[first : first + TOGETHER]
            together = _curvatures([subs[i] for i in mine], [at[i] for i in mine])
            for i, one in zip(mine, together, strict=True):
                found[i] = one
    return [
        curvature(sub, point) if one is None else one
        for sub, point, one in zip(subs, at, found, strict=True)
    ]


def _shape(sub: Subproblem) -> Hashable:
    """The same for clients whose curvatures may be computed together; None of one by itself."""
    form = sub.form
    if form is None or not form.valued or sub.size > EXACT or not is_defined_at_zero(sub):
        return None
    terms = form.smooth
    if any(sp.issparse(term.matrix) for term in terms):
        return None
    return sub.size, *((term.kind, term.width, term.matrix.shape) for term in terms)


def _curvatures(
    subs: Sequence[Subproblem], at: Sequence[np.ndarray | None]
) -> list[Curvature | None]:
    """The same of clients of one shape; None of who has to be looked at by itself."""
    forms = [sub.form for sub in subs if sub.form is not None]
    size = subs[0].size
    starts = np.zeros((len(forms), size))
    hessians = np.stack([form.quadratic.full for form in forms])
    gradients = np.stack([form.quadratic.linear for form in forms])
    is_inside = np.ones(len(forms), dtype=bool)
    if smooth := [list(form.smooth) for form in forms] if forms[0].smooth else []:
        starts[:] = [np.zeros(size) if point is None else point for point in at]
        terms = Terms(smooth, size)
        bent, slopes = terms.hessians(None, starts), terms.gradients(None, starts)
        is_inside = np.isfinite(terms.values(None, starts)) & np.isfinite(slopes).all(axis=1)
        is_inside &= np.isfinite(bent).all(axis=(1, 2))
        gradients += np.matmul(hessians, starts[:, :, None])[:, :, 0] + slopes
        hessians = hessians + bent
    diagonals = np.maximum(np.diagonal(hessians, axis1=1, axis2=2), 0.0)
    is_whole = is_inside & ((diagonals > 0) & (np.abs(gradients) <= BEYOND * diagonals)).all(axis=1)
    found: list[Curvature | None] = [None] * len(forms)
    whole = np.flatnonzero(is_whole)
    if not whole.size:
        return found
    diagonals, gradients = diagonals[whole], gradients[whole]
    roots = np.sqrt(diagonals)
    scaled = hessians[whole] / (roots[:, :, None] * roots[:, None, :])
    moves = np.linalg.solve(scaled + FLOOR * np.eye(size), (gradients / roots)[:, :, None])[:, :, 0]
    answers, spreads = starts[whole] - moves / roots, _spreads(scaled)
    for i, place in enumerate(whole):
        kinks = steepness(forms[place])
        point = diagonals[i], float(spreads[i]), *kinks, answers[i], gradients[i]
        found[place] = Curvature(*point, is_known=True)
    return found


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


def _bends(terms: Terms, at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Hessian and gradient at a point of the domain, if they are finite there.

    Of log(x) at zero they are not; below zero they are numbers all the same, of no function.
    """
    bent, slopes = terms.hessians(None, at[None])[0], terms.gradients(None, at[None])[0]
    value = terms.values(None, at[None])
    is_inside = all(np.isfinite(found).all() for found in (value, bent, slopes))
    return (bent, slopes) if is_inside else None


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


def _spread(scaled: np.ndarray) -> float:
    """See :class:`Curvature`."""
    return float(_spreads(scaled[None])[0]) if scaled.size else 1.0


def _spreads(scaled: np.ndarray) -> np.ndarray:
    """The same of k matrices, (k,)."""
    values = np.linalg.eigvalsh(scaled)
    most = values[:, -1:]
    least = np.where(values > ZERO * most, values, np.inf).min(axis=1)
    return np.sqrt(np.maximum(least, FLOOR * most[:, 0]) * most[:, 0])
