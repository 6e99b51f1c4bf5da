"""Penalties of what couplings add up: alike in the units of the sum.

Who moves the sum most easily has the softest objective and so the smallest natural penalty, and
in a sum the softest decides how far its price moves: among plants of which the softest is at its
capacity the price would creep. So all that enter one sum have the mean of their penalties.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.compile.shared_rows import shared_rows


def alike_in_sums(compiled: Decomposition, penalty: np.ndarray) -> np.ndarray:
    r"""The penalties :math:`\rho`, shape (Q,), with those along one sum replaced by their mean.

    With :math:`t = \sum_k a_k s_k` it is the root mean square of :math:`\rho_k / a_k`, times
    :math:`a_k`.
    """
    found = penalty.copy()
    for name in compiled.couplings:
        sub = compiled[name]
        known = _priced_sums(sub.form) if sub.form else None
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


def _priced_sums(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """The sum with a price that each variable enters, -1 for none, and its factor there, (m,).

    Sums have a price where they stand in a linear row. None where a variable is in two sums.
    """
    if form.extra or not form.complete:
        return None
    rows = [form.equalities.matrix, form.inequalities.matrix]
    parts = [sp.csr_array(one) for one in (*rows, *(term.matrix for term in form.terms))]
    basis, multiples = shared_rows(sp.vstack(parts, "csr"))
    columns = sp.csc_array(basis)
    counts = np.diff(columns.indptr)
    if counts.max(initial=0) > 1:
        return None
    is_linear = np.arange(multiples.shape[0]) < form.equalities.rhs.size + form.inequalities.rhs.size
    is_priced = is_linear @ abs(multiples) > 0
    which, factors = np.full(form.size, -1), np.zeros(form.size)
    which[counts == 1] = np.where(is_priced[columns.indices], columns.indices, -1)
    factors[counts == 1] = columns.data
    return which, factors
