"""Client whose objective is where its data are: only what it shares is known here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from dald_model.declare.client import Client

Arrays = dict[str, np.ndarray]
DISCLOSURES = ("answers", "curvature")
"""What a client may show."""


@dataclass(frozen=True, eq=False, repr=False)
class RemoteClient(Client):
    """Client of a site: the variables that it shares, and how the site is asked.

    Attributes
    ----------
    ask : callable
        (question, arrays) -> what waits for the arrays that :mod:`dald_model.site` answers.
    host : int
        Which of the engine's hosts the site is.
    names : tuple of str
        Of the shared variables, the same at all sites that share one.
    disclose : str
        What the site shows.
    is_exact : bool
        Whether the client's solver is.
    is_angular : bool
        Whether the objective has kinks, or no curvature at all.
    """

    kind: ClassVar[str] = "site"

    ask: Callable[[str, Arrays], Callable[[], Arrays]] | None = None
    host: int = 0
    names: tuple[str, ...] = ()
    disclose: str = "answers"
    is_exact: bool = True
    is_angular: bool = False

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
    ask: Callable[[str, Arrays], Callable[[], Arrays]],
    host: int,
    words: Mapping[str, Any],
) -> RemoteClient:
    """The client of a site over these variables, which it shares, by what it said of itself."""
    nothing = cp.Minimize(cp.Constant(0))
    known = {word: words[word] for word in ("disclose", "is_exact", "is_angular")}
    names = tuple(v.name() for v in shared)
    return RemoteClient(name, nothing, (), tuple(shared), ask=ask, host=host, names=names, **known)
