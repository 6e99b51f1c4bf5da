"""Status of a run, and the reason for its end."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from dald_model.errors import DaldError, LostError, RunError
from dald_model.text import counted


class Status(StrEnum):
    """Status of a result; the value is cvxpy's word where cvxpy has one.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> status = common_number([0, 1, 2]).solve(max_rounds=1).status
    >>> print(status, status == "round_limit", status.has_answer)
    round_limit True False
    """

    message: str

    def __new__(cls, value: str, message: str) -> Status:
        """A string with an explanation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.message = message
        return member

    OPTIMAL = "optimal", "both residuals met their tolerances"
    OPTIMAL_INACCURATE = (
        "optimal_inaccurate",
        "both residuals met their tolerances, but a client's solver or the proof of the gap "
        "fell short",
    )
    CERTIFIED = "certified", "the certified gap met its tolerance before both residuals met theirs"
    REDUCED = (
        "reduced",
        "both residuals met their tolerances, for the clients and edges that were still there",
    )
    STATIONARY = (
        "stationary",
        "the first-order conditions of the whole problem hold; it is not convex, so there may be "
        "lower points",
    )
    SETTLED = "settled", "the iterates stopped moving; this algorithm's limit need not be optimal"
    INFEASIBLE = "infeasible", "no point satisfies all constraints"
    UNBOUNDED = "unbounded", "the objective improves without bound"
    NO_MINIMISER = (
        "no_minimiser",
        "the objective keeps improving towards a bound that no point attains",
    )
    ROUND_LIMIT = "round_limit", "max_rounds was reached before the tolerances"
    TIME_LIMIT = "time_limit", "time_limit was reached before the tolerances"
    STALLED = "stalled", "the residuals stopped improving above the tolerances"
    DIVERGED = "diverged", "the residuals grew without bound"
    INTERRUPTED = "interrupted", "the run was interrupted, from the keyboard or by its callback"
    SOLVER_ERROR = "solver_error", "a client's solver failed"
    LOST = "lost", "the engine lost clients, and could not place them again"
    USER_ERROR = "user_error", "a function or an object that solve was given raised an exception"

    @property
    def has_answer(self) -> bool:
        """Whether the run claims a point: optimal, also of what was left, or stationary."""
        return self in (
            Status.OPTIMAL,
            Status.STATIONARY,
            Status.OPTIMAL_INACCURATE,
            Status.CERTIFIED,
            Status.REDUCED,
        )


class Termination(NamedTuple):
    """Status, culprit and detail of the end of a run."""

    status: Status
    culprit: Any
    detail: str

    @classmethod
    def of(cls, error: DaldError) -> Termination:
        """The end of a run by an error."""
        status = Status.LOST if isinstance(error, LostError) else Status.USER_ERROR
        return cls(status, None, str(error))


class ClientFailedError(Exception):
    """A client could not be solved, so the run ends; never shown to the user."""

    def __init__(self, termination: Termination) -> None:
        super().__init__(termination.detail)
        self.termination = termination


class AskedError(Exception):
    """Something of the user's raised, which is the cause; never shown to the user."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Asking:
    """Something of the user's is called; if it raises, that says what it was.

    Errors of our own pass as they are.

    Parameters
    ----------
    option : str
        Of ``solve``, by which it came.
    given : object
        The object that is called; it is printed only if it raises.
    """

    __slots__ = ("_given", "_option")

    def __init__(self, option: str, given: Any) -> None:
        self._option, self._given = option, given

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, DaldError):
            raise AskedError(f"{self._option}: {self._given!r}") from error


def as_error(raised: BaseException, rounds: int) -> DaldError:
    """An exception in the middle of a run as an error of ours, of which it is the cause."""
    if isinstance(raised, DaldError):
        return raised
    what: str
    cause: BaseException
    what, cause = "a step of the run", raised
    if isinstance(raised, AskedError) and raised.__cause__ is not None:
        what, cause = raised.what, raised.__cause__
    error = RunError(
        f"{what} raised {type(cause).__name__} ({cause}) after {counted(rounds, 'round')}; what "
        "was found is kept, as `result` of this error"
    )
    error.__cause__ = cause
    return error
