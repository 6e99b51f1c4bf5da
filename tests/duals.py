"""Dual values of a client's constraints from what a session answered."""

from __future__ import annotations

from typing import Any

import numpy as np

import dald_model as dm
from dald_model.answer.assemble import dual_values
from dald_model.solvers import Answers, Encoding, Multipliers


def raw(multipliers: Multipliers, i: int = 0) -> np.ndarray:
    """The multipliers of the i-th client as the session gave them."""
    return multipliers.of(i).values


def duals(sub: dm.Subproblem, answers: Answers) -> tuple[Any, ...]:
    """For each constraint of the only client the values of its cvxpy ``dual_variables``."""
    return held(sub, answers.multipliers)


def held(sub: dm.Subproblem, multipliers: Multipliers, i: int = 0) -> tuple[Any, ...]:
    """The same of the i-th client."""
    one = multipliers.of(i)
    return dual_values(sub, Encoding(int(one.encodings[0])), one.values)


def joined(answers: list[Answers]) -> Multipliers:
    """Those of sessions of one client each."""
    parts = [one.multipliers for one in answers]
    return Multipliers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
