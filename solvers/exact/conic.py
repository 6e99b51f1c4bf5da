r"""Any cone program, one client after the other: Clarabel, whose data is updated in place.

Clarabel has no warm start; what is saved from one turn to the next is everything before its first
iteration: canonicalisation, scaling, ordering and symbolic factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from clarabel import DefaultSolver  # pyright: ignore[reportAttributeAccessIssue]

from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.deadline import is_limited
from dald_model.sizes import ORDER
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import FOUND, PROVEN, Answers, ClientAnswer, Encoding, Session, Turn
from dald_model.solvers.exact.balance import Balance, balance, is_extreme
from dald_model.solvers.exact.cone_certificates import infeasibility, is_unbounded
from dald_model.solvers.exact.native import STATUSES, answered, attempts, native_cone, settings
from dald_model.solvers.exact.polish import Polisher, is_polished

FROM_ATTEMPT = 2
"""From this attempt on what is almost solved has a gap whose root is beyond what was asked."""

FAR_AWAY = 100.0
"""A client whose answer is so many lengths from where its variables are measured from is measured
from there: beside large numbers Clarabel's tolerances, of which some are relative to them, say
little."""


class Scaling(NamedTuple):
    """Natural lengths and slopes of a client's variables, both of shape (m,)."""

    lengths: np.ndarray
    slopes: np.ndarray

    def serves(self, other: Scaling) -> bool:
        """Whether what is solved in these units is as accurate in others, to a factor."""
        pairs = zip(self, other, strict=True)
        return all(bool((np.abs(np.log(one / two)) <= np.log(ORDER)).all()) for one, two in pairs)


class Conic:
    """Solve each client's cone program by Clarabel, kept from turn to turn."""

    name = "conic"
    batches = False
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`; every form has a cone program."""
        return "" if subproblem.form else "it could not be written as a cone program"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`; the clients may differ in every way."""
        return _Session(subproblems)


class ClarabelProgram:
    r"""One client's cone program plus a quadratic in its own variables, in natural units.

    With lengths X and the energy E, the largest :math:`X_k M_k`, Clarabel is given
    :math:`\tilde x = (x - \bar x) / X` and the objective over E: so its tolerances, some of which
    are absolute, mean the same in whatever units the user measures, and wherever the origin is:
    :math:`\bar x`, at first zero, is an answer that was far from it.

    With ``polishes`` its answers are polished where :mod:`.polish` can; without, they are as far
    off as its tolerances let them be, which is what shows whether an answer is one.
    """

    def __init__(self, cone: ConeProgram, scaling: Scaling, polishes: bool = True) -> None:
        self._own, self._across = cone, cone.rows.T
        self._polishes = polishes and is_polished(cone.cones, cone.linear.size + cone.rhs.size)
        self._polisher: Polisher | None = None
        self._sharp: tuple[np.ndarray, np.ndarray] | None = None  # its last answer
        self._size = size = scaling.lengths.size
        self._energy = float((scaling.lengths * scaling.slopes).max())
        lengths = np.ones(cone.linear.size)
        lengths[:size] = scaling.lengths
        self._cones = [native_cone(kind, argument) for kind, argument in cone.cones]
        self._curvature = np.zeros((0, 0))
        self._matrix: Any = None
        self._plain, self._is_extreme = lengths, is_extreme(cone, lengths)
        self._measure_by(lengths)
        self._tolerance = np.nan
        self._options: list[dict[str, Any]] = []
        self._is_limited = False

    def _measure_by(self, lengths: np.ndarray, units: Balance | None = None) -> None:
        """Write the program in these lengths of all variables, and rows in units of their own."""
        cone, self._lengths, self._units = self._own, lengths, units
        cells, rhs = (1.0, cone.rhs) if units is None else (units.cells, units.rhs)
        matrix = _scaled(cone.matrix, lengths[cone.matrix.indices], lengths)
        matrix.data *= 1 / self._energy
        self._cone = cone._replace(
            matrix=matrix,
            linear=lengths * cone.linear / self._energy,
            rows=_scaled(cone.rows, cells, lengths),
            rhs=rhs,
        )
        self._upper = sp.csc_array(sp.triu(matrix))
        self._centre = np.zeros(cone.linear.size)
        self._shifted = rhs
        self._pull: np.ndarray | None = None  # of what is curved at the centre
        self._solver: Any = None

    @property
    def is_set(self) -> bool:
        """Whether K is known."""
        return self._matrix is not None

    def set(self, curvature: np.ndarray) -> None:
        """Take another K, shape (m, m)."""
        self._curvature, self._matrix = curvature, self._upper
        if curvature.any():
            lengths = self._lengths[: self._size]
            added = sp.coo_array(np.triu(curvature * lengths * lengths[:, None] / self._energy))
            added.resize(self._upper.shape)
            self._matrix = sp.csc_array(self._upper + added)
        self._polisher = self._pull = self._sharp = None
        # Not `update(P=...)`: Clarabel would keep the scaling it made for the old penalties, which
        # costs digits where they were 1e4 times others, and a new solver is a fraction of a solve.
        self._solver = None

    def minimise(self, linear: np.ndarray, tolerance: float) -> ClientAnswer:
        """Minimise for another c, shape (m,)."""
        found = self._minimise(linear, tolerance)
        if self._is_doubted(found, tolerance):
            found = self._balanced_answer(linear, tolerance, found)
        away = found.point / self._lengths[: self._size] - self._centre[: self._size]
        if found.status not in FOUND or np.abs(away).max(initial=0.0) <= FAR_AWAY:
            return found
        before = self._centre
        self._measure_from(self._last)
        again = self._minimise(linear, tolerance)
        if again.status in FOUND:
            return again
        self._measure_from(before)
        return found

    def _is_doubted(self, found: ClientAnswer, tolerance: float) -> bool:
        """Whether a program with extreme numbers may be answered better in units of its own.

        Clarabel judges what it leaves beside the largest numbers of the whole program. So where it
        failed, and where it left slopes of variables that cvxpy added which are worth more than was
        asked for over the lengths that these have.
        """
        if self._units is not None or not self._is_extreme:
            return False
        if found.status not in FOUND:
            return found.status not in PROVEN
        cone, values = self._own, self._lengths * self._last
        left = cone.matrix @ values + cone.linear + self._across @ found.multipliers
        worth = np.abs(left * self._balanced.lengths)[self._size :]
        return bool(worth.max(initial=0.0) > tolerance * self._energy)

    def _balanced_answer(
        self, linear: np.ndarray, tolerance: float, found: ClientAnswer
    ) -> ClientAnswer:
        """The answer in units of the rows, and from now on in these; as it was if there is none."""
        self._measure_by(self._balanced.lengths, self._balanced)
        self.set(self._curvature)
        again = self._minimise(linear, tolerance)
        if again.status in FOUND or found.status not in FOUND:
            return again
        self._is_extreme = False  # not to be asked again
        self._measure_by(self._plain)
        self.set(self._curvature)
        return found

    @cached_property
    def _balanced(self) -> Balance:
        """Units of rows and added variables beside the lengths of the client's own."""
        lengths = self._plain.copy()
        lengths[self._size :] = np.nan
        return balance(self._own, lengths)

    def _measure_from(self, centre: np.ndarray) -> None:
        """Have the variables, in lengths, be zero there."""
        self._centre = centre
        self._shifted = self._cone.rhs - self._cone.rows @ centre
        self._solver = self._polisher = self._pull = self._sharp = None

    def _minimise(self, linear: np.ndarray, tolerance: float) -> ClientAnswer:
        full = self._cone.linear.copy()
        full[: self._size] += self._lengths[: self._size] * linear / self._energy
        if self._pull is None:
            upper, centre = self._matrix, self._centre
            self._pull = upper @ centre + upper.T @ centre - upper.diagonal() * centre
        full += self._pull
        if self._polisher is not None and self._sharp is not None:
            x, z, is_sharp = self._polisher.polish(full, *self._sharp, is_near=False)
            if is_sharp:
                self._sharp = x, z
                return self._answered(x, z, linear, "optimal", "")
        is_settled = tolerance == self._tolerance
        if not is_settled:
            self._tolerance, self._options = tolerance, attempts(tolerance)
        native, status = self._attempted(full, is_settled)
        said = "" if status == "optimal" else f"CLARABEL: {native.status}"
        if status not in FOUND:
            multipliers = self._multipliers(np.array(native.z))
            return ClientAnswer.none(status, self._size, said, multipliers)
        x, z = np.array(native.x), np.array(native.z)
        if self._polishes:
            if self._polisher is None:
                upper, rows = self._matrix.toarray(), self._cone.rows.toarray()
                whole = upper + np.triu(upper, 1).T
                self._polisher = Polisher(whole, rows, self._shifted, self._cone.cones)
            x, z, is_sharp = self._polisher.polish(full, x, z)
            if is_sharp:
                status, said = "optimal", ""
            self._sharp = (x, z) if is_sharp else None
        return self._answered(x, z, linear, status, said)

    def _answered(
        self, x: np.ndarray, z: np.ndarray, linear: np.ndarray, status: str, said: str
    ) -> ClientAnswer:
        """The answer in the user's units of what was found for c."""
        multipliers = self._multipliers(z)
        self._last = self._centre + x
        cone, values = self._own, self._lengths * self._last
        bent, point = cone.matrix @ values, values[: self._size]
        objective = float((bent / 2 + cone.linear) @ values) + cone.constant
        left = (bent + cone.linear + self._across @ multipliers)[: self._size]
        left = np.abs(left + linear + self._curvature @ point)
        return ClientAnswer(status, point, objective, multipliers, left, said)

    def _attempted(self, linear: np.ndarray, is_settled: bool) -> tuple[Any, str]:
        """What Clarabel finds by the first attempt that succeeds, and its status."""
        native, status, last = None, "solver_error", len(self._options) - 1
        for at, options in enumerate(self._options):
            native = self._solve(linear, options, is_settled and at == 0)
            status = STATUSES.get(str(native.status), "solver_error")
            if status == "optimal":
                if at:
                    self._solver = None  # it has the settings of another attempt
                # Better Clarabel's own notion of accuracy than no point at all
                is_loose = str(native.status) == "AlmostSolved" and at >= FROM_ATTEMPT
                return native, "optimal_inaccurate" if at == last or is_loose else status
            if status in PROVEN and not self._proves(linear, native, status):
                status = "solver_error"
            # With exponential cones Clarabel fails for ever once a number was not finite
            self._solver = None
            if status != "solver_error":
                break
        return native, status

    def _multipliers(self, z: np.ndarray) -> np.ndarray:
        """What Clarabel found, in the user's units."""
        return self._energy * (z if self._units is None else self._units.restored(z))

    def _proves(self, linear: np.ndarray, native: Any, status: str) -> bool:
        """Whether what Clarabel found proves what it says."""
        program = self._cone._replace(
            matrix=_symmetric(self._matrix), linear=linear, rhs=self._shifted
        )
        if status == "infeasible":
            return infeasibility(program, native.z) is not None
        return is_unbounded(program, native.x, native.s)

    def _solve(self, linear: np.ndarray, options: dict[str, Any], settled: bool) -> Any:
        return answered(lambda: self._prepared(linear, options, settled), self._cone)

    def _prepared(self, linear: np.ndarray, options: dict[str, Any], settled: bool) -> Any:
        if self._solver is None:
            cone = self._cone
            self._solver = DefaultSolver(
                self._matrix, linear, cone.rows, self._shifted, self._cones, settings(options)
            )
        elif settled and not (self._is_limited or is_limited()):
            self._solver.update(q=linear)
        else:
            self._solver.update(q=linear, settings=settings(options))
        self._is_limited = is_limited()  # it has the seconds that were left
        return self._solver


def _scaled(matrix: sp.csc_array, cells: np.ndarray | float, columns: np.ndarray) -> Any:
    """The matrix with what is stored of it times ``cells``, and with its columns times others."""
    found: Any = copy(matrix)  # with the same indices, which scipy would go through again
    found.data = matrix.data * cells * np.repeat(columns, np.diff(matrix.indptr))
    return found


def _symmetric(upper: Any) -> sp.csc_array:
    """The matrix whose upper triangle this is."""
    return sp.csc_array(upper + sp.triu(upper, 1).T)


class _Session:
    """A session of any clients, each with a program of its own."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._forms = [sub.form for sub in subproblems if sub.form]
        self._sizes = np.array([sub.size for sub in subproblems])
        self._programs: list[tuple[ClarabelProgram, Scaling] | None] = [None] * len(subproblems)
        self._augmented = Augmented(subproblems)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        self._forms = [sub.form for sub in subproblems if sub.form]
        self._augmented = self._augmented.again(subproblems)
        self._programs = [None] * len(subproblems)  # their units are of one run
        return True

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        changed, linear = self._augmented.changed(turn), self._augmented.linear(turn)
        stops = np.cumsum(self._sizes[turn.which])
        answers, scaled = [], np.empty(turn.which.size)
        for i, (at, stop) in enumerate(zip(turn.which.tolist(), stops.tolist(), strict=True)):
            mine = slice(stop - int(self._sizes[at]), stop)
            ones = np.ones(self._sizes[at])
            units = Scaling(
                turn.lengths[mine] if turn.lengths.size else ones,
                turn.slopes[mine] if turn.slopes.size else ones,
            )
            answer = self._answer(at, linear[mine], tolerance, units, bool(changed[i]))
            scaled[i] = np.max(answer.left / units.slopes)
            answers.append(answer)

        left = np.array([answer.left.max() for answer in answers])
        return Answers.joined(answers, Encoding.CONES)._replace(slack=left, slack_scaled=scaled)

    def _answer(
        self, at: int, linear: np.ndarray, tolerance: float, units: Scaling, differs: bool
    ) -> ClientAnswer:
        """One client's, whose program has the units of an earlier turn while these serve."""
        kept = self._programs[at]
        if kept is None or not kept[1].serves(units):
            copied = Scaling(*(part.copy() for part in units))
            kept = self._programs[at] = ClarabelProgram(self._forms[at].cone, copied), copied
        program = kept[0]
        if differs or not program.is_set:
            program.set(self._augmented.last_hessians(np.array([at]))[0])
        return program.minimise(linear, tolerance)
