"""The answer of a run in the user's terms."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Self

import cvxpy as cp
import numpy as np

from dald_model.answer.by_name import ClientValues, chosen
from dald_model.answer.extrapolation import Trail
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.recovered import Recovered
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.scaling.reuse import Measured
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.declare.wording import symbolic
from dald_model.engines.assignment import Event
from dald_model.engines.failover import Loss
from dald_model.errors import ResultError
from dald_model.lazy_imports import pd
from dald_model.not_picklable import NotPicklable
from dald_model.text import (
    FOLDED,
    Heading,
    Part,
    Printed,
    counted,
    folded,
    listed,
    outline,
    shortened,
)
from dald_model.values import flat


class Duals(NotPicklable, Printed, Mapping[cp.Constraint, Any]):
    """Dual values by the very constraint object that was declared, with cvxpy's signs."""

    elsewhere = "send the values, such as list(result.duals.values())"

    def __init__(self, constraints: Mapping[int, cp.Constraint], values: Mapping[int, Any]) -> None:
        self._constraints = constraints
        self.by_id = dict(values)

    def __getitem__(self, constraint: cp.Constraint) -> Any:
        try:
            return self.by_id[constraint.id]
        except (KeyError, AttributeError) as error:
            raise ResultError(
                f"duals: {constraint} is no constraint of the model, or the run ended before its "
                "client was solved; expected the very object that was declared; those of a "
                "coupling are in model.couplings[name].constraints"
            ) from error

    def __iter__(self) -> Iterator[cp.Constraint]:
        return (c for key, c in self._constraints.items() if key in self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def report(self, *, wide: bool) -> list[Part]:
        """One row a constraint, or one a kind of many."""
        width = 80 if wide else 48
        many = len(self) > FOLDED
        rows = []
        for rule in self:
            values = [np.atleast_1d(one) for one in self._of(rule)]
            ends = min(one.min() for one in values), max(one.max() for one in values)
            rows.append(
                {
                    "constraint": symbolic(rule) if many else shortened(symbolic(rule), width),
                    "entries": sum(one.size for one in values),
                    "least": f"{ends[0]:.4g}",
                    "largest": f"{ends[1]:.4g}",
                }
            )
        head = Heading(f"Dual values of {counted(len(self), 'constraint')}")
        if not rows:
            return [head]
        frame = pd.DataFrame(rows)
        if many:  # constraints that differ in numbers alone are told together
            frame.insert(1, "kind", [outline(text) for text in frame.constraint])
            frame = folded(frame, width, "constraint").drop(columns="kind")
        return [head, frame]

    def _of(self, constraint: cp.Constraint) -> list[Any]:
        found = self[constraint]
        return found if isinstance(found, list) else [found]

    def __deepcopy__(self, memo: dict[int, Any]) -> Duals:
        """Other arrays, by the same constraints."""
        return Duals(self._constraints, deepcopy(self.by_id, memo))


@dataclass(eq=False)
class Answer(NotPicklable):
    r"""The answer of a run.

    ``result[x]``, or ``result["x"]`` by name, is the value of a variable (of a shared variable: the
    server's, or the mean over the clients); ``result["hospital 0"]`` has the values at that client,
    by variable or by name. A name that a client has means the client.

    Attributes
    ----------
    status : Status
        A string such as "optimal", with its explanation in ``status.message``.
    value : float
        The objective, as the user wrote it, at the values of the variables; a client's where it has
        none there, as at the edge of a domain, and where somebody left, at the client's own copies.
        ``inf`` or ``-inf`` where the problem is infeasible or unbounded, as in cvxpy.
    rounds : int
        Inner loops in total, the unit of communication.
    answer_round : int
        The round that the answer is from: the last, or the best one of a run that did not
        converge; 0 if no round was complete.
    history : pandas.DataFrame
        One row a round: outer and inner loop, the residuals (``primal``, ``dual`` in the max
        norm, and ``primal_scaled``, ``dual_scaled`` as held against the tolerances), the
        objective, the geometric mean of rho, how many clients were solved, how many were absent,
        who was solved in order, how many so far went on to another solver, ``seconds``, whose host
        of an engine was lost (``asked again``, with the option ``engine``), and the columns of the
        option ``metrics``. ``slack`` is condition (29): how far the solver layer is from
        minimising. ``seconds`` is the time from the call of ``solve``, compiling left out, to the
        residuals of the round.
    duals : Mapping
        Dual value of each declared constraint object, local and consensus.
    multipliers : dict
        Pair of clients -> multiplier :math:`\mu` of their edge, flat.
    seconds : float
        Time of ``solve`` up to the end of the last round, the measurement of natural units
        included; that of compiling is ``compiled.seconds``.
    eps_pri, eps_dual : float
        The tolerances that the residuals were held against.
    began : dict or None
        Variable id -> where the run started, if a client is not convex.
    runs : tuple of Result
        With the option ``starts``: the result of each start.
    culprit : Hashable
        The client or edge to blame where the run failed, else None.
    detail : str
        What exactly happened where the run failed.
    fallbacks : tuple of Event
        Round, client, solver that failed, solver that took over, and what was said.
    losses : tuple of Loss
        Round, host of an engine that was lost, its clients, which were asked again, and why.
    shows_curvature : bool
        Whether clients showed sums of their curvature, beside answers.
    left : dict
        Clients that were not there at the end -> the round before which they left.
    dropped : dict
        Consensus edges that were not there at the end -> the round before which they went.
    state : State or None
        The last iterate, from which ``solve(start=result)`` goes on.
    given : tuple
        The user's Parameters with the values that they had: those of the problem that was solved.
    measured : Measured or None
        The natural units, with which ``solve(start=result)`` begins while they hold.
    learnt : ModelState or None
        What the acceleration knows of the clients, with which ``solve(start=result)`` begins.
    recalled : tuple
        The clients of which this run began with what an earlier one had learnt.
    unaccelerated : str
        Why no acceleration proposed anything in the end; "" where one did.
    interior : tuple of ndarray
        Where an interior point ended, from which ``solve(start=result)`` takes its active set.
    trail : Trail or None
        The last answers along a path of Parameters, from which ``solve(start=result)`` expects
        the next.
    """

    elsewhere = (
        "send what you need of it, such as result.value, result.history and "
        "{v.name(): result[v] for v in model.variables}, or the file of result.save(path)"
    )

    status: Status
    value: float
    rounds: int
    answer_round: int
    history: pd.DataFrame  # or its rows, see _Rows
    recovered: Recovered
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray]
    compiled: Decomposition
    seconds: float
    eps_pri: float
    eps_dual: float
    culprit: Any = None
    detail: str = ""
    fallbacks: tuple[Event, ...] = ()
    left: dict[Hashable, int] = field(default_factory=dict)
    dropped: dict[tuple[Hashable, Hashable], int] = field(default_factory=dict)
    state: State | None = None
    given: tuple[tuple[cp.Parameter, Any], ...] = ()
    measured: Measured | None = None
    learnt: ModelState | None = None
    recalled: tuple[Hashable, ...] = ()
    unaccelerated: str = ""
    losses: tuple[Loss, ...] = ()
    shows_curvature: bool = False
    shown: Mapping[Hashable, int] = field(default_factory=dict)
    interior: tuple[np.ndarray, ...] = ()
    trail: Trail | None = None
    began: Mapping[int, np.ndarray] | None = None
    runs: tuple[Any, ...] = ()
    duals: Duals = field(init=False)

    def __post_init__(self) -> None:
        known = {c.id: c for c in self.compiled.model.constraints}
        duals = {k: _plain(v) for k, v in self.recovered.duals.items()}
        for rule, parts in self.compiled.model.divided:
            whole = _joined(rule, parts, self.recovered.duals)
            if whole is not None:
                known[rule.id], duals[rule.id] = rule, whole
        self.duals = Duals(known, duals)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, cp.Variable):
            if key.id in self.recovered.values:
                return self.recovered.values[key.id]
            raise ResultError(
                f"result: variable {key.name()!r} has no value; it is no variable of the model, "
                f"or the run ended ({self.status}) before a first round was complete"
            )
        try:
            hash(key)
        except TypeError:
            key = repr(key)  # which is nobody's name either
        if key in self.recovered.at_clients:
            names = {v.id: v for v in self.compiled.model.variables}
            found = self.recovered.at_clients[key]
            return ClientValues(key, {names[k]: x for k, x in found.items() if k in names})
        if key in self.compiled:
            raise ResultError(
                f"result: client {key!r} has no values; the run ended ({self.status}) before a "
                "first round was complete"
            )
        variables = self.compiled.model.variables
        named = chosen(key, [v.name() for v in variables], variables)
        if named is not None:
            return self[named]
        raise ResultError(
            f"result: {key!r} is neither a variable nor a client; expected a cp.Variable, the name "
            f"of one, {listed(v.name() for v in variables)}, or one of {listed(self.compiled)}"
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that the user's Parameters had when the problem was solved, by name."""
        return {parameter.name(): value for parameter, value in self.given}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Other arrays, of the same compiled model."""
        found = copy(self)
        memo |= {id(name): name for name in self.compiled}  # a name may be known by its identity
        for each in fields(self):
            if each.name not in ("compiled", "given", "measured", "learnt", "trail"):
                setattr(found, each.name, deepcopy(getattr(self, each.name), memo))
        return found

    def apply(self) -> None:
        """Set every variable's ``value`` and every constraint's ``dual_value``.

        As in cvxpy they become None where the problem is infeasible or unbounded.
        """
        model = self.compiled.model
        empty = self.status in (Status.INFEASIBLE, Status.UNBOUNDED)
        for v in model.variables:
            v.save_value(None if empty else self.recovered.values.get(v.id))
        for c in model.constraints:
            found = None if empty else self.recovered.duals.get(c.id)
            for at, dual in enumerate(c.dual_variables):
                dual.save_value(None if found is None else found[at])
        for rule, parts in model.divided:
            whole = None if empty else _joined(rule, parts, self.recovered.duals)
            rule.dual_variables[0].save_value(whole)


class _Rows:
    """The attribute ``history``: rows become a frame when it is first read."""

    def __get__(self, found: Answer | None, owner: Any = None) -> Any:
        if found is None:
            return self
        rows = found.__dict__["history"]
        if isinstance(rows, list):
            index = pd.RangeIndex(1, len(rows) + 1, name="round")
            rows = found.__dict__["history"] = pd.DataFrame(rows, index=index)
        return rows

    def __set__(self, found: Answer, rows: Any) -> None:
        found.__dict__["history"] = rows


Answer.history = _Rows()  # pyright: ignore[reportAttributeAccessIssue] - after the fields are made


def _joined(
    rule: cp.Constraint,
    parts: Iterable[tuple[cp.Constraint, np.ndarray]],
    duals: Mapping[int, tuple[Any, ...]],
) -> np.ndarray | None:
    """The dual value of a constraint of which owners have entries; None if one is not known."""
    whole = np.zeros(rule.size)
    for part, entries in parts:
        if part.id not in duals:
            return None
        whole[entries] = flat(duals[part.id][0])
    return whole.reshape(rule.shape, order="F")


def _plain(values: tuple[Any, ...]) -> Any:
    """As cvxpy's ``dual_value``: the value itself where there is one, else the list."""
    return values[0] if len(values) == 1 else list(values)
