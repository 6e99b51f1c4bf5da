"""Names of options: what a user of other solvers calls them, and what they are called here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from dald_model.errors import OptionError

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
