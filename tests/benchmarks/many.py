"""Table 16: many alike clients by ``model.clients``, each run in a process of its own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.common import LEAST_SQUARES, LOGISTIC
from tests.benchmarks.whole import ROOT, memory

M, ROWS = 10, 20
COUNTS = (1000, 10000)
FULL = (*COUNTS, 100000)


def work(name: str, count: int) -> dict[str, Any]:
    """CPU seconds of each phase, and the peak with imports and data."""
    kind = common.KINDS[name]
    common.star(kind, kind.data(3, ROWS, M), M).solve()  # imports and the like
    parts = list(enumerate(kind.data(count, ROWS, M)))
    x, model, spent = cp.Variable(M), dm.Model("many"), {}
    gc.collect()

    def timed(phase: str, run: Callable[[], Any]) -> Any:
        begun = time.process_time()
        found = run()
        spent[phase] = time.process_time() - begun
        return found

    timed("declare", lambda: model.clients(parts, lambda own: kind.build(x, *own)[0]))
    timed("compile", model.compile)
    starts: list[float] = []
    begun = time.process_time()
    result = timed(
        "solve", lambda: model.solve(callback=lambda _: starts.append(time.process_time()))
    )
    spent["first round"] = starts[0] - begun
    spent["a round"] = (starts[-1] - starts[0]) / max(1, len(starts) - 1)
    return spent | {
        "status": str(result.status),
        "rounds": result.rounds,
        "peak": memory("VmHWM"),
    }


def row(name: str, count: int) -> list[str]:
    command = [sys.executable, "-m", "tests.benchmarks.many", name, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    whole = sum(found[phase] for phase in ("declare", "compile", "solve"))
    each = [found[phase] / count * 1e3 for phase in ("declare", "compile", "first round")]
    return [
        f"{count:,}",
        name,
        common.number(whole),
        *map(common.number, each),
        common.number(found["a round"] / count * 1e6),
        str(found["rounds"]),
        found["status"],
        common.number(found["peak"]),
    ]


def table(full: bool) -> str:
    lines = []
    for kind in (LEAST_SQUARES, LOGISTIC):
        for count in FULL if full else COUNTS:
            common.say(f"16 many: {count} clients, {kind.name}")
            lines.append(row(kind.name, count))
    heads = ["clients", "loss", "CPU [s]", "declare", "compile", "to the first round"]
    heads += ["a round [us]", "rounds", "status", "peak [MB]"]
    return (
        "## 16. Many alike clients\n\n"
        f"`model.clients(data, function)`, m={M}, N={ROWS}, one shared vector; CPU seconds of "
        "declaration, compilation and solve, then milliseconds a client of the phases, and "
        "microseconds a client and round. The peak counts imports and data.\n\n"
        + common.markdown(heads, lines)
    )


if __name__ == "__main__":
    print(json.dumps(work(sys.argv[1], int(sys.argv[2]))))
