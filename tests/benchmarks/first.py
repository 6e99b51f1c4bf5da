"""Table 21: the first afternoon: importing, the README's three owners, and a plain round."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.benchmarks import common

TURNS = 12
"""So often each is done; the least counts, or the median of what is imported."""
ROUNDS, PENALTY = 1000, 5.0
IMPORTS = """
import time
begun = time.process_time()
import cvxpy
between = time.process_time()
import dald_model
dald_model.{name}
print((time.process_time() - begun) / (between - begun))
"""


def readme(seed: int = 0, *, is_bounded: bool = True) -> dm.Model:
    """Three hospitals, as in the README."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(3, 50, 4)), rng.normal(size=(3, 50))
    x = [cp.Variable(4, name=f"x{i}") for i in range(3)]
    model = dm.Model("three hospitals")
    for i in range(3):
        rules = [x[i] >= 0] if is_bounded else []
        model.client(f"hospital {i}", cp.sum_squares(A[i] @ x[i] - b[i]), rules)
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model


def by_numpy(rounds: int) -> None:
    """Consensus ADMM of the same three without bounds, residuals included."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(3, 50, 4)), rng.normal(size=(3, 50))
    weight = 2 * PENALTY**2
    inverse = np.linalg.inv(2 * np.einsum("kri,krj->kij", A, A) + weight * np.eye(4))
    right, z, mu = 2 * np.einsum("kri,kr->ki", A, b), np.zeros(4), np.zeros((3, 4))
    for _ in range(rounds):
        x = (inverse @ (right + weight * z - mu)[..., None])[..., 0]
        before, z = z, (x + mu / weight).mean(axis=0)
        gap = x - z
        mu = mu + weight * gap
        if max(np.abs(gap).max(), np.abs(z - before).max()) < 0:
            return


def spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def imported(name: str) -> float:
    """How many times as long cvxpy and a public name take as cvxpy alone."""
    command = [sys.executable, "-c", IMPORTS.format(name=name)]
    told = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    return float(np.median([float(one.stdout) for one in told]))


def table() -> str:
    phases: dict[str, list[float]] = {}
    for turn in range(TURNS + 1):
        model = readme(turn % 3)
        result: list[dm.Result] = []
        problem = readme(turn % 3).monolithic()
        works: list[tuple[str, Callable[[], object]]] = [
            ("compile", model.compile),
            ("solve", lambda m=model, r=result: r.append(m.solve())),
            ("verify", lambda r=result: r[0].verify()),
            ("the all-in-one solve by cvxpy", problem.solve),
        ]
        for name, work in works:
            phases.setdefault(name, []).append(1e3 * spent(work))
    plain = readme(is_bounded=False)
    plain.topology("server")
    fixed = {"acceleration": None, "rho": PENALTY, "eps_pri": 0, "eps_dual": 0}
    ours = [spent(lambda: plain.solve(max_rounds=ROUNDS, **fixed)) for _ in range(4)]
    numpy = [spent(lambda: by_numpy(ROUNDS)) for _ in range(4)]
    lines = [
        [f"README, {name} [ms]", common.number(min(each[1:]))] for name, each in phases.items()
    ]
    lines += [
        ["README, the first compile and solve of a process [ms]",
         common.number(phases["compile"][0] + phases["solve"][0])],
        ["a plain round of three owners [us]", common.number(1e6 * min(ours[1:]) / ROUNDS)],
        ["the same over a numpy loop", common.number(min(ours[1:]) / min(numpy))],
        ["`dm.Model` over `import cvxpy`", common.number(imported("Model"))],
        ["`dm.Model.solve` over `import cvxpy`", common.number(imported("Model.solve"))],
    ]  # fmt: skip
    return (
        "## 21. The first afternoon\n\n"
        f"CPU of one thread, the least of {TURNS} models that are built anew.\n\n"
        + common.markdown(["what", "takes"], lines)
    )
