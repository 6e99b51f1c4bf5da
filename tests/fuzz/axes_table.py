"""The counted table of the axes: what was covered, and what came out along each."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tests.fuzz.axes import AXES, allowed
from tests.fuzz.axes_judge import FAILURES, AxesVerdict
from tests.fuzz.pairs import all_pairs, pairs_of


def axes_tables(verdicts: Sequence[AxesVerdict]) -> str:
    """Coverage, verdicts by choice, and failures."""
    rows = pd.DataFrame([one.flat() for one in verdicts])
    parts = [coverage(verdicts), by_choice(rows)]
    for name, chosen in (
        ("ordinary", [one for one in verdicts if one.is_ordinary]),
        ("other", [one for one in verdicts if not one.is_ordinary]),
    ):
        known = [one for one in chosen if one.verdict not in ("doubtful", "refused")]
        ended = [one for one in known if one.verdict in ("right", "unproved")]
        share = len(ended) / max(1, len(known))
        parts.append(f"{name} points, optimal and right: {len(ended)} of {len(known)}, {share:.1%}")
    parts.append(f"{rows.seconds.sum():.0f} seconds of work, {rows.seconds.mean():.2f} per model")
    failed = [one for one in verdicts if one.failed]
    parts += [f"failures: {len(failed)}", *map(described, failed)]
    refused = [one for one in verdicts if one.verdict == "refused"]
    parts += [f"refused: {len(refused)}", *map(described, refused)]
    return "\n\n".join(parts[:5]) + "\n" + "\n".join(parts[5:])


SHOWN = 20
"""Pairs that are listed: of a run shorter than a block there are hundreds."""


def coverage(verdicts: Sequence[AxesVerdict]) -> str:
    """The number of pairs of choices that were judged, and the count of the rarest."""
    judged = [one for one in verdicts if one.verdict not in ("doubtful", "refused", "timeout")]
    counts = dict.fromkeys(all_pairs(AXES, allowed), 0)
    for one in judged:
        for pair in pairs_of(one.row):
            counts[pair] += 1
    missed = sorted(pair for pair, count in counts.items() if not count)
    text = f"pairs of choices judged: {len(counts) - len(missed)} of {len(counts)}"
    text += f", each {min(counts.values())} to {max(counts.values())} times"
    return text + "".join(f"\n  not judged: {pair}" for pair in missed[:SHOWN])


def by_choice(rows: pd.DataFrame) -> str:
    """Verdicts along each axis."""
    long = rows.melt(id_vars="verdict", value_vars=list(AXES), var_name="axis", value_name="choice")
    counted = long.groupby(["axis", "choice", "verdict"]).size().unstack(fill_value=0)
    first = [name for name in FAILURES if name in counted]
    order = [*first, *(name for name in counted if name not in first)]
    whole = rows.verdict.value_counts().reindex(order)
    counted = counted[order].reindex([(a, c) for a in AXES for c in AXES[a]], fill_value=0)
    counted.loc[("all", ""), :] = whole
    return counted.astype(int).to_string()


def described(one: AxesVerdict) -> str:
    """One line: the seed draws it again."""
    choices = ", ".join(f"{axis} {choice}" for axis, choice in one.row.items())
    said = f"certificate {one.certificate}, verify {one.verify}"
    return (
        f"  seed {one.seed}: {one.verdict}, {one.status}, {one.label}, {said}, {one.detail}\n"
        f"    {choices}"
    )
