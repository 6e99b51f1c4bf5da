"""Engine of processes on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from concurrent.futures import Future
from functools import partial

from dald_model.engines.engine import HostLostError, check_patience
from dald_model.engines.io_thread import IOThread, lost, read_message, write_message
from dald_model.validate import argument, check_whole

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""Environment variables that limit the threads of BLAS libraries and of Clarabel."""
TO_END = 5.0
"""Seconds that a process has to end once it is asked to."""


class Processes:
    """Processes on this machine, in each of which a share of the clients stays.

    Clients travel once, as :func:`dald_model.pack` makes them; a round sends multipliers and the
    neighbours' values, penalties when they change, and gets points and objectives back. Iterates
    are those of :class:`dald_model.engines.InProcess` with as many hosts bit for bit, where the
    libraries have as many threads in both (a worker has ``threads``, one by default) and no
    process is lost. They are those of one process bit for bit, too, but where clients of
    ``semismooth`` and ``newton`` have unequal numbers of rows: who is solved with whom then decides
    how many zeros rows are filled up with, and so how sums are rounded; ``newton`` carries that to
    1e-12 or so, ``semismooth``, which early rounds ask for few digits, to what is asked for.

    A round costs about 1 ms of the coordinator and half of one of each process, beside the
    solving. So two processes pay where a round of this process takes 5 ms or more in its
    clients' solvers, and nearly double the speed where it takes 40 (table 15 of
    ``tests/benchmarks/RESULTS.md``): eight clients of general cones with 20 variables. Clients of
    one shape that numpy solves at once are faster in one process: least squares up to 400
    variables, linear rows up to 200, logistic and hinge losses up to 100.

    A process that is killed, or has not replied by the ``deadline``, is replaced, its clients are
    packed and placed again and asked the same again, also before the first round. Where that fails
    too, or a process cannot be started, another one has them as well for the rest of the run, since
    to move back would lose their warm starts once more; the next run shares all out anew.
    ``result.losses`` says all of it. Where that fails, :class:`dald_model.LostError` has the rounds
    before as its ``result``, or the run goes on without these clients, see
    :class:`dald_model.Unanswered`. Multipliers and points of all clients are with the coordinator,
    so nothing of a run is lost with a process but the warm starts of its solvers.

    The processes start with the first solve, which takes a second or two, and stay for later ones
    until :meth:`close`, the end of a ``with`` block or of this process, however it ends.

    Parameters
    ----------
    workers : int
        How many; more than there are cores gains nothing.
    retries : int
        How often in one round a process is replaced, and then how many others are asked, before
        the run ends.
    deadline : float, optional
        Seconds that a process has for a reply, the first with the clients' data and
        factorisations; default as long as it takes.
    threads : int
        That the linear algebra of each process may have.

    Raises
    ------
    OptionError
        If one of them means nothing.

    Examples
    --------
    >>> import dald_model as dm
    >>> with dm.engines.Processes(workers=2) as engine:
    ...     pass  # model.solve(engine=engine), and again
    """

    interchangeable = True

    def __init__(
        self,
        workers: int = 2,
        *,
        retries: int = 1,
        deadline: float | None = None,
        threads: int = 1,
    ) -> None:
        check_whole(argument(self, "workers"), workers)
        check_patience(self, retries, deadline)
        check_whole(argument(self, "threads"), threads)
        self.workers, self.retries, self.deadline = workers, retries, deadline
        self._workers = [Worker(f"process {at}", threads) for at in range(workers)]
        weakref.finalize(self, _stop, self._workers)

    def hosts(self) -> list[Worker]:
        for worker in self._workers:
            worker.start()
        return self._workers

    def close(self) -> None:
        """End the processes; a later solve starts others."""
        _stop(self._workers)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Processes(workers={self.workers})"


def _stop(workers: list[Worker]) -> None:
    for worker in workers:
        worker.stop()


def environment(threads: int) -> dict[str, str]:
    """Environment of a new process: its threads, and the import path of this one."""
    return {
        **dict.fromkeys(THREADS, str(threads)),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


class Worker:
    """One process, and the :class:`IOThread` that writes to it and reads from it."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: IOThread | None = None
        self._obstacle = "no process was started"

    @property
    def pid(self) -> int | None:
        """The number of the process, or None where there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process where there is none, or none any more.

        One that the machine does not start is lost.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "dald_model.engines.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | environment(self._threads),
            )
        except OSError as error:
            self._obstacle = f"no process could be started: {error}"
            return
        self._process = process
        self._thread = IOThread(partial(_exchange, process), partial(_close, process))

    def send(self, message: bytes) -> Future[bytes]:
        return lost(self._obstacle) if self._thread is None else self._thread.send(message)

    def restart(self) -> None:
        self.stop()
        self.start()
        if self._process is None:
            raise HostLostError(self._obstacle)

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        thread, self._thread = self._thread, None
        if process is None or thread is None:
            return
        thread.stop()
        process.kill()
        process.wait(TO_END)


def _exchange(process: subprocess.Popen[bytes], message: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        write_message(process.stdin, message)
        return read_message(process.stdout)
    except (EOFError, OSError, ValueError) as error:
        raise HostLostError(_end(process)) from error


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        try:
            stream.close()
        except OSError:  # what was not written is for a process that is gone
            continue


def _end(process: subprocess.Popen[bytes]) -> str:
    """How a process ended that does not answer."""
    try:
        code = process.wait(TO_END)
    except subprocess.TimeoutExpired:
        return f"process {process.pid} closed its output"
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"process {process.pid} {how}"
