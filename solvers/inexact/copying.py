"""Copying: a client takes the value that its server tells it, as (sub)gradient methods do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import block_diagonal, ranges
from dald_model.solvers.arrays.smooth import Smooth, is_bounded, no_gradient
from dald_model.solvers.base import NOTHING, Answers, Encoding, Multipliers, Session, Turn
from dald_model.solvers.prox.operators import Prox


def not_free(subproblem: Subproblem) -> str:
    """Why a client cannot follow its gradient wherever that leads; empty if it can."""
    return no_gradient(subproblem) or ("it has constraints" if is_bounded(subproblem) else "")


class Copying:
    r"""The stationary point :math:`x_i = \hat x` of the surrogates (36) and (47): (38), (49).

    The client must share all its variables, entry by entry, with one neighbour.
    """

    name = "copying"
    batches = False
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        return not_free(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(subproblems)


class KinkedCopying(Copying):
    """The same for clients that follow subgradients."""

    def refuses(self, subproblem: Subproblem) -> str:
        return no_subgradient(subproblem)


class _Session:
    """One run over clients of any sizes."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._smooth = Smooth(subproblems)
        self._sides = [sp.csr_array(sub.sides[0].T) for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        points = block_diagonal([self._sides[at] for at in turn.which]) @ turn.neighbours
        values = self._smooth.objectives(turn.which, points)
        return Answers(
            points, values, ["optimal"] * turn.which.size, Multipliers.none(turn.which.size), {}
        )


class Mixing:
    r"""The step of decentralised gradient descent, equation (57), projected on the constraints.

    .. math:: x_i \leftarrow P_{X_i}\Big(p_{ii} x_i + \sum_j p_{ij} z_j - \alpha \nabla
        f_i(x_i)\Big), \qquad p_{ii} = 1 - \sum_j p_{ij}

    The projection is the proximal operator (64) of the client's set (Zeng and Yin 2018).

    Parameters
    ----------
    step : float or None
        :math:`\alpha`; None where it falls from round to round: it is :math:`1 / (2 \rho^2)` then,
        and the gradient may be a subgradient.
    weights : dict
        Client -> the :math:`p_{ij}` of its edges' entries, shape (q,).
    """

    name = "mixing"
    batches = False
    is_exact = True

    def __init__(self, step: float | None, weights: dict[object, np.ndarray]) -> None:
        self.step, self.weights = step, weights

    def refuses(self, subproblem: Subproblem) -> str:
        return no_mixing(subproblem, falls=self.step is None)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _MixingSession(self, subproblems)


def no_mixing(sub: Subproblem, *, falls: bool) -> str:
    """Why a client cannot take steps of (57).

    With steps that fall it may have kinks, unless it has constraints.
    """
    return no_subgradient(sub) if falls and not is_bounded(sub) else no_gradient(sub)


class _MixingSession:
    """One run over clients of any sizes."""

    def __init__(self, solver: Mixing, subproblems: Sequence[Subproblem]) -> None:
        self._step = solver.step
        self._smooth = gradients_of(subproblems)
        self._sides = [sub.sides[0] for sub in subproblems]
        self._weights = [solver.weights[sub.name] for sub in subproblems]
        bounded = [at for at, sub in enumerate(subproblems) if is_bounded(sub)]
        self._place = {at: place for place, at in enumerate(bounded)}
        self._prox = Prox([subproblems[at] for at in bounded]) if bounded else None

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        sides = block_diagonal([self._sides[at] for at in turn.which])
        weights = np.concatenate([self._weights[at] for at in turn.which])
        pull = sides.T @ (weights * (turn.neighbours - sides @ turn.points))
        slopes = self._smooth.gradients(turn.which, turn.points)
        step = 1 / (2 * turn.rho[0] ** 2) if self._step is None else self._step
        points = turn.points + pull - step * slopes
        held, messages = self._project(turn.which, points, step)
        values = self._smooth.objectives(turn.which, points)
        finite = np.isfinite(values)
        said = "the gradient steps left the range of floating point; take a smaller step"
        messages = dict.fromkeys(np.flatnonzero(~finite).tolist(), said) | messages
        statuses = ["solver_error" if i in messages else "optimal" for i in range(values.size)]
        return Answers(points, values, statuses, held, messages)

    def _project(
        self, which: np.ndarray, points: np.ndarray, step: float
    ) -> tuple[Multipliers, dict[int, str]]:
        """Project the points of clients with constraints, in place; their multipliers."""
        mine = [i for i, at in enumerate(which.tolist()) if at in self._place]
        if self._prox is None or not mine:
            return Multipliers.none(which.size), {}
        sizes = self._smooth.sizes[which]
        columns = ranges((np.cumsum(sizes) - sizes)[mine], sizes[mine])
        places = np.array([self._place[at] for at in which[mine].tolist()])
        landed = self._prox(places, points[columns], step)
        points[columns] = landed.points
        found, held = landed.multipliers(), [(Encoding.ROWS, NOTHING)] * which.size
        for k, i in enumerate(mine):
            one = found.of(k)
            held[i] = Encoding(int(one.encodings[0])), one.values
        messages = {mine[k]: said for k, (_, said) in landed.messages.items()}
        return Multipliers.joined(held), messages


class Subgradients(Smooth):
    r"""The objectives of n clients, with a subgradient (Nedic and Ozdaglar 2009) for the gradient.

    .. math:: g_i(x) = \nabla \psi_i(x) + \sum_t A_t^\top \big(w_t \circ s_t\big), \qquad
        s_t \in \partial \varphi_t(A_t x + b_t)

    over the terms without a gradient; at a kink :math:`s_t` is the kind's own choice, which is zero
    for absolute values and norms at zero.

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
