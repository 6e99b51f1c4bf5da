"""Engine of Flower: a federation of sites that dial in to a SuperLink."""

from __future__ import annotations

import time
from concurrent.futures import Future
from importlib import import_module
from threading import Event
from typing import Any

from dald_model.engines.engine import HostLostError
from dald_model.engines.io_thread import IOThread
from dald_model.errors import OptionError, RunError
from dald_model.text import counted
from dald_model.validate import argument, check_positive, check_whole

RECORD, FIELD = "dald_model", "message"
"""Where the bytes of a message and of its reply are in Flower's record."""
POLL = 0.1
"""Seconds between two looks for a reply."""


class Flower:
    """Sites that are connected to Flower's SuperLink, one client each.

    The coordinator is a Flower ServerApp, which has the ``grid``. Each node runs
    :func:`dald_model.engines.flower.client_app`, which declares its site, or passes the bytes to a
    process of the site's own (:meth:`dald_model.Site.serve`) and back: then the node sees no data.
    ``notebooks/hospitals`` has all parts, and starts them on one machine: under Flower's simulation
    or in deployment, with TLS and registered keys.

    A round in deployment takes **seconds**: Flower 1.41 starts a process for each message, 1.3 s of
    a core, and a SuperNode looks for messages every three seconds. Measured with three hospitals on
    two cores: a round in 6.5 to 10 s at load 4, the federation of 8 rounds in 94 s, and in 9.7 to
    12.5 s at load 8, the federation in 130 s. One site alone took 8.0 to 11.5 s there, and a
    message of a megabyte no longer. The default acceleration needs some tens of rounds, so that a
    federation takes minutes; without it, hours.

    A message of Flower is one record with one field of bytes, :mod:`dald_model.engines.wire`:
    arrays and JSON, no pickle. What is in it is that of :class:`dald_model.engines.Sites`, and so
    are the iterates, bit for bit.

    A site that does not reply by the ``deadline``, or whose Flower client fails, is asked again
    ``retries`` times. Each site is waited for in a thread of its own, since Flower's own waiting
    can stay in one call for three minutes where a SuperNode died while it sent a reply. What a
    site's process holds is declared again where that was started anew. No other site can take its
    client, whose data it alone has.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        What Flower hands to the ServerApp's ``main``.
    sites : int
        How many are waited for before the first message.
    retries : int
        How often in one round a site is asked again before the run ends.
    deadline : float
        Seconds that a site has for a reply, and in which it has to be connected.

    Raises
    ------
    OptionError
        If ``grid`` is none, or a number means nothing.

    Examples
    --------
    ``python notebooks/hospitals/run.py`` starts this ServerApp, in short::

        import dald_model as dm
        from flwr.serverapp import ServerApp

        app = ServerApp()

        @app.main()
        def main(grid, context):
            with dm.engines.Flower(grid, sites=3) as engine:
                result = dm.Federation(engine).solve()
            print(result.status)  # optimal
    """

    interchangeable = False

    def __init__(self, grid: Any, *, sites: int, retries: int = 1, deadline: float = 300.0) -> None:
        check_whole(argument(self, "sites"), sites)
        check_whole(argument(self, "retries"), retries, 0)
        check_positive(argument(self, "deadline"), deadline)
        lacking = [one for one in ("get_node_ids", "push_messages") if not hasattr(grid, one)]
        if lacking:
            raise OptionError(
                f"Flower: given {grid!r}, expected the grid that Flower hands to the main function "
                "of a ServerApp"
            )
        self.sites, self.retries, self.deadline = sites, retries, deadline
        self._grid = grid
        self._nodes: list[FlowerNode] = []

    def hosts(self) -> list[FlowerNode]:
        """See :class:`dald_model.engines.engine.Engine`.

        Raises
        ------
        RunError
            If there are not as many sites within the deadline.
        """
        end = time.monotonic() + self.deadline
        while not self._nodes:
            found = sorted(self._grid.get_node_ids())
            if len(found) >= self.sites:
                self._nodes = [FlowerNode(self._grid, node, self.deadline) for node in found]
            elif time.monotonic() > end:
                raise RunError(
                    f"Flower: {counted(len(found), 'site')} connected within {self.deadline} s, "
                    f"expected {self.sites}; see that each SuperNode runs and its key is registered"
                )
            else:
                time.sleep(POLL)
        return self._nodes

    def close(self) -> None:
        """Leave the sites alone; a later solve asks them again."""
        for node in self._nodes:
            node.stop()
        self._nodes = []

    def __enter__(self) -> Flower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Flower(sites={self.sites})"


class FlowerNode:
    """A SuperNode, and the :class:`IOThread` that sends to it and waits for its replies."""

    def __init__(self, grid: Any, node: int, deadline: float) -> None:
        self.name = f"node {node}"
        self._grid, self._node, self._deadline = grid, node, deadline
        self._begin()

    def _begin(self) -> None:
        ended = self._ended = Event()
        self._thread = IOThread(lambda message: self._asked(message, ended), ended.set)

    def send(self, message: bytes) -> Future[bytes]:
        return self._thread.send(message)

    def restart(self) -> None:
        """See :class:`dald_model.engines.engine.Host`; a late reply is not read any more."""
        self.stop()
        self._begin()

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._ended.set()
        self._thread.stop()

    def _asked(self, message: bytes, ended: Event) -> bytes:
        app = import_module("flwr.app")  # who has a grid has it
        content = app.RecordDict({RECORD: app.ConfigRecord({FIELD: message})})
        # Else a site that comes back works through what nobody waits for
        ttl = self._deadline
        sent = app.Message(content, self._node, "query", ttl=ttl)
        (number,) = self._grid.push_messages([sent])
        while not ended.is_set():
            for reply in self._grid.pull_messages([number]):
                if reply.has_error():
                    raise HostLostError(f"{self.name}: {reply.error.reason or reply.error.code}")
                found = reply.content[RECORD][FIELD]
                if not isinstance(found, bytes):
                    raise HostLostError(f"{self.name} replied {type(found).__name__}, no bytes")
                return found
            ended.wait(POLL)
        raise HostLostError(f"{self.name} is not waited for any more")
