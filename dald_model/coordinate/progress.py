"""Progress of a run: a bar in terminal or notebook, and lines of the log ``dald_model``.

Nothing is shown unless it was asked for: the bar by ``verbose=True``, the log by Python's
``logging``, as in ``logging.basicConfig(level="DEBUG")``; a round is told at level DEBUG, the
beginning and the end of a run at INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Self

from tqdm.auto import tqdm

LOG = logging.getLogger("dald_model")
LOG.addHandler(logging.NullHandler())


class Progress:
    """What is shown of a run while it goes on.

    Parameters
    ----------
    name : str
        Of the model.
    most : int
        The most rounds.
    is_shown : bool
        Whether there is a bar.
    """

    def __init__(self, name: str, most: int, is_shown: bool) -> None:
        self._name = name
        self._bar = tqdm(total=most, desc=name, unit="round", disable=not is_shown)

    def __enter__(self) -> Self:
        LOG.info("%s: a run of at most %s rounds begins", self._name, self._bar.total)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def told(self, at: int, row: Mapping[str, Any], left: int | None = None) -> None:
        """A round is over: residuals as they are tested, rho, and how many more are expected.

        Parameters
        ----------
        at : int
            The round.
        row : dict
            Its row of the history.
        left : int or None
            How many rounds are left, as far as somebody can tell.
        """
        if self._bar.disable and not LOG.isEnabledFor(logging.DEBUG):
            return
        shown = {
            "primal": f"{row['primal_scaled']:.1e}",
            "dual": f"{row['dual_scaled']:.1e}",
            "rho": f"{row['rho']:.2g}",
        }
        if left is not None:
            shown["left"] = f"about {left}"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update()
        LOG.debug("%s: round %d, %s", self._name, at, "  ".join(map(" ".join, shown.items())))

    def ended(self, rounds: int, status: str, detail: str) -> None:
        """The run is over."""
        LOG.info("%s: %s after %d rounds %s", self._name, status, rounds, detail)
