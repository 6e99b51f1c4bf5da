"""Progress of a run: a bar in terminal or notebook, and lines of the log ``dald_model``.

Nothing is shown unless it was asked for: the bar by ``verbose=True``, the log by Python's
``logging``, as in ``logging.basicConfig(level="DEBUG")``; a round is told at level DEBUG, the
beginning and the end of a run at INFO.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
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
        self._name, self._most = name, most
        self._bar: tqdm | None = None
        if is_shown:
            # It looks for notebooks, and loads what they need, where it is imported.
            from tqdm.auto import tqdm

            self._bar = tqdm(total=most, desc=name, unit="round")

    def __enter__(self) -> Self:
        LOG.info("%s: a run of at most %s rounds begins", self._name, self._most)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def is_watched(self) -> bool:
        """Whether anybody sees what is told of a round."""
        return self._bar is not None or LOG.isEnabledFor(logging.DEBUG)

    def told(self, at: int, row: Mapping[str, Any], left: float) -> None:
        """A round is over: residuals as they are tested, rho, and how many more are expected.

        Parameters
        ----------
        at : int
            The round.
        row : dict
            Its row of the history.
        left : float
            Estimated rounds that are left; NaN or infinite where nothing can be said.
        """
        shown = {
            "primal": f"{row['primal_scaled']:.1e}",
            "dual": f"{row['dual_scaled']:.1e}",
            "rho": f"{row['rho']:.2g}",
        }
        if 0 < left < self._most:
            shown["left"] = f"about {math.ceil(left)}"
        if self._bar is not None:
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update()
        LOG.debug("%s: round %d, %s", self._name, at, "  ".join(map(" ".join, shown.items())))

    def resumed(self, at: int) -> None:
        """The run goes on after a round of an earlier one."""
        if self._bar is not None:
            self._bar.update(at)
        LOG.info("%s: goes on after round %d", self._name, at)

    def ended(self, rounds: int, status: str, detail: str) -> None:
        """The run is over."""
        LOG.info("%s: %s after %d rounds %s", self._name, status, rounds, detail)
