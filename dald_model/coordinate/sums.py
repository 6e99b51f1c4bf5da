"""Penalties of what couplings add up: alike in the units of the sum.

Who moves the sum most easily has the softest objective and so the smallest natural penalty, and
in a sum the softest decides how far its price moves: among plants of which the softest is at its
capacity the price would creep. So all that enter one sum have the mean of their penalties.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.solvers.exact.sharing import priced_sums


def alike_in_sums(compiled: Decomposition, penalty: np.ndarray) -> np.ndarray:
    r"""The penalties :math:`\rho`, shape (Q,), with those along one sum replaced by their mean.

    With :math:`t = \sum_k a_k s_k` it is the root mean square of :math:`\rho_k / a_k`, times
    :math:`a_k`.
    """
    found = penalty.copy()
    for name in compiled.couplings:
        sub = compiled[name]
        known = priced_sums(sub)
        matrix = sp.csr_array(sub.sides[0])
        if known is None or (np.diff(matrix.indptr) != 1).any():
            continue
        which, factors = (part[matrix.indices] for part in known)
        gain = np.abs(matrix.data / np.where(which < 0, 1.0, factors))  # of the sum to the side
        squares = (penalty[sub.entries] * gain) ** 2
        for at in np.unique(which[which >= 0]):
            mine = which == at
            found[sub.entries[mine]] = np.sqrt(squares[mine].mean()) / gain[mine]
    return found
