"""Table 18: rounds of drawn models against those that are wanted, on six graphs and long chains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
from scipy.stats import ortho_group

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.owners import BENT, CURVED, KINKED, graph

MOST, SIZE, ROWS, SEED = 1000, 8, 20, 23
"""Rounds at most; shared entries and rows of a client; of what is drawn."""

Array = np.ndarray
Loss = Callable[[Array, Array, cp.Variable], Any]


class Kind(NamedTuple):
    """How many rounds are wanted on a star and elsewhere, with how many clients, of which loss."""

    wanted: tuple[int, int]
    counts: tuple[int, ...]
    loss: Loss
    spread: float = 0.0
    """Powers of ten that combinations of the columns differ by, the same of all clients."""
    apart: float = 0.0
    """Powers of ten that clients' columns differ by, and how far truths are apart."""


def _squares(A: Array, b: Array, x: cp.Variable) -> Any:
    return cp.sum_squares(A @ x - b)


def _signs(b: Array) -> Array:
    return np.where(b > 0, 1.0, -1.0)


KINDS: dict[str, Kind] = {
    "least squares": Kind(CURVED, (50, 200), _squares),
    "ridge": Kind(CURVED, (50, 200), lambda A, b, x: _squares(A, b, x) + cp.sum_squares(x)),
    "ill-conditioned": Kind(CURVED, (50, 200), _squares, spread=2.0),
    "heterogeneous": Kind(CURVED, (50, 200), _squares, apart=1.0),
    "logistic": Kind(
        BENT,
        (50,),
        lambda A, b, x: (
            cp.sum(cp.logistic(-cp.multiply(_signs(b), A @ x))) + cp.sum_squares(x) / 100
        ),
    ),
    "huber": Kind(BENT, (50,), lambda A, b, x: cp.sum(cp.huber(A @ x - b, 1))),
    "lasso": Kind(BENT, (50,), lambda A, b, x: _squares(A, b, x) + 5 * cp.norm1(x)),
    "elastic net": Kind(
        BENT,
        (50,),
        lambda A, b, x: _squares(A, b, x) + 5 * cp.norm1(x) + cp.sum_squares(x),
    ),
    "simplex": Kind(BENT, (50,), lambda A, b, x: (_squares(A, b, x), [x >= 0, cp.sum(x) == 1])),
    "group lasso": Kind(BENT, (50,), lambda A, b, x: _squares(A, b, x) + 5 * cp.norm(x[:3])),
    "absolute": Kind(KINKED, (20, 50), lambda A, b, x: cp.norm1(A @ x - b)),
    "quantile": Kind(
        KINKED, (20, 50), lambda A, b, x: cp.sum(cp.maximum(0.8 * (b - A @ x), 0.2 * (A @ x - b)))
    ),
    "hinge": Kind(
        KINKED,
        (20, 50),
        lambda A, b, x: cp.sum(cp.pos(1 - cp.multiply(_signs(b), A @ x))) + cp.sum_squares(x) / 20,
    ),
    "linear program": Kind(
        KINKED,
        (20, 50),
        lambda A, b, x: (A[0] @ x, [A[1:] @ x <= 1 + np.abs(b[1:]), cp.abs(x) <= 5]),
    ),
    "cone": Kind(KINKED, (20, 50), lambda A, b, x: (A[0] @ x, [cp.norm(A[1:6] @ x - b[1:6]) <= 8])),
}
GRAPHS = ("star", "ring", "grid", "geometric", "tree", "path")
LONG = 400


class Case(NamedTuple):
    name: str
    make: Callable[[], dm.Model]
    wanted: int


def drawn(kind: str, count: int, shape: str, seed: int = SEED) -> dm.Model:
    """So many clients of ``ROWS`` rows each."""
    stated = KINDS[kind]
    rng = np.random.default_rng(seed)
    truth, x, model = rng.normal(size=SIZE), cp.Variable(SIZE), dm.Model(kind)
    columns = 10.0 ** (stated.spread * np.linspace(0.5, -0.5, SIZE))
    mixed = np.diag(columns) @ ortho_group.rvs(SIZE, random_state=seed)
    for name in range(count):
        own = stated.apart * rng.uniform(-0.5, 0.5, SIZE)
        A = rng.normal(size=(ROWS, SIZE)) @ mixed * 10.0**own
        target = truth + stated.apart * rng.normal(size=SIZE)
        b = A @ target + 0.5 * rng.normal(size=ROWS)
        part = stated.loss(A, b, x)
        model.client(name, *(part if isinstance(part, tuple) else (part,)))
    model.topology(_graph(shape, count, seed))
    return model


def _graph(shape: str, count: int, seed: int) -> nx.Graph | None:
    if shape == "grid":
        long = next(side for side in range(int(count**0.5), 0, -1) if count % side == 0)
        return nx.convert_node_labels_to_integers(nx.grid_2d_graph(long, count // long))
    return graph(shape, count, seed)


def cases(seed: int = SEED) -> Iterator[Case]:
    for kind, stated in KINDS.items():
        star, other = stated.wanted
        for count in stated.counts:
            for shape in GRAPHS:
                make = partial(drawn, kind, count, shape, seed)
                yield Case(f"{kind}, {count}, {shape}", make, star if shape == "star" else other)
        if stated.wanted is CURVED:
            make = partial(drawn, kind, LONG, "path", seed)
            yield Case(f"{kind}, {LONG}, path", make, other)


def row(case: Case) -> tuple[list[str], bool]:
    common.say(f"18 wanted: {case.name}")
    result = case.make().solve(max_rounds=MOST)
    is_done = result.status == "optimal"
    is_sound = is_done and result.verify(aio=False).ok
    shown = str(result.rounds) if is_done else f"> {result.rounds} ({result.status})"
    common.say(f"   {shown} for {case.wanted}{'' if is_sound else ', not verified'}")
    is_good = is_sound and result.rounds <= case.wanted
    words = [case.name, shown, str(case.wanted), "yes" if is_sound else "no"]
    return words, is_good


def table() -> str:
    found = [row(case) for case in cases()]
    return (
        "## 18. Rounds of drawn models\n\n"
        f"By default options, at most {MOST:,} rounds; clients of {SIZE} shared entries and {ROWS} "
        "rows, how many of them on which graph. Columns of the ill-conditioned are combinations "
        "that differ by a factor of 100; those of the heterogeneous differ by 10 from client to "
        "client, and their truths by as much as these are large. Verified by the certificate, "
        "without the AIO, and in no more rounds than wanted: "
        f"{sum(good for _, good in found)} of {len(found)}.\n\n"
        + common.markdown(["clients", "rounds", "wanted", "verified"], [one for one, _ in found])
    )
