r"""Nuclear: clients with a nuclear norm, by proximal gradient steps with momentum.

.. math:: \min_x \; \tfrac12 x^\top P x + q^\top x + \lambda\, \|X\|_*, \qquad
    X_{ij} = F_{ij}\, x_{k(i,j)} + O_{ij}

cvxpy writes :math:`2 \|X\|_*` as the least :math:`\operatorname{tr} U + \operatorname{tr} V` with
:math:`\begin{pmatrix} U & X \\ X^\top & V \end{pmatrix} \succeq 0`: they are read off that program.
A step thresholds singular values; of a Hessian that is a multiple of the identity the first one is
the minimiser. With eigenvalues from :math:`\mu` to L what is left shrinks by
:math:`1 - \sqrt{\mu / L}` each time, and bounds how far the minimiser is:
:math:`\|x - x^\star\|_2 \le \|g\|_2 / \mu` for any subgradient g at x.
Entries that nobody else sees have no curvature; then :math:`\mu` is the least eigenvalue of the
others, g is as small, and the momentum is that of convex functions. Of matrices of 20 by 14 of
which five owners see 23 to 67 % of the entries, whole solves take a sixth to a ninth of those by
cones.

Source: Beck, First-order methods in optimization, 2017, section 10.7.7; O'Donoghue and Candès,
Adaptive restart for accelerated gradient schemes, 2015, section 3.2, for the restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form
from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import INNER, SUMMED
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import Answers, ClientAnswer, Encoding, Session, Turn
from dald_model.solvers.exact.quadratic_step import not_quadratic

NUCLEAR_STEPS = 1000
"""At most, each a singular value decomposition; as many of 20 by 12 take as long as half a solve by
cones. Enough for ten digits where eigenvalues are 2,000 times apart."""


class Nuclear:
    """One client after the other."""

    name = "nuclear"
    batches = False
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        form = subproblem.form
        if form is None or form.complete:
            return "it has no nuclear norm"
        return "" if nuclear_form(form) else not_quadratic(form)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(subproblems)


class _Session:
    """One run, whose clients begin at their last answers."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._augmented = Augmented(subproblems)
        self._clients = [_Client.of(sub) for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        which = turn.which
        changed, linear = self._augmented.changed(turn), self._augmented.linear(turn)
        stops = np.cumsum([self._clients[at].x.size for at in which.tolist()])
        answers, slack = list[ClientAnswer](), np.full((2, which.size), np.nan)
        for i, at in enumerate(which.tolist()):
            client = self._clients[at]
            part = slice(stops[i] - client.x.size, stops[i])
            if changed[i]:
                client.take(self._augmented.last_hessians(which[i : i + 1])[0])
            lengths = turn.lengths[part] if turn.lengths.size else np.ones(client.x.size)
            answers.append(client.minimise(linear[part], tolerance * lengths.min()))
            if answers[-1].status == "optimal":
                slopes = turn.slopes[part] if turn.slopes.size else np.ones(client.x.size)
                left = answers[-1].left
                slack[:, i] = left.max(), (left / slopes).max()
        found = Answers.joined(answers, Encoding.CONES)
        return found._replace(slack=slack[0], slack_scaled=slack[1])


class _Client:
    """A client with the quadratic that it is asked with."""

    def __init__(self, cone: ConeProgram, form: NuclearForm, size: int) -> None:
        self._form, self._constant, self._height = form, cone.constant, cone.rhs.size
        self._own, self._linear = cone.matrix[:size, :size].toarray(), cone.linear[:size]
        self.x, self._hessian = np.zeros(size), self._own
        self._least, self._most, self._is_flat = 0.0, 0.0, False

    @classmethod
    def of(cls, sub: Subproblem) -> _Client:
        """That of a subproblem which the solver takes."""
        form = sub.form
        known = form and nuclear_form(form)
        assert form is not None
        assert known is not None
        return cls(form.cone, known, sub.size)

    def take(self, penalty: np.ndarray) -> None:
        """Take another K."""
        self._hessian = self._own + penalty
        values = np.linalg.eigvalsh(self._hessian)
        self._most = float(values[-1])
        is_bent = values > SUMMED * self._most
        self._least, self._is_flat = float(values[is_bent].min(initial=np.inf)), not is_bent.all()

    def minimise(self, linear: np.ndarray, error: float) -> ClientAnswer:
        """The minimiser for a linear term, but for an error in the Euclidean norm."""
        least, most, linear = self._least, self._most, self._linear + linear
        said = f"proximal steps came to no end in {NUCLEAR_STEPS}"
        if not (most > 0 and np.isfinite(linear).all()):
            return ClientAnswer.none("solver_error", linear.size, "its Hessian is zero")
        root, age = np.sqrt(least / most), 0
        x = begun = self.x
        error = max(INNER * error, SUMMED * float(np.linalg.norm(linear)) / most)
        for _ in range(NUCLEAR_STEPS):
            gradient = self._hessian @ begun + linear
            before, (x, cells) = x, self._thresholded(begun - gradient / most)
            move = x - begun
            left = self._hessian @ move - most * move
            if np.linalg.norm(left) <= error * least:
                self.x = x
                return self._answer(x, cells, np.abs(left))
            age = 0 if (begun - x) @ (x - before) > 0 else age + 1
            momentum = age / (age + 3) if self._is_flat else (age > 0) * (1 - root) / (1 + root)
            begun = x + momentum * (x - before)
        return ClientAnswer.none("solver_error", linear.size, said)

    def _thresholded(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The proximal point of the nuclear norm, and the norm's slopes in X there."""
        form, found = self._form, x.copy()
        gain = form.factors[0, 0] ** 2 / self._most
        given = form.factors * x[form.entries] + form.offset
        left, sizes, right = np.linalg.svd(given, full_matrices=False)
        slopes = (left * np.minimum(sizes / gain, form.weight)) @ right
        found[form.entries] = x[form.entries] - form.factors * slopes / self._most
        return found, slopes

    def _answer(self, x: np.ndarray, slopes: np.ndarray, left: np.ndarray) -> ClientAnswer:
        form = self._form
        given = form.factors * x[form.entries] + form.offset
        value = (self._own @ x / 2 + self._linear) @ x + self._constant
        value += form.weight * np.linalg.svd(given, compute_uv=False).sum()
        held = np.zeros(self._height)
        held[form.corners], held[form.places] = form.weight / 2, -slopes / np.sqrt(2)
        return ClientAnswer("optimal", x, float(value), held, left)


class NuclearForm(NamedTuple):
    """A client as above.

    Attributes
    ----------
    entries, factors, offset : ndarray, shape (a, b)
        k, F and O; the factors are of one size.
    weight : float
    places : ndarray, shape (a, b)
        The cone program's rows of X.
    corners : ndarray
        Those of the diagonals of U and V.
    """

    entries: np.ndarray
    factors: np.ndarray
    offset: np.ndarray
    weight: float
    places: np.ndarray
    corners: np.ndarray


def nuclear_form(form: Form) -> NuclearForm | None:
    """What a form is as above; None where its cone program is another."""
    cone, size = form.cone, form.size
    if len(cone.cones) != 1 or cone.cones[0][0] != "PSDTriangleConeT":
        return None
    side, rows = cone.cones[0][1], sp.csr_array(cone.rows)
    if (np.diff(rows.indptr) != 1).any() or cone.matrix[:, size:].count_nonzero():
        return None
    columns, factors = rows.indices, -np.asarray(rows.data, float)
    if np.unique(columns).size < columns.size or not factors.all():
        return None
    after, before = np.tril_indices(side)  # the upper triangle, column by column
    is_own, is_corner = columns < size, after == before
    is_first = np.zeros(side, dtype=bool)
    is_first[[0, *after[(before == 0) & ~is_own]]] = True
    if (is_own != (is_first[before] != is_first[after])).any() or not is_own.any():
        return None
    sizes, prices = np.abs(factors[is_own]), cone.linear[columns] / factors
    corners = prices[is_corner]
    is_plain = not (cone.rhs[~is_own].any() or prices[~is_own & ~is_corner].any())
    is_alike = np.allclose(sizes, sizes[0], rtol=1e-12) and np.allclose(corners, corners[0], 1e-12)
    if not (is_plain and is_alike and corners[0] > 0 and (factors[is_corner] > 0).all()):
        return None
    place = np.zeros((side, side), dtype=int)
    place[before, after] = place[after, before] = np.arange(after.size)
    places = place[is_first][:, ~is_first]
    root = np.sqrt(2)  # of entries beside the diagonal
    entries, offset = columns[places], cone.rhs[places] / root
    weight = 2 * float(corners[0])
    return NuclearForm(
        entries, factors[places] / root, offset, weight, places, np.flatnonzero(is_corner)
    )
