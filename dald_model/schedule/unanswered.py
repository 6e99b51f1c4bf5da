"""Clients without an answer from their engine: absent for a round, or leaving."""

from __future__ import annotations

from dataclasses import dataclass

from dald_model.schedule.changes import Change, Neighbours
from dald_model.schedule.round_state import Moment
from dald_model.validate import argument, check_whole


@dataclass(frozen=True)
class Unanswered:
    """Have a run go on without the clients that an engine has no answer from.

    An engine asks a host that is lost, or late, again as often as its ``retries`` say, and then
    another one, where its hosts are interchangeable: sites are not. Without this the run ends if
    that fails, and :class:`dald_model.LostError` has what was found. With it, the host's
    clients are absent in this round, as those of :class:`dald_model.Dropout` are: their neighbours
    go on with their last answers, and the multipliers of their edges stay. The history's column
    ``unanswered`` names them. In the next round they are asked again, on a host started anew where
    the engine can.

    No answer that is out of date passes for an optimum: residuals are measured with what each
    client was told when it answered last. Before the first round, when natural units are measured,
    nobody may be missing.

    Parameters
    ----------
    leave_after : int, optional
        After so many rounds in a row without an answer a client leaves: the problem is from then on
        that of the others, and ``status`` is "reduced" and says who is missing. By default it is
        waited for until ``max_rounds``, or the run stalls.

    Raises
    ------
    OptionError
        If ``leave_after`` is no whole number from 1.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> patient = dm.Unanswered(leave_after=3)
    >>> result = common_number([0, 1, 2]).solve(engine=dm.engines.InProcess(), online=patient)
    >>> print(result.status, result.history["unanswered"].iloc[-1])
    optimal ()
    """

    leave_after: int | None = None

    def __post_init__(self) -> None:
        if self.leave_after is not None:
            check_whole(
                argument(self, "leave_after"),
                self.leave_after,
                expected="a whole number from 1, or None",
            )

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        """See :class:`dald_model.schedule.changes.Online`."""
        if self.leave_after is None:
            return None
        last = self.leave_after
        return Change(leave=[name for name, k in moment.unanswered.items() if k >= last])
