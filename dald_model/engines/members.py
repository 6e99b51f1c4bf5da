"""Clients of an interior point at the hosts of an engine, which are asked by messages.

A message has calls of :mod:`dald_model.solvers.interior.calls` for some clients. A client follows
from what it was told, to the last bit; so of a host that is lost its clients are opened elsewhere
and told the same again, and nothing that is their own has to be kept anywhere else.
:class:`HostedMembers` is the end at the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.deadline import check_time
from dald_model.engines.engine import Engine
from dald_model.engines.failover import Failover, HostHandle, Loss, Sent
from dald_model.engines.messages import called, opened
from dald_model.engines.wire import NUMBERS, Expected, encode
from dald_model.errors import LostError
from dald_model.solvers.base import Encoding
from dald_model.solvers.interior.calls import flat, given, sizes_of, taken
from dald_model.solvers.interior.clients import Call, Here
from dald_model.solvers.interior.member import Member, Seen, Sizes

Arrays = dict[str, np.ndarray]
BEFORE_AGAIN = 0.1
"""Seconds before a host is asked again that was lost, which another process may start."""
BROKEN = (np.linalg.LinAlgError, RuntimeError, ValueError)
"""Exceptions of a client whose arithmetic broke down."""


class Shown(NamedTuple):
    """A client that is to be opened at a host.

    Attributes
    ----------
    data : bytes
        As :func:`dald_model.pack` makes it; of a site, which has its own, empty.
    columns, seen : ndarray
        Of :class:`dald_model.solvers.interior.joint.Opening`.
    """

    data: bytes
    columns: np.ndarray
    seen: np.ndarray


class Group(Failover):
    """Clients of one run at one host."""

    def __init__(
        self,
        shown: Mapping[Hashable, Shown],
        handles: Sequence[HostHandle],
        engine: Engine,
        losses: list[Loss],
    ) -> None:
        super().__init__(handles, engine, losses)
        self._clients, self._shown = list(shown), list(shown.values())
        self._number = next(NUMBERS)
        self._log: list[tuple[list[str], list[np.ndarray]]] = []
        self.sizes: list[Sizes] = []

    def _names(self) -> Collection[Hashable]:
        return self._clients

    def open(self) -> Callable[[], list[Seen]]:
        """Begin to place the clients; gives what waits for what they tell."""
        sent = self._opening()

        def wait() -> list[Seen]:
            told = self._received(sent, self._opening).said["seen"]
            self.sizes = [Sizes(*one[4:]) for one in told]
            return [Seen(one[0], one[1], [Encoding(e) for e in one[2]], one[3]) for one in told]

        return wait

    def ask(self, calls: Sequence[Sequence[Call]]) -> Callable[[], list[list[Any]]]:
        """Begin to ask all clients the same, each with numbers of its own."""
        names = [name for name, *_ in calls[0]]
        numbers = [
            np.concatenate([np.zeros(0), *(flat(one) for _, *values in mine for one in values)])
            for mine in calls
        ]

        def send() -> Sent:
            self._notice()
            return self._send(names, numbers)

        sent = send()

        def wait() -> list[list[Any]]:
            message = self._received(sent, send)
            if "broken" in message.said:
                raise np.linalg.LinAlgError(message.said["broken"])
            self._log.append((names, numbers))
            told = [message.arrays[f"{at}"] for at in range(len(self.sizes))]
            return [given(names, *each) for each in zip(told, self.sizes, strict=True)]

        return wait

    def close(self) -> None:
        """Have the host forget the clients, whenever it comes to that."""
        self._dispatch({"close": True}, {}, called([]))

    def kept(self) -> list[Any]:
        """The log of what the clients were told."""
        return self._log

    def restore(self, log: list[Any]) -> None:
        """Tell the clients again what they were told."""
        self._log = log
        sent = self._again()
        if sent is not None:
            self._received(sent, lambda: self._again() or self._opening())

    def _opening(self) -> Sent:
        arrays: Arrays = {}
        for at, one in enumerate(self._shown):
            arrays[f"data {at}"] = np.frombuffer(one.data, dtype=np.uint8)
            arrays[f"columns {at}"] = one.columns.astype(np.int64)
            arrays[f"seen {at}"] = one.seen.astype(np.uint8)
        self._life = self._handle.life
        count = len(self._shown)
        return self._dispatch({"open": count}, arrays, opened(count))

    def _again(self) -> Sent | None:
        """Tell again what was told, in one message of which nothing is answered."""
        if not self._log:
            return None
        names = [name for each, _ in self._log for name in each]
        numbers = [np.concatenate(each) for each in zip(*(n for _, n in self._log), strict=True)]
        return self._send(names, numbers, silent=len(names))

    def _notice(self) -> None:
        if self._life != self._handle.life:
            self._opening()
            self._again()

    def _send(self, names: list[str], numbers: list[np.ndarray], silent: int = 0) -> Sent:
        arrays = {f"{at}": one for at, one in enumerate(numbers)}
        heard = names[silent:]
        sizes = [sum(sum(sizes_of(name, 1, size)) for name in heard) for size in self.sizes]
        return self._dispatch({"calls": names, "silent": silent}, arrays, called(sizes))

    def _dispatch(self, said: dict[str, Any], arrays: Arrays, expected: Expected) -> Sent:
        number = next(NUMBERS)
        said = {"number": number, "members": self._number, **said}
        return Sent(self._handle.send(encode(said, arrays)), number, expected)


class Spread:
    """How a coordinator reaches clients at hosts, and then those of this process.

    Parameters
    ----------
    groups : list of Group
    places : list of list of int
        Of each group where its clients are among all.
    here : list of Member
        Which come after them.
    waits : callable
        How often a host was lost in one exchange -> whether it is asked again.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        places: Sequence[Sequence[int]],
        here: Sequence[Member],
        waits: Callable[[int], bool],
    ) -> None:
        self._waits = waits
        self._groups, self._places, self._here = groups, places, Here(here)
        self._count = sum(len(place) for place in places)
        self.is_linear = True

    def open(self) -> list[Seen]:
        """Place the clients."""
        found: dict[int, Seen] = {}
        waiting = [group.open() for group in self._groups]
        for place, wait in zip(self._places, waiting, strict=True):
            found |= zip(place, wait(), strict=True)
        self.is_linear = self._here.is_linear and all(one.is_linear for one in found.values())
        return [found[at] for at in range(self._count)]

    def ask(self, calls: Sequence[Sequence[Call]]) -> list[list[Any]]:
        check_time()
        asked = [
            (group, place, [calls[at] for at in place])
            for group, place in zip(self._groups, self._places, strict=True)
        ]
        waiting = [group.ask(mine) for group, _, mine in asked]
        here = self._here.ask(calls[self._count :])
        found: dict[int, list[Any]] = {}
        for (group, place, mine), wait in zip(asked, waiting, strict=True):
            found |= zip(place, self._heard(group, mine, wait), strict=True)
        return [*(found[at] for at in range(self._count)), *here]

    def _heard(
        self,
        group: Group,
        calls: Sequence[Sequence[Call]],
        wait: Callable[[], list[list[Any]]],
    ) -> list[list[Any]]:
        """The answers of a group. A sum needs every client, so all wait for a lost host."""
        tried = 0
        while True:
            try:
                return wait()
            except LostError:
                tried += 1
                if not self._waits(tried):
                    raise
                time.sleep(BEFORE_AGAIN)
                check_time()
                wait = group.ask(calls)

    def kept(self) -> dict[str, Any]:
        """The log of what all clients were told."""
        return {"groups": [group.kept() for group in self._groups], "here": self._here.kept()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Tell all what they were told."""
        for group, log in zip(self._groups, kept["groups"], strict=True):
            group.restore(log)
        self._here.restore(kept["here"])


class HostedMembers:
    """The clients of interior points at one host, by the group that they came in.

    Parameters
    ----------
    open_one : callable
        (data, columns, seen) -> the member.
    """

    def __init__(self, open_one: Callable[[bytes, np.ndarray, np.ndarray], Member]) -> None:
        self._open_one = open_one
        self._groups: dict[int, list[Member]] = {}

    def answered(self, said: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """The reply to a message to members."""
        number = said["members"]
        if "open" in said:
            return self._open(number, said["open"], arrays), {}
        if "close" in said:
            self._groups.pop(number, None)
            return {}, {}
        if number not in self._groups:
            return {"forgotten": "it was started anew, and has not who is asked"}, {}
        found: Arrays = {}
        names, first = said["calls"], said["silent"]
        for at, member in enumerate(self._groups[number]):
            calls = taken(names, arrays[f"{at}"], member.sizes)
            try:
                with np.errstate(all="ignore"):
                    results = [getattr(member, name)(*values) for name, *values in calls]
            except BROKEN as error:
                return {"broken": f"{type(error).__name__}: {error}"}, {}
            told = [flat(one) for one in results[first:]]
            found[f"{at}"] = np.concatenate([np.zeros(0), *told])
        return {}, found

    def _open(self, number: int, count: int, arrays: Arrays) -> dict[str, Any]:
        opened = []
        for at in range(count):
            columns, seen = arrays[f"columns {at}"], arrays[f"seen {at}"].astype(bool)
            if seen.size <= columns.max(initial=-1) or columns.min(initial=0) < 0:
                raise ValueError("interior point: the numbers of a client's variables are none")
            try:
                opened.append(self._open_one(arrays[f"data {at}"].tobytes(), columns, seen))
            except NotImplementedError as error:
                return {"error": f"there is no interior point for its cone {error}"}
        self._groups[number] = opened
        told = [(one.seen, one.sizes) for one in opened]
        return {"seen": [[*seen, *sizes] for seen, sizes in told]}
