r"""Stiffness of bounds of which a coupling pays for the largest, as of losses in min-max fairness.

No objective sees such a bound :math:`s_k`: its client has it as high as it likes, and the coupling
minimises :math:`c\,t` under rows :math:`a_k s_k - g_k t \le b_k`. But what the coupling pays for t
is what its rows bargain for, each on average an equal part of c; and they bargain over how far the
:math:`t_k = (a_k s_k - b_k) / g_k` of the clients' own answers are apart.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.subproblem import Subproblem


def bounds_of_largest(
    sub: Subproblem, slopes: np.ndarray, point: np.ndarray, caution: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Stiffness and distances of a coupling's variables, two of shape (m,); zero of others.

    With n rows of t, whose :math:`t_k` are O apart, :math:`\gamma = |a_k / g_k|` and
    the ``caution`` of natural lengths, these are
    :math:`\gamma^2 |c| / (n \cdot \text{caution} \cdot O)` and :math:`O / \gamma`.

    Parameters
    ----------
    sub : Subproblem
    slopes : ndarray, shape (m,)
        Of its objective.
    point : ndarray, shape (m,)
        Its answer; NaN counts as zero.
    caution : float
    """
    bends, lengths = np.zeros((2, sub.size))
    if sub.form is None or sub.form.extra:
        return bends, lengths
    matrix, rhs = sub.form.inequalities
    is_free = sub.sight.of_variables == 0
    paid = np.flatnonzero(is_free & (slopes != 0))
    held = np.nan_to_num(np.where(is_free, 0.0, point))
    for at in paid:
        mine = np.flatnonzero(
            (matrix[:, at] != 0) & (np.count_nonzero(matrix[:, paid], axis=1) == 1)
        )
        if not mine.size:
            continue
        gain = np.where(is_free, 0.0, np.abs(matrix[mine] / matrix[mine, at][:, None]))
        apart = np.ptp((matrix[mine] @ held - rhs[mine]) / matrix[mine, at])
        if apart > 0:
            share = np.abs(slopes[at]) / (mine.size * caution * apart)
            bends = np.maximum(bends, share * (gain**2).max(axis=0))
            near = np.divide(apart, gain, out=np.zeros(gain.shape), where=gain > 0)
            lengths = np.maximum(lengths, near.max(axis=0))
    return bends, lengths
