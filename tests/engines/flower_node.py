"""A message to a node of Flower's, answered in a process that keeps no more than it may."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import dald_model as dm
from dald_model.engines import flower
from tests.engines.test_sites import at_sites

declared: list[int] = []
"""The nodes whose site this process has declared."""


def answered(
    kind: str, at: int, log: list[bytes], asked: bytes, forgets: bool
) -> tuple[bytes, list[bytes], int]:
    """The reply, the log in the context's state afterwards, and how many sites were declared."""
    flwr: Any = import_module("flwr.app")
    task: Any = import_module("flwr.supercore.task_identity").TaskIdentity
    task.run_id, task.node_id, task.task_id = 1, 1, 1
    if forgets:
        flower._live.clear()

    def declare(context: Any) -> dm.Site:
        declared.append(at)
        return at_sites(kind, "curvature")[context.node_config["partition-id"]]

    records = {flower.RECORD: flwr.ConfigRecord({flower.LOG: log})} if log else {}
    context = flwr.Context(
        run_id=0,
        node_id=at,
        node_config={"partition-id": at},
        state=flwr.RecordDict(records),
        run_config={},
    )
    content = flwr.RecordDict({flower.RECORD: flwr.ConfigRecord({flower.FIELD: asked})})
    message = flwr.Message(content, at, "query")
    message.metadata._message_id = "asked"
    reply = dm.engines.flower.client_app(declare)(message, context)
    return (
        reply.content[flower.RECORD][flower.FIELD],
        context.state[flower.RECORD][flower.LOG],
        len(declared),
    )
