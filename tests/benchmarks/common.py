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
SIDE = 5
"""Rows of the matrix of the kind that has one."""
PACKAGES = ("numpy", "scipy", "cvxpy", "osqp", "clarabel", "scs", "piqp", "highspy", "daqp")


class Kind(NamedTuple):
    """Clients of one kind: the noise-free vector, targets from A @ truth, objective and rules."""

    name: str
    truth: Callable[[np.random.Generator, int], Array]
    target: Callable[[np.random.Generator, Array], Array]
    build: Callable[[Any, Array, Array], tuple[Any, list[Any]]]
    matrix: bool = False
    prox: Callable[[Array, float, int], Array] | None = None
    """Of all but the squares: (point, step, N), where that is a closed form."""
    bend: Callable[[Array, Array, Array], tuple[Array, Array]] | None = None
    """Gradient and Hessian of a smooth objective: (A, b, x)."""
    bound: float = np.inf
    """On the size of each variable, where there is ``bend``."""

    def variable(self, m: int) -> cp.Variable:
        return cp.Variable((SIDE, SIDE), PSD=True) if self.matrix else cp.Variable(m)

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


def _semidefinite(rng: np.random.Generator, m: int) -> Array:
    root = rng.normal(size=(SIDE, 2)) / SIDE
    return (root @ root.T).reshape(-1)


def _noisy(rng: np.random.Generator, clean: Array) -> Array:
    return clean + 0.5 * rng.normal(size=clean.size)


def _labels(rng: np.random.Generator, clean: Array) -> Array:
    return np.where(clean + 0.5 * rng.normal(size=clean.size) > 0, 1.0, -1.0)


def _squares(x: Any, A: Array, b: Array) -> Any:
    return cp.sum_squares(A @ x - b)


def _logistic(x: Any, A: Array, b: Array) -> Any:
    return cp.sum(cp.logistic(cp.multiply(-b, A @ x)))


def _logistic_bend(A: Array, b: Array, x: Array) -> tuple[Array, Array]:
    p = 1 / (1 + np.exp(b * (A @ x)))
    return -A.T @ (b * p), A.T @ (A * (p * (1 - p))[:, None])


def _log_sum_exp_bend(A: Array, b: Array, x: Array) -> tuple[Array, Array]:
    u = A @ x - b
    p = np.exp(u - u.max())
    p /= p.sum()
    mean = A.T @ p
    return mean, A.T @ (A * p[:, None]) - np.outer(mean, mean)


def _group_lasso(x: Any, A: Array, b: Array) -> tuple[Any, list[Any]]:
    norms = [cp.norm(x[at : at + 5], 2) for at in range(0, A.shape[1], 5)]
    return _squares(x, A, b) + 4 * np.sqrt(len(b)) * sum(norms), []


def _shrink_groups(x: Array, step: float, rows: int) -> Array:
    groups = x.reshape(-1, 5)
    length = np.linalg.norm(groups, axis=1, keepdims=True)
    cut = step * 4 * np.sqrt(rows)
    return (groups * np.maximum(0, 1 - cut / np.maximum(length, 1e-300))).reshape(-1)


def _into_ball(x: Array, step: float, rows: int) -> Array:
    return x * min(1.0, 0.5 / max(float(np.linalg.norm(x)), 1e-300))


def _quantile(x: Any, A: Array, b: Array) -> tuple[Any, list[Any]]:
    residual = b - A @ x
    return cp.sum(0.5 * cp.abs(residual) + 0.2 * residual), []


KINDS = {
    kind.name: kind
    for kind in (
        Kind("least squares", _plain, _noisy, lambda x, A, b: (_squares(x, A, b), [])),
        Kind(
            "QP: x>=0, sum(x)<=1",
            _share,
            _noisy,
            lambda x, A, b: (_squares(x, A, b), [x >= 0, cp.sum(x) <= 1]),
        ),
        Kind(
            "lasso",
            _plain,
            _noisy,
            lambda x, A, b: (_squares(x, A, b) + 2 * np.sqrt(len(b)) * cp.norm1(x), []),
        ),
        Kind("huber", _plain, _noisy, lambda x, A, b: (cp.sum(cp.huber(A @ x - b, 1)), [])),
        Kind(
            "logistic",
            _plain,
            _labels,
            lambda x, A, b: (_logistic(x, A, b), []),
            bend=_logistic_bend,
        ),
        Kind(
            "logistic + box",
            _plain,
            _labels,
            lambda x, A, b: (_logistic(x, A, b), [x >= -0.1, x <= 0.1]),
            bend=_logistic_bend,
            bound=0.1,
        ),
        Kind("group lasso", _plain, _noisy, _group_lasso, prox=_shrink_groups),
        Kind(
            "l2 ball",
            _plain,
            _noisy,
            lambda x, A, b: (_squares(x, A, b), [cp.norm(x, 2) <= 0.5]),
            prox=_into_ball,
        ),
        Kind("quantile", _plain, _noisy, _quantile),
        Kind(
            "log_sum_exp",
            _plain,
            _noisy,
            lambda x, A, b: (cp.log_sum_exp(A @ x - b), []),
            bend=_log_sum_exp_bend,
        ),
        Kind(
            "PSD 5x5",
            _semidefinite,
            _noisy,
            lambda x, A, b: (_squares(cp.vec(x, order="F"), A, b), []),
            matrix=True,
        ),
    )
}
LEAST_SQUARES, QP, LOGISTIC = (
    KINDS[n] for n in ("least squares", "QP: x>=0, sum(x)<=1", "logistic")
)


def star(kind: Kind, parts: Iterable[tuple[Array, Array]], m: int) -> dm.Model:
    """Clients that all use one variable, so that a server is made for it."""
    model, x = dm.Model(kind.name), kind.variable(m)
    for at, (A, b) in enumerate(parts):
        model.client(at, *kind.build(x, A, b))
    return model


class Hand:
    r"""The loop by hand for one client: a DPP problem of which a round changes one Parameter.

    .. math:: f(x) + \sum_r \rho_r^2 x_r^2 - t^\top x, \quad t = 2 \rho^2 z \mp \mu

    is the augmented Lagrangian less constants.
    """

    def __init__(self, kind: Kind, A: Array, b: Array) -> None:
        self.x = kind.variable(A.shape[1])
        flat = cp.vec(self.x, order="F") if kind.matrix else self.x
        self.weight, self.t = cp.Parameter(flat.size, nonneg=True), cp.Parameter(flat.size)
        objective, rules = kind.build(self.x, A, b)
        augmented = cp.sum(cp.multiply(self.weight, cp.square(flat))) - self.t @ flat
        self.problem = cp.Problem(cp.Minimize(objective + augmented), rules)

    def solve(self, t: Array, solver: str, **options: Any) -> Array:
        """Raises cp.SolverError; the point is wherever the solver ended."""
        self.t.value = t
        self.problem.solve(solver=solver, warm_start=True, **options)
        if self.x.value is None:
            raise cp.SolverError(f"{solver}: {self.problem.status}")
        return self.x.value.reshape(-1, order="F")


TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
"""Clarabel's tolerances where it is the judge."""


def error(point: Array, exact: Array) -> float:
    return float((np.abs(point - exact) / np.maximum(1.0, np.abs(exact))).max())


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
