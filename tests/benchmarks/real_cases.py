"""The clients of table 7: of the sizes that real ones have, and a group of small ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import dald_model as dm
from dald_model.datasets.partition import dirichlet
from tests.benchmarks.common import Array

CLIENTS = 60
"""Clients of most cases."""
WIDTH, BLOCKS = 5, 8
"""Variables of a block, and how many blocks there are, where clients have other variables."""

Loss = Callable[[Any, Any, Array], Any]
LOSSES: dict[str, Loss] = {
    "least squares": lambda x, A, b: cp.sum_squares(A @ x - b),
    "logistic": lambda x, A, b: cp.sum(cp.logistic(cp.multiply(-np.sign(b), A @ x))),
    "hinge": lambda x, A, b: cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x))),
    "absolute": lambda x, A, b: cp.norm1(A @ x - b),
}
SOLVERS = {
    "least squares": ("OSQP", "PIQP", "CLARABEL"),
    "logistic": ("CLARABEL", "SCS"),
    "hinge": ("HIGHS", "PIQP", "CLARABEL"),
    "absolute": ("HIGHS", "PIQP", "CLARABEL"),
    "mixed": ("CLARABEL", "SCS"),
}
"""Of cvxpy's, for the all-in-one solve."""


class Case(NamedTuple):
    """Clients (A, b) with a loss each and a small ridge; the regulariser and rules of all of them.

    ``blocks`` are of each client those that its columns belong to; None: all have all variables.
    """

    title: str
    loss: str
    parts: Sequence[tuple[Any, Array]]
    l1: float = 0.0
    box: tuple[float, float] | None = None
    ridge: float = 0.1
    blocks: Sequence[Sequence[int]] | None = None

    @property
    def solvers(self) -> tuple[str, ...]:
        """Of cvxpy's, those that have the loss."""
        return SOLVERS[self.loss]

    @property
    def is_plain(self) -> bool:
        """Whether all have the same variables and nothing but a smooth loss and the ridge."""
        is_smooth = self.loss in ("least squares", "logistic")
        return is_smooth and not (self.l1 or self.box or self.blocks)

    def share(self, at: int, x: Any) -> tuple[Any, list[Any]]:
        """A client's objective and rules."""
        loss, (A, b) = self.loss, self.parts[at]
        if loss == "mixed":
            loss = list(LOSSES)[at % len(LOSSES)]
        cost = LOSSES[loss](x, A, b) + self.ridge * cp.sum_squares(x) / len(self.parts)
        if self.l1:
            cost = cost + self.l1 / len(self.parts) * cp.norm1(x)
        return cost, [x >= self.box[0], x <= self.box[1]] if self.box else []

    def model(self) -> dm.Model:
        """All of them, declared anew."""
        model = dm.Model(self.title)
        if self.blocks is None:
            x = cp.Variable(self.parts[0][0].shape[1])
            for at in range(len(self.parts)):
                model.client(at, *self.share(at, x))
            return model
        shared = [cp.Variable(WIDTH) for _ in range(BLOCKS)]
        for at, blocks in enumerate(self.blocks):
            model.client(at, *self.share(at, cp.hstack([shared[block] for block in blocks])))
        return model


class Network(NamedTuple):
    """The network lasso of logistic districts: four regions of like-minded neighbours."""

    title: str = "network lasso, logistic"
    solvers: tuple[str, ...] = ("CLARABEL", "SCS")

    def model(self) -> dm.Model:
        """All of them, declared anew."""
        rng, graph = np.random.default_rng(6), nx.random_regular_graph(4, CLIENTS, seed=0)
        rows = np.clip(np.exp(rng.normal(3.2, 1, CLIENTS)), 2, 117).astype(int)
        truth = np.repeat(rng.normal(size=(4, 6)), CLIENTS // 4, axis=0)
        model = dm.Model("network lasso")
        x = [cp.Variable(6) for _ in range(CLIENTS)]
        for i in range(CLIENTS):
            A = rng.normal(size=(rows[i], 6))
            y = np.sign(A @ truth[i] + 0.5 * rng.normal(size=rows[i]))
            model.client(i, LOSSES["logistic"](x[i], A, y) + 0.05 * cp.sum_squares(x[i]))
        for i, j in graph.edges:
            model.client((i, j), 0.5 * cp.norm(x[i] - x[j]))
        return model


def few(loss: str, size: int, low: int, high: int, seed: int) -> Case:
    """Rows of a client between the limits, most of them some dozens."""
    rng = np.random.default_rng(seed)
    rows = np.clip(np.exp(rng.normal(3.5, 1.3, CLIENTS)), low, high).astype(int)
    return _normal(f"{loss}, {rows.min()} to {rows.max()} rows", loss, size, rows, rng)


def log_normal(loss: str, size: int, seed: int) -> Case:
    """From 1 to 10,000 rows a client, half of them below 100."""
    rng = np.random.default_rng(seed)
    rows = _rows(rng, CLIENTS)
    return _normal(f"{loss}, {size} columns, {_span(rows)}", loss, size, rows, rng)


def equal(loss: str, rows: int) -> Case:
    """Clients of about as many rows each: what there is to gain grows with these."""
    rng = np.random.default_rng(8)
    counts = (rows * np.exp(rng.normal(0, 0.5, CLIENTS))).astype(int)
    return _normal(loss, loss, 20, counts, rng)


def unequal() -> Case:
    """Each has some of eight blocks of variables, as hospitals that measure other values."""
    rng = np.random.default_rng(11)
    rows, truth = _rows(rng, CLIENTS), rng.normal(size=(BLOCKS, WIDTH)) / np.sqrt(20)
    parts, blocks = [], []
    for count in rows.tolist():
        own = np.sort(rng.choice(BLOCKS, rng.integers(1, BLOCKS + 1), replace=False))
        A = rng.normal(size=(count, WIDTH * own.size))
        parts.append((A, A @ truth[own].ravel() + rng.normal(size=count)))
        blocks.append(own.tolist())
    title = f"logistic, {WIDTH} to {WIDTH * BLOCKS} variables, {_span(rows)}"
    return Case(title, "logistic", parts, blocks=blocks)


def sparse(loss: str, size: int, density: float, rows: Array, seed: int, **rules: Any) -> Case:
    """Sparse columns of zeros and ones, or wide ones."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=size) * (rng.random(size) < 0.1)
    parts = []
    for count in rows.tolist():
        A = sp.csr_array(sp.random_array((count, size), density=density, rng=rng))
        A.data[:] = 1.0
        parts.append((A, A @ truth + 0.5 * rng.normal(size=count)))
    extra = ", l1" if "l1" in rules else ""
    title = f"{loss}{extra}, {size:,} columns, {density:.1%} dense, {_span(rows)}"
    return Case(title, loss, parts, **rules)


def wide() -> Case:
    """300 dense columns and always fewer rows than columns."""
    rng = np.random.default_rng(12)
    rows = np.clip(np.exp(rng.normal(np.log(40), 1.0, CLIENTS)), 1, 299).astype(int)
    truth, parts = rng.normal(size=300) * (rng.random(300) < 0.1), []
    for count in rows.tolist():
        A = rng.normal(size=(count, 300))
        parts.append((A, A @ truth + 0.5 * rng.normal(size=count)))
    return Case(f"least squares, l1, 300 columns, {_span(rows)}", "least squares", parts, l1=50.0)


def box(clients: int) -> Case:
    """In the place of w8a, which is not in the data: 300 columns of 4 % nonzeros, l1 and a box."""
    rng = np.random.default_rng(5)
    parts = []
    for _ in range(clients):
        A = (rng.random((1000, 300)) < 0.04).astype(float)
        parts.append((sp.csr_array(A), np.where(rng.random(1000) < 0.05, 1.0, -1.0)))
    title = "sparse logistic, l1 and box, 1,000 x 300"
    return Case(title, "logistic", parts, 2.0, (-1.0, 3.0), 0.0)


def owners() -> list[Case]:
    """Data of real owners: classes, schools with one-hot columns, regions; a Dirichlet skew."""
    folder = Path(os.environ.get("DALD_DATA", "../shared/data"))
    found = []
    file = folder / "clients" / "MASS_nlschools.csv"
    if file.exists():
        frame = pd.read_csv(file)
        found.append(
            _owned("classes, absolute", "absolute", frame, "class", "lang", "IQ SES GS COMB")
        )
    file = folder / "clients" / "mlmRev_ScotsSec.csv"
    if file.exists():
        frame = pd.get_dummies(pd.read_csv(file), columns=["sex", "social", "second"])
        told = [str(name) for name in frame if name not in ("rownames", "primary", "attain")]
        found.append(
            _owned(
                "schools, one-hot, least squares",
                "least squares",
                frame,
                "primary",
                "attain",
                " ".join(told),
                standard=False,
            )
        )
    file = folder / "clients" / "mlmRev_Exam.csv"
    if file.exists():
        frame = pd.get_dummies(pd.read_csv(file), columns=["schgend", "vr", "intake", "sex"])
        frame.columns = frame.columns.str.replace(" ", "")
        told = [str(name) for name in frame if "_" in str(name)] + ["standLRT", "schavg"]
        found.append(
            _owned(
                "schools, one-hot, logistic",
                "logistic",
                frame,
                "school",
                "normexam",
                " ".join(told),
                standard=False,
            )
        )
    if (folder / "california" / "cal_housing.data").exists():
        names = ["long", "lat", "age", "rooms", "beds", "people", "homes", "income", "value"]
        frame = pd.read_csv(folder / "california" / "cal_housing.data", names=names)
        frame["region"] = np.floor(frame["long"] * 2).astype(str) + np.floor(frame["lat"]).astype(
            str
        )
        frame["value"] /= 1e5
        found.append(
            _owned("regions, absolute", "absolute", frame, "region", "value", " ".join(names[:-1]))
        )
    if (folder / "libsvm" / "a9a").exists():
        A, b = load_svmlight_file(str(folder / "libsvm" / "a9a"))
        rows = dirichlet(b, CLIENTS, 0.5, seed=0)
        parts = [(sp.csr_array(A[own]), b[own]) for own in rows]
        span = _span(np.array([own.size for _, own in parts]))
        found.append(Case(f"adults, Dirichlet 0.5, logistic, {span}", "logistic", parts))
    return found


def real(full: bool) -> list[Case]:
    """Those that the issue names, with its sizes."""
    rng = np.random.default_rng(13)
    cases = [
        log_normal("least squares", 20, 1),
        log_normal("logistic", 20, 2),
        log_normal("hinge", 20, 3),
        log_normal("absolute", 10, 4),
        log_normal("mixed", 20, 9),
        log_normal("logistic", 3, 10),
        unequal(),
        wide(),
        sparse("logistic", 300, 0.005, _rows(rng, CLIENTS), 15),
        sparse("hinge", 300, 0.05, _rows(rng, CLIENTS, 2000), 16),
        *owners(),
    ]
    if full:
        wider = sparse("least squares", 1000, 0.01, _rows(rng, CLIENTS, 900), 14, l1=5.0)
        cases += [box(50), wider]
    return cases


def small() -> list[Case | Network]:
    """Dozens of rows a client, where what does not grow with rows is what counts."""
    return [
        few("least squares", 20, 1, 10000, seed=1),
        few("logistic", 20, 1, 10000, seed=2),
        few("hinge", 20, 5, 400, seed=3),
        few("absolute", 10, 5, 400, seed=4),
        box(5),
        Network(),
    ]


def _rows(rng: np.random.Generator, clients: int, most: int = 10_000) -> Array:
    """Log-normal from 1 to ``most``: the limits are 2.3 deviations from the median."""
    half = np.log(most) / 2
    return np.clip(np.exp(rng.normal(half, half / 2.3, clients)), 1, most).astype(int)


def _span(rows: Array) -> str:
    return f"{rows.min():,} to {rows.max():,} rows"


def _normal(title: str, loss: str, size: int, rows: Array, rng: np.random.Generator) -> Case:
    truth, parts = rng.normal(size=size) / np.sqrt(size), []
    for count in rows.tolist():
        A = rng.normal(size=(count, size))
        parts.append((A, A @ truth + rng.normal(size=count)))
    return Case(title, loss, parts)


def _owned(
    title: str,
    loss: str,
    frame: pd.DataFrame,
    owner: str,
    target: str,
    columns: str,
    standard: bool = True,
) -> Case:
    """A table's rows by their owner, with a column of ones."""
    told = frame[columns.split()].astype(float)
    if standard:
        told = (told - told.mean()) / told.std()
    told.insert(0, "one", 1.0)
    parts = [
        (told.loc[own].to_numpy(), frame[target][own].to_numpy(dtype=float))
        for own in frame.groupby(owner).groups.values()
    ]
    rows = np.array([b.size for _, b in parts])
    return Case(f"{title}, {told.shape[1]} columns, {_span(rows)}", loss, parts)
