"""A federation of three hospitals on one machine: Flower with TLS and registered keys.

    pip install "dald_model[flower]"
    python notebooks/three_sites/run.py

It starts, as processes of their own, with a folder for each:

* ``hospital.py`` three times: declares its client from its own file, the only one in its folder;
* ``flower-superlink``, which the sites dial in to, with a certificate of an authority made here;
* ``flower-supernode`` three times, each with its own registered key, running ``app/relay.py``;
* ``flwr run``, which brings ``app/coordinator.py`` to the SuperLink, where it solves.

On several machines the commands are the same: ``superlink`` and ``run`` at the coordinator's,
``hospital`` and ``supernode`` at each site's, with the coordinator's address for 127.0.0.1. At the
end the answer is compared with the all-in-one solve, for which this script, and nobody in the
federation, reads all three files. It needs openssl, ssh-keygen and ps, and takes some minutes.
However it ends, Ctrl-C included, it ends all that it started.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cvxpy as cp
import numpy as np
from hospital import declare

import dald_model as dm
from dald_model.datasets import __file__ as datasets

HERE = Path(__file__).parent
HOSPITALS = ("cleveland", "hungary", "long_beach")
FILES = {"cleveland": "cleveland", "hungary": "hungarian", "long_beach": "va"}
LINK, PATIENCE = 18300, 3600
BIN = Path(sys.executable).parent


def main() -> None:
    """Start everything, wait for the answer, check it, and end everything."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = Path(tempfile.mkdtemp(prefix="three-sites-"))
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(work / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *command: object) -> None:
        with (work / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    list(map(str, command)),
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=work,
                    start_new_session=True,  # Ctrl-C is for this script, which ends them
                )
            )

    def call(*command: object) -> str:
        return subprocess.run(
            list(map(str, command)), env=environment, cwd=work, check=True, capture_output=True
        ).stdout.decode()

    try:
        make_keys(work, call)
        folders = {name: folder_of(work, name) for name in HOSPITALS}
        for name, folder in folders.items():
            start(name, sys.executable, HERE / "hospital.py", name, folder, folder / "socket")
        tls = ("--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.crt")
        tls = (*tls, "--ssl-keyfile", "server.key")
        link = f"127.0.0.1:{LINK}"
        start(
            "superlink",
            BIN / "flower-superlink",
            *tls,
            "--enable-supernode-auth",
            *("--host", "127.0.0.1", "--port", LINK, "--database", "superlink.db"),
            "--disable-runtime-dependency-installation",
        )
        (work / "flwr").mkdir()
        config = f'[superlink.tls]\naddress = "{link}"\nroot-certificates = "{work}/ca.crt"\n'
        (work / "flwr" / "config.toml").write_text(config)
        wait_for(lambda: call(BIN / "flwr", "supernode", "list", "tls"))
        for at, (name, folder) in enumerate(folders.items()):
            call(BIN / "flwr", "supernode", "register", folder / "key.pub", "tls")
            start(
                f"supernode-{name}",
                BIN / "flower-supernode",
                *("--root-certificates", "ca.crt", *tls),
                *("--auth-supernode-private-key", folder / "key"),
                *("--superlink", link, "--host", "127.0.0.1", "--port", LINK + 1 + at),
                *("--node-config", f'socket="{folder}/socket"'),
            )
        answer = work / "answer.npz"
        call(BIN / "flwr", "run", HERE / "app", "tls", "--run-config", f'answer="{answer}"')
        begun = time.monotonic()
        wait_for(answer.is_file)
        compare(answer, folders)
        print(f"{time.monotonic() - begun:.0f} s in all; logs and keys are in {work}")
    finally:
        end(started)


def end(started: list[subprocess.Popen[bytes]]) -> None:
    """End what was started, and what that has started: a SuperLink leaves its ServerApp behind."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True).stdout
    children: dict[int, list[int]] = {}
    for line in told.decode().splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    everybody = [process.pid for process in started]
    for pid in everybody:  # grows
        everybody += children.get(pid, [])
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in everybody:
            send(pid, how)
        until = time.monotonic() + 20
        while everybody and time.monotonic() < until:
            for process in started:
                process.poll()  # else an ended one is still listed
            everybody = [pid for pid in everybody if send(pid, 0)]
            time.sleep(0.1)


def send(pid: int, how: int) -> bool:
    """Send a signal; whether the process is there."""
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return False
    return True


def folder_of(work: Path, name: str) -> Path:
    """A hospital's own folder, with its own file."""
    folder = work / name
    (folder / "heart").mkdir(parents=True, exist_ok=True)
    file = f"processed.{FILES[name]}.data"
    shutil.copy(Path(datasets).parent / "heart" / file, folder / "heart" / file)
    return folder


def make_keys(work: Path, call) -> None:
    """An authority and the SuperLink's certificate, and a key for each SuperNode."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9")
    call("openssl", "req", "-x509", *curve, "-subj", "/CN=authority", "-keyout", "ca.key",
         "-out", "ca.crt")  # fmt: skip
    call("openssl", "req", *curve[:5], "-subj", "/CN=superlink", "-keyout", "server.key",
         "-out", "server.csr")  # fmt: skip
    (work / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    call("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
         "-CAcreateserial", "-days", "9", "-extfile", "names", "-out", "server.crt")  # fmt: skip
    for name in HOSPITALS:
        (work / name).mkdir()
        call("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", work / name / "key")


def wait_for(ready) -> None:
    """Try until something holds and does not fail."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if ready():
                return
        except subprocess.CalledProcessError:
            pass
        if time.monotonic() > end:
            raise SystemExit("not ready in time; see the logs")
        time.sleep(0.5)


def compare(answer: Path, folders: dict[str, Path]) -> None:
    """Print the federation's answer beside the all-in-one one."""
    found = dm.load(answer)
    print(found)
    sites = [declare(name, str(folder)) for name, folder in folders.items()]
    pooled = cp.Variable(11)
    cost, rules = 0.0, []
    for site in sites:
        client = site.client
        cost, rules = cost + client.cost, [*rules, *client.constraints, site.shared[0] == pooled]
    value = cp.Problem(cp.Minimize(cost), rules).solve(solver=cp.CLARABEL)
    apart = np.abs(found["w"] - pooled.value).max()
    print(f"all-in-one: {value:.6f}, federation: {found.value:.6f}; coefficients {apart:.1e} apart")


if __name__ == "__main__":
    main()
