"""The same model said otherwise: in other units, in another order, turned, split.

Each keeps the optimum, so nothing but the words of a result may change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.case import Case, Link, Units


def in_units(case: Case, units: Units) -> Case:
    """The same model as it is in other units."""
    return replace(case, units=units)


def reordered(case: Case, order: Sequence[int]) -> Case:
    """The clients declared in another order."""
    return replace(case, owners=tuple(case.owners[at] for at in order))


def turned(case: Case) -> Case:
    """Every consensus equality written the other way round."""
    return replace(case, links=tuple(Link(link.right, link.left) for link in case.links))


def split(case: Case, at: int) -> Case:
    """One client as two that have half of its objective each, and all of its constraints.

    Both agree on what others know of them. A variable that the client keeps for itself is no
    longer one: each half has its own, and at the optimum of both the sum is the same.
    """
    owner = case.owners[at]
    half = tuple(f"0.5 * ({term})" for term in owner.terms)
    mine = [one for one in case.unknowns if one.name in owner.unknowns]
    shared = {n for other in case.owners if other is not owner for n in other.unknowns}
    copied = {one.ordinary: one.ordinary + "_2" for one in mine if one.name not in shared}
    twins = tuple(replace(one, name=one.name + "_2") for one in mine if one.ordinary in copied)

    def renamed(text: str) -> str:
        pattern = r"\b(" + "|".join(map(re.escape, copied)) + r")\b"
        return re.sub(pattern, lambda found: copied[found[0]], text) if copied else text

    other = replace(
        owner,
        name=owner.name + "_2",
        unknowns=tuple(n if n in shared else n + "_2" for n in owner.unknowns),
        terms=tuple(map(renamed, half)),
        rules=tuple(map(renamed, owner.rules)),
    )
    agreed = tuple(
        Link(one.ordinary, one.ordinary + "_2")
        for one in mine
        if one.measured and one.ordinary in copied
    )
    talk = ((owner.name, other.name),) if case.topology else ()
    return replace(
        case,
        owners=(*case.owners[:at], replace(owner, terms=half), *case.owners[at + 1 :], other),
        unknowns=case.unknowns + twins,
        links=case.links + agreed,
        topology=case.topology + talk,
    )
