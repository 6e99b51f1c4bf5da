r"""The paper's Table 1 beside ours: five regressions over three nodes in a chain (Section VI-A)."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dald_model.coordinate.penalty import Fixed
from dald_model.coordinate.stopping import FixedBudget
from dald_model.datasets import Dataset, Folder, load
from dald_model.errors import DatasetError
from dald_model.model import Model
from dald_model.models.linear_regression import consensus_regression
from dald_model.schedule.sequence import Sequence


class Printed(NamedTuple):
    """One row of the paper's Table 1."""

    rows: int
    aio_mse: float
    dald_mse: float
    aio_r2: float
    dald_r2: float


PAPER = {  # Table 1 as printed: instances, then MSE and R2, each AIO and DALD
    "diabetes": Printed(442, 2859.6963, 2859.6964, 0.5177, 0.5177),
    "california": Printed(20640, 0.5243, 0.5310, 0.6062, 0.6012),
    "wine": Printed(4898, 0.5398, 0.5407, 0.2921, 0.2909),
    "abalone": Printed(4177, 4.8027, 4.8033, 0.5379, 0.5378),
    "ccpp": Printed(9568, 20.7674, 20.7823, 0.9287, 0.9286),
}

SEQUENCE = [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
"""The hierarchical matrix of Section VI-A: node 1, then 2, then 3."""

SEED = 0
"""Of the random split over the nodes. The paper states none; this is the first, not the best."""

INNER_LOOPS = 1000
"""The paper's bound on inner loops, and ours."""

AGREEMENT = 1e-6
"""What counts as having reached AIO, relative to its objective."""

COLUMNS = ["set", "rows", "method", "mse", "r2", "rounds", "relative_gap"]
"""The columns of the data that ``dald table1 --csv FILE`` writes."""

PAPER_AIO, PAPER_DALD, AIO = "AIO paper", "DALD paper", "AIO"
CC, DC, RAW_CC, RAW_DC = "DALD-CC", "DALD-DC", "DALD-CC raw", "DALD-DC raw"
AS_PAPER = "DALD-DC raw rho=1"


class Way(NamedTuple):
    """One way to run DALD: on which features, over which graph, with which options."""

    raw: bool
    chain: bool
    options: dict[str, Any]


_ORDER = {"sequence": Sequence.from_matrix(SEQUENCE)}
# Zero tolerances run every round, as the paper did.
_BUDGET = {
    "acceleration": None,
    "rho": Fixed(1.0),
    "stopping": FixedBudget(1),
    "eps_pri": 0.0,
    "eps_dual": 0.0,
}

WAYS = {
    CC: Way(False, False, {}),
    DC: Way(False, True, _ORDER),
    RAW_CC: Way(True, False, {}),
    RAW_DC: Way(True, True, _ORDER),
    AS_PAPER: Way(True, True, _ORDER | _BUDGET),
}


def table1(
    data: Folder = None, tell: Callable[[str], None] = lambda line: None
) -> tuple[pd.DataFrame, dict[str, str]]:
    r"""Run the experiments of Table 1.

    Each set is dealt at random to three nodes, with an intercept. For the AIO objective
    :math:`F^*`, by cvxpy, and the sum of squares :math:`F(w)` over all rows, ``relative_gap`` is
    the largest of :math:`|F(w) - F^*| / F^*` over the consensus answer and the vector of each
    single node, and of the same for ``result.value``: nobody is left out.

    Parameters
    ----------
    data
        The folder of the files, see :mod:`dald_model.datasets`.
    tell
        Called with a line of progress after each set.

    Returns
    -------
    frame : pandas.DataFrame
        One row a set and method, with :data:`COLUMNS` first; then ``title``, ``status`` and
        ``nodes``, the MSE of each node's own vector over all rows. ``mse`` and ``r2`` are those
        of the consensus answer: the server's vector, or the mean of the nodes'.
    missing : dict
        Set that could not be loaded -> why.
    """
    lines: list[dict[str, Any]] = []
    missing = {}
    for name in PAPER:
        begun = time.perf_counter()
        try:
            dataset = load(name, data)
        except DatasetError as error:
            missing[name] = str(error)
            continue
        lines += compare(dataset)
        tell(f"{dataset.title}: {lines[-1]['rows']} rows, {time.perf_counter() - begun:.0f} s")
    frame = pd.DataFrame(lines, columns=[*COLUMNS, "title", "status", "nodes"])
    return frame.astype({"rows": "Int64", "rounds": "Int64"}), missing


def compare(dataset: Dataset, ways: Iterable[str] = tuple(WAYS)) -> list[dict[str, Any]]:
    """The lines of one set: the paper's two, AIO, and DALD in these ways."""
    paper = PAPER[dataset.name]
    stated = {"set": dataset.name, "title": dataset.title, "rows": paper.rows}
    common = stated | {"rows": len(dataset.target)}
    # With an intercept, standardising changes the coefficients and not the optimal value.
    scaled = dataset.standardised()
    aio = _all_in_one(scaled)
    return [
        stated | {"method": PAPER_AIO, "mse": paper.aio_mse, "r2": paper.aio_r2},
        stated | {"method": PAPER_DALD, "mse": paper.dald_mse, "r2": paper.dald_r2},
        common | {"method": AIO} | aio,
        *(
            common
            | {"method": name}
            | _distributed(dataset if WAYS[name].raw else scaled, WAYS[name], aio["mse"])
            for name in ways
        ),
    ]


def _model(rows: Dataset, chain: bool) -> Model:
    parts = {f"node {at + 1}": part for at, part in enumerate(rows.split(3, SEED))}
    return consensus_regression(parts, chain=chain)


def _all_in_one(rows: Dataset) -> dict[str, Any]:
    problem = _model(rows, chain=False).monolithic()
    problem.solve(solver="CLARABEL")
    return _score(rows, problem.variables()[0].value) | {
        "status": problem.status,
        "relative_gap": 0.0,
    }


def _distributed(rows: Dataset, way: Way, aio: float) -> dict[str, Any]:
    model = _model(rows, way.chain)
    result = model.solve(max_rounds=INNER_LOOPS, **way.options)
    # With a server these are the same vector three times.
    answer = np.mean([result[c.variables[0]] for c in model.clients.values()], axis=0)
    own = [next(iter(result[name].values())) for name in model.clients]
    nodes = [_score(rows, vector)["mse"] for vector in own]
    score = _score(rows, answer)
    measured = np.array([score["mse"], *nodes, result.value / len(rows.target)])
    return score | {
        "nodes": nodes,
        "status": str(result.status),
        "rounds": result.rounds,
        "relative_gap": float(np.abs(measured / aio - 1).max()),  # NaN if any is NaN
    }


def _score(rows: Dataset, vector: Any) -> dict[str, float]:
    """MSE and R2 over all rows, whoever owns them."""
    mse = float(np.mean((rows.features @ vector[1:] + vector[0] - rows.target) ** 2))
    return {"mse": mse, "r2": 1 - mse / float(rows.target.var())}


def reached(frame: pd.DataFrame) -> bool:
    """Whether both variants of DALD reached AIO on the standardised features of every set."""
    runs = frame[frame["method"].isin([CC, DC])]
    return bool((runs["relative_gap"] <= AGREEMENT).all())


def table1_text(frame: pd.DataFrame) -> str:
    """The paper's table beside ours, how far each run got, and what cannot be reproduced."""
    sections = [
        "Table 1: linear regression with three nodes in a chain, the paper's figures beside ours",
        "Mean squared error (MSE) over all rows. DALD ran on standardised features.",
        _beside(frame, "mse"),
        "R2 score over all rows.",
        _beside(frame, "r2"),
        "How far DALD got with default options, in at most 1,000 rounds. The gap is relative to "
        "the AIO objective and the largest over the consensus answer, each node's own vector and "
        "the reported value; the worst node is the one whose own vector has the largest MSE.",
        "Standardised features:",
        _runs(frame, (CC, DC)),
        "Raw features:",
        _runs(frame, (RAW_CC, RAW_DC)),
        _verdict(frame),
        "The paper's own settings: chain, raw features, rho = 1, v_max = 1, 1,000 rounds, but "
        "exact solves. MSE over all rows of the vector at each node:",
        _nodes_frame(frame),
        *_EXPLANATION,
    ]
    # A table is several lines already; prose is filled.
    return "\n\n".join(s if "\n" in s else textwrap.fill(s, 96) for s in sections)


def _beside(frame: pd.DataFrame, score: str) -> str:
    heads = {PAPER_AIO: "AIO paper", AIO: "AIO ours", PAPER_DALD: "DALD paper"}
    heads |= {CC: "CC ours", DC: "DC ours"}
    shown = _of(frame, AIO)[["rows"]].copy()
    for method, head in heads.items():
        shown[head] = _of(frame, method)[score].map("{:.4f}".format)
    return _text(shown.reset_index(), left=["title"])


def _verdict(frame: pd.DataFrame) -> str:
    scaled, raw = (frame[frame["method"].isin(pair)] for pair in ((CC, DC), (RAW_CC, RAW_DC)))
    if reached(frame):
        first = (
            f"On standardised features all {len(scaled)} runs reached the AIO objective to "
            f"{AGREEMENT:.0e}: the largest gap is {scaled['relative_gap'].max():.1e}, the most "
            f"rounds {scaled['rounds'].max()}."
        )
    else:
        short = scaled[~(scaled["relative_gap"] <= AGREEMENT)]
        named = ", ".join(f"{line['title']} by {line['method']}" for _, line in short.iterrows())
        first = f"NOT reached to {AGREEMENT:.0e} on standardised features: {named}."
    close = raw["relative_gap"] <= AGREEMENT
    second = f"On raw features {close.sum()} of {len(raw)} runs did"
    if not close.all():
        second += (
            f"; the others were still {raw['relative_gap'][~close].min():.1e} to "
            f"{raw['relative_gap'].max():.1e} away. Raw columns are far from centred, so that each "
            "is nearly a multiple of the intercept's column of ones, and the consensus on the two "
            "is slow to find. Standardise first; the intercept makes both the same problem"
        )
    return f"{first} {second}."


_EXPLANATION = (
    "What cannot be reproduced, and why",
    "The AIO column can be, from the rows as published, with an intercept. Wine Quality stands for "
    "red and white wine together, 6,497 rows; the paper's 4,898 are white wine alone and would "
    "give 0.5632 and 0.2819. Its 0.5398 is one unit off in the last place. Abalone's sex needs "
    "indicators, which makes nine features of the paper's eight.",
    "The DALD column cannot be, and nothing here is tuned to it:",
    "(1) The paper does not say which row is at which node. Contiguous and strided splits are "
    f"ruled out; ours is random, with seed {SEED}.",
    "(2) Each printed R2 is 1 - MSE / var(y) over all rows. So the figures are those of one node's "
    "vector on everybody's rows, at a time when the nodes had not yet agreed: the last table shows "
    "how far apart they are after 1,000 rounds.",
    "(3) Diabetes 2859.6964 cannot occur on raw features with the paper's own formulas, where the "
    "penalty is |C|^2: the least over 788 random splits was 2859.6986. It does occur with the more "
    "common half of |C|^2.",
    "(4) California 0.5310 never occurred with exact solves. The paper's solver, scipy's BFGS on "
    "finite differences, ends nearly all its calls in precision loss; on raw California the nodes "
    "then freeze while the multipliers go on.",
    "What is robust, and what this command checks, is that DALD converges to AIO.",
)
# What of this the command does not compute: white wine alone and R2 as 1 - MSE / var(y) are checked
# in tests/experiments/test_table1.py; splits and BFGS are from an independent reproduction in numpy
# and scipy.


def _runs(frame: pd.DataFrame, methods: tuple[str, str]) -> str:
    runs = frame[frame["method"].isin(methods)]
    shown = runs[["title", "method", "status", "rounds"]].copy()
    shown["method"] = shown["method"].str.removesuffix(" raw")
    shown["MSE"] = runs["mse"].map("{:.4f}".format)
    shown["R2"] = runs["r2"].map("{:.4f}".format)
    shown["worst node"] = [f"{max(nodes):.4f}" for nodes in runs["nodes"]]
    shown["gap"] = runs["relative_gap"].map("{:.1e}".format)
    return _text(shown, left=["title", "method", "status"])


def _nodes_frame(frame: pd.DataFrame) -> str:
    ours = _of(frame, AS_PAPER)  # the sets in the same order
    shown = _of(frame, PAPER_DALD)["mse"].map("{:.4f}".format).to_frame("DALD paper")
    for at in range(3):
        shown[f"node {at + 1}"] = [f"{nodes[at]:.4f}" for nodes in ours["nodes"]]
    shown["AIO"] = _of(frame, AIO)["mse"].map("{:.4f}".format)
    return _text(shown.reset_index(), left=["title"])


def _of(frame: pd.DataFrame, method: str) -> pd.DataFrame:
    return frame[frame["method"] == method].set_index("title")


def _text(table: pd.DataFrame, left: list[str]) -> str:
    """Words to the left, numbers to the right."""
    cells = [["set" if c == "title" else str(c) for c in table]]
    cells += [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = ["<" if column in left else ">" for column in table]
    return "\n".join(
        "  " + "  ".join(map("{:{}{}}".format, row, sides, widths)).rstrip() for row in cells
    )
