"""The result that the user holds: an answer with plots and verification."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from dald_model.answer import plots
from dald_model.answer.answer import Answer
from dald_model.answer.as_dict import result_as_dict
from dald_model.answer.by_name import Column, table
from dald_model.answer.certificate import Certificate, certify
from dald_model.answer.findings import Diagnosis, diagnose
from dald_model.answer.judge import PRICED
from dald_model.answer.local_verification import verify_local
from dald_model.answer.saving import written
from dald_model.answer.verification import Verification, verify
from dald_model.coordinate.status import Status
from dald_model.engines.assignment import Event
from dald_model.engines.failover import Loss
from dald_model.errors import OptionError, ResultError
from dald_model.files import replace
from dald_model.lazy_imports import pd
from dald_model.solvers.interior.shown import foretold, reveals
from dald_model.text import Bare, Heading, Part, Printed, counted, listed
from dald_model.validate import check_flag
from dald_model.values import one_at_a_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Printed, Answer):
    """The answer of a run, see :class:`dald_model.answer.answer.Answer` for what it holds.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve()
    >>> print(result.status, round(result.value, 4), round(float(result["w"]), 4))
    optimal 2.0 1.0
    """

    @overload
    def verify(
        self,
        *,
        aio: Literal[True] = True,
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = PRICED,
    ) -> Verification: ...

    @overload
    def verify(
        self,
        *,
        aio: Literal[False],
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = PRICED,
    ) -> Certificate: ...

    @one_at_a_time()
    def verify(
        self,
        *,
        aio: bool = True,
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = PRICED,
    ) -> Verification | Certificate:
        """Compare with the all-in-one solve; see :func:`dald_model.answer.verification.verify`.

        With ``aio=False`` there is none: what is proven by client solves alone is the
        :meth:`certificate`, which is given instead. If a client is not convex, first-order
        conditions are checked to fixed tolerances, see
        :func:`dald_model.answer.local_verification.verify_local`.

        Raises
        ------
        OptionError
            If ``aio`` is no bool, or a solver is named for an all-in-one solve that is not wanted.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> check = common_number([0, 1, 2]).solve().verify()
        >>> check.ok, round(check.aio_value, 6), check["objective gap"].ok
        (True, 2.0, True)
        """
        check_flag("verify: given aio=", aio)
        self._check_here("verify")
        if not self.compiled.is_convex:
            if not aio:
                self._check_convex("verify(aio=False)")
            return verify_local(self, solver)
        if not aio:
            if solver is not None:
                raise OptionError(
                    f"verify: given solver={solver!r} and aio=False, expected a solver only where "
                    "the all-in-one problem is solved; leave one of them out"
                )
            return self.certificate(tol_objective=tol_objective, tol_feasibility=tol_feasibility)
        return verify(
            self,
            solver=solver,
            tol_objective=tol_objective,
            tol_feasibility=tol_feasibility,
            tol_dual=tol_dual,
        )

    @one_at_a_time()
    def certificate(
        self, *, tol_objective: float = 1e-4, tol_feasibility: float = 1e-4
    ) -> Certificate:
        """A proved gap by client solves alone; see :func:`dald_model.answer.certificate.certify`.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> found = common_number([0, 1, 2]).solve().certificate()
        >>> found.ok, found.gap < 1e-6
        (True, True)
        """
        self._check_here("certificate")
        self._check_convex("certificate")
        return certify(self, tol_objective=tol_objective, tol_feasibility=tol_feasibility)

    def _check_here(self, asked: str) -> None:
        """Refuse what needs objectives that are at their sites."""
        sites = [name for name, sub in self.compiled.items() if sub.client.is_remote]
        if sites:
            raise ResultError(
                f"{asked}: the objectives of {listed(sites)} are at their sites, expected them "
                "here; `status` and `history` say how far the residuals fell, which is all that "
                "is known without the data"
            )

    def _check_convex(self, asked: str) -> None:
        """Refuse a bound of a problem that is not convex: multipliers prove none."""
        for name, sub in self.compiled.items():
            if not sub.client.is_convex:
                raise ResultError(
                    f"{asked}: client {name!r} is declared with nonconvex=True, so no multipliers "
                    "prove a bound; expected verify(), which checks first-order conditions and "
                    "solves from other starts"
                )

    def diagnose(self) -> Diagnosis:
        """The cause of slow progress, its place, and lines to type next.

        Nothing is solved for it; see :class:`dald_model.answer.findings.Diagnosis`.

        Examples
        --------
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> found = common_number([0, 1, 2]).solve(max_rounds=1, rho=100.0).diagnose()
        >>> print(found.remedies[0])
        model.solve(start=result, rho=dm.ResidualBalancing())
        """
        return diagnose(self)

    def plot(self) -> Figure:
        """Residuals, objective gap and rho against rounds.

        Raises
        ------
        ResultError
            If not one round was complete.
        """
        if not self.rounds:
            raise ResultError(
                f"plot: the run ended ({self.status}) before a first round was complete, so there "
                "is nothing to show"
            )
        return plots.result_plot(self, self.compiled.model.name)

    def table(self) -> pd.DataFrame:
        """All values, one row per entry of a variable.

        Returns
        -------
        pandas.DataFrame
            Indexed by ``variable`` and ``entry`` (a number in a vector, a pair in a matrix), with
            the columns ``value``, as of ``result[x]``, ``clients``, how many have a copy of it, and
            ``apart``, the largest distance of two of these copies.

        Examples
        --------
        >>> import cvxpy as cp
        >>> import dald_model as dm
        >>> w, model = cp.Variable(2, name="w"), dm.Model("two numbers")
        >>> owners = [model.client(i, cp.sum_squares(w - [i, 4])) for i in range(3)]
        >>> print(model.solve().table().value.round(3).to_dict())
        {('w', 0): 1.0, ('w', 1): 4.0}
        """
        model, servers = self.compiled.model, set(self.compiled.servers)
        copies: dict[int, list[Any]] = {key: [] for key in self.recovered.values}
        for name, found in self.recovered.at_clients.items():
            if name not in servers:
                for key, value in found.items():
                    copies[key].append(value)
        return table(
            Column(v.name(), self.recovered.values[v.id], copies[v.id])
            for v in model.variables
            if v.id in copies
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python, which ``json.dumps`` and experiment trackers take.

        Returns
        -------
        dict
            ``model``, ``status``, ``detail``, ``value``, ``rounds``, ``answer_round``, ``seconds``,
            ``eps_pri``, ``eps_dual``; ``variables``, values by name as nested lists;
            ``dual_values``, a list of ``constraint`` (its text) and ``value``; ``history``, one
            dict per round. A number that is not finite is None, since JSON has no infinity.

        Examples
        --------
        >>> import json
        >>> from dald_model.models.mean import common_number
        >>> found = json.loads(json.dumps(common_number([0, 1, 2]).solve().to_dict()))
        >>> found["status"], round(found["variables"]["w"], 4)
        ('optimal', 1.0)
        """
        return result_as_dict(self)

    def save(self, path: Path | str) -> None:
        """Write the answer to a file, without pickle and without any client's data.

        :func:`dald_model.load` reads it, in this process or another: by names alone, or on the
        model, declared again. It holds values, multipliers, dual values, the history, the values of
        Parameters and the last iterate; without the learned models of clients.

        Raises
        ------
        ResultError
            If a client's name means nothing in another process, as that of an object of a class of
            yours does, or if a metric in the history is no number.

        Examples
        --------
        >>> import tempfile
        >>> import dald_model as dm
        >>> from dald_model.models.mean import common_number
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     common_number([0, 1, 2]).solve().save(f"{folder}/answer.npz")
        ...     print(round(float(dm.load(f"{folder}/answer.npz")["w"]), 3))
        1.0
        """
        replace(Path(path), written(self))

    def report(self, *, wide: bool) -> list[Part]:
        """The summary."""
        model = self.compiled.model
        told = summary(self, len(model.clients))
        if model.adopted:
            told.loc[len(told)] = "over", f"{model.adopted}, chosen for the algorithm"
        if self.shows_curvature:
            told.loc[len(told)] = (
                "clients show",
                reveals(dict(self.shown) or foretold(self.compiled)),
            )
        return [Heading(f"Result of {model.name!r}"), Bare(told)]


class Summarised(Protocol):
    """What a summary tells: a result, or a saved answer."""

    status: Status
    value: float
    rounds: int
    answer_round: int
    history: pd.DataFrame
    seconds: float
    eps_pri: float
    eps_dual: float
    culprit: Any
    detail: str
    fallbacks: tuple[Event, ...]
    recalled: tuple[Hashable, ...]
    losses: tuple[Loss, ...]


def summary(result: Summarised, clients: int) -> pd.DataFrame:
    """The lines of the printed summary; those without a value are left out."""
    pairs = {"status": f"{result.status} ({result.status.message})"}
    if result.culprit is not None:
        pairs["culprit"] = repr(result.culprit)
    if result.detail:
        pairs["detail"] = result.detail
    if result.value == result.value:
        pairs["value"] = f"{result.value:.8g}"
    if result.rounds:
        pairs["rounds"] = str(result.rounds)
        if result.answer_round not in (0, result.rounds):
            pairs["answer from"] = f"round {result.answer_round}, the best"
    if result.recalled:
        pairs["models kept"] = f"of {counted(len(result.recalled), 'client')}, from the start"
    if result.fallbacks:
        first = result.fallbacks[0]
        pairs["fallbacks"] = (
            f"{len(result.fallbacks)}, first client {first.client!r} in round {first.round}: "
            f"from {first.failed} to {first.next} ({first.message})"
        )
    if result.losses:
        lost = result.losses[0]
        pairs["hosts lost"] = (
            f"{len(result.losses)}, first {lost.host} in round {lost.round} ({lost.message}); its "
            f"{counted(len(lost.clients), 'client')} were asked again"
        )
    if result.answer_round:
        at, history = result.answer_round - 1, result.history
        pairs["primal residual"] = _tested(history.primal_scaled.iloc[at], result.eps_pri)
        pairs["dual residual"] = _tested(history.dual_scaled.iloc[at], result.eps_dual)
    pairs["clients"] = str(clients)
    pairs["time"] = f"{result.seconds:.2f} s"
    return pd.DataFrame(pairs.items())


def _tested(residual: float, tolerance: float) -> str:
    """A residual as it is held against its tolerance."""
    return f"{residual:.1e}" + (f", allowed {tolerance:.0e}" if tolerance else "")
