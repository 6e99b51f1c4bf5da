"""A hundred models of `make fuzz`, always the same: no failure, and nearly all optimal."""

import pytest

from tests.fuzz.judge import judge_seed

EACH = 10


@pytest.mark.parametrize("first", range(0, 100, EACH))
def test_a_hundred_models(first: int) -> None:
    verdicts = [judge_seed(seed) for seed in range(first, first + EACH)]
    failed = [str(one) for one in verdicts if one.verdict not in ("right", "honest", "doubtful")]
    assert not failed, "\n".join(failed)
    left = [str(one) for one in verdicts if one.verdict != "right"]
    assert len(left) <= 1, "\n".join(left)
