"""Dual values of the clients' own constraints, from the multipliers that solvers give."""

from __future__ import annotations

from typing import Any

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Encoding
from dald_model.solvers.prox.multipliers import multipliers
from dald_model.solvers.prox.nonsmooth import without_smooth


def dual_values(
    sub: Subproblem, encoding: Encoding, given: np.ndarray, point: np.ndarray
) -> tuple[Any, ...]:
    """For each of a client's constraints the values of its cvxpy ``dual_variables``.

    Parameters
    ----------
    sub : Subproblem
    encoding : Encoding
    given : ndarray
        The multipliers.
    point : ndarray, shape (m,)
        The client's variables that they go with.

    Returns
    -------
    tuple
        With cvxpy's signs; empty for a client without constraints, one that was not
        solved, and one whose solver gives no multipliers.
    """
    if not sub.is_constrained or encoding in (Encoding.UNSOLVED, Encoding.ELSEWHERE):
        return ()
    if encoding == Encoding.CONES:
        return sub.cone_duals(given)
    if encoding == Encoding.VALUES:
        return _shaped(sub, given)
    form = sub.form
    if form is None:  # cvxpy alone knows the client, and its solver gives no multipliers
        return ()
    if encoding == Encoding.FORCE:
        return sub.local_duals(*multipliers(without_smooth(form), point, given))
    first, last = form.equalities.rhs.size, form.equalities.rhs.size + form.inequalities.rhs.size
    if given.size < last:
        return ()
    return sub.local_duals(given[:first], given[first:last], given[last:])


def _shaped(sub: Subproblem, given: np.ndarray) -> tuple[Any, ...]:
    found, at = [], 0
    for rule in sub.client.constraints:
        values = []
        for dual in rule.dual_variables:
            values.append(given[at : at + dual.size].reshape(dual.shape, order="F"))
            at += dual.size
        found.append(tuple(values))
    return tuple(found)
