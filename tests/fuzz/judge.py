"""Runs a case and judges what came out against the all-in-one solve."""

from __future__ import annotations

import re
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dald_model as dm
from tests.fuzz.case import Case, run
from tests.fuzz.draw import case as drawn
from tests.fuzz.multipliers import dual_gap
from tests.fuzz.reference import Reference, is_panic, ordinary, reference

WRONG = 1e-4
"""An answer that is farther off is wrong: the objective relative to the variation of F, a
constraint or consensus in ordinary units. It is what ``verify`` allows by default."""
RIGHT = 1e-5
"""An answer that is nearer is right: ``verify`` must not fail it. Between the two, where the
tolerance's scale decides, either is taken."""
SECONDS = 180
"""CPU time after which a model hangs: the slowest of the mended ones takes 60 on a slow machine."""

FAILURES = ("wrong", "false verification", "dishonest", "exception", "crash", "broken")
"""What must never happen; "broken" is the harness itself, which then has judged nothing."""


@dataclass(frozen=True)
class Verdict:
    """What came of a case.

    Attributes
    ----------
    verdict : str
        "right", "unproved" (right, and said not to be proved), "honest" (no optimum found, and not
        claimed), "doubtful" (the all-in-one solvers do
        not agree), "refused" (an error of ours), "timeout", or one of :data:`FAILURES`.
    status, aio, aio_value :
        Of the run and of the all-in-one solve, its value in ordinary units.
    gap, violation : float
        Of the answer: the objective's relative to its variation; the largest in ordinary units.
    price : float
        What the bound by the multipliers falls short of, relative to the variation.
    """

    seed: int
    verdict: str
    aio: str
    status: str = ""
    rounds: int = 0
    gap: float = np.nan
    violation: float = np.nan
    price: float = np.nan
    seconds: float = np.nan
    detail: str = ""
    aio_value: float = np.nan
    features: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it must never happen."""
        return self.verdict in FAILURES

    @property
    def kind(self) -> tuple[str, str]:
        """What alike failures have in common: the verdict, and the detail without its figures."""
        return self.verdict, re.split("[:,(]", self.detail)[0]

    def row(self) -> dict[str, Any]:
        """A row of the table."""
        return asdict(self)


class TimeoutReached(BaseException):
    """The case took too long; no ``except Exception`` on the way may swallow it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeoutReached` after so many seconds of work, however busy the machine is."""

    def ring(*_: Any) -> None:
        raise TimeoutReached

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge_seed(seed: int) -> Verdict:
    """Draw a case and judge it; what fails here must not cost what was judged before."""
    try:
        return judge(drawn(seed))
    except Exception as error:
        return Verdict(seed, "broken", "none", detail=f"{type(error).__name__}: {error}")


def judge(case: Case) -> Verdict:
    """Run a case and judge it."""
    begun = time.process_time()
    known = None
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy's, of what a user would write otherwise
            known = reference(case)
            found = _judged(case, known)
    except TimeoutReached:
        found: dict[str, Any] = {"verdict": "timeout"}
    aio, value = (known.status, known.value) if known else ("timeout", np.nan)
    seconds = time.process_time() - begun
    return Verdict(
        case.seed, aio=aio, aio_value=value, seconds=seconds, features=case.features, **found
    )


def solve(case: Case) -> dm.Result:
    """Declare a case's model in the user's units and solve it."""
    space = run(case.declaration() + "\n" + case.model())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of orders without a guarantee; the user would be told
        return eval(case.solve(), space)


def _judged(case: Case, known: Reference) -> dict[str, Any]:
    try:
        result = solve(case)
        check = result.verify() if result.status.has_answer else None
    except dm.DaldError as error:
        return {"verdict": "refused", "detail": str(error)}
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
        return {"verdict": "exception", "detail": f"{type(error).__name__} {where}: {error}"}
    found = {"status": str(result.status), "rounds": result.rounds}
    if known.status == "doubtful":
        return {"verdict": "doubtful", **found}
    if check is None:
        claim = result.status in ("infeasible", "unbounded")
        if claim and result.status == known.status:
            return {"verdict": "right", **found}
        return {"verdict": "dishonest" if claim else "honest", "detail": result.detail, **found}
    if known.status != "optimal":
        return {"verdict": "wrong", "detail": f"AIO {known.status}", **found}
    gap, violation, reported = errors(case, known, result)
    worst = max(abs(gap), violation, reported)
    found |= {"gap": gap, "violation": violation}
    verified = bool(check.ok)
    if worst > WRONG or not np.isfinite(worst):
        known.confirm()
        if known.status != "optimal":
            return {"verdict": "doubtful", **found}
        gap, violation, reported = errors(case, known, result)
        worst = max(abs(gap), violation, reported)
        found |= {"gap": gap, "violation": violation}
    if _beats(case, known, result):
        return {"verdict": "doubtful", "detail": "feasible, and below the all-in-one", **found}
    failed = ", ".join(row.check for row in check.failures)
    if not worst <= WRONG:
        detail = f"verify().ok {verified}, reported value off by {reported:.1e}"
        return {"verdict": "false verification" if verified else "wrong", "detail": detail, **found}
    short = dual_gap(case, known, result)
    priced = short if short <= 1e-2 * RIGHT else short / known.variation
    found["price"] = priced
    if priced > WRONG:
        detail = f"multipliers, verify().ok {verified}"
        return {"verdict": "false verification" if verified else "wrong", "detail": detail, **found}
    is_claimed = result.status == "optimal"
    if not verified and (getattr(check, "outcome", "") == "cannot be judged" or not is_claimed):
        return {"verdict": "unproved", "detail": failed, **found}
    if worst <= RIGHT and not priced > RIGHT and not verified:
        return {"verdict": "false verification", "detail": f"right, but failed {failed}", **found}
    return {"verdict": "right", "detail": failed, **found}


def _beats(case: Case, known: Reference, result: dm.Result) -> bool:
    """Whether a feasible answer is better than what should be the least, so that is not.

    cvxpy evaluates both as they are written, also what it has compiled as something else.
    """
    if not result.status.has_answer:
        return False
    gap, violation, reported = errors(case, known, result)
    is_lower = gap < -WRONG and violation <= 1e-2 * RIGHT
    return is_lower and abs(reported + gap) <= RIGHT


def errors(
    case: Case, known: Reference, result: dm.Result, scale: float | None = None
) -> tuple[float, float, float]:
    """The relative gap of the objective, the worst violation, and the reported value's gap.

    ``scale`` is the variation of F, by default found where it matters: it is at least
    :data:`tests.fuzz.reference.LEAST` and costs a solve a client, so small gaps do without.
    """
    values = {
        owner.name: ordinary(case, {v.name(): x for v, x in result[owner.name].items()})
        for owner in case.owners
    }
    sign = -1.0 if case.maximises else 1.0
    reported = abs(sign * result.value / case.units.objective - known.value)
    gap = known.objective(values) - known.value
    violation = known.violation(values)
    if scale is None:
        scale = 1.0 if max(abs(gap), reported) <= 1e-2 * RIGHT else known.variation
    return gap / scale, violation, reported / scale
