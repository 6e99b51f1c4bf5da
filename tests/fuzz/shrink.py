"""Makes a failing case small: drops one thing after the other for as long as it fails alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from tests.fuzz.case import Case, Units
from tests.fuzz.judge import judge

TRIES = 200
"""Cases run at most; a shrunk case has about five things left, and is found in about fifty."""


def shrunk(case: Case, kind: tuple[str, str], tries: int = TRIES) -> Case:
    """The smallest case found whose verdict is of the same kind."""
    return smallest(case, lambda smaller: judge(smaller).kind == kind, tries)


def smallest(case: Case, fails: Callable[[Case], bool], tries: int = TRIES) -> Case:
    """Drop things one at a time, and begin again whenever it still fails."""
    left = tries
    found = True
    while found and left > 0:
        found = False
        for smaller in islice(candidates(case), left):
            left -= 1
            if fails(smaller):
                case, found = smaller, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """The case with one thing less, the largest things first."""
    yield from _fewer_clients(case)
    for at in range(len(case.options)):
        yield replace(case, options=case.options[:at] + case.options[at + 1 :])
    yield from _plainer_units(case.units, case)
    if case.maximises:
        yield replace(case, maximises=False)
    for at, owner in enumerate(case.owners):
        for what in ("rules", "terms"):
            parts = getattr(owner, what)
            for k in range(len(parts)):
                if what == "terms" and len(parts) == 1:
                    continue
                fewer = replace(owner, **{what: parts[:k] + parts[k + 1 :]})
                yield _tidied(replace(case, owners=_put(case.owners, at, fewer)))
    if len(case.links) >= len(case.owners):  # there is a cycle; a tree would fall apart
        for link in case.links:
            yield replace(case, links=tuple(one for one in case.links if one is not link))
    for at, one in enumerate(case.unknowns):
        if one.measured and len(one.shape) < 2 and (one.attribute or one.bounds):
            plain = replace(one, attribute="", bounds=None)
            yield replace(case, unknowns=_put(case.unknowns, at, plain))


def _put(things: tuple, at: int, thing: object) -> tuple:
    return (*things[:at], thing, *things[at + 1 :])


def _plainer_units(units: Units, case: Case) -> Iterator[Case]:
    for name, plain in (("objective", 1.0), ("variable", 1.0), ("offset", 0.0)):
        if getattr(units, name) != plain:
            yield replace(case, units=replace(units, **{name: plain}))


def _fewer_clients(case: Case) -> Iterator[Case]:
    """Without a client; its neighbours are joined where they would fall apart, in a chain say."""
    if len(case.owners) <= 2:
        return
    for owner in case.owners:
        others = tuple(one for one in case.owners if one is not owner)
        mine = "x" + owner.name[1:]
        near = [link for link in case.links if mine in _ends(link.left, link.right)]
        ends = [end for link in near for end in (link.left, link.right) if end != mine]
        if any(" " in end or "[" in end for end in ends):
            continue  # affine sides cannot be joined
        far = tuple(link for link in case.links if link not in near)
        bridges = tuple(replace(near[0], left=ends[0], right=end) for end in ends[1:])
        talk = [pair for pair in case.topology if owner.name in pair]
        known = [a if b == owner.name else b for a, b in talk]
        hops = tuple((known[0], name) for name in known[1:])
        topology = tuple(pair for pair in case.topology if pair not in talk)
        options = tuple(one for one in case.options if f'"{owner.name}"' not in one[1])
        yield _tidied(
            replace(
                case,
                owners=others,
                links=tuple(dict.fromkeys(far + bridges)),
                topology=topology + hops,
                options=options,
            )
        )


def _ends(left: str, right: str) -> set[str]:
    return {word for side in (left, right) for word in side.replace("[", " ").split()}


def _tidied(case: Case) -> Case:
    """Without the variables that nobody mentions any more."""
    text = " ".join(
        [part for owner in case.owners for part in (*owner.terms, *owner.rules)]
        + [side for link in case.links for side in (link.left, link.right)]
    )
    used = tuple(one for one in case.unknowns if _mentioned(one.ordinary, text))
    names = {one.name for one in used}
    owners = tuple(
        replace(owner, unknowns=tuple(n for n in owner.unknowns if n in names))
        for owner in case.owners
    )
    return replace(case, unknowns=used, owners=owners)


def _mentioned(name: str, text: str) -> bool:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    return name in words
