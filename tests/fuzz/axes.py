"""The axes of the fuzz, and the point on them of a seed: each block of seeds covers all pairs."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.fuzz.pairs import Pair, Row, covering, random_row

AXES = {
    "kind": ("squares", "logistic", "huber", "l1", "lasso", "box", "linear", "cone"),
    "graph": ("shared", "chain", "ring", "server", "couple", "epigraph"),
    "owners": ("1", "2", "5", "40"),
    "owner unit": (
        "same",
        "variables 1e3",
        "variables 1e6",
        "objectives 1e2",
        "objectives 1e4",
        "spreads 1e2",
        "spreads 1e4",
        "constants 1e6",
    ),
    "entry unit": ("same", "1e3", "1e6", "offsets 1e4"),
    "condition": ("1", "1e3", "1e6", "collinear 1e-4", "polynomial"),
    "rows": ("none", "zero and redundant", "tight", "degenerate"),
    "option": (
        "default",
        "gap 1e-2",
        "gap 1e-4",
        "accuracy 1e-8",
        "no acceleration",
        "random sequence",
        "ADMM",
        "growing budget",
    ),
    "entry point": ("solve", "decompose", "start", "parameter", "sites", "processes"),
}
"""Axis -> choices. "owner unit" and "entry unit" are the units that the user measures in, per owner
and per entry of a variable; "condition" is that of the change of coordinates from the natural ones,
and so of the data; "spreads" differ per owner, which leaves owners ill-determined alone."""

ORDINARY = {
    "owner unit": ("same", "constants 1e6", "objectives 1e2", "variables 1e3"),
    "entry unit": ("same", "1e3", "offsets 1e4"),
    "condition": ("1",),
}
"""Where 97 % have to end optimal and right; the others are ill-determined or far apart in units."""

_FORBIDDEN = {
    ("entry point", "graph"): {("sites", g) for g in AXES["graph"] if g != "shared"}
    | {("decompose", "epigraph")},
    ("entry point", "option"): {("sites", o) for o in ("gap 1e-2", "gap 1e-4", "ADMM")},
    ("graph", "owners"): {(g, "1") for g in ("shared", "chain", "ring", "epigraph")},
    ("entry point", "owners"): {("sites", "1"), ("decompose", "1"), ("processes", "1")},
    ("graph", "owner unit"): {
        (g, f"variables {by}") for g in ("shared", "epigraph") for by in ("1e3", "1e6")
    },
    ("entry point", "owner unit"): {("sites", f"variables {by}") for by in ("1e3", "1e6")},
}
"""What cannot be: a federation has no certificate, one method and one shared variable; one client
needs a server or a coupling; a shared variable has one unit; an epigraph's levels belong to a
coupling."""


def allowed(pair: Pair) -> bool:
    """Whether two choices of two axes may stand together."""
    (axis, choice), (other, chosen) = pair
    return (choice, chosen) not in _FORBIDDEN.get((axis, other), ())


SLOW = frozenset({("owners", "40"), ("entry point", "processes")})
"""Choices that take ten times longer: drawn where a pair needs them, and not otherwise."""

BLOCK = 100
"""Seeds in which all pairs occur: a greedy cover takes about 80, random rows fill it up."""


def point(seed: int) -> Row:
    """The choices of a seed."""
    return _block(seed // BLOCK)[seed % BLOCK]


@cache
def _block(number: int) -> list[Row]:
    rng = np.random.default_rng(number)
    rows = covering(AXES, allowed, rng, SLOW)
    rows += [random_row(AXES, allowed, rng, SLOW) for _ in range(BLOCK - len(rows))]
    return [rows[at] for at in rng.permutation(len(rows))]


def is_ordinary(row: Row) -> bool:
    """Whether a point lies where nearly all runs have to end optimal and right."""
    return all(row[axis] in choices for axis, choices in ORDINARY.items())
