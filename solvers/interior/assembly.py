"""Clients added one by one to the program of an interior point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.stacked_forms import Batch, StackedForms
from dald_model.errors import OptionError
from dald_model.sizes import SPARSE
from dald_model.solvers.base import Encoding
from dald_model.solvers.interior.barriers import Exponential, Power
from dald_model.solvers.interior.batches import Batches
from dald_model.solvers.interior.cones import Cone, Kinks, Orthant, SecondOrder, Semidefinite
from dald_model.solvers.interior.forms import batches_of
from dald_model.solvers.interior.numbers import (
    CONES,
    CONSTANT,
    EQUALITIES,
    INEQUALITIES,
    LINEAR,
    MATRIX,
    ROOT,
    Numbers,
    Read,
    of_ball,
    of_cone,
    of_term,
    whole_term,
)
from dald_model.solvers.interior.programme import (
    EQUAL,
    INFINITE,
    Block,
    Group,
    Place,
    Programme,
    Smooth,
    bent,
    joined,
)
from dald_model.solvers.interior.rows import DENSE_CURVATURE, Rows

WIDE_ROW = 50
"""Entries from which on a row of a sparse program is a sum with a variable of its own."""
JUMPS = ("huber", "hinge")
"""Smooth kinds whose second derivative jumps, so that Newton's steps go to and fro: their cone
programs have a quadratic in its place."""
LARGEST = 5000
"""Most variables of a dense sum of curvature, which takes 200 MB there: 0.19 s a round were
measured for 2,000, of which the cube is some 3 s."""
KINKS = ("abs", "norm")
"""Kinds that are eliminated at the head of a cone."""
NOTHING_BESIDE = 0, 0, ()
"""No equalities, no inequalities, no terms: the middle of a form's shape."""


@dataclass
class Assembly:
    """The parts of a programme while clients are added to it.

    Parameters
    ----------
    size : int
        Variables that are numbered already; those that clients have besides follow.
    takes_jumps : bool
        Whether kinds of :data:`JUMPS` are taken as they are, as where an active set is held.
    """

    size: int
    takes_jumps: bool = False
    _blocks: dict[Any, list[Block]] = field(default_factory=dict)
    _rights: dict[Any, list[np.ndarray]] = field(default_factory=dict)
    _heights: dict[Any, int] = field(default_factory=dict)
    _exponents: list[float] = field(default_factory=list)
    _weights: dict[Any, list[np.ndarray]] = field(default_factory=dict)
    _smooth: dict[Any, list[tuple[Term, np.ndarray]]] = field(default_factory=dict)
    _quadratics: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    _roots: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    _linear: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    _numbers: Numbers = field(default_factory=Numbers)
    _constant: float = 0.0
    _at: int = 0
    _places: dict[Any, tuple[Encoding, list[Place]]] = field(default_factory=dict)

    def equate(self, matrix: Any, right: np.ndarray, columns: np.ndarray) -> None:
        """Add rows E x = e that are no client's."""
        self._take(EQUAL, matrix, right, columns)

    def enter(self, forms: Mapping[Any, Form], columns: Mapping[Any, np.ndarray]) -> None:
        """Add clients whose variables have these numbers, (m,).

        Raises
        ------
        NotImplementedError
            Naming a cone that there is no interior point for.
        """
        batches = {one.names[0]: one for one in batches_of(forms) if self._takes(one.forms)}
        within = {name for one in batches.values() for name in one.names}
        alone = {name: forms[name] for name in forms if name not in within}
        is_read = are_read([*alone.values()], takes_jumps=self.takes_jumps)
        self._numbers = Numbers([*alone], is_read, [*batches.values()])
        nowhere: list[Place] = []  # as of many, which have neither constraints nor kinks
        self._places = dict.fromkeys(forms, (Encoding.ROWS, nowhere))
        read = iter(is_read.tolist())
        for name in forms:
            if name in alone:
                self._enter(name, alone[name], columns[name], is_read=next(read))
                self._at += 1
            elif name in batches:
                own = np.array([columns[one] for one in batches[name].names])
                self._enter_batch(batches[name], own)

    def _takes(self, forms: StackedForms) -> bool:
        """Whether many clients may be entered at once: by their own terms."""
        form = forms.like
        jumps = not self.takes_jumps and any(t.kind.name in JUMPS for t in form.terms)
        return not jumps and all(
            bool(np.isfinite(one).all())
            for term, (_, offsets) in zip(form.terms, forms.terms, strict=True)
            for one in _at_zero(term, offsets.ravel(), np.tile(term.parameter, len(offsets)))
        )

    def _enter_batch(self, batch: Batch, columns: np.ndarray) -> None:
        """Add clients alike whose variables have these numbers, (n, m)."""
        forms, count, numbers = batch.forms, len(columns), self._numbers
        if forms.matrix is not None:
            self._quadratics.append((batch.own(forms.matrix), columns))
            numbers.quadratics.append((None, self._quadratics[-1][0]))
        elif forms.root is not None and forms.root.shape[1]:
            self._roots.append((batch.own(forms.root), columns))
            numbers.roots.append((None, self._roots[-1][0]))
        self._linear.append((batch.own(forms.linear).ravel(), columns.ravel()))
        numbers.linear.append((None, self._linear[-1][0]))
        constant = float(batch.own(forms.constant).sum())
        numbers.constants.append((None, constant))
        self._constant += constant
        for term, matrices, offsets in forms.terms_of(batch.at):
            if not term.weight.size:
                continue
            whole = term._replace(
                matrix=matrices,
                offset=offsets.ravel(),
                weight=np.tile(term.weight, count),
                parameter=np.tile(term.parameter, count),
            )
            key = term.kind.name, term.width
            self._smooth.setdefault(key, []).append((whole, columns))
            numbers.smooth.setdefault(key, []).append((None, whole))

    def _enter(self, name: Any, form: Form, columns: np.ndarray, *, is_read: bool) -> None:
        """Add one of them, by its own terms or by its cone program."""
        if not is_read:
            self._places[name] = Encoding.CONES, self._add_cones(form, columns)
            return
        at, numbers, quadratic = self._at, self._numbers, form.quadratic
        own = self._beyond(columns, form.extra)
        if quadratic.matrix is not None:
            self._quadratics.append((quadratic.matrix, columns))
            numbers.quadratics.append((at, MATRIX))
        elif quadratic.root is not None and quadratic.root.shape[0]:
            self._roots.append((quadratic.root, columns))
            numbers.roots.append((at, ROOT))
        self._cost(form, LINEAR, CONSTANT, columns)
        if form.shape[1:4] == NOTHING_BESIDE:  # as of many clients
            return
        places = [
            self._add(key, rows.matrix, (form, read), own[: rows.matrix.shape[1]])
            for key, rows, read in (
                (EQUAL, form.equalities, EQUALITIES),
                (("NonnegativeConeT", None), form.inequalities, INEQUALITIES),
            )
            if rows.rhs.size
        ]
        arguments = []
        numbered = {id(term): nth for nth, term in enumerate(form.terms)}
        for term in (*form.smooth, *form.kinked) if form.terms else ():
            if not term.weight.size:
                continue
            nth = numbered[id(term)]
            if term.is_smooth:
                key = term.kind.name, term.width
                self._smooth.setdefault(key, []).append((term, own))
                numbers.smooth.setdefault(key, []).append((at, whole_term(nth)))
                continue
            columns = own[: term.matrix.shape[1]]
            if term.is_set:
                key = ("SecondOrderConeT", term.width + 1)
                rows = self._add(key, term.matrix, (form, of_ball(nth)), columns, term.width)
                places.append(Place(rows.key, rows.rows[:: term.width + 1]))
                tails = rows.rows.reshape(-1, term.width + 1)[:, 1:].ravel()
                arguments.append(Place(rows.key, tails, is_argument=True))
                continue
            key = ("top", term.width)
            place = self._add(key, term.matrix, (form, of_term(nth, "offset")), columns)
            self._weights.setdefault(key, []).append(term.weight)
            numbers.weights.setdefault(key, []).append((at, of_term(nth, "weight")))
            arguments.append(place._replace(is_argument=True))
        places += arguments
        self._places[name] = Encoding.ROWS, places

    def _add_cones(self, form: Form, columns: np.ndarray) -> list[Place]:
        cone, (matrix, linear, constant) = form.cone, CONES
        own = self._beyond(columns, cone.linear.size - columns.size)
        if cone.matrix.nnz:
            self._quadratics.append((cone.matrix, own))
            self._numbers.quadratics.append((self._at, matrix))
        self._cost(form, linear, constant, own)
        at, places = 0, []
        for kind, argument in cone.cones:
            if kind not in HEIGHTS:
                raise NotImplementedError(kind)
            height, key = HEIGHTS[kind](argument), (kind, argument)
            if kind in ("ZeroConeT", "NonnegativeConeT", "PowerConeT"):
                key = (kind, None)
            if kind == "PowerConeT":
                self._exponents.append(argument)
            part = slice(at, at + height)
            places.append(self._add(key, cone.rows, (form, of_cone(part)), own, part))
            at += height
        return places

    def _beyond(self, columns: np.ndarray, more: int) -> np.ndarray:
        found = np.concatenate([columns, self.size + np.arange(more)]) if more else columns
        self.size += more
        return found

    def _cost(self, form: Form, linear: Read, constant: Read, columns: np.ndarray) -> None:
        at = self._at
        self._linear.append((linear(form), columns))
        self._numbers.linear.append((at, linear))
        self._numbers.constants.append((at, constant))
        self._constant += constant(form)

    def _add(
        self,
        key: Any,
        matrix: Any,
        source: tuple[Form, Read],
        columns: np.ndarray,
        part: slice | int | None = None,
    ) -> Place:
        """Rows of the client that is entered, with the right sides that are read of its form."""
        form, read = source
        right = read(form)
        if right.size:
            self._numbers.rights.setdefault(key, []).append((self._at, read))
        if key[0] == "NonnegativeConeT" and right.max(initial=0.0) >= INFINITE:
            matrix, right = _without_infinite(matrix, right, part)
            self._numbers.is_whole = False
        return self._take(key, matrix, right, columns, part)

    def _take(
        self,
        key: Any,
        matrix: Any,
        right: np.ndarray,
        columns: np.ndarray,
        part: slice | int | None = None,
    ) -> Place:
        at = self._heights.get(key, 0)
        self._heights[key] = at + right.size
        if right.size:
            self._blocks.setdefault(key, []).append(Block(matrix, columns, part))
            self._rights.setdefault(key, []).append(right)
        return Place(key, np.arange(at, at + right.size))

    def programme(self, *, is_apart: bool = False) -> Programme:
        """What was added, put together unless clients are apart; dense where it is small."""
        is_dense = self.size <= DENSE_CURVATURE or (not is_apart and self._fills())
        split = 0 if is_dense or is_apart else self._split()
        equal, groups = self._rows(EQUAL, is_dense), {}
        for key in (key for key in self._blocks if key != EQUAL):
            groups[key] = self._rows(key, is_dense), self._cone(key, self._heights[key])
        nothing = np.zeros(0), np.zeros(0, dtype=int)
        values, columns = map(np.concatenate, zip(nothing, *self._linear, strict=True))
        self._numbers.columns = columns
        rights = {key: np.concatenate(parts) for key, parts in self._rights.items()}
        of_equal = rights.pop(EQUAL, np.zeros(0))
        missing, bends = equal.matrix.shape[0] - of_equal.size, (self._quadratics, self._roots)
        weights = {key: np.concatenate(parts) for key, parts in self._weights.items()}
        return Programme(
            self.size,
            None if is_apart else bent(self.size, *bends, is_dense=is_dense),
            *bends,
            np.bincount(columns, values, self.size),
            self._constant,
            equal,
            np.concatenate([of_equal, np.zeros(missing)]),
            {
                key: Group(groups[key][0], right, groups[key][1], weights.get(key))
                for key, right in rights.items()
            },
            self._smooth_terms(is_dense),
            self._places,
            split,
            is_dense,
            self._numbers if is_apart else None,
        )

    def _rows(self, key: Any, is_dense: bool) -> Rows:
        parts = [(block.matrix, block.columns) for block in self._blocks.get(key, [])]
        rows = Rows.joined(parts, self.size, is_dense=is_dense)
        return Rows(-rows.matrix) if key[0] == "top" else rows

    def _smooth_terms(self, is_dense: bool) -> list[Smooth]:
        found = []
        for parts in self._smooth.values():
            terms = [term for term, _ in parts]
            blocks = [(term.matrix, own[..., : term.matrix.shape[-1]]) for term, own in parts]
            if all(term.matrix.ndim == 3 for term in terms):
                rows: Rows = Batches(blocks, np.ones(self.size))
            else:
                rows = Rows.joined(blocks, self.size, is_dense=is_dense)
            offset, weight, parameter = joined(terms)
            found.append(Smooth(terms[0].kind, rows, offset, weight, parameter, terms[0].width))
        return found

    def _fills(self) -> bool:
        """Whether one client's curvature alone has so many entries that the sum is dense.

        Raises
        ------
        OptionError
            If it is, and too large to be kept.
        """
        parts = [*self._quadratics, *self._roots]
        parts += [(one.matrix, one.columns) for blocks in self._blocks.values() for one in blocks]
        parts += [(term.matrix, own) for terms in self._smooth.values() for term, own in terms]
        if max((_widest(matrix) for matrix, _ in parts), default=0) ** 2 <= SPARSE * self.size**2:
            return False
        if self.size > LARGEST:
            raise OptionError(
                f"algorithm: InteriorPoint would keep curvature of {self.size:,} variables that "
                f"one client sees together, {8e-9 * self.size**2:.1f} GB, expected at most "
                f"{LARGEST:,}; take the default algorithm, dm.DALD()"
            )
        return True

    def _split(self) -> int:
        """Give sums of many variables a variable of their own, which keeps the curvature sparse.

        A row of k entries has k squared in the curvature; as y = a' x and a row in y it has k.
        """
        key, found = ("NonnegativeConeT", None), 0
        blocks = self._blocks.get(key, [])
        for at, block in enumerate(blocks):
            rows: Any = sp.csr_array(block.matrix)
            wide = np.flatnonzero(np.diff(rows.indptr) > WIDE_ROW)
            if not wide.size:
                continue
            new = self._beyond(np.zeros(0, dtype=int), wide.size)
            identity = sp.eye_array(wide.size, format="csr")
            both = np.concatenate([block.columns, new])
            self._take(EQUAL, sp.hstack([rows[wide], -identity], "csr"), np.zeros(wide.size), both)
            kept = np.ones(rows.shape[0])
            kept[wide] = 0.0
            picks = sp.csr_array(
                (np.ones(wide.size), (wide, np.arange(wide.size))),
                shape=(rows.shape[0], wide.size),
            )
            blocks[at] = Block(sp.hstack([sp.diags_array(kept) @ rows, picks], "csr"), both)
            found += wide.size
        return found

    def _cone(self, key: Any, height: int) -> Cone:
        kind, argument = key
        if kind == "top":
            is_kink = argument == 1
            return Kinks(height) if is_kink else SecondOrder(height // argument, argument + 1)
        if kind == "NonnegativeConeT":
            return Orthant(height)
        if kind == "SecondOrderConeT":
            return SecondOrder(height // argument, argument)
        if kind == "PSDTriangleConeT":
            return Semidefinite(height // (argument * (argument + 1) // 2), argument)
        if kind == "PowerConeT":
            return Power(np.array(self._exponents))
        return Exponential(height // 3)


HEIGHTS: dict[str, Any] = {
    "ZeroConeT": lambda argument: argument,
    "NonnegativeConeT": lambda argument: argument,
    "SecondOrderConeT": lambda argument: argument,
    "PSDTriangleConeT": lambda argument: argument * (argument + 1) // 2,
    "ExponentialConeT": lambda argument: 3,
    "PowerConeT": lambda argument: 3,
}
"""Rows of the cones that there is an interior point for."""


def _without_infinite(
    matrix: Any, right: np.ndarray, part: slice | int | None
) -> tuple[Any, np.ndarray]:
    """Rows that bound nothing as rows of zeros, with right sides as large as the others'."""
    is_bound = right < INFINITE
    sizes = np.abs(right[is_bound & (right != 0)])
    first = part.start if isinstance(part, slice) else 0
    kept = np.ones(matrix.shape[0])
    kept[first + np.flatnonzero(~is_bound)] = 0.0
    found = sp.diags_array(kept) @ matrix
    return found, np.where(is_bound, right, np.median(sizes) if sizes.size else 1.0)


def are_read(forms: Sequence[Form], *, takes_jumps: bool) -> np.ndarray:
    """Of which forms their own terms are taken, else their cone programs."""
    found = np.array([form.complete for form in forms], dtype=bool)
    together: dict[Any, list[tuple[int, Term]]] = {}
    for at, form in enumerate(forms):
        for term in form.terms:
            if not term.is_smooth:
                found[at] &= term.kind.name in KINKS or term.is_set
            elif term.kind.name in JUMPS and not takes_jumps:
                found[at] = False
            else:
                together.setdefault((term.kind.name, term.width), []).append((at, term))
    for alike in together.values():
        offset = np.concatenate([term.offset for _, term in alike])
        parameter = np.concatenate([term.parameter for _, term in alike])
        owners = np.repeat([at for at, _ in alike], [term.parameter.size for _, term in alike])
        for one in _at_zero(alike[0][1], offset, parameter):
            is_finite = np.isfinite(one).reshape(parameter.size, -1).all(axis=1)
            found[owners[~is_finite]] = False
    return found


def _at_zero(term: Term, offset: np.ndarray, parameter: np.ndarray) -> tuple[np.ndarray, ...]:
    """Value, slope and second derivative of functions of a kind where variables are zero."""
    with np.errstate(all="ignore"):
        return term.kind.evaluate(term.kind.grouped(offset, term.width), parameter)


def _widest(matrix: Any) -> int:
    """The most entries of a row."""
    if not sp.issparse(matrix):
        return int(np.count_nonzero(matrix, axis=-1).max(initial=0))
    return int(np.diff(sp.csr_array(matrix).indptr).max(initial=0))
