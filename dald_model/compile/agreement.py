"""Agreement of a form with the values that cvxpy gives a client."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import domain_of_atoms, has_domain
from dald_model.compile.form import Form
from dald_model.declare.client import Client
from dald_model.sizes import ROUNDING
from dald_model.values import evaluated, flat, largest, preserved

FIRST_SPOTS, SPOTS = 24, 2
"""Points at which the first form of a template, and each of the others, is compared with cvxpy."""
SIZES = (1.0, 1.0, 10.0, 0.1, 3.0, 100.0)
"""How large they are, in turn."""
AGREE = 1e-8
"""Relative difference from cvxpy's own values that is put down to rounding, besides that of what a
quadratic is multiplied out to: a bounded variable may be far from zero wherever it is asked."""


def agrees(form: Form, client: Client, points: int = SPOTS, seed: int = 0) -> bool:
    """Whether a form has the client's own values at random points, as cvxpy computes them.

    The points are of several sizes and signs: a misread kink shows only where it is crossed, and
    the second is inside the domain of many a logarithm.
    """
    if not form.valued:
        return True
    generator, is_whole = np.random.default_rng(seed), has_domain(client.cost)
    with preserved(client.variables), np.errstate(all="ignore"), warnings.catch_warnings():
        # cvxpy warns of every dense value of a variable that was declared sparse
        warnings.simplefilter("ignore", RuntimeWarning)
        for at in range(points):
            parts = []
            for v in client.variables:
                size = SIZES[at % len(SIZES)]
                value = size * generator.normal(size=v.shape)
                value = v.project(np.abs(value) if at % 3 == 1 else value)
                if v.attributes["PSD"] or v.attributes["NSD"]:
                    # Else at the edge of a domain, where eigenvalues are rounding
                    value = value + (1 if v.attributes["PSD"] else -1) * size * np.eye(len(value))
                v.save_value(value)
                parts.append(flat(value.toarray() if sp.issparse(value) else value))
            if not _agrees_at(np.concatenate(parts), form, client, is_whole):
                return False
    return True


def _agrees_at(point: np.ndarray, form: Form, client: Client, is_whole: bool) -> bool:
    """The same at one point, which the client's variables have for their value.

    ``is_whole`` says whether the domains of atoms are all of where its cost is finite.
    """
    theirs, ours = evaluated(client.cost), form.objective(point)
    if np.isfinite(theirs) and ours == np.inf and _is_undefined(client):
        theirs = np.inf  # cvxpy has 1/u of a negative u for the value of inv_pos(u)
    allowed = AGREE * max(1.0, abs(theirs)) + ROUNDING * form.magnitudes(point[None])[0]
    if np.isfinite(theirs) and not abs(theirs - ours) <= allowed:
        return False
    is_inside = np.isfinite(theirs)
    is_known = form.complete and not form.extra  # else a point does not say how far it is outside
    if not is_inside and np.isfinite(ours):  # a constraint of the form, as of indicators
        return form.is_outside(point) or not (is_known or is_whole)
    if not is_known or not is_whole:
        return True
    stated = max((largest(rule.residual) for rule in client.constraints), default=0.0)
    more = form.violation(point) - stated
    if not is_inside:  # rows may say of a domain what no constraint states
        more = min(more, 0.0)
    return abs(more) <= AGREE * max(1.0, stated)


def _is_undefined(client: Client) -> bool:
    """Whether the values of the variables are outside of the objective's domain."""
    return any(largest(rule.residual) > 0 for rule in domain_of_atoms(client.cost))
