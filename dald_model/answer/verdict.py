"""What rows of comparisons come to: passed, failed, or that it cannot be judged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from dald_model.answer.row import Row


class Verdict(StrEnum):
    """What a judgement comes to; only "passed" is ok."""

    PASSED = "passed"
    FAILED = "failed"
    UNPROVED = "cannot be judged"


def verdict_of(rows: Iterable[Row]) -> Verdict:
    """What some rows come to."""
    failed = [row for row in rows if not row.ok]
    if not failed:
        return Verdict.PASSED
    return Verdict.FAILED if any(row.is_seen for row in failed) else Verdict.UNPROVED


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
        return verdict_of(self.rows)

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
