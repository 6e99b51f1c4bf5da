r"""Measurement of the natural units of a problem, see :mod:`dald_model.coordinate.units`."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import nearest_inside, response, rough_lengths
from dald_model.coordinate.carried import carried
from dald_model.coordinate.curvature import Curvature, is_defined_at_zero, pull
from dald_model.coordinate.largest import bounds_of_largest
from dald_model.coordinate.probing import probed
from dald_model.coordinate.sides import sides_of
from dald_model.coordinate.sums import alike_in_sums
from dald_model.coordinate.survey import own_answers
from dald_model.coordinate.together import Alike, Parts, together
from dald_model.coordinate.told_answers import ask_site, introduced, is_remote, told_answers
from dald_model.coordinate.units import Units
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers.exact.balance import EXTREME

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
        self._own, self._having, self._curvatures, self._starts = answers
        self._sides = sides_of(compiled, self._own)
        self._parts = Parts(compiled)
        self._together = together(compiled)
        self._distances = self._apart(layer)

    def units(self) -> Units:
        """See the module."""
        compiled = self._compiled
        stiffness, kinks, penalty, bends = self._stiffnesses()
        if not stiffness.any() and self._distances.any():
            self._go_inside()
            stiffness, kinks, penalty, bends = self._stiffnesses()
        self._see_bounds(stiffness, penalty)
        penalty[penalty <= ROUNDED * stiffness] = 0.0  # beside kinks that keep variables at zero
        stiffness = self._filled(stiffness)
        penalty = self._filled(penalty) if penalty.any() else stiffness
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
        bends = np.zeros(self._own.size)
        for alike in self._together:
            if alike.subs[0].name not in self._curvatures:
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
        for alike in self._together:
            for sub, lengths in zip(alike.subs, self._lengths(alike), strict=True):
                if sub.name in self._curvatures and sub.name not in self._having:
                    part = self._compiled.columns[sub.name]
                    inside = nearest_inside(sub, np.nan_to_num(self._own[part]), lengths)
                    self._own[part] = np.where(np.isnan(inside), self._own[part], inside)

    def _stiffness(self, alike: Alike) -> tuple[np.ndarray, ...]:
        """How stiff clients are in their variables, (k, m): themselves, and with what rows carry.

        Then how steep their kinks are along their sides, (k, q), and what counts for penalties,
        (k, m), again with what rows carry.
        """
        lengths = self._lengths(alike)
        kinked = np.array([1.0 if sub.client.is_coupling else KINKED for sub in alike.subs])[
            :, None
        ]
        known = [self._curvatures[sub.name] for sub in alike.subs]
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
                found, straight = self._probed(sub, lengths[i])
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

    def _apart(self, layer: SolverLayer) -> np.ndarray:
        r"""The distances :math:`O_r`; zero where nobody has an answer."""
        compiled = self._compiled
        gap = np.nan_to_num(np.abs(self._sides[0] - self._sides[1]))
        found = gap.copy()
        # How far one client's answer is from the mean says something of all who share the variable.
        for alike in self._together:
            widest = alike.sight.along(alike.sight.lengths(gap[alike.entries]))
            np.maximum.at(found, alike.entries, widest)
        origin = sides_of(compiled, np.zeros(self._own.size))
        magnitude = np.nan_to_num(np.abs(self._sides - origin)).max(axis=0)
        resolved = np.full(compiled.size, ROUNDED)
        of_others = REFINED if layer.is_centred else RESOLVED
        for name, known in self._curvatures.items():
            if not (known.is_known and layer.solver(name).is_exact):
                resolved[compiled[name].entries] = of_others
        self._nothing = self._parts.largest(np.where(resolved > ROUNDED, UNFELT, NOTHING))
        found[found <= resolved * magnitude] = 0.0
        # What agrees beside others that do not has their energy.
        asked = self._parts.largest(found) == 0
        if asked.any():
            moved = self._responses(asked)
            found = np.where(moved > resolved * magnitude, moved, found)
        if not found.any():
            told = self._told_by_rows()
            most = self._balanced(magnitude)
            # Where nobody is anywhere but at zero there is no distance either
            found = np.where(told > 0, np.minimum(most, told), most) if most.any() else told
        return np.maximum(found, self._shared_by_all(found, resolved))

    def _balanced(self, most: np.ndarray) -> np.ndarray:
        """How far clients without an answer pull those who have one; at most so far.

        Over short ways a slope changes an objective by more than a minimum does, over longer ones
        by less.
        """
        others = set(self._curvatures) - {*self._compiled.couplings}
        if others <= self._having or not most.any():
            return most
        for share in SHARES:
            changes = {True: 0.0, False: 0.0}
            for name in others:
                sub = self._compiled[name]
                over = sub.sight.lengths(share * most[sub.entries])
                over = np.where(over > 0, over, share * most.max())
                change = float((self._probed(sub, over)[0] * over**2).max())
                changes[name in self._having] = max(changes[name in self._having], change)
            if changes[False] <= changes[True]:
                return most if share == SHARES[0] else share * most
        return most

    def _told_by_rows(self) -> np.ndarray:
        """How long rows of cone programs are where clients are, along edges; else zero."""
        found = np.zeros(self._compiled.size)
        for name in self._curvatures:
            sub, own = self._compiled[name], self._own[self._compiled.columns[name]]
            if sub.form is not None and not np.isnan(own).any():
                along = sub.sight.along(rough_lengths(sub, own))
                np.maximum.at(found, sub.entries, along)
        return found

    def _responses(self, asked: np.ndarray) -> np.ndarray:
        """How far single answers move for a price, along the entries asked for; else 0.

        Not along those of couplings: a bound on a loss hardly moves down, and for ever up.
        """
        found, asked = np.zeros(asked.size), asked.copy()
        for name in self._compiled.couplings:
            asked[self._compiled[name].entries] = False
        for name in self._curvatures:
            sub = self._compiled[name]
            if asked[sub.entries].any() and name in self._having:
                moved = self._moved(sub)
                np.maximum.at(found, sub.entries, sub.sight.along(moved))
        return np.where(asked, found, 0.0)

    def _moved(self, sub: Subproblem) -> np.ndarray:
        """See :func:`response`."""
        if is_remote(sub):
            return ask_site(sub, "respond", "moved")[0]
        return response(sub, self._own[self._compiled.columns[sub.name]])

    def _shared_by_all(self, distances: np.ndarray, resolved: np.ndarray) -> np.ndarray:
        """For entries without any, the largest distance of the quantity on all edges; else 0."""
        compiled = self._compiled
        cells = compiled.stacked.cells
        rows, others = cells.row % compiled.size, compiled.size + cells.col
        count = compiled.size + self._own.size
        links = sp.coo_array((np.ones(rows.size), (rows, others)), shape=(count, count))
        quantity = connected_components(links, directed=False)[1][: compiled.size]
        largest = np.zeros(count)
        np.maximum.at(largest, quantity, distances)
        wide = largest[quantity]
        # What two numerical answers at the end of a flat stretch share is a root of what they leave
        noise = np.where(resolved > ROUNDED, np.maximum(resolved, RESOLVED), resolved)
        return np.where(distances <= noise * wide, wide, 0.0)

    @cached_property
    def _reaches(self) -> np.ndarray:
        """The distances, without those that are noise beside the others of the same variable."""
        most = self._parts.largest(self._distances)
        return np.where(self._distances < NOISE * most, most, self._distances)

    def _lengths(self, alike: Alike) -> np.ndarray:
        """The distances as lengths of clients' variables, shape (k, m).

        What is on no edge has units of its own: it is as long as what bends as much in all.
        """
        found = alike.sight.lengths(self._reaches[alike.entries])
        own = np.nan_to_num(np.abs(self._own[alike.columns]))
        rest = found.max(axis=1, initial=0.0, keepdims=True)
        rest = np.where(rest > 0, rest, own.max(axis=1, initial=0.0, keepdims=True))
        if not (found > 0).all() and alike.subs[0].name in self._curvatures:
            bends = np.stack([self._curvatures[sub.name].diagonal for sub in alike.subs])
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
        own = self._own[self._compiled.columns[sub.name]]
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
        probed = self._probed(sub, lengths)[0]
        return np.where((probed > 0) & (diagonal > SINGULAR * probed), probed, diagonal)

    def _probed(self, sub: Subproblem, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :func:`probed`."""
        if is_remote(sub):
            bend, straight = ask_site(sub, "probe", "bend", "straight", lengths=lengths)
            return bend, straight
        return probed(sub, self._own[self._compiled.columns[sub.name]], lengths)

    def _see_bounds(self, stiffness: np.ndarray, penalty: np.ndarray) -> None:
        """Enter what couplings pay for bounds that no objective sees."""
        for name in self._compiled.couplings:
            sub, own = self._compiled[name], self._own[self._compiled.columns[name]]
            bends, reach = bounds_of_largest(sub, self._curvatures[name].slopes, own, CAUTION)
            found = sub.sight.curvatures(bends)
            is_new = (found > 0) & (stiffness[sub.entries] == 0)
            entries = sub.entries[is_new]
            stiffness[entries] = penalty[entries] = found[is_new]
            self._distances[entries] = (sub.sight.absolute @ reach)[is_new]

    def _filled(self, given: np.ndarray) -> np.ndarray:
        """Entries with next to none take those of their clients' other edges, else others' mean.

        Means are geometric.
        """
        found = given * self._extremes**2
        if not (found > 0).any():
            return self._extremes**-2
        lacking: dict[Hashable, np.ndarray] = {}
        for alike in self._together:
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
        return found / self._extremes**2

    @cached_property
    def _extremes(self) -> np.ndarray:
        """How long entries are where these lengths differ by more than solvers balance.

        That is how far answers are apart, or, where that may be by chance, what rows say, and where
        nobody has one, these alone. Else ones, (Q,): then what is as stiff as others are in the
        user's units has their length.
        """
        rows = np.zeros(self._compiled.size)
        for name in self._curvatures:
            sub, own = self._compiled[name], self._own[self._compiled.columns[name]]
            if sub.form is not None and sub.form.cone.rhs.any():
                rough = rough_lengths(sub, None if np.isnan(own).any() else own)
                np.maximum.at(rows, sub.entries, sub.sight.along(rough))
        most = np.minimum(rows, np.nan_to_num(np.abs(self._sides)).max(axis=0))
        found = np.where(self._reaches > 0, np.maximum(self._reaches, most), rows)
        told = found[found > 0]
        if not told.size or told.max() <= EXTREME * told.min():
            return np.ones(found.size)
        return np.where(found > 0, found, np.exp(np.log(told).mean()))

    def _least(self, stiffness: np.ndarray) -> np.ndarray:
        """The stiffness that makes no length more than ``FREE`` times the distance between answers.

        Where nothing bends between the answers it would be that of rounding errors. Answers that
        are the same but for these bound nothing: a consensus equality without energy has no least.
        """
        energies = stiffness * self._distances**2
        energy = self._parts.largest(energies)
        # Bounds that couplings pay for have no answers apart
        is_bound = (energy > self._nothing * energies.max()) & (self._reaches > 0)
        least = np.zeros(stiffness.size)
        np.divide(energy, (FREE * self._reaches) ** 2, out=least, where=is_bound)
        return least

    def _natural(self, stiffness: np.ndarray) -> np.ndarray:
        """The lengths :math:`X_r`."""
        energies = stiffness * self._distances**2
        most = energies.max(initial=0.0) or 1.0
        energy = self._parts.largest(energies)
        return np.sqrt(np.where(energy > self._nothing * most, energy, most) / stiffness)

    def _of_points(
        self, lengths: np.ndarray, slopes: np.ndarray, bends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of the clients' variables, those on no edge included."""
        long, steep = np.empty(bends.size), np.empty(bends.size)
        for alike in self._together:
            entries, mine = alike.entries, alike.columns
            energy = (lengths * slopes)[entries].max(axis=1, keepdims=True)
            found = alike.sight.lengths(lengths[entries])
            own = np.abs(np.nan_to_num(self._own[mine]))
            bent = np.sqrt(energy / np.where(bends[mine] > 0, bends[mine], np.inf))
            widest = found.max(axis=1, keepdims=True)
            rest = np.where(bent > 0, bent, np.where(own > 0, own, widest))
            long[mine] = np.where(found > 0, found, rest)
            steep[mine] = energy / long[mine]
        return long, steep


def _is_plain(sub: Subproblem) -> bool:
    """Whether curvature says all of a client: no rows carry it, no singularity makes it."""
    return not sub.form.equalities.rhs.size and is_defined_at_zero(sub) if sub.form else False
