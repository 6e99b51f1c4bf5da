"""Lowered client: its form, and the way back to the dual values of its constraints."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.form import Form
from dald_model.compile.instantiation import Instantiator
from dald_model.compile.recognition import Canonical, Structure
from dald_model.compile.stacked_forms import StackedForms
from dald_model.compile.structure import SplitClient
from dald_model.compile.template import Template
from dald_model.declare.affine import Coefficients, Moving


class Read(NamedTuple):
    """A client as cvxpy gives it: split, its template and affine pieces."""

    given: SplitClient
    template: Template
    parts: list[tuple[Coefficients, np.ndarray]]
    is_first: bool
    """Whether no client of this process had its template before."""


class Lowered:
    """A client's :class:`Form`, with the way back to the dual values of its constraints.

    Attributes
    ----------
    form : Form
    problem, structure : Canonical, Structure
        The cone program of its template with its numbers, and what was recognised in it.
    template : Template
    read : Read
        What cvxpy said of it.
    instantiator, maps : Instantiator, AffineMaps
        The numbers of the template and those of the client's data.
    moved : int
        How often in succession nothing but the offsets of its affine pieces has changed.
    together : tuple or None
        The numbers of clients alike that it is among, and which of them it is.
    """

    def __init__(
        self,
        form: Form,
        template: Template,
        structure: Structure,
        problem: Canonical,
        read: Read,
        instantiator: Instantiator,
        maps: AffineMaps,
    ) -> None:
        self.form = form
        self.problem, self.structure = problem, structure
        self.read, self.instantiator, self.maps = read, instantiator, maps
        self.moved = 0
        self.template = template
        self.together: tuple[StackedForms, int] | None = None

    @property
    def alike(self) -> Form:
        """A form that differs from the client's in numbers alone: its own, if none is made."""
        return self.form

    @cached_property
    def varying(self) -> list[tuple[int, Moving]]:
        """The pieces that have Parameters of the user's in them."""
        pieces = enumerate(self.read.given.pieces)
        return [(at, Moving(one)) for at, one in pieces if one.parameters()]

    def with_offsets(self, read: Read, maps: AffineMaps) -> Lowered:
        """The same where nothing but the offsets of its affine pieces has changed."""
        program = partial(self.instantiator.cone, maps, vars(self.form).get("cone"))
        form = self.instantiator.moved(self.form, self.maps, maps, program)
        found = object.__new__(Lowered)  # a copy, as it is made of each client for each value
        found.__dict__.update(self.__dict__)
        found.form, found.read, found.maps = form, read, maps
        found.moved += 1
        return found

    def around(self, centre: np.ndarray, known: tuple[Lowered, Lowered] | None = None) -> Lowered:
        """The same client in its differences from a point of shape (m,).

        ``known`` is another, and it around the same point, of which parts may be the same.
        """
        found = object.__new__(type(self))  # a copy, as it is made of each client for each value
        found.__dict__.update(self.__dict__)
        found.form = self.form.around(centre, known and (known[0].form, known[1].form))
        found.together = None
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
        found = np.zeros(self.problem.b.size)
        found[self.structure.zero] = equality
        found[self.structure.nonneg] = inequality
        if balls.size:
            sets = [block for block in self.structure.blocks if block.kind.is_set]
            radii = [term.parameter for term in self.form.terms if term.is_set]
            gains = [b.kind.gains(b.found, r) for b, r in zip(sets, radii, strict=True)]
            rows = [one.row for block in sets for one in block.found]
            found[rows] = np.concatenate(gains) * balls
        return self.template.way_back.duals(self.problem.rows, found)

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        """The same from the dual vector of the form's cone program."""
        return self.template.way_back.duals(self.instantiator.program.rows, multipliers)
