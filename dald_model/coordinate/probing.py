"""Stiffness of an objective from its values, where its curvature is not known."""

from __future__ import annotations

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.carried import carries
from dald_model.values import evaluated, is_inside, preserved

SUDDEN, HALVINGS = 10.0, 40
"""How many times stiffer over the whole of a length than over half of it is a singularity, or an
exponential that nobody will climb; and how often it is halved at most."""
AT_ONCE = 0.1
"""Share of the change over a length that its second half leaves where the first half begins at a
singularity; a quadratic leaves three quarters, a kink one half."""
PROBED = 64
"""Up to this many variables a client without known curvature is probed one by one; and one whose
rows carry what its own variables cost to what edges see, of which a mean says nothing."""


def probed(sub: Subproblem, own: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The stiffness of an objective from its values so far from the client's answer, (m,).

    And from those half as far, again and again, where that is far less: :math:`1 / x` is steep
    beyond all measure next to zero, and :math:`e^x` ten lengths away, where the client would
    not go for any price. Gives also how straight
    it is on the way: 1 where half as far is half the rise, 0 where a quarter.
    """
    centre = np.nan_to_num(own)
    steps = np.diag(lengths)
    is_many = sub.size > PROBED and not (sub.form and sub.form.valued and carries(sub))
    if is_many:
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(PROBED, sub.size))
        steps = signs * lengths
    part = np.ones(len(steps))  # of the whole step, as far as it is gone

    def values(share: float) -> np.ndarray:
        ways = (share * part)[:, None] * steps
        return np.array([_objectives(sub, centre + ways), _objectives(sub, centre - ways)])

    with preserved(sub.variables), np.errstate(all="ignore"):
        here = _objectives(sub, centre[None])
        ends, middles = values(1.0), values(0.5)
        rise = half = _changes(here, ends, middles)
        for _ in range(HALVINGS):
            nearest = values(0.25)
            half = 4 / part**2 * _changes(here, middles, nearest)
            sudden = (half > 0) & (rise > SUDDEN * half)
            if not sudden.any():
                break
            middles = np.where(sudden, nearest, middles)
            rise, part = np.where(sudden, half, rise), np.where(sudden, part / 2, part)
    if is_many:
        rise, half = (np.full(sub.size, one.mean() / sub.size) for one in (rise, half))
    straight = np.divide(half, rise, out=np.ones(rise.size), where=rise > 0) - 1
    return 2 * rise / lengths**2, np.clip(straight, 0.0, 1.0)


def _changes(here: np.ndarray, ends: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """What the objective changes by at most over a step or its opposite, (k,); 0 if not known.

    Where next to all of it is made at once the step begins at a singularity: there it is what would
    change as much over the second half of the way.
    """
    whole, rest = np.abs(ends - here), np.abs(ends - middles)
    change = np.where(rest < AT_ONCE * whole, 4 / 3 * rest, whole)
    return np.where(np.isfinite(change), change, 0.0).max(axis=0)


def _objectives(sub: Subproblem, points: np.ndarray) -> np.ndarray:
    """The client's objective at points, feasible or not, (k,); NaN outside its domain."""
    if sub.form is not None and sub.form.valued:
        return sub.form.objectives(points)
    found = []
    for point in points:
        for variable, value in zip(sub.variables, sub.spread(point).values(), strict=True):
            variable.save_value(value)
        inside = is_inside(sub.client.domain)
        found.append(evaluated(sub.client.cost) if inside else np.nan)
    return np.array(found)
