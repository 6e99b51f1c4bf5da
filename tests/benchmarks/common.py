"""What the tables share: kinds of clients, the loop by hand, clocks and markdown."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm

Array = np.ndarray
GOOD = 1e-6
"""The accuracy that times are compared at."""
PACKAGES = ("numpy", "scipy", "cvxpy", "osqp", "clarabel", "scs", "piqp", "highspy", "daqp")


class Kind(NamedTuple):
    """Clients of one kind: the noise-free vector, targets from A @ truth, objective and rules."""

    name: str
    truth: Callable[[np.random.Generator, int], Array]
    target: Callable[[np.random.Generator, Array], Array]
    build: Callable[[Any, Array, Array], tuple[Any, list[Any]]]

    def data(self, count: int, rows: int, m: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
        """(A, b) for each client: other rows, the same truth."""
        rng = np.random.default_rng(seed)
        truth = self.truth(rng, m)
        for _ in range(count):
            A = rng.normal(size=(rows, m))
            yield A, self.target(rng, A @ truth)


def _plain(rng: np.random.Generator, m: int) -> Array:
    return rng.normal(size=m) / np.sqrt(m)


def _share(rng: np.random.Generator, m: int) -> Array:
    found = np.maximum(rng.normal(size=m), 0)
    return found / found.sum() / 1.2


def _noisy(rng: np.random.Generator, clean: Array) -> Array:
    return clean + 0.5 * rng.normal(size=clean.size)


def _labels(rng: np.random.Generator, clean: Array) -> Array:
    return np.where(clean + 0.5 * rng.normal(size=clean.size) > 0, 1.0, -1.0)


def _squares(x: Any, A: Array, b: Array) -> Any:
    return cp.sum_squares(A @ x - b)


LEAST_SQUARES = Kind("least squares", _plain, _noisy, lambda x, A, b: (_squares(x, A, b), []))
QP = Kind(
    "QP: x>=0, sum(x)<=1",
    _share,
    _noisy,
    lambda x, A, b: (_squares(x, A, b), [x >= 0, cp.sum(x) <= 1]),
)
LOGISTIC = Kind(
    "logistic",
    _plain,
    _labels,
    lambda x, A, b: (cp.sum(cp.logistic(cp.multiply(-b, A @ x))), []),
)
KINDS = {kind.name: kind for kind in (LEAST_SQUARES, QP, LOGISTIC)}


def star(kind: Kind, parts: Iterable[tuple[Array, Array]], m: int) -> dm.Model:
    """Clients that all use one variable, so that a server is made for it."""
    model, x = dm.Model(kind.name), cp.Variable(m)
    for at, (A, b) in enumerate(parts):
        model.client(at, *kind.build(x, A, b))
    return model


class Hand:
    r"""The loop by hand for one client: a DPP problem of which a round changes one Parameter.

    .. math:: f(x) + \sum_r \rho_r^2 x_r^2 - t^\top x, \quad t = 2 \rho^2 z \mp \mu

    is the augmented Lagrangian less constants.
    """

    def __init__(self, kind: Kind, A: Array, b: Array) -> None:
        self.x = x = cp.Variable(A.shape[1])
        self.weight, self.t = cp.Parameter(x.size, nonneg=True), cp.Parameter(x.size)
        objective, rules = kind.build(x, A, b)
        augmented = cp.sum(cp.multiply(self.weight, cp.square(x))) - self.t @ x
        self.problem = cp.Problem(cp.Minimize(objective + augmented), rules)


TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
"""Clarabel's tolerances where it is the judge."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection while a clock runs, and nothing left to collect before."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def silent() -> Iterator[None]:
    """Nothing on the process's own stdout, where solvers write despite ``verbose=False``."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of inaccurate answers, which are judged here
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def median(found: Iterable[float]) -> float:
    return statistics.median(found)


def say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)


def number(value: float | None, digits: int = 3) -> str:
    """Three digits, whole from 100 on; a dash where there is nothing."""
    if value is None or np.isnan(value):
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def small(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.0e}"


def times(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{number(value)}x"


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def header() -> str:
    """Where and with what the tables were made."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    found = [f"python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return (
        f"{cpu}, {os.cpu_count()} cores, OMP_NUM_THREADS {threads}, load {os.getloadavg()[0]:.1f}; "
        + ", ".join(found)
    )
