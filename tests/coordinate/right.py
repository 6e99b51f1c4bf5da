"""Whether a run of a zoo problem reached its known answer, as near as its number of rounds says."""

from math import log

import numpy as np
import pytest

import dald_model as dm
from tests.zoo import Built


def steps(result: dm.Result) -> float:
    """As ``test_zoo.py`` asks; of more than 1,000 rounds in proportion, see there."""
    return max(100.0, result.rounds / log(1e6))


def assert_right(built: Built, result: dm.Result) -> None:
    assert result.status == "optimal", str(result)
    check = result.verify()
    assert check.ok, str(check)
    assert result.value == pytest.approx(built.value, rel=1e-5, abs=1e-5)
    for client, variable in built.variables.items():
        known = built.points[client]
        off = np.abs(result[client][variable] - known).max()
        assert off <= 1e-6 * steps(result) * max(1.0, float(np.abs(known).max())), client
