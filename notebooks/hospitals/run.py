"""A federation of four hospitals on one machine, under Flower's simulation or in deployment.

    pip install "dald_model[flower-simulation]"
    python notebooks/hospitals/run.py simulation
    python notebooks/hospitals/run.py deployment

Both run the Flower app in the folder ``app``. In simulation one SuperLink has four virtual nodes,
which declare the hospitals themselves. In deployment these are processes of their own, with a
folder for each:

* ``hospital.py`` four times: declares its client from its own file, the only one in its folder;
* ``flower-superlink``, which the sites dial in to, with a certificate of an authority made here;
* ``flower-supernode`` four times, each with its own registered key, running ``client_app.py``,
  which passes bytes to the hospital's process. With ``tcp`` as a second argument by a port of
  127.0.0.1, as on Windows, in place of a Unix socket;
* ``flwr run``, which brings ``server_app.py`` to the SuperLink, where it solves.

On several machines the commands are the same: ``superlink`` and ``run`` at the coordinator's,
``hospital`` and ``supernode`` at each site's, with the coordinator's address for 127.0.0.1. At the
end the answer is compared with the all-in-one solve, for which this script, and nobody in the
federation, reads all four files. It needs openssl and ps, and in deployment ssh-keygen and some
minutes. However it ends, Ctrl-C included, it ends all that it started.
"""

import os
import secrets
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
from dald_model.datasets import HOSPITALS

HERE = Path(__file__).parent
LINK, PATIENCE = 18300, 3600
BIN = Path(sys.executable).parent


def main(mode="simulation", transport="unix") -> None:
    """Start everything, wait for the answer, check it, and end everything."""
    if mode not in ("simulation", "deployment"):
        sys.exit(f"given {mode!r}, expected simulation or deployment")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = Path(tempfile.mkdtemp(prefix="hospitals-"))
    here = Commands(work)
    try:
        tls = make_certificate(work, here.call)
        link = f"127.0.0.1:{LINK}"
        here.start(
            "superlink",
            *(BIN / "flower-superlink", *tls),
            *("--host", "127.0.0.1", "--port", LINK, "--database", "superlink.db"),
            "--disable-runtime-dependency-installation",
            "--simulation" if mode == "simulation" else "--enable-supernode-auth",
        )
        (work / "flwr").mkdir()
        config = f'[superlink.tls]\naddress = "{link}"\nroot-certificates = "{work}/ca.crt"\n'
        (work / "flwr" / "config.toml").write_text(config)
        if mode == "deployment":
            deploy(here, tls, transport)
        else:
            wait_for(lambda: here.call(BIN / "flwr", "list", "tls"))
        answer = work / "answer.npz"
        virtual = ("--federation-config", "num-supernodes=4") if mode == "simulation" else ()
        chosen = ("--run-config", f'answer="{answer}"')
        here.call(BIN / "flwr", "run", HERE / "app", "tls", *chosen, *virtual)
        begun = time.monotonic()
        wait_for(answer.is_file)
        compare(answer)
        print(f"{time.monotonic() - begun:.0f} s in all; logs and keys are in {work}")
    finally:
        end(here.started)


class Commands:
    """Commands in a folder, and the processes that go on."""

    def __init__(self, work: Path) -> None:
        self.work, self.started = work, []
        self._options = {
            "cwd": work,
            "env": os.environ
            | {
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                "FLWR_HOME": str(work / "flwr"),
                "FLWR_TELEMETRY_ENABLED": "0",
                "FLWR_DISABLE_UPDATE_CHECK": "1",
            },
        }

    def start(self, name: str, *command: object) -> None:
        """A process that goes on, with a log of its own."""
        with (self.work / f"{name}.log").open("wb") as log:
            self.started.append(
                subprocess.Popen(
                    list(map(str, command)),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for this script, which ends them
                    **self._options,
                )
            )

    def call(self, *command: object) -> str:
        """What a command says, once it has ended."""
        return subprocess.run(
            list(map(str, command)), check=True, capture_output=True, **self._options
        ).stdout.decode()


def deploy(here: Commands, tls, transport) -> None:
    """Start the hospitals and their SuperNodes."""
    wait_for(lambda: here.call(BIN / "flwr", "supernode", "list", "tls"))
    for at, name in enumerate(HOSPITALS):
        folder = folder_of(here.work, name)
        site, key = str(folder / "socket"), ()
        if transport == "tcp":
            site, key = f"127.0.0.1:{LINK + 50 + at}", (folder / "secret",)
            key[0].write_bytes(secrets.token_bytes(32))
            key[0].chmod(0o600)
        here.start(name, sys.executable, HERE / "hospital.py", name, folder, site, *key)
        here.call("ssh-keygen", *("-q", "-t", "ecdsa", "-b", "384", "-N", ""), "-f", folder / "key")
        here.call(BIN / "flwr", "supernode", "register", folder / "key.pub", "tls")
        secret = f' key="{key[0]}"' if key else ""
        here.start(
            f"supernode-{name}",
            BIN / "flower-supernode",
            *("--root-certificates", "ca.crt", *tls),
            *("--auth-supernode-private-key", folder / "key"),
            *("--superlink", f"127.0.0.1:{LINK}"),
            *("--host", "127.0.0.1", "--port", LINK + 1 + at),
            *("--node-config", f'site="{site}"{secret}'),
        )


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
    folder, shipped = work / name, Path(dm.__file__).parent / "datasets"
    for file in HOSPITALS[name].files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(shipped / file, folder / file)
    return folder


def make_certificate(work: Path, call) -> tuple[str, ...]:
    """An authority and the SuperLink's certificate; gives Flower's options for them."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9")
    call("openssl", "req", "-x509", *curve, "-subj", "/CN=authority", "-keyout", "ca.key",
         "-out", "ca.crt")  # fmt: skip
    call("openssl", "req", *curve[:5], "-subj", "/CN=superlink", "-keyout", "server.key",
         "-out", "server.csr")  # fmt: skip
    (work / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    call("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
         "-CAcreateserial", "-days", "9", "-extfile", "names", "-out", "server.crt")  # fmt: skip
    names = {"--ssl-ca-certfile": "ca.crt", "--ssl-certfile": "server.crt"}
    return tuple(x for pair in (names | {"--ssl-keyfile": "server.key"}).items() for x in pair)


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


def compare(answer: Path) -> None:
    """Print the federation's answer beside the all-in-one one."""
    found = dm.load(answer)
    print(found)
    pooled = cp.Variable(11)
    cost, rules = 0.0, []
    for site in map(declare, HOSPITALS):
        client = site.client
        cost, rules = cost + client.cost, [*rules, *client.constraints, site.shared[0] == pooled]
    value = cp.Problem(cp.Minimize(cost), rules).solve(solver=cp.CLARABEL)
    apart = np.abs(found["w"] - pooled.value).max()
    print(f"all-in-one: {value:.6f}, federation: {found.value:.6f}; coefficients {apart:.1e} apart")


if __name__ == "__main__":
    main(*sys.argv[1:])
