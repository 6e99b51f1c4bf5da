"""Table 17: rounds of models of real owners, drawn; every third is held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load_hospitals
from tests.benchmarks import common
from tests.paths import DATA

COUNT, MOST, ROWS = 60, 600, 200
"""Models drawn; rounds at most; rows of an owner at most, who else has up to thousands."""
LEVELS = (0.25, 0.5, 0.75)
"""The quantiles that must not cross."""

Array = np.ndarray


class Owner(NamedTuple):
    """Columns, the constant first, and targets."""

    A: Array
    b: Array


Loss = Callable[[Array, Array, cp.Variable], Any]


def _labels(b: Array) -> Array:
    return np.where(b > 0, 1.0, -1.0)


def _logistic(A: Array, b: Array, x: cp.Variable) -> Any:
    return cp.sum(cp.logistic(-cp.multiply(_labels(b), A @ x))) + cp.sum_squares(x) / 100


def _hinge(A: Array, b: Array, x: cp.Variable) -> Any:
    return cp.sum(cp.pos(1 - cp.multiply(_labels(b), A @ x))) + cp.sum_squares(x) / 100


def _squares(A: Array, b: Array, x: cp.Variable) -> Any:
    return cp.sum_squares(A @ x - b)


def _pinball(r: Any, level: float) -> Any:
    return cp.sum(cp.maximum(level * r, (level - 1) * r))


def _uncrossed(A: Array, b: Array, x: cp.Variable) -> Any:
    cost = sum(_pinball(b - A @ x[:, at], level) for at, level in enumerate(LEVELS))
    return cost, [A @ x[:, 0] <= A @ x[:, 1], A @ x[:, 1] <= A @ x[:, 2]]


def _personal(A: Array, b: Array, x: cp.Variable) -> Any:
    own = cp.Variable(A.shape[1])
    return _squares(A, b, own) + 5 * cp.norm(own - x)


CURVED, BENT, KINKED = (20, 20), (30, 60), (160, 420)
"""Rounds that are wanted on a star and on other graphs; on chains of 100 and more at least 60."""
LOSSES: dict[str, tuple[tuple[int, int], Loss]] = {
    "least squares": (CURVED, _squares),
    "ridge": (CURVED, lambda A, b, x: _squares(A, b, x) + cp.sum_squares(x)),
    "logistic": (BENT, _logistic),
    "huber": (BENT, lambda A, b, x: cp.sum(cp.huber(A @ x - b, 1))),
    "lasso": (BENT, lambda A, b, x: _squares(A, b, x) + 5 * cp.norm1(x)),
    "group lasso": (BENT, lambda A, b, x: _squares(A, b, x) + 5 * cp.norm(x[1:])),
    "no negative weights": (BENT, lambda A, b, x: (_squares(A, b, x), [x[1:] >= 0])),
    "personal, norm": (BENT, _personal),
    "absolute": (KINKED, lambda A, b, x: cp.norm1(A @ x - b)),
    "quantile": (KINKED, lambda A, b, x: _pinball(b - A @ x, 0.8)),
    "quantiles that do not cross": (KINKED, _uncrossed),
    "hinge": (KINKED, _hinge),
    "largest residual": (KINKED, lambda A, b, x: cp.norm_inf(A @ x - b)),
    "norm of residuals": (KINKED, lambda A, b, x: cp.norm(A @ x - b)),
}


def _owners(told: pd.DataFrame, target: pd.Series, by: Any) -> list[Owner]:
    """One of each group: at most ROWS rows, never of fewer than two."""
    columns = pd.get_dummies(told, drop_first=True).astype(float)
    columns.insert(0, "one", 1.0)
    groups = [rows[:ROWS] for rows in columns.groupby(by, observed=True).indices.values()]
    A, b = columns.to_numpy(), target.to_numpy(float)
    return [Owner(A[rows], b[rows]) for rows in groups if len(rows) > 1]


@cache
def _frame(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / "clients" / name)


def _exam() -> list[Owner]:
    frame = _frame("mlmRev_Exam.csv")
    kinds = ["schgend", "schavg", "vr", "intake", "standLRT", "sex", "type"]
    return _owners(frame[kinds], frame.normexam, frame.school)


def _classes() -> list[Owner]:
    frame = _frame("MASS_nlschools.csv")
    return _owners(frame[["IQ", "GS", "SES", "COMB"]], frame.lang, frame["class"])


def _primaries() -> list[Owner]:
    frame = _frame("mlmRev_ScotsSec.csv")
    return _owners(frame[["verbal", "sex", "social"]], frame.attain, frame.primary)


def _secondaries() -> list[Owner]:
    frame = _frame("mlmRev_ScotsSec.csv")
    return _owners(frame[["verbal", "sex", "social"]], frame.attain, frame.second)


def _occupations() -> list[Owner]:
    """Adult census: one owner an occupation; age, education, sex, hours, capital."""
    first = (*range(1, 6), *range(35, 40), 72, *range(74, 83))
    told: list[list[float]] = []
    answers, by = [], []
    with (DATA / "libsvm" / "a8a").open() as file:
        for line in file:
            label, *cells = line.split()
            on = {int(cell.split(":")[0]) for cell in cells}
            job = [at for at in range(47, 61) if at in on]
            if job:
                told.append([float(at in on) for at in first])
                answers.append(float(label))
                by.append(job[0])
    return _owners(pd.DataFrame(told), pd.Series(answers), np.array(by))


def _hospitals() -> list[Owner]:
    parts = load_hospitals(DATA).values()
    return [
        Owner(np.column_stack([np.ones(len(one.target)), one.features])[:ROWS], one.target[:ROWS])
        for one in parts
    ]


def _wines() -> list[Owner]:
    parts = []
    for colour in ("red", "white"):
        frame = pd.read_csv(DATA / "uci" / "wine" / f"winequality-{colour}.csv", sep=";")
        parts.append(frame.assign(owner=colour + frame.alcohol.round().astype(str)))
    frame = pd.concat(parts, ignore_index=True)
    told = frame.drop(columns=["quality", "owner"])
    return _owners(told, frame.quality, frame.owner)


def _counties() -> list[Owner]:
    """California by longitude, in hundreds of thousands of dollars."""
    frame = pd.read_csv(DATA / "california" / "cal_housing.data", header=None)
    return _owners(frame.iloc[:, 2:8], frame[8] / 1e5, pd.cut(frame[0], 25, labels=False))


PEOPLE: dict[str, Callable[[], list[Owner]]] = {
    "exam": _exam,
    "classes": _classes,
    "primaries": _primaries,
    "secondaries": _secondaries,
    "occupations": _occupations,
    "hospitals": _hospitals,
    "wines": _wines,
    "California": _counties,
}


@cache
def owners(name: str, raw: bool) -> Sequence[Owner]:
    """As they are, or all columns in units of their spread; targets around their mean over that."""
    parts = PEOPLE[name]()
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    spread = A.std(axis=0)
    shift, unit = np.where(spread > 0, A.mean(axis=0), 0.0), np.where(spread > 0, spread, 1.0)
    if raw:
        shift, unit = np.zeros(len(unit)), np.ones(len(unit))
    return [Owner((one.A - shift) / unit, (one.b - b.mean()) / b.std()) for one in parts]


def graph(kind: str, count: int, seed: int) -> nx.Graph | None:
    if kind == "star":
        return None
    if kind == "geometric":
        radius = 1.5 * np.sqrt(np.log(count) / (np.pi * count))
        found = nx.random_geometric_graph(count, radius, seed=seed)
        parts = [min(part) for part in nx.connected_components(found)]
        found.add_edges_from(pairwise(parts))
        return nx.Graph(found.edges)
    return {"ring": nx.cycle_graph, "path": nx.path_graph}.get(
        kind, lambda count: nx.full_rary_tree(2, count)
    )(count)


class Case(NamedTuple):
    name: str
    make: Callable[[], dm.Model]
    wanted: int
    is_held_out: bool


def model_of(loss: str, people: str, raw: bool, kind: str, seed: int) -> dm.Model:
    parts = owners(people, raw)
    size = parts[0].A.shape[1]
    x = cp.Variable((size, len(LEVELS)) if loss == "quantiles that do not cross" else size)
    model = dm.Model(loss)
    for name, (A, b) in enumerate(parts):
        stated = LOSSES[loss][1](A, b, x)
        model.client(name, *(stated if isinstance(stated, tuple) else (stated,)))
    model.topology(graph(kind, len(parts), seed))
    return model


def cases(seed: int = 17, count: int = COUNT) -> Iterator[Case]:
    """Every loss in turn; whose data, in which units and on which graph is drawn."""
    rng = np.random.default_rng(seed)
    for at in range(count):
        loss = list(LOSSES)[at % len(LOSSES)]
        people, raw = str(rng.choice(list(PEOPLE))), bool(rng.integers(2))
        kind = str(rng.choice(["star", "star", "ring", "path", "tree", "geometric"]))
        star, other = LOSSES[loss][0]
        title = f"{loss}, {people}{' raw' if raw else ''}, {kind}"
        wanted = star if kind == "star" else other
        if kind in ("ring", "path") and len(owners(people, raw)) >= 100:
            wanted = max(wanted, 60)
        make = partial(model_of, loss, people, raw, kind, at)
        yield Case(title, make, wanted, at % 3 == 2)


def row(case: Case) -> tuple[list[str], bool]:
    common.say(f"17 owners: {case.name}")
    model = case.make()
    result = model.solve(max_rounds=MOST)
    is_done = result.status == "optimal"
    is_sound = is_done and result.verify().ok
    shown = str(result.rounds) if is_done else f"> {result.rounds} ({result.status})"
    common.say(f"   {shown} for {case.wanted}")
    held = "held out" if case.is_held_out else ""
    size = max(sub.entries.size for sub in model.compile().values())
    words = [case.name, str(len(model.clients)), str(size), shown, str(case.wanted), held]
    return [*words, "yes" if is_sound else "no"], is_done and result.rounds <= case.wanted


def table() -> str:
    if not (DATA / "clients").is_dir():
        return "## 17. Rounds of real owners\n\nNo data under DALD_DATA."
    found = [row(case) for case in cases()]
    heads = ["owners", "number", "largest shared entries", "rounds", "wanted", "", "verified"]
    return (
        "## 17. Rounds of real owners\n\n"
        f"{COUNT} models by default options, at most {MOST} rounds: every loss in turn, of whose "
        "data, in which units and on which graph drawn; owners have their own numbers of rows (at "
        f"most {ROWS}), and columns that are constant within them. No constant was chosen on those "
        f"held out. No more rounds than wanted: {sum(good for _, good in found)}.\n\n"
        + common.markdown(heads, [words for words, _ in found])
    )
