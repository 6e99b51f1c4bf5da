"""What `flwr run` brings to a node passes bytes on, and reads nothing of the hospital's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

APP = Path(__file__).parents[2] / "notebooks" / "hospitals" / "app"
NODE = """
import sys, threading
from multiprocessing.connection import Listener
from pathlib import Path

folder, data = map(Path, sys.argv[1:])
(data / "patients.csv").write_text("54,1,130")
listener = Listener(str(folder / "socket"), "AF_UNIX")


def site():
    with listener.accept() as node:
        node.send_bytes(node.recv_bytes()[::-1])


threading.Thread(target=site, daemon=True).start()
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hospitals import client_app

TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
record = RecordDict({"dald_model": ConfigRecord({"message": b"round 3"})})
message = Message(record, dst_node_id=7, message_type="query")
reply = client_app.relayed(message, {"site": str(folder / "socket")})
assert reply.content["dald_model"]["message"] == b"3 dnuor", reply
assert not {"dald_model", "cvxpy", "hospitals.task"} & sys.modules.keys()
assert not [path for path in opened if path.startswith(str(data))]
"""
"""The process of a node, whose hospital answers at a socket: it reverses what it is sent."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a Unix socket")
def test_what_is_brought_to_a_node_neither_reads_data_nor_imports_what_does(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", NODE, str(tmp_path), str(data)],
        env={**os.environ, "PYTHONPATH": str(APP)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
