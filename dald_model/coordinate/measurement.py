r"""Measurement of the natural units of a problem, see :mod:`dald_model.coordinate.units`."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import response
from dald_model.coordinate.carried import carried
from dald_model.coordinate.curvature import Curvature, is_defined_at_zero, pull
from dald_model.coordinate.largest import bounds_of_largest
from dald_model.coordinate.own_answers import own_answers
from dald_model.coordinate.sides import sides_of
from dald_model.coordinate.sums import alike_in_sums
from dald_model.coordinate.told_answers import ask_site, introduced, is_remote, told_answers
from dald_model.coordinate.units import Units
from dald_model.engines.dispatch import SolverLayer
from dald_model.values import evaluated, is_inside, preserved

RESOLVED, REFINED, ROUNDED = 1e-7, 1e-9, 1e-12
"""Answers that are closer to each other than this, relative to their size, are the same: of solvers
that are not exact, of these where they were asked again around their answers, and of exact ones."""
NOTHING, UNFELT = 1e-18, RESOLVED**2
"""Energies below this share of the largest are rounding errors of answers that are zero; of solvers
that are not exact, what they leave: a coupling that does not bind along an edge still answers a
digit beside its client."""
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
SUDDEN, HALVINGS = 10.0, 40
"""How many times stiffer over the whole of a length than over half of it is a singularity, or an
exponential that nobody will climb; and how often it is halved at most."""
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
PROBED = 64
"""Up to this many variables a client without known curvature is probed one by one."""


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
        self._parts = [
            slice(slot.start + part.start, slot.start + part.stop)
            for edge in compiled.edges
            for slot in [compiled.slots[edge.ends]]
            for part in edge.parts
        ]
        self._distances = self._apart(layer)

    def units(self) -> Units:
        """See the module."""
        compiled, size = self._compiled, self._own.size
        stiffness, kinks, penalty = np.zeros((3, compiled.size))
        ends = np.zeros(compiled.size)
        bends = np.zeros(size)
        for name, known in self._curvatures.items():
            sub = compiled[name]
            lengths = self._lengths(sub)
            kinked = 1.0 if sub.client.is_coupling else KINKED
            if known.is_known:
                curved = self._within(sub, known.diagonal, lengths)
                bend = curved + 2 * known.kinks / np.where(lengths > 0, lengths, np.inf)
                sharp, share = sub.sight.slopes(known.kinks), curved * known.spread
                # A kink at zero keeps variables there; others bend the way between the answers.
                bent = 2 * known.elsewhere / np.where(lengths > 0, lengths, np.inf)
                share = share + kinked * bent
                if self._is_held(sub, known, lengths):
                    share = HELD * share
            else:
                bend, straight = self._probed(sub, lengths)
                sharp = sub.sight.slopes(bend * lengths / 2)
                share = bend * (1 + (kinked - 1) * straight)
            bends[compiled.columns[name]] = bend
            np.maximum.at(stiffness, sub.entries, sub.sight.curvatures(carried(sub, bend)))
            np.maximum.at(kinks, sub.entries, sharp)
            own = sub.sight.curvatures(carried(sub, share))
            penalty[sub.entries] += own
            ends[sub.entries] += own > 0
        penalty /= np.maximum(ends, 1)
        self._see_bounds(stiffness, penalty)
        penalty = self._filled(penalty)
        stiffness = self._filled(stiffness)
        least = self._least(stiffness)
        penalty = np.where(stiffness < least, np.maximum(penalty, least), penalty)
        stiffness = np.maximum(stiffness, least)
        lengths = CAUTION * self._natural(stiffness)
        slopes = stiffness * lengths
        points = self._of_points(lengths, slopes, bends)
        penalty = alike_in_sums(compiled, np.sqrt(penalty / 2))
        return Units(lengths, slopes, kinks, *points, penalty, np.nan_to_num(self._starts))

    def _apart(self, layer: SolverLayer) -> np.ndarray:
        r"""The distances :math:`O_r`; zero where nobody has an answer."""
        compiled = self._compiled
        gap = np.nan_to_num(np.abs(self._sides[0] - self._sides[1]))
        found = gap.copy()
        # How far one client's answer is from the mean says something of all who share the variable.
        for sub in compiled.values():
            widest = sub.sight.lengths(gap[sub.entries])
            np.maximum.at(found, sub.entries, sub.sight.absolute @ widest)
        origin = sides_of(compiled, np.zeros(self._own.size))
        magnitude = np.nan_to_num(np.abs(self._sides - origin)).max(axis=0)
        resolved = np.full(compiled.size, ROUNDED)
        for name, known in self._curvatures.items():
            if not (known.is_known and layer.solver(name).is_exact):
                resolved[compiled[name].entries] = REFINED if layer.is_centred else RESOLVED
        self._nothing = np.where(resolved > ROUNDED, UNFELT, NOTHING)
        found[found <= resolved * magnitude] = 0.0
        # What agrees beside others that do not has their energy.
        asked = np.zeros(compiled.size, dtype=bool)
        for part in self._parts:
            asked[part] = not found[part].any()
        if asked.any():
            moved = self._responses(asked)
            found = np.where(moved > resolved * magnitude, moved, found)
        if not found.any():
            found = magnitude
        return np.maximum(found, self._shared_by_all(found, resolved))

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
                np.maximum.at(found, sub.entries, sub.sight.absolute @ moved)
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
        found = self._distances.copy()
        for part in self._parts:
            mine = found[part]
            mine[mine < NOISE * mine.max()] = mine.max()
        return found

    def _lengths(self, sub: Subproblem) -> np.ndarray:
        """The distances as lengths of a client's variables, shape (m,)."""
        found = sub.sight.lengths(self._reaches[sub.entries])
        own = np.nan_to_num(np.abs(self._own[self._compiled.columns[sub.name]]))
        rest = found.max(initial=0.0) or own.max(initial=0.0) or 1.0
        return np.where(found > 0, found, rest)

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
        found = given.copy()
        if not (found > 0).any():
            return np.ones(found.size)
        for sub in self._compiled.values():
            mine = found[sub.entries]
            near = sub.sight.absolute @ sub.sight.lengths(given[sub.entries])
            found[sub.entries] = np.where(mine > FAINT * near, mine, near)
        rest = found == 0
        found[rest] = np.exp(np.log(found[~rest]).mean())
        return found

    def _least(self, stiffness: np.ndarray) -> np.ndarray:
        """The stiffness that makes no length more than ``FREE`` times the distance between answers.

        Where nothing bends between the answers it would be that of rounding errors. Answers that
        are the same but for these bound nothing: a consensus equality without energy has no least.
        """
        least = np.zeros(stiffness.size)
        energies = stiffness * self._distances**2
        for part in self._parts:
            energy = energies[part].max(initial=0.0)
            if energy > self._nothing[part].max() * energies.max():
                # Bounds that couplings pay for have no answers apart
                reach = FREE * self._reaches[part]
                np.divide(energy, reach**2, out=least[part], where=reach > 0)
        return least

    def _natural(self, stiffness: np.ndarray) -> np.ndarray:
        """The lengths :math:`X_r`."""
        found = np.empty(stiffness.size)
        energies = stiffness * self._distances**2
        most = energies.max(initial=0.0) or 1.0
        for part in self._parts:
            energy = energies[part].max(initial=0.0)
            energy = energy if energy > self._nothing[part].max() * most else most
            found[part] = np.sqrt(energy / stiffness[part])
        return found

    def _of_points(
        self, lengths: np.ndarray, slopes: np.ndarray, bends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of the clients' variables, those on no edge included."""
        long, steep = np.empty(bends.size), np.empty(bends.size)
        for name, sub in self._compiled.items():
            mine = self._compiled.columns[name]
            energy = float((lengths * slopes)[sub.entries].max())
            found = sub.sight.lengths(lengths[sub.entries])
            own = np.abs(np.nan_to_num(self._own[mine]))
            bent = np.sqrt(energy / np.where(bends[mine] > 0, bends[mine], np.inf))
            rest = np.where(bent > 0, bent, np.where(own > 0, own, found.max()))
            long[mine] = np.where(found > 0, found, rest)
            steep[mine] = energy / long[mine]
        return long, steep


def probed(sub: Subproblem, own: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The stiffness of an objective from its values so far from the client's answer, (m,).

    And from those half as far, again and again, where that is far less: :math:`1 / x` is steep
    beyond all measure next to zero, and :math:`e^x` ten lengths away, where the client would
    not go for any price. Gives also how straight
    it is on the way: 1 where half as far is half the rise, 0 where a quarter.
    """
    centre = np.nan_to_num(own)
    steps = np.diag(lengths)
    if sub.size > PROBED:
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(PROBED, sub.size))
        steps = signs * lengths
    with preserved(sub.variables), np.errstate(all="ignore"):
        here = _objectives(sub, centre[None])
        rise = half = _rises(sub, centre, steps, here)
        part = np.ones(len(steps))  # of the whole step, as far as it is gone
        for _ in range(HALVINGS):
            half = 4 / part**2 * _rises(sub, centre, steps * part[:, None] / 2, here)
            sudden = (half > 0) & (rise > SUDDEN * half)
            if not sudden.any():
                break
            rise, part = np.where(sudden, half, rise), np.where(sudden, part / 2, part)
    if sub.size > PROBED:
        rise, half = (np.full(sub.size, one.mean() / sub.size) for one in (rise, half))
    straight = np.divide(half, rise, out=np.ones(rise.size), where=rise > 0) - 1
    return 2 * rise / lengths**2, np.clip(straight, 0.0, 1.0)


def _rises(sub: Subproblem, centre: np.ndarray, steps: np.ndarray, here: np.ndarray) -> np.ndarray:
    """What the objective changes by at most over a step or its opposite; 0 if not known."""
    found = [_objectives(sub, centre + sign * steps) for sign in (1.0, -1.0)]
    change = np.abs(np.array(found) - here)
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
