r"""BFGS of scipy for smooth clients without constraints: the solver layer of the paper's Table 1.

The analytic gradient of the augmented Lagrangian is given: by finite differences most calls end in
"precision loss". scipy's status says the same of answers that are as good as rounding allows, so an
answer is judged by its gradient. scipy works in :math:`z_k = x_k \sqrt{M_k / X_k}`, with lengths X
and slopes M of the turn: there the natural curvature is one, the matrix that BFGS begins with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.smooth import Smooth, is_bounded, no_gradient
from dald_model.solvers.base import Answers, ClientAnswer, Encoding, Session, Turn

AIM = 1e-2
"""Share of the tolerance of a gradient that is aimed at: a digit and more of it is lost where the
objective bends less than its natural curvature."""


class BFGS:
    """``scipy.optimize.minimize(method="BFGS")``, one client after the other.

    The exact solvers are faster and more accurate; this one is here for the paper's experiments
    and for comparison. Each turn starts where the client stands, with the last turn's inverse
    Hessian.
    """

    name = "BFGS"
    batches = False
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        reason = no_gradient(subproblem)
        return reason or ("it has constraints" if is_bounded(subproblem) else "")

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(subproblems)


class _Session:
    """One run: the clients' inverse Hessians."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._subproblems = subproblems
        self._inverses: dict[int, np.ndarray] = {}
        self._each = [(Smooth([sub]), Augmented([sub])) for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        subs = [self._subproblems[at] for at in turn.which]
        found = [self._one(int(own.which[0]), own, tolerance) for own in turn.each(subs)]
        return Answers.joined(found, Encoding.ROWS)

    def _one(self, at: int, turn: Turn, tolerance: float) -> ClientAnswer:
        """One client's; what scipy said is told where the point is not accurate."""
        smooth, augmented = self._each[at]
        me = np.zeros(1, dtype=int)
        ((lengths,), (slopes,)) = turn.tables(turn.points.size)
        units = np.sqrt(lengths / slopes)  # of x in z
        linear = augmented.linear(turn._replace(which=me))
        bend = augmented.hessians(me, turn.rho)[0]

        def whole(z: np.ndarray) -> tuple[float, np.ndarray]:
            x = units * z
            pull = bend @ x
            value = float(smooth.objectives(me, x)[0] + x @ (pull / 2 + linear))
            return value, units * (smooth.gradients(me, x) + pull + linear)

        allowed = tolerance * float(np.sqrt(lengths * slopes).min())
        with np.errstate(all="ignore"):
            found = minimize(
                whole,
                turn.points / units,
                jac=True,
                method="BFGS",
                options={"gtol": AIM * allowed, "hess_inv0": self._inverses.get(at)},
            )
            x = units * found.x
            value = float(smooth.objectives(me, x)[0])
        if _is_definite(found.hess_inv):
            self._inverses[at] = (found.hess_inv + found.hess_inv.T) / 2
        said = str(found.message)
        if not np.isfinite(value):
            told = f"BFGS left the finite numbers: {said}"
            return ClientAnswer.none("solver_error", x.size, told)
        if float(np.abs(found.jac).max(initial=0.0)) <= allowed:
            return ClientAnswer("optimal", x, value)
        return ClientAnswer("optimal_inaccurate", x, value, said=said)


def _is_definite(matrix: np.ndarray) -> bool:
    """Whether scipy takes a matrix to begin with."""
    try:
        np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(matrix).all())
