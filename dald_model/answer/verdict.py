"""Rows of comparisons, each beside its scale and what is allowed, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dald_model.lazy_imports import pd


class Verdict(StrEnum):
    """What a judgement comes to; only "passed" is ok."""

    PASSED = "passed"
    FAILED = "failed"
    UNPROVED = "cannot be judged"


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    check : str
        What is compared.
    difference : float
        In the units of what is compared.
    scale : float
        What it is measured by, in the same units.
    allowed : float or None
        Share of the scale that the difference may be; None where it is informational.
    where : str
        The client, constraint or variable that it is due to.
    slack : float
        What doubles leave open of the difference, which is allowed in any case.
    is_seen : bool
        Whether the difference is known well enough to call it wrong.
    """

    check: str
    difference: float
    scale: float
    allowed: float | None = None
    where: str = ""
    slack: float = 0.0
    is_seen: bool = True

    @property
    def measured(self) -> float:
        """The difference as a share of the scale; nothing is nothing of any scale."""
        if self.difference == 0:
            return 0.0
        return self.difference / self.scale if self.scale > 0 else float("inf")

    @property
    def ok(self) -> bool:
        """Whether it is within what is allowed; a number that is none never is."""
        if self.allowed is None:
            return True
        if self.difference == 0:
            return True
        return bool(self.difference <= self.allowed * self.scale + self.slack)


class Judged:
    """Rows that are read by the name of their check, and what they come to.

    Attributes
    ----------
    rows : tuple of Row
        All comparisons.
    """

    rows: tuple[Row, ...]

    @property
    def outcome(self) -> Verdict:
        """Passed, failed, or cannot be judged."""
        failed = self.failures
        if not failed:
            return Verdict.PASSED
        return Verdict.FAILED if any(row.is_seen for row in failed) else Verdict.UNPROVED

    @property
    def ok(self) -> bool:
        """Whether every row is within what is allowed."""
        return self.outcome is Verdict.PASSED

    @property
    def failures(self) -> list[Row]:
        """The rows that are not."""
        return [row for row in self.rows if not row.ok]

    @property
    def word(self) -> str:
        """The outcome as it is printed: a failure in capitals."""
        return "FAILED" if self.outcome is Verdict.FAILED else str(self.outcome)

    @property
    def said(self) -> str:
        """The outcome, and the rows that it is due to."""
        due = ", ".join(row.check for row in self.failures)
        return f"{self.word} ({due})" if due else self.word

    def __getitem__(self, check: str) -> Row:
        return next(row for row in self.rows if row.check == check)

    def __bool__(self) -> bool:
        return self.ok


def table(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as they are printed: the difference over what it is measured by, and what is allowed."""
    return pd.DataFrame(
        [
            {
                "check": row.check,
                "difference": f"{row.difference:.1e}",
                "measured by": "" if not row.difference else f"{row.scale:.1e}",
                "share": f"{row.measured:.1e}",
                "allowed": "" if row.allowed is None else f"{row.allowed:.0e}",
                "": _said(row),
                "where": row.where,
            }
            for row in rows
        ]
    )


def _said(row: Row) -> str:
    if row.allowed is None:
        return "info"
    return "ok" if row.ok else "FAILED" if row.is_seen else "unproved"
