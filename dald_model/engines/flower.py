"""Federations by `Flower <https://flower.ai>`_: the client app, a strategy, and the engine.

=====================  ===========================================================================
:func:`client_app`     a ClientApp of a site that ``declare(context)`` gives
:class:`Strategy`      ``Strategy(sites=3).start(grid)`` in a ServerApp
:class:`Flower`        ``dm.Federation(dm.engines.Flower(grid, sites=3))`` in a ServerApp
=====================  ===========================================================================

``notebooks/hospitals`` is a Flower app of all three parts, for Flower's simulation and deployment.
Flower itself is imported when the first of them is used.
"""

from dald_model.engines.flower_client import client_app
from dald_model.engines.flower_engine import Flower
from dald_model.engines.flower_strategy import Strategy

__all__ = ["Flower", "Strategy", "client_app"]
