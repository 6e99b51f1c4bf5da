"""Script of the tests of MPI: what rank 0 is told to do, with the other ranks as hosts.

``killed DEADLINE FILE`` has a rank killed in a run that is written to a file; ``late DEADLINE`` has
one stopped in a run, and the other in the next.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import dald_model as dm

if __name__ == "__main__":
    task, deadline, *rest = sys.argv[1:]
    engine = dm.engines.MPI()

    # Only rank 0 comes here
    from dald_model.models import hospitals
    from tests.engines.declared import hundred, market, running

    def lethal(rank: int) -> dict[str, Any]:
        """A metric that kills or stops another rank after round 3."""
        calls = count(1)

        def strike(_: dm.Iterate) -> int:
            if (now := next(calls)) == 3:
                others = set(running(f"by_mpi.py {task}")) - {os.getpid()}
                ranks = {_rank(pid): pid for pid in others}
                os.kill(ranks[rank], signal.SIGKILL if task == "killed" else signal.SIGSTOP)
            return now

        return {"strike": strike}

    def _rank(pid: int) -> int:
        given = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next((int(one[9:]) for one in given if one.startswith(b"PMI_RANK=")), -1)

    if task == "killed":
        market().solve(engine=engine, metrics=lethal(1), checkpoint=rest[0], every=1)
    else:
        from tests.algorithms.test_interior_point import drawn
        from tests.engines.test_engines import same
        from tests.engines.test_members import ALONE, values_by_round

        for model in (hospitals.model(), hundred(), market()):
            hosts = dm.engines.InProcess(len(engine.hosts()))
            same(model.solve(engine=hosts), model.solve(engine=engine))
        print("told: same", flush=True)
        drawn_one = drawn(4, "logistic")[0]
        theirs = values_by_round(drawn_one, algorithm=ALONE)[1]
        wanted = drawn_one.solve(disclose="curvature", engine=dm.engines.InProcess(2))
        result, ours = values_by_round(drawn_one, disclose="curvature", engine=engine)
        is_same = ours.shape == theirs.shape and np.allclose(ours, theirs, 1e-10, 1e-10)
        print("told: curvature", is_same, result.shown == wanted.shown, flush=True)
        engine.deadline = float(deadline)  # from now on, when clients' data are there
        found = market().solve(engine=engine, metrics=lethal(2))
        print("told:", found.status, found.verify().ok, *found.losses, flush=True)
        try:
            market().solve(engine=engine, metrics=lethal(1))
        except dm.LostError as error:
            print("told:", error.result.status, error.result.rounds, error, flush=True)
