"""The host of a site's one client: its questions, and sessions that show what is shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.engines.hosted_clients import Residents
from dald_model.engines.messages import asked
from dald_model.engines.portable import Portable, unpack_edges
from dald_model.engines.schema import check_arrays
from dald_model.solvers.base import FOUND, Answers, Multipliers, Session, Solver, Turn
from dald_model.solvers.interior.member import Answer, Member

Arrays = dict[str, np.ndarray]


class OwnClient(Protocol):
    """A client at its site: :class:`dald_model.Site`."""

    name: str
    disclose: str

    @property
    def columns(self) -> np.ndarray:
        """Where the shared variables are among all of the client's."""
        ...

    @property
    def sub(self) -> Subproblem:
        """The client as the site compiled it."""
        ...

    @property
    def centre(self) -> np.ndarray:
        """The point around which the client's numbers are."""
        ...

    @property
    def chain(self) -> list[Solver]:
        """The solvers that take it, the fastest first."""
        ...

    def open(self, whole: Portable, solver: Solver) -> Session:
        """A session of one of them on the client with its edges."""
        ...

    def private_units(
        self, lengths: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of all variables, from those of the shared ones."""
        ...

    def introduction(self) -> dict[str, Any]:
        """What is said of the client before it is asked anything."""
        ...

    def alone(self) -> Arrays:
        """The answer by itself."""
        ...

    def hold(self, told: np.ndarray) -> Arrays:
        """The same, from where others are."""
        ...

    def respond(self, told: np.ndarray, weights: np.ndarray) -> Arrays:
        """Answers nearer to others, and how strongly they were held there."""
        ...


class SiteClient(Residents):
    """The one client of a site; what is placed with it are its edges alone."""

    def __init__(self, site: OwnClient) -> None:
        super().__init__()
        self._site = site

    def answered(self, said: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """See :class:`Residents`; questions are not of a run."""
        kind, site = said.get("question"), self._site
        if kind is None:
            return super().answered(said, arrays)
        if kind == "introduce":
            self._sessions.clear()  # of another coordinator
            return site.introduction(), {}
        wanted = asked(kind, site.columns.size)
        check_arrays({name: (one.dtype.str[1:], one.shape) for name, one in arrays.items()}, wanted)
        for name, array in wanted.items():
            array.check(arrays[name], name)
        if kind == "alone":
            return {}, site.alone()
        return {}, site.hold(**arrays) if kind == "hold" else site.respond(**arrays)

    def member(self, data: bytes, columns: np.ndarray, seen: np.ndarray) -> Member:
        """See :class:`Residents`; refused where the owner shows answers only."""
        if self._site.disclose != "curvature":
            raise ValueError(f"site {self._site.name!r} shows answers only, no curvature")
        return _SharedMember(self._site, columns, seen)

    def taken(self, solver: str, packed: list[bytes]) -> tuple[Solver, list[Portable]]:
        """The site's own client with the edges of the one that came, of which nothing else is."""
        site = self._site
        told = unpack_edges(packed[0], site.columns.size)
        matrix, offset = told.sides
        mine = sp.csr_array(
            (np.ones(site.columns.size), (np.arange(site.columns.size), site.columns)),
            shape=(site.columns.size, site.sub.size),
        )
        centre = site.centre
        form = (site.sub.around(centre) if centre.any() else site.sub).form
        assert form is not None
        sides = sp.csr_array(matrix @ mine), offset + matrix @ centre[site.columns]
        whole = Portable(site.name, form, sides, told.signs)
        edges: Any = told
        return _Shared(site, whole), [edges]


class _SharedMember(Member):
    """A site's client in an interior point, of whose answer only what is shared is told."""

    def __init__(self, site: OwnClient, columns: np.ndarray, seen: np.ndarray) -> None:
        form, self._mine = site.sub.form, site.columns
        assert form is not None
        if columns.shape != self._mine.shape:
            raise ValueError("interior point: other variables than the site shares")
        own = seen.size + np.arange(form.size - columns.size)
        whole = np.empty(form.size, dtype=int)
        whole[self._mine] = columns
        whole[np.setdiff1d(np.arange(form.size), self._mine)] = own
        told = np.concatenate([seen, np.zeros(own.size, dtype=bool)])
        super().__init__({site.name: form}, {site.name: whole}, told)
        self.seen = self.seen._replace(heights=[0])
        self.sizes = self.sizes._replace(points=self._mine.size, rows=0)

    def answer(self, tau: float) -> Answer:
        found, nothing = super().answer(tau), np.zeros(0)
        return Answer(found.points[self._mine], found.prices[self._mine], nothing, nothing)


class _Shared:
    """Solver of a site's client, of which only the shared variables are seen."""

    name, batches = "site", False

    def __init__(self, site: OwnClient, whole: Portable) -> None:
        self._site, self._whole = site, whole
        self.is_exact = site.chain[0].is_exact

    def refuses(self, subproblem: Subproblem) -> str:
        """Nobody: it has only the one."""
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """A session of the client."""
        return _SharedSession(self._site, self._whole)


class _SharedSession:
    """Session of a site's client, by the first of its solvers that finds a point."""

    def __init__(self, site: OwnClient, whole: Portable) -> None:
        self._site, self._whole, self._columns = site, whole, site.columns
        self._centre = site.centre[site.columns]
        self._left = list(site.chain)
        self._session = self._opened()

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`Session`: points are those of the shared variables."""
        if turn.lengths.size:
            lengths, slopes = self._site.private_units(turn.lengths, turn.slopes)
            turn = turn._replace(lengths=lengths, slopes=slopes)
        turn = turn._replace(points=np.zeros(self._site.sub.size))
        found = self._session.minimise(turn, tolerance)
        for _ in self._left[1:]:
            if found.statuses[0] in FOUND:
                break
            self._left.append(self._left.pop(0))
            self._session = self._opened()
            found = self._session.minimise(turn, tolerance)
        nobody = Multipliers.none(1)
        points = found.points[self._columns] + self._centre
        return found._replace(points=points, multipliers=nobody)

    def _opened(self) -> Session:
        return self._site.open(self._whole, self._left[0])
