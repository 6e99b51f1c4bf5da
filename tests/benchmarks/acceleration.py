"""Tables 9 and 12: rounds of the accelerations, and of the plain loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load
from dald_model.errors import DatasetError
from dald_model.experiments import table1
from dald_model.models.linear_regression import consensus_regression
from tests.benchmarks import common
from tests.paths import DATA

COUNT, SIZE, ROWS, MOST = 20, 6, 20, 1000
WAYS: dict[str, Any] = {"default": dm.Hybrid(), "Anderson": dm.Anderson(), "plain": None}

GRAPHS: dict[str, nx.Graph | None] = {
    "star": None,
    "ring": nx.cycle_graph(COUNT),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, COUNT // 4)),
    "tree": nx.full_rary_tree(2, COUNT),
    "path": nx.path_graph(COUNT),
}


def _logistic(A: np.ndarray, b: np.ndarray, x: cp.Variable) -> Any:
    return cp.sum(cp.logistic(-cp.multiply(np.sign(b), A @ x)))


def _hinge(A: np.ndarray, b: np.ndarray, x: cp.Variable) -> Any:
    return cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x))) + cp.sum_squares(x) / 20


def _linear(A: np.ndarray, b: np.ndarray, x: cp.Variable) -> tuple[Any, list[Any]]:
    return A[0] @ x, [A[1:] @ x <= 1 + np.abs(b[1:]), cp.abs(x) <= 5]


KINDS: dict[str, Callable[[np.ndarray, np.ndarray, cp.Variable], Any]] = {
    "least squares": lambda A, b, x: cp.sum_squares(A @ x - b),
    "one column ten times": lambda A, b, x: cp.sum_squares(A * ([10] + 5 * [1]) @ x - b),
    "logistic, no ridge": _logistic,
    "huber": lambda A, b, x: cp.sum(cp.huber(A @ x - b, 1)),
    "lasso": lambda A, b, x: cp.sum_squares(A @ x - b) + 5 * cp.norm1(x),
    "group lasso": lambda A, b, x: cp.sum_squares(A @ x - b) + 5 * cp.norm(x[:3]),
    "simplex": lambda A, b, x: (cp.sum_squares(A @ x - b), [x >= 0, cp.sum(x) == 1]),
    "absolute": lambda A, b, x: cp.norm1(A @ x - b),
    "quantile": lambda A, b, x: cp.sum(0.5 * cp.abs(A @ x - b) + 0.2 * (A @ x - b)),
    "hinge": _hinge,
    "linear program": _linear,
    "cone": lambda A, b, x: (A[0] @ x, [cp.norm(A[1:6] @ x - b[1:6]) <= 8]),
}


class Case(NamedTuple):
    name: str
    make: Callable[[], dm.Model]


def drawn(kind: str, graph: str, seed: int = 9) -> dm.Model:
    """Twenty clients of twenty rows each."""
    rng = np.random.default_rng(seed)
    truth, x, model = rng.normal(size=SIZE), cp.Variable(SIZE), dm.Model(kind)
    for name in range(COUNT):
        A = rng.normal(size=(ROWS, SIZE))
        stated = KINDS[kind](A, A @ truth + 0.5 * rng.normal(size=ROWS), x)
        model.client(name, *(stated if isinstance(stated, tuple) else (stated,)))
    model.topology(GRAPHS[graph])
    return model


def schools(chain: bool) -> dm.Model:
    """Scores in language of 133 real classes of 4 to 35 pupils, raw columns."""
    frame = pd.read_csv(DATA / "clients" / "MASS_nlschools.csv")
    x, model = cp.Variable(5), dm.Model("classes")
    for name, rows in frame.groupby("class"):
        columns = [rows["IQ"], rows["GS"], rows["SES"], rows["COMB"] != 0]
        A = np.column_stack([np.ones(len(rows)), *columns]).astype(float)
        model.client(name, cp.sum_squares(A @ x - rows["lang"].to_numpy(float)))
    model.topology(nx.path_graph(list(model.clients)) if chain else None)
    return model


def cases(seed: int = 9) -> Iterator[Case]:
    for kind in KINDS:
        for graph in GRAPHS:
            yield Case(f"{kind}, {graph}", lambda k=kind, g=graph: drawn(k, g, seed))
    for name in table1.PAPER:
        for raw in (False, True):
            try:
                rows = load(name) if raw else load(name).standardised()
            except DatasetError:
                continue
            parts = {f"node {at + 1}": part for at, part in enumerate(rows.split(3, table1.SEED))}
            for chain in (False, True):
                title = f"{name}{' raw' if raw else ''}, {'chain' if chain else 'star'} of 3"
                yield Case(title, lambda p=parts, c=chain: consensus_regression(p, chain=c))
    if (DATA / "clients").is_dir():
        for chain in (False, True):
            yield Case(f"133 classes, {'chain' if chain else 'star'}", lambda c=chain: schools(c))


def row(case: Case) -> tuple[list[str], list[int]]:
    common.say(f"9 acceleration: {case.name}")
    shown, counted, sound = [], [], False
    for name, way in WAYS.items():
        result = case.make().solve(acceleration=way, max_rounds=MOST)
        is_done = result.status == "optimal"
        shown.append(str(result.rounds) if is_done else f"> {result.rounds} ({result.status})")
        counted.append(result.rounds if is_done else MOST)
        if name == "default":
            sound = is_done and result.verify().ok
    return [case.name, *shown, "yes" if sound else "no"], counted


def table() -> str:
    found = [row(case) for case in cases()]
    counted = np.array([numbers for _, numbers in found], float)
    default, best = counted[:, 0] / counted[:, 2], counted[:, 0] / counted[:, 1:].min(axis=1)
    return (
        "## 9. Rounds with and without acceleration\n\n"
        f"By default options but for the acceleration, at most {MOST:,} rounds; {COUNT} clients of "
        f"{SIZE} shared entries where no data set is named. Rounds of the default over those of "
        f"the plain loop, where a run without an answer counts {MOST:,}: geometric mean "
        f"{np.exp(np.log(default).mean()):.2g}, worst {default.max():.2g}; over the better of both "
        f"others, worst {best.max():.2g}.\n\n"
        + common.markdown(["clients", *WAYS, "default verified"], [one for one, _ in found])
    )
