"""The slopes that meet at a client's own answer, as the multipliers of its rows tell."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import LINEAR, ConeProgram, cone_height
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.exact.balance import balance
from dald_model.solvers.exact.one_by_one import ClientAnswer


def meeting_slopes(
    sub: Subproblem, answer: ClientAnswer, lengths: np.ndarray | None = None
) -> np.ndarray:
    """The slopes that may meet at an answer, shape (m,).

    At a kink one that is not there now may be, but of an equation, as between the halves of a
    symmetric matrix, there are no others. It is as large as the largest multiplier of a row; with
    lengths, (m,), no more than what is worth over these as much as the largest one is.
    """
    assert sub.form is not None
    cone = sub.form.cone
    equations = sum(size for kind, size in cone.cones if kind == "ZeroConeT")
    here = np.abs(answer.multipliers)
    found = here.copy()
    found[equations:] = here[equations:].max(initial=0.0)
    if lengths is not None:
        whole = np.full(cone.linear.size, np.nan)
        whole[: sub.size] = lengths
        sizes = _sizes(cone, balance(cone, whole).lengths)[equations:]
        worth = (here[equations:] * sizes).max(initial=0.0)
        most = np.divide(worth, sizes, out=np.zeros(sizes.size), where=sizes > 0)
        found[equations:] = np.minimum(found[equations:], most)
    return (np.abs(cone.linear) + abs(cone.rows).T @ found)[: sub.size]


def _sizes(cone: ConeProgram, lengths: np.ndarray) -> np.ndarray:
    """How large rows are in these lengths; of one cone all are as large as the largest."""
    found = (abs(cone.rows) @ sp.diags_array(lengths)).max(axis=1).toarray().reshape(-1)
    start = 0
    for kind, argument in cone.cones:
        stop = start + cone_height(kind, argument)
        if kind not in LINEAR:
            found[start:stop] = found[start:stop].max(initial=0.0)
        start = stop
    return found
