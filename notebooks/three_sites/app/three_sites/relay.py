"""What runs at a site's SuperNode: bytes to the site's own process, and its reply back.

Flower starts a process for each message. This one imports little, so it is quick, and it needs no
right to read the data: run the SuperNode as a user who may open the socket alone.
"""

from multiprocessing.connection import Client

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def relay(message, context):
    """One message, and the reply of the process at the socket that the site's config names."""
    with Client(context.node_config["socket"], "AF_UNIX") as site:
        site.send_bytes(message.content["dald_model"]["message"])
        reply = site.recv_bytes()
    record = ConfigRecord({"message": reply})
    return Message(RecordDict({"dald_model": record}), reply_to=message)
