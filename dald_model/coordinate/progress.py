"""Progress of a run: a line in terminal or notebook, and lines of the log ``dald_model``.

Nothing is shown unless it was asked for: the line by ``verbose=True``, the log by Python's
``logging``, as in ``logging.basicConfig(level="DEBUG")``; rounds are logged at level DEBUG, the
beginning and the end of a run at INFO. A line says how many rounds are left at the pace so far.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


import numpy as np

PACE_SHARE = 2 / 3
"""The part of the rounds so far, the last of them, that the pace is taken from."""
PACE_ROUNDS = 3
"""Rounds that it is taken from at least."""


LOG = logging.getLogger("dald_model")


def rounds_left(merits: np.ndarray) -> float:
    r"""Estimated rounds until the tolerances are met.

    .. math:: \frac{\log m_k}{\log (m_{k-w} / m_k)} \, w

    with :math:`m_k` the least merit of the first k rounds and w two thirds of them: as if the best
    point went on improving as it did. Measured halfway and elsewhere on 12 kinds of clients and
    three graphs (drawn as in table 9 of the benchmarks, with another seed) it is right within a
    factor of 1.2 in the median for plain runs and of 1.4 for Anderson acceleration; secant models
    and bounds fall ever faster, and it says 3.6 times as many as there are.

    Parameters
    ----------
    merits : ndarray, shape (k,)
        Of each round the larger of both residuals relative to their tolerances; those that are
        not finite do not count.

    Returns
    -------
    float
        0 where the tolerances are met, infinite where nothing fell, and NaN where the run is too
        short to tell.
    """
    found = np.minimum.accumulate(np.where(np.isfinite(merits), merits, np.inf))
    width = max(PACE_ROUNDS, math.floor(PACE_SHARE * found.size))
    if found.size and found[-1] <= 1:
        return 0.0
    if found.size <= width or not np.isfinite(found[-1 - width]):
        return math.nan
    fall = math.log(found[-1 - width] / found[-1])
    return math.inf if fall <= 0 else math.log(found[-1]) / fall * width


LOG.addHandler(logging.NullHandler())


class Progress:
    """The display of a run in progress: its phase, then each round.

    There is no percentage, since nobody knows how many rounds a run will take.

    Parameters
    ----------
    name : str
        Of the model.
    is_shown : bool
        Whether there is a line; else there is only the log.
    """

    def __init__(self, name: str, is_shown: bool) -> None:
        self._name, self._most, self._allowed = name, 0, (math.nan, math.nan)
        self._last = ""
        self._line: tqdm | None = None
        if is_shown:
            from tqdm import tqdm  # as text, which needs no widgets in a notebook

            self._line = tqdm(desc=f"{name}: compiling", bar_format="{desc} [{elapsed}]")

    def close(self) -> None:
        """Leave the line as it is."""
        if self._line is not None:
            self._line.close()

    def phase(self, doing: str) -> None:
        """Show a phase before the first round."""
        if self._line is not None:
            self._line.set_description_str(f"{self._name}: {doing}")

    def begins(self, most: int, allowed: tuple[float, float]) -> None:
        """The first round begins: the most rounds, and the tolerances of the two residuals."""
        self._most, self._allowed = most, allowed
        LOG.info("%s: a run of at most %s rounds begins", self._name, most)

    @property
    def is_watched(self) -> bool:
        """Whether rounds are displayed or logged."""
        return self._line is not None or LOG.isEnabledFor(logging.DEBUG)

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
        residuals = (row["primal_scaled"], row["dual_scaled"])
        named = zip(("primal", "dual"), residuals, self._allowed, strict=True)
        shown = [f"{name} {found:.1e} (allowed {most:.0e})" for name, found, most in named]
        shown.append(f"rho {row['rho']:.2g}")
        self._last = ", ".join(shown)
        if 0 < left < self._most:
            shown.append(f"about {math.ceil(left)} left")
        if self._line is not None:
            said = f"{self._name}: round {at} of at most {self._most}, {', '.join(shown)}"
            self._line.set_description_str(said, refresh=False)
            self._line.update()
        LOG.debug("%s: round %d, %s", self._name, at, "  ".join(shown))

    def resumed(self, at: int) -> None:
        """Log that the run is resumed after a round."""
        LOG.info("%s: goes on after round %d", self._name, at)

    def ended(self, rounds: int, status: str, detail: str) -> None:
        """The run is over."""
        self.phase(", ".join(filter(None, [f"{status} after {rounds} rounds", self._last])))
        LOG.info("%s: %s after %d rounds %s", self._name, status, rounds, detail)
