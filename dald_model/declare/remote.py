"""Client whose objective is where its data are: only what it shares is known here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import cvxpy as cp
import numpy as np

from dald_model.declare.client import Client

Arrays = dict[str, np.ndarray]
DISCLOSURES = ("answers", "curvature")
"""What a client may show."""


class Introduction(NamedTuple):
    """What a site measures of its client before the first round; arrays are of shape (m,).

    They go over the entries of the shared variables, one variable after the other, each in cvxpy's
    order. None has a row of data in it, but all are functions of the data: the answer alone is the
    model that the site would fit by itself.

    Attributes
    ----------
    base : ndarray
        Where the objective bends most, or zero; the client is held there weakly at first.
    own : ndarray
        The client's answer if it were alone; NaN where it has none.
    start : ndarray
        Where a run begins, if not there; else NaN.
    diagonal, kinks, elsewhere, answer, slopes : ndarray
    spread : float
    is_known : bool
        Of :class:`dald_model.coordinate.curvature.Curvature`, where the objective bends.
    is_exact : bool
        Whether the client's solver is.
    is_angular : bool
        Whether the objective has kinks, or no curvature at all.
    """

    base: np.ndarray
    own: np.ndarray
    start: np.ndarray
    diagonal: np.ndarray
    kinks: np.ndarray
    elsewhere: np.ndarray
    answer: np.ndarray
    slopes: np.ndarray
    spread: float
    is_known: bool
    is_exact: bool
    is_angular: bool

    def words(self) -> dict[str, bool]:
        """What goes as words."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, bool)}

    def arrays(self) -> Arrays:
        """What goes as arrays, the spread as one of a single entry."""
        told = self._asdict().items()
        return {name: np.atleast_1d(value) for name, value in told if not isinstance(value, bool)}

    @classmethod
    def read(cls, words: Mapping[str, bool], arrays: Mapping[str, np.ndarray]) -> Self:
        """What was told by these words and arrays."""
        found: dict[str, Any] = {**words, **arrays, "spread": float(arrays["spread"][0])}
        return cls(**{name: found[name] for name in cls._fields})


@dataclass(frozen=True, eq=False, repr=False)
class RemoteClient(Client):
    """Client of a site: the variables that it shares, and how the site is asked.

    Attributes
    ----------
    told : Introduction
    ask : callable
        (question, arrays) -> what waits for the arrays that :mod:`dald_model.site` answers.
    host : int
        Which of the engine's hosts the site is.
    disclose : str
        What the site shows.
    """

    kind: ClassVar[str] = "site"

    told: Introduction | None = None
    ask: Callable[[str, Arrays], Callable[[], Arrays]] | None = None
    host: int = 0
    disclose: str = "answers"

    @property
    def introduction(self) -> Introduction:
        """What the site told of itself."""
        assert self.told is not None
        return self.told

    def question(self, kind: str, **arrays: np.ndarray) -> Callable[[], Arrays]:
        """Ask the site; gives what waits for its answer."""
        assert self.ask is not None
        return self.ask(kind, arrays)

    @property
    def _goal(self) -> str:
        return "at its site"


@dataclass(frozen=True, eq=False, repr=False)
class Neighbour(Client):
    """Client of another process, of which each variable is its side of an edge to one of this."""

    kind: ClassVar[str] = "site"

    @property
    def _goal(self) -> str:
        return "at its process"


def neighbour(name: Hashable, sides: Sequence[cp.Variable]) -> Neighbour:
    """The client of another process with these sides."""
    return Neighbour(name, cp.Minimize(cp.Constant(0)), (), tuple(sides))


def remote_client(
    name: Hashable,
    shared: Sequence[cp.Variable],
    told: Introduction,
    ask: Callable[[str, Arrays], Callable[[], Arrays]],
    host: int,
    disclose: str = "answers",
) -> RemoteClient:
    """The client of a site over these variables, which it shares."""
    nothing = cp.Minimize(cp.Constant(0))
    known = {"told": told, "ask": ask, "host": host, "disclose": disclose}
    return RemoteClient(name, nothing, (), tuple(shared), **known)
