"""A test that a strategy considers all clients with equal probability (Remark 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from dald_model.errors import SequenceError, SequenceWarning
from dald_model.schedule.moment import Moment, Residuals
from dald_model.text import listed

DRAWS = 2000
"""Inner loops that are tried."""
DEVIATIONS = 6.0
"""Standard deviations that a count may be off: with equal probabilities once in 10^9 clients."""


def check_fairness(
    label: str,
    names: Sequence[Hashable],
    choose: Callable[[Moment], Iterable[Hashable]],
) -> None:
    r"""Monte-Carlo test of a strategy with residuals that favour nobody.

    "Each subproblem should be considered with equal probability, although the actual selection
    may vary depending on the strategy" (Section V-A): in the trials the residuals are drawn
    independently with one distribution, so that a greedy strategy, too, takes everybody equally
    often. With :math:`c_i` the loops of D in which client i takes part and
    :math:`p = \sum_i c_i / (n D)`, all must have
    :math:`|c_i - p D| \le 6 \sqrt{p (1 - p) D}`.

    Warns
    -----
    SequenceWarning
        If some client takes part more or less often than that.

    Raises
    ------
    SequenceError
        If a client is never chosen.
    """
    generator = np.random.default_rng(0)
    counts = dict.fromkeys(names, 0)
    unknown = Residuals(*4 * [np.inf])
    for draw in range(1, DRAWS + 1):
        stale = dict(zip(names, generator.random(len(names)).tolist(), strict=True))
        moment = Moment(draw, 1, draw, tuple(names), (), True, False, unknown, lambda s=stale: s)
        for name in set(choose(moment)):
            counts[name] += 1
    never = [name for name, count in counts.items() if count == 0]
    if never:
        raise SequenceError(
            f"{label}: {listed(never)} never takes part in {DRAWS} inner loops, so "
            "consensus cannot be reached (Remark 1 of the paper); choose everybody with equal "
            "probability"
        )
    share = sum(counts.values()) / (len(names) * DRAWS)
    allowed = DEVIATIONS * np.sqrt(share * (1 - share) * DRAWS) + 1e-9
    worst = max(names, key=lambda name: abs(counts[name] - share * DRAWS))
    if abs(counts[worst] - share * DRAWS) > allowed:
        warnings.warn(
            f"{label}: client {worst!r} takes part in {counts[worst] / DRAWS:.1%} of the inner "
            f"loops, the mean over the clients is {share:.1%}; expected equal probabilities "
            "(Section V-A of the paper); draw from all clients alike, or go on knowingly: the "
            "full cycle that closes an outer loop keeps everybody in",
            SequenceWarning,
            stacklevel=2,
        )
