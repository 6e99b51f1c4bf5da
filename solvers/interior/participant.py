r"""What a client of an interior point does in a round; it shows curvature on shared variables only.

The homogeneous embedding of the program (Andersen and Ye 1999; Goulart and Chen 2024) has with
:math:`\xi = x / \tau`, :math:`g = \nabla f(\xi)`, :math:`H = \nabla^2 f(\xi)` the residuals

.. math::
    r_x = \tau g + A^\top z + E^\top \lambda, \quad r_z = A x + s - b \tau, \quad
    r_e = E x - e \tau, \quad r_\tau = x^\top g + b^\top z + e^\top \lambda + \kappa .

Everything that a client shows is a sum over its rows, and the coordinator adds what clients show;
so one that has the rows of all clients shows their sum, which is how one process computes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.sizes import HALVINGS, SUMMED
from dald_model.solvers.interior.cones import HELD_ROW, Orthant
from dald_model.solvers.interior.factor import pivoted
from dald_model.solvers.interior.programme import Group
from dald_model.solvers.interior.scaled import Scaled

AT_INFINITY = 1e6
"""Where along a direction its slope is taken for that at infinity, in units of the variables."""


class Sums(NamedTuple):
    """What the coordinator adds, and of which it takes the largest.

    The gradient's residual on shared unknowns and seven numbers, of which the last is the square of
    the residual of variables that nobody else sees; and four numbers, the last of these variables.
    """

    residual: np.ndarray
    slope: float
    right: float
    product: float
    value: float
    degree: float
    steepness: float
    private_square: float
    infeasible: float
    size: float
    largest: float
    private: float


class Direction(NamedTuple):
    """A solution of the linear system: variables, tops, slacks and multipliers of all groups."""

    x: np.ndarray
    equal: np.ndarray
    tops: dict[Any, np.ndarray]
    s: dict[Any, np.ndarray]
    z: dict[Any, np.ndarray]


class Participant(Scaled):
    """One or several clients, by their programme.

    Parameters
    ----------
    programme : Programme
    shared : ndarray of bool, (n + p,)
        Which variables and multipliers of equalities others see; the rest is eliminated.
    """

    def begin(self, length: float, cost: float) -> tuple[float, float]:
        """Start in the middle of all cones, with units so many times longer and costs multiplied.

        Gives complementarity and degree of the heads, whose multipliers hold their costs.
        """
        self.take_units(length, cost)
        program = self.programme
        self._sides: dict[str, Any] = {}
        self._found: dict[str, Direction] = {}
        self._holds = False
        self.x = np.zeros(program.size)
        self.equal = np.zeros(program.equal_right.size)
        self.s = {key: group.cone.start() for key, group in self._groups.items()}
        self.z = {key: group.cone.start() for key, group in self._groups.items()}
        self.tops = {}
        for key, group in self._groups.items():
            if group.tops is not None:
                cone = group.cone
                self.tops[key] = heads = cone.norms(group.right) + 1.0
                self.s[key] = cone.joined(heads, group.right)
                self.z[key] = cone.held(group.tops)
        product = sum(float(self.s[key] @ self.z[key]) for key in self.tops)
        return product, float(sum(self._groups[key].cone.degree for key in self.tops))

    def centre(self, mu: float) -> None:
        """Have the other cones as far from their boundaries as the heads are."""
        for key in self.z:
            if key not in self.tops:
                self.z[key] = mu * self.z[key]

    # A warm start

    @cached_property
    def has_sets(self) -> bool:
        """Whether an active set says all of where the cones are met."""
        return all(
            isinstance(group.cone, Orthant) or group.tops is not None
            for group in self.programme.groups.values()
        )

    @cached_property
    def _is_polyhedral(self) -> bool:
        return all(isinstance(group.cone, Orthant) for group in self.programme.groups.values())

    def point(self, tau: float) -> np.ndarray:
        """Variables, multipliers and slacks in the user's units, one after the other."""
        equal = self.equal * self._equal_unit / (self.cost * tau)
        found = [self.x * self.columns / tau, equal]
        for key in self._groups:
            unit = self._of_cone(key)
            found += [self.s[key] / (unit * tau), self.z[key] * unit / (self.cost * tau)]
        return np.concatenate(found)

    @property
    def points_size(self) -> int:
        """Entries of :meth:`point`."""
        program = self.programme
        cones = sum(group.cone.size for group in program.groups.values())
        return program.size + program.equal_right.size + 2 * cones

    @property
    def iterate(self) -> tuple[Any, ...]:
        """Where it is, for :meth:`go_back`."""
        return self.x, self.equal, self.s, self.z, self.tops

    def go_back(self, iterate: tuple[Any, ...]) -> None:
        """Be where it was before in this run."""
        self.x, self.equal, self.s, self.z, self.tops = iterate

    def resume(self, point: np.ndarray) -> None:
        """Begin where an earlier run ended, with what :meth:`point` gave."""
        at = self.columns.size
        self.x = point[:at] / self.columns
        self.equal = point[at : at + self._equal_unit.size] * self.cost / self._equal_unit
        at += self._equal_unit.size
        self.s, self.z, self.tops, self._sides = {}, {}, {}, {}
        for key, group in self._groups.items():
            unit, size = self._of_cone(key), group.cone.size
            self.s[key] = point[at : at + size] * unit
            self.z[key] = point[at + size : at + 2 * size] * self.cost / unit
            at += 2 * size
        self.settle()
        self._found = {}

    def _of_cone(self, key: Any) -> np.ndarray:
        """The units of the entries of a cone."""
        unit, group = self._units[key], self._groups[key]
        if group.tops is not None and not isinstance(group.cone, Orthant):
            width = group.cone.width
            return np.repeat(unit[:: width - 1], width)
        return np.tile(unit, group.cone.size // unit.size)

    def around(self, at: np.ndarray) -> np.ndarray:
        """What :meth:`point` gives where only the variables are known, in the user's units.

        Their slacks tell the active set: who is within :data:`HELD_ROW` of a boundary is at it.
        """
        self.x = np.concatenate([at, np.zeros(self.x.size - at.size)]) / self.columns
        for key, group in self._groups.items():
            left, cone = group.right - group.rows.times(self.x), group.cone
            self.s[key], self.z[key] = left, np.full(cone.size, HELD_ROW)
            if group.tops is not None:
                sizes = cone.norms(left)
                shares = np.where(sizes > HELD_ROW, group.tops / np.maximum(sizes, HELD_ROW), 0.0)
                slopes = np.repeat(shares, left.size // sizes.size) * left
                self.s[key] = cone.joined(sizes, left)
                self.z[key] = cone.joined(group.tops, -slopes)
        return self.point(1.0)

    def settle(self) -> None:
        """Take each row as active or not, whichever it is nearer to."""
        self._holds = True
        for key, group in self._groups.items():
            s, z = self.s[key], self.z[key]
            if group.tops is None:
                self.s[key], self.z[key] = group.cone.settled(s, z)
            else:
                self.tops[key], self.s[key], self.z[key] = group.cone.sided(s, z, group.tops)

    # A round

    def stand(self, tau: float) -> None:
        """Find the residuals at the present point, for a step from there."""
        self._tau, self._at = tau, self.x / tau
        at = self._at
        gradient = self._matrix @ at + self._linear
        value = float((gradient + self._linear) @ at) / 2 + self.cost * self.programme.constant
        self._bends = []
        for term in self._smooth:
            known, slope, bend = term.at(at)
            gradient = gradient + slope
            value += known
            self._bends.append(bend)
        self._gradient, self._value = gradient, value
        residual = tau * gradient + self._equal.back(self.equal)
        self._apart: dict[Any, np.ndarray] = {}
        self._of_tops: dict[Any, np.ndarray] = {}
        self._tails: dict[Any, np.ndarray] = {}
        for key, group in self._groups.items():
            s, z, cone = self.s[key], self.z[key], group.cone
            self._tails[key] = tail = self._tail(group, z)
            residual = residual + group.rows.back(tail)
            broken = group.rows.times(self.x) - tau * group.right
            if group.tops is not None:
                self._of_tops[key] = tau * group.tops - cone.heads(z)
                broken = cone.joined(-self.tops[key], broken)
            self._apart[key] = broken + s
        self._unequal = self._equal.times(self.x) - tau * self._equal_right
        self._residual = residual

    def measure(self, tau: float) -> Sums:
        """The residuals at the present point."""
        self.stand(tau)
        gradient, value = self._gradient, self._value
        right = float(self._equal_right @ self.equal)
        product, slope, infeasible = 0.0, float(self.x @ gradient), 0.0
        for key, group in self._groups.items():
            product += float(self.s[key] @ self.z[key])
            right += float(group.right @ self._tails[key])
            if group.tops is not None:
                of_tops = float(group.tops @ self.tops[key])
                slope += of_tops
                value += of_tops / tau
            infeasible = max(infeasible, float(np.abs(self._apart[key]).max(initial=0.0)))
        infeasible = max(infeasible, float(np.abs(self._unequal).max(initial=0.0)))
        known = self._shown(self._residual)
        size = float(np.abs(self.x).max(initial=0.0))
        steepness = tau * float(np.abs(gradient).max(initial=0.0))
        degree = float(self.degree)
        tops = self._of_tops.values()
        hidden = [one for one in (self._hidden(self._residual), *tops) if one.size]
        private = max([float(np.abs(one).max()) for one in hidden], default=0.0)
        square = float(sum([one @ one for one in hidden]))
        sums = slope, right, product, value, degree, steepness, square
        return Sums(known, *sums, infeasible, size, tau * self._largest, private)

    def falls(self) -> float:
        """The slope of the objective along x, as far out as its quadratic shows by then."""
        length = float(np.abs(self.x).max(initial=0.0))
        if length == 0.0:
            return 0.0
        way = self.x / length
        found = AT_INFINITY * float(way @ (self._matrix @ way)) + float(self._linear @ way)
        for term in self._smooth:
            found += float(term.at(AT_INFINITY * way)[1] @ way)
        for key, group in self._groups.items():
            if group.tops is not None:
                found += float(group.tops @ self.tops[key]) / length
        return found * length if np.isfinite(found) else np.inf

    @property
    def is_linear(self) -> bool:
        """Whether residuals are linear, so that a step takes its share away from them."""
        return not self.programme.smooth

    def curvature(self) -> Any:
        """The Schur complement of all that is the client's own, on shared unknowns."""
        bent = self._matrix
        for term, bend in zip(self._smooth, self._bends, strict=True):
            bent = bent + term.curvature(bend)
        self._bent, self._curved = bent, bent @ self._at
        for key, group in self._groups.items():
            group.cone.scale(self.s[key], self.z[key])
        if not (self._holds and self.is_linear and self._is_polyhedral):
            return self._summed(bent)
        # An active set that stays, of a program whose matrices do, has the same curvature
        ratios = np.concatenate([np.zeros(0), *(g.cone.ratio for g in self._groups.values())])
        if not np.array_equal(ratios, self._ratios):
            self._ratios = ratios
        rows = [self._equal, *(group.rows for group in self._groups.values())]
        return self._once("curvature", lambda: self._summed(bent), bent, self._ratios, *rows)

    def _summed(self, bent: Any) -> Any:
        full: Any = bent
        for group in self._groups.values():
            if group.tops is None:
                full = full + group.cone.curvature(group.rows)
            else:
                full = full + group.cone.reduced(group.rows)
        count = self.equal.size
        if (count or not self._is_all) and sp.issparse(full):
            rows, nothing = sp.csr_array(self._equal.matrix), sp.csr_array((count, count))
            full = sp.block_array([[sp.csr_array(full), rows.T], [rows, nothing]], format="csc")
        elif count:
            rows, both = self._equal.dense, np.zeros((len(full) + count, len(full) + count))
            both[:-count, :-count], both[-count:, :-count], both[:-count, -count:] = (
                full,
                rows,
                rows.T,
            )
            full = both
        if self._is_all:
            return full
        return self._eliminated(full.toarray() if sp.issparse(full) else full)

    def _eliminated(self, full: np.ndarray) -> np.ndarray:
        own, known = self._private, self._known
        block = full[np.ix_(own, own)].copy()
        sign = np.where(own < self.x.size, 1.0, -1.0)
        at = np.arange(own.size)
        size = np.abs(block).max(axis=1, initial=0.0)
        block[at, at] += sign * SUMMED * np.maximum(size, 1e-3)
        self._solve = pivoted(block)
        self._join = full[np.ix_(own, known)]
        self._share = self._solve(self._join)
        return full[np.ix_(known, known)] - self._join.T @ self._share

    def constant(self) -> np.ndarray:
        r"""The right side of the direction in which tau moves, on shared unknowns.

        Solved for its difference from the present point over tau, of which the right side is
        :math:`-r_x / \tau` and :math:`(2 s - r_z) / \tau`: as large as the residuals, where the
        constants themselves would leave rounding errors as large as the scaling.
        """
        tau = self._tau
        rows = {
            key: (2 * group.cone.own(self.s[key], self.z[key]) / tau, self._apart[key] / tau)
            for key, group in self._groups.items()
        }
        tops = {key: -one / tau for key, one in self._of_tops.items()}
        return self._reduced("constant", -self._residual / tau, -self._unequal / tau, tops, rows)

    def predicted(self) -> np.ndarray:
        """The right side of the step to the boundary."""
        self._target = {
            key: group.cone.own(self.s[key], self.z[key]) for key, group in self._groups.items()
        }
        return self._moving_side("step", 1.0)

    def corrected(self, centring: float, share: float) -> np.ndarray:
        r"""The right side of the step to :math:`\sigma \mu`, with a share of the residuals."""
        self._target = {
            key: group.cone.correction(self._ds[key], self._dz[key], centring)
            for key, group in self._groups.items()
        }
        return self._moving_side("step", share)

    def _moving_side(self, name: str, share: float) -> np.ndarray:
        self._taken = share
        tops = {key: -share * one for key, one in self._of_tops.items()}
        rows = {key: (self._target[key], share * self._apart[key]) for key in self._groups}
        return self._reduced(name, -share * self._residual, -share * self._unequal, tops, rows)

    def hear_constant(self, known: np.ndarray) -> tuple[float, float]:
        """Hear the direction in which tau moves; gives the two parts of the curvature along tau."""
        return self._solved("constant", known)

    def hear_step(self, known: np.ndarray) -> tuple[float, float]:
        """Hear the step on shared unknowns; gives its products with slopes and right sides."""
        return self._solved("step", known)

    def _solved(self, name: str, known: np.ndarray) -> tuple[float, float]:
        side, tops, rows = self._sides[name]
        full = known
        if not self._is_all:
            full = np.empty(side.size)
            full[self.shared] = known
            own = self._solve(side[self._private])
            full[self._private] = own - self._share @ known
        count = self.x.size
        x, equal = full[:count], full[count:]
        moved_tops, z, s = {}, {}, {}
        for key, group in self._groups.items():
            moved = group.rows.times(x)
            if group.tops is not None:
                cone = group.cone
                corner, beside = cone.tops()
                along = cone.along(beside * moved)
                moved_tops[key] = (tops[key] + along) / corner
                moved = cone.joined(-moved_tops[key], moved)
            target, apart = rows[key]
            # By the rows, not by the multipliers, so that rounding breaks no constraint
            z[key], s[key] = group.cone.inverse(moved + apart) - target, -moved
        if name == "constant":
            return self._hear_constant(Direction(x, equal, moved_tops, s, z))
        slope = float((self._gradient + self._curved) @ x)
        right = float(self._equal_right @ equal)
        for key, group in self._groups.items():
            s[key] = -self._taken * self._apart[key] + s[key]
            if group.tops is not None:
                slope += float(group.tops @ moved_tops[key])
            right += float(group.right @ self._tail(group, z[key]))
        self._found[name] = Direction(x, equal, moved_tops, s, z)
        return slope, right

    def _hear_constant(self, way: Direction) -> tuple[float, float]:
        tau, square = self._tau, 0.0
        for key, group in self._groups.items():
            way.s[key] = (self.s[key] - self._apart[key]) / tau + way.s[key]
            way.z[key] = way.z[key] + self.z[key] / tau
            if group.tops is not None:
                way.tops[key] = way.tops[key] + self.tops[key] / tau
            square += float(way.z[key] @ group.cone.squared(way.z[key]))
        x = way.x
        found = way._replace(x=x + self._at, equal=way.equal + self.equal / tau)
        self._found["constant"] = found
        return float(x @ (self._bent @ x)), square

    def combine(self, dtau: float) -> None:
        """Add both directions, with this step of tau."""
        step = self._found["step"]
        if dtau:  # else the constants are not asked for
            fixed = self._found["constant"]
            step = Direction(
                step.x + dtau * fixed.x,
                step.equal + dtau * fixed.equal,
                {key: one + dtau * fixed.tops[key] for key, one in step.tops.items()},
                {key: one + dtau * fixed.s[key] for key, one in step.s.items()},
                {key: one + dtau * fixed.z[key] for key, one in step.z.items()},
            )
        self._dx, self._dequal, self._dtops, self._ds, self._dz = step
        self._dtau = dtau
        self._base = self.x, self.equal, dict(self.s), dict(self.z), dict(self.tops)

    def longest(self) -> float:
        """The longest step that stays in all cones, at most 1."""
        found = [
            group.cone.longest(self._ds[key], self._dz[key]) for key, group in self._groups.items()
        ]
        return min([1.0, *found])

    def defined(self, step: float) -> float:
        """The step, halved until smooth terms have values there."""
        for _ in range(HALVINGS):
            at = (self.x + step * self._dx) / (self._tau + step * self._dtau)
            if all(np.isfinite(term.at(at)[0]) for term in self._smooth):
                return step
            step /= 2
        return 0.0

    def go(self, step: float) -> None:
        """Take the step, from where it was found."""
        x, equal, s, z, tops = self._base
        self.x, self.equal = x + step * self._dx, equal + step * self._dequal
        self.s = {key: one + step * self._ds[key] for key, one in s.items()}
        self.z = {key: one + step * self._dz[key] for key, one in z.items()}
        self.tops = {key: one + step * self._dtops[key] for key, one in tops.items()}

    # Within

    def _reduced(
        self,
        name: str,
        side: np.ndarray,
        equal: np.ndarray,
        tops: dict[Any, np.ndarray],
        rows: dict[Any, tuple[np.ndarray, np.ndarray]],
    ) -> np.ndarray:
        r"""A right side on shared unknowns, and what it takes to go back from there.

        The right sides of rows are :math:`d_s - r_z`, given as :math:`(W^\top W)^{-1} d_s` and r_z.
        """
        heads = {}
        for key, group in self._groups.items():
            target, apart = rows[key]
            bent = target - group.cone.inverse(apart)
            if group.tops is not None:
                cone = group.cone
                corner, beside = cone.tops()
                heads[key] = tops[key] - cone.heads(bent)
                bent = cone.tails(bent) + beside * cone.beside(heads[key] / corner)
            side = side + group.rows.back(bent)
        full = np.concatenate([side, equal])
        self._sides[name] = full, heads, rows
        if self._is_all:
            return full
        own = self._solve(full[self._private])
        return full[self._known] - self._join.T @ own

    @staticmethod
    def _tail(group: Group, vector: np.ndarray) -> np.ndarray:
        if group.tops is None:
            return vector
        return group.cone.tails(vector)

    # What is found

    def multipliers(self, tau: float) -> tuple[np.ndarray, dict[Any, np.ndarray]]:
        """Those of equalities, and of each group, in the user's units."""
        scale = 1 / (self.cost * tau)
        found = {
            key: self._tail(group, self.z[key]) * self._units[key] * scale
            for key, group in self._groups.items()
        }
        return self.equal * self._equal_unit * scale, found
