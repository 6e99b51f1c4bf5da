r"""How far the answers of those who share an entry are apart, for the natural units of a problem.

See :mod:`dald_model.coordinate.units`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import response, rough_lengths
from dald_model.coordinate.curvature import Curvature
from dald_model.coordinate.probing import probed
from dald_model.coordinate.sides import sides_of
from dald_model.coordinate.together import Alike, Parts
from dald_model.coordinate.told_answers import ask_site, is_remote
from dald_model.engines.dispatch import SolverLayer

RESOLVED, REFINED, ROUNDED = 1e-7, 1e-9, 1e-12
"""Answers that are closer to each other than this, relative to their size, are the same: of solvers
that are not exact, of these where they were asked again around their answers, and of exact ones."""
NOTHING, UNFELT = 1e-18, RESOLVED**2
"""Energies below this share of the largest are rounding errors of answers that are zero; of solvers
that are not exact, what they leave: a coupling that does not bind along an edge still answers a
digit beside its client."""
SHARES = 10.0 ** np.arange(-8, 0)
"""Of how far from zero the only answers are: the lengths that are tried where no others are known,
which would make the origin matter."""


class Surveyed(NamedTuple):
    """What is known of clients alone.

    Attributes
    ----------
    compiled : Decomposition
    own : ndarray
        All variables at the clients' own answers; NaN where nobody says anything.
    having : set
        The clients that have an answer of their own.
    curvatures : mapping
        The curvature of each client there; servers have none.
    together : list of Alike
    parts : Parts
    sides : ndarray, shape (2, Q)
        The two sides of all entries there.
    """

    compiled: Decomposition
    own: np.ndarray
    having: Set[Hashable]
    curvatures: Mapping[Hashable, Curvature]
    together: list[Alike]
    parts: Parts
    sides: np.ndarray

    def of(self, sub: Subproblem) -> np.ndarray:
        """One client's own answer, (m,)."""
        return self.own[self.compiled.columns[sub.name]]

    def probed(self, sub: Subproblem, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :func:`dald_model.coordinate.probing.probed`."""
        if is_remote(sub):
            bend, straight = ask_site(sub, "probe", "bend", "straight", lengths=lengths)
            return bend, straight
        return probed(sub, self.of(sub), lengths)


class Distances:
    r"""The distances :math:`O_r`, (Q,), as ``found``; zero where nobody has an answer.

    Energies below ``nothing``, (Q,), of the largest are what solvers leave of zero.
    """

    def __init__(self, known: Surveyed, layer: SolverLayer) -> None:
        self._known = known
        compiled, sides = known.compiled, known.sides
        gap = np.nan_to_num(np.abs(sides[0] - sides[1]))
        found = gap.copy()
        # How far one client's answer is from the mean says something of all who share the variable.
        for alike in known.together:
            widest = alike.sight.along(alike.sight.lengths(gap[alike.entries]))
            np.maximum.at(found, alike.entries, widest)
        origin = sides_of(compiled, np.zeros(known.own.size))
        magnitude = np.nan_to_num(np.abs(known.sides - origin)).max(axis=0)
        resolved = np.full(compiled.size, ROUNDED)
        of_others = REFINED if layer.is_centred else RESOLVED
        for name, one in known.curvatures.items():
            if not (one.is_known and layer.solver(name).is_exact):
                resolved[compiled[name].entries] = of_others
        self.nothing = known.parts.largest(np.where(resolved > ROUNDED, UNFELT, NOTHING))
        found[found <= resolved * magnitude] = 0.0
        # What agrees beside others that do not has their energy.
        asked = known.parts.largest(found) == 0
        if asked.any():
            moved = self._responses(asked)
            found = np.where(moved > resolved * magnitude, moved, found)
        if not found.any():
            told = self._told_by_rows()
            most = self._balanced(magnitude)
            # Where nobody is anywhere but at zero there is no distance either
            found = np.where(told > 0, np.minimum(most, told), most) if most.any() else told
        self.found = np.maximum(found, self._shared_by_all(found, resolved))

    def _balanced(self, most: np.ndarray) -> np.ndarray:
        """How far clients without an answer pull those who have one; at most so far.

        Over short ways a slope changes an objective by more than a minimum does, over longer ones
        by less.
        """
        known = self._known
        others = set(known.curvatures) - {*known.compiled.couplings}
        if others <= known.having or not most.any():
            return most
        for share in SHARES:
            changes = {True: 0.0, False: 0.0}
            for name in others:
                sub = known.compiled[name]
                over = sub.sight.lengths(share * most[sub.entries])
                over = np.where(over > 0, over, share * most.max())
                change = float((known.probed(sub, over)[0] * over**2).max())
                changes[name in known.having] = max(changes[name in known.having], change)
            if changes[False] <= changes[True]:
                return most if share == SHARES[0] else share * most
        return most

    def _told_by_rows(self) -> np.ndarray:
        """How long rows of cone programs are where clients are, along edges; else zero."""
        found = np.zeros(self._known.compiled.size)
        for name in self._known.curvatures:
            sub = self._known.compiled[name]
            own = self._known.of(sub)
            if sub.form is not None and not np.isnan(own).any():
                along = sub.sight.along(rough_lengths(sub, own))
                np.maximum.at(found, sub.entries, along)
        return found

    def _responses(self, asked: np.ndarray) -> np.ndarray:
        """How far single answers move for a price, along the entries asked for; else 0.

        Not along those of couplings: a bound on a loss hardly moves down, and for ever up.
        """
        found, asked = np.zeros(asked.size), asked.copy()
        for name in self._known.compiled.couplings:
            asked[self._known.compiled[name].entries] = False
        for name in self._known.curvatures:
            sub = self._known.compiled[name]
            if asked[sub.entries].any() and name in self._known.having:
                moved = self._moved(sub)
                np.maximum.at(found, sub.entries, sub.sight.along(moved))
        return np.where(asked, found, 0.0)

    def _moved(self, sub: Subproblem) -> np.ndarray:
        """See :func:`response`."""
        if is_remote(sub):
            return ask_site(sub, "respond", "moved")[0]
        return response(sub, self._known.of(sub))

    def _shared_by_all(self, distances: np.ndarray, resolved: np.ndarray) -> np.ndarray:
        """For entries without any, the largest distance of the quantity on all edges; else 0."""
        compiled = self._known.compiled
        cells = compiled.stacked.cells
        rows, others = cells.row % compiled.size, compiled.size + cells.col
        count = compiled.size + self._known.own.size
        links = sp.coo_array((np.ones(rows.size), (rows, others)), shape=(count, count))
        quantity = connected_components(links, directed=False)[1][: compiled.size]
        largest = np.zeros(count)
        np.maximum.at(largest, quantity, distances)
        wide = largest[quantity]
        # What two numerical answers at the end of a flat stretch share is a root of what they leave
        noise = np.where(resolved > ROUNDED, np.maximum(resolved, RESOLVED), resolved)
        return np.where(distances <= noise * wide, wide, 0.0)
