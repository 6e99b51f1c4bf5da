"""Group of clients of one run, what its host has of them, and what is sent there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import RemoteClient
from dald_model.engines.convexity import ConvexityCheck
from dald_model.engines.engine import Engine, HostLostError
from dald_model.engines.failover import Failover, HostHandle, Loss, Sent
from dald_model.engines.hosted_clients import Known, read_answers, read_multipliers
from dald_model.engines.messages import answers, multipliers
from dald_model.engines.portable import pack, pack_edges
from dald_model.engines.wire import NUMBERS, Expected, Message, encode
from dald_model.errors import LostError
from dald_model.solvers.base import NOTHING, Answers, Encoding, Multipliers, Turn

ASKED_AGAIN = 1e-10
"""The accuracy of answers that are asked for again, for the multipliers that go with them."""


class RemoteSession:
    """Session of clients that are solved at a host, see :class:`dald_model.solvers.base.Session`.

    Attributes
    ----------
    number : int
    solver : str
        The name of the solver that it is of.
    subproblems : list of Subproblem
        What is packed, again where a host was lost.
    clients : list of int
        Their numbers at the host.
    known, told : Known
        What the host knows, and what the clients were told last, wherever they were then.
    check : ConvexityCheck or None
        Of the client of a site, whose objective nobody knows here.
    """

    def __init__(
        self, place: Place, solver: str, subproblems: Sequence[Subproblem], clients: list[int]
    ) -> None:
        self.place, self.solver, self.subproblems = place, solver, list(subproblems)
        self.number, self.clients = next(NUMBERS), clients
        self.sizes = np.array([sub.size for sub in self.subproblems])
        self.told = self._unknown()
        self._nothing: dict[int, Multipliers] = {}
        first, self.check = self.subproblems[0], None
        if isinstance(first.client, RemoteClient):
            self.check = ConvexityCheck(first, first.client.is_angular)
        self.forget()

    def forget(self) -> None:
        """The host knows nothing of it, or nothing any more."""
        self.known, self.is_placed = self._unknown(), False

    def _unknown(self) -> Known:
        return Known(np.array([sub.signs.size for sub in self.subproblems]), self.sizes)

    def renew(self) -> None:
        """Have the host open it anew, with the clients that it has."""
        if self.is_placed:
            self.place.renewed.append(self.number)

    def withheld(self, size: int) -> Multipliers:
        """Placeholders for the multipliers of ``count`` of its clients."""
        if size not in self._nothing:
            encodings = np.full(size, Encoding.ELSEWHERE, dtype=np.uint8)
            self._nothing[size] = Multipliers(NOTHING, np.zeros(size, dtype=int), encodings)
        return self._nothing[size]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        return self.place.ask([(self, turn)], tolerance)[0]()


Asked = tuple[RemoteSession, Turn]


class Place(Failover):
    """One group of clients in one run, what their host has of them, and what it is asked.

    Parameters
    ----------
    handles : sequence of HostHandle
        The hosts that may have them, their own first.

    Attributes
    ----------
    round : int
        In which it is asked.
    renewed : list of int
        Sessions that are to be opened anew.
    """

    def __init__(self, handles: Sequence[HostHandle], engine: Engine, losses: list[Loss]) -> None:
        super().__init__(handles, engine, losses)
        self._sessions: weakref.WeakValueDictionary[int, RemoteSession] = (
            weakref.WeakValueDictionary()
        )
        self._released: list[int] = []
        self.renewed: list[int] = []
        self._clients: dict[Hashable, int] = {}
        self._is_to_keep = self._has_kept = False
        self._kept: list[Asked] = []
        self._missing: set[int] = set()  # whose last answers were lost with the host

    def _names(self) -> Collection[Hashable]:
        return self._clients

    def open(self, solver: str, subproblems: Sequence[Subproblem]) -> RemoteSession:
        """A session of clients that are placed when they are first asked."""
        for sub in subproblems:
            self._clients.setdefault(sub.name, next(NUMBERS))
        numbers = [self._clients[sub.name] for sub in subproblems]
        session = RemoteSession(self, solver, subproblems, numbers)
        self._sessions[session.number] = session
        weakref.finalize(session, self._released.append, session.number).atexit = False
        return session

    def ask(self, asked: Sequence[Asked], tolerance: float) -> list[Callable[[], Answers]]:
        """Begin to ask sessions, in one message; gives what waits for each answer."""
        sent = self._send(asked, tolerance)
        replied: list[list[Answers] | LostError] = []

        def wait(at: int) -> Answers:
            if not replied:
                replied.append(self._answered(sent, asked, tolerance))
            if isinstance(replied[0], LostError):
                raise replied[0]
            return replied[0][at]

        return [lambda at=at: wait(at) for at in range(len(asked))]

    def _answered(
        self, sent: Sent, asked: Sequence[Asked], tolerance: float
    ) -> list[Answers] | LostError:
        try:
            found = self._received(
                sent,
                lambda: self._send(asked, tolerance),
                lambda message: _read(message, asked, tolerance),
            )
        except LostError as error:
            return error
        for session, turn in asked:
            session.told.news(turn)
        if self._missing:
            self._missing -= {s.clients[at] for s, turn in asked for at in turn.which}
        return found

    def keep(self) -> None:
        """Have the multipliers of the last answers kept, as those of the best iterate."""
        self._is_to_keep, self._has_kept = not self._missing, False
        turns = [(session, session.told.copy()) for session in self._sessions.values()]
        self._kept = [(session, turn) for session, turn in turns if turn.which.size]

    def collect(self, names: Sequence[Hashable]) -> Multipliers:
        """The multipliers of some clients that were kept last.

        Of a host that was lost since, its clients are asked again what they were asked then.
        """

        def again() -> Sent:
            return self._send(self._kept, ASKED_AGAIN)

        def send() -> Sent:
            self._notice()
            if not (self._has_kept or self._is_to_keep):
                self._received(again(), again)
                self._is_to_keep, self._missing = True, set(self._clients.values())
            numbers = [self._clients[name] for name in names]
            said = {"collect": numbers, "kept": True}
            return self._dispatch(said, {}, multipliers(len(numbers)))

        return self._received(send(), send, read_multipliers)

    def close(self) -> None:
        """Have the host forget the run, whenever it comes to that."""
        self._released += list(self._sessions)
        said = {"forget": list(self._clients.values()), "asks": [], "tolerance": 1.0}
        self._dispatch(said, {}, answers([], is_strict=False))

    def _send(self, asked: Sequence[Asked], tolerance: float) -> Sent:
        """Send what is new to each session, and the clients themselves where they are not there."""
        self._notice()
        asks, arrays = [], {}
        places = []
        for at, (session, turn) in enumerate(asked):
            if not session.is_placed:
                places.append(self._packed(session, arrays))
            news = session.known.news(turn)
            arrays |= {f"{at}.{name}": values for name, values in news.items()}
            asks.append({"session": session.number, "news": list(news)})
        sizes = [(turn.which.size, int(session.sizes[turn.which].sum())) for session, turn in asked]
        is_strict = any(sub.client.is_remote for s, _ in asked for sub in s.subproblems)
        said = {"place": places, "asks": asks, "tolerance": tolerance}
        return self._dispatch(said, arrays, answers(sizes, is_strict))

    def _packed(self, session: RemoteSession, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        for number, sub in zip(session.clients, session.subproblems, strict=True):
            packed = pack_edges(sub) if sub.client.is_remote else pack(sub)
            arrays[f"client {number}"] = np.frombuffer(packed, dtype=np.uint8)
        session.is_placed = True
        return {
            "session": session.number,
            "solver": session.solver,
            "clients": session.clients,
        }

    def _dispatch(
        self, said: dict[str, Any], arrays: dict[str, np.ndarray], expected: Expected
    ) -> Sent:
        released, self._released[:] = list(self._released), []
        said |= {"number": next(NUMBERS), "round": self.round, "release": released}
        said["renew"], self.renewed = self.renewed, []
        if self._is_to_keep:
            said["keep"] = [session.number for session, _ in self._kept]
            self._is_to_keep, self._has_kept = False, True
        return Sent(self._handle.send(encode(said, arrays)), said["number"], expected)

    def _notice(self) -> None:
        """Be ready to place everybody anew where the host was given up, by whomever."""
        if self._life == self._handle.life:
            return
        self._life = self._handle.life
        self._has_kept = self._is_to_keep = False
        self._missing = set(self._clients.values())
        self.renewed = []  # all are
        for session in self._sessions.values():
            session.forget()


def _read(message: Message, asked: Sequence[Asked], tolerance: float) -> list[Answers]:
    """The answers of sessions.

    Raises
    ------
    HostLostError
        If those of a site are not of one convex function.
    """
    arrays, told = message.arrays, message.said["answers"]
    found = []
    for at, ((session, turn), one) in enumerate(zip(asked, told, strict=True)):
        start = f"{at}."
        values = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
        answers = read_answers(one, values, session.withheld(turn.which.size))
        said = "" if session.check is None else session.check.seen(turn, answers, tolerance)
        if said:
            raise HostLostError(f"its answers are not those of one convex function: {said}")
        found.append(answers)
    return found
