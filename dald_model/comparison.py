"""The comparison of algorithms on one model, in a table and a plot."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model.algorithms.dald import DALD
from dald_model.algorithms.interior_point import InteriorPoint, chosen_algorithm
from dald_model.algorithms.steps import MeasuresStep
from dald_model.answer import plots
from dald_model.answer.claim import Claim, split
from dald_model.answer.judge import Judge
from dald_model.answer.local_run import refuse_nonconvex
from dald_model.answer.reference import all_in_one
from dald_model.answer.result import Result
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.method import Algorithm
from dald_model.errors import OptionError
from dald_model.lazy_imports import pd
from dald_model.model import Model
from dald_model.options import DEFAULT_ACCELERATION, opened
from dald_model.solvers.interior.shown import foretold
from dald_model.text import Heading, Part, Printed, shortened
from dald_model.validate import check_from_zero
from dald_model.values import BYTES, number, preserved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCES = (1e-2, 1e-4)
"""Objective gaps of which the table says after how many rounds they were reached."""

COMMON = "common objective"
"""Column of histories: the all-in-one objective at the value that the clients share."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Printed):
    """The findings of :func:`compare`; prints as a table.

    Attributes
    ----------
    model : Model
    aio : float
        The optimum of the all-in-one problem, by plain cvxpy.
    results : dict
        Name of the algorithm -> its :class:`Result`.
    histories : dict
        Name -> the history with three more columns: ``common objective``, the all-in-one objective
        at the value that the clients share, ``gap``, the relative gap of it to the optimum, and
        ``sent``, the bytes sent so far.
    frame : pandas.DataFrame
        One row an algorithm: over a server or a graph, status, rounds, sent, revealed, gap, the
        rounds after which the gap was first below each of ``tolerances``, and the metrics of the
        last round.
    metrics : tuple of str
    tolerances : tuple of float

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> found = dm.compare(common_number([0, 1, 2]), [dm.FedProx(alpha=0.1), dm.DALD()])
    >>> [str(status) for status in found.frame.status]
    ['settled', 'optimal']
    """

    model: Model
    aio: float
    results: Mapping[str, Result]
    histories: Mapping[str, pd.DataFrame]
    frame: pd.DataFrame
    metrics: tuple[str, ...]
    tolerances: tuple[float, ...]

    def plot(self) -> Figure:
        """Gaps and metrics against rounds, and gaps against what was sent."""
        return plots.comparison_plot(self.model.name, self.histories, self.metrics)

    def report(self, *, wide: bool) -> list[Part]:
        """Algorithms side by side."""
        said = f"Comparison on {self.model.name!r}, all-in-one optimum {self.aio:.8g}"
        return [Heading(said), self._shown()]

    def _shown(self) -> pd.DataFrame:
        """The table of a comparison as it is printed."""
        frame = self.frame
        shown = pd.DataFrame(
            {
                "over": frame.over,
                "status": frame.status.astype(str),
                "rounds": frame.rounds,
                "MB sent": [f"{sent / 1e6:.3g}" for sent in frame.sent],
                "revealed": frame.revealed,
                "objective gap": [f"{gap:.1e}" for gap in frame.gap],
            }
        )
        for tolerance in self.tolerances:
            rounds = frame[f"rounds to {tolerance:.0e}"]
            shown[f"to {tolerance:.0e}"] = ["" if r != r else f"{int(r)}" for r in rounds]
        for name in self.metrics:
            shown[name] = [f"{value:.5g}" for value in frame[name]]
        shown.insert(0, "algorithm", frame.index)
        return shown


def compare(
    model: Model,
    algorithms: Iterable[Algorithm] | Mapping[str, Algorithm | Mapping[str, Any]],
    *,
    metrics: Mapping[str, Callable[[Iterate], Any]] | None = None,
    tolerances: Sequence[float] = TOLERANCES,
    solver: str = "CLARABEL",
    graph: nx.Graph | None = None,
    **options: Any,
) -> Comparison:
    r"""Run several algorithms on one model and put them side by side.

    The gap of a round is :math:`|F(x) - F^*| / S` with F the all-in-one objective at the value that
    the clients share, the server's or the mean over their copies, and S the cost of
    consensus (:mod:`dald_model.answer.scale`), so that it is the same in all units. A client that
    is solved sends its side of each of its edges to the neighbour, 8 bytes a number, or its
    gradient, which is as long; multipliers need not be sent, both ends know them. What an
    acceleration adds is counted in every round as the most it may be; ``revealed`` says what
    the coordinator sees of a client, blank where nobody does. The Hessians that the server
    of Newton's methods needs are not counted.

    Methods with a server and methods among peers go together where clients share their variables:
    each runs over what it can, the model's own topology first, then a server, then the ``graph``.

    Parameters
    ----------
    model : Model
    algorithms : list or dict
        Algorithms, which are called after their arguments, with the measured step where it is None;
        or names -> algorithms, or names -> options of :meth:`Model.solve` for what only some runs
        have, such as ``{"algorithm": dm.FedProx(0.1), "solver": ...}``. Beside them ``"topology"``
        may be ``"server"`` or a graph, for that run alone.
    metrics : dict
        As the option of :meth:`Model.solve`.
    tolerances : list of float
        Gaps whose rounds the table tells.
    solver : str
        The cvxpy solver of the all-in-one problem.
    graph : networkx.Graph
        Over which methods among peers run; by default the one given to :meth:`Model.topology`, or a
        ring of those who share a variable.
    **options
        Options of :meth:`Model.solve` for all runs.

    Raises
    ------
    OptionError
        If an algorithm is not for this model, before any is run; or the all-in-one problem has no
        optimum.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> found = dm.compare(common_number([0, 1, 2]), [dm.FedProx(alpha=0.1), dm.DALD()])
    >>> [str(status) for status in found.frame.status]
    ['settled', 'optimal']
    >>> import networkx as nx
    >>> methods = [dm.FedAvg(step=0.1), dm.DGD(step=0.1)]
    >>> found = dm.compare(common_number([0, 1, 2]), methods, graph=nx.path_graph(3))
    >>> found.frame.over.to_dict()
    {'FedAvg(step=0.1)': 'server', 'DGD(step=0.1)': 'graph'}
    >>> found = dm.compare(common_number([0, 1, 2]), [dm.GradientDescent(), dm.SCAFFOLD(count=4)])
    >>> found.frame.rounds.to_dict()
    {'GradientDescent(step=0.167)': 2, 'SCAFFOLD(step=0.125, count=4)': 15}
    """
    for tolerance in tolerances:
        check_from_zero("compare: given the tolerance ", tolerance)
    given = _given(algorithms)
    chosen = [_chosen_way(model, run, graph) for _, run in given]
    names = _names(given)
    runs = {name: run for name, (_, run) in zip(names, given, strict=True)}
    models = dict(zip(names, chosen, strict=True))
    refuse_nonconvex(model.compile(), "compare")
    problem = model.monolithic()
    with preserved([*problem.variables(), *_duals(problem)]):
        try:
            problem.solve(solver=solver)
        except cp.SolverError as error:
            raise OptionError(
                f"compare: the all-in-one solve failed with {solver} ({error}); name another, "
                f"compare(solver=...), among {', '.join(cp.installed_solvers())}"
            ) from error
        status = str(problem.status)
    if status not in ("optimal", "optimal_inaccurate"):
        raise OptionError(
            f"compare: the all-in-one problem of {model.name!r} is {status}, expected an optimum "
            "to compare with; model.monolithic() is the problem"
        )
    measures = {**(metrics or {}), COMMON: lambda at: _objective(problem, at)}
    results = {
        name: models[name].solve(metrics=measures, **options, **run) for name, run in runs.items()
    }
    aio, cost = _known(next(iter(results.values())), solver)
    shown = {
        name: chosen_algorithm(run.get("algorithm"), run.get("disclose"))
        for name, run in runs.items()
    }
    ways = {name: _accelerated(results[name], {**options, **runs[name]}) for name in runs}
    histories = {
        name: _with_gap(_with_sent(one, ways[name], shown[name]), aio, cost)
        for name, one in results.items()
    }
    told = tuple(metrics or {})
    rows = [
        _row(results[name], histories[name], ways[name] or shown[name], told, tolerances)
        for name in runs
    ]
    frame = pd.DataFrame(rows, index=pd.Index(list(runs), name="algorithm"))
    return Comparison(model, aio, results, histories, frame, told, tuple(tolerances))


def _chosen_way(model: Model, run: dict[str, Any], graph: nx.Graph | None) -> Model:
    """The model over what the algorithm of a run can run; a step that it measures is measured."""
    algorithm = chosen_algorithm(run.get("algorithm"), run.get("disclose"))
    ways = _ways(model, run.pop("topology", None), graph)
    compiled, _ = opened(algorithm, (way.compile() for way in ways))
    if isinstance(algorithm, MeasuresStep):
        run["algorithm"] = algorithm.measured(compiled)
    return next(way for way in ways if way.compile() is compiled)


def _ways(model: Model, asked: nx.Graph | str | None, graph: nx.Graph | None) -> list[Model]:
    """The model over what an algorithm may run: as it is, over a server, and among peers."""
    if asked is not None:
        return [model.over(asked)]
    if not model.shared:
        return [model]
    peers = model.graph if graph is None else graph
    return [model, model.over("server"), model.over("ring" if peers is None else peers)]


def _given(algorithms: Any) -> list[tuple[str | None, dict[str, Any]]]:
    """Pairs of a name, None where the algorithm gives it, and options of ``solve``."""
    if isinstance(algorithms, Mapping):
        pairs = [(str(name), one) for name, one in algorithms.items()]
    else:
        given = list(algorithms) if isinstance(algorithms, Iterable) else [algorithms]
        pairs = [(None, one) for one in given]
    found = []
    for name, one in pairs:
        options = dict(one) if isinstance(one, Mapping) else {"algorithm": one}
        algorithm = options.get("algorithm")
        if algorithm is not None and (
            isinstance(algorithm, type) or not hasattr(algorithm, "open")
        ):
            raise OptionError(
                f"compare: given {algorithm!r}, expected algorithms such as dm.FedProx(alpha=0.1)"
            )
        found.append((name, options))
    if not found:
        raise OptionError("compare: given no algorithm, expected at least one, such as dm.DALD()")
    return found


def _names(given: list[tuple[str | None, dict[str, Any]]]) -> list[str]:
    """What the runs are called, each otherwise."""
    found: list[str] = []
    for name, options in given:
        told = _short(options.get("algorithm", DALD())) if name is None else name
        count = sum(other == told or other.startswith(f"{told} (") for other in found)
        found.append(f"{told} ({count + 1})" if count else told)
    return found


def _short(algorithm: Any) -> str:
    """The name of an algorithm with the arguments that are not those by default."""
    name = type(algorithm).__name__
    if not is_dataclass(algorithm):
        return name
    given = [
        f"{each.name}={_value(getattr(algorithm, each.name))}"
        for each in fields(algorithm)
        if each.init and not _is_default(each, getattr(algorithm, each.name))
    ]
    return shortened(f"{name}({', '.join(given)})", 40) if given else name


def _value(given: Any) -> str:
    """An argument as a name carries it: a number to three digits, a function by its name."""
    if isinstance(given, float):
        return f"{given:.3g}"
    return getattr(given, "__name__", "function") if callable(given) else repr(given)


def _is_default(each: Field[Any], value: Any) -> bool:
    return isinstance(value, Hashable) and bool(each.default == value)


def _objective(problem: cp.Problem, at: Iterate) -> float:
    with preserved(problem.variables()):
        for v in problem.variables():
            v.save_value(at[v])
        return number(problem.objective.value)


def _known(result: Result, solver: str) -> tuple[float, float]:
    """The all-in-one optimum and the cost of consensus there, of the problem with all clients."""
    claim = Claim.of(replace(result, left={}, dropped={}))
    found = all_in_one(claim, solver)
    there = replace(claim, values=found.values, own=split(claim.compiled, found.values))
    scale = Judge(there, max(TOLERANCES), max(TOLERANCES)).scale
    return found.value, max(scale.cost, scale.open) or 1.0


@runtime_checkable
class Reveals(Protocol):
    """Protocol of what has clients show more than answers."""

    def reveals(self, compiled: Decomposition) -> str:
        """What, in words and bytes."""
        ...


def _with_gap(history: pd.DataFrame, aio: float, cost: float) -> pd.DataFrame:
    return history.assign(gap=(history[COMMON] - aio).abs() / cost)


def _duals(problem: cp.Problem) -> list[cp.Variable]:
    return [dual for rule in problem.constraints for dual in rule.dual_variables]


def _accelerated(result: Result, options: Mapping[str, Any]) -> Acceleration | None:
    """What accelerated a run; None where nothing did."""
    way = options.get("acceleration", DEFAULT_ACCELERATION)
    return way if (result.history.proposal != "").any() else None


def _with_sent(result: Result, way: Acceleration | None, algorithm: Algorithm) -> pd.DataFrame:
    sizes = _messages(result.compiled)
    if isinstance(algorithm, InteriorPoint):
        sizes |= foretold(result.compiled)
    added = way.added(result.compiled) if way else 0
    sent = [sum(map(sizes.__getitem__, who)) + added for who in result.history.who]
    return result.history.assign(sent=np.cumsum(np.array(sent, dtype=float)))


def _messages(compiled: Decomposition) -> dict[Any, int]:
    """Client -> the bytes that it sends when it was solved."""
    return {name: BYTES * sub.entries.size for name, sub in compiled.items()}


def _row(
    result: Result,
    history: pd.DataFrame,
    way: Acceleration | Algorithm,
    metrics: Iterable[str],
    tolerances: Sequence[float],
) -> dict[str, Any]:
    last = history.iloc[-1]
    row = {
        "over": "server" if result.compiled.servers else "graph",
        "status": result.status,
        "rounds": result.rounds,
        "sent": last.sent,
        "revealed": "" if not isinstance(way, Reveals) else way.reveals(result.compiled),
        "gap": last.gap,
    }
    for tolerance in tolerances:
        below = history.index[history.gap <= tolerance]
        row[f"rounds to {tolerance:.0e}"] = below[0] if below.size else np.nan
    return row | {name: last[name] for name in metrics}
