"""Script of the tests of MPI: what rank 0 is told to do, with the other ranks as hosts."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import dald_model as dm

if __name__ == "__main__":
    task, deadline, *rest = sys.argv[1:]
    engine = dm.engines.MPI(deadline=float(deadline) or None)

    # Only rank 0 comes here
    from dald_model.models import hospitals
    from tests.engines.declared import hundred, market, running
    from tests.engines.test_engines import same

    calls = count(1)

    def strike(_: dm.Iterate) -> int:
        """Kill or stop another rank after round 3."""
        if (now := next(calls)) == 3:
            others = set(running(f"by_mpi.py {task}")) - {os.getpid()}
            ranks = {_rank(pid): pid for pid in others}
            os.kill(ranks[2], signal.SIGKILL if task == "killed" else signal.SIGSTOP)
        return now

    def _rank(pid: int) -> int:
        given = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next((int(one[9:]) for one in given if one.startswith(b"PMI_RANK=")), -1)

    metrics = {"strike": strike}
    if task == "killed":
        market().solve(engine=engine, metrics=metrics, checkpoint=rest[0], every=1)
    else:
        for model in (hospitals.model(), hundred(), market()):
            hosts = dm.engines.InProcess(len(engine.hosts()))
            same(model.solve(engine=hosts), model.solve(engine=engine))
        print("told: same", flush=True)
        try:
            market().solve(engine=engine, metrics=metrics)
        except dm.LostError as error:
            print("told:", error.result.status, error.result.rounds, error, flush=True)
        print("told:", market().solve(engine=engine).status, flush=True)
