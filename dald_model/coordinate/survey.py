"""The survey that asks every client what it would answer if it were alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.alone import (
    answer_alone,
    answer_around,
    answers_alone,
)
from dald_model.coordinate.curvature import (
    curvature,
    curvatures,
    is_bent,
    is_defined_at_zero,
    middle,
)
from dald_model.coordinate.doubts import DEAR, doubts
from dald_model.coordinate.hold import hold, lengths_and_slopes
from dald_model.coordinate.many_answers import answer_near_others, told_without
from dald_model.coordinate.own_answers import OwnAnswer, OwnAnswers
from dald_model.coordinate.sides import (
    FAR,
    held_sides,
    hold_nearer,
    is_far,
    moved_to,
    place,
    sides_of,
)
from dald_model.engines.batches import Batch
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers.base import FOUND, Turn

ACCURACY = 1e-9
"""Relative accuracy that is asked of these answers, if they are numerical."""
NOISE, ROUNDED = 1e-6, 1e-13
"""Answers below this many lengths are zero: numerical ones, as solvers leave the root of what they
are asked for at the apex of a cone, and exact ones."""
DRAGGED = 0.1
"""Who moves again by this share of the first move, held where it answered, is kept by the hold."""
ALIKE = 1e4
"""Factor between the curvatures at two points from which on one says nothing of the other."""
OUTLYING = 100.0
"""From here on numbers lose digits to what they have in common, so they are taken around the
answers."""


def own_answers(compiled: Decomposition, layer: SolverLayer) -> OwnAnswers:
    r"""The clients' own answers, and the curvatures there.

    .. math:: x_i^{own} = \arg\min_{x_i \in X_i} f_i(x_i) + \text{a weak hold}

    A client that has some curvature and is known by it is held with 1e-4 of it, first where its
    objective bends (:func:`dald_model.coordinate.curvature.middle`), or at zero; where the answers
    are then far from there beside how far they are apart, once more at the mean of its neighbours'
    answers and with the curvature halfway to it, so that the origin of a variable does not matter.
    Any other, and who is curved so much less at its answer that the hold is all that it felt, is
    solved as a cone program, without a hold; but a coupling, which has no data, is always held,
    and where its clients' answers are.
    Servers, and clients that are unbounded alone, answer with the mean of their neighbours' answers
    where that says enough, else with NaN.

    ``layer`` is left with its numbers around the answers where these are far from zero.
    """
    return Survey(compiled, layer).answers()


class Survey:
    """The clients' answers so far; of one that is ``alone`` nothing is compared with others'."""

    def __init__(self, compiled: Decomposition, layer: SolverLayer, *, alone: bool = False) -> None:
        self._compiled, self._layer = compiled, layer
        self._subs = {n: sub for n, sub in compiled.items() if not sub.client.is_server}
        self._found = np.full(sum(sub.size for sub in compiled.values()), np.nan)
        self._base = np.zeros(self._found.size)
        points = [middle(sub) for sub in self._subs.values()]
        for name, point in zip(self._subs, points, strict=True):
            self._base[compiled.columns[name]] = point
        bent = [point if point.any() else None for point in points]
        found = curvatures(list(self._subs.values()), bent)
        self._curvatures = dict(zip(self._subs, found, strict=True))
        self._bent = {name for name, sub in self._subs.items() if is_bent(sub)}
        # How they are held: penalties of sides, lengths and slopes of variables, once it is asked
        self._penalties = np.zeros((2, compiled.size))
        self._lengths, self._slopes = np.ones((2, self._found.size))
        self._unheld = set(self._subs)
        if not alone:
            self._leave_zero()
        held = [name for name in self._subs if self._is_held(name)]
        held.sort(key=lambda name: compiled.places[name])
        self._endless: set[Hashable] = set()
        self._dragged: set[Hashable] = set()
        self._misplaced: set[Hashable] = set()
        self._many: tuple[Hashable, ...] = ()
        self._nearer: dict[Hashable, np.ndarray] = {}
        self._held = tuple(name for name in held if not self._subs[name].client.is_coupling)
        self._couplings = tuple(name for name in held if self._subs[name].client.is_coupling)

    def answers(self) -> OwnAnswers:
        """See :func:`own_answers`."""
        compiled, found = self._compiled, self._found
        origin = self._ask_each()
        self._leave_endless()
        held = {*self._held, *self._couplings}
        others = [name for name in self._subs if name not in held]
        answer_near_others(compiled, self._subs, found, others)
        self._ask_couplings(origin)
        missing = np.isnan(found)
        place(compiled, found)
        zero = sides_of(compiled, np.zeros(found.size))
        if is_far(sides_of(compiled, found), zero, OUTLYING).any():
            self._centre(missing)
        having = frozenset(n for n, part in compiled.columns.items() if not missing[part].any())
        held_at = held_sides(compiled, self._base, found)
        is_moved = self._ask_many_nearer(held_at, missing)
        self._misplaced |= self._far_all_around(held_at)
        hold_nearer(compiled, found, origin, held_at, missing, self._ask_at)
        if is_moved:  # their neighbours have been moved as well
            self._ask_many_nearer(held_at, missing)
        self._go_halfway()
        return OwnAnswers(found, having, self._curvatures, self._starts(missing))

    def begin(self, name: Hashable) -> OwnAnswer:
        """What one client answers by itself, whatever the others do."""
        self._ask_each()
        return self._of(name)

    def held(
        self, name: Hashable, told: np.ndarray, *, is_misplaced: bool, is_last: bool
    ) -> OwnAnswer:
        """The same held at ``told``, (q,), where the other ends of its edges are.

        Where it is misplaced, with its curvature halfway to there; the last time with that alone.
        """
        if is_misplaced:
            self._misplaced.add(name)
            for other in self._subs[name].neighbours:
                self._found[self._compiled.columns[other]] = told
            self._go_halfway()
        if name in self._held and not is_last:
            for batch in self._layer.batches((name,)):
                self._ask(batch, told)
        return self._of(name)

    def _of(self, name: Hashable) -> OwnAnswer:
        sub, nearer = self._subs[name], self._nearer.get(name)
        part = self._compiled.columns[name]
        is_endless = name in self._endless and not is_defined_at_zero(sub)
        return OwnAnswer(
            self._base[part],
            self._found[part].copy(),
            np.full(sub.size, np.nan) if nearer is None else nearer,
            self._curvatures[name],
            is_endless or name in self._dragged,
        )

    def _ask_each(self) -> np.ndarray:
        """Let each answer by itself; gives the sides where they are held."""
        compiled, held = self._compiled, {*self._held, *self._couplings}
        asked = {name: sub for name, sub in self._subs.items() if name not in held}
        for name, answer in zip(asked, answers_alone(asked.values()), strict=True):
            self._found[compiled.columns[name]] = answer
        origin = sides_of(compiled, self._base)
        self._centre_base()
        for batch in self._layer.batches(self._held):
            self._ask(batch, batch.ends.own(origin))
        self._doubt_holds()
        return origin

    def _starts(self, missing: np.ndarray) -> np.ndarray:
        """See :class:`OwnAnswers`."""
        starts, nearer = self._found.copy(), set(self._nearer) - self._misplaced
        if not nearer:
            return starts
        starts[missing] = np.nan
        for name in nearer:
            starts[self._compiled.columns[name]] = self._nearer[name]
        place(self._compiled, starts)
        return starts

    def _ask_couplings(self, origin: np.ndarray) -> None:
        """Hold couplings where their clients' answers are: they have no data to say where."""
        if not self._couplings:
            return
        known = self._found.copy()
        place(self._compiled, known)
        sides = sides_of(self._compiled, known)
        for batch in self._layer.batches(self._couplings):
            part = batch.columns
            self._base[part] = np.where(np.isnan(known[part]), self._base[part], known[part])
            self._ask(batch, batch.ends.other(np.where(np.isnan(sides), origin, sides)))

    def _leave_zero(self) -> None:
        """Hold quadratics first at their minima where these are near each other, far from zero."""
        guess = np.full(self._found.size, np.nan)
        for name, sub in self._subs.items():
            part, known = self._compiled.columns[name], self._curvatures[name]
            if not sub.client.is_coupling:
                guess[part] = self._base[part] if name in self._bent else known.answer
        place(self._compiled, guess)
        zero = sides_of(self._compiled, np.zeros(guess.size))
        for name in self._far_all_around(zero, guess):
            if self._curvatures[name].diagonal.any():
                part = self._compiled.columns[name]
                self._base[part] = guess[part]

    def _far_all_around(self, origin: np.ndarray, at: np.ndarray | None = None) -> set[Hashable]:
        """Whose sides, at answers or other points, are all far from these others, (2, Q)."""
        sides = sides_of(self._compiled, self._found if at is None else at)
        is_near = ~is_far(sides, origin, OUTLYING)
        owner, names = self._compiled.stacked.owner, list(self._compiled)
        near = np.bincount(owner, np.tile(is_near, 2), len(names))
        return {names[at] for at in np.flatnonzero(near == 0)} & self._subs.keys()

    def _centre_base(self) -> None:
        """Take numbers around where clients bend, if that is far from zero beside their lengths."""
        for name in self._held:
            part = self._compiled.columns[name]
            base = self._base[part]
            if name not in self._bent or not base.any():
                continue
            lengths = lengths_and_slopes([self._curvatures[name]], base[None])[0][0]
            if (np.abs(base) > OUTLYING * lengths).any():
                self._layer.centre(self._base)
                return

    def _leave_endless(self) -> None:
        """Take the answers of clients that would go on for ever, if others have one.

        Not of those that are curved where the others are as they are at zero: how far the hold lets
        them go says something of them. A logarithm says it of the point inside that stands for
        zero, and its hold is that point's.
        """
        found = self._found.copy()
        for name in self._endless | self._dragged:
            found[self._compiled.columns[name]] = np.nan
        place(self._compiled, found)
        for name in self._endless | self._dragged:
            part = self._compiled.columns[name]
            if np.isnan(found[part]).any():
                continue
            there, zero = curvature(self._subs[name], found[part]), self._curvatures[name]
            live = zero.diagonal > 0
            ratio = there.diagonal[live] / zero.diagonal[live]
            # In each of its variables: one that is at the edge of its domain is curved without end.
            is_inside = not is_defined_at_zero(self._subs[name])
            is_alike = ((ratio >= 1 / ALIKE) & (ratio <= ALIKE)).any()
            if name in self._dragged or is_inside or not is_alike:
                self._found[part] = np.nan
                self._misplaced.add(name)

    def _ask_many_nearer(self, held_at: np.ndarray, missing: np.ndarray) -> bool:
        """Let quadratics with many answers give one near their neighbours', if those are far away.

        Along what they are flat along a hold at zero says where, and how far from others that is.
        Only who has one answer says more, not those ``missing``. Gives whether there are any.
        """
        if not self._many:
            return False
        compiled, subs, before = self._compiled, self._subs, self._found.copy()
        known = np.where(missing, np.nan, before)
        sides = sides_of(compiled, told_without(compiled, known, self._many))
        names = [
            name
            for name in self._many
            if np.isfinite(sides[1 - subs[name].rows, subs[name].entries]).all()
        ]
        for batch in self._layer.batches(tuple(names)):
            self._ask(batch, batch.ends.other(sides))
        self._place_servers()
        far = is_far(sides_of(compiled, self._found), held_at, FAR)
        is_moved = False
        for name in names:
            part = compiled.columns[name]
            if np.isnan(self._found[part]).any() or not far[subs[name].entries].all():
                self._found[part] = before[part]
            else:
                is_moved = True
        self._place_servers()
        return is_moved

    def _place_servers(self) -> None:
        """Put servers where their neighbours' answers are by now."""
        for name in self._compiled.averages:
            self._found[self._compiled.columns[name]] = np.nan
        place(self._compiled, self._found)

    def _ask_at(self, centre: np.ndarray) -> None:
        """Let all who are held answer from where others' sides are."""
        self._go_halfway()
        for batch in self._layer.batches((*self._held, *self._couplings)):
            self._ask(batch, batch.ends.other(centre))

    def _go_halfway(self) -> None:
        """Take curvatures that zero says nothing of halfway to the neighbours' answers."""
        sides = sides_of(self._compiled, self._found)
        for name in self._misplaced:
            sub = self._subs[name]
            if name in self._bent:
                own = self._found[self._compiled.columns[name]]
                there = moved_to(sub, own, sides[1 - sub.rows, sub.entries])
                self._curvatures[name] = curvature(sub, own if there is None else (own + there) / 2)
                self._unheld.add(name)

    def _is_held(self, name: Hashable) -> bool:
        known, sub = self._curvatures[name], self._subs[name]
        if sub.client.is_coupling:
            return True
        return bool(known.diagonal.any()) and (known.is_known or sub.size > DEAR)

    def _doubt_holds(self) -> None:
        """Ask without a hold whom it has kept, and note who would go on for ever without it."""
        parts = [self._compiled.columns[name] for name in self._held]
        doubted = doubts(
            [self._subs[name] for name in self._held],
            [self._curvatures[name] for name in self._held],
            [self._found[part] for part in parts],
            [self._base[part] for part in parts],
        )
        for name, alone in doubted.alone.items():
            self._found[self._compiled.columns[name]] = alone
            self._misplaced.add(name)
        self._nearer |= doubted.nearer
        self._dragged |= doubted.dragged
        self._endless |= doubted.endless
        self._many = doubted.many
        self._doubt_flat(doubted.flat)

    def _doubt_flat(self, names: tuple[Hashable, ...]) -> None:
        """Ask without a hold whom it keeps where it is along what a quadratic is flat along.

        Who is held where it has answered stays there, unless the hold is what kept it.
        """
        before = self._found.copy()
        sides = sides_of(self._compiled, before)
        for batch in self._layer.batches(names):
            self._ask(batch, batch.ends.own(sides))
        for name in names:
            part = self._compiled.columns[name]
            root = np.sqrt(self._curvatures[name].diagonal)
            first = root * np.abs(before[part] - self._base[part])
            again = root * np.abs(self._found[part] - before[part])
            self._found[part] = before[part]
            if again.max() > DRAGGED * first.max():
                alone = answer_alone(self._subs[name])
                if np.isnan(alone).any():
                    self._dragged.add(name)
                else:
                    self._found[part] = alone

    def _centre(self, missing: np.ndarray) -> None:
        """Take numbers around the answers, and ask cone programs again there.

        Whoever has none seen from its answer had but met the end of a solver's patience, and is
        asked from where its neighbours are, as is who had none before.
        """
        found = self._found
        self._layer.centre(found)
        held = {*self._held, *self._couplings}
        asked = [n for n, sub in self._subs.items() if n not in held and sub.form is not None]
        for name in asked:
            part = self._compiled.columns[name]
            if not missing[part].any():
                found[part] = answer_around(self._subs[name], found[part])
        missing |= np.isnan(found)
        place(self._compiled, found)
        for name in asked:
            part = self._compiled.columns[name]
            if missing[part].any() and not np.isnan(found[part]).any():
                own = answer_around(self._subs[name], found[part])
                if not np.isnan(own).any():
                    found[part], missing[part] = own, False

    def _ask(self, batch: Batch, told: np.ndarray) -> None:
        """Let clients answer that are held at ``told``, in the order of the batch's ends."""
        self._hold([name for name in batch.names if name in self._unheld])
        found = self._found[batch.columns]
        turn = Turn(
            batch.which,
            np.zeros(told.size),
            batch.ends.own(self._penalties),
            told,
            np.where(np.isnan(found), self._base[batch.columns], found),
            self._lengths[batch.columns],
            self._slopes[batch.columns],
        )
        answers = self._layer.first_answer(batch, turn, ACCURACY)
        # Below its accuracy an answer has no digit, and beside zero nothing tells noise from size
        is_exact = self._layer.solver(batch.names[0]).is_exact
        least = (ROUNDED if is_exact else NOISE) * turn.lengths
        points, base = answers.points, self._base[batch.columns]
        points = np.where(np.abs(points) <= least, 0.0, points)
        # Whose zero is far away is that near to where it is held
        points = np.where(np.abs(answers.points - base) <= least, base, points)
        if not set(answers.statuses) <= set(FOUND):
            sizes = [self._subs[name].size for name in batch.names]
            is_found = np.repeat([one in FOUND for one in answers.statuses], sizes)
            points = np.where(is_found, points, np.nan)
        self._found[batch.columns] = points

    def _hold(self, names: Sequence[Hashable]) -> None:
        """Make the holds of clients: those whose edges see their variables alike at once."""
        alike: dict[int, list[Hashable]] = {}
        for name in names:
            alike.setdefault(id(self._subs[name].sight), []).append(name)
        for mine in alike.values():
            subs = [self._subs[name] for name in mine]
            columns = np.stack([np.r_[self._compiled.columns[name]] for name in mine])
            known = [self._curvatures[name] for name in mine]
            # Where objectives bend, or at zero
            is_there = np.array([name in self._bent for name in mine])[:, None]
            found = hold(subs, known, np.where(is_there, self._base[columns], 0.0))
            rows = np.stack([sub.rows for sub in subs]), np.stack([sub.entries for sub in subs])
            self._penalties[rows] = found.penalties
            self._lengths[columns], self._slopes[columns] = found.lengths, found.slopes
        self._unheld.difference_update(names)
