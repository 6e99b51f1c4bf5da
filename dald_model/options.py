"""Options of ``solve``: checks before anything is computed, and what other packages call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from inspect import signature
from os import PathLike
from typing import Any, ParamSpec, TypeVar

import cvxpy as cp
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import is_finite
from dald_model.coordinate.acceleration.hybrid import Hybrid
from dald_model.coordinate.method import Algorithm, Method
from dald_model.errors import OptionError, TopologyError
from dald_model.schedule.round_state import Residuals
from dald_model.solvers.inexact.local import LocalSteps
from dald_model.validate import check_from_zero, check_positive, check_whole, is_number

DEFAULT_ACCELERATION = Hybrid()
"""Left out where it does not apply; another is refused there."""

COLUMNS = (
    "outer",
    "inner",
    *Residuals._fields,
    "objective",
    "rho",
    "solved",
    "absent",
    "who",
    "proposal",
    "fallbacks",
    "seconds",
    "asked again",
)
"""Columns that the history has in any case; the last where the option ``engine`` is given."""


def check_tolerances(eps_pri: Any, eps_dual: Any, max_rounds: Any) -> None:
    """Refuse what is no tolerance, or no number of rounds."""
    for what, given in (("eps_pri", eps_pri), ("eps_dual", eps_dual)):
        check_from_zero(f"{what}: given ", given)
    check_whole("max_rounds: given ", max_rounds)


def check_time_limit(given: Any) -> None:
    """Refuse what is no number of seconds."""
    if given is not None:
        check_positive("time_limit: given ", given, "a positive number of seconds, or None")


def check_gap(given: Any) -> None:
    """Refuse what is no gap to be certified."""
    if given is not None and not (is_number(given) and 0 < given < np.inf):
        raise OptionError(
            f"gap: given {given!r}, expected a positive number such as 1e-4, at which the "
            "certified gap ends the run, or None"
        )


def check_checkpoint(path: Any, every: Any) -> None:
    """Refuse what is no file to write to, and no number of rounds."""
    if not (path is None or isinstance(path, str | PathLike)):
        raise OptionError(
            f"checkpoint: given {path!r}, expected the path of a file such as 'run.npz', or None"
        )
    check_whole("every: given ", every)


def check_kind(what: str, given: Any, needs: str, example: str) -> None:
    """Refuse an object that lacks what the loop asks of it."""
    if isinstance(given, type):
        raise OptionError(
            f"{what}: given the class {given.__name__}, expected an object such as {example}; "
            f"call it, as in dm.{given.__name__}(...)"
        )
    if given is not None and not hasattr(given, needs):
        raise OptionError(
            f"{what}: given {given!r}, expected an object such as {example}{_meant(given, needs)}"
        )


def _meant(given: Any, needs: str) -> str:
    """The public class that a string was probably meant for."""
    package = import_module("dald_model")
    word = given.lower() if isinstance(given, str) else ""
    near = [one for one in dir(package) if word and word in one.lower()]
    near = [one for one in near if hasattr(getattr(package, one), needs)]
    return f"; did you mean dm.{near[0]}(...)?" if near else ""


def check_metrics(given: Any) -> Mapping[str, Callable[..., Any]]:
    """Read the option ``metrics``: a dict from names of columns to functions."""
    if given is None:
        return {}
    found = given
    taken = [name for name in COLUMNS if isinstance(found, Mapping) and name in found]
    if taken:
        raise OptionError(
            f"metrics: given the name {taken[0]!r}, which is a column of the history already; "
            f"expected another than {', '.join(map(repr, COLUMNS))}"
        )
    if not isinstance(found, Mapping) or not all(
        isinstance(name, str) and callable(function) for name, function in found.items()
    ):
        raise OptionError(
            f"metrics: given {given!r}, expected a dict from the name of a column of the history "
            "to a function of a dm.Iterate, such as {'norm': lambda at: np.linalg.norm(at[w])}"
        )
    return found


def check_callback(given: Any) -> Callable[..., Any] | None:
    """Refuse what cannot be called after a round."""
    if given is not None and (isinstance(given, type) or not callable(given)):
        raise OptionError(
            f"callback: given {given!r}, expected a function of a dm.Iterate that is called after "
            "each round, such as lambda at: print(at.round, at.row['primal_scaled']), or None"
        )
    return given


def opened(algorithm: Algorithm, ways: Iterable[Decomposition]) -> tuple[Decomposition, Method]:
    """The first of the ways in which an algorithm can run, and its choices there.

    Raises
    ------
    OptionError
        If there is none: what stands in its way where the topology does not, if anything does.
    """
    refusals: list[OptionError] = []
    for compiled in ways:
        compiled.instantiate()
        try:
            return compiled, algorithm.open(compiled)
        except OptionError as error:
            refusals.append(error)
    raise next((e for e in reversed(refusals) if not isinstance(e, TopologyError)), refusals[0])


def with_algorithm(algorithm: Any, method: Method, rho: Any, solver: Any) -> Method:
    """The algorithm's choices, and the user's where it leaves them.

    Raises
    ------
    OptionError
        If both choose.
    """
    for what, given, own in (("rho", rho, method.rho), ("solver", solver, method.solver)):
        if given is not None and own is not None:
            raise OptionError(
                f"{what}: given {given!r}, but {algorithm!r} sets it; leave {what} out, or choose "
                "by the algorithm's own arguments"
            )
    named = solver.values() if isinstance(solver, Mapping) else [solver]
    has_steps = any(isinstance(one, LocalSteps) for one in named)
    return replace(
        method,
        rho=rho if method.rho is None else method.rho,
        solver=solver if method.solver is None else method.solver,
        remedy="a smaller step of the option solver" if has_steps else method.remedy,
    )


def check_parameters(compiled: Decomposition) -> None:
    """Refuse Parameters of the user's that have no finite value."""
    known: set[int] = set()
    for name, client in compiled.model.stated.items():
        for parameter in client.parameters:
            if parameter.id not in known:
                _check_parameter(parameter, f"{client.kind} {name!r}")
                known.add(parameter.id)
    for agreement in compiled.model.agreements:
        for parameter in agreement.left.parameters() + agreement.right.parameters():
            _check_parameter(parameter, f"consensus {agreement}")


def _check_parameter(parameter: cp.Parameter, where: str) -> None:
    value = parameter.value
    if is_finite(value):
        return
    if value is None:
        raise OptionError(
            f"{where}: the Parameter {parameter.name()!r} has no value; set its value before "
            "solving"
        )
    raise OptionError(
        f"{where}: the Parameter {parameter.name()!r} holds NaN or infinite entries; set a "
        "finite value before solving"
    )


P = ParamSpec("P")
R = TypeVar("R")

ELSEWHERE = {
    "max_rounds=...": "max_iters max_iter maxiter max_it iterations n_iter niter iter_limit",
    "eps_pri=..., eps_dual=...": "eps eps_abs eps_rel epsilon abstol reltol feastol tol tolerance",
    "time_limit=... in seconds": "timeout max_time maxtime time_limit_secs timelimit",
    "start=result with the result of an earlier solve": "warm_start warmstart x0 initial",
    "rho=...": "penalty sigma",
    "acceleration=...": "accelerate anderson",
    "engine=dm.engines.Processes(workers=2)": "n_jobs workers num_workers threads parallel",
    "gap=...": "mip_gap mipgap optimality_gap",
    "verbose=...": "verbosity display disp quiet",
    "algorithm=..., an object such as dm.DALD(),": "method algo",
    "solver=dm.solvers... , an object with settings of its own,": "solver_opts solver_options",
}
"""What to write here -> what cvxpy, its solvers, scipy and other packages call it."""
NO_OPTION = {
    "gp": "geometric programs are taken after a change of variables only: write log-sum-exp of "
    "log-variables, as cp.log_sum_exp(A @ u + b)",
    "qcp": "quasiconvex programs are not taken: bisect over a level, with a Parameter and "
    "start=result from level to level",
    "ignore_dpp": "models are always DPP, so that a round compiles nothing; leave it out",
    "enforce_dpp": "models are always DPP, so that a round compiles nothing; leave it out",
    "requires_grad": "the derivative of a solution is not computed; leave it out",
}
"""What cvxpy has and a solve by decomposition has not."""


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that ``solve`` does not have, and say which one was probably meant.

    Raises
    ------
    OptionError
        Naming the first of them.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise OptionError(f"{name}: solve has no such option; {_remedy(name, names)}")


def _remedy(name: str, known: list[str]) -> str:
    if name in NO_OPTION:
        return NO_OPTION[name]
    for here, words in ELSEWHERE.items():
        if name.lower() in words.split():
            return f"did you mean {here.rstrip(',')}?"
    near = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}=...?" if near else f"expected one of {', '.join(known)}"


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses keyword arguments that it does not have by an OptionError.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = common_number([0, 1, 2]).solve(max_iters=10)
    ... except dm.OptionError as error:
    ...     print(error)
    max_iters: solve has no such option; did you mean max_rounds=...?
    """
    parameters = signature(function).parameters.values()
    known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    taken = {one.name for one in parameters}

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        if not taken.issuperset(options):
            refuse_unknown((name for name in options if name not in taken), known)
        return function(*args, **options)

    return checked
