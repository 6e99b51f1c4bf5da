"""The method ``Model.solve``: its options, and the run that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from dald_model.answer.assemble import assemble
from dald_model.answer.result import Result
from dald_model.answer.saved import Compilable
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.checkpoint import Saved, reserved
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.method import Algorithm
from dald_model.coordinate.outcome import ended_before, out_of_time
from dald_model.coordinate.progress import Progress
from dald_model.coordinate.stopping import Stopping
from dald_model.deadline import TimeUpError, within
from dald_model.engines.engine import Engine
from dald_model.options import DEFAULT_ACCELERATION, check_time_limit, named_options
from dald_model.preparation import Preparation
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.base import Solver
from dald_model.starts import from_starts
from dald_model.validate import check_flag
from dald_model.values import one_at_a_time


@named_options
@one_at_a_time()
def solve(
    model: Compilable,
    *,
    algorithm: Algorithm | None = None,
    disclose: str | None = None,
    sequence: Sequence | None = None,
    stopping: Stopping | None = None,
    rho: Any = None,
    solver: Solver | str | Mapping[Any, Solver | str] | None = None,
    accuracy: float | None = None,
    acceleration: Acceleration | None = DEFAULT_ACCELERATION,
    online: Any = None,
    engine: Engine | None = None,
    checkpoint: str | Path | None = None,
    every: int = 10,
    start: Result | Saved | None = None,
    metrics: Mapping[str, Callable[[Iterate], Any]] | None = None,
    callback: Callable[[Iterate], Any] | None = None,
    eps_pri: float = 1e-6,
    eps_dual: float = 1e-6,
    gap: float | None = None,
    max_rounds: int = 1000,
    time_limit: float | None = None,
    starts: int | None = None,
    verbose: bool = False,
) -> Result:
    r"""Solve by distributed augmented-Lagrangian decomposition: Algorithms 2 and 3 of the paper.

    Sets the ``value`` of every variable and the ``dual_value`` of every constraint, as
    ``cp.Problem.solve`` does. No option is required.

    A round is one inner loop: clients are solved in the order of the hierarchical network, each
    with the newest values of its neighbours. When ``stopping`` ends the inner loop, the outer test

    .. math::
        \|\mathcal C^{k,v}\|_\infty \le \epsilon_{pri} \text{ and }
        \|\mathcal D^{k,v}\|_\infty \le \epsilon_{dual}

    decides whether the run is over; if not, multipliers and penalties are updated.

    Parameters
    ----------
    algorithm : Algorithm
        The update of the multipliers; default :class:`DALD`. Use another to compare, or to run a
        method as it was published: ``algorithm=dm.FedProx(alpha=0.1)``. An algorithm that needs a
        server, or peers, gets them if :meth:`Model.topology` was not called: a server, or a ring of
        the clients that share a variable. The result says which.
    disclose : str
        What clients may show: "answers" (values and prices), or "curvature" (sums of their
        Hessians as well), which selects :class:`InteriorPoint`. By default the algorithm
        determines it. ``disclose="curvature"`` if rounds or time matter more than the information
        in a Hessian.
    sequence : Sequence
        The order of clients; default one colour of the consensus graph after the other, which with
        two colours is two-block ADMM. Use another if clients cannot all take part, or if their
        order is given: ``sequence=dm.Sequence.random(k=5)``,
        ``sequence=dm.Sequence.levels([["a", "c"], ["b"]])``.
    stopping : Stopping
        The end of an inner loop; default one round with acceleration, else
        :func:`dald_model.coordinate.convergence.default_stopping`. ``stopping=dm.FixedBudget(1)``,
        (B4) with one sweep per update, has the convergence guarantee and is the fastest on most
        models; ``dm.FixedTolerance()`` (B1) and ``dm.ShrinkingTolerance()`` (B2) are the paper's
        exact inner loops; ``dm.GrowingBudget()`` (B3) has more rounds in each outer loop.
    rho : float, dict, array or penalty rule
        The penalty; default :class:`ResidualBalancing`, which needs no tuning. A number reproduces
        a paper's setting, ``rho=1.0``; a dict sets clients or edges, ``rho={"hospital 0": 2.0}``.
    solver : Solver, str or dict
        The solver layer: "auto" (default) gives each client to the fastest exact method that
        accepts it, see ``compiled.explain()``. A name of :data:`dald_model.solvers.NAMED` or of an
        installed cvxpy solver to compare or to cross-check, ``solver="conic"``,
        ``solver={"a": "SCS"}``; an object of :mod:`dald_model.solvers` for inexact clients,
        ``solver=dm.solvers.GradientSteps(step=0.1, count=5)``. A server has a closed form.
    accuracy : float
        The accuracy of iterative client solvers, relative to the client's lengths; default
        :class:`Accuracy`, which follows the residuals. Fix it for iterates that do not depend on
        it: ``accuracy=1e-10``.
    acceleration : Acceleration or None
        Proposes the point where the next outer loop begins: :class:`Hybrid` (default),
        :class:`Anderson`, :class:`Secant`. ``acceleration=None`` follows Algorithms 2 and 3 to the
        letter, ``acceleration=dm.Anderson(memory=10)`` needs nothing of the graph. The default does
        not apply if the outer loops are not one map (other algorithms and dual steps, orders that
        change, outer loops of several rounds) or if a tolerance is zero. For absent clients their
        models predict an answer, and Anderson acceleration rests.
    online : Online, dict, callable or list of these
        Changes during the run, to test a method: ``online=dm.Dropout(0.3)``,
        ``dm.Stragglers({"a": 3})``, ``dm.LossyLinks(0.1)``, a dict from rounds to :class:`Change`,
        ``online={5: dm.Change(leave=["a"])}``, or a function of a :class:`Moment` that returns a
        :class:`Change` or None and is called before each inner loop. :class:`Unanswered` continues
        without clients whose host does not answer.
    engine : Engine
        Where clients are solved: ``dm.engines.Processes(workers=2)``, ``dm.engines.Ray()``,
        ``dm.engines.MPI()``; default this process. All give the same iterates, see
        :mod:`dald_model.engines`.
    checkpoint : path
        A file for :func:`dald_model.resume`, complete at any moment: arrays and JSON, no pickle. It
        holds the iterates and the learned models of clients. Of the clients' data it holds only a
        few sums that identify the model.
    every : int
        Rounds between two writings. Solvers start anew after each, so that a resumed run has the
        same iterates as an uninterrupted one; this costs about five rounds of small clients.
    start : Result
        An earlier result of this model, or of one with some of its clients and edges: after a
        Parameter has changed, or for more rounds, ``start=result``. Without it all multipliers are
        zero, and the variables are at the clients' own minimisers, or zero if a penalty is given or
        the algorithm sets one, as in the paper. Learned models of clients are kept
        (``result.recalled``). After three or more answers with other values of a Parameter the
        starting point is extrapolated, see :mod:`dald_model.answer.extrapolation`; not with
        ``acceleration=None``.
    metrics : dict
        Name of a column of the history -> function of an :class:`Iterate`, called each round, for
        curves of your own: ``metrics={"norm": lambda at: np.linalg.norm(at[w])}``.
    callback : callable
        Called with the :class:`Iterate` after each round, for a display or a log of your own:
        ``callback=lambda at: print(at.round, at.row["primal_scaled"])``. If it returns True, the
        run ends "interrupted" with the best iterate.
    eps_pri, eps_dual : float
        Tolerances of the residuals, see :class:`Residuals`; ``eps_pri=1e-3`` for a quick estimate.
        With zero every round is run and the answer is the last iterate, as in a textbook;
        otherwise a run that does not converge returns its best iterate. If the answer is small
        compared with the clients' own minimisers, an accelerated run continues for up to five
        rounds until the clients agree to ``eps_pri`` of the answer.
    gap : float
        Ends the run when the certified gap and the violation of an iterate are at most this, see
        :meth:`Result.certificate`; the status is then "certified". ``gap=1e-3`` for a decision that
        needs no more. It is computed in rounds 1, 2, 4, 7, 11, ..., since it costs one small solve
        per client.
    max_rounds : int
        The limit of rounds: ``max_rounds=5000``.
    time_limit : float
        Seconds after which the run ends "time_limit" with the best iterate so far:
        ``time_limit=60``. Checked before each group of clients that are solved together, and passed
        to Clarabel; compilation, other hosts and cvxpy's solvers are not interrupted.
    starts : int
        Number of starting points of a model with clients that are not convex; the best result is
        returned, all of them are its ``runs``. The first is the variables' ``value``, the others
        are drawn around it, or within ``bounds``: ``starts=9``.
    verbose : bool
        Whether to show a line with the phase (compiling, measuring the clients, round), residuals
        and their tolerances, and rho. Python's ``logging`` has the rounds under the name
        ``dald_model``: each round at level DEBUG, start and end of a run at INFO.

    Returns
    -------
    Result
        An infeasible client, divergence, Ctrl-C and the like end in a status, with the best iterate
        and the history so far.

    Raises
    ------
    OptionError, SequenceError
        If an option has an invalid value, before anything is computed; or if a sequence or a change
        returns one in a later round.
    RunError
        If a function or an object that was given raises; that exception is its cause.
    LostError
        If an engine lost clients and could not place them again.

    Notes
    -----
    An error after the first round has begun keeps the rounds so far: its attribute ``result`` is an
    ordinary :class:`Result` of status "user_error", or "lost".

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> model = common_number([0, 1, 2])
    >>> result = model.solve()
    >>> print(result.status, round(result.value, 6), round(float(result["w"]), 6))
    optimal 2.0 1.0
    >>> print(model.solve(start=result, rho=1.0, acceleration=None, max_rounds=500).status)
    optimal
    >>> print(model.solve(callback=lambda at: at.round == 2).detail)
    the callback ended the run after round 2
    """
    options: dict[str, Any] = dict(locals())
    check_time_limit(time_limit)
    if starts is not None:
        return from_starts(solve, options)
    check_flag("verbose: given ", verbose)
    progress = Progress(model.name, verbose)
    prepared = Preparation(model, SimpleNamespace(**options), progress)
    timed = ExitStack()  # as the result is put together after the deadline
    try:
        timed.enter_context(within(time_limit))
        if checkpoint is not None:
            timed.enter_context(reserved(Path(checkpoint)))
        run = prepared.run()
        outcome = run.go()
        prepared.ended(run.layer, outcome)
    except KeyboardInterrupt:  # in the rounds it is caught, so this was before
        outcome = ended_before(prepared.unbegun)
    except TimeUpError:  # before the first round, too
        outcome = ended_before(prepared.unbegun, out_of_time(0))
    finally:
        timed.close()
        progress.close()
        if prepared.placement is not None:
            prepared.placement.close()
    result = assemble(outcome, (eps_pri, eps_dual), time.perf_counter() - prepared.begun)
    prepared.tell(result, outcome)
    left = None if time_limit is None else prepared.begun + time_limit - time.perf_counter()
    if prepared.local is not None and (left is None or left > 0) and prepared.local.rose(result):
        with within(left):
            return cast("Any", solve)(**options | {"acceleration": None})
    if outcome.error is not None:
        outcome.error.result = result
        raise outcome.error
    return result
