r"""Local minimisers: what each client would choose by itself, under a weak proximal term.

.. math::
    x_i^{loc} = \arg\min_{x_i \in X_i} f_i(x_i)
        + \tfrac{\varepsilon}{2} \sum_r h_r (s_r(x_i) - \bar s_r)^2, \qquad \varepsilon = 10^{-4},

with :math:`s_r` the sides of the client's edges, h its curvature along them, or the size of its
objective over the lengths that its rows tell, and :math:`\bar s` the sides of a point where its
objective bends, or of zero. One solve of each client by the solver of the run, to a few digits: a
scale is a hint, a wrong one costs rounds and never a verdict. A client for which the proximal term
is worth a share of what it gains is unbounded by itself: it has no local minimiser and is where its
neighbours are; and so is one that stays where it is held and would be as well off nearer to these.
Where the minimisers are far from zero beside how far they are apart, all are asked once more around
the mean of their neighbours' minimisers, so that the origin does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.objectives import objectives
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.curvature import (
    Curvature,
    curvature,
    curvatures,
    is_bent,
    is_defined_at_zero,
    middle,
)
from dald_model.coordinate.scaling.edge_values import (
    Alike,
    is_far,
    move_to,
    place_missing,
    sides_of,
    together,
)
from dald_model.coordinate.scaling.rows import SeenRows, told_by_rows
from dald_model.coordinate.scaling.site_curvature import moderated, secants
from dald_model.declare.remote import RemoteClient
from dald_model.engines.batches import Batch
from dald_model.engines.dispatch import SolverLayer
from dald_model.sizes import ORDER
from dald_model.solvers.base import FOUND, Turn

PROXIMAL = 1e-4
"""Weight of the proximal term beside a curvature of one: it moves a minimiser by a ten-thousandth
of its distance, and decides only along what the client hardly knows."""
BIAS = 10 * PROXIMAL
"""Distances below this share of the way from where clients were held to their minimisers are what
the proximal term keeps back, more at a client with more edges."""
ACCURACY = 1e-8
"""Relative accuracy of the solves: scales need 10 %, and distances down to 1e-4 lengths count."""
SOLVED_TO = 1e-4
"""Moves below this share of a client's lengths are what a solve to ``ACCURACY`` leaves of zero:
beside a curvature that is 1e-4 of the largest it has the root of that."""
SETTLED_WAY = 0.1
"""Share of its way by which a minimiser may move when hardly held, where its fall is not known as
the objective has no value where it was held."""
UNBOUNDED = 0.02
"""Share of the fall of a client's objective that the proximal term is worth where nothing else ends
the fall: one half of a linear objective, a tenth of a logarithm, ``PROXIMAL`` of a quadratic."""
OUTLYING = 3.0
"""Minimisers that many times farther from where clients were held than from each other."""
RECENTRED_MOST = 2
"""How often they are asked around each other at most, the second time where what the proximal term
keeps back, ``PROXIMAL`` of the way, is as large as how far they are apart: 1e-12 of it then."""
SITE_REMAINDER, SITE_GAIN, SITE_TRIES = 0.5, 0.1, 12
"""Share of the way to others that a site's answer there may leave. Where it leaves more it is held
ten times stiffer, as long as that gains a tenth of what is left, and so often at most."""
DIGITS_LOST = 100.0
"""The same beside zero from which on numbers lose digits to what they have in common."""
FLATTER = 0.5
"""A client that is curved at its minimiser by less than this share of where it bends starts at the
minimum of its quadratic model. (Logistic clients that are each separable, 20 and 50 of them, took
45 rounds from their minimisers and 15 from there.)"""


class LocalMinimiser(NamedTuple):
    """Of one client, with its curvature; the point (m,) is NaN where it has none."""

    point: np.ndarray
    curvature: Curvature


class LocalMinimisers(NamedTuple):
    """Of all clients.

    Attributes
    ----------
    points : ndarray
        All variables one after the other. Servers and clients without a minimiser are at the mean
        of their neighbours; NaN where nobody says anything.
    curvatures : dict
        Client -> its curvature; servers have none.
    starts : ndarray
        Where a run begins.
    base : ndarray
        Where the clients were held last.
    lengths : ndarray
        The lengths of the last solves; zero for servers and sites.
    ways : ndarray
        Those of the first solves.
    """

    points: np.ndarray
    curvatures: dict[Hashable, Curvature]
    starts: np.ndarray
    base: np.ndarray
    lengths: np.ndarray
    ways: np.ndarray


class LocalSearch:
    """Solves of each client by itself; ``layer`` is left with numbers around the minimisers."""

    def __init__(self, compiled: Decomposition, layer: SolverLayer) -> None:
        self._compiled, self._layer = compiled, layer
        self._subs = {n: sub for n, sub in compiled.items() if not sub.client.is_server}
        self._remote = {
            n: s.client for n, s in self._subs.items() if isinstance(s.client, RemoteClient)
        }
        self._told: dict[Hashable, np.ndarray] = {}
        self._here = [name for name in self._subs if name not in self._remote]
        self._here.sort(key=lambda name: compiled.places[name])
        size = sum(sub.size for sub in compiled.values())
        self._points, self._starts = np.full((2, size), np.nan)
        self._base = np.zeros(size)
        self._lengths, self._slopes = np.ones((2, size))
        self._noise = np.zeros(size)  # of where clients are held
        self._penalties = np.zeros((2, compiled.size))
        subs = [self._subs[name] for name in self._here]
        points = [middle(sub) for sub in subs]
        for name, point in zip(self._here, points, strict=True):
            self._base[compiled.columns[name]] = point
        for name in compiled.averages:
            self._base[compiled.columns[name]] = np.nan
        place_missing(compiled, self._base)
        bent = [point if point.any() else None for point in points]
        found = curvatures(subs, bent)
        self._curvatures = dict(zip(self._here, found, strict=True))
        for name in self._remote:
            self._curvatures[name] = Curvature.secant(*np.zeros((2, self._subs[name].size)))
        self._by_rows: list[Subproblem] = []
        for alike in together(compiled):
            if alike.subs[0].name in self._curvatures:
                self._regularise(alike)
        self._regularise_by_rows()
        self._ways = self._lengths.copy()

    def of_all(self) -> LocalMinimisers:
        """See the module."""
        compiled, points = self._compiled, self._points
        couplings = [name for name in self._here if self._subs[name].client.is_coupling]
        self.ask_each(couplings)
        unbounded = {n for n in self._subs if np.isnan(points[compiled.columns[n]]).any()}
        unbounded -= set(couplings)
        place_missing(compiled, points)
        idle = self._idle(unbounded.union(couplings))
        missing = np.isnan(points)
        for name in (*unbounded, *idle, *compiled.averages):
            missing[compiled.columns[name]] = True
        points[missing] = np.nan
        place_missing(compiled, points)
        misplaced: set[Hashable] | None = None
        for _ in range(RECENTRED_MOST):
            sides, held = sides_of(compiled, points), sides_of(compiled, self._base)
            far = is_far(sides, held, OUTLYING)
            if misplaced is None:
                misplaced = {n for n, sub in self._subs.items() if far[sub.entries].all()}
            elif _is_resolved(sides, held):
                break
            if not far.any():
                break
            self._ask_around(np.where(np.isnan(sides), sides[::-1], sides), misplaced)
            points[missing] = np.nan
            place_missing(compiled, points)
        misplaced = misplaced or set()
        self._bend_halfway(misplaced | unbounded)
        for name in unbounded - self._remote.keys():
            if not is_defined_at_zero(self._subs[name]):
                # A logarithm bends less the farther it is from zero: only lengths tell how much
                self._curvatures[name] = replace(self._curvatures[name], is_known=False)
        self._take_secants()
        starts = points.copy()
        for name in self._subs.keys() - misplaced - unbounded:
            part = compiled.columns[name]
            if not np.isnan(self._starts[part]).any():
                starts[part] = self._starts[part]
        for name in compiled.averages:
            starts[compiled.columns[name]] = np.nan
        place_missing(compiled, starts)
        is_here = np.zeros(points.size)
        for name in self._here:
            is_here[compiled.columns[name]] = 1.0
        lengths, ways = is_here * self._lengths, is_here * self._ways
        starts = np.nan_to_num(starts)
        return LocalMinimisers(points, self._curvatures, starts, self._base, lengths, ways)

    def _idle(self, but: set[Hashable]) -> list[Hashable]:
        """The clients that stay where they are held, and would be as well off nearer to others.

        Where they are held says nothing of where they want to be.
        """
        compiled, points = self._compiled, self._points
        still = [
            name
            for name in self._here
            if name not in but
            and np.array_equal(points[compiled.columns[name]], self._base[compiled.columns[name]])
        ]
        others = points.copy()
        for name in (*still, *compiled.averages):
            others[compiled.columns[name]] = np.nan
        place_missing(compiled, others)
        others = np.where(np.isnan(others), points, others)
        still = [n for n in still if (others != points)[compiled.columns[n]].any()]
        parts = [compiled.columns[name] for name in still]
        at = [np.array([points[part], (points[part] + others[part]) / 2]) for part in parts]
        values = objectives([self._subs[name] for name in still], at)
        errors = [ACCURACY * (self._lengths[p] * self._slopes[p]).max() for p in parts]
        told = zip(still, values, errors, strict=True)
        return [name for name, (here, nearer), error in told if nearer <= here + error]

    def of(self, name: Hashable) -> LocalMinimiser:
        """The local minimiser of one client."""
        point = self._points[self._compiled.columns[name]].copy()
        return LocalMinimiser(point, self._curvatures[name])

    def ask_each(self, but: list[Hashable]) -> None:
        """Solve for each client by itself, and once more with far less of the proximal term.

        That is only for clients that seem unbounded: lengths may have been taken too short.
        """
        waiting = {name: client.question("alone") for name, client in self._remote.items()}
        self._take({name: wait()["point"] for name, wait in waiting.items()})
        asked = [name for name in self._here if name not in set(but)]
        held = sides_of(self._compiled, self._base)
        before = self._points
        for weight in (1.0, PROXIMAL):
            before = self._points.copy()
            for batch in self._layer.batches(asked):
                self._ask(batch, batch.ends.own(held), np.sqrt(weight))
            asked = self._unbounded(asked, weight, before)
        for name in asked:
            self._points[self._compiled.columns[name]] = np.nan
        self._start_nearer([name for name in self._here if is_bent(self._subs[name])])

    def ask_at(
        self, name: Hashable, columns: np.ndarray, told: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """The point of one client held at ``told``, some of its columns, and how strongly.

        That is the multiple of these weights by which it goes at least halfway from its minimiser;
        NaN where there is no point nearer.
        """
        part = self._compiled.columns[name]
        own = self._points[part].copy()
        stiff = (self._slopes / self._lengths)[part][columns]
        held = float((stiff / np.where(weights > 0, weights, np.inf)).max())
        penalties = self._penalties.copy()
        way = np.sqrt(weights) @ np.abs(told - own[columns])
        left, found, factor = np.inf, own, np.nan
        for _ in range(SITE_TRIES):
            self.hold(name, columns, told, held * weights)
            point, before = self._points[part].copy(), left
            left = float(np.sqrt(weights) @ np.abs(told - point[columns]))
            if not left < (1 - SITE_GAIN) * before:  # there is no point of it nearer
                break
            found, factor = point, held
            if left <= SITE_REMAINDER * way:
                break
            held = held * ORDER
        self._points[part], self._penalties = own, penalties
        return found, factor

    def hold(
        self,
        name: Hashable,
        columns: np.ndarray,
        told: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Solve for one client held at ``told`` in its columns, weakly or by these weights.

        One without a minimiser has none wherever it is held weakly. Where it is far from zero
        beside how far it is from there, the layer has its numbers around it from then on.
        """
        sub = self._subs[name]
        if weights is None and np.isnan(self._points[self._compiled.columns[name]]).any():
            return
        whole, held = np.zeros((2, sub.size))
        whole[columns] = told
        if weights is None:
            self._hold_at_points()
        else:
            held[columns] = weights
            self._penalties[sub.rows, sub.entries] = np.sqrt(abs(sub.sides[0]) @ held)
        for batch in self._layer.batches((name,)):
            self._ask(batch, sub.sides[0] @ whole + sub.sides[1], 1.0)
        own = self._points[self._compiled.columns[name]][columns]
        if weights is None and (np.abs(own) > (1 + DIGITS_LOST) * np.abs(own - told)).any():
            self._layer.centre(self._points)

    def _hold_at_points(self, apart: np.ndarray | None = None) -> None:
        """Take the minimisers, as far as there are any, for where clients are held.

        The ends of edges are that far ``apart`` there, (Q,).
        """
        self._base = np.where(np.isnan(self._points), self._base, self._points)
        self._noise = SOLVED_TO * self._lengths
        self._regularise_by_rows(apart)

    def _ask_around(self, centre: np.ndarray, misplaced: set[Hashable]) -> None:
        """Hold everybody at the other ends of their edges, numbers taken around the minimisers."""
        waiting: dict[Hashable, Callable[[], dict[str, np.ndarray]]] = {}
        for name, client in self._remote.items():
            there = self._there(name, centre)
            if there is not None:
                waiting[name] = client.question("hold", told=there)
        self._take({name: wait()["point"] for name, wait in waiting.items()})
        apart = np.nan_to_num(np.abs(centre[0] - centre[1]))
        self._hold_at_points(apart)
        for alike in together(self._compiled):
            if alike.subs[0].name in self._curvatures:
                self._measure(alike, alike.sight.lengths(apart[alike.entries]))
        zero = sides_of(self._compiled, np.zeros(self._points.size))
        beside = is_far(sides_of(self._compiled, self._points), zero, DIGITS_LOST)
        if not self._remote and beside.any():
            self._layer.centre(self._points)
        for batch in self._layer.batches(self._here):
            self._ask(batch, np.nan_to_num(batch.ends.other(centre)), 1.0)

    def _there(self, name: Hashable, sides: np.ndarray) -> np.ndarray | None:
        """Where the other ends of a client's edges are, as a point of it; None if nobody knows."""
        sub = self._compiled[name]
        own = np.nan_to_num(self._points[self._compiled.columns[name]])
        return move_to(sub, own, sides[1 - sub.rows, sub.entries])

    def _take(self, minimisers: dict[Hashable, np.ndarray]) -> None:
        """Have the minimisers that sites told, of which none decides a scale."""
        self._told |= minimisers
        for name, point in moderated(self._compiled, self._told).items():
            self._points[self._compiled.columns[name]] = point

    def _take_secants(self) -> None:
        """Curvatures of sites, from answers."""
        sides = sides_of(self._compiled, self._points)
        ways = {name: self._there(name, sides) for name in self._remote}
        there = {name: point for name, point in ways.items() if point is not None}
        own = {name: self._points[self._compiled.columns[name]] for name in there}
        if there:
            self._curvatures |= secants(self._compiled, own, there, self._told)

    def _ask(self, batch: Batch, told: np.ndarray, share: float) -> None:
        """Minimise clients held at ``told``, in the order of the batch's ends."""
        mine, base = batch.columns, self._base[batch.columns]
        found = self._points[mine]
        turn = Turn(
            batch.which,
            np.zeros(told.size),
            share * batch.ends.own(self._penalties),
            told,
            np.where(np.isnan(found), base, found),
            self._lengths[mine],
            self._slopes[mine],
        )
        with np.errstate(all="ignore"):  # whoever is unbounded may go beyond doubles
            answers = self._layer.first_answer(batch, turn, ACCURACY)
        points, least = answers.points, SOLVED_TO * turn.lengths
        is_exact = self._layer.solver(batch.names[0]).is_exact
        if not is_exact:
            points = np.where(np.abs(points) <= least, 0.0, points)
            points = np.where(np.abs(answers.points - base) <= least, base, points)
        if not set(answers.statuses) <= set(FOUND):
            sizes = [self._subs[name].size for name in batch.names]
            is_found = np.repeat([one in FOUND for one in answers.statuses], sizes)
            points = np.where(is_found, points, np.nan)
        self._points[mine] = points

    def _unbounded(self, names: list[Hashable], share: float, before: np.ndarray) -> list[Hashable]:
        """The clients whose fall the proximal term ended, and those that were not solved.

        Where the fall is not known they are those that moved from where they were ``before``. One
        of a rounding error, to ``ACCURACY`` of the energy, is none.
        """
        if not names:
            return []
        subs, parts = [self._subs[n] for n in names], [self._compiled.columns[n] for n in names]
        at = [np.array([self._points[part], self._base[part]]) for part in parts]
        here, base = objectives(subs, at).T
        with np.errstate(all="ignore"):
            apart = sides_of(self._compiled, self._points) - sides_of(self._compiled, self._base)
            energy = share * np.nan_to_num(self._penalties * apart, nan=np.inf) ** 2
            worth = np.array([energy[sub.rows, sub.entries].sum() for sub in subs])
            moved, way = np.abs(self._points - before), np.abs(self._points - self._base)
            stays = [(moved[p].max() <= SETTLED_WAY * way[p].max()) for p in parts]
            errors = [ACCURACY * (self._lengths[p] * self._slopes[p]).max() for p in parts]
            ended = (base - here > errors) & (worth > UNBOUNDED * (base - here))
            ended |= ~np.isfinite(base - here) & ~np.array(stays, dtype=bool)
        ended |= ~np.isfinite(worth)
        return [name for name, is_ended in zip(names, ended, strict=True) if is_ended]

    def _start_nearer(self, names: list[Hashable]) -> None:
        """Note the starts of clients that are far flatter at their minimiser, see ``FLATTER``."""
        parts = [self._compiled.columns[name] for name in names]
        points = [np.nan_to_num(self._points[part]) for part in parts]
        there = curvatures([self._subs[name] for name in names], points)
        for name, part, point, ended in zip(names, parts, points, there, strict=True):
            known, base = self._curvatures[name], self._base[part]
            live = known.diagonal > 0
            if not (live.any() and is_defined_at_zero(self._subs[name])):
                continue
            ratios = np.maximum(ended.diagonal[live], np.finfo(float).tiny) / known.diagonal[live]
            moved = known.diagonal @ (point - base) ** 2
            is_nearer = known.diagonal @ (known.answer - base) ** 2 < moved
            if np.log(ratios).mean() < np.log(FLATTER) and is_nearer:
                self._starts[part] = known.answer

    def _bend_halfway(self, names: set[Hashable]) -> None:
        """Take curvatures halfway to the neighbours, where the base says nothing of them."""
        sides = sides_of(self._compiled, self._points)
        for name in names - self._remote.keys():
            sub = self._subs[name]
            if not is_bent(sub):
                continue
            own = self._points[self._compiled.columns[name]]
            there = move_to(sub, own, sides[1 - sub.rows, sub.entries])
            self._curvatures[name] = curvature(sub, own if there is None else (own + there) / 2)

    def _regularise(self, alike: Alike) -> None:
        """The proximal terms of clients that are alike, by their way to the minimum of a model."""
        answers = np.array([self._curvatures[sub.name].answer for sub in alike.subs])
        is_told = self._measure(alike, np.abs(answers - self._base[alike.columns]))
        rows = np.array([sub.rows for sub in alike.subs]), alike.entries
        stiff = self._slopes[alike.columns] / self._lengths[alike.columns]
        self._penalties[rows] = np.sqrt(PROXIMAL / 2 * alike.sight.curvatures(stiff))
        self._by_rows += [sub for sub, told in zip(alike.subs, is_told, strict=True) if not told]

    def _measure(self, alike: Alike, far: np.ndarray) -> np.ndarray:
        r"""Take the lengths :math:`\sqrt{E / h}` of clients that go so ``far``, (k, m).

        E is the largest :math:`h_k L_k^2` with L how far. Of a variable without a curvature rows
        tell, beside the others; one in no row is as long as the longest. Gives of which clients
        there is an E; of others rows and costs tell everything.
        """
        bends = np.array([self._curvatures[sub.name].diagonal for sub in alike.subs])
        energy = (bends * far**2).max(axis=1, keepdims=True)
        own = np.sqrt(energy / np.where(bends > 0, bends, np.inf))
        lengths = np.where(bends > 0, own, own.max(axis=1, keepdims=True))
        is_told = energy[:, 0] > 0
        for i in np.flatnonzero(is_told & ~bends.all(axis=1)):
            sub = alike.subs[i]
            if sub.form is not None and sub.is_constrained:
                mine = alike.columns[i]
                rows = SeenRows.around(sub.form, self._base[mine], self._noise[mine])
                asked = rows.stands[: sub.size] & (bends[i] == 0)
                lengths[i] = rows.lengths(np.where(asked, np.nan, lengths[i]))[: sub.size]
        mine, lengths = alike.columns[is_told], lengths[is_told]
        self._lengths[mine], self._slopes[mine] = lengths, energy[is_told] / lengths
        return is_told

    def _regularise_by_rows(self, apart: np.ndarray | None = None) -> None:
        """The same of clients without any curvature, from where they are held now.

        One that all rows hold there goes as far as others are ``apart``, or as it is not known.
        """
        for sub in self._by_rows:
            part = self._compiled.columns[sub.name]
            bends, noise = self._curvatures[sub.name].diagonal, self._noise[part]
            reach = 0.0
            if apart is not None:
                reach = max(sub.sight.lengths(apart[sub.entries]).max(), noise.max())
            energy, lengths = told_by_rows(sub, bends, self._base[part], noise, reach)
            weights = PROXIMAL / 2 * sub.sight.curvatures(energy / lengths**2)
            self._penalties[sub.rows, sub.entries] = np.sqrt(weights)
            self._lengths[part], self._slopes[part] = lengths, energy / lengths


def _is_resolved(sides: np.ndarray, held: np.ndarray) -> bool:
    """Whether minimisers are farther apart than the proximal term moved them."""
    apart, moved = np.abs(sides[0] - sides[1]), np.abs(sides - held)
    return bool(np.nanmax(apart, initial=0.0) > BIAS * np.nanmax(moved, initial=0.0))
