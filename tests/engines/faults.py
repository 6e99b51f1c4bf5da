"""Faults of real processes, and what comes of each: ``python tests/engines/faults.py [KILLS]``.

Prints the table of :mod:`dald_model.engines`' promises: each run ends with the right value or with
an error that names who was lost, and leaves no process, thread, file or memory behind.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.engines.io_thread import IOThread
from tests.engines.declared import ENVIRONMENT, hundred, left
from tests.engines.test_sites import at_sites, in_one_place

FORKED = get_context("fork")  # which has what this process has imported
Ends = Counter[str]


def ended(solve: Callable[[], dm.Result], value: float) -> str:
    """How a run ended: right, honest, or neither."""
    try:
        found = solve()
    except dm.LostError as error:
        return "lost, by name" if "was lost" in str(error) else f"unclear: {error}"
    if not (found.status == "optimal" and abs(found.value - value) <= 1e-4 * abs(value)):
        return f"wrong: {found.status} {found.value}"
    return "right, loss noticed" if found.losses else "right, not noticed"


@contextmanager
def killing(
    pids: Callable[[], list[int]], within: float, rng: np.random.Generator
) -> Iterator[Any]:
    """One of these processes is killed at any time within so many seconds."""

    def strike() -> None:
        there = pids()
        if there:
            os.kill(there[rng.integers(len(there))], signal.SIGKILL)

    timer = threading.Timer(rng.uniform(0, within), strike)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def kills(count: int, pids: Callable[[], list[int]], solve: Callable[[], dm.Result]) -> Ends:
    """So many runs, in each of which one process is killed at any time."""
    begun, value = time.monotonic(), solve().value
    within, rng = time.monotonic() - begun, np.random.default_rng(0)
    found = Ends()
    for _ in range(count):
        with killing(pids, within, rng):
            found[ended(solve, value)] += 1
    return found


def of_processes(count: int) -> Ends:
    """Worker processes of the engine."""
    model = hundred()
    with dm.engines.Processes(workers=2, retries=1) as engine:
        model.solve(engine=engine)
        there = engine.hosts()
        return kills(count, lambda: _pids(there), lambda: model.solve(engine=engine))


def of_ray(count: int) -> Ends:
    """Actors of the engine."""
    model = hundred()
    with dm.engines.Ray(hosts=2, retries=1) as engine:
        model.solve(engine=engine)
        there = engine.hosts()
        return kills(count, lambda: _pids(there), lambda: model.solve(engine=engine))


def of_sites(count: int, disclose: str = "answers") -> Ends:
    """Processes that serve sites at Unix sockets, and are started again."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Served(Path(folder), "logistic")
        try:
            federation = dm.Federation(engine)
            return kills(
                count, lambda: _pids(engine.hosts()), lambda: federation.solve(disclose=disclose)
            )
        finally:
            for host in engine.hosts():
                host.stop()


def _pids(hosts: Any) -> list[int]:
    return [host.pid for host in hosts if host.pid is not None]


class Served:
    """An engine of sites in processes of their own."""

    retries, deadline, interchangeable = 2, 20.0, False

    def __init__(self, folder: Path, kind: str) -> None:
        self._hosts = [ServedSite(folder / f"{at}", kind, at) for at in range(3)]

    def hosts(self) -> list[ServedSite]:
        return self._hosts


class ServedSite:
    """A process that serves one site; as a supervisor would, it starts one that has ended."""

    def __init__(self, address: Path, kind: str, at: int) -> None:
        self.name, self._address = f"site {at}", address
        self._serve = partial(_serve, kind, at, address)
        self._thread = IOThread(self._exchange, lambda: None)
        self._process: Any = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def send(self, message: bytes) -> Future[bytes]:
        self._start()
        return self._thread.send(message)

    def restart(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        if self._process is None or not self._process.is_alive():
            self._address.unlink(missing_ok=True)
            self._process = FORKED.Process(target=self._serve, daemon=True)
            self._process.start()

    def _exchange(self, message: bytes) -> bytes:
        until = time.monotonic() + 20.0
        while time.monotonic() < until:
            try:
                with Client(str(self._address), "AF_UNIX") as site:
                    site.send_bytes(message)
                    return site.recv_bytes()
            except (FileNotFoundError, ConnectionRefusedError):  # not there yet
                if self._process is None or not self._process.is_alive():
                    break
                time.sleep(0.01)
        raise dm.engines.HostLostError("its process ended")


def _serve(kind: str, at: int, address: Path) -> None:
    at_sites(kind, "curvature")[at].serve(address)


DRIVER = """
import sys, dald_model as dm
from tests.engines.declared import hundred
with dm.engines.Processes(workers=2) as engine:
    told = lambda at: print(at.round, flush=True)
    hundred().solve(engine=engine, checkpoint=sys.argv[1], every=1, callback=told)
"""


def of_drivers(count: int) -> Ends:
    """The coordinator is killed in any round; the run goes on from its file."""
    model, found, rng = hundred(), Ends(), np.random.default_rng(0)
    whole = model.solve(engine=dm.engines.InProcess(2))
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.npz"
            last = int(rng.integers(2, whole.rounds))
            command = [sys.executable, "-c", DRIVER, str(file)]
            driver = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
            assert driver.stdout is not None
            while driver.stdout.readline().strip() != str(last).encode():
                pass
            driver.kill()
            driver.wait()
            driver.stdout.close()
            again = dm.resume(file, model, engine=dm.engines.InProcess(2), callback=lambda _: None)
            is_right = again.status == "optimal" and abs(again.value / whole.value - 1) <= 1e-6
            beside = [one.name for one in Path(folder).iterdir() if one != file]
            said = "right" if is_right else f"wrong: {again.status} {again.value}"
            said += ", files left" if any(".part" in one for one in beside) else ""
            found[said + (", processes left" if left("engines.worker", 5) else "")] += 1
    return found


def of_disks() -> Ends:
    """No file may grow beyond what the first checkpoint took: as on a disk that is full."""
    model, found = hundred(), Ends()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        model.solve(checkpoint=file, every=1, max_rounds=3)
        before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        had = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
        try:
            model.solve(checkpoint=file, every=1)
            found["not noticed"] += 1
        except dm.DaldError as error:
            is_kept = file.read_bytes() == before and len(list(Path(folder).iterdir())) == 1
            said = "named" if str(file) in str(error) else f"unclear: {error}"
            found[f"{said}, the old file {'is there' if is_kept else 'is gone'}"] += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, had)
    return found


class Slow:
    """A host of a site that answers late from its fourth message on."""

    def __init__(self, site: dm.Site, seconds: float) -> None:
        self.name, self._site, self._left, self._seconds = site.name, site, 4, seconds
        self._thread = IOThread(self._late, lambda: None)

    def send(self, message: bytes) -> Future[bytes]:
        return self._thread.send(message)

    def restart(self) -> None:
        self._thread.stop()
        self._thread = IOThread(self._late, lambda: None)

    def _late(self, message: bytes) -> bytes:
        self._left -= 1
        time.sleep(self._seconds if self._left < 0 else 0.0)
        return self._site.handle(message)


def of_slow_clients() -> Ends:
    """One client is later than the deadline: the others finish, and wait no longer than that."""
    engine: Any = dm.engines.Sites(at_sites("least squares"))
    engine.deadline = 0.2
    engine._hosts[2] = Slow(at_sites("least squares")[2], 1.0)
    begun = time.monotonic()
    found = dm.Federation(engine).solve(online=dm.Unanswered(leave_after=3))
    took = time.monotonic() - begun
    others = in_one_place("least squares", 2).monolithic().solve()
    is_right = found.status == "reduced" and abs(found.value / others - 1) <= 1e-4
    said = "the others' answer" if is_right else f"wrong: {found.status} {found.value}"
    return Ends({f"{said}, {'in time' if took < 10 * 0.2 + 2 else f'late: {took:.1f} s'}": 1})


def of_many_solves(count: int) -> Ends:
    """The same model again and again with another Parameter: nothing grows."""
    bound, model, found = cp.Parameter(nonneg=True, value=1.0), dm.Model("again"), Ends()
    w = cp.Variable(3, name="w")
    for at in range(4):
        model.client(at, cp.sum_squares(w - at), [w <= bound])
    with dm.engines.Processes(workers=2) as engine:
        begun = _held(engine)
        for at in range(count):
            if at <= count // 5:
                begun = _held(engine)
            bound.value = 0.5 + at / count
            result = model.solve(engine=engine)
            is_right = result.status == "optimal" and np.allclose(
                result["w"], bound.value, atol=1e-5
            )
            found["right" if is_right else f"wrong: {result.status}"] += 1
        grown = [now - then for now, then in zip(_held(engine), begun, strict=True)]
    files, threads, memory = grown
    found[f"{files} files, {threads} threads and {memory / 2**20:.0f} MiB more after them"] = 1
    return found


def _held(engine: dm.engines.Processes) -> tuple[int, int, int]:
    """Open files, threads, and bytes of memory of this process and the workers."""
    pids = [os.getpid(), *_pids(engine.hosts())]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return (
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        pages * resource.getpagesize(),
    )


ROWS: dict[str, Callable[[int], Ends]] = {
    "processes: one killed": of_processes,
    "sites by answers: one killed": of_sites,
    "sites by curvature: one killed": partial(of_sites, disclose="curvature"),
    "Ray: an actor killed": lambda count: of_ray(count // 5),
    "coordinator killed, resumed": lambda count: of_drivers(count // 5),
    "disk full": lambda _: of_disks(),
    "slow client under a deadline": lambda _: of_slow_clients(),
    "solved again on processes": lambda count: of_many_solves(10 * count),
}

if __name__ == "__main__":
    given = int(sys.argv[1]) if sys.argv[1:] else 50
    for row, measure in ROWS.items():
        if sys.argv[2:] and not any(word in row for word in sys.argv[2:]):
            continue
        began = time.monotonic()
        ends = "; ".join(f"{many} {how}" for how, many in sorted(measure(given).items()))
        print(f"{row:32} {ends} ({time.monotonic() - began:.0f} s)", flush=True)
