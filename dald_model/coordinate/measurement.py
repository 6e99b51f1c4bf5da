r"""Measurement of the natural units of a problem, see :mod:`dald_model.coordinate.units`."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import nearest_inside, rough_lengths
from dald_model.coordinate.carried import carried
from dald_model.coordinate.curvature import Curvature, is_defined_at_zero, pull
from dald_model.coordinate.distances import ROUNDED, Distances, Surveyed
from dald_model.coordinate.largest import bounds_of_largest
from dald_model.coordinate.poles import away_from_poles
from dald_model.coordinate.sides import sides_of
from dald_model.coordinate.sums import alike_in_sums
from dald_model.coordinate.survey import own_answers
from dald_model.coordinate.together import Alike, Parts, together
from dald_model.coordinate.told_answers import introduced, told_answers
from dald_model.coordinate.units import Units
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers.exact.balance import EXTREME

CAUTION = 0.25
"""Share of the lengths that counts, as answers alone are often farther apart than prices move
them."""
NOISE = 1e-4
"""Answers closer than this share of how far others of the variable are apart are the same but for
what solvers leave, as of entries that a constraint holds at zero."""
FAINT = 1e-6
"""Stiffness below this share of what it is on a client's other edges is noise."""
FREE = 100.0
"""How many times the distance between its answers an entry's length may be."""
SINGULAR = 100.0
"""The same of what it is at a point over what it is over a length."""
KINKED = 16.0
"""How many times stiffer a client's kink counts in the penalty: prices turn on a far shorter way. A
coupling's counts once: it is mostly where its parties agree, and then they are as on an edge. (Of
the gallery's and zoo's models with such couplings none took more rounds so, half on average.)"""
HELD, PULLED = 4.0, 1e-3
"""How many times stiffer a client counts in the penalty that its constraints hold where it answers:
it turns at them, and moves along fewer directions. And what it slopes by there at least, as a share
of what its curvature makes of the lengths."""
LEARNT = 32
"""Up to this many shared entries that is left to who learns it from the answers, as
:class:`dald_model.Secant` does: of the gallery's models it made some better and some worse, of
larger ones all better."""


@uncollected()
def natural_units(compiled: Decomposition, layer: SolverLayer) -> Units:
    """The units of a model with the present values of the user's Parameters.

    ``layer`` is asked for the clients' own answers, and is left with its numbers around these where
    they are far from zero.
    """
    return _Measurement(compiled, layer).units()


class _Measurement:
    """Everything that is measured of a model on the way to its units."""

    def __init__(self, compiled: Decomposition, layer: SolverLayer) -> None:
        self._compiled = compiled
        answers = told_answers(compiled) or own_answers(compiled, layer)
        own, having, curvatures, self._starts = answers
        alike, sides = together(compiled), sides_of(compiled, own)
        self._known = Surveyed(compiled, own, having, curvatures, alike, Parts(compiled), sides)
        self._layer = layer
        self._see_distances()

    def _see_distances(self) -> None:
        found = Distances(self._known, self._layer)
        self._distances, self._nothing = found.found, found.nothing
        self._reaches = self._beyond_noise()

    def units(self) -> Units:
        """See the module."""
        compiled = self._compiled
        stiffness, kinks, penalty, bends = self._stiffnesses()
        if away := away_from_poles(self._known, self._lengths, bends):
            self._known = away
            self._see_distances()
            stiffness, kinks, penalty, bends = self._stiffnesses()
        if not stiffness.any() and self._distances.any():
            self._go_inside()
            stiffness, kinks, penalty, bends = self._stiffnesses()
        self._see_bounds(stiffness, penalty)
        penalty[penalty <= ROUNDED * stiffness] = 0.0  # beside kinks that keep variables at zero
        lengths = self._extremes(stiffness)
        stiffness = self._filled(stiffness, lengths)
        penalty = self._filled(penalty, lengths) if penalty.any() else stiffness
        least = self._least(stiffness)
        penalty = np.where(stiffness < least, np.maximum(penalty, least), penalty)
        stiffness = np.maximum(stiffness, least)
        lengths = CAUTION * self._natural(stiffness)
        slopes = stiffness * lengths
        points = self._of_points(lengths, slopes, bends)
        penalty = alike_in_sums(compiled, np.sqrt(penalty / 2))
        return Units(lengths, slopes, kinks, *points, penalty, np.nan_to_num(self._starts))

    def _stiffnesses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How stiff entries are, how steep kinks are along them, what counts for penalties, (Q,).

        And how clients' variables bend.
        """
        stiffness, kinks, penalty, ends = np.zeros((4, self._compiled.size))
        bends = np.zeros(self._known.own.size)
        for alike in self._known.together:
            if alike.subs[0].name not in self._known.curvatures:
                continue  # a server
            sight, entries = alike.sight, alike.entries
            bend, carries, sharp, share = self._stiffness(alike)
            bends[alike.columns] = bend
            np.maximum.at(stiffness, entries, sight.curvatures(carries))
            np.maximum.at(kinks, entries, sharp)
            own = sight.curvatures(share)
            np.add.at(penalty, entries, own)
            np.add.at(ends, entries, own > 0)
        return stiffness, kinks, penalty / np.maximum(ends, 1), bends

    def _go_inside(self) -> None:
        """Have clients without an answer be where they could answer, nearest to the others'.

        Where these are outside of a logarithm's domain it says nothing there.
        """
        known = self._known
        for alike in known.together:
            for sub, lengths in zip(alike.subs, self._lengths(alike), strict=True):
                if sub.name in known.curvatures and sub.name not in known.having:
                    own = known.of(sub)
                    inside = nearest_inside(sub, np.nan_to_num(own), lengths)
                    own[:] = np.where(np.isnan(inside), own, inside)

    def _stiffness(self, alike: Alike) -> tuple[np.ndarray, ...]:
        """How stiff clients are in their variables, (k, m): themselves, and with what rows carry.

        Then how steep their kinks are along their sides, (k, q), and what counts for penalties,
        (k, m), again with what rows carry.
        """
        lengths = self._lengths(alike)
        kinked = np.array([1.0 if sub.client.is_coupling else KINKED for sub in alike.subs])[
            :, None
        ]
        known = [self._known.curvatures[sub.name] for sub in alike.subs]
        curved = np.stack([one.diagonal for one in known])
        is_plain = [
            one.is_known and _is_plain(sub) for one, sub in zip(known, alike.subs, strict=True)
        ]
        over = np.where(lengths > 0, lengths, np.inf)
        kinks = np.stack([one.kinks for one in known])
        elsewhere = np.stack([one.elsewhere for one in known])
        spread = np.array([one.spread for one in known])[:, None]
        odd = [i for i, plain in enumerate(is_plain) if not plain and known[i].is_known]
        for i in odd:
            curved[i] = self._within(alike.subs[i], curved[i], lengths[i])
        bend, sharp = curved + 2 * kinks / over, alike.sight.slopes(kinks)
        # A kink at zero keeps variables there, and turns the slope on the way between the answers
        # as often as these are on both sides; others do so many times.
        share = curved * spread + 2 * (kinks + (kinked - 1) * elsewhere) / over
        for i, (sub, one) in enumerate(zip(alike.subs, known, strict=True)):
            if not one.is_known:
                found, straight = self._known.probed(sub, lengths[i])
                bend[i] = np.where(found > 2 * ROUNDED * kinks[i] / over[i], found, 0.0)
                sharp[i] = alike.sight.slopes(bend[i] * lengths[i] / 2)
                share[i] = bend[i] * (1 + (kinked[i] - 1) * straight)
            elif self._is_held(sub, one, lengths[i]):
                share[i] *= HELD
        carries = bend.copy()
        for i, sub in enumerate(alike.subs):
            if not is_plain[i]:
                carries[i], share[i] = carried(sub, bend[i]), carried(sub, share[i])
        return bend, carries, sharp, share

    def _beyond_noise(self) -> np.ndarray:
        """The distances, without those that are noise beside the others of the same variable."""
        most = self._known.parts.largest(self._distances)
        return np.where(self._distances < NOISE * most, most, self._distances)

    def _lengths(self, alike: Alike) -> np.ndarray:
        """The distances as lengths of clients' variables, shape (k, m).

        What is on no edge has units of its own: it is as long as what bends as much in all.
        """
        found = alike.sight.lengths(self._reaches[alike.entries])
        own = np.nan_to_num(np.abs(self._known.own[alike.columns]))
        rest = found.max(axis=1, initial=0.0, keepdims=True)
        rest = np.where(rest > 0, rest, own.max(axis=1, initial=0.0, keepdims=True))
        if not (found > 0).all() and alike.subs[0].name in self._known.curvatures:
            bends = np.stack([self._known.curvatures[sub.name].diagonal for sub in alike.subs])
            energy = (bends * found**2).max(axis=1, keepdims=True)
            bent = np.sqrt(energy / np.where(bends > 0, bends, np.inf))
            rest = np.where(bent > 0, bent, rest)
        return np.where(found > 0, found, np.where(rest > 0, rest, 1.0))

    def _is_held(self, sub: Subproblem, known: Curvature, lengths: np.ndarray) -> bool:
        """Whether inequalities hold a client's own answer: it slopes there by more than its kinks.

        Along what edges see.
        """
        if sub.entries.size <= LEARNT:
            return False
        told = introduced(sub)
        own = self._known.of(sub)
        slopes = pull(sub, own) if told is None else told.pull
        is_pulled = np.abs(slopes) > known.kinks + PULLED * known.diagonal * lengths
        return bool((is_pulled & (sub.sight.of_variables > 0)).any())

    def _within(self, sub: Subproblem, diagonal: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Curvatures, (m,), that a singularity near the client's answer does not make.

        A logarithm that is told of neighbours at the edge of its domain is curved there without
        end, but not over the length that they bargain about.
        """
        known = introduced(sub)
        if is_defined_at_zero(sub) if known is None else not known.is_singular:
            return diagonal
        probed = self._known.probed(sub, lengths)[0]
        return np.where((probed > 0) & (diagonal > SINGULAR * probed), probed, diagonal)

    def _see_bounds(self, stiffness: np.ndarray, penalty: np.ndarray) -> None:
        """Enter what couplings pay for bounds that no objective sees."""
        for name in self._compiled.couplings:
            sub, own = self._compiled[name], self._known.own[self._compiled.columns[name]]
            bends, reach = bounds_of_largest(sub, self._known.curvatures[name].slopes, own, CAUTION)
            found = sub.sight.curvatures(bends)
            is_new = (found > 0) & (stiffness[sub.entries] == 0)
            entries = sub.entries[is_new]
            stiffness[entries] = penalty[entries] = found[is_new]
            self._distances[entries] = (sub.sight.absolute @ reach)[is_new]

    def _filled(self, given: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Entries with next to none take those of their clients' other edges, else others' mean.

        In units of ``lengths``, (Q,). Means are geometric.
        """
        found = given * lengths**2
        if not (found > 0).any():
            return lengths**-2
        lacking: dict[Hashable, np.ndarray] = {}
        for alike in self._known.together:
            mine = found[alike.entries]
            near = alike.sight.along(alike.sight.lengths(mine))
            for i in np.flatnonzero((mine <= FAINT * near).any(axis=1)):
                lacking[alike.subs[i].name] = near[i]
        for name in filter(lacking.__contains__, self._compiled):
            entries, near = self._compiled[name].entries, lacking[name]
            mine = found[entries]
            found[entries] = np.where(mine > FAINT * near, mine, near)
        rest = found == 0
        found[rest] = np.exp(np.log(found[~rest]).mean())
        return found / lengths**2

    def _extremes(self, stiffness: np.ndarray) -> np.ndarray:
        """How long entries are where some say nothing, and lengths differ by more than is balanced.

        That is how far answers are apart, and for clients without an answer what their rows say.
        Else ones, (Q,): then what is as stiff as others are in the user's units has their length.
        """
        known, apart = self._known, self._reaches
        is_silent = (stiffness == 0) & (apart == 0)
        if not is_silent.any():
            return np.ones(apart.size)
        rows = np.zeros(apart.size)
        for name in known.curvatures.keys() - known.having:
            sub = self._compiled[name]
            if sub.form is not None and sub.form.cone.rhs.any():
                np.maximum.at(rows, sub.entries, sub.sight.along(rough_lengths(sub)))
        found = np.where(apart > 0, apart, rows)
        # Answers that happen to be near each other say nothing where nobody bends
        told = found[(found > 0) & (is_silent | (stiffness > 0))]
        if not told.size or told.max() <= EXTREME * told.min():
            return np.ones(apart.size)
        return np.where(found > 0, found, np.exp(np.log(told).mean()))

    def _least(self, stiffness: np.ndarray) -> np.ndarray:
        """The stiffness that makes no length more than ``FREE`` times the distance between answers.

        Where nothing bends between the answers it would be that of rounding errors. Answers that
        are the same but for these bound nothing: a consensus equality without energy has no least.
        """
        energies = stiffness * self._distances**2
        energy = self._known.parts.largest(energies)
        # Bounds that couplings pay for have no answers apart
        is_bound = (energy > self._nothing * energies.max()) & (self._reaches > 0)
        least = np.zeros(stiffness.size)
        np.divide(energy, (FREE * self._reaches) ** 2, out=least, where=is_bound)
        return least

    def _natural(self, stiffness: np.ndarray) -> np.ndarray:
        """The lengths :math:`X_r`."""
        energies = stiffness * self._distances**2
        most = energies.max(initial=0.0) or 1.0
        energy = self._known.parts.largest(energies)
        return np.sqrt(np.where(energy > self._nothing * most, energy, most) / stiffness)

    def _of_points(
        self, lengths: np.ndarray, slopes: np.ndarray, bends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of the clients' variables, those on no edge included."""
        long, steep = np.empty(bends.size), np.empty(bends.size)
        for alike in self._known.together:
            entries, mine = alike.entries, alike.columns
            energy = (lengths * slopes)[entries].max(axis=1, keepdims=True)
            found = alike.sight.lengths(lengths[entries])
            own = np.abs(np.nan_to_num(self._known.own[mine]))
            bent = np.sqrt(energy / np.where(bends[mine] > 0, bends[mine], np.inf))
            widest = found.max(axis=1, keepdims=True)
            rest = np.where(bent > 0, bent, np.where(own > 0, own, widest))
            long[mine] = np.where(found > 0, found, rest)
            steep[mine] = energy / long[mine]
        return long, steep


def _is_plain(sub: Subproblem) -> bool:
    """Whether curvature says all of a client: no rows carry it, no singularity makes it."""
    return not sub.form.equalities.rhs.size and is_defined_at_zero(sub) if sub.form else False
