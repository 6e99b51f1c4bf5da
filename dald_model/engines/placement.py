"""Clients of one run at the hosts of an engine, and what is sent to them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.engines.engine import Engine, Host, HostLostError, Reply
from dald_model.engines.numbers import NUMBERS
from dald_model.engines.portable import pack
from dald_model.engines.residents import Known, read_answers, read_multipliers
from dald_model.engines.site_edges import pack_edges
from dald_model.engines.wire import Message, decode, encode
from dald_model.errors import RunError
from dald_model.solvers.base import NOTHING, Answers, Encoding, Multipliers, Turn
from dald_model.text import counted, shortened

FINEST = 1e-10
"""The accuracy of answers that are asked for again, for the multipliers that go with them."""
NAMED_IN_FULL = 80
"""The most letters of names of clients in a message."""


class Loss(NamedTuple):
    """A host that was lost in a round, and its clients, which were placed and asked again."""

    round: int
    host: str
    clients: tuple[Hashable, ...]
    message: str


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
    """

    def __init__(
        self, place: Place, solver: str, subproblems: Sequence[Subproblem], clients: list[int]
    ) -> None:
        self.place, self.solver, self.subproblems = place, solver, list(subproblems)
        self.number, self.clients = next(NUMBERS), clients
        self.told = self._unknown()
        self._nothing: dict[int, Multipliers] = {}
        self.forget()

    def forget(self) -> None:
        """The host knows nothing of it, or nothing any more."""
        self.known, self.is_placed = self._unknown(), False

    def _unknown(self) -> Known:
        heights = np.array([sub.signs.size for sub in self.subproblems])
        return Known(heights, np.array([sub.size for sub in self.subproblems]))

    def renew(self) -> None:
        """Have the host open it anew, with the clients that it has."""
        if self.is_placed:
            self.place.renewed.append(self.number)

    def withheld(self, size: int) -> Multipliers:
        """What stands for the multipliers of so many of its clients."""
        if size not in self._nothing:
            encodings = np.full(size, Encoding.ELSEWHERE, dtype=np.uint8)
            self._nothing[size] = Multipliers(NOTHING, np.zeros(size, dtype=int), encodings)
        return self._nothing[size]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        return self.place.ask([(self, turn)], tolerance)[0]()


Asked = tuple[RemoteSession, Turn]


class Place:
    """One host in one run: what it has, and what it is asked.

    Attributes
    ----------
    round : int
        In which it is asked.
    renewed : list of int
        Sessions that are to be opened anew.
    """

    def __init__(self, host: Host, engine: Engine, losses: list[Loss]) -> None:
        self._host, self._engine, self._losses = host, engine, losses
        self._sessions: weakref.WeakValueDictionary[int, RemoteSession] = (
            weakref.WeakValueDictionary()
        )
        self._released: list[int] = []
        self.renewed: list[int] = []
        self._clients: dict[Hashable, int] = {}
        self._is_to_keep = self._has_kept = False
        self._kept: list[Asked] = []
        self._missing: set[int] = set()  # whose last answers were lost with the host
        self.round = 0

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
        replied: list[list[Answers]] = []

        def wait(at: int) -> Answers:
            if not replied:
                message = self._received(sent, lambda: self._send(asked, tolerance))
                replied.append(list(_read(message, asked)))
                if self._missing:
                    self._missing -= {s.clients[at] for s, turn in asked for at in turn.which}
            return replied[0][at]

        return [lambda at=at: wait(at) for at in range(len(asked))]

    def keep(self) -> None:
        """Have the multipliers of the last answers kept, as those of the best iterate."""
        self._is_to_keep, self._has_kept = not self._missing, False
        turns = [(session, session.told.copy()) for session in self._sessions.values()]
        self._kept = [(session, turn) for session, turn in turns if turn.which.size]

    def collect(self, names: Sequence[Hashable]) -> Multipliers:
        """The multipliers of some clients that were kept last.

        Of a host that was lost since, its clients are asked again what they were asked then.
        """

        def again() -> Reply:
            return self._send(self._kept, FINEST, is_new=False)

        def send() -> Reply:
            if not (self._has_kept or self._is_to_keep):
                self._received(again(), again)
                self._is_to_keep, self._missing = True, set(self._clients.values())
            numbers = [self._clients[name] for name in names]
            return self._dispatch({"collect": numbers, "kept": True}, {})

        return read_multipliers(self._received(send(), send))

    def close(self) -> None:
        """Have the host forget the run, whenever it comes to that."""
        self._released += list(self._sessions)
        self._dispatch({"forget": list(self._clients.values()), "asks": [], "tolerance": 1.0}, {})

    def _send(self, asked: Sequence[Asked], tolerance: float, *, is_new: bool = True) -> Reply:
        """Send what is new to each session, and the clients themselves where they are not there.

        What is not new is asked again, of the best iterate.
        """
        said, arrays = [], {}
        places = []
        for at, (session, turn) in enumerate(asked):
            if not session.is_placed:
                places.append(self._packed(session, arrays))
            news = session.known.news(turn)
            if is_new:
                session.told.news(turn)
            arrays |= {f"{at}.{name}": values for name, values in news.items()}
            said.append({"session": session.number, "news": list(news)})
        return self._dispatch({"place": places, "asks": said, "tolerance": tolerance}, arrays)

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

    def _dispatch(self, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> Reply:
        released, self._released[:] = list(self._released), []
        said |= {"number": next(NUMBERS), "round": self.round, "release": released}
        said["renew"], self.renewed = self.renewed, []
        if self._is_to_keep:
            said["keep"], self._is_to_keep, self._has_kept = True, False, True
        return self._host.send(encode(said, arrays))

    def _received(self, reply: Reply, again: Callable[[], Reply]) -> Message:
        """Wait for a reply, restart the host where none comes, and ask again."""
        for left in reversed(range(self._engine.retries + 1)):
            try:
                message = decode(reply.result(self._engine.deadline))
            except (TimeoutError, HostLostError) as error:
                self._lose(error, is_last=not left)
                reply = again()
                continue
            if "error" in message.said:
                raise RunError(
                    f"engine: {self._host.name} failed in round {self.round} "
                    f"({message.said['error']}); its clients are {self._who()}"
                )
            return message
        raise AssertionError("the last loss has raised")

    def _lose(self, error: Exception, *, is_last: bool) -> None:
        """Write a loss down, and be ready to place everybody anew, if that is still to be tried."""
        said = str(error) or f"no reply within {self._engine.deadline} s"
        self._losses.append(Loss(self.round, self._host.name, tuple(self._clients), said))
        self._has_kept = self._is_to_keep = False
        self._missing = set(self._clients.values())
        self.renewed = []  # all are
        for session in self._sessions.values():
            session.forget()
        self._host.restart()
        if is_last:
            raise RunError(
                f"engine: {self._host.name} was lost {counted(self._engine.retries + 1, 'time')} "
                f"in round {self.round} ({said}); its clients are {self._who()}; what was found is "
                "kept, as `result` of this error; allow more memory or a longer deadline, or solve "
                "them in this process (engine=None)"
            )

    def _who(self) -> str:
        return shortened(", ".join(map(repr, self._clients)), NAMED_IN_FULL)


def _read(message: Message, asked: Sequence[Asked]) -> Iterator[Answers]:
    arrays, answers = message.arrays, message.said["answers"]
    for at, ((session, turn), told) in enumerate(zip(asked, answers, strict=True)):
        start = f"{at}."
        values = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
        yield read_answers(told, values, session.withheld(turn.which.size))


class Placement:
    """Clients of one run at the hosts of an engine.

    Attributes
    ----------
    losses : list of Loss
        Hosts that were lost so far.
    """

    def __init__(self, engine: Engine) -> None:
        self.losses: list[Loss] = []
        self._places = [Place(host, engine, self.losses) for host in engine.hosts()]

    def homes(self, levels: Iterable[Sequence[Sequence[Subproblem]]]) -> dict[Hashable, int]:
        """Client -> the number of its host.

        ``levels`` are the clients that are solved side by side, by session. Each level is shared
        out by itself, so that all hosts are busy at the same time; clients of a session that follow
        each other stay together.
        """
        found: dict[Hashable, int] = {}
        for level in levels:
            loads = np.zeros(len(self._places))
            for group in level:
                parts = np.array_split(np.arange(len(group)), loads.size)
                order = np.argsort(loads, kind="stable")
                for host, part in zip(order.tolist(), parts, strict=True):
                    found |= {group[at].name: host for at in part}
                    loads[host] += sum(_weight(group[at]) for at in part)
        return found

    def open(self, home: int, solver: str, subproblems: Sequence[Subproblem]) -> RemoteSession:
        """A session at a host."""
        return self._places[home].open(solver, subproblems)

    def ask(
        self, asked: Sequence[Asked], tolerance: float, round_: int
    ) -> list[Callable[[], Answers]]:
        """Begin to ask sessions, all hosts at once; gives what waits for each answer."""
        found: dict[int, Callable[[], Answers]] = {}
        for place in self._places:
            place.round = round_
            mine = [at for at, (session, _) in enumerate(asked) if session.place is place]
            if mine:
                found |= zip(mine, place.ask([asked[at] for at in mine], tolerance), strict=True)
        return [found[at] for at in range(len(asked))]

    def keep(self) -> None:
        """See :meth:`Place.keep`."""
        for place in self._places:
            place.keep()

    def collect(self, home: int, names: Sequence[Hashable]) -> Multipliers:
        """See :meth:`Place.collect`."""
        return self._places[home].collect(names)

    def close(self) -> None:
        """The run is over."""
        for place in self._places:
            place.close()


def _weight(sub: Subproblem) -> int:
    """About what a client costs: the numbers that a product with its data takes."""
    form = sub.form
    if form is None:
        return 1
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    return sub.size * (sub.size + rows + sum(term.offset.size for term in form.terms))
