r"""What every client would answer if it were alone: where the scales of a problem come from."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping

import cvxpy as cp
import numpy as np
import scipy.sparse.linalg as spla

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.curvature import Curvature
from dald_model.declare.problem import Problem
from dald_model.engines.batches import Batch
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers.base import FOUND, Turn
from dald_model.solvers.exact.conic import ClarabelProgram
from dald_model.solvers.exact.one_by_one import ClientAnswer, Scaling
from dald_model.values import preserved

WEAK = 1e-2
"""Share of its natural penalty with which a client is held while it is asked for its own answer.

Squared it is a ridge of 1e-4 beside curvatures of one: what the client hardly knows stays near
where it is held, and does not pass for a length of the problem.
"""
ACCURACY = 1e-9
"""Relative accuracy of these answers, if they are numerical."""
DEAR = 200
"""Variables of a client with some curvature from which on it is held rather than solved alone."""
ROUGH, ROUGHER = 1e-6, 1e-4
"""The same of cone programs, which are dearer: once as accurate as it has to be and once less."""
SETTLED = 0.1
"""By how much these two may differ, relative to the answer."""
PRICES = 0.3, 3.0
"""Prices, as shares of the slopes at an answer, that are tried to see how far it moves."""
SMALL = 1e-4
"""Answers of cone programs below this may be zero: they are asked for again in their own units."""
BALANCED = 1e-3
"""Share of the slopes that meet at an answer which may be left of their sum."""
HOLDS, STILL = 3, 1e-3
"""So often clients are held at the mean of others' answers, or until these move no more than this
share of how far they are apart: each time what the origin does to them is 1e-4 of what it was."""
FAR = 3.0
"""Answers this many times farther from zero than from each other are far from zero."""
OUTLYING = 100.0
"""From here on numbers lose digits to what they have in common, so they are taken around the
answers."""


def own_answers(
    compiled: Decomposition, layer: SolverLayer, curvatures: Mapping[Hashable, Curvature]
) -> tuple[np.ndarray, frozenset[Hashable]]:
    r"""The clients' own answers one after the other, and who has one.

    .. math:: x_i^{own} = \arg\min_{x_i \in X_i} f_i(x_i) + \text{a weak hold}

    A client whose curvature is known is held with 1e-4 of it, first at zero; where the answers
    are then far from zero beside how far they are apart, once more at the mean of its neighbours'
    answers, so that the origin of a variable does not matter. Any other is solved as a cone
    program, without a hold; but a coupling, which has no data, is always held. Servers, and clients
    that are unbounded alone, answer with the mean of their neighbours' answers where that says
    enough, else with NaN.
    """
    found = np.full(sum(sub.size for sub in compiled.values()), np.nan)
    held = []
    for name, sub in compiled.items():
        if sub.client.is_server:
            continue
        known = curvatures[name]
        if known.is_known or sub.client.is_coupling or (sub.size > DEAR and known.diagonal.any()):
            held.append(name)
        else:
            found[compiled.columns[name]] = _alone(sub)
    order = sorted(held, key=lambda name: compiled.places[name])
    batches = layer.batches(tuple(order))
    rho = {name: _weak(compiled[name], curvatures[name]) for name in held}
    origin = sides_of(compiled, np.zeros(found.size))
    for batch in batches:
        _ask(layer, batch, found, curvatures, rho, batch.ends.own(origin))
    missing = np.isnan(found)
    having = frozenset(n for n, part in compiled.columns.items() if not missing[part].any())
    _place(compiled, found)
    sides = sides_of(compiled, found)
    if is_far(compiled, sides, OUTLYING).any():
        layer.centre(found)
        for name in compiled:
            part = compiled.columns[name]
            if name in having and name not in held and compiled[name].form is not None:
                found[part] += np.nan_to_num(_alone(compiled[name].around(found[part])))
        batches = layer.batches(tuple(order))
        sides = sides_of(compiled, found)
    for _ in range(HOLDS):
        if not is_far(compiled, sides).any():
            break
        centre = np.where(np.isnan(sides), sides[::-1], sides)
        centre = np.where(np.isnan(centre), origin, centre)
        for batch in batches:
            _ask(layer, batch, found, curvatures, rho, batch.ends.other(centre))
        found[missing] = np.nan
        _place(compiled, found)
        before, sides = sides, sides_of(compiled, found)
        with np.errstate(invalid="ignore"):
            if not (np.abs(sides - before) > STILL * np.abs(sides[0] - sides[1])).any():
                break
    return found, having


def sides_of(compiled: Decomposition, points: np.ndarray) -> np.ndarray:
    """The values of all sides, shape (2, Q); NaN where a point is."""
    return compiled.sides({name: points[part] for name, part in compiled.columns.items()})


def is_far(compiled: Decomposition, sides: np.ndarray, share: float = FAR) -> np.ndarray:
    """Entries of edges whose sides are far from where they are at zero, (Q,) bool."""
    origin = sides_of(compiled, np.zeros(sum(sub.size for sub in compiled.values())))
    distance = np.abs(sides - origin)
    apart = np.abs(sides[0] - sides[1])
    with np.errstate(invalid="ignore"):
        return distance.min(axis=0) > share * apart


def _weak(sub: Subproblem, known: Curvature) -> np.ndarray:
    """The penalties of the hold, shape (q,)."""
    share = along(sub, known.diagonal)
    share[share == 0] = share[share > 0].mean() if share.any() else 1.0
    return WEAK * np.sqrt(share / 2)


def along(sub: Subproblem, diagonal: np.ndarray) -> np.ndarray:
    """A curvature of the variables as one along the sides, shape (q,).

    For a side that picks entries of x this is their curvature; a row g of a general matrix moves x
    along g / |g|^2, the least change that moves the side by one.
    """
    squares = sub.sides[0].power(2)
    weight = np.asarray(squares.sum(axis=1)).reshape(-1)
    found = (squares @ diagonal) / np.maximum(weight, np.finfo(float).tiny) ** 2
    return np.where(weight > 0, found, 0.0)


def _guess(known: Curvature) -> tuple[np.ndarray, np.ndarray]:
    r"""Lengths and slopes of a client's variables by its curvature alone, each of shape (m,).

    .. math:: X_k = \sqrt{E / h_k}, \qquad M_k = E / X_k, \qquad E = \max_k h_k L_k^2

    with L the distances of the quadratic model's minimum from zero. What has no curvature is as
    long as the longest.
    """
    bend, far = known.diagonal, np.abs(known.answer)
    energy = float((bend * far**2).max(initial=0.0))
    if energy == 0.0:
        ones = np.ones(far.size)
        return ones, ones
    bent = bend > 0
    lengths = np.full(far.size, max(far.max(), np.sqrt(energy / bend[bent]).max()))
    lengths[bent] = np.sqrt(energy / bend[bent])
    return lengths, energy / lengths


def _ask(
    layer: SolverLayer,
    batch: Batch,
    found: np.ndarray,
    curvatures: Mapping[Hashable, Curvature],
    rho: Mapping[Hashable, np.ndarray],
    told: np.ndarray,
) -> None:
    """Let clients answer that are held at ``told``, in the order of the batch's ends."""
    lengths, slopes = zip(*(_guess(curvatures[name]) for name in batch.names), strict=True)
    sizes = [layer.compiled[name].size for name in batch.names]
    turn = Turn(
        batch.which,
        np.zeros(told.size),
        np.concatenate([rho[name] for name in batch.names]),
        told,
        np.nan_to_num(found[batch.columns]),
        np.concatenate(lengths),
        np.concatenate(slopes),
    )
    answers = layer.first_answer(batch, turn, ACCURACY)
    is_found = np.repeat([status in FOUND for status in answers.statuses], sizes)
    found[batch.columns] = np.where(is_found, answers.points, np.nan)


def _alone(sub: Subproblem) -> np.ndarray:
    """The client's answer without any hold; NaN where it has none."""
    nothing = np.full(sub.size, np.nan)
    if sub.form is None:
        return _by_cvxpy(sub)
    answer = minimised(sub, ROUGH)
    if answer.status not in FOUND:
        return nothing
    length = np.abs(answer.point).max()
    if 0.0 < length < SMALL:  # is that a number, or what is left of zero?
        answer = minimised(sub, ROUGH, length)
        if answer.status in FOUND and np.abs(answer.point).max() < SMALL * length:
            return np.zeros(sub.size)
    # Where an objective falls for ever, or is flat for ever, an answer is as far out as the solver
    # was patient.
    other = minimised(sub, ROUGHER, length or 1.0)
    if not {answer.status, other.status} <= set(FOUND):
        return nothing
    is_settled = np.abs(answer.point - other.point).max() <= SETTLED * np.abs(answer.point).max()
    return answer.point if is_settled and _is_balanced(sub, answer) else nothing


def response(sub: Subproblem, point: np.ndarray) -> np.ndarray:
    """How far a client's own answer moves for a price like the slopes that meet there, (m,).

    Zero where it does not move, or where slopes are not known.
    """
    nothing = np.zeros(sub.size)
    if sub.form is None or np.isnan(point).any():
        return nothing
    near = sub.around(point)
    program = _program(near, 1.0)
    slopes = _slopes(near, program.minimise(nothing, ROUGH))
    for share in PRICES:
        for sign in (1.0, -1.0):
            moved = program.minimise(sign * share * slopes, ROUGH)
            if moved.status in FOUND and np.abs(moved.point).max() > SMALL * np.abs(point).max():
                return np.abs(moved.point)
    return nothing


def _slopes(sub: Subproblem, answer: ClientAnswer) -> np.ndarray:
    """The slopes that may meet at an answer, shape (m,)."""
    assert sub.form is not None
    cone = sub.form.cone
    steep = abs(cone.rows).sum(axis=0) * np.abs(answer.multipliers).max(initial=0.0)
    return (np.abs(cone.linear) + steep)[: sub.size]


def _is_balanced(sub: Subproblem, answer: ClientAnswer) -> bool:
    """Whether the slopes that meet at an answer add up to nothing, beside their sizes."""
    return bool(answer.left.max() <= BALANCED * _slopes(sub, answer).max())


def _by_cvxpy(sub: Subproblem) -> np.ndarray:
    """The same of a client of which cvxpy alone knows."""
    nothing = np.full(sub.size, np.nan)
    problem = Problem(cp.Minimize(sub.client.cost), list(sub.client.constraints))
    duals = [dual for rule in problem.constraints for dual in rule.dual_variables]
    with preserved([*sub.variables, *duals]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return nothing
        return sub.point() if problem.status in FOUND else nothing


def minimised(sub: Subproblem, tolerance: float, length: float = 1.0) -> ClientAnswer:
    """The answer of a client alone as a cone program, in units of this length."""
    return _program(sub, length).minimise(np.zeros(sub.size), tolerance)


def _program(sub: Subproblem, length: float) -> ClarabelProgram:
    assert sub.form is not None
    program = ClarabelProgram(sub.form.cone, Scaling(*np.full((2, sub.size), [[length], [1.0]])))
    program.set(np.zeros((sub.size, sub.size)))
    return program


def _place(compiled: Decomposition, found: np.ndarray) -> None:
    """Put those without an answer where their neighbours' answers are, as far as these say."""
    lacking = [name for name in compiled if np.isnan(found[compiled.columns[name]]).any()]
    sides = sides_of(compiled, found)
    for name in sorted(lacking, key=lambda one: not compiled[one].client.is_server):
        sub = compiled[name]
        told = sides[1 - sub.rows, sub.entries]
        known = np.flatnonzero(np.isfinite(told))
        if known.size:
            matrix, offset = sub.sides
            chosen, target = matrix[known], (told - offset)[known]
            if (np.diff(chosen.indptr) <= 1).all():
                counts = np.asarray(chosen.power(2).sum(axis=0)).reshape(-1)
                point = (chosen.T @ target) / np.where(counts > 0, counts, 1.0)
            else:
                point = spla.lsqr(chosen, target)[0]
            found[compiled.columns[name]] = point
            sides[sub.rows, sub.entries] = matrix @ point + offset
