"""Questions to sites before the first round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dald_model.engines.engine import Engine, Host, HostLostError
from dald_model.engines.messages import admitted, introduction, question
from dald_model.engines.wire import NUMBERS, Expected, Message, encode
from dald_model.errors import LostError
from dald_model.text import counted
from dald_model.values import others_turn


def ask_all(engine: Engine, hosts: Sequence[Host]) -> list[Message]:
    """How each host introduces itself, all asked at once.

    Raises
    ------
    RunError
        If one does not.
    """
    asked = [_Question(engine, host, "introduce", {}, introduction) for host in hosts]
    return [one.received() for one in asked]


def ask(
    engine: Engine, host: Host, size: int, kind: str, arrays: Mapping[str, np.ndarray]
) -> Callable[[], dict[str, np.ndarray]]:
    """Begin to ask one host, which shares so many entries; gives what waits for its arrays."""
    asked = _Question(engine, host, kind, arrays, question(kind, size))
    return lambda: asked.received().arrays


class _Question:
    """A question that is on its way."""

    def __init__(
        self,
        engine: Engine,
        host: Host,
        kind: str,
        arrays: Mapping[str, np.ndarray],
        expected: Expected,
    ) -> None:
        self._engine, self._host, self._expected = engine, host, expected
        self._number = next(NUMBERS)
        self._message = encode({"number": self._number, "question": kind}, arrays)
        self._reply = host.send(self._message)

    def received(self) -> Message:
        """Wait for the reply; where none comes, or it is refused, ask again."""
        engine, host = self._engine, self._host
        error: Exception | None = None
        for _ in range(engine.retries + 1):
            try:
                if error is not None:
                    host.restart()
                    self._reply = host.send(self._message)
                with others_turn():  # a site in a thread of this process may compile
                    reply = self._reply.result(engine.deadline)
                return admitted(reply, self._number, self._expected)
            except (TimeoutError, HostLostError) as lost:
                error = lost
        said = str(error) or f"no reply within {engine.deadline} s"
        raise LostError(
            f"engine: {host.name} was asked {counted(engine.retries + 1, 'time')} before round 1 "
            f"and gave no answer that can be used ({said}); see that the site runs with this "
            "version of dald_model, or allow a longer deadline"
        )
