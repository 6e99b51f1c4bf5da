"""Lowered client of which nothing was read by itself."""

from __future__ import annotations

from functools import cached_property

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.form import ConeProgram, Form
from dald_model.compile.lowered import Lowered, Read
from dald_model.compile.representative import Representative
from dald_model.compile.stacked_forms import StackedForms
from dald_model.declare.structure_key import Leaves


class AlikeLowered(Lowered):
    """A client with its own leaves; its numbers are among those of others, and made when read.

    The rest is its ``representative``'s.
    """

    def __init__(
        self, forms: StackedForms, at: int, representative: Representative, leaves: Leaves
    ) -> None:
        like = representative.lowered
        self.problem, self.structure, self.moved = like.problem, like.structure, 0
        self.instantiator, self.template = like.instantiator, like.template
        self.representative, self.leaves = representative, leaves
        self.together = self._own = forms, at

    @property
    def alike(self) -> Form:
        """The form of the client that it is like."""
        return self.representative.lowered.form

    @cached_property
    def form(self) -> Form:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        like, (forms, at) = self.alike, self._own
        parts = forms.parts(at)
        return Form(like.size, *parts, like.complete, self._cone, like.extra, like.valued)

    def _cone(self) -> ConeProgram:
        return self.instantiator.cone(self.maps)

    @cached_property
    def read(self) -> Read:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        found = self.representative.read(self.leaves, self.leaves.shapes)
        assert found is not None
        return found

    @cached_property
    def maps(self) -> AffineMaps:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        """The affine expressions of its own data, one by one."""
        variables = self.representative.variables
        return AffineMaps.after(self.representative.lowered.maps, self.read.parts, variables)
