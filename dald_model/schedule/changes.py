"""Changes during a run: dropout, delay, lost messages (Section V-A), and answers that fail."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dald_model.errors import OptionError
from dald_model.schedule import sequence as sequences
from dald_model.schedule.round_state import Moment
from dald_model.validate import argument, check_clients, check_share, check_whole, is_whole

Pair = tuple[Hashable, Hashable]


@dataclass(frozen=True, repr=False)
class Change:
    """A change of sequence, clients, edges or messages before an inner loop.

    The first five last until they are changed back, the last three are for one inner loop.

    Attributes
    ----------
    sequence : Sequence or None
        The sequence from now on.
    leave, join : iterable of clients
        Clients that leave, and that come back. While a client is away the problem is that of the
        others; its value and its multipliers are kept, and it goes on with them when it returns.
    disconnect, connect : iterable of pairs
        Consensus edges that are dropped from the problem, and those that come back: from the next
        outer loop on. The others keep their multipliers.
    absent : iterable of clients
        Clients that do not take part in this inner loop. Their neighbours go on with their last
        values, and the multipliers of their edges stay.
    stale : iterable of clients
        Clients that receive nothing new in this inner loop, being at work since an earlier one; one
        that takes part answers what it was told then.
    lost : iterable of pairs (sender, receiver)
        Messages that do not arrive in this inner loop. The receiver goes on with what it had, and
        the multiplier of the edge stays, since its ends cannot both update it.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(online={3: dm.Change(leave=[2])}).status)
    reduced
    """

    sequence: sequences.Sequence | None = None
    leave: Iterable[Hashable] = ()
    join: Iterable[Hashable] = ()
    disconnect: Iterable[Pair] = ()
    connect: Iterable[Pair] = ()
    absent: Iterable[Hashable] = ()
    stale: Iterable[Hashable] = ()
    lost: Iterable[Pair] = ()

    def __post_init__(self) -> None:
        if self.sequence is not None and not isinstance(self.sequence, sequences.Sequence):
            raise OptionError(f"Change: given sequence={self.sequence!r}, expected a dm.Sequence")
        for each in fields(self)[1:]:
            given = getattr(self, each.name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                what = "pairs of clients" if each.name in PAIRS else "clients"
                raise OptionError(f"Change: given {each.name}={given!r}, expected a list of {what}")
            object.__setattr__(self, each.name, tuple(given))

    def __repr__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return f"Change({', '.join(f'{k}={v!r}' for k, v in given.items() if v)})"


PAIRS = ("disconnect", "connect", "lost")


@runtime_checkable
class Online(Protocol):
    """A schedule of changes, or a model of failures."""

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        """The changes before this inner loop; ``neighbours`` is the consensus graph."""
        ...


Neighbours = Mapping[Hashable, Sequence[Hashable]]
"""Client -> its neighbours, servers included."""


@dataclass(frozen=True)
class Dropout:
    """Independent absence of each client from each inner loop, with probability ``p``.

    Servers do not drop out unless they are named. The draws depend on the seed and the number of
    the round alone.

    Parameters
    ----------
    p : float
        From 0, below 1.
    seed : int
    clients : iterable of clients, optional
        Clients that may drop out; by default all but servers.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(online=dm.Dropout(0.3, seed=0)).status)
    optimal
    """

    p: float
    seed: int = 0
    clients: Iterable[Hashable] | None = None

    def __post_init__(self) -> None:
        _check_probability(self, self.p)
        _keep(self, "clients")

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        names = [name for name in neighbours if name not in moment.servers]
        if self.clients is not None:
            names = list(self.clients)
            check_clients("Dropout: ", names, neighbours)
        luck = np.random.default_rng((self.seed, moment.round)).random(len(names))
        return Change(
            absent=[name for name, drawn in zip(names, luck, strict=True) if drawn < self.p]
        )


@dataclass(frozen=True)
class Stragglers:
    """Slow clients: client i responds every k-th round, to the values of k rounds before.

    A client with ``every=k`` is told its neighbours' values at the beginning of loop 1, answers in
    loop k, is told again at the beginning of loop k + 1, and so on. ``every=1`` is not slow.

    Parameters
    ----------
    every : dict
        Client -> k, a whole number from 1.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(online=dm.Stragglers({2: 3})).status)
    optimal
    """

    every: Mapping[Hashable, int]

    def __post_init__(self) -> None:
        if not isinstance(self.every, Mapping):
            raise OptionError(
                f"Stragglers: given {self.every!r}, expected a dict client -> k such as "
                "{'a': 3}: the client responds every k-th round"
            )
        for name, k in self.every.items():
            if not is_whole(k, 1):
                raise OptionError(
                    f"Stragglers: given {k!r} for client {name!r}, expected a whole number from 1"
                )

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        check_clients("Stragglers: ", self.every, neighbours)
        slow = [(name, moment.round % k) for name, k in self.every.items() if k > 1]
        return Change(
            absent=[name for name, turn in slow if turn != 0],
            stale=[name for name, turn in slow if turn != 1],
        )


@dataclass(frozen=True)
class LossyLinks:
    """Independent loss of each message, one a loop, edge and direction, with probability ``p``.

    Parameters
    ----------
    p : float
        From 0, below 1.
    seed : int

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(online=dm.LossyLinks(0.2, seed=0)).status)
    optimal
    """

    p: float
    seed: int = 0

    def __post_init__(self) -> None:
        _check_probability(self, self.p)

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        pairs = [(sender, name) for name, others in neighbours.items() for sender in others]
        luck = np.random.default_rng((self.seed, moment.round)).random(len(pairs))
        return Change(
            lost=[pair for pair, drawn in zip(pairs, luck, strict=True) if drawn < self.p]
        )


@dataclass(frozen=True)
class Schedule:
    """Changes by the number of the round they come before, counted from 1.

    A run does not end before the ``last`` of them has come.
    """

    changes: Mapping[int, Change] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for round_, change in self.changes.items():
            check_whole("online: given the round ", round_)
            _checked(change)

    @property
    def last(self) -> int:
        """The round before which the last change comes."""
        return max(self.changes, default=0)

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        return self.changes.get(moment.round)


@dataclass(frozen=True)
class Callback:
    """A user's function from a :class:`Moment` to a change."""

    function: Callable[[Moment], Change | None]

    def before(self, moment: Moment, neighbours: Neighbours) -> Change | None:
        return _checked(self.function(moment), allow_none=True)


def as_online(given: Any) -> tuple[Online, ...]:
    """Read the option ``online``: an object, a dict by round, a function, or a list of these."""
    if given is None:
        return ()
    if isinstance(given, list | tuple):
        return tuple(one for part in given for one in as_online(part))
    if isinstance(given, Mapping):
        return (Schedule(given),)
    if isinstance(given, Online) and not isinstance(given, type):
        return (given,)
    if callable(given) and not isinstance(given, type):
        function: Any = given
        return (Callback(function),)
    raise OptionError(
        f"online: given {given!r}, expected dm.Dropout(p), dm.Stragglers(...), dm.LossyLinks(p), a "
        "dict {round: dm.Change(...)}, a function of a moment that returns a dm.Change or None, or "
        "a list of these"
    )


def _checked(change: Any, allow_none: bool = False) -> Any:
    if isinstance(change, Change) or (allow_none and change is None):
        return change
    raise OptionError(
        f"online: given {change!r}, expected a dm.Change such as dm.Change(leave=['a'])"
        + (" or None" if allow_none else "")
    )


def _keep(given: Any, name: str) -> None:
    value = getattr(given, name)
    if isinstance(value, str) or not (value is None or isinstance(value, Iterable)):
        raise OptionError(
            f"{type(given).__name__}: given {name}={value!r}, expected a list of clients"
        )
    object.__setattr__(given, name, None if value is None else tuple(value))


def _check_probability(owner: Any, p: float) -> None:
    expected = "a probability from 0, below 1; who never answers left: dm.Change(leave=[...])"
    check_share(argument(owner, "p"), p, expected)
    check_whole(argument(owner, "seed"), owner.seed, 0, "an int from 0")


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
        if self.leave_after is None:
            return None
        last = self.leave_after
        return Change(leave=[name for name, k in moment.unanswered.items() if k >= last])
