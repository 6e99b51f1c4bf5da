r"""A primal-dual interior point whose clients show sums of curvature, and the option for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dald_model.algorithms.dald import DALD
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.interior_sweeper import InteriorSweeper
from dald_model.coordinate.method import Algorithm, Method
from dald_model.coordinate.penalty import ResidualBalancing
from dald_model.coordinate.stopping import FixedBudget
from dald_model.declare.remote import DISCLOSURES
from dald_model.errors import OptionError
from dald_model.schedule.changes import Unanswered
from dald_model.solvers.interior.assembly import HEIGHTS
from dald_model.solvers.interior.clients import Aggregator
from dald_model.solvers.interior.shown import foretold, reveals
from dald_model.solvers.registry import Unasked

UNASKED = Unasked()


@dataclass(frozen=True)
class InteriorPoint:
    r"""Schur-complement interior point: clients may show sums of Hessians, not answers alone.

    In a round client i eliminates its slacks, multipliers and private variables from its Newton
    system and shows what is left on the variables it shares, a matrix and a vector; the coordinator
    adds, factors and tells the direction:

    .. math::
        \Big(\sum_i S_i^\top H_i S_i\Big) \Delta x = -\sum_i S_i^\top g_i, \qquad
        H_i = \nabla^2 f_i + A_i^\top (W_i^\top W_i)^{-1} A_i - \ldots

    with the scaling of Nesterov and Todd for linear, second-order and semidefinite cones and that
    of Tuncel for exponential and power cones, in the homogeneous embedding (Andersen and Ye 1999),
    which proves infeasible and unbounded problems to be so. Predictor and corrector (Mehrotra 1992)
    share the factor. The coordinator uses sums and minima only. Clients' m shared variables cost
    m (m + 1) / 2 + 4 m + 20 numbers up and 3 m + 6 down a round, beside their answers. With
    an ``engine``, and in a :class:`dald_model.Federation` of sites that show curvature, it has the
    same iterates by messages.

    Some 5 to 20 rounds whatever the conditioning, the graph and the units. Its rounds are its own:
    it takes none of the options that say how clients are solved. It begins in the middle of the
    constraints, or with ``start``, a result of its own, by holding the active set there: where only
    numbers have changed, one round confirms or corrects it (the primal-dual active set method).

    Parameters
    ----------
    aggregator : Aggregator or None
        Adds one array per client, and takes a minimum of one number each, such as by secure
        aggregation. By default clients of this process are added before, row by row, which has the
        same iterates to rounding and is faster.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.InteriorPoint())
    >>> print(result.status, result.rounds, round(float(result["w"]), 6))
    optimal 1 1.0

    References
    ----------
    Zavala, Laird and Biegler (2008); Khoshfetrat Pakazad, Hansson, Andersen and Nielsen (2017);
    Goulart and Chen (2024), whose embedding of quadratic objectives it has; for ``start``
    Hintermüller, Ito and Kunisch (2003).
    """

    aggregator: Aggregator | None = None

    def open(self, compiled: Decomposition) -> Method:
        for sub, *_ in compiled.kinds:
            why = "" if sub.client.is_server else _refused(sub)
            if why:
                raise OptionError(
                    f"algorithm: InteriorPoint cannot take client {sub.name!r}: {why}; the "
                    "default, dm.DALD(), takes it"
                )
        return Method(
            stopping=FixedBudget(1),
            rho=ResidualBalancing(changes=0),
            solver=UNASKED,
            sweeper=partial(InteriorSweeper, aggregator=self.aggregator),
            remedy="the default algorithm, dm.DALD()",
        )

    def reveals(self, compiled: Decomposition) -> str:
        """The information that clients show; see :mod:`dald_model.solvers.interior.shown`."""
        return reveals(foretold(compiled))

    def explain(self) -> str:
        return (
            "InteriorPoint: one iteration a round, on sums of the clients' curvature\n"
            "  mu            the multipliers of the primal-dual system, exact at the end\n"
            "  rho           none: the clients' own curvature stands in its place\n"
            "  coordination  all clients at once, twice a round: predictor and corrector\n"
            "  solver layer  none: each client eliminates what is its own and shows the rest"
        )


def _refused(sub: Subproblem) -> str:
    if sub.client.is_remote:
        return ""  # a federation asks before, and the site itself refuses
    lowered = sub.lowered
    if lowered is None:
        return "it could not be written as a cone program"
    if not lowered.alike.complete:
        for kind, _ in lowered.form.cone.cones:
            if kind not in HEIGHTS:
                return f"there is no interior point for its cone {kind}"
    return ""


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
