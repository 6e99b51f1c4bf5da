r"""A better point than an answer, along the valley that all clients are in: a refutation.

What is proved of an answer is proved within a box. Where curvature is small some way the objective
may fall for longer than any box reaches, by as little as no slope shows. Over what clients have in
common let g be the slopes of :math:`F = \sum_i f_i`, H its Hessian, D the roots of the diagonal of
H, and Z a basis of the ways that keep the face on which the answer lies: the equalities, the
inequalities that are tight, the kinks that are at zero, the edges. F is tried along

.. math:: d = -D^{-1} Z (Z^\top D^{-1} H D^{-1} Z + \delta I)^{-1} Z^\top D^{-1} g

at many times d, no farther than the next inequality. A point that is better by more than a gap may
be proves an answer wrong, whatever box and slopes say. Nothing is said where a client is known by
a cone program alone, and of more than a thousand entries or rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts
from dald_model.answer.smooth_clients import SmoothClients
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form, Term
from dald_model.sizes import EPSILONS, SAME, SUMMED
from dald_model.solvers.exact.smooth_bound import is_split

DAMPED = 1e-10
"""delta, with diagonals of one. Of three valleys of Huber losses (condition 1e8 to 1e12) 1e-8 and
1e-10 find half of what there is to gain and more; with 1e-12 the way is of rounding in two."""
ACTIVE = 1e-6
"""Share of how far it moves in the box by which a row, ball or kink may be away from a point that
it holds: what solvers leave."""
MOST = 1_000
"""Entries, and rows of the face, up to which a valley is sought: the matrices are dense."""
TIMES = 4.0 ** np.arange(-8, 16)
"""How many times d are tried: short of what no curvature would have ended, and far beyond."""


class Face(NamedTuple):
    """What keeps a client where it is, in its variables.

    Attributes
    ----------
    slopes : ndarray, shape (m,)
        Of the kinks that are not at zero.
    held : ndarray, shape (k, m)
        Rows that may not move.
    free, room : ndarray, shapes (j, m) and (j,)
        The other inequalities, and by how much each may grow.
    """

    slopes: np.ndarray
    held: np.ndarray
    free: np.ndarray
    room: np.ndarray


def fall_along_valley(
    compiled: Decomposition, parts: Parts, at: np.ndarray, reach: np.ndarray, enough: float
) -> float:
    """By how much a point is better than another for certain, or zero.

    Zero where it gains no more than ``enough``; not sought where Newton's step at the point would
    gain no more. ``reach`` is the box that says what is tight.
    """
    ties = Alike.by_edges(compiled)
    forms = {name: client.here for name, client in parts.cones.items()}
    if ties.count > MOST or not all(_is_known(form) for form in forms.values()):
        return 0.0
    known = {name: form for name, form in forms.items() if form is not None}
    groups = [*parts.groups, *_smooth_parts(compiled, known, parts)]
    columns = compiled.columns
    faces = {name: _face(form, reach[columns[name]]) for name, form in known.items()}
    edges = compiled.stacked.known("untied edges", lambda: _untied(compiled, ties))
    held = [_onto(ties, columns[name], face.held) for name, face in faces.items()]
    if edges.shape[0] + sum(map(len, held)) > MOST:
        return 0.0
    slopes, bent = _derivatives(ties, groups, at)
    for name, face in faces.items():
        np.add.at(slopes, ties.group[columns[name]], ties.units[columns[name]] * face.slopes)
    step = _newton_step(slopes, bent, np.vstack([edges, *held]))
    if step is None or not -slopes @ step > enough:
        return 0.0
    move = ties.units * step[ties.group]
    ends = [_room(face, move[columns[name]]) for name, face in faces.items()]
    last = min(ends, default=np.inf)
    times = np.append(TIMES[last > TIMES], last if last < TIMES[-1] else [])
    moves = times[:, None] * move
    # Off what is kept by rounding, no more is gained than its slopes allow
    falls = -SUMMED * times * float(np.abs(slopes) @ np.abs(step))
    for group in groups:
        falls += [group.sure_falls(_of(group, at), _of(group, at + way)).sum() for way in moves]
    for name, form in known.items():
        falls += _falls_of_kinks(form, moves[:, columns[name]])
    most = float(np.fmax.reduce(falls, initial=0.0))
    return most if most > enough else 0.0


def _of(group: SmoothClients, points: np.ndarray) -> np.ndarray:
    return points[group.columns]


def _is_known(form: Form | None) -> bool:
    return form is not None and is_split(form) and not form.extra


def _smooth_parts(
    compiled: Decomposition, known: Mapping[Hashable, Form], parts: Parts
) -> Iterator[SmoothClients]:
    """The smooth parts of clients with constraints or kinks, stacked by shape."""
    alike: dict[Hashable, list[Hashable]] = {}
    for name, form in known.items():
        alike.setdefault(form.shape, []).append(name)
    for names in alike.values():
        forms = [parts.cones[name].form for name in names]
        smooth = [form.with_others(terms=form.smooth) for form in forms if form is not None]
        yield SmoothClients(compiled, names, smooth)


def _derivatives(
    ties: Alike, groups: list[SmoothClients], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and Hessian of the smooth parts' sum, over what clients have in common."""
    slopes, bent = np.zeros(ties.count), np.zeros((ties.count, ties.count))
    for group in groups:
        columns = group.columns
        to, units = ties.group[columns], ties.units[columns]
        each = units * group.gradients(at[columns])
        slopes += np.bincount(to.ravel(), each.ravel(), ties.count)
        for part, matrices in group.hessians(at[columns]):
            own, where = units[part], to[part, :, None] * ties.count + to[part, None, :]
            each = own[:, :, None] * matrices * own[:, None, :]
            bent += np.bincount(where.ravel(), each.ravel(), bent.size).reshape(bent.shape)
    return slopes, bent


def _newton_step(slopes: np.ndarray, bent: np.ndarray, held: np.ndarray) -> np.ndarray | None:
    """The step d that does not move some rows; None where there is none, or rounding moves them."""
    roots = np.sqrt(np.maximum(np.diagonal(bent), 0.0))
    roots = np.where(roots > 0, roots, 1.0)
    scaled, slope = bent / np.outer(roots, roots), slopes / roots
    if not (np.isfinite(scaled).all() and np.isfinite(slope).all()):
        return None
    ways = _ways(held / roots)
    if ways is not None:
        scaled, slope = ways.T @ scaled @ ways, ways.T @ slope
    if not slope.size:
        return None
    try:
        factor = cho_factor(scaled + DAMPED * np.eye(slope.size))
    except LinAlgError:  # curvature below what rounding leaves
        return None
    step = -cho_solve(factor, slope)
    step = (step if ways is None else ways @ step) / roots
    is_kept = np.abs(held @ step) <= SUMMED * (np.abs(held) @ np.abs(step))
    return step if is_kept.all() else None


def _ways(held: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis of what does not move some rows, (n, j); None for all of it."""
    sizes = np.linalg.norm(held, axis=1)
    held = held[sizes > 0] / sizes[sizes > 0, None]
    if not held.size:
        return None
    found: Any = qr(held.T, pivoting=True)
    basis, left, _ = found
    return basis[:, int((np.abs(np.diagonal(left)) > SAME).sum()) :]


def _untied(compiled: Decomposition, ties: Alike) -> Any:
    """The rows of the edges that are more than ties of single entries; dense, if few enough."""
    matrix, size = compiled.stacked.matrix, compiled.size
    is_equal = matrix.nnz == 2 * size and bool((np.diff(matrix.indptr) == 1).all())
    if is_equal and (matrix.data[:size] == matrix.data[size:]).all() and (ties.units == 1).all():
        return np.zeros((0, ties.count))  # as of a server: each edge is a tie
    sides = matrix.tocoo()
    columns, data = ties.group[sides.col], sides.data * ties.units[sides.col]
    rows, signs = sides.row % max(size, 1), np.where(sides.row < size, 1.0, -1.0)
    found = sp.csr_array((signs * data, (rows, columns)), shape=(size, ties.count))
    summed = sp.csr_array((np.abs(data), (rows, columns)), shape=(size, ties.count))
    found.data[np.abs(found.data) <= SUMMED * summed.data] = 0.0
    found.eliminate_zeros()
    rows = found[np.diff(found.indptr) > 0]
    return rows.toarray() if rows.shape[0] <= MOST else rows


def _onto(ties: Alike, columns: slice, rows: np.ndarray) -> np.ndarray:
    """Rows of a client's variables as rows of what clients have in common."""
    found = np.zeros((ties.count, len(rows)))
    np.add.at(found, ties.group[columns], (rows * ties.units[columns]).T)
    return found.T


def _face(form: Form, reach: np.ndarray) -> Face:
    """Of a client around the point."""
    matrix, room = form.inequalities
    is_tight = room <= ACTIVE * (np.abs(matrix) @ reach)
    slopes, held = np.zeros(form.size), [form.equalities.matrix, matrix[is_tight]]
    for term in form.kinked:
        slope, rows = _of_kinks(term, reach)
        slopes += slope
        held.append(rows)
    return Face(slopes, np.vstack(held), matrix[~is_tight], room[~is_tight])


def _of_kinks(term: Term, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of those away from zero, and the rows of those there or at the edge of a ball."""
    rows: Any = term.matrix
    rows = rows.toarray() if sp.issparse(rows) else rows
    near = ACTIVE * (np.abs(rows) @ reach).reshape(-1, term.width).max(axis=1)
    arguments = term.offset.reshape(-1, term.width)
    sizes = np.linalg.norm(arguments, axis=1)
    ways = arguments / np.where(sizes > 0, sizes, 1.0)[:, None]
    blocks = rows.reshape(*arguments.shape, -1)
    along = np.einsum("kw,kwm->km", ways, blocks)
    if term.is_set:
        return np.zeros(reach.size), along[(sizes >= term.parameter - near) & (sizes > 0)]
    is_away = sizes > near
    return term.weight[is_away] @ along[is_away], blocks[~is_away].reshape(-1, reach.size)


def _room(face: Face, move: np.ndarray) -> float:
    """How many times a move leads to the next inequality."""
    grown = face.free @ move
    is_met = grown > 0
    return float((face.room[is_met] / grown[is_met]).min(initial=np.inf))


def _falls_of_kinks(form: Form, moves: np.ndarray) -> np.ndarray:
    """How much lower kinks are after some moves for certain, (k,); nothing outside of a ball."""
    falls = np.zeros(len(moves))
    for term in form.kinked:
        if term.is_set:
            most = max(term.excess(np.zeros(form.size)), 0.0)
            falls[[term.excess(move) > most for move in moves]] = -np.inf
        else:
            (before,), after = term.values(np.zeros((1, form.size))), term.values(moves)
            falls += before - after - EPSILONS * (before + after)
    return falls
