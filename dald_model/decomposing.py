"""An ordinary ``cp.Problem`` becomes a Model; ``problem.solve(method="dald")`` is registered."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import record_solution
from dald_model.answer.result import Result
from dald_model.coordinate.status import Status
from dald_model.declare.array_parts import ArrayProblem
from dald_model.declare.client import summands
from dald_model.declare.dealt import DEALT_TO, declare_shares, shares
from dald_model.declare.ordinary import Pieces, declare_pieces, declare_summands, independent
from dald_model.declare.owners import (
    NOBODY,
    asked_by_entry,
    is_stacked,
    obstacle,
    owners_by_entry,
    owners_by_summand,
    partitioned,
    rows_of,
)
from dald_model.declare.wording import short
from dald_model.errors import DecompositionError, OptionError, users_line
from dald_model.model import Model
from dald_model.options import refuse_unknown
from dald_model.text import listed
from dald_model.validate import check_flag
from dald_model.values import number


def decompose(
    problem: cp.Problem, name: str = "problem", *, clients: Any = None, rows: Any = None
) -> Model:
    """Find the clients, the consensus edges and the couplings of an ordinary problem.

    With ``clients`` given, a summand of the objective or a constraint whose variables have one
    owner is that owner's, variables without an owner belong to whom they stand together with, and
    what is left couples the owners. Without:

    Clients are what remains connected once the equalities between them are taken out. An equality
    is a consensus equality if each of its sides lies in one client and the two differ, and a
    coupling if it is between three and more; one whose
    right side is constant, such as ``x1 - x2 == 0``, is read as ``x1 == x2``. A variable that
    stands in consensus equalities alone becomes a server.

    A problem that stays in one piece is split by the summands of its objective. Where these fall
    into sets without a variable in common, constraints between the sets are couplings. Else the
    summands share variables: each constraint goes to the first summand that holds all its
    variables; one that no summand holds becomes a client without objective, and takes others with
    it that have no other variables.

    Sums over arrays, of squares, of absolute values and of anything that works entry by entry,
    and comparisons of arrays are divided by entries and rows, where owners have these. A problem
    that is one piece otherwise is dealt to four clients: its rows of data where these depend on
    most of the variables, else the entries of its variables.

    A problem that falls into parts without a variable in common is one model, in which each is
    solved by itself, side by side with the others; ``print(model)`` and ``model.parts`` say so.

    Parameters
    ----------
    problem : cp.Problem
        Any DCP problem with real, continuous variables.
    name : str
        The model's name.
    clients : dict, int or callable
        A dict from owners to their variables, selections of their entries such as ``X[0]``, or
        constraints, one or a list; a number of clients, among whom variables, or entries of fewer
        variables, are dealt so that few parts of the problem are between them; or a function from
        a variable to its owner, to an array of the owners of its entries, or to None where it has
        none.
    rows : dict or int
        Owners of the rows of stacked data, such as of A and b in ``cp.sum_squares(A @ w - b)``: a
        dict from owners to numbers of rows or masks, or how many owners there are.

    Returns
    -------
    Model
        Over the problem's own variables and constraints.

    Raises
    ------
    DecompositionError
        If the problem is one piece and its objective one summand; or if ``clients`` are no owners
        of its variables.
    DeclarationError
        If the pieces do not obey the rules of :meth:`Model.client`.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> cost = cp.square(x - 1) + cp.square(y - 3)
    >>> model = dm.decompose(cp.Problem(cp.Minimize(cost), [x + y <= 3]))
    >>> result = model.solve()
    >>> print(result.status, round(float(result[x]), 4), round(float(result[y]), 4))
    optimal 0.5 2.5
    """
    if not isinstance(problem, cp.Problem):
        raise DecompositionError(
            f"decompose: given {type(problem).__name__}, expected a cp.Problem such as "
            "cp.Problem(cp.Minimize(f1 + f2), [x1 == x2])"
        )
    model, parts = Model(name), independent(problem)
    model.may_part = len(parts) > 1
    if rows is not None or clients is not None:
        _deal(model, problem, clients, rows)
        return model
    for part in parts:
        _declare(model, part)
    if len(model.clients) < 2 and not model.agreements:
        array = ArrayProblem(problem)
        divisible = sum(part.uses.shape[0] > 1 for part in array.terms)
        if divisible and array.size > 1 and obstacle(array) is None:
            dealt = Model(name)
            _deal(dealt, problem, None, None)
            return dealt
        named = [short(v) for v in problem.variables()]
        way = (
            'say whose which variable is by clients={"a": [x], "b": [y]}, or how many clients '
            "there should be by clients=4"
            if len(named) > 1
            else f"declare {named[0] if named else 'a variable'} as one variable an owner, and "
            "x = cp.hstack([x1, x2]) where all are meant; or leave method and decompose out: "
            "problem.solve() solves it at one place"
        )
        raise DecompositionError(
            f"decompose: the problem is one piece and its objective one summand, "
            f"{short(problem.objective.args[0])}; expected consensus equalities such as x1 == x2 "
            f"between parts of it, or an objective that is a sum f1 + f2 + ...; {way}"
        )
    return model


def _is_by_entry(problem: cp.Problem, clients: Any) -> bool:
    """Whether owners are given of entries rather than of variables."""
    if isinstance(clients, Mapping):
        given = [
            one
            for its in clients.values()
            for one in (
                its if isinstance(its, Iterable) and not isinstance(its, cp.Expression) else [its]
            )
        ]
        return any(
            isinstance(one, cp.Expression) and not isinstance(one, cp.Variable) for one in given
        )
    if isinstance(clients, int):
        return clients > len(problem.variables())
    if callable(clients):
        return any(isinstance(clients(v), np.ndarray | list) for v in problem.variables())
    return False


def _deal(model: Model, problem: cp.Problem, clients: Any, rows: Any) -> None:
    """Declare owners of variables, of entries of them or of rows of data."""
    is_count = isinstance(clients, int) and not isinstance(clients, bool)
    if not (clients is None or is_count or callable(clients) or isinstance(clients, Mapping)):
        raise DecompositionError(
            f"decompose: given clients={clients!r} of type {type(clients).__name__}, expected a "
            "dict from owners to variables, their entries or constraints, a number of clients, or "
            "a function from a variable to its owner"
        )
    is_whole = rows is None and clients is not None and not _is_by_entry(problem, clients)
    given = ArrayProblem(problem, whole=is_whole)
    whose, names = None, []
    count: Any = clients if is_count else DEALT_TO if clients is None else None
    if rows is None and count is not None and any(map(is_stacked, given.terms)):
        height = max(p.array.shape[0] for p in given.terms if is_stacked(p))
        rows = count if clients is not None else min(count, height)
    owners = np.full(given.size, NOBODY)
    if isinstance(clients, Mapping):
        names, owners = list(clients), owners_by_entry(given, clients)
    elif callable(clients):
        names, owners = asked_by_entry(given, clients)
    if rows is not None:
        dealt, whose = rows_of(given, rows)
        if names:
            place = {name: at for at, name in enumerate(dict.fromkeys([*names, *dealt]))}
            names, whose = list(place), np.array([place[name] for name in dealt])[whose]
        else:
            names = dealt
    elif count is not None:
        count = count if clients is not None else min(count, given.size)
        names, owners = [f"client {at}" for at in range(count)], partitioned(given, count)
    if len(names) < 2:
        raise DecompositionError(
            f"decompose: clients: {listed(names) or 'nobody'} owns all variables of the problem, "
            "expected two owners at least; variables without an owner belong to whom they stand "
            "together with, so say of one more whose it is"
        )
    _share_out(model, given, names, owners, whose)


def _share_out(
    model: Model, given: ArrayProblem, names: list[Any], owners: np.ndarray, rows: Any = None
) -> None:
    found = shares(given, names, owners, rows)
    declare_shares(model, given, found)
    model.divided = found.divided


def _declare(model: Model, problem: cp.Problem) -> None:
    """Declare a problem that does not fall apart."""
    terms = summands(problem.objective.args[0])
    pieces = Pieces.of(problem, terms)
    if len(pieces.sets) > 1:
        declare_pieces(model, problem, terms, pieces)
        return
    given = ArrayProblem(problem, whole=True)
    owners = owners_by_summand(given) if given.terms else np.full(given.size, NOBODY)
    count, first = int(owners.max(initial=NOBODY)) + 1, len(model.clients)
    if count > 1:
        _share_out(model, given, [f"client {first + at}" for at in range(count)], owners)
    else:
        declare_summands(model, problem, terms)


_models: WeakKeyDictionary[cp.Problem, Model] = WeakKeyDictionary()
"""A problem is decomposed and compiled once, however often it is solved."""
_latest: WeakKeyDictionary[cp.Problem, Result] = WeakKeyDictionary()
"""Its latest result, where a warm start begins."""
NEVER = ("gp", "qcp", "nlp", "ignore_dpp", "requires_grad")
"""Options of cvxpy's that ask for what there is not; they may be False."""


def solve(problem: cp.Problem, **options: Any) -> float:
    """What ``problem.solve(method="dald", **options)`` does.

    ``problem.value``, ``problem.status``, ``problem.solver_stats``, every variable's ``value`` and
    every constraint's ``dual_value`` are set as by an ordinary solve;
    ``problem.solver_stats.extra_stats["result"]`` is the :class:`Result`.

    Parameters
    ----------
    problem : cp.Problem
    **options
        Those of :meth:`Model.solve`; ``clients`` and ``rows`` of :func:`decompose`; and of
        cvxpy's ``warm_start=True``, to go on from the latest result of this problem, and
        ``enforce_dpp``, which holds in any case.

    Returns
    -------
    float
        ``problem.value``.

    Raises
    ------
    OptionError
        If an option is none of these.
    cp.SolverError
        If the run diverged or a client's solver failed, as cvxpy does.
    """
    given = _own_options(problem, options)
    how = {key: given.pop(key) for key in ("clients", "rows") if key in given}
    if problem not in _models or how:
        _models[problem] = decompose(problem, **how)
    result = _models[problem].solve(**given)
    if result.state is not None:
        _latest[problem] = result
    _fill(problem, result)
    return number(problem.value)


def _own_options(problem: cp.Problem, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for :meth:`Model.solve`, those of cvxpy's translated or refused."""
    given = dict(options)
    for name in ("warm_start", "enforce_dpp", *NEVER):
        check_flag(f"method 'dald': given {name}=", given.get(name, False))
    for name in NEVER:
        if given.pop(name, False):
            raise OptionError(
                f"method 'dald': given {name}=True, but it solves DCP problems that are DPP in "
                f"their Parameters, without derivatives; leave {name} out, or solve without method"
            )
    given.pop("enforce_dpp", None)  # it is so in any case
    if given.pop("warm_start", False) and problem in _latest:
        given.setdefault("start", _latest[problem])
    known = list(signature(Model.solve).parameters)[1:]
    refuse_unknown(given, (*known, "clients", "rows", "warm_start"))
    return given


def _fill(problem: cp.Problem, result: Result) -> None:
    status = {
        Status.OPTIMAL: "optimal",
        Status.CERTIFIED: "optimal",
        Status.OPTIMAL_INACCURATE: "optimal_inaccurate",
        Status.INFEASIBLE: "infeasible",
        Status.UNBOUNDED: "unbounded",
    }.get(result.status, "user_limit")
    failed = result.status in (Status.DIVERGED, Status.SOLVER_ERROR)
    if failed or (status == "user_limit" and not result.recovered.values):
        raise cp.SolverError(f"method 'dald': {result.status.message}: {result.detail}")
    if status == "user_limit":
        warnings.warn(
            f"method 'dald' stopped without convergence: {result.status.message}; {result.detail}",
            stacklevel=users_line("cvxpy"),
        )
    # Dual values are set already.
    record_solution(
        problem,
        status,
        result.value,
        result.recovered.values,
        solve_time=result.seconds,
        num_iters=result.rounds,
        extra_stats={"result": result},
    )
