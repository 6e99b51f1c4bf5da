"""The nonsmooth part of a client, and multipliers worked out from the point that it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Quadratic
from dald_model.compile.lowering import Lowering
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, Edge
from dald_model.solvers.prox.closed_form_reader import single_entries

HOLDING = 1e-9
"""A row whose slack is below this share of its numbers may have a multiplier."""


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


def multipliers(
    form: Form, point: np.ndarray, force: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Multipliers of the rows and balls that hold a point against a force.

    .. math::
        E^\top \nu + A^\top \lambda + \sum_b \eta_b \nabla \|u_b\| + g = f, \qquad
        \lambda, \eta \ge 0, \quad g \in \partial \pi(x)

    for a closed form, of which each row has one variable: the bounds take what terms leave.
    """
    left = force.astype(float)
    band, balls = _terms(form, point, left)
    left -= np.clip(left, -band, band)
    E, A = form.equalities, form.inequalities
    slack = A.rhs - A.matrix @ point
    is_held = slack <= HOLDING * (1 + np.abs(A.rhs) + np.abs(A.matrix) @ np.abs(point))
    nu, lam = np.zeros(E.rhs.size), np.zeros(A.rhs.size)
    for matrix, rows, found, least in (
        (E.matrix, np.arange(nu.size), nu, -np.inf),
        (A.matrix, np.flatnonzero(is_held), lam, 0.0),
    ):
        columns, factors = single_entries(matrix[rows])
        for row, column, factor in zip(rows.tolist(), columns.tolist(), factors, strict=True):
            found[row] = max(left[column] / factor, least)
            left[column] -= found[row] * factor
    return nu, lam, balls


def _terms(form: Form, point: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take the terms' share of a force, in place; how much more they can, and the balls'."""
    band, balls = np.zeros(point.size), [np.zeros(0)]
    for term in form.terms:
        matrix = sp.csr_array(term.matrix)
        u = (matrix @ point + term.offset).reshape(-1, term.width)
        lengths = np.linalg.norm(u, axis=1)
        unit = u / np.where(lengths > 0, lengths, 1.0)[:, None]
        if term.is_set:
            is_held = lengths >= term.parameter * (1 - HOLDING)
            pushes = matrix.multiply((unit * is_held[:, None]).reshape(-1, 1))
            owner = np.repeat(np.arange(len(u)), term.width)
            along = np.bincount(owner, np.asarray(pushes @ left), minlength=len(u))
            sizes = np.bincount(owner, np.asarray(pushes.multiply(pushes).sum(axis=1)).ravel())
            held = np.maximum(along / np.where(sizes > 0, sizes, 1.0), 0.0)
            balls.append(held)
            left -= np.asarray(pushes.T @ np.repeat(held, term.width))
            continue
        is_kink = lengths <= HOLDING * (1 + np.abs(term.offset).reshape(u.shape).max(axis=1))
        pull = term.weight[:, None] * unit * ~is_kink[:, None]
        left -= np.asarray(matrix.T @ pull.ravel())
        width = np.repeat(term.weight * is_kink, term.width)
        band += np.asarray(abs(matrix).T @ width)
    return band, np.concatenate(balls)
