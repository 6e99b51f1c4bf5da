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
from dald_model.engines.in_process import Answering
from dald_model.engines.wire import decode
from dald_model.errors import DeclarationError, OptionError
from dald_model.lazy_imports import LazyModule, optional

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


federation = LazyModule("dald_model.federation")  # above the engines: imported by a strategy

UNUSED = {
    "initial_arrays": "a run starts at the sites' own minimisers",
    "train_config": "a site's objective is declared at the site",
    "evaluate_config": "sites report the objective in every round",
}
"""Arguments of Flower's ``Strategy.start`` that mean nothing here, and why."""


class Strategy:
    """Solve the federation of all sites where a ServerApp starts a strategy of Flower's.

    The clients run :func:`dald_model.engines.flower.client_app`. It is a
    :class:`dald_model.Federation` on a :class:`dald_model.engines.Flower`, for a ServerApp that is
    written for Flower's strategies; use these two for topologies, checkpoints or a warm start.

    Parameters
    ----------
    sites : int
        How many are waited for before the first message.
    retries : int
        As of :class:`dald_model.engines.Flower`.
    options :
        Options of :meth:`dald_model.Federation.solve`, such as ``eps_pri=1e-4``.

    Attributes
    ----------
    result : dald_model.Result or None
        Of the last run: statuses, history and everything else that Flower's record cannot hold.

    Examples
    --------
    In a ServerApp::

        import dald_model as dm
        from flwr.serverapp import ServerApp

        app = ServerApp()

        @app.main()
        def main(grid, context):
            strategy = dm.engines.flower.Strategy(sites=3)
            found = strategy.start(grid=grid, num_rounds=200)
            print(strategy.result.status, list(found.arrays))  # optimal ['w']
    """

    def __init__(self, *, sites: int, retries: int = 1, **options: Any) -> None:
        taken = {"max_rounds": "num_rounds", "callback": "evaluate_fn"}.items()
        for option, argument in taken:
            if option in options:
                raise OptionError(
                    f"Strategy: given {option}, expected it in start({argument}=...) as Flower "
                    "calls it"
                )
        self.sites, self.retries, self.options = sites, retries, options
        self.result: Any = None

    def start(
        self,
        grid: Any,
        initial_arrays: None = None,
        num_rounds: int = 1000,
        timeout: float = 300.0,
        train_config: None = None,
        evaluate_config: None = None,
        evaluate_fn: Callable[[int, Any], Any] | None = None,
    ) -> Any:
        """Solve, for at most ``num_rounds`` rounds.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
        num_rounds : int
            The run ends before, once its residuals are small.
        timeout : float
            Seconds that a site has for a reply.
        evaluate_fn : function, optional
            Round and flwr.app.ArrayRecord of the shared variables to a MetricRecord or None,
            called after every round.
        initial_arrays, train_config, evaluate_config : None
            Of Flower's signature; they have no meaning here.

        Returns
        -------
        flwr.serverapp.strategy.Result
            ``arrays`` has the shared variables by name; ``train_metrics_clientapp`` has objective
            and residuals per round.

        Raises
        ------
        OptionError
            If an argument is given that has no meaning here, or an option of the solve is refused.
        RunError
            As :meth:`dald_model.Federation.solve`.
        """
        given = {
            "initial_arrays": initial_arrays,
            "train_config": train_config,
            "evaluate_config": evaluate_config,
        }
        for name, value in given.items():
            if value is not None:
                raise OptionError(
                    f"Strategy.start: given {name}, expected none: {UNUSED[name]}; leave it out"
                )
        records: Any = optional("flwr.app", "flower", "dm.engines.flower.Strategy")
        strategies: Any = optional("flwr.serverapp.strategy", "flower", "Strategy.start")
        found = strategies.Result()

        def told(at: Any) -> None:
            row = {name: at.row[name] for name in ("objective", "primal_scaled", "dual_scaled")}
            numbers = {name: float(value) for name, value in row.items()}
            found.train_metrics_clientapp[at.round] = records.MetricRecord(numbers)
            if evaluate_fn is not None:
                shown = evaluate_fn(at.round, arrays(at))
                if shown is not None:
                    found.evaluate_metrics_serverapp[at.round] = shown

        def arrays(values: Any) -> Any:
            shared = {v.name(): values[v] for v in model.variables}
            return records.ArrayRecord({n: records.Array(x) for n, x in shared.items()})

        engine = Flower(grid, sites=self.sites, retries=self.retries, deadline=timeout)
        with engine:
            model = federation.Federation(engine)
            self.result = model.solve(callback=told, max_rounds=num_rounds, **self.options)
        found.arrays = arrays(self.result)
        return found

    def summary(self) -> None:
        """Log the settings, as Flower's strategies do."""
        print(repr(self))

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Strategy(sites={self.sites}, retries={self.retries}{options})"
