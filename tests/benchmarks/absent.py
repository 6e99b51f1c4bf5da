"""Table 11: rounds with a third of the clients absent each round, over those with none absent."""

from __future__ import annotations

import numpy as np

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.acceleration import COUNT, MOST, SIZE, drawn

KINDS = ("least squares", "huber", "lasso", "group lasso", "simplex", "hinge", "linear program")
SEEDS = (0, 1)
SHARE = 0.3


def row(kind: str, graph: str) -> tuple[list[str], list[float]]:
    common.say(f"11 absent: {kind}, {graph}")
    whole = drawn(kind, graph).solve(max_rounds=MOST)
    shown, ratios, sound = [], [], True
    for seed in SEEDS:
        result = drawn(kind, graph).solve(online=dm.Dropout(SHARE, seed=seed), max_rounds=MOST)
        is_done = result.status == "optimal"
        shown.append(str(result.rounds) if is_done else f"> {result.rounds} ({result.status})")
        ratios.append((result.rounds if is_done else MOST) / whole.rounds)
        sound = sound and is_done and result.verify().ok
    return [f"{kind}, {graph}", str(whole.rounds), *shown, "yes" if sound else "no"], ratios


def table() -> str:
    found = [row(kind, graph) for kind in KINDS for graph in ("star", "grid", "path")]
    ratios = np.array([one for _, mine in found for one in mine])
    heads = ["clients", "none absent", *(f"absent, seed {seed}" for seed in SEEDS)]
    return (
        "## 11. Rounds with 30 % of the clients absent each round\n\n"
        f"`online=dm.Dropout({SHARE})`, {COUNT} clients of {SIZE} shared entries, by default "
        f"options, at most {MOST:,} rounds. Over the rounds with none absent, where a run without "
        f"an answer counts {MOST:,}: geometric mean {np.exp(np.log(ratios).mean()):.2g}, worst "
        f"{ratios.max():.2g}, at most 4 in {(ratios <= 4).mean():.0%} of the runs.\n\n"
        + common.markdown([*heads, "verified"], [one for one, _ in found])
    )
