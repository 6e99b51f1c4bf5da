r"""Lowering: from a client to its form, checked against the client's own values."""

from __future__ import annotations

import hashlib
import operator
import warnings
from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine import Coefficients, affine_parts
from dald_model.compile.form import ConeProgram, Form, Rows
from dald_model.compile.instantiation import AffineMaps, Instantiator, cone_program, is_same
from dald_model.compile.recognition import Canonical, Structure
from dald_model.compile.structure import SplitClient, split
from dald_model.compile.template import Template
from dald_model.compile.wide_program import REPEATED
from dald_model.compile.widening import APART, NotRowByRowError, Widening
from dald_model.declare.client import Client
from dald_model.declare.outline import Outline, Outlined
from dald_model.values import evaluated, flat, largest, preserved

MANY, FEW = 24, 2
"""Points at which the first form of a template, and each of the others, is compared with cvxpy."""
SIZES = (1.0, 1.0, 10.0, 0.1, 3.0, 100.0)
"""How large they are, in turn."""
AGREE = 1e-8
"""Relative difference from cvxpy's own values that is put down to rounding."""
KEPT = 64
"""How many instantiators and widenings are kept."""
SMALL = 16
"""Entries up to which constants are compared, to find parts that are the same."""
ALIKE = 8
"""How many clients of one outline others are compared with."""
UNREADABLE = (
    cp.DCPError,
    cp.SolverError,
    AssertionError,
    AttributeError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""What cvxpy raises where a client cannot be split: curvature that rests on the sign of an affine
part, and atoms that cannot be made again from their arguments (perspective, suppfunc)."""


class Lowered:
    """A client's :class:`Form`, with the way back to the dual values of its constraints.

    Attributes
    ----------
    form : Form
    problem, structure : Canonical, Structure
        The cone program of its template with its numbers, and what was recognised in it.
    read : _Read
        What cvxpy said of it.
    instantiator, maps : Instantiator, AffineMaps
        The numbers of the template and those of the client's data.
    moved : int
        How often in succession nothing but the offsets of its affine pieces has changed.
    """

    def __init__(
        self,
        form: Form,
        template: Template,
        structure: Structure,
        problem: Canonical,
        read: _Read,
        instantiator: Instantiator,
        maps: AffineMaps,
    ) -> None:
        self.form = form
        self.problem, self.structure = problem, structure
        self.read, self.instantiator, self.maps = read, instantiator, maps
        self.moved = 0
        self._template = template

    def around(self, centre: np.ndarray, known: tuple[Lowered, Lowered] | None = None) -> Lowered:
        """The same client in its differences from a point of shape (m,).

        ``known`` is another, and it around the same point, of which parts may be the same.
        """
        found = copy(self)
        found.form = self.form.around(centre, known and (known[0].form, known[1].form))
        return found

    def is_like(self, other: Lowered) -> bool:
        """Whether the two differ in costs and offsets alone: then the same solvers take them."""
        return self.structure is other.structure and self.maps.moves(other.maps)

    def local_duals(
        self, equality: np.ndarray, inequality: np.ndarray, balls: np.ndarray
    ) -> tuple[Any, ...]:
        r"""Dual values of the constraints from the multipliers of a complete form.

        With the signs of :math:`\nabla f + E^\top \nu + A^\top \lambda = 0`, and those of its
        balls :math:`\|u\|_2 \le r`; for each constraint the values of its cvxpy
        ``dual_variables``.
        """
        found = np.zeros(self.problem.rows.size)
        found[self.structure.zero] = equality
        found[self.structure.nonneg] = inequality
        limits = [one for b in self.structure.blocks if b.kind.is_set for one in b.found]
        for one, multiplier in zip(limits, balls, strict=True):
            found[one.row] = one.gain * multiplier
        return self._template.duals(found, self.problem.rows)

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        """The same from the dual vector of the form's cone program."""
        rows = self.instantiator.program.rows
        stated = rows != REPEATED
        return self._template.duals(multipliers[stated], rows[stated])


@lru_cache(maxsize=KEPT)
def _widening(groups: tuple[int, ...], sizes: tuple[int, ...]) -> Widening:
    """The same for all clients of one shape."""
    return Widening(groups, sizes)


def _program(
    instantiator: Instantiator, maps: AffineMaps, before: ConeProgram | None = None
) -> ConeProgram:
    return cone_program(instantiator.program, maps, before)


def _shared_matrices(
    now: tuple[Coefficients, np.ndarray], then: tuple[Coefficients, np.ndarray]
) -> tuple[Coefficients, np.ndarray]:
    """An affine map, with the matrices of another where they have the same numbers."""
    (one, offset), (two, _) = now, then
    if one.keys() != two.keys() or not all(is_same(one[key], two[key]) for key in one):
        return now
    return two, offset


class _Read(NamedTuple):
    """A client as cvxpy gives it: split, its template and affine pieces."""

    given: SplitClient
    template: Template
    parts: list[tuple[Coefficients, np.ndarray]]
    is_first: bool
    """Whether no client before had a template of this key."""


class Exemplar:
    """A client that others are like but for their data, so that nothing else is asked of these.

    Attributes
    ----------
    lowered : Lowered
    variables : list of cp.Variable
        The client's own.
    count : int
        How many were like it so far.
    """

    def __init__(self, client: Client, known: Outlined, lowered: Lowered) -> None:
        self.lowered, self.variables, self.count = lowered, client.variables, 0
        self._constants = known.constants
        self._places = {id(constant): at for at, constant in enumerate(known.constants)}
        given = lowered.read.given
        self._of_pieces = [self._among(piece) for piece in given.pieces]
        self._fixed = {at for part in given.fixed for at in self._among(part)}

    def _among(self, part: Any) -> list[int]:
        """Which of the client's constants are in a part of it."""
        return [self._places[id(constant)] for constant in part.constants()]

    def read(self, client: Client) -> _Read | None:
        """What cvxpy would make of a client of this outline; None if it takes another exemplar."""
        assert client.outlined is not None
        values = [constant.value for constant in client.outlined.constants]
        stays = [
            (at in self._fixed or known.size <= SMALL) and is_same(value, known.value)
            for at, (value, known) in enumerate(zip(values, self._constants, strict=True))
        ]
        if not all(stays[at] for at in self._fixed):
            return None

        def value(constant: Any) -> Any:
            at = self._places.get(id(constant))
            return constant.numeric(list(map(value, constant.args))) if at is None else values[at]

        read = self.lowered.read
        given = read.given.with_numbers(value) if read.given.sources else read.given
        if given is None or not read.template.accepts(given.numbers):
            return None
        parts = [
            part if all(stays[at] for at in among) else affine_parts(piece, value)
            for piece, part, among in zip(
                read.given.pieces, read.parts, self._of_pieces, strict=True
            )
        ]
        return read._replace(given=given, parts=parts, is_first=False)


def _has_rows_of(like: Lowered, instantiator: Instantiator, maps: AffineMaps) -> bool:
    """Whether the constraints of another are the client's, too."""
    is_its = instantiator is like.instantiator
    return is_its and maps.has(like.maps, instantiator.pieces_of_rows)


class Lowering:
    """Lowers clients one after the other; those that are alike share a :class:`Template`."""

    def __init__(self) -> None:
        self._templates: dict[Hashable, list[Template]] = {}
        self._refused: set[Hashable] = set()  # keys of clients that are not what one row says
        self._instantiators: dict[Hashable, tuple[Canonical, Instantiator]] = {}
        self._sound: dict[int, Canonical] = {}  # programs that a client was checked with
        self._rows: dict[bytes, np.ndarray] = {}
        self._exemplars: dict[Outline, list[Exemplar]] = {}
        self._count = 0

    def __call__(self, client: Client, before: Lowered | None = None) -> Lowered | None:
        """Lower a client; None where cvxpy or the check against it leaves nothing to rely on.

        ``before`` is what it was with other values of the user's Parameters: data that are the same
        are not gone through again.
        """
        if before is None:
            return self._like_another(client) or self._first(client)
        again = self._again(client, before)
        return again or self._row_by_row(client, before) or self._as_it_stands(client, before)

    def _like_another(self, client: Client) -> Lowered | None:
        """Lower a client whose data alone tell it from another; None if there is no such one."""
        known = client.outlined
        for exemplar in self._exemplars.get(known.outline, ()) if known else ():
            read = exemplar.read(client)
            if read is None:
                continue
            like = exemplar.lowered
            maps = AffineMaps(read.parts, exemplar.variables, like.maps)
            try:
                found = self._lowered(read, maps, None, like)
            except NotRowByRowError:
                continue
            exemplar.count += 1
            # The first, second, fourth, eighth: what goes wrong with data goes wrong with most
            if exemplar.count & (exemplar.count - 1) or self._is_right(client, found, FEW):
                return found
        return None

    def _first(self, client: Client) -> Lowered | None:
        """Lower a client by itself; those that are like it may follow."""
        found = self._row_by_row(client) or self._as_it_stands(client)
        if found is not None and client.outlined is not None:
            alike = self._exemplars.setdefault(client.outlined.outline, [])
            if len(alike) < ALIKE:
                alike.append(Exemplar(client, client.outlined, found))
        return found

    def _again(self, client: Client, before: Lowered) -> Lowered | None:
        """Lower a client of which only numbers and data are others; None if there is more."""
        given = before.read.given.again()
        if given is None or not before.read.template.accepts(given.numbers):
            return None
        parts = [
            _shared_matrices(affine_parts(piece), part) if piece.parameters() else part
            for piece, part in zip(given.pieces, before.read.parts, strict=True)
        ]
        read = before.read._replace(given=given, parts=parts, is_first=False)
        try:
            return self._checked(client, read, before)
        except NotRowByRowError:
            return None

    def _row_by_row(self, client: Client, before: Lowered | None = None) -> Lowered | None:
        """Lower a client with sums over rows from one of these rows; None if that will not do."""
        read = self._read(client, by_rows=True)
        if read is None or all(group == APART for group in read.given.groups):
            return None
        key = read.given.key
        if key in self._refused:
            return None
        try:
            found = self._checked(client, read, before)
        except NotRowByRowError:
            found = None
        if found is None:
            self._refused.add(key)
            return None
        return found

    def _as_it_stands(self, client: Client, before: Lowered | None = None) -> Lowered | None:
        """Lower a client from all of its rows."""
        for whole in (False, True):
            read = self._read(client, whole=whole)
            found = read and self._checked(client, read, before)
            if found is not None:
                return found
        return None

    def _read(self, client: Client, **how: bool) -> _Read | None:
        """What cvxpy makes of a client; None where it cannot."""
        # Only what cvxpy does with the client is caught: an error of our own must be seen.
        try:
            given = split(client, **how)
            key = given.key
            is_first = key not in self._templates
            template = self._template(key, given)
            parts = [affine_parts(piece) for piece in given.pieces]
        except UNREADABLE:
            return None
        return _Read(given, template, parts, is_first)

    def _checked(self, client: Client, read: _Read, before: Lowered | None) -> Lowered | None:
        """The client as arrays, if they have its own values.

        Numbers are checked with the first client that has them, data with the first numbers, and
        offsets until they have moved a few times.
        """
        if before is not None and all(map(operator.is_, read.parts, before.read.parts)):
            maps = before.maps
        else:
            known = before.maps if before is not None else None
            maps = AffineMaps(read.parts, client.variables, known)
        found = self._lowered(read, maps, before)
        is_sound = self._sound.get(id(found.problem)) is found.problem
        is_same = before is not None and maps is before.maps
        if before is not None and is_same and is_sound and found.structure is before.structure:
            return found
        if found.moved > FEW:
            return found
        if not self._is_right(client, found, MANY if read.is_first else FEW):
            return None
        if len(self._sound) >= KEPT:
            self._sound.clear()
        self._sound[id(found.problem)] = found.problem
        return found

    def _is_right(self, client: Client, found: Lowered, count: int) -> bool:
        """Whether the numbers have the client's own values."""
        self._count += 1
        return agrees(found.form, client, count, seed=self._count)

    def _template(self, key: Hashable, given: SplitClient) -> Template:
        alike = self._templates.get(key, [])
        template = next((one for one in alike if one.accepts(given.numbers)), None)
        if template is None:
            template = Template(given)
            if not given.whole:
                self._templates[key] = [*alike, template]
        return template

    def _lowered(
        self,
        read: _Read,
        maps: AffineMaps,
        before: Lowered | None,
        like: Lowered | None = None,
    ) -> Lowered:
        """The client as arrays; those that are the same as before, or as another's, are."""
        template, given = read.template, read.given
        problem, structure = template.of(given.numbers)
        widening = _widening(tuple(given.groups), maps.sizes)
        if widening.is_wide and not structure.valued:
            raise NotRowByRowError  # as its values could not be compared
        instantiator = self._instantiator(problem, structure, widening, before or like)
        bent, stated = False, False
        if before is not None and maps is before.maps:
            bent, stated = instantiator.same(before.instantiator)
        elif before is not None and instantiator is before.instantiator and maps.moves(before.maps):
            return self._moved(read, maps, before)
        if before is not None and bent:
            quadratic = before.form.quadratic
        else:
            quadratic = instantiator.quadratic(maps)
        if before is not None and maps is before.maps and instantiator.is_of(before.instantiator):
            terms = instantiator.weighed(before.form.terms)
        else:
            terms = instantiator.terms(maps)
        if before is not None and stated:
            equalities, inequalities = before.form.equalities, before.form.inequalities
        elif like is not None and _has_rows_of(like, instantiator, maps):
            equalities, inequalities = like.form.equalities, like.form.inequalities
        else:
            equalities = self._shared(instantiator.zero(maps))
            inequalities = self._shared(instantiator.nonneg(maps))
        form = Form(
            maps.size,
            quadratic,
            equalities,
            inequalities,
            terms,
            structure.complete,
            partial(_program, instantiator, maps),
            structure.extra.size,
            structure.valued,
        )
        return Lowered(form, template, structure, problem, read, instantiator, maps)

    def _moved(self, read: _Read, maps: AffineMaps, before: Lowered) -> Lowered:
        """The client as arrays, where nothing but the offsets of its affine pieces has changed."""
        instantiator, then = before.instantiator, before.form
        equalities, inequalities = instantiator.right_sides(maps)
        form = replace(
            then,
            quadratic=instantiator.moved(then.quadratic, maps),
            equalities=then.equalities._replace(rhs=equalities),
            inequalities=then.inequalities._replace(rhs=inequalities),
            terms=tuple(
                term._replace(offset=offset)
                for term, offset in zip(then.terms, instantiator.offsets(maps), strict=True)
            ),
            program=partial(_program, instantiator, maps, vars(then).get("cone")),
        )
        found = copy(before)
        found.form, found.read, found.maps = form, read, maps
        found.moved += 1
        return found

    def _instantiator(
        self,
        problem: Canonical,
        structure: Structure,
        widening: Widening,
        before: Lowered | None = None,
    ) -> Instantiator:
        """The instantiator of a problem; ids may be given anew, so the problem is kept with it."""
        key = id(problem), id(widening)
        known = self._instantiators.get(key)
        if known is None or known[0] is not problem:
            if len(self._instantiators) >= KEPT:
                self._instantiators.clear()
            made = None
            if before is not None and before.structure is structure:
                made = before.instantiator.again(problem, widening)
            made = made or Instantiator(problem, structure, widening)
            known = self._instantiators[key] = problem, made
        return known[1]

    def _shared(self, rows: Rows) -> Rows:
        """The same rows with one matrix for all clients that have it."""
        shape, data = repr(rows.matrix.shape).encode(), np.ascontiguousarray(rows.matrix)
        key = hashlib.sha256(shape + data.tobytes()).digest()
        return rows._replace(matrix=self._rows.setdefault(key, rows.matrix))


def agrees(form: Form, client: Client, points: int = FEW, seed: int = 0) -> bool:
    """Whether a form has the client's own values at random points, as cvxpy computes them.

    The points are of several sizes and signs: a misread kink shows only where it is crossed, and
    the second is inside the domain of many a logarithm.
    """
    if not form.valued:
        return True
    generator = np.random.default_rng(seed)
    with preserved(client.variables), np.errstate(all="ignore"), warnings.catch_warnings():
        # cvxpy warns of every dense value of a variable that was declared sparse
        warnings.simplefilter("ignore", RuntimeWarning)
        for at in range(points):
            parts = []
            for v in client.variables:
                value = SIZES[at % len(SIZES)] * generator.normal(size=v.shape)
                value = v.project(np.abs(value) if at % 3 == 1 else value)
                v.save_value(value)
                parts.append(flat(value.toarray() if sp.issparse(value) else value))
            if not _agrees_at(np.concatenate(parts), form, client):
                return False
    return True


def _agrees_at(point: np.ndarray, form: Form, client: Client) -> bool:
    """The same at one point, which the client's variables have for their value."""
    theirs, ours = evaluated(client.cost), form.objective(point)
    if np.isfinite(theirs) and not abs(theirs - ours) <= AGREE * max(1.0, abs(theirs)):
        return False
    if np.isfinite(ours) and not np.isfinite(theirs):
        return False
    if form.extra or not form.complete:
        return True  # a point alone does not say how far it is outside
    stated = max((largest(rule.residual) for rule in client.constraints), default=0.0)
    return abs(stated - form.violation(point)) <= AGREE * max(1.0, stated)
