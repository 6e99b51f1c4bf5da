"""A model of the zoo of couplings, and what of its answer is unique."""

from __future__ import annotations

from typing import NamedTuple

import cvxpy as cp

import dald_model as dm


class Coupled(NamedTuple):
    """A model, the constraints whose multipliers are unique, and whether all variables are."""

    model: dm.Model
    priced: list[cp.Constraint]
    is_unique: bool = True
