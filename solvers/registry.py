"""Registry of solvers, and the choice of one for each client."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import cvxpy as cp

from dald_model.compile.form import SPARSE_ROOT
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import Neighbour, RemoteClient
from dald_model.errors import OptionError
from dald_model.solvers.base import Answers, Session, Solver, Turn
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.average import Average
from dald_model.solvers.exact.barrier import Barrier
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.exact.conic import Conic
from dald_model.solvers.exact.direct import Direct, Newton
from dald_model.solvers.exact.low_rank import LowRank
from dald_model.solvers.exact.nonlinear import Nonlinear
from dald_model.solvers.exact.nuclear import Nuclear
from dald_model.solvers.exact.reference import Reference
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton
from dald_model.validate import check_clients


class AtSite:
    """Stands for whichever solver a site has chosen for its client.

    Parameters
    ----------
    is_exact : bool
        Whether that one is.
    """

    name, batches = "site", False

    def __init__(self, is_exact: bool) -> None:
        self.is_exact = is_exact

    def refuses(self, subproblem: Subproblem) -> str:
        """Empty for a client of a site."""
        return "" if subproblem.client.is_remote else "it is no client of a site"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """Refused: who has only what is shared cannot solve it.

        Raises
        ------
        OptionError
        """
        raise OptionError(
            f"engine: client {subproblems[0].name!r} is at its site, and can be solved by the "
            "engine alone that reaches it; leave engine out, it is the federation's own"
        )


class Unasked:
    """Takes every client and is never asked for a minimiser, as by an interior point."""

    name = "interior point"
    batches = False
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return self

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        raise NotImplementedError("clients of this solver are not minimised one by one")


class AtNeighbour(Unasked):
    """Stands for whatever solves a client of another process, which tells where it is."""

    name = "neighbour"

    def refuses(self, subproblem: Subproblem) -> str:
        """Empty for a client of another process."""
        is_its = isinstance(subproblem.client, Neighbour)
        return "" if is_its else "it is a client of this process"


LOW_RANK = LowRank()
TAKERS: tuple[Solver, ...] = (
    Average(),
    LOW_RANK,
    Direct("factor", Factor),
    Direct("active_set", ActiveSet),
    Direct("semismooth", SemismoothNewton),
    Newton(),
    Barrier(),
    Nuclear(),
    Conic(),
    Reference(),
)
"""Fastest first: ``auto`` gives a client to the first that takes it. The last two take nearly
everything, and so are what the others fall back on."""
NUMERICAL = TAKERS[1:-1]
"""Those that know a client by its form and sides alone."""
AT_SITE = {is_exact: AtSite(is_exact) for is_exact in (False, True)}
"""What stands for the solver of a client at its site, by whether that one is exact."""
AT_NEIGHBOUR = AtNeighbour()
NONLINEAR = Nonlinear()
MEMBERS = ("name", "batches", "is_exact", "refuses", "open")
"""What a solver of the user's own must have, see :class:`dald_model.solvers.base.Solver`."""
NAMED: dict[str, Solver] = {solver.name: solver for solver in (*TAKERS[:-1], NONLINEAR)}
NAMED["reference"] = TAKERS[-1]
"""What ``solve(solver=...)`` takes besides the names of cvxpy's solvers."""

RENAMED: dict[str, str] = {
    **dict.fromkeys(("kinks", "proximal", "dual_proximal", "shrink"), "semismooth"),
    **dict.fromkeys(("BFGS", "sharing"), "auto"),
    "polyhedral": "conic",
}
"""What solvers were called before others took what they did."""


class Choice:
    """The option ``solver``, read once.

    Parameters
    ----------
    given : str, Solver, Mapping or None
        "auto" (or None), a name in :data:`NAMED`, the name of an installed cvxpy solver for the
        reference way of solving, an object of :mod:`dald_model.solvers`, or a dict from clients to
        any of these, where clients that are not named are left to "auto".

    Raises
    ------
    OptionError
        If it is none of these.
    """

    def __init__(self, given: Any) -> None:
        self._by_client = dict(given) if isinstance(given, Mapping) else {}
        self._forced = {name: _read(one) for name, one in self._by_client.items()}
        self._all = None if isinstance(given, Mapping) else _read(given)
        self._of_shapes: dict[Hashable, list[Solver]] = {}

    def check(self, compiled: Mapping[Any, Subproblem]) -> None:
        """Refuse clients that do not exist.

        Raises
        ------
        OptionError
            Naming the first key that is no client.
        """
        check_clients("solver: ", self._by_client, compiled, expected="keys among")

    def _nonlinear(self, sub: Subproblem) -> Solver:
        """The solver of a client that is not convex: its own, or all clients' if it can take it."""
        own, every = self._forced.get(sub.name), self._all
        if own is not None and not isinstance(own, Nonlinear) and own in TAKERS:
            raise OptionError(
                f"solver: {own.name!r} cannot take client {sub.name!r}, which is declared with "
                "nonconvex=True; choose 'nonlinear', dm.solvers.Nonlinear('IPOPT') or another of "
                "cvxpy's solvers of non-linear programs"
            )
        return own or (every if isinstance(every, Nonlinear) else NONLINEAR)

    def chain(self, sub: Subproblem) -> list[Solver]:
        """The solvers of a client in the order they are tried.

        Raises
        ------
        OptionError
            If a solver was named that cannot take the client.
        """
        form = sub.form
        if form is None or form.size >= SPARSE_ROOT or self._by_client or sub.client.is_server:
            return self._chain(sub)
        if not form.complete:  # what its constraints are is no part of its shape
            return self._chain(sub)
        if self._all not in (None, *TAKERS) or any(t.kind.is_of_entries for t in form.terms):
            return self._chain(sub)
        # Else no solver asks for more of its numbers than how many these are
        key = form.shape, sub.client.is_coupling
        if key not in self._of_shapes:
            self._of_shapes[key] = self._chain(sub)
        return [*self._of_shapes[key]]

    def _chain(self, sub: Subproblem) -> list[Solver]:
        """The same, of this very client."""
        if isinstance(sub.client, RemoteClient):
            return [AT_SITE[sub.client.is_exact]]
        if isinstance(sub.client, Neighbour):
            return [AT_NEIGHBOUR]
        if not sub.client.is_convex:
            return [self._nonlinear(sub)]
        forced = self._forced.get(sub.name, self._all)
        own = self._forced.get(sub.name)
        if own is None and forced and sub.client.is_coupling and refusal(forced, sub):
            forced = None  # what is named for all is meant for the clients
        if not TAKERS[0].refuses(sub) and (own is None or own in TAKERS or own.refuses(sub)):
            return [TAKERS[0]]  # a server's closed form is exact, whatever solves the clients
        if forced is not None and forced not in TAKERS[:-1] and not forced.refuses(sub):
            return [forced]  # a solver of the user's own choosing speaks for itself
        first = forced or next(solver for solver in TAKERS if not refusal(solver, sub))
        if forced is not None and (reason := refusal(forced, sub)):
            able = [solver for solver in TAKERS if not refusal(solver, sub)]
            names = [repr(name) for name, solver in NAMED.items() if solver in able]
            raise OptionError(
                f"solver: {first.name!r} cannot take client {sub.name!r}: {reason}; choose one of "
                f"{', '.join(names)}, or leave it to 'auto'"
            )
        later = [solver for solver in TAKERS[-2:] if TAKERS.index(solver) > TAKERS.index(first)]
        return [first, *(solver for solver in later if not refusal(solver, sub))]


def alike(solver: Solver, sub: Subproblem) -> Hashable:
    """What the clients of one session of a solver have in common."""
    if not solver.batches or sub.form is None:
        return None
    return sub.form.shape_but_counts if solver is NAMED["semismooth"] else sub.form.shape


def refusal(solver: Solver, sub: Subproblem) -> str:
    """Why a solver cannot take a client; empty if it can."""
    if solver in TAKERS[1:-1] and sub.form is None:
        return "cvxpy's canonical form of it could not be read"
    return solver.refuses(sub)


def _read(given: Any) -> Solver | None:
    if isinstance(given, str) and given in RENAMED:
        text = f"solver: {given!r} is {RENAMED[given]!r} by now, which does what it did"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        given = RENAMED[given]
    if given is None or given == "auto":
        return None
    if isinstance(given, str):
        if given in NAMED:
            return NAMED[given]
        if given.upper() in cp.installed_solvers():
            return Reference(given)
        raise OptionError(
            f"solver: given {given!r}, expected 'auto', one of "
            f"{', '.join(repr(name) for name in NAMED)}, or a cvxpy solver among "
            f"{', '.join(cp.installed_solvers())}"
        )
    if isinstance(given, Solver) and not isinstance(given, type):
        return given
    lacks = [name for name in MEMBERS if not hasattr(given, name)]
    raise OptionError(
        f"solver: given {given!r}, expected 'auto', the name of a solver or an object of "
        "dald_model.solvers such as Reference('OSQP')"
        + (f"; one of your own needs {', '.join(lacks)} as well" if 0 < len(lacks) < 3 else "")
    )
