"""Clients that stay at a host, with their sessions, and the answers they give.

This is the end of an engine that is where the clients are. It knows packed clients and arrays, and
nothing of cvxpy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dald_model.engines.members import HostedMembers
from dald_model.engines.messages import check_request
from dald_model.engines.portable import Portable, unpack
from dald_model.engines.schema import Array, DamagedError, Whole
from dald_model.engines.wire import Message, decode, encode
from dald_model.solvers.arrays.indexing import ranges
from dald_model.solvers.base import NOTHING, Answers, Encoding, Multipliers, Session, Solver, Turn
from dald_model.solvers.interior.member import Member
from dald_model.solvers.registry import NAMED

ANEW = "it was started anew, and has not who is asked"
"""The reply of a host that was restarted and no longer has its clients."""
NUMBER, UNKNOWN = Whole(), -1
"""Number of a message, and what stands for that of one which has none."""
PER_EDGE, PER_VARIABLE = ("mu", "rho", "neighbours"), ("lengths", "slopes")
"""Arrays of a turn with one entry per edge entry, and per variable, of a client."""


class Known:
    """The last values sent to the clients of a session; the coordinator holds the same.

    So only what changed is sent. Of the arrays of a turn each has an entry for all edges or all
    variables of the session's clients, one client after the other.

    Attributes
    ----------
    everybody : ndarray of int, shape (k,)
        The positions of all clients.

    Parameters
    ----------
    heights, sizes : ndarray of int, shape (k,)
        Entries of their edges, and variables, of each client.
    """

    def __init__(self, heights: np.ndarray, sizes: np.ndarray) -> None:
        self.everybody = np.arange(sizes.size)
        self._each = dict.fromkeys(PER_EDGE, heights) | dict.fromkeys(PER_VARIABLE, sizes)
        self.values = {name: np.full(int(each.sum()), np.nan) for name, each in self._each.items()}

    def news(self, turn: Turn) -> dict[str, np.ndarray]:
        """The arrays of a turn that changed; they are known from now on.

        Of all clients of the turn, if of one.
        """
        found = {}
        is_whole = np.array_equal(turn.which, self.everybody)
        for name, known in self.values.items():
            given = getattr(turn, name)
            at = slice(None) if is_whole else self._at(name, turn.which)
            if given.size == 0 or not np.array_equal(known[at], given):
                found[name] = given
            if given.size:
                known[at] = given
        if not is_whole:
            found["which"] = turn.which
        return found

    def turn(self, news: dict[str, np.ndarray]) -> Turn:
        """The turn of which these are the news."""
        is_whole = "which" not in news
        which = self.everybody if is_whole else news["which"]
        whole = {}
        for name, known in self.values.items():
            at = slice(None) if is_whole else self._at(name, which)
            if name in news and news[name].size:
                known[at] = news[name]
            whole[name] = news[name] if name in news else known[at]
        return Turn(which, points=NOTHING, **whole)

    def admitted(self, news: dict[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """News from elsewhere: positions of clients, and a finite number for each entry."""
        which = self.everybody
        if "which" in news:
            place = Array("i8", (None,), 0, self.everybody.size - 1)
            _check(place, news["which"], f"{where}which")
            which = news["which"]
            if np.unique(which).size < which.size:
                raise DamagedError(f"{where}which names a client twice")
        for name in news.keys() - {"which"}:
            wanted = int(self._each[name][which].sum())
            is_left_out = name in PER_VARIABLE and not news[name].size
            numbers = Array("f8", (0 if is_left_out else wanted,), -math.inf, math.inf)
            _check(numbers, news[name], f"{where}{name}")
        return news

    def copy(self) -> Turn:
        """The last turn of all clients that had one."""
        starts = np.cumsum(self._each["mu"]) - self._each["mu"]
        which = np.flatnonzero(~np.isnan(self.values["mu"][starts]))
        found = self.turn({"which": which})
        return found._replace(**{name: getattr(found, name).copy() for name in self.values})

    def _at(self, name: str, which: np.ndarray) -> np.ndarray:
        each = self._each[name]
        starts = np.cumsum(each) - each
        return ranges(starts[which], each[which])


def _check(wanted: Array, given: np.ndarray, where: str) -> None:
    wanted.check_head(given.dtype.str[1:], given.shape, where)
    wanted.check(given, where)


class _Resident(NamedTuple):
    """A session, what its clients know, and the numbers by which they are asked for."""

    session: Session
    known: Known
    clients: list[int]
    solver: Solver
    data: list[Portable]


class ForgottenError(Exception):
    """Somebody is asked whom this host has not, as it was started anew; never shown to the user."""


class Residents:
    """The clients at one host, and their answers, exactly once by number.

    A message of the number that was answered last gets the same bytes again: nobody is solved
    twice, which would move warm starts.
    """

    def __init__(self) -> None:
        self._number, self._reply = -1, b""
        self._sessions: dict[int, _Resident] = {}
        self._last: dict[int, tuple[Encoding, np.ndarray]] = {}
        self._kept: dict[int, tuple[Encoding, np.ndarray]] = {}
        self._members = HostedMembers(self.member)

    def handle(self, message: bytes) -> bytes:
        """The reply to a message; an exception on the way is one, too.

        So is a message that no coordinator sends: its reply says what is wrong with it.
        """
        number = UNKNOWN
        try:
            said, arrays = decode(message)
            NUMBER.check(said.get("number"), "number")
            if said["number"] == self._number:
                return self._reply
            number = said["number"]
            check_request(said)
            answered, found = self.answered(said, arrays)
        except ForgottenError as error:
            answered, found = {"forgotten": str(error)}, {}
        except DamagedError as error:
            answered, found = {"error": f"the message was refused: {error}"}, {}
        except Exception as error:  # whatever a solver raises is told, not lost with the process
            answered, found = {"error": f"{type(error).__name__}: {error}"}, {}
        reply = encode({"number": number, **answered}, found)
        if number != UNKNOWN:
            self._number, self._reply = number, reply
        return reply

    def answered(
        self, said: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The reply to a message that was not answered before."""
        if "members" in said:
            return self._members.answered(said, arrays)
        for number in said.get("release", ()):
            self._sessions.pop(number, None)
        for number in said.get("forget", ()):
            self._last.pop(number, None)
            self._kept.pop(number, None)
        for number in said.get("keep", ()):
            mine = self._sessions[number].clients if number in self._sessions else ()
            self._kept |= {client: self._last[client] for client in mine if client in self._last}
        for number in said.get("renew", ()):
            if number in self._sessions:
                old = self._sessions[number]
                self._sessions[number] = old._replace(session=_opened(old.solver, old.data))
        for each in said.get("place", ()):
            self._place(each, arrays)
        if "collect" in said:
            return self._collected(said["collect"], said["kept"])
        answers, found = [], {}
        for at, each in enumerate(said["asks"]):
            resident = self._session(each["session"])
            news = resident.known.admitted(
                {name: _sent(arrays, f"{at}.{name}") for name in each["news"]}, f"{at}."
            )
            told, values = self._ask(resident, news, said["tolerance"])
            answers.append(told)
            found |= {f"{at}.{name}": value for name, value in values.items()}
        return {"answers": answers}, found

    def _session(self, number: int) -> _Resident:
        if number not in self._sessions:
            raise ForgottenError(ANEW)
        return self._sessions[number]

    def _place(self, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        packed = [_sent(arrays, f"client {number}").tobytes() for number in said["clients"]]
        solver, clients = self.taken(said["solver"], packed)
        heights = np.array([client.signs.size for client in clients])
        known = Known(heights, np.array([client.size for client in clients]))
        session = _opened(solver, clients)
        self._sessions[said["session"]] = _Resident(
            session, known, said["clients"], solver, clients
        )

    def taken(self, solver: str, packed: list[bytes]) -> tuple[Solver, list[Portable]]:
        """The solver of this name, and the clients that are placed with it."""
        if solver not in NAMED:
            raise DamagedError(f"the solver {solver!r} is none")
        return NAMED[solver], [unpack(one) for one in packed]

    def member(self, data: bytes, columns: np.ndarray, seen: np.ndarray) -> Member:
        """The client of an interior point, whose variables have these numbers."""
        found = unpack(data)
        return Member({found.name: found.form}, {found.name: columns}, seen)

    def _ask(
        self, resident: _Resident, news: dict[str, np.ndarray], tolerance: float
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Solve some clients; their multipliers stay here until they are asked for."""
        turn = resident.known.turn(news)
        answers = resident.session.minimise(turn, tolerance)
        stops = np.cumsum(answers.multipliers.lengths)
        parts = np.split(answers.multipliers.values, stops[:-1])
        for at, encoding, values in zip(
            turn.which, answers.multipliers.encodings, parts, strict=True
        ):
            if encoding == Encoding.ROWS and values.size:  # those of records stay with these
                values = values[: sum(resident.data[at].form.heights)]
            self._last[resident.clients[at]] = Encoding(encoding), values
        failed = {i: s for i, s in enumerate(answers.statuses) if s != "optimal"}
        told = {"statuses": list(failed.items()), "messages": list(answers.messages.items())}
        values = {"points": answers.points, "objectives": answers.objectives}
        if answers.slack.size:
            values |= {"slack": answers.slack, "slack_scaled": answers.slack_scaled}
        return told, values

    def _collected(
        self, clients: list[int], kept: bool
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The multipliers of some clients, from when they were to be kept or from now."""
        source = self._kept if kept else self._last
        if not source.keys() >= {*clients}:
            raise ForgottenError(ANEW)
        found = Multipliers.joined([source[number] for number in clients])
        arrays = {"values": found.values, "lengths": found.lengths, "encodings": found.encodings}
        return {}, arrays


def _sent(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise DamagedError(f"the array {name} is missing")
    return arrays[name]


def _opened(solver: Solver, clients: list[Portable]) -> Session:
    data: Any = clients  # which solvers know by the same names as subproblems
    return solver.open(data)


def read_answers(
    told: dict[str, Any], values: dict[str, np.ndarray], multipliers: Multipliers
) -> Answers:
    """Answers as they came, with multipliers that say that these are elsewhere."""
    statuses = ["optimal"] * values["objectives"].size
    for at, status in told["statuses"]:
        statuses[at] = status
    slack = (values[name] for name in ("slack", "slack_scaled") if name in values)
    return Answers(
        values["points"],
        values["objectives"],
        statuses,
        multipliers,
        dict(told["messages"]),
        *slack,
    )


def read_multipliers(message: Message) -> Multipliers:
    """The collected multipliers."""
    arrays = message.arrays
    return Multipliers(arrays["values"], arrays["lengths"], arrays["encodings"])
