r"""Minimisers of quadratics over sets that see the variables through a few sums only.

.. math:: \min_x \tfrac12 x^\top D x + c^\top x + g(M x) + \tfrac12 (M x)^\top W (M x),

D diagonal, no variable in two rows of M: what a coupling such as a market, a budget, the norm of a
difference, or a limit on sums and their cost is to its solver. With :math:`v = -D^{-1} c` and
:math:`h = 1 / (M D^{-1} M^\top)`, which is diagonal, what is left is a problem in the sums
:math:`t = M x`,

.. math::
    \min_t \tfrac12 \|t - M v\|^2_h + g(t) + \tfrac12 t^\top W t,
    \qquad x = v + D^{-1} M^\top h (t - M v),

as in the sharing problem of Boyd et al., *Distributed optimization and statistical learning via
the alternating direction method of multipliers* (2011), section 7.3. A step method takes it, whose
multipliers are those of x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Quadratic, Rows
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.affine import MadeOnce
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.indexing import times
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.base import Answers, Multipliers, Session, Turn
from dald_model.solvers.exact.common_sums import Sums, common_sums
from dald_model.solvers.exact.quadratic_step import again
from dald_model.solvers.exact.step_methods import refusal, step_method

_BLOCKS = MadeOnce()
NONE = "no minimiser to working accuracy"
ROUNDED = 1e-13
"""Of its largest entry: a quadratic that is one of the sums but for this is a rounding error away,
as products of a matrix with itself are summed up in other orders (some eps times their length)."""


def priced_sums(subproblem: Subproblem) -> tuple[np.ndarray, np.ndarray] | None:
    """Which sum that has a price each variable of a coupling enters, and with what factor, (m,).

    Sums have a price where they stand in a linear row; -1 stands for any other. None where the
    coupling is none of sums, see the module.
    """
    if not subproblem.client.is_coupling or subproblem.form is None:
        return None
    if subproblem.form.extra or not subproblem.form.complete:
        return None
    found = _reduced(subproblem.form)
    if isinstance(found, str):
        return None
    rows = [found.form.equalities.matrix, found.form.inequalities.matrix]
    is_priced = np.append(np.any(np.concatenate(rows), axis=0), False)  # the last for -1
    return np.where(is_priced[found.which], found.which, -1), found.factors


class _Reduced(NamedTuple):
    """A form in its sums: ``which`` sum a variable enters, -1 for none, and with what factor.

    ``diagonal`` D and ``bend`` W are its quadratic, which ``form`` does not hold.
    """

    form: Form
    which: np.ndarray
    factors: np.ndarray
    diagonal: np.ndarray
    bend: np.ndarray


class Sharing:
    """Couplings that see what is shared through fewer sums, see the module."""

    name = "sharing"
    batches = True
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        form = subproblem.form
        if not subproblem.client.is_coupling:
            return "it is no coupling"
        if form is None or not form.complete:
            return "its cone program has parts that are no quadratic and no known function"
        if form.extra:
            return f"its rows need {form.extra} variables more than the client has"
        if (np.diff(subproblem.sides[0].indptr) > 1).any():
            return "one of its sides is of several variables"
        if any(term.is_smooth for term in form.terms):
            return "its objective has terms with a gradient, which are not quadratic"
        reduced = _reduced(form)
        if isinstance(reduced, str):
            return reduced
        reasons = refusal(reduced.form)
        return reasons and f"of its sums, {reasons}"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(subproblems)


class _Session:
    """One run over clients of one shape."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._augmented = Augmented(subproblems)
        self._groups: list[_Group] = []
        self._set(subproblems)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        """See :class:`dald_model.solvers.base.Lasting`."""
        self._augmented = self._augmented.again(subproblems)
        self._set(subproblems)
        return True

    def _set(self, subproblems: Sequence[Subproblem]) -> None:
        """Take all numbers but those of the sides, and know nothing of turns before."""
        forms = [sub.form for sub in subproblems if sub.form is not None]
        found = [_reduced(form) for form in forms]
        reduced = [one for one in found if isinstance(one, _Reduced)]
        self._linear = np.stack([form.quadratic.linear for form in forms])
        self._curved = np.stack([one.diagonal for one in reduced])
        self._constants = np.array([form.quadratic.constant for form in forms])
        valued = [[t for t in form.terms if not t.is_set] for form in forms]
        self._terms = Terms(valued, forms[0].size) if valued[0] else None
        self._which = np.stack([one.which for one in reduced])
        self._factors = np.stack([one.factors for one in reduced])
        counts = np.array([one.form.size for one in reduced])
        # One shape in the variables may be several in the sums
        kinds, self._kind = np.unique(counts, return_inverse=True)
        members = [np.flatnonzero(counts == count) for count in kinds]
        left = [one.form for one in reduced]
        if not self._is_again(members, left):
            self._groups = [_Group(mine, left) for mine in members]
        for group, mine in zip(self._groups, members, strict=True):
            group.bends = np.stack([reduced[at].bend for at in mine])
        self._diagonals = np.ones(self._which.shape)
        self._weights = np.zeros((len(reduced), int(counts.max())))
        self._broken = np.zeros(len(reduced), dtype=bool)

    def _is_again(self, members: Sequence[np.ndarray], forms: Sequence[Form]) -> bool:
        """Whether the groups of before take these forms."""
        pairs = list(zip(self._groups, members, strict=False))
        is_same = 0 < len(pairs) == len(members) == len(self._groups)
        return is_same and all(group.take(mine, forms) for group, mine in pairs)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        which = turn.which
        moved = self._augmented.changed(turn)
        if moved.any():
            self._factor(turn, moved)
        linear = self._augmented.linear(turn).reshape(which.size, -1) + self._linear[which]
        lengths, _ = turn.tables(linear.shape[1])
        points, multipliers, failed = self._solve(which, linear, tolerance * lengths)
        failed |= self._broken[which]
        said: dict[int, str] = {}
        if failed.any():
            points[failed] = np.nan
            said = dict.fromkeys(np.flatnonzero(failed).tolist(), NONE)
        bend = np.vecdot(self._curved[which] * points, points) / 2
        totals = self._summed(which, self._factors[which] * points)
        for group, part in self._parts(which):
            sums = totals[part, : group.count]
            bend[part] += np.vecdot(times(group.bends[group.place[which[part]]], sums), sums) / 2
        objectives = bend + np.vecdot(self._linear[which], points) + self._constants[which]
        if self._terms is not None:
            objectives += self._terms.values(which, points)
        statuses = np.where(failed, "solver_error", "optimal").tolist()
        held = Multipliers.table(multipliers)
        return Answers(points.reshape(-1), objectives, statuses, held, said)

    def _factor(self, turn: Turn, moved: np.ndarray) -> None:
        """Take new penalties for those that have some."""
        diagonals = self._augmented.diagonals(turn)
        assert diagonals is not None
        which = turn.which[moved]
        found = diagonals.reshape(turn.which.size, -1)[moved] + self._curved[which]
        broken = np.any(found <= 0, axis=1)
        self._broken[which] = broken
        self._diagonals[which] = np.where(broken[:, None], 1.0, found)
        softness = self._summed(which, self._factors[which] ** 2 / self._diagonals[which])
        self._weights[which] = np.divide(
            1.0, softness, out=np.zeros(softness.shape), where=softness > 0
        )
        for group, part in self._parts(which):
            weights = self._weights[which[part], : group.count]
            mine = group.place[which[part]]
            curved = weights[:, :, None] * np.eye(group.count) + group.bends[mine]
            failed = group.method.factor(mine, curved)
            self._broken[which[part]] |= failed

    def _solve(
        self, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, multipliers, and where none were found."""
        points = -linear / self._diagonals[which]
        totals = self._summed(which, self._factors[which] * points)
        moved = np.zeros(totals.shape)
        failed = np.zeros(which.size, dtype=bool)
        multipliers: dict[int, np.ndarray] = {}
        for group, part in self._parts(which):
            mine, count = which[part], group.count
            aim, weights = totals[part, :count], self._weights[mine, :count]
            # What a sum is wrong by is shared by its variables: none is wrong by more
            allowed = np.broadcast_to(errors[part].min(axis=1)[:, None], aim.shape)
            step = group.method.solve(group.place[mine], -weights * aim, allowed)
            moved[part, :count] = weights * (step.points - aim)
            failed[part] = step.failed
            multipliers |= zip(part.tolist(), step.multipliers, strict=True)
        pulled = np.take_along_axis(moved, np.maximum(self._which[which], 0), axis=1)
        points += self._factors[which] * pulled / self._diagonals[which]
        return points, np.stack([multipliers[i] for i in range(which.size)]), failed

    def _summed(self, which: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What each client's variables have, (k, m), added up by sum."""
        width = self._weights.shape[1]
        into = self._which[which] + width * np.arange(which.size)[:, None]
        is_in = self._which[which] >= 0
        found = np.bincount(into[is_in], values[is_in], minlength=width * which.size)
        return found.reshape(which.size, width)

    def _parts(self, which: np.ndarray) -> list[tuple[_Group, np.ndarray]]:
        """The groups, and where their clients stand among those asked for."""
        if len(self._groups) == 1:
            return [(self._groups[0], np.arange(which.size))]
        mine = self._kind[which]
        return [(self._groups[at], np.flatnonzero(mine == at)) for at in np.unique(mine)]


class _Group:
    """Clients with as many sums, and the step method that takes them."""

    def __init__(self, members: np.ndarray, forms: Sequence[Form]) -> None:
        mine = [forms[at] for at in members]
        self.count = mine[0].size
        self.place = np.zeros(len(forms), dtype=int)
        self.place[members] = np.arange(members.size)
        self._members, self._shape = members, mine[0].shape
        self.bends = np.zeros((members.size, self.count, self.count))
        self.method = step_method(mine)(mine)

    def take(self, members: np.ndarray, forms: Sequence[Form]) -> bool:
        """Whether these are the same clients, of which other numbers are taken."""
        mine = [forms[at] for at in members]
        is_same = np.array_equal(members, self._members) and mine[0].shape == self._shape
        if is_same:
            self.method = again(self.method, mine)
        return is_same


_known: WeakKeyDictionary[Form, _Reduced | str] = WeakKeyDictionary()
"""A form is reduced once, however often it is asked who solves it."""


def _reduced(form: Form) -> _Reduced | str:
    """A form in its sums, or why that is nothing."""
    found = _known.get(form)
    if found is None:
        found = _known[form] = _reduce(form)
    return found


def _reduce(form: Form) -> _Reduced | str:
    parts = [form.equalities.matrix, form.inequalities.matrix, *(t.matrix for t in form.terms)]
    has_rows, many = any(part.shape[0] for part in parts), "its quadratic is of several variables"
    if not has_rows and not _is_diagonal(form.quadratic):
        return many
    found = common_sums(parts)
    if isinstance(found, str):
        return found
    bent = _bend(form.quadratic, found)
    if bent is None:
        return f"{many}, and not of the sums of its rows"
    return _Reduced(_in_sums(form, found.matrix), found.which, found.factors, *bent)


def _is_diagonal(quadratic: Quadratic) -> bool:
    matrix = quadratic.matrix
    if matrix is None:
        return not quadratic.numbers.any()
    return np.count_nonzero(matrix) == np.count_nonzero(np.diag(matrix))


def _bend(quadratic: Quadratic, sums: Sums) -> tuple[np.ndarray, np.ndarray] | None:
    """D and W of a quadratic, one of them zero; None where it is neither diagonal nor of the sums.

    One variable of each sum tells W.
    """
    count, size = sums.matrix.shape[1], sums.which.size
    if _is_diagonal(quadratic):
        diagonal = np.zeros(size) if quadratic.matrix is None else np.diag(quadratic.matrix)
        return diagonal, np.zeros((count, count))
    has = np.flatnonzero(sums.which >= 0)
    into = sp.csr_array((sums.factors[has], (sums.which[has], has)), shape=(count, size))
    firsts = has[np.unique(sums.which[has], return_index=True)[1]]
    held: Any = quadratic.root if quadratic.matrix is None else quadratic.matrix
    told = sp.csc_array(held)[:, firsts] / sums.factors[firsts]
    apart = abs(sp.csr_array(held) - sp.csr_array(told) @ into)
    if apart.max() > ROUNDED * np.abs(quadratic.numbers).max():
        return None
    dense = np.asarray(told.toarray())
    if quadratic.matrix is None:
        return np.zeros(size), dense.T @ dense
    return np.zeros(size), dense[firsts] / sums.factors[firsts][:, None]


def _in_sums(form: Form, matrix: Any) -> Form:
    """The form with its rows and terms of the sums, ``matrix`` all of these."""
    stops = np.cumsum(
        [form.equalities.rhs.size, form.inequalities.rhs.size, *(t.offset.size for t in form.terms)]
    )
    spans = zip([0, *stops[:-1]], stops, strict=True)
    key, size = (id(matrix), *stops.tolist()), matrix.shape[1]
    (equal, below), blocks = _BLOCKS.of(key, [matrix], lambda: _blocks(matrix, spans))
    terms = [t._replace(matrix=block) for t, block in zip(form.terms, blocks, strict=True)]
    nothing = Quadratic(np.zeros((size, size)), np.zeros(size), 0.0)
    return replace(
        form,
        size=size,
        quadratic=nothing,
        equalities=Rows(equal, form.equalities.rhs),
        inequalities=Rows(below, form.inequalities.rhs),
        terms=tuple(terms),
    )


def _blocks(matrix: Any, spans: Iterable[tuple[int, int]]) -> tuple[list[np.ndarray], list[Any]]:
    """The rows of constraints, dense, and those of each term."""
    blocks: list[Any] = [
        matrix if stop - start == matrix.shape[0] else matrix[start:stop] if stop > start else None
        for start, stop in spans
    ]
    none = np.zeros((0, matrix.shape[1]))
    return [none if block is None else block.toarray() for block in blocks[:2]], blocks[2:]
