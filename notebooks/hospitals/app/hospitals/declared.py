"""The hospital of a node of Flower's, declared in the node."""

import dald_model as dm
from dald_model.datasets import HOSPITALS
from hospitals.task import declare


def of_node(context):
    """The hospital of a node of Flower's: by its name, or by its number in a simulation."""
    config = context.node_config
    name = config.get("hospital") or list(HOSPITALS)[config["partition-id"]]
    return declare(name, config.get("folder"))


app = dm.engines.flower.client_app(of_node)
