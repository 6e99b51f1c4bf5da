"""Models that every engine solves, and scripts that solve them in other processes."""

from __future__ import annotations

import inspect
import os
import sys
import time
from pathlib import Path

import cvxpy as cp
import numpy as np

import dald_model as dm

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)]),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Of a process that can import what this one can."""


def hundred() -> dm.Model:
    """Logistic regression over a hundred clients, each with eight rows of its own."""
    rng, w, model = np.random.default_rng(0), cp.Variable(5, name="w"), dm.Model("hundred")
    for i in range(100):
        A, b = rng.normal(size=(8, 5)), rng.choice([-1.0, 1.0], size=8)
        loss = cp.sum(cp.logistic(cp.multiply(-b, A @ w)))
        model.client(f"client {i}", loss + 0.01 * cp.sum_squares(w))
    return model


def market(count: int = 6) -> dm.Model:
    """A coupling, rows, and clients of two shapes."""
    model, x = dm.Model("market"), [cp.Variable(2, name=f"x{i}") for i in range(count)]
    for i in range(count):
        rows = [x[i] >= 0] if i % 2 else [x[i] >= 0, cp.sum(x[i]) <= 4]
        model.client(f"area {i}", cp.sum_squares(x[i] - i), rows)
    model.couple(cp.sum(sum(x)) == 15)
    return model


def block(thing: object) -> str:
    """The code below ``::`` in the examples of a docstring."""
    return inspect.cleandoc(thing.__doc__ or "").split("::\n\n")[-1].replace("\n    ", "\n").strip()


def running(words: str) -> list[int]:
    """The processes whose command line has these words."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = (each / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if words in line and state != "Z":
            found.append(int(each.name))
    return found


def left(words: str, seconds: float = 10) -> list[int]:
    """Those of :func:`running` that are still there after so long: an ended job takes a moment."""
    until = time.monotonic() + seconds
    while (found := running(words)) and time.monotonic() < until:
        time.sleep(0.05)
    return found
