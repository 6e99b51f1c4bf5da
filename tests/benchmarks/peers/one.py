"""One peer on every task it solves, in the peer's own environment: ``... one NAME FILE``.

Only the standard library, numpy and what the peer needs are imported. A line of JSON is appended
per answer, so that what was found before a crash or a time limit is kept.
"""

from __future__ import annotations

import ast
import inspect
import json
import multiprocessing
import resource
import sys
import textwrap
import time
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peers.tasks import tasks

PACKAGE = "tests.benchmarks.peers"
LONG, TIMES, QUICK = 10.0, 3, 1.0
"""A first solve also imports, so one below LONG seconds is repeated until QUICK seconds are spent,
at most so many TIMES, and the fastest repetition is counted."""


def main(name: str, file: Path) -> None:
    for peer, solvers in import_module(f"{PACKAGE}.{name}").PEERS.items():
        for task, solve in solvers.items():
            row = {"peer": peer, "task": task, "lines": lines(solve), **answered(solve, task)}
            with file.open("a") as out:
                out.write(json.dumps(row) + "\n")


def answered(solve: Any, name: str) -> dict[str, Any]:
    """The answer and its processor time, or the error that was raised."""
    task = tasks()[name]
    unit = yardstick()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, first = timed(solve, task)
            cpus: list[float] = []
            while first < LONG and len(cpus) < TIMES and sum(cpus) < QUICK:
                found, cpu = timed(solve, task)
                cpus.append(cpu)
    except Exception as error:  # a peer may raise anything, and that is its result
        words = (str(error).strip().splitlines() or [""])[0]
        return {"failed": f"{type(error).__name__}: {words[:120]}"}
    x = np.asarray(found.x, dtype=float).tolist()
    cpu = min(cpus or [first])
    return {"x": x, "rounds": found.rounds, "said": found.said, "cpu": cpu, "units": cpu / unit}


def timed(solve: Any, task: Any) -> tuple[Any, float]:
    begun = spent()
    found = solve(task)
    for child in multiprocessing.active_children():
        child.join()  # a child's seconds count when it has ended
    return found, spent() - begun


def spent() -> float:
    """Seconds of processors, those of finished child processes included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def yardstick() -> float:
    """Seconds of a fixed job, so that rows of busy and idle moments can be compared."""
    matrix, begun, total = np.random.default_rng(0).normal(size=(60, 60)), time.process_time(), 0.0
    for at in range(300):
        total += float(np.linalg.solve(matrix + at * np.eye(60), matrix[0]).sum())
        total += sum(k * k for k in range(300))
    return time.process_time() - begun


def lines(solve: Any) -> int:
    """Lines of code that state and solve a task: the function and those of the peers it calls."""
    waiting, seen = [solve.func if isinstance(solve, partial) else solve], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        module = sys.modules[one.__module__]
        names = {n.id for n in ast.walk(_tree(one)) if isinstance(n, ast.Name)}
        called = (getattr(module, name, None) for name in names)
        waiting += [
            each
            for each in called
            if (inspect.isfunction(each) or inspect.isclass(each))
            and each.__module__.startswith(PACKAGE)
            and not each.__module__.endswith(".tasks")
        ]
    return sum(len(ast.unparse(_tree(one)).splitlines()) for one in seen)


def _tree(one: Any) -> ast.AST:
    """The source without comments and docstrings, one statement a line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
