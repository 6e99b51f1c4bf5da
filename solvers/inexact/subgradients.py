r"""Subgradients of the clients' whole objectives, kinks included (Nedic and Ozdaglar 2009).

.. math:: g_i(x) = \nabla \psi_i(x) + \sum_t A_t^\top \big(w_t \circ s_t\big), \qquad
    s_t \in \partial \varphi_t(A_t x + b_t)

over the terms without a gradient; at a kink :math:`s_t` is the kind's own choice, which is zero for
absolute values and norms at zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.smooth import Smooth, is_bounded, no_gradient


class Subgradients(Smooth):
    """The objectives of n clients, with a subgradient for the gradient.

    Parameters
    ----------
    subproblems : sequence of Subproblem
        For all of which :func:`no_subgradient` is empty.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        super().__init__(subproblems)
        self._kinks = [
            [t for t in sub.form.terms if not (t.is_smooth or t.is_set)] if sub.form else []
            for sub in subproblems
        ]

    def gradients(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """See :class:`Smooth`; of the whole objectives."""
        found, stops = super().gradients(which, points), np.cumsum(self.sizes[which])
        for at, stop in zip(which.tolist(), stops.tolist(), strict=True):
            part = slice(stop - int(self.sizes[at]), stop)
            for term in self._kinks[at]:
                found[part] += term.subgradient(points[part])
        return found


def gradients_of(subproblems: Sequence[Subproblem]) -> Smooth:
    """The gradients of clients, or subgradients where one of them has kinks."""
    has_kinks = any(map(no_gradient, subproblems))
    return Subgradients(subproblems) if has_kinks else Smooth(subproblems)


def no_subgradient(sub: Subproblem) -> str:
    """Why a client cannot follow a subgradient wherever that leads; empty if it can."""
    is_known = sub.form is not None and sub.form.valued
    reason = "" if is_known else no_gradient(sub)
    return reason or ("it has constraints" if is_bounded(sub) else "")
