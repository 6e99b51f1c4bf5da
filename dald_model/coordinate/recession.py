r"""Directions along which the objective of all clients together falls for ever.

Separated data in a logistic regression, :math:`1/x` or :math:`e^{-x}` come ever closer to an
infimum that no point attains. The values of a run alone cannot tell: at the end they are as small
as those at a minimiser. So it is decided on the cones of the joint program, see
:mod:`dald_model.solvers.exact.attainment`, which says nothing of flat directions and of losses that
end in a flat part, such as the hinge, as these have minimisers. The clients' own expressions then
have to confirm the direction far along it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import LINEAR, ConeProgram, cone_height
from dald_model.compile.objectives import objectives
from dald_model.coordinate.certificates import Joint, is_nonnegative
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.status import Status, Termination
from dald_model.solvers.exact.attainment import descent
from dald_model.text import SHOWN
from dald_model.values import holding, is_inside

DECADES = 6
"""So many times ten the steps grow along the direction: a direction that is wrong by the eight
digits of a solver shows by then, and one that is right by all digits of doubles does not."""
ROUNDED_FALL = 1e-13
"""Share of the clients' values, per step, by which rounding of a direction may raise their sum."""
STEPS_COUNTED = 100.0
"""Steps that are counted in any case: values are sums of so many terms of their size."""
ENOUGH_STEPS = 4
"""Steps that have to have values, to compare the last three falls."""
STEADY_FALL = 0.05
"""By how much of themselves these differ at most where nothing bounds the objective: a logarithm
falls by the same in each tenfold step, the slowest power in use, :math:`x^{-0.1}`, by a fifth less.
"""
FALL_SHARE = 0.05
"""The least part of the whole fall that it then is: over six such steps a logarithm has a sixth."""
MOVING_SHARE = 1e-3
"""Share of its size, in balanced units, from which on a row moves; less is a solver's tolerance."""
SHOWN_SHARE = 1e-6
"""Share of the largest entry of a direction below which others are left out."""

Points = Mapping[Hashable, np.ndarray]


class Recession(NamedTuple):
    """A direction along which the objective falls for ever.

    Attributes
    ----------
    direction : dict
        Client -> move of its variables, shape (m,), on which all clients agree.
    fall : float
        By how much the objective falls from the given point on, as far as it was followed; zero
        where rounding leaves nothing of it.
    is_unbounded : bool
        Whether it falls without bound; otherwise its infimum is finite.
    client : Hashable
        The client whose own objective falls most.
    said : str
        The finding, with the user's names and what to do.
    """

    direction: dict[Hashable, np.ndarray]
    fall: float
    is_unbounded: bool
    client: Hashable
    said: str

    @property
    def termination(self) -> Termination:
        """The end of a run in which this was found."""
        status = Status.UNBOUNDED if self.is_unbounded else Status.NO_MINIMISER
        return Termination(status, self.client, self.said)


def falls_forever(compiled: Decomposition, points: Points) -> Recession | None:
    """A proof that the problem has no minimiser; None if there is none.

    It solves up to eight cone programs of all clients together, so it is to be asked once, at the
    end of a run whose gap could not be proved or whose points grew large. There is no proof where
    a client has no cone program that we can read, such as one at a site, nor of some functions that
    cvxpy writes with several cones, such as :math:`x^{-2}`.

    Parameters
    ----------
    compiled : Decomposition
    points : dict
        Client -> vector of its variables, from which the objective is followed.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> from dald_model.coordinate.recession import falls_forever
    >>> x, model = cp.Variable(name="x"), dm.Model()
    >>> for i in range(2):
    ...     _ = model.client(i, cp.exp(-x))
    >>> compiled = model.compile()
    >>> found = falls_forever(compiled, {name: [0.0] for name in compiled})
    >>> print(found.said)
    the objective has no minimiser: it keeps falling along x = +1; bound ... cp.sum_squares of them
    """
    if is_attained(compiled):
        return None
    joint = Joint.of(compiled, Units.plain(compiled))
    proof = None if joint is None else descent(joint.cone)
    if joint is None or proof is None:
        return None
    parts = {
        name: slice(at.start, at.start + compiled[name].size) for name, at in joint.columns.items()
    }
    own = np.concatenate([np.arange(part.start, part.stop) for part in parts.values()])
    whole = next((one for one in proof.directions if one[own].any()), None)
    if whole is None:
        return None
    move = {name: whole[part] for name, part in parts.items()}
    units = {name: proof.units[part] for name, part in parts.items()}
    terms = joint.energy * float(np.abs(joint.cone.linear) @ np.abs(whole))
    followed = _follow(
        compiled, points, move, units, terms, _speeds(joint.cone, whole, proof.units)
    )
    if followed is None:
        return None
    found, room = followed
    falls = found[0] - found[-1]
    last = -np.diff(found[-ENOUGH_STEPS:].sum(axis=1))
    is_steady = np.ptp(last) <= STEADY_FALL * last[-1] and last[-1] > max(
        room, FALL_SHARE * falls.sum()
    )
    is_unbounded = len(proof.directions) == 1 or bool(is_steady)
    clients = [name for name in compiled if name not in compiled.servers]
    client = max(clients, key=lambda name: falls[compiled.order[name]])
    said = _said(compiled, move, units, is_unbounded=is_unbounded)
    return Recession(move, max(0.0, float(falls.sum())), is_unbounded, client, said)


def is_attained(compiled: Decomposition) -> bool:
    """Whether it is known at a glance that there is a minimiser, if there is any feasible point.

    A quadratic that is bounded below on a polyhedron attains its minimum there (Frank and Wolfe
    1956); it is bounded where no client's objective is ever below zero.
    """
    subs = [sub for sub in compiled.values() if not sub.client.is_server]
    forms = [sub.form for sub in subs]
    is_polyhedral = all(
        form is not None and form.complete and all(term.kind.is_polyhedral for term in form.terms)
        for form in forms
    )
    return is_polyhedral and is_nonnegative(compiled)


def _follow(
    compiled: Decomposition,
    points: Points,
    direction: Points,
    units: Points,
    terms: float,
    speeds: tuple[float, float],
) -> tuple[np.ndarray, float] | None:
    """The clients' values at the point and ever farther along, (k, n), and what rounding adds last.

    None if their sum rises. ``terms`` is by how much the terms of the objective, which may cancel
    each other, change along the direction, and ``speeds`` those of the slowest argument and of the
    fastest.
    """
    slow, fast = speeds
    far = max(np.abs(points[name] / unit).max() for name, unit in units.items())
    long = max(np.abs(direction[name] / unit).max() for name, unit in units.items())
    far = max(1 / slow, float(far / long))
    steps = np.array([0.0, *(far * 10.0**decade for decade in range(DECADES + 1))])
    along = [{n: points[n] + step * part for n, part in direction.items()} for step in steps]
    paths = [np.array([at[name] for at in along]) for name in compiled]
    found = objectives(list(compiled.values()), paths).T
    # The first may be outside of a domain, where expressions have values that mean nothing
    first = next((k for k, at in enumerate(along) if _is_inside(compiled, at)), len(along))
    found, steps = found[first:], steps[first:]
    if len(found) < ENOUGH_STEPS or not np.isfinite(found).all():
        return None
    sizes = np.abs(found).sum(axis=1)
    sizes = np.maximum(steps[1:] * fast, STEPS_COUNTED) * np.maximum(sizes[1:], sizes[:-1])
    room = ROUNDED_FALL * (sizes + steps[1:] * terms)
    is_rising = (np.diff(found.sum(axis=1)) > room).any()
    return None if is_rising else (found, float(room[-1]))


def _speeds(cone: ConeProgram, direction: np.ndarray, units: np.ndarray) -> tuple[float, float]:
    """How fast the slowest and the fastest row of curved cones that move do so, one without any."""
    kinds = np.repeat([kind for kind, _ in cone.cones], [cone_height(*one) for one in cone.cones])
    rows = cone.rows[~np.isin(kinds, LINEAR)]
    speeds = np.abs(rows @ direction)
    moving = speeds[speeds > MOVING_SHARE * (abs(rows) @ units)]
    return (float(moving.min()), float(moving.max())) if moving.size else (1.0, 1.0)


def _is_inside(compiled: Decomposition, points: Points) -> bool:
    """Whether all clients' objectives and constraints are defined at their points."""
    for name, rules in compiled.limited.items():
        sub = compiled[name]
        at = sub.spread(points[name])
        with holding((v, at[v.id]) for v in sub.variables):
            if not is_inside(rules):
                return False
    return True


def _said(compiled: Decomposition, direction: Points, units: Points, *, is_unbounded: bool) -> str:
    """The finding in words, with the entries that move farthest beside their units."""
    users = {v.id for v in compiled.model.variables}
    moves: dict[str, tuple[float, float]] = {}
    for name, part in direction.items():
        variables = compiled[name].variables
        is_users = [compiled.origins.get(v.id, v.id) in users for v in variables]
        for at in np.flatnonzero(np.repeat(is_users, [v.size for v in variables])).tolist():
            moves[compiled.called(name, at)] = part[at], abs(part[at] / units[name][at])
    farthest = max((far for _, far in moves.values()), default=0.0)
    moved = {one: move for one, (move, far) in moves.items() if far > SHOWN_SHARE * farthest}
    largest = max(map(abs, moved.values()), default=1.0)
    shown = sorted(moved, key=lambda one: -moves[one][1])[:SHOWN]
    along = ", ".join(f"{one} = {moved[one] / largest:+.2g}" for one in moved if one in shown)
    if len(moved) > SHOWN:
        along += f" and {len(moved) - SHOWN} more"
    is_least = compiled.sense > 0
    if is_unbounded:
        goes = "falls" if is_least else "rises"
        return (
            f"the objective {goes} without bound along {along}; add a constraint or a regulariser"
        )
    found = "minimiser: it keeps falling" if is_least else "maximiser: it keeps rising"
    return (
        f"the objective has no {found} along {along}; bound the variables, or add a small "
        "cp.sum_squares of them"
    )
