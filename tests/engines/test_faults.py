"""A few faults of each kind of ``tests/engines/faults.py``, whose table has many."""

from __future__ import annotations

import sys

import pytest

from tests.engines.faults import ROWS, of_many_solves

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and fork are Linux's")
FEW = {
    "processes: one killed": 2,
    "sites by answers: one killed": 4,
    "sites by curvature: one killed": 4,
    "coordinator killed, resumed": 5,
    "disk full": 1,
    "slow client under a deadline": 1,
}
HONEST = ("right", "lost, by name", "named, the old file is there", "the others' answer, in time")


@pytest.mark.parametrize("row", FEW)
def test_a_fault_ends_right_or_by_name(row: str) -> None:
    ends = ROWS[row](FEW[row])
    assert ends
    assert all(end.startswith(HONEST) and " left" not in end for end in ends)


def test_nothing_grows_with_the_number_of_solves() -> None:
    ends = of_many_solves(30)
    assert ends["right"] == 30
    (grown,) = ends.keys() - {"right"}
    files, threads, memory = (int(word) for word in grown.split() if word.isdigit())
    assert (files, threads) == (0, 0)
    assert memory <= 8  # MiB
