"""The tables of a run: verdicts and statuses, rounds, and what failed most."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tests.fuzz.judge import FAILURES, Verdict


def frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a case."""
    return pd.DataFrame([one.row() for one in verdicts])


def tables(verdicts: Sequence[Verdict]) -> str:
    """What came out, as text."""
    all_ = frame(verdicts)
    solvable = all_[all_.aio == "optimal"]
    optimal = solvable[solvable.verdict.eq("right") & solvable.status.str.startswith("optimal")]
    parts = [
        _titled("verdict by status", pd.crosstab(all_.verdict, all_.status.replace("", "none"))),
        _titled("verdict by what the all-in-one solve says", pd.crosstab(all_.verdict, all_.aio)),
        f"right and optimal: {len(optimal)} of {len(solvable)} models with an optimum, "
        f"{len(optimal) / max(1, len(solvable)):.2%}",
    ]
    exploded = all_.explode("features")
    share = pd.crosstab(exploded.features, exploded.verdict)
    parts.append(_titled("verdict by feature", share))
    if len(optimal):
        shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]
        ours = optimal[["rounds", "gap", "violation", "price", "seconds"]].abs().quantile(shares)
        parts.append(_titled("quantiles of what is right and optimal", ours.map("{:.2g}".format)))
    parts.append(f"{all_.seconds.sum():.0f} seconds of work, {all_.seconds.mean():.2f} a case")
    failed = all_[all_.verdict.isin(FAILURES)]
    if len(failed):
        kinds = failed.assign(kind=[one.kind[1] for one in verdicts if one.failed])
        counts = kinds.groupby(["verdict", "status", "kind"]).seed.agg(["count", "first"])
        parts.append(_titled("failures", counts.sort_values("count", ascending=False)))
    return "\n\n".join(parts)


def _titled(title: str, table: pd.DataFrame) -> str:
    return f"{title}\n{table.to_string()}"
