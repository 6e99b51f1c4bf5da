"""An ordinary ``cp.Problem`` becomes a Model; ``problem.solve(method="dald")`` is registered."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model._cvxpy import Equality, NegExpression, record_solution
from dald_model.answer.result import Result
from dald_model.coordinate.status import Status
from dald_model.declare.client import short, summands
from dald_model.declare.consensus import ConsensusEquality
from dald_model.declare.independent import independent
from dald_model.declare.owners import Division, divide, named_owners, owners_by_summand
from dald_model.errors import DecompositionError, OptionError
from dald_model.model import Model
from dald_model.text import together
from dald_model.validate import check_flag
from dald_model.values import number


def decompose(problem: cp.Problem, name: str = "problem", *, clients: Any = None) -> Model:
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
    variables; one that no summand holds becomes a client without objective.

    Parameters
    ----------
    problem : cp.Problem
        Any DCP problem with real, continuous variables.
    name : str
        The model's name.
    clients : dict, int or callable
        A dict from owners to their variables or constraints, one or a list; a number of clients,
        among whom variables are dealt so that few parts of the problem are between them; or a
        function from a variable to its owner, or to None where it has none.

    Returns
    -------
    Model
        Over the problem's own variables and constraints.

    Raises
    ------
    DecompositionError
        If the problem is one piece and its objective one summand, or falls into parts that have
        no variable in common; or if ``clients`` are no owners of its variables.
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
    terms = summands(problem.objective.args[0])
    parts = [*terms, *problem.constraints]
    model = Model(name)
    if clients is not None:
        owners = named_owners(problem.variables(), parts, clients)
        _declare_division(model, problem, divide(parts, owners))
        return model
    _check_one(problem)
    pieces, owners = _pieces(problem, terms), owners_by_summand(terms)
    if len(pieces.sets) > 1:
        _declare_pieces(model, problem, terms, pieces)
    elif len(set(owners.values())) > 1:
        _declare_division(model, problem, divide(parts, owners))
    else:
        _declare_summands(model, problem, terms)
    if len(model.clients) < 2 and not pieces.agreements:
        raise DecompositionError(
            f"decompose: the problem is one piece and its objective one summand, "
            f"{short(problem.objective.args[0])}; expected consensus equalities such as x1 == x2 "
            "between parts of it, or an objective that is a sum f1 + f2 + ...; say whose which "
            'variable is by clients={"a": [x], "b": [y]}, or how many clients there should be '
            "by clients=4"
        )
    return model


def _check_one(problem: cp.Problem) -> None:
    """Refuse what nothing connects: a model is one graph."""
    parts = independent(problem)
    if len(parts) < 2:
        return
    named = [", ".join(v.name() for v in part.variables()) for part in parts]
    raise DecompositionError(
        f"decompose: the problem falls into {len(parts)} parts that have no variable in common: "
        f"{together((f'{{{names}}}' for names in named), 120)}; expected one problem; take "
        "problem.solve(method='dald'), which solves each by itself, or make a cp.Problem of each"
    )


class _Pieces(NamedTuple):
    """Sets of variable ids that hang together, and the equalities between two and between more."""

    sets: list[set[int]]
    agreements: list[ConsensusEquality]
    common: list[cp.Constraint]


def _pieces(problem: cp.Problem, terms: Sequence[cp.Expression]) -> _Pieces:
    """What hangs together without the equalities, and those that are between such pieces."""
    near = nx.Graph()
    near.add_nodes_from(v.id for v in problem.variables())
    equalities = [c for c in problem.constraints if isinstance(c, Equality | cp.Zero)]
    others = [c for c in problem.constraints if not isinstance(c, Equality | cp.Zero)]
    for part in (*terms, *others):
        nx.add_path(near, _ids([part]))
    groups = {c.id: _groups(c) for c in equalities}
    for found in groups.values():
        for group in found:
            nx.add_path(near, _ids(group))
    sets = [set(piece) for piece in nx.connected_components(near)]
    home = {key: at for at, piece in enumerate(sets) for key in piece}
    agreements, common = [], []
    for rule in equalities:
        sides: dict[int, list[cp.Expression]] = {}
        for group in groups[rule.id]:
            sides.setdefault(home[_ids(group)[0]], []).extend(group)
        if len(sides) == 2:
            agreements.append(_agreement(rule, *sides.values()))
        elif len(sides) > 2:
            common.append(rule)
    return _Pieces(sets, agreements, common)


def _groups(rule: Equality | cp.Zero) -> list[list[cp.Expression]]:
    """The parts of an equality that belong to one client each: its sides, or its terms."""
    if isinstance(rule, Equality) and all(side.variables() for side in rule.args):
        return [[rule.args[0]], [rule.args[1]]]
    return [[t] for t in _affine_terms(rule.expr) if t.variables()]


def _affine_terms(expression: cp.Expression) -> list[cp.Expression]:
    if isinstance(expression, cp.AddExpression):
        return [term for arg in expression.args for term in _affine_terms(arg)]
    if isinstance(expression, NegExpression):
        return [-term for term in _affine_terms(expression.args[0])]
    return [expression]


def _agreement(
    rule: Equality | cp.Zero, one: list[cp.Expression], two: list[cp.Expression]
) -> ConsensusEquality:
    zero = cp.Constant(np.zeros(rule.expr.shape))  # gives smaller terms the equality's shape
    if isinstance(rule, Equality) and all(side.variables() for side in rule.args):
        left, right = (s if s.shape == zero.shape else s + zero for s in rule.args)
        return ConsensusEquality(left, right, rule)
    constants = [t for t in _affine_terms(rule.expr) if not t.variables()]
    left = sum([*one, *constants], zero)
    return ConsensusEquality(left, -sum(two, zero), rule)


def _declare_pieces(
    model: Model,
    problem: cp.Problem,
    terms: Sequence[cp.Expression],
    pieces: _Pieces,
) -> None:
    taken = {a.constraint.id for a in pieces.agreements if a.constraint is not None}
    taken |= {rule.id for rule in pieces.common}
    rules = [c for c in problem.constraints if c.id not in taken]
    homeless = [part for part in (*terms, *rules) if not part.variables()]
    for piece in pieces.sets:
        mine = [t for t in terms if piece.intersection(_ids([t]))]
        held = [c for c in rules if piece.intersection(_ids([c]))]
        if mine or held:
            mine += [part for part in homeless if isinstance(part, cp.Expression)]
            held += [part for part in homeless if isinstance(part, cp.Constraint)]
            homeless = []
            _declare(model, problem, mine, held)
    for agreement in pieces.agreements:
        model.agree(agreement)
    for rule in pieces.common:
        model.couple(rule)


def _declare_division(model: Model, problem: cp.Problem, division: Division) -> None:
    """Declare owners, each with what is its own, and couplings of what is in common."""
    stated = (*summands(problem.objective.args[0]), *problem.constraints)
    kind = type(problem.objective)
    alone = [part for part in stated if not part.variables()]
    for name, parts in division.own.items():
        mine: list[Any] = [p for p in (*parts, *alone) if isinstance(p, cp.Expression)]
        held = [p for p in (*parts, *alone) if isinstance(p, cp.Constraint)]
        alone = []
        if not parts:  # all that it has is in couplings
            theirs = [v for v in problem.variables() if division.owners.get(v.id) == name]
            mine += [0 * cp.sum(v) for v in theirs]
        model.client(name, kind(_sum(mine)), held)
    for parts in division.common:
        mine = [p for p in parts if isinstance(p, cp.Expression)]
        held = [p for p in parts if isinstance(p, cp.Constraint)]
        model.couple(*held, objective=kind(_sum(mine)) if mine else None)


def _sum(terms: Sequence[cp.Expression]) -> cp.Expression:
    return sum(terms[1:], terms[0]) if terms else cp.Constant(0)


def _declare_summands(model: Model, problem: cp.Problem, terms: Sequence[cp.Expression]) -> None:
    constants = [t for t in terms if not t.variables()]
    clients: list[tuple[list[cp.Expression], list[cp.Constraint]]] = [
        ([t], []) for t in terms if t.variables()
    ]
    if clients:
        clients[0][0].extend(constants)
    for rule in problem.constraints:
        wanted = set(_ids([rule]))
        fits = [held for mine, held in clients if wanted.issubset(_ids(mine))]
        if fits:
            fits[0].append(rule)
        else:
            clients.append(([], [rule]))
    for mine, held in clients:
        _declare(model, problem, mine, held)


def _declare(
    model: Model,
    problem: cp.Problem,
    terms: Sequence[cp.Expression],
    rules: Sequence[cp.Constraint],
) -> None:
    goal = type(problem.objective)(_sum(terms))
    model.client(f"client {len(model.clients)}", goal, rules)


def _ids(parts: Iterable[Any]) -> list[int]:
    return list({v.id: None for part in parts for v in part.variables()})


_models: WeakKeyDictionary[cp.Problem, Model] = WeakKeyDictionary()
"""A problem is decomposed and compiled once, however often it is solved."""
_latest: WeakKeyDictionary[cp.Problem, Result] = WeakKeyDictionary()
"""Its latest result, where a warm start begins."""
_parts: WeakKeyDictionary[cp.Problem, list[cp.Problem]] = WeakKeyDictionary()
"""The parts of a problem that have no variable in common; none where it is one."""
SEVERITY = (
    "optimal",
    "optimal_inaccurate",
    "user_limit",
    "unbounded_inaccurate",
    "unbounded",
    "infeasible_inaccurate",
    "infeasible",
)
"""cvxpy's statuses: the last among those of the parts is that of the whole."""
NEVER = ("gp", "qcp", "nlp", "ignore_dpp", "requires_grad")
"""Options of cvxpy's that ask for what there is not; they may be False."""


def solve(problem: cp.Problem, **options: Any) -> float:
    """What ``problem.solve(method="dald", **options)`` does.

    ``problem.value``, ``problem.status``, ``problem.solver_stats``, every variable's ``value`` and
    every constraint's ``dual_value`` are set as by an ordinary solve. Parts of the problem without
    a variable in common are solved each by itself, those of one client by cvxpy;
    ``problem.solver_stats.extra_stats["parts"]`` says so.

    Parameters
    ----------
    problem : cp.Problem
    **options
        Those of :meth:`Model.solve`; and of cvxpy's ``warm_start=True``, to go on from the latest
        result of this problem, and ``enforce_dpp``, which holds in any case.

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
    if problem not in _parts:
        parts = independent(problem)
        _parts[problem] = parts if len(parts) > 1 else []  # itself would never be forgotten
    if _parts[problem]:
        return _solve_apart(problem, _parts[problem], options)
    if problem not in _models:
        _models[problem] = decompose(problem)
    result = _models[problem].solve(**given)
    if result.state is not None:
        _latest[problem] = result
    _fill(problem, result)
    return number(problem.value)


def _solve_apart(
    problem: cp.Problem, parts: Sequence[cp.Problem], options: Mapping[str, Any]
) -> float:
    """Solve parts that have no variable in common one after the other."""
    said: dict[str, str] = {}
    for part in parts:
        try:
            part.solve(method="dald", **options)
            how = f"by itself, in {part.solver_stats.num_iters} rounds"
        except DecompositionError:  # it is one client's
            part.solve(solver=cp.CLARABEL)
            how = f"by itself, by {part.solver_stats.solver_name}"
        said[", ".join(v.name() for v in part.variables())] = how
    status = max((str(part.status) for part in parts), key=SEVERITY.index)
    values = {v.id: v.value for part in parts for v in part.variables()}
    stats = [part.solver_stats for part in parts]
    record_solution(
        problem,
        status,
        sum(number(part.value) for part in parts),
        values,
        solve_time=sum(one.solve_time or 0.0 for one in stats),
        num_iters=max(one.num_iters or 0 for one in stats),
        extra_stats={"parts": said},
    )
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
    for name in given:
        if name not in known:
            raise OptionError(
                f"method 'dald': given the option {name!r}, expected one of "
                f"{', '.join(map(repr, (*known, 'warm_start')))}"
            )
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
            stacklevel=4,
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


cp.Problem.register_solve("dald", solve)
