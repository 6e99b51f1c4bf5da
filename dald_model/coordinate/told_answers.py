"""What sites told of their clients' own answers, in the place of what would be measured of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.curvature import Curvature
from dald_model.coordinate.own_answers import OwnAnswers
from dald_model.coordinate.sides import held_sides, hold_nearer, is_far, moved_to, place, sides_of
from dald_model.coordinate.survey import OUTLYING
from dald_model.declare.remote import Introduction, RemoteClient


def introduced(sub: Subproblem) -> Introduction | None:
    """What the site of a client told of it; None of a client that is here."""
    return sub.client.introduction if isinstance(sub.client, RemoteClient) else None


def is_remote(sub: Subproblem) -> bool:
    """Whether the client is at a site."""
    return sub.client.is_remote


def ask_site(sub: Subproblem, kind: str, *wanted: str, **arrays: np.ndarray) -> list[np.ndarray]:
    """What the site of a client answers to a question."""
    assert isinstance(sub.client, RemoteClient)
    found = sub.client.question(kind, **arrays)()
    return [found[name] for name in wanted]


def told_answers(compiled: Decomposition) -> OwnAnswers | None:
    """The clients' own answers as their sites told them; None where there are no sites.

    They are those of :func:`dald_model.coordinate.survey.own_answers`, but that numbers are
    not taken around answers that are far from zero, and that who has no end alone has no answer
    where its objective is not defined everywhere.
    """
    told = {name: known for name, sub in compiled.items() if (known := introduced(sub))}
    return _Told(compiled, told).answers() if told else None


class _Told:
    """The sites' answers so far."""

    def __init__(self, compiled: Decomposition, told: dict[Hashable, Introduction]) -> None:
        self._compiled, self._told = compiled, told
        self._found = np.full(sum(sub.size for sub in compiled.values()), np.nan)
        self._misplaced: set[Hashable] = set()

    def answers(self) -> OwnAnswers:
        """See :func:`told_answers`."""
        compiled, found = self._compiled, self._found
        base = np.zeros(found.size)
        for name, known in self._told.items():
            found[compiled.columns[name]], base[compiled.columns[name]] = known.own, known.base
        self._leave_endless()
        origin, missing = sides_of(compiled, base), np.isnan(found)
        place(compiled, found)
        having = frozenset(n for n, part in compiled.columns.items() if not missing[part].any())
        held_at = held_sides(compiled, base, found)
        far = is_far(sides_of(compiled, found), held_at, OUTLYING)
        self._misplaced = {n for n in self._told if far[compiled[n].entries].all()}
        everybody = set(self._told)
        hold_nearer(
            compiled, found, origin, held_at, missing, lambda centre: self._hold(centre, everybody)
        )
        if self._misplaced:
            self._hold(sides_of(compiled, found), self._misplaced, is_last=True)
        curvatures = {name: _curvature(known) for name, known in self._told.items()}
        return OwnAnswers(found, having, curvatures, self._starts(missing))

    def _leave_endless(self) -> None:
        """Take the answers of clients that would go on for ever, if others have one."""
        others = self._found.copy()
        endless = [name for name, known in self._told.items() if known.is_endless]
        for name in endless:
            others[self._compiled.columns[name]] = np.nan
        place(self._compiled, others)
        for name in endless:
            part = self._compiled.columns[name]
            if not np.isnan(others[part]).any():
                self._found[part] = np.nan

    def _hold(self, centre: np.ndarray, names: set[Hashable], *, is_last: bool = False) -> None:
        """Have sites answer from where others' sides are, all at once."""
        waiting: dict[Hashable, Callable[[], dict[str, np.ndarray]]] = {}
        for name in self._told:
            sub = self._compiled[name]
            own = np.nan_to_num(self._found[self._compiled.columns[name]])
            there = moved_to(sub, own, centre[1 - sub.rows, sub.entries])
            assert isinstance(sub.client, RemoteClient)
            if name in names and there is not None:
                flags = np.array([name in self._misplaced, is_last], dtype=int)
                waiting[name] = sub.client.question("hold", told=there, flags=flags)
        for name, wait in waiting.items():
            self._told[name] = Introduction.read(self._told[name].words(), wait())
            self._found[self._compiled.columns[name]] = self._told[name].own

    def _starts(self, missing: np.ndarray) -> np.ndarray:
        """Where a run begins: at the answers, or where sites say that it is nearer."""
        starts = self._found.copy()
        starts[missing] = np.nan
        for name, known in self._told.items():
            if name not in self._misplaced and not np.isnan(known.start).any():
                starts[self._compiled.columns[name]] = known.start
        place(self._compiled, starts)
        return starts


def _curvature(known: Introduction) -> Curvature:
    return Curvature(
        known.diagonal,
        known.spread,
        known.kinks,
        known.elsewhere,
        known.answer,
        known.slopes,
        known.is_known,
    )
