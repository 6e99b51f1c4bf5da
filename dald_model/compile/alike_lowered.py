"""Lowered client of which nothing was read by itself."""

from __future__ import annotations

from functools import cached_property

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.form import ConeProgram, Form
from dald_model.compile.instantiation import Parts
from dald_model.compile.lowered import Lowered, Read
from dald_model.compile.representative import Representative
from dald_model.declare.structure_key import Leaves

PARTS = "quadratic", "equalities", "inequalities", "terms"
"""What forms alike have of their own."""


class AlikeLowered(Lowered):
    """A client with its own leaves and numbers; the rest is its ``representative``'s."""

    representative: Representative

    def __init__(self, parts: Parts, representative: Representative, leaves: Leaves) -> None:
        self.__dict__.update(representative.common)
        self.leaves = leaves
        # As Form(...), which takes several times as long
        self.form = object.__new__(Form)
        self.form.__dict__.update(representative.common_form)
        self.form.__dict__.update(zip(PARTS, parts, strict=True), program=self._cone)

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
        return AffineMaps(self.read.parts, variables, self.representative.lowered.maps)
