r"""Lowering: from a client to its form, checked against the client's own values."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from functools import lru_cache, partial

import cvxpy as cp
import numpy as np

from dald_model.compile.affine_maps import AffineMaps, is_same
from dald_model.compile.agreement import FIRST_SPOTS, SPOTS, agrees
from dald_model.compile.alike_lowered import AlikeLowered
from dald_model.compile.form import Form, Rows
from dald_model.compile.instantiation import Instantiator
from dald_model.compile.lowered import Lowered, Read
from dald_model.compile.pieces import Same
from dald_model.compile.recognition import Canonical, Structure
from dald_model.compile.representative import Representative, Shapes, is_read_from
from dald_model.compile.row_replication import APART, NotRowByRowError, RowReplication
from dald_model.compile.stacked_maps import NotStackedError
from dald_model.compile.structure import SplitClient, split
from dald_model.compile.template import TEMPLATES_KEPT, Template
from dald_model.declare.affine import Coefficients, affine_parts
from dald_model.declare.client import Client
from dald_model.declare.structure_key import Leaves, StructureKey
from dald_model.sizes import SHARED
from dald_model.values import REFUSALS

Part = tuple[Coefficients, np.ndarray]
"""An affine map: matrices by variable, and the offset."""
COMPARED_WITH = 8
"""How many clients of one structure others are compared with."""
BY_ITSELF = 10
"""Clients of one shape from which on one of them is read by cvxpy though others of its structure,
with other rows, were: that takes as long as 5 to 10 read like those, and all after it follow at
once, in a tenth of the time each."""
UNREADABLE = (cp.DCPError, *REFUSALS)
"""What cvxpy raises where a client cannot be split: curvature that rests on the sign of an affine
part, and atoms that cannot be made again from their arguments (perspective, suppfunc)."""


templates: dict[Hashable, list[Template]] = {}
"""Those of all models: to build a model again, as in a loop over data, asks cvxpy nothing."""


@lru_cache
def _replication(groups: tuple[int, ...], sizes: tuple[int, ...]) -> RowReplication:
    """The same for all clients of one shape."""
    return RowReplication(groups, sizes)


def _known_where_same(now: Part, then: Part) -> Part:
    """An affine map; another, or its matrices, where these have the same numbers."""
    (one, offset), (two, before) = now, then
    if one is not two and not (
        one.keys() == two.keys() and all(is_same(one[key], two[key]) for key in one)
    ):
        return now
    is_same_offset = offset.size == before.size and offset.tobytes() == before.tobytes()
    return then if is_same_offset else (two, offset)


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
        self._near: dict[int, tuple[Template, int]] = {}  # how many of them by a tangent
        self._rows: dict[bytes, np.ndarray] = {}
        self._representatives: dict[Hashable, list[Representative]] = {}
        self._count = 0

    def __call__(self, client: Client, before: Lowered | None = None) -> Lowered | None:
        """Lower a client; None where cvxpy or the check against it leaves nothing to rely on.

        ``before`` is what it was with other values of the user's Parameters: data that are the same
        are not gone through again.
        """
        if not client.is_convex:
            return None
        if before is None:
            return self._like_another(client) or self._first(client)
        again = self._again(client, before)
        return again or self._row_by_row(client, before) or self._as_it_stands(client, before)

    def together(self, clients: Sequence[Client]) -> Iterator[Lowered | None]:
        """Lower clients of one structure and of the same shapes; those after the first at once.

        They differ in their data alone. What sums and products of dense data make of these is
        computed of all; of other clients one after the other.
        """
        leaves = clients[0].leaves
        assert leaves is not None
        is_first = len(clients) >= BY_ITSELF and self._of_shapes(leaves) is None
        first = (self._first(clients[0]) if is_first else None) or self(clients[0])
        yield first
        size = sum(map(math.prod, leaves.shapes)) + sum(v.size for v in leaves.variables) ** 2
        at_once = max(2, SHARED // (8 * max(1, size)))
        for start in range(0, len(clients), at_once):
            some = clients[start : start + at_once]
            found = self._stacked(some, first if start == 0 else None)
            yield from map(self, some[start == 0 :]) if found is None else found

    def _stacked(
        self, clients: Sequence[Client], first: Lowered | None
    ) -> list[AlikeLowered] | None:
        """The same of some clients at once; None where that will not do.

        With the ``first`` of them, which was lowered by itself, of the others.
        """
        every = [client.given.leaves for client in clients]
        known = [one for one in every if one is not None]
        like = self._of_shapes(known[0])
        if like is None or len(clients) < 2:
            return None
        lowered = like.lowered
        try:
            maps = like.stacked([one.constants for one in known])
            if maps.is_one:
                return None
            forms = lowered.instantiator.each(maps, lowered.form)
        except NotStackedError:
            return None
        found = [AlikeLowered(forms, at, like, own) for at, own in enumerate(known)]
        if first is not None:
            clients, found = clients[1:], found[1:]
        pairs = zip(clients, found, strict=True)
        checked = [pair for pair in pairs if like.is_checked(like.shapes)]
        if not all(self._is_right(*pair, SPOTS) for pair in checked):
            return None
        if first is lowered:
            lowered.together = forms, 0
        return found

    def _of_shapes(self, known: Leaves) -> Representative | None:
        """The one of these very shapes, which others follow at once."""
        alike, shapes = self._alike(known.key, known.shapes), known.shapes
        return next((one for one in alike if one.shapes == shapes), None)

    def _like_another(self, client: Client) -> Lowered | None:
        """Lower a client whose data alone tell it from another; None if there is no such one."""
        known = client.leaves
        if known is None:
            return None
        shapes = known.shapes
        for representative in self._alike(known.key, shapes):
            read = representative.read(known, shapes)
            if read is None:
                continue
            like = representative.lowered
            if all(map(operator.is_, read.parts, like.read.parts)) and (
                read.template.of(read.given.numbers)[0] is like.problem
            ):  # as edges of one graph are
                found = copy(like)
                found.read = read
                vars(found).pop("varying", None)
                return found
            parts = [*read.parts]
            # Most differ in what bounds them alone
            for at in {*like.instantiator.pieces_of_rows, *read.given.offsets}:
                parts[at] = _known_where_same(parts[at], like.read.parts[at])
            read = read._replace(parts=parts)
            maps = AffineMaps.after(like.maps, parts, representative.variables)
            try:
                found = self._lowered(read, maps, None, like)
            except NotRowByRowError:
                continue
            if not representative.is_checked(shapes) or self._is_right(client, found, SPOTS):
                return found
        return None

    def _alike(self, key: StructureKey, shapes: Shapes) -> Iterator[Representative]:
        """Those that a client of a structure key and of these shapes may be like."""
        yield from self._representatives.get(key, ())
        yield from self._representatives.get((key, shapes), ())

    def _first(self, client: Client) -> Lowered | None:
        """Lower a client by itself; those that are like it may follow."""
        found, known = self._row_by_row(client) or self._as_it_stands(client), client.leaves
        if found is None or known is None or not is_read_from(known, found):
            return found
        representative = Representative(client, known, found)
        keys: list[Hashable] = [(known.key, known.shapes)]
        if representative.is_any_rows:
            keys.insert(0, known.key)
        for key in keys:
            alike = self._representatives.setdefault(key, [])
            if len(alike) < COMPARED_WITH:
                alike.append(representative)
                break
        return found

    def _again(self, client: Client, before: Lowered) -> Lowered | None:
        """Lower a client of which only numbers and data are others; None if there is more."""
        given = before.read.given.again()
        if given is None or not before.read.template.accepts(given.numbers):
            return None
        parts = list(before.read.parts) if before.varying else before.read.parts
        for at, piece in before.varying:
            parts[at] = _known_where_same(piece.again(parts[at]), parts[at])
        read = Read(given, before.read.template, parts, False)
        try:
            if given is before.read.given and before.moved > SPOTS and before.varying:
                maps = before.maps.moved(parts)
                if maps is not None:
                    return before.with_offsets(read, maps)
            found = self._checked(client, read, before)
        except NotRowByRowError:
            return None
        if found is not None:
            found.varying = before.varying
        return found

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
            try:
                found = read and self._checked(client, read, before)
            except NotRowByRowError:  # of a level that is none
                continue
            if found is not None:
                return found
        return None

    def _read(self, client: Client, **how: bool) -> Read | None:
        """What cvxpy makes of a client; None where it cannot."""
        # Only what cvxpy does with the client is caught: an error of our own must be seen.
        try:
            given = split(client, **how)
            template, is_first = self._template(given)
            parts = [affine_parts(piece) for piece in given.pieces]
        except UNREADABLE:
            return None
        return Read(given, template, parts, is_first)

    def _checked(self, client: Client, read: Read, before: Lowered | None) -> Lowered | None:
        """The client as arrays, if they have its own values.

        Numbers are checked with the first client that has them, or the first few if they are told
        by a tangent; data with the first numbers, and offsets until they have moved a few times.
        """
        if before is not None and all(map(operator.is_, read.parts, before.read.parts)):
            maps = before.maps
        else:
            known = before.maps if before is not None else None
            maps = AffineMaps.after(known, read.parts, client.variables)
        found = self._lowered(read, maps, before)
        is_sound = self._sound.get(id(found.problem)) is found.problem
        near = self._near.get(id(read.template), (None, 0))[1]
        is_near = before is not None and found.problem.A is before.problem.A
        is_sound = is_sound or (is_near and near > SPOTS)
        is_same = before is not None and maps is before.maps
        if before is not None and is_same and is_sound and found.structure is before.structure:
            return found
        if found.moved > SPOTS:
            return found
        if not self._is_right(client, found, FIRST_SPOTS if read.is_first else SPOTS):
            return None
        if len(self._sound) >= TEMPLATES_KEPT:
            self._sound.clear()
        if is_near:
            self._near[id(read.template)] = read.template, near + 1
        self._sound[id(found.problem)] = found.problem
        return found

    def _is_right(self, client: Client, found: Lowered, count: int) -> bool:
        """Whether the numbers have the client's own values."""
        self._count += 1
        return agrees(found.form, client, count, seed=self._count)

    def _template(self, given: SplitClient) -> tuple[Template, bool]:
        """A client's template, and whether it is the first client of the process that has it."""
        if given.whole:
            return Template(given), True
        key, numbers = given.key, given.numbers
        own, others = self._templates.setdefault(key, []), templates.get(key, [])
        known = next((one for one in own if one.accepts(numbers)), None)
        if known is not None:
            return known, False
        known = next((one for one in others if one.accepts(numbers)), None)
        template = known.anew() if known else Template(given)
        own.append(template)
        if known is None:
            if len(templates) >= TEMPLATES_KEPT:
                templates.clear()
            templates[key] = [template.anew(), *others[: COMPARED_WITH - 1]]
        return template, known is None

    def _lowered(
        self,
        read: Read,
        maps: AffineMaps,
        before: Lowered | None,
        like: Lowered | None = None,
    ) -> Lowered:
        """The client as arrays; those that are the same as before, or as another's, are."""
        template, given = read.template, read.given
        problem, structure = template.of(given.numbers)
        replication = _replication(tuple(given.groups), maps.sizes)
        if replication.is_wide and not structure.valued:
            raise NotRowByRowError  # as its values could not be compared
        instantiator = self._instantiator(problem, structure, replication, before or like)
        is_its = before is not None and maps is before.maps
        same = Same(False, False, False)
        if before and is_its:
            same = instantiator.same(before.instantiator)
        elif before and instantiator is before.instantiator and maps.moves(before.maps):
            return before.with_offsets(read, maps)
        program = partial(instantiator.cone, maps)
        if before and is_its and instantiator.is_of(before.instantiator):
            terms = instantiator.weighed(before.form.terms)
            made, is_other = vars(before.form).get("cone"), problem.P is not before.problem.P
            program = partial(instantiator.cone, maps, made, is_bent_anew=is_other)
        else:
            terms = instantiator.terms(maps)
        if before and same.rows:
            equalities, inequalities = before.form.equalities, before.form.inequalities
        else:
            equalities, inequalities = self._both_rows(instantiator, maps, like)
        if before and same.quadratic:
            quadratic = before.form.quadratic
        elif before and same.curvature:
            quadratic = instantiator.tilted(before.form.quadratic, maps)
        else:
            quadratic = instantiator.quadratic(maps)
        if before and is_its and structure is before.structure:
            form = before.form.with_others(
                quadratic=quadratic,
                equalities=equalities,
                inequalities=inequalities,
                terms=terms,
                program=program,
            )
            return Lowered(form, template, structure, problem, read, instantiator, maps)
        form = Form(
            maps.size,
            quadratic,
            equalities,
            inequalities,
            terms,
            structure.complete,
            program,
            structure.extra.size,
            structure.valued,
        )
        return Lowered(form, template, structure, problem, read, instantiator, maps)

    def _both_rows(
        self, instantiator: Instantiator, maps: AffineMaps, like: Lowered | None
    ) -> tuple[Rows, Rows]:
        """Equalities and inequalities; those that are the same as another client's are these."""
        if like and _has_rows_of(like, instantiator, maps):
            return like.form.equalities, like.form.inequalities
        known = like and instantiator is like.instantiator and like.form
        if like and known and maps.has_matrices(like.maps, instantiator.pieces_of_rows):
            return instantiator.levels(known, maps)
        zero, nonneg = instantiator.zero(maps), instantiator.nonneg(maps)
        return self._shared(zero), self._shared(nonneg)

    def _instantiator(
        self,
        problem: Canonical,
        structure: Structure,
        replication: RowReplication,
        before: Lowered | None = None,
    ) -> Instantiator:
        """The instantiator of a problem; ids may be given anew, so the problem is kept with it."""
        key = id(problem), id(replication)
        known = self._instantiators.get(key)
        if known is None or known[0] is not problem:
            if len(self._instantiators) >= TEMPLATES_KEPT:
                self._instantiators.clear()
            made = None
            if before is not None and before.structure is structure:
                made = before.instantiator.again(problem, replication)
                if made is None and before.problem is problem:
                    made = before.instantiator.resized(replication)
            made = made or Instantiator(problem, structure, replication)
            known = self._instantiators[key] = problem, made
        return known[1]

    def _shared(self, rows: Rows) -> Rows:
        """The same rows with one matrix for all clients that have it."""
        shape, data = repr(rows.matrix.shape).encode(), np.ascontiguousarray(rows.matrix)
        key = hashlib.sha256(shape + data.tobytes()).digest()
        return rows._replace(matrix=self._rows.setdefault(key, rows.matrix))
