"""The result that the user holds: an answer with plots and verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import pandas as pd

from dald_model.answer import plots
from dald_model.answer.answer import Answer
from dald_model.answer.gap import Certificate, certify
from dald_model.answer.verification import Verification, verify
from dald_model.errors import OptionError, ResultError
from dald_model.text import Bare, Heading, Part, Printed, counted
from dald_model.validate import check_flag
from dald_model.values import one_at_a_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Printed, Answer):
    """The answer of a run, see :class:`dald_model.answer.answer.Answer` for what it holds."""

    @overload
    def verify(
        self,
        *,
        aio: Literal[True] = True,
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = 1e-4,
    ) -> Verification: ...

    @overload
    def verify(
        self,
        *,
        aio: Literal[False],
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = 1e-4,
    ) -> Certificate: ...

    @one_at_a_time()
    def verify(
        self,
        *,
        aio: bool = True,
        solver: str | None = None,
        tol_objective: float = 1e-4,
        tol_feasibility: float = 1e-4,
        tol_dual: float = 1e-4,
    ) -> Verification | Certificate:
        """Compare with the all-in-one solve; see :func:`dald_model.answer.verification.verify`.

        With ``aio=False`` there is none: what is proven by client solves alone is the
        :meth:`certificate`, which is given instead.

        Raises
        ------
        OptionError
            If ``aio`` is no bool, or a solver is named for an all-in-one solve that is not wanted.
        """
        check_flag("verify: given aio=", aio)
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
        """A proven gap without the all-in-one solve; see :func:`dald_model.answer.gap.certify`."""
        return certify(self, tol_objective=tol_objective, tol_feasibility=tol_feasibility)

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
        return plots.result_plot(self)

    def report(self, *, wide: bool) -> list[Part]:
        """The summary."""
        head = Heading(f"Result of {self.compiled.model.name!r}")
        return [head, Bare(pd.DataFrame(_pairs(self).items()))]


def _pairs(result: Answer) -> dict[str, str]:
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
        shown = result.history.loc[result.answer_round]
        pairs["primal residual"] = f"{shown.primal:.1e}"
        pairs["dual residual"] = f"{shown.dual:.1e}"
    pairs["clients"] = str(len(result.compiled.model.clients))
    pairs["time"] = f"{result.seconds:.2f} s"
    return pairs
