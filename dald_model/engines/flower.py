"""Federations by `Flower <https://flower.ai>`_: the client app, a strategy, and the engine.

=====================  ===========================================================================
:func:`client_app`     a ClientApp of a site that ``declare(context)`` gives
:class:`Strategy`      ``Strategy(sites=3).start(grid)`` in a ServerApp
:class:`Flower`        ``dm.Federation(dm.engines.Flower(grid, sites=3))`` in a ServerApp
=====================  ===========================================================================

``notebooks/hospitals`` is a Flower app of all three parts, for Flower's simulation and deployment.
Flower itself is imported when the first of them is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dald_model.engines.archive import DamagedError
from dald_model.engines.flower_engine import FIELD, RECORD, Flower
from dald_model.engines.flower_strategy import Strategy
from dald_model.engines.in_process import Answering
from dald_model.engines.wire import decode
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import optional

__all__ = ["FIELD", "RECORD", "Flower", "Strategy", "client_app"]

LOG = "log"
"""Where the messages that a site has answered are in the state of its context."""


class _Live(NamedTuple):
    """A site in this process, and the messages that it has answered."""

    site: Answering
    log: list[bytes]


_live: dict[int, tuple[int, _Live]] = {}
"""Node -> run and site. Of the process and not of the app: Ray unpickles the app per message."""


def client_app(declare: Callable[[Any], Answering]) -> Any:
    """A Flower ClientApp that answers for the site that ``declare`` gives.

    A site's replies are a function of the messages since it introduced itself. The app keeps these
    in the state of Flower's context; a process that has not answered all of them, as under the
    Simulation Runtime or after a restart, declares the site and answers them again before the new
    one. So the iterates are those of :class:`dald_model.engines.Sites`, bit for bit, wherever
    Flower runs a message. The log grows by one message per round, some 8 bytes for each entry that
    the site shares and 300 besides.

    Parameters
    ----------
    declare : function
        Flower's ``Context`` to a :class:`dald_model.Site`. The simulation numbers the nodes,
        ``context.node_config["partition-id"]``; a SuperNode has what its ``--node-config`` says.

    Returns
    -------
    flwr.clientapp.ClientApp
        Its ``query`` is taken; ``train`` and ``evaluate`` are free.

    Raises
    ------
    MissingError
        If Flower is not installed.

    Examples
    --------
    ``notebooks/hospitals`` is an app of Flower with this client app, in short::

        import cvxpy as cp
        import dald_model as dm

        def declare(context):
            at = context.node_config["partition-id"]
            w = cp.Variable(2, name="w")
            return dm.Site(f"site {at}", cp.sum_squares(w - at), [w >= 0], shared=[w])

        app = dm.engines.flower.client_app(declare)
    """
    flower: Any = optional("flwr.clientapp", "flower", "dm.engines.flower.client_app")
    records: Any = optional("flwr.app", "flower", "dm.engines.flower.client_app")
    app = flower.ClientApp()

    @app.query()
    def answer(message: Any, context: Any) -> Any:
        asked = message.content[RECORD][FIELD]
        log = list(context.state[RECORD][LOG]) if RECORD in context.state else []
        live = _caught_up(declare, context, log)
        reply = live.site.handle(asked)
        if _begins_anew(asked):
            live.log.clear()  # what it did for another coordinator is over
        if not live.log or live.log[-1] != asked:
            live.log.append(asked)
        context.state[RECORD] = records.ConfigRecord({LOG: list(live.log)})
        record = records.ConfigRecord({FIELD: reply})
        return records.Message(records.RecordDict({RECORD: record}), reply_to=message)

    return app


def _caught_up(declare: Callable[[Any], Answering], context: Any, log: list[bytes]) -> _Live:
    """The site of a node, after the messages of the log."""
    run, live = _live.get(context.node_id, (None, None))
    is_same = live is not None and run == context.run_id and log[: len(live.log)] == live.log
    if live is None or not is_same:
        live = _Live(_declared(declare, context), [])
    for message in log[len(live.log) :]:
        live.site.handle(message)
        live.log.append(message)
    _live[context.node_id] = context.run_id, live
    return live


def _begins_anew(message: bytes) -> bool:
    try:
        return decode(message).said.get("question") == "introduce"
    except DamagedError:  # which the site has refused in its reply
        return False


def _declared(declare: Callable[[Any], Answering], context: Any) -> Answering:
    site = declare(context)
    if not hasattr(site, "handle"):
        raise DeclarationError(
            f"client_app: declare gave a {type(site).__name__} for the node config "
            f"{dict(context.node_config)}, expected a dm.Site(...)"
        )
    return site
