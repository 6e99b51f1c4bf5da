"""Solver of clients whose objective is at their site, where it is chosen as ever."""

from __future__ import annotations

from collections.abc import Sequence

from dald_model.compile.subproblem import Subproblem
from dald_model.errors import OptionError
from dald_model.solvers.base import Session


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
