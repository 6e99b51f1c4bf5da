"""Questions to sites before the first round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dald_model.engines.engine import Engine, Host, HostLostError
from dald_model.engines.numbers import NUMBERS
from dald_model.engines.wire import Message, decode, encode
from dald_model.errors import RunError
from dald_model.text import counted


def ask_all(engine: Engine, hosts: Sequence[Host], kind: str) -> list[Message]:
    """What each host answers, all asked at once.

    Raises
    ------
    RunError
        If one does not.
    """
    messages = [_question(kind, {}) for _ in hosts]
    waiting = [host.send(message) for host, message in zip(hosts, messages, strict=True)]
    return [_received(engine, *each) for each in zip(hosts, messages, waiting, strict=True)]


def ask(
    engine: Engine, host: Host, kind: str, arrays: Mapping[str, np.ndarray]
) -> Callable[[], dict[str, np.ndarray]]:
    """Begin to ask one host; gives what waits for the arrays that it answers."""
    message = _question(kind, arrays)
    reply = host.send(message)
    return lambda: _received(engine, host, message, reply).arrays


def _question(kind: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    return encode({"number": next(NUMBERS), "question": kind}, arrays)


def _received(engine: Engine, host: Host, message: bytes, reply: Any) -> Message:
    """Wait for a reply; where none comes, ask again."""
    error: Exception | None = None
    for _ in range(engine.retries + 1):
        if error is not None:
            host.restart()
            reply = host.send(message)
        try:
            found = decode(reply.result(engine.deadline))
        except (TimeoutError, HostLostError) as lost:
            error = lost
            continue
        if "error" in found.said:
            raise RunError(f"engine: {host.name} failed before round 1 ({found.said['error']})")
        return found
    raise RunError(
        f"engine: {host.name} was asked {counted(engine.retries + 1, 'time')} before round 1 and "
        f"did not answer ({error or f'no reply within {engine.deadline} s'}); see that the site "
        "runs, or allow a longer deadline"
    )
