r"""Scaling of a problem, measured once before the first round; hints, never a verdict.

For entry r of an edge let

* :math:`O_r` be how far apart its ends are at the clients' local minimisers
  (:mod:`dald_model.coordinate.scaling.local_minimisers`): the length over which they bargain,
* :math:`h_r` be how stiff the objectives are along it: their curvature, with kinks of steepness k
  counting as :math:`2 k / O`, those too that bounds make
  (:mod:`dald_model.coordinate.scaling.stiffness`), or where curvature is not known
  :math:`2 |f(x + O) - f(x)| / O^2`.

A consensus equality has the energy :math:`E = \max_r h_r O_r^2` over its entries, in the units of
the objective, and its entries have the lengths, slopes and penalties

.. math:: X_r = \tfrac14 \sqrt{E / h_r}, \qquad M_r = h_r X_r, \qquad \rho_r^2 = \bar h_r / 2,

:math:`\bar h` being the mean of both ends. Multiply the objective by s, and E and M are multiplied
by s; measure a variable in other units, and its X and M follow; move the origin, and nothing
changes. Residuals and inner accuracies are measured beside X and M, and the solvers take numbers in
them. A scale that is wrong by a thousand costs 0.9 to 1.12 times the rounds.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.scaling.array_units import alike_in_arrays
from dald_model.coordinate.scaling.edge_values import Alike, Parts, sides_of, together
from dald_model.coordinate.scaling.local_minimisers import (
    ACCURACY,
    BIAS,
    SOLVED_TO,
    LocalMinimisers,
    LocalSearch,
)
from dald_model.coordinate.scaling.rows import told_by_rows
from dald_model.coordinate.scaling.stiffness import (
    alike_in_matrices,
    bounds_of_largest,
    carried,
    kinks_of_bounds,
    probed,
)
from dald_model.coordinate.scaling.units import Units
from dald_model.engines.dispatch import SolverLayer
from dald_model.gc_pause import gc_paused
from dald_model.sizes import ROUNDING

CAUTION = 0.25
"""Share of the distances that counts as a length: local minimisers are farther apart than prices
move the clients."""
KINKED = 10.0
"""How many times stiffer a kink counts in a client's penalty: prices turn on a far shorter way than
that between the minimisers. (From 6 to 32 nine kinked models took 0.92 to 1.24 times the rounds of
the frozen panel, in no order.) A coupling's counts once: it is where its parties agree."""


@gc_paused
def natural_units(compiled: Decomposition, layer: SolverLayer) -> Units:
    """The scaling of a model with the present values of the user's Parameters.

    ``layer`` solves for the local minimisers, and is left with its numbers around these where they
    are far from zero.
    """
    return _Scaling(compiled, LocalSearch(compiled, layer).of_all()).units()


class _Scaling:
    """The computation of the units; see the module for the letters."""

    def __init__(self, compiled: Decomposition, local: LocalMinimisers) -> None:
        self._compiled, self._local = compiled, local
        self._together, self._parts = together(compiled), Parts(compiled)
        self._distances, self._reaches = self._apart()

    def units(self) -> Units:
        """See the module."""
        stiffness, penalty, bends, is_own = self._stiffnesses()
        self._see_bounds(stiffness, penalty)
        stiffness = self._filled(stiffness)
        penalty = np.where(penalty > 0, penalty, stiffness)
        measured = self._along(self._local.lengths)
        penalty = alike_in_arrays(self._compiled, penalty, measured, ~is_own)
        if self._compiled.form.common.cost is not None:
            # Rounds are proximal steps, of which a share of the curvature leaves that share, and
            # its inverse multiplies rounding of the prices: at the root both are as small
            penalty *= np.sqrt(ROUNDING)
        energy = self._parts.largest(stiffness * self._distances**2)
        if self._is_agreed.any() and not self._is_agreed.all():
            energy[self._is_agreed] = energy[~self._is_agreed].max()
        lengths = CAUTION * np.sqrt(energy / stiffness)
        slopes = stiffness * lengths
        points = self._of_points(lengths, slopes, bends)
        return Units(lengths, slopes, *points, np.sqrt(penalty / 2), self._local.starts)

    def _apart(self) -> tuple[np.ndarray, np.ndarray]:
        """The distances :math:`O_r`, (Q,), and what stands for those that solves leave of zero.

        One client's way to the others says something of all who share the variable. Where all
        agree it is what rows tell, else what the first solves measured by, or the way from zero.
        """
        compiled, points = self._compiled, self._local.points
        sides = np.nan_to_num(sides_of(compiled, points))
        gap = np.abs(sides[0] - sides[1])
        found = gap.copy()
        self._share_widest(gap, found)
        origin = sides_of(compiled, np.zeros(points.size))
        size = np.abs(sides - origin).max(axis=0)
        moved = np.abs(sides - sides_of(compiled, self._local.base)).max(axis=0)
        measured = self._along(self._local.lengths)
        # Rows of an owner that fits exactly tell no length, but those of another may
        widest = measured.copy()
        self._share_widest(measured, widest)
        least = ACCURACY * widest
        found[found <= BIAS * moved + ROUNDING * size + least] = 0.0
        self._is_agreed = self._parts.largest(found) == 0
        rest = found == 0
        if rest.any():
            most = self._parts.largest(size)
            way = most
            for known in (size, self._along(self._local.ways)):
                way = np.where(known > ROUNDING * most, known, way)
            told = self._told_by_rows(rest)
            told = np.where((told > 0) & (most > least), np.minimum(told, most), told)
            way = np.where(told > 0, told, way)
            found[rest] = way[rest]
        found = np.where(found > 0, found, found.max() or 1.0)
        # Sites do not tell what they measure by
        long = np.where(measured > 0, measured, self._parts.largest(found))
        is_short = (found < SOLVED_TO * long) & ~(rest & (measured > 0))
        return found, np.where(is_short, long, found)

    def _along(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths of the clients' variables along edges, at the shorter end that has one, (Q,)."""
        found = np.full(self._compiled.size, np.inf)
        for alike in self._together:
            own = alike.sight.along(lengths[alike.columns])
            np.minimum.at(found, alike.entries, np.where(own > 0, own, np.inf))
        return np.where(np.isfinite(found), found, 0.0)

    def _told_by_rows(self, asked: np.ndarray) -> np.ndarray:
        """The longest lengths that clients' rows tell around the minimisers, (Q,), or zero."""
        found = np.zeros(asked.size)
        for name, known in self._local.curvatures.items():
            sub = self._compiled[name]
            if asked[sub.entries].any() and sub.form is not None and sub.is_constrained:
                part = self._compiled.columns[name]
                own, noise = self._local.points[part], SOLVED_TO * self._local.lengths[part]
                along = sub.sight.along(told_by_rows(sub, known.diagonal, own, noise)[1])
                np.maximum.at(found, sub.entries, along)
        self._share_widest(found.copy(), found)
        return found

    def _share_widest(self, given: np.ndarray, found: np.ndarray) -> None:
        """Let what is ``given`` on one edge, (Q,), count on all that share the variable."""
        for alike in self._together:
            widest = alike.sight.along(alike.sight.lengths(given[alike.entries]))
            np.maximum.at(found, alike.entries, widest)

    def _stiffnesses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How stiff entries are, and what counts for penalties, (Q,).

        And how clients' variables bend, and which entries have a stiffness of their own, (Q,).
        """
        stiffness, penalty, ends = np.zeros((3, self._compiled.size))
        is_own = np.zeros(self._compiled.size, dtype=bool)
        bends = np.zeros(self._local.points.size)
        declared, is_flat = self._compiled.form.as_declared, None
        for alike in sorted(self._together, key=lambda alike: alike.subs[0].name in declared):
            name = alike.subs[0].name
            if name not in self._local.curvatures:
                continue  # a server
            sight, entries = alike.sight, alike.entries
            bend, carries, share = self._stiffness(alike)
            bends[alike.columns] = bend
            is_own[entries[sight.curvatures(bend) > 0]] = True
            along, own = sight.curvatures(carries), sight.curvatures(share)
            if name in declared:  # linear, and asked where what a server holds for it is flat
                is_flat = stiffness == 0 if is_flat is None else is_flat
                along, own = is_flat[entries] * along, is_flat[entries] * own
            np.maximum.at(stiffness, entries, along)
            np.add.at(penalty, entries, own)
            np.add.at(ends, entries, own > 0)
        return stiffness, penalty / np.maximum(ends, 1), bends, is_own

    def _stiffness(self, alike: Alike) -> tuple[np.ndarray, ...]:
        """How stiff clients are in their variables, (k, m): themselves, and with what rows carry.

        Then what counts for penalties, (k, m), again with what rows carry.
        """
        lengths = self._lengths(alike)
        is_coupling = np.array([sub.client.is_coupling for sub in alike.subs])[:, None]
        kinked = np.where(is_coupling, 1.0, KINKED)
        known = [self._local.curvatures[sub.name] for sub in alike.subs]
        curved = np.array([one.diagonal for one in known])
        kinks = np.array([one.kinks for one in known])
        elsewhere = np.array([one.elsewhere for one in known])
        spread = np.array([one.spread for one in known])[:, None]
        steep = kinks + curved * lengths / 2
        bend = curved + 2 * kinks / lengths
        # A kink at zero keeps variables there, and turns the slope on the way between the answers
        # as often as these are on both sides; others do so many times.
        share = curved * spread + 2 * (kinks + (kinked - 1) * elsewhere) / lengths
        for i, (sub, one) in enumerate(zip(alike.subs, known, strict=True)):
            part = self._compiled.columns[sub.name]
            own = self._local.points[part]
            if one.is_known:
                noise = SOLVED_TO * self._local.lengths[part]
                turns, straight = kinks_of_bounds(sub, one, own, noise)
                bend[i] += 2 * turns / lengths[i]
                share[i] += 2 * (1 + (kinked[i] - 1) * straight) * turns / lengths[i]
            else:
                long = alike_in_matrices(sub, lengths[i])
                bend[i], straight = probed(sub, own, long, steep[i])
                share[i] = bend[i] * (1 + (kinked[i] - 1) * straight)
        carries = bend.copy()
        for i, sub in enumerate(alike.subs):
            if sub.form is not None and sub.form.equalities.rhs.size:
                carries[i], share[i] = carried(sub, bend[i]), carried(sub, share[i])
        return bend, carries, share

    def _lengths(self, alike: Alike) -> np.ndarray:
        """The distances as lengths of clients' variables, shape (k, m).

        Variables on no edge have units of their own: the length at which they have the energy of
        the client's other variables.
        """
        found = alike.sight.lengths(self._reaches[alike.entries])
        if (found > 0).all():
            return found
        rest = np.broadcast_to(found.max(axis=1, keepdims=True), found.shape)
        if alike.subs[0].name in self._local.curvatures:
            bends = np.array([self._local.curvatures[sub.name].diagonal for sub in alike.subs])
            energy = (bends * found**2).max(axis=1, keepdims=True)
            bent = np.sqrt(energy / np.where(bends > 0, bends, np.inf))
            rest = np.where(bent > 0, bent, rest)
        return np.where(found > 0, found, np.where(rest > 0, rest, 1.0))

    def _see_bounds(self, stiffness: np.ndarray, penalty: np.ndarray) -> None:
        """Enter what couplings pay for bounds that no objective sees."""
        for name in self._compiled.couplings:
            sub, own = self._compiled[name], self._local.points[self._compiled.columns[name]]
            slopes = self._local.curvatures[name].slopes
            bends, reach = bounds_of_largest(sub, slopes, own, CAUTION)
            found = sub.sight.curvatures(bends)
            is_new = (found > 0) & (stiffness[sub.entries] == 0)
            entries = sub.entries[is_new]
            stiffness[entries] = penalty[entries] = found[is_new]
            self._distances[entries] = (sub.sight.absolute @ reach)[is_new]

    def _filled(self, given: np.ndarray) -> np.ndarray:
        """Stiffness of all entries: where there is none it is that of the variable on other edges.

        Else the energy is that of the clients' other edges, or of all others, in the geometric
        mean.
        """
        given = np.where(given > 0, given, self._of_same_variables(given))
        squares = self._reaches**2
        energy = given * squares
        if not energy.any():
            return 1 / squares
        # A site is known along its one way alone. (With the mean logistic sites took 167 rounds for
        # 52; with the largest IEEE's 118 buses in four areas stalled, and took 605 with the mean.)
        is_told = any(sub.client.is_remote for sub in self._compiled.values())
        others = self._of_neighbours if is_told else self._mean_of_neighbours
        energy = np.where(energy > 0, energy, others(energy))
        rest = energy == 0
        energy[rest] = np.exp(np.log(energy[~rest]).mean())
        return energy / squares

    def _of_same_variables(self, stiffness: np.ndarray) -> np.ndarray:
        """How stiff a client's variables are on its other edges, (Q,); zero where nobody knows.

        Softness, 1 / sqrt(h), has the units of a length, and is averaged as one.
        """
        found = np.zeros(stiffness.size)
        is_known = stiffness > 0
        softness = np.where(is_known, 1 / np.sqrt(np.where(is_known, stiffness, 1.0)), 0.0)
        for alike in self._together:
            sight, entries = alike.sight, alike.entries
            of_one = sight.along(np.ones(alike.columns.shape))
            counts = sight.lengths(np.where(is_known[entries], of_one, 0.0))
            mean = sight.lengths(softness[entries]) / np.where(counts > 0, counts, np.inf)
            own = sight.along(mean)
            np.maximum.at(found, entries, np.where(own > 0, own, np.inf) ** -2)
        return found

    def _mean_of_neighbours(self, energy: np.ndarray) -> np.ndarray:
        """The mean energy of an edge's clients, on their edges that have one, (Q,)."""
        found, counts = np.zeros((2, energy.size))
        is_known = energy > 0
        logarithms = np.log(np.where(is_known, energy, 1.0))
        for alike in self._together:
            for sums, given in ((found, logarithms), (counts, is_known)):
                own = given[alike.entries].sum(axis=1, keepdims=True)
                np.add.at(sums, alike.entries, np.broadcast_to(own, alike.entries.shape))
        return np.where(counts > 0, np.exp(found / np.maximum(counts, 1)), 0.0)

    def _of_neighbours(self, energy: np.ndarray) -> np.ndarray:
        """The largest energy of an edge's clients, on any of their edges, (Q,)."""
        found = np.zeros(energy.size)
        for alike in self._together:
            most = energy[alike.entries].max(axis=1, keepdims=True)
            np.maximum.at(found, alike.entries, np.broadcast_to(most, alike.entries.shape))
        return found

    def _of_points(
        self, lengths: np.ndarray, slopes: np.ndarray, bends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of the clients' variables, those on no edge included."""
        long, steep = np.empty((2, bends.size))
        for alike in self._together:
            entries, mine = alike.entries, alike.columns
            energy = (lengths * slopes)[entries].max(axis=1, keepdims=True)
            found = alike.sight.lengths(lengths[entries])
            own = np.abs(np.nan_to_num(self._local.points[mine]))
            bent = np.sqrt(energy / np.where(bends[mine] > 0, bends[mine], np.inf))
            widest = found.max(axis=1, keepdims=True)
            rest = np.where(bent > 0, bent, np.where(own > 0, own, widest))
            long[mine] = np.where(found > 0, found, rest)
            steep[mine] = energy / long[mine]
        return long, steep
