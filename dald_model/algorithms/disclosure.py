"""The option ``disclose``: what clients may show, and which algorithm that takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dald_model.algorithms.dald import DALD
from dald_model.algorithms.interior_point import InteriorPoint
from dald_model.coordinate.method import Algorithm
from dald_model.declare.remote import DISCLOSURES
from dald_model.errors import OptionError
from dald_model.schedule.changes import Unanswered


def chosen_algorithm(algorithm: Algorithm | None, disclose: str | None) -> Algorithm:
    """The algorithm that is given, or the one for what may be shown.

    Raises
    ------
    OptionError
        If ``disclose`` is no word for it, or an algorithm needs more, or less.
    """
    if disclose is not None and disclose not in DISCLOSURES:
        raise OptionError(
            f'disclose: given {disclose!r}, expected "answers" (values and prices), "curvature" '
            "(sums of Hessians as well), or None, which is what the algorithm needs"
        )
    if algorithm is None:
        return InteriorPoint() if disclose == "curvature" else DALD()
    needs = disclosed(algorithm)
    if disclose == "answers" and needs == "curvature":
        raise OptionError(
            f'disclose: given "answers", but {algorithm!r} has clients show sums of curvature; '
            'leave the algorithm out, or say disclose="curvature"'
        )
    if disclose == "curvature" and needs == "answers":
        raise OptionError(
            f'disclose: given "curvature", but {algorithm!r} makes no use of it; leave one of the '
            "two out"
        )
    return algorithm


def disclosed(algorithm: Algorithm) -> str:
    """What an algorithm has clients show."""
    return "curvature" if isinstance(algorithm, InteriorPoint) else "answers"


def is_patience(online: Any) -> bool:
    """Whether the option ``online`` only says how long clients are waited for."""
    given = online if isinstance(online, list | tuple) else [online]
    return all(isinstance(one, Unanswered) for one in given)


def check_consent(names: Mapping[Any, str]) -> None:
    """Refuse curvature of sites that show answers only.

    Parameters
    ----------
    names : dict
        Site -> what it discloses.

    Raises
    ------
    OptionError
        Naming them.
    """
    refused = [repr(name) for name, shows in names.items() if shows != "curvature"]
    if refused:
        who = (
            f"site {refused[0]} shows" if len(refused) == 1 else f"sites {', '.join(refused)} show"
        )
        raise OptionError(
            f'disclose: given "curvature", but {who} answers only; leave disclose out, or have the '
            'owners declare dm.Site(..., disclose="curvature")'
        )


def check_none_given(algorithm: Algorithm, options: Mapping[str, Any]) -> None:
    """Refuse options that say how clients are solved, of an algorithm with rounds of its own.

    Raises
    ------
    OptionError
        Naming the first.
    """
    for name, value in options.items():
        if value is not None:
            said = repr(value).splitlines()[0]
            raise OptionError(
                f"{name}: given {said}, but {algorithm!r} has rounds of its own, from the middle "
                f"of the constraints; leave {name} out, or take the default algorithm, dm.DALD()"
            )
