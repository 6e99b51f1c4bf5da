r"""Minimisers of many quadratics plus norms and balls of groups of variables, by their proxes.

.. math::
    \min_x \tfrac12 x^\top H x + c^\top x + \sum_g w_g \|x_g - a_g\|_2
    \quad\text{s.t. } \|x_g - a_g\|_2 \le r_g, \qquad
    \operatorname{prox}_{w}(v) = \max(0, 1 - w / \|v\|)\, v, \quad
    \operatorname{proj}_{r}(v) = \min(1, r / \|v\|)\, v.

Accelerated proximal gradient steps with the momentum that is best for a strongly convex H
(Nesterov 2004, section 2.2; Beck and Teboulle 2009), in units D in which H has a diagonal of ones
but for groups, whose variables share one. With step s from the extrapolated point to the next z,

.. math:: \|z - z^*\|_2 \le (\kappa - 1) \|s\|_2, \qquad \kappa = \lambda_{\max} / \lambda_{\min},

because :math:`(\lambda_{\max} I - D H D) s` is a subgradient at z; so the stop is a proof. The
augmented terms keep :math:`\kappa` small: some tens of steps do, a few from the last round's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.declare.made_once import MadeOnce
from dald_model.solvers.arrays.indexing import selection, times
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.quadratic_step import Errors, Step, rows_of

_TAKEN = MadeOnce()
LIMIT = 5000
"""Steps for one turn; a client that needs more has failed."""
WORST = 1e6
"""Condition number from which on a client has failed: another method is faster there."""
ROUNDING = 1e-15
"""Steps below this share of a point are rounding errors."""
SHARED = 2**20
"""Bytes of Hessians that are worked on together: they stay in cache for all steps of a turn."""


def _taken(given: Any, width: int) -> np.ndarray | str:
    """How often each variable is an argument of a norm of this width; or why that is nothing."""
    counts = np.diff(given.indptr) if sp.issparse(given) else np.count_nonzero(given, axis=1)
    if (counts != 1).any():
        return "an argument of its {} terms is more than one variable"
    matrix: Any = sp.csr_array(given)
    sizes = np.abs(matrix.data).reshape(-1, width)
    if not np.allclose(sizes, sizes[:, :1], rtol=1e-12, atol=0.0):
        return "its {} terms weigh the variables of a group differently"
    return np.bincount(matrix.indices, minlength=matrix.shape[1])


class Proximal:
    """Quadratics with norms and balls of disjoint groups of variables, see the module."""

    is_exact: ClassVar[bool] = False

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        nonsmooth = [term for term in form.terms if not term.is_smooth]
        taken = np.zeros(form.size, dtype=int)
        for term in nonsmooth:
            matrix, width = term.matrix, term.width
            found = _TAKEN.of((id(matrix), width), [matrix], partial(_taken, matrix, width))
            if isinstance(found, str):
                return found.format(term.kind.name)
            taken += found
        reasons = [
            rows_of("equalities", form.equalities.rhs.size),
            rows_of("inequalities", form.inequalities.rhs.size),
            "" if nonsmooth else "it has no norms, balls or absolute values",
            "a variable is in two of its norms, balls or absolute values"
            if taken.max() > 1
            else "",
        ]
        return next((reason for reason in reasons if reason), "")

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        self._groups = [
            _Group([form.terms[at] for form in forms])
            for at, term in enumerate(forms[0].terms)
            if not term.is_smooth
        ]
        self._hessians = np.empty((count, size, size))
        self._units = np.ones((count, size))
        self._largest, self._least = np.ones(count), np.ones(count)
        self._failed = np.ones(count, dtype=bool)
        self._points = np.zeros((count, size))
        self._at_once = max(1, SHARED // (8 * size**2))
        self.balls = sum(group.count for group in self._groups if group.is_ball)

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H for some clients; failed are those whose condition is too bad."""
        units = variable_scales(hessians)
        for group in self._groups:
            units = group.levelled(which, units)
        scaled = hessians * (units[:, :, None] * units[:, None, :])
        values = np.linalg.eigvalsh(scaled)
        self._points[which] *= self._units[which] / units  # the same points in new units
        self._hessians[which], self._units[which] = scaled, units
        self._largest[which], self._least[which] = values[:, -1], values[:, 0]
        failed = ~(values[:, 0] * WORST > values[:, -1])
        self._failed[which] = failed
        return failed

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear`` to errors of these sizes, from the last minimisers."""
        found = np.empty(linear.shape)
        errors = np.broadcast_to(0.0 if errors is None else errors, linear.shape)
        failed = np.empty(which.size, dtype=bool)
        pulls = np.zeros((which.size, self.balls))
        energy = np.empty(which.size)
        for start in range(0, which.size, self._at_once):
            part = slice(start, start + self._at_once)
            mine = which[part]
            z, failed[part] = self._descend(mine, self._units[mine] * linear[part], errors[part])
            self._points[mine] = z
            bent = times(self._hessians[selection(mine)], z)
            energy[part] = np.vecdot(bent, z)
            force = (bent + self._units[mine] * linear[part]) / self._units[mine]
            found[part] = self._units[mine] * z
            norms = [g.norms(mine, force) for g in self._groups if g.is_ball]
            if norms:
                pulls[part] = np.concatenate(norms, axis=1)
        found[failed] = np.nan
        nothing = np.zeros((which.size, 0))
        return Step(found, nothing, nothing, failed, energy, pulls)

    def _descend(
        self, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Minimisers in scaled units, and where none was found."""
        hessians, units = self._hessians[selection(which)], self._units[which]
        length = 1 / np.where(self._failed[which], 1.0, self._largest[which])
        # Those that failed are only carried along
        least = np.where(self._failed[which], 1.0, self._least[which])
        kappa = 1 / (length * least)
        allowed = np.min(errors / units, axis=1)
        momentum = ((np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1))[:, None]
        shrinks = [group.shrink(which, units, length) for group in self._groups]
        z = y = self._points[which]
        found = z.copy()  # a client stays where it was done, whoever else goes on
        is_done = self._failed[which].copy()
        failed = is_done.copy()
        for _ in range(LIMIT):
            if is_done.all():
                break
            ahead = y - length[:, None] * (times(hessians, y) + linear)
            for shrink in shrinks:
                shrink(ahead)
            step = np.linalg.norm(ahead - y, axis=1)
            y = ahead + momentum * (ahead - z)
            z = ahead
            rounding = ROUNDING * np.linalg.norm(z, axis=1) * np.sqrt(z.shape[1])
            np.copyto(found, z, where=~is_done[:, None])
            is_done |= step <= np.maximum(allowed / np.maximum(kappa - 1, 1.0), rounding)
        return found, failed | ~is_done


class _Group:
    """One term of B clients: ``count`` groups of ``width`` variables each."""

    def __init__(self, terms: Sequence[Term]) -> None:
        first = terms[0]
        self._kind, self.is_ball = first.kind, first.is_set
        self.count, self.width = first.weight.size, first.width
        shape = (len(terms), self.count, self.width)
        matrices: list[Any] = [sp.csr_array(term.matrix) for term in terms]
        self._columns = np.stack([m.indices for m in matrices])
        factors = np.stack([m.data for m in matrices])
        self._centres = (-np.stack([term.offset for term in terms]) / factors).reshape(shape)
        self._factors = np.abs(factors).reshape(shape)[:, :, 0]
        weight = np.stack([term.weight for term in terms])
        parameter = np.stack([term.parameter for term in terms])
        # Of the variables themselves
        self._weight, self._parameter = self._kind.scaled(weight, parameter, self._factors)

    def levelled(self, which: np.ndarray, units: np.ndarray) -> np.ndarray:
        """The same units with those of a group's variables replaced by the smallest."""
        columns = self._columns[which]
        mine = np.take_along_axis(units, columns, axis=1).reshape(-1, self.count, self.width)
        level = np.repeat(mine.min(axis=2), self.width, axis=1)
        units = units.copy()
        np.put_along_axis(units, columns, level, axis=1)
        return units

    def shrink(
        self, which: np.ndarray, units: np.ndarray, length: np.ndarray
    ) -> Callable[[np.ndarray], None]:
        """The prox of the groups for steps of some length, in units of the variables, in place."""
        columns = self._columns[which]
        shape = (which.size, self.count, self.width)
        unit = np.take_along_axis(units, columns, axis=1).reshape(shape)[:, :, 0]
        centre = self._centres[which] / unit[:, :, None]
        weight, parameter = self._kind.scaled(self._weight[which], self._parameter[which], unit)
        weight = weight * length[:, None]
        # One slice where all clients have their groups in a row
        run = selection(columns[0]) if (columns == columns[:1]).all() else None
        at = (
            (slice(None), run)
            if isinstance(run, slice)
            else (np.arange(which.size)[:, None], columns)
        )

        def shrink(points: np.ndarray) -> None:
            offset = points[at].reshape(shape)
            offset = offset - centre
            given = self._kind.grouped(offset.reshape(which.size, -1), self.width)
            found = self._kind.prox(given, weight, parameter).reshape(shape)
            points[at] = (found + centre).reshape(which.size, -1)

        return shrink

    def norms(self, which: np.ndarray, forces: np.ndarray) -> np.ndarray:
        """The multipliers of the balls, shape (k, count): the sizes of what they must hold."""
        columns = self._columns[which]
        mine = np.take_along_axis(forces, columns, axis=1)
        norms = np.linalg.norm(mine.reshape(-1, self.count, self.width), axis=2)
        return norms / self._factors[which]
