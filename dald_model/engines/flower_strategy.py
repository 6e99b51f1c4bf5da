"""Flower strategy that solves a federation: the call that Flower's own strategies have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dald_model.engines.flower_engine import Flower
from dald_model.errors import OptionError
from dald_model.lazy_imports import LazyModule, optional

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
