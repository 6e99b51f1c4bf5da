"""Solvers of clients whose objective is elsewhere, where theirs is chosen as ever."""

from __future__ import annotations

from collections.abc import Sequence

from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import Neighbour
from dald_model.errors import OptionError
from dald_model.solvers.base import Answers, Session, Turn


class AtSite:
    """Stands for whichever solver a site has chosen for its client.

    Parameters
    ----------
    is_exact : bool
        Whether that one is.
    """

    name, batches = "site", False

    def __init__(self, is_exact: bool) -> None:
        self.is_exact = is_exact

    def refuses(self, subproblem: Subproblem) -> str:
        """Empty for a client of a site."""
        return "" if subproblem.client.is_remote else "it is no client of a site"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """Refused: who has only what is shared cannot solve it.

        Raises
        ------
        OptionError
        """
        raise OptionError(
            f"engine: client {subproblems[0].name!r} is at its site, and can be solved by the "
            "engine alone that reaches it; leave engine out, it is the federation's own"
        )


class AtNeighbour:
    """Stands for whatever solves a client of another process, which tells where it is."""

    name, batches, is_exact = "neighbour", False, True

    def refuses(self, subproblem: Subproblem) -> str:
        """Empty for a client of another process."""
        is_its = isinstance(subproblem.client, Neighbour)
        return "" if is_its else "it is a client of this process"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """A session that nobody asks."""
        return _Unasked()


class _Unasked:
    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """Refused: neighbours are told where these clients are, and do not ask."""
        raise AssertionError("a client of another process is solved there")
