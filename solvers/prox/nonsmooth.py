"""The nonsmooth part of a client: its constraints and the terms without a gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.compile.form import Form, Quadratic
from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Client


class NonsmoothPart(NamedTuple):
    """Nonsmooth part of a client: a form without smooth terms, or None.

    ``ways`` has the ways back from multipliers to dual values, ``local_duals`` and ``cone_duals``.
    """

    sub: Subproblem
    form: Form | None
    ways: Any

    @property
    def known(self) -> Form:
        """The form where there is one."""
        assert self.form is not None
        return self.form


def nonsmooth_part(sub: Subproblem, lower: Lowering) -> NonsmoothPart:
    """The form of a client without its smooth part, or of its kinks and constraints alone."""
    form = sub.form
    if form and form.complete:
        return NonsmoothPart(sub, without_smooth(form), sub)
    lowered = lower(Client(sub.name, cp.Minimize(kinks_of(sub)), sub.client.constraints))
    return NonsmoothPart(sub, lowered and lowered.form, lowered)


def without_smooth(form: Form) -> Form:
    """The rows, balls and terms without a gradient alone."""
    terms = tuple(term for term in form.terms if not term.is_smooth)
    nothing = Quadratic(None, np.zeros(form.size), 0.0, np.zeros((0, form.size)))
    return replace(form, quadratic=nothing, terms=terms)


def kinks_of(sub: Subproblem) -> cp.Expression:
    """The summands without a gradient of a client, in all of its variables in their order."""
    x = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    total = np.zeros(sub.size) @ x
    if sub.form is None or not sub.form.valued:
        return total  # then all of the objective is smooth
    for term in sub.form.terms:
        if term.is_smooth or term.is_set:
            continue
        u = cp.reshape(term.matrix @ x + term.offset, (term.weight.size, term.width), order="C")
        total = total + term.weight @ cp.norm(u, 2, axis=1)
    return total
