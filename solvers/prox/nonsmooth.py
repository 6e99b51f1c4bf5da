"""The nonsmooth part of a client: its constraints and the terms without a gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.compile.form import Form, Quadratic
from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, Edge


class NonsmoothPart(NamedTuple):
    """Nonsmooth part of a client: a form without smooth terms, or None.

    Attributes
    ----------
    sub : Subproblem
        The client.
    form : Form or None
    part : Subproblem
        The nonsmooth part as a client whose one edge says that its variables are a point.
    """

    sub: Subproblem
    form: Form | None
    part: Subproblem


def nonsmooth_part(sub: Subproblem, lowering: Lowering) -> NonsmoothPart:
    """The form of a client without its smooth part, or of its kinks and constraints alone."""
    client = Client(sub.name, cp.Minimize(_kinks_of(sub)), sub.client.constraints)
    part = to_a_point(client, lowering)
    form = sub.form
    if form and form.complete:
        return NonsmoothPart(sub, without_smooth(form), part)
    return NonsmoothPart(sub, part.form, part)


def to_a_point(client: Client, lowering: Lowering | None = None) -> Subproblem:
    r"""The subproblem of a client whose one edge says that its variables are a point v.

    With :math:`\rho^2 = 1 / (2 \alpha)` it is the minimisation of the proximal operator at v.
    """
    edge = Edge(client.name, ("point", client.name))
    for variable in client.variables:
        edge.add(ConsensusEquality(variable, cp.Variable(variable.shape)), client.name)
    return Subproblem(client, [edge], [0], lowering)


def without_smooth(form: Form) -> Form:
    """The rows, balls and terms without a gradient alone."""
    terms = tuple(term for term in form.terms if not term.is_smooth)
    nothing = Quadratic(None, np.zeros(form.size), 0.0, np.zeros((0, form.size)))
    return replace(form, quadratic=nothing, terms=terms)


def _kinks_of(sub: Subproblem) -> cp.Expression:
    """The summands without a gradient of a client, in all of its variables in their order."""
    x = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    total = np.zeros(sub.size) @ x
    if sub.form is None or not sub.form.valued:
        return total  # then all of the objective is smooth
    for term in sub.form.terms:
        if term.is_smooth or term.is_set:
            continue
        u = term.matrix @ x + term.offset
        if not term.kind.is_polyhedral:
            u = cp.reshape(u, (term.weight.size, term.width), order="C")
        sizes = cp.abs(u) if term.kind.is_polyhedral else cp.norm(u, 2, axis=1)
        total = total + term.weight @ sizes
    return total
