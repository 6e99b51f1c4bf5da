"""Flower's FedAvg and FedProx: its strategies and messages, with the clients in this process.

Clients take five local steps of (proximal) projected or shrunk gradient, of length 1 / L each.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks.peers.by_hand import shrunk
from tests.benchmarks.peers.tasks import Answer

ROUNDS, STEPS, PROXIMAL = 300, 5, 10.0


def least_squares(task: Any, strategy: str) -> Answer:
    def step(A: Any, b: Any, y: Any, x: Any, weight: float) -> Any:
        length = 1 / (2 * np.linalg.norm(A, 2) ** 2 + weight)
        return np.maximum(y - length * (2 * A.T @ (A @ y - b) + weight * (y - x)), 0)

    return federated(task.blocks, step, strategy)


def logistic(task: Any, strategy: str) -> Answer:
    rows = sum(len(b) for _, b in task.blocks)

    def step(A: Any, b: Any, y: Any, x: Any, weight: float) -> Any:
        length = 1 / (np.linalg.norm(A, 2) ** 2 / 4 + weight)
        slope = -A.T @ (b / (1 + np.exp(b * (A @ y)))) + weight * (y - x)
        return shrunk(y - length * slope, length * task.weight * len(b) / rows)

    return federated(task.blocks, step, strategy)


def federated(blocks: Any, step: Any, strategy: str) -> Answer:
    app, serverapp = import_module("flwr.app"), import_module("flwr.serverapp")
    kinds: Any = import_module("flwr.serverapp.strategy")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    identity = import_module("flwr.supercore.task_identity").TaskIdentity
    identity.run_id = identity.node_id = identity.task_id = 1  # the launcher's names for a run

    def reply(message: Any) -> Any:
        A, b = blocks[message.metadata.dst_node_id - 1]
        x = message.content["arrays"]["x"].numpy()
        y, weight = x, message.content["config"].get("proximal-mu", 0.0)
        for _ in range(STEPS):
            y = step(A, b, y, x, weight)
        told = {"arrays": app.ArrayRecord({"x": app.Array(y)})}
        told["metrics"] = app.MetricRecord({"num-examples": len(b)})
        return app.Message(app.RecordDict(told), reply_to=message)

    class Here(serverapp.Grid):
        """A grid without a network: every message is answered at once."""

        run = property(lambda self: None)
        set_run = create_message = push_messages = pull_messages = lambda self, *_: None

        def get_node_ids(self) -> Any:
            return list(range(1, len(blocks) + 1))

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            return [reply(each) for each in messages]

    options = {"proximal_mu": PROXIMAL} if strategy == "FedProx" else {}
    chosen = getattr(kinds, strategy)(fraction_evaluate=0.0, **options)
    start = app.ArrayRecord({"x": app.Array(np.zeros(10))})
    found = chosen.start(Here(), start, num_rounds=ROUNDS)
    return Answer(found.arrays["x"].numpy(), ROUNDS, "nothing")


PEERS = {
    f"Flower, {name}": {
        each.__name__: partial(each, strategy=name) for each in (least_squares, logistic)
    }
    for name in ("FedAvg", "FedProx")
}
