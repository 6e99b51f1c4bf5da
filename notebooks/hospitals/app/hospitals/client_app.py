"""What runs at a node: the hospital declared here, or bytes to the hospital's own process.

In deployment Flower starts a process for each message. The one that only passes bytes on imports
little, so it is quick, and needs no right to read the data. Run the SuperNode as a user who may
open the socket alone, and what `flwr run` brings cannot read them either.
"""

from multiprocessing.connection import Client
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message, context):
    """One message, and the reply of the site."""
    if "site" in context.node_config:
        return relayed(message, context.node_config)
    from hospitals.declared import app as declared  # takes two seconds to import

    return declared(message, context)


def relayed(message, config):
    """The reply of the process at a socket, or at HOST:PORT with the key in a file."""
    key = Path(config["key"]).read_bytes() if "key" in config else None
    address, family = config["site"], "AF_UNIX"
    if key:
        host, port = address.rsplit(":", 1)
        address, family = (host, int(port)), "AF_INET"
    with Client(address, family, authkey=key) as site:
        site.send_bytes(message.content["dald_model"]["message"])
        reply = site.recv_bytes()
    record = ConfigRecord({"message": reply})
    return Message(RecordDict({"dald_model": record}), reply_to=message)
