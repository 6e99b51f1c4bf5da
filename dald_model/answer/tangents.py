r"""The proof of an exact method that told what the multipliers of all its clients prove, at once.

With :math:`f_i(y) \ge f_i(x) - l_i + g_i^\top (y - x)`, the Lagrangian's tangent, and prices p the
bracket of :mod:`dald_model.answer.bound` is at most

.. math:: l_i + |g_i + p_i|^\top r_i .

So what :attr:`dald_model.answer.judge.Judge.is_right_at_once` asks, client by client, is a few
products of arrays here, beside the same yardstick.
"""

from __future__ import annotations

import numpy as np

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts, prices_of
from dald_model.answer.claim import costs_at
from dald_model.answer.judge import COPIES, SHORT, SIGHT, keeps_constraints, paid
from dald_model.answer.scale import BOX, WIDE_REACH, Floor
from dald_model.answer.smooth_clients import smooth_groups
from dald_model.answer.valley import fall_along_valley
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.solvers.exact.lower_bound import AUXILIARY


def is_right_by_tangents(compiled: Decomposition, state: State, tolerance: float) -> bool:
    """Whether gap and multipliers of an iterate are proved; if not, a judge may find more.

    Clients that are all smooth may have a valley, along which a better point refutes what is proved
    in a box. Of matrices part of a price may be no price, and points outside of a domain are moved
    for the user: nothing is proved of these.
    """
    told, at, live = state.tangents, state.points, compiled.layout
    if told is None or told.points is not at or not np.isfinite(told.losses).all():
        return False
    if compiled.limited or not _is_plain(compiled):
        return False
    lengths = Alike.by_variable(compiled).most(np.abs(at))
    levels = costs_at(compiled, [at, 2 * at, 0 * at], live)
    scale = Floor(compiled, live, levels, lengths)
    state.tangents = told._replace(objectives=levels[0].copy())
    falls_beyond = not scale.is_least and keeps_constraints(
        compiled, {name: 2 * at[part] for name, part in compiled.columns.items()}
    )
    if not lengths.all() or not np.isfinite(scale.total) or falls_beyond:
        return False
    sides = (compiled.stacked.sizes @ lengths).reshape(2, -1).max(axis=0)
    if (np.abs(state.primal) > COPIES * sides).any():
        return False
    allowed = tolerance * scale.cost
    losses = told.losses + AUXILIARY * told.spare
    mu, starts = state.estimate, [compiled.columns[name].start for name in live]
    left = np.abs(told.slopes + prices_of(compiled, mu)) * lengths
    left = np.add.reduceat(left, starts)
    apart = float(mu @ state.primal)
    for reach, most in ((BOX, allowed), (WIDE_REACH, max(allowed, SIGHT * scale.cost))):
        brackets = losses + reach * left
        if not (brackets.min() >= -most and abs(brackets.sum() - apart) <= most):
            return False
    worth = np.maximum.reduceat(np.abs(paid(compiled, mu)) * lengths, starts)
    worth = np.maximum(worth, scale.worth / at.size)
    wrong = np.maximum(losses + SHORT * left, 0.0) / SHORT
    if not (wrong <= np.sqrt(tolerance) * worth).all():
        return False
    groups, others = ([], live) if state.multipliers.size else smooth_groups(compiled, live)
    return bool(others) or not fall_along_valley(
        compiled, Parts(groups, {}), at, BOX * lengths, allowed
    )


def _is_plain(compiled: Decomposition) -> bool:
    """Whether every client has variables, and none of them is a symmetric matrix."""

    def told() -> bool:
        every = [first.variables for first, *_ in compiled.kinds]
        return all(every) and not any(v.ndim == 2 and v.is_symmetric() for o in every for v in o)

    return compiled.stacked.known("plain variables", told)
