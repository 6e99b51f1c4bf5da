"""The estimate of the rounds that are left, on residuals that fall as formulas say."""

import numpy as np
import pytest

from dald_model.coordinate.progress import rounds_left


@pytest.mark.parametrize("made", [4, 10, 57])
@pytest.mark.parametrize("rate", [0.3, 0.9, 0.99])
def test_a_geometric_fall_is_foretold_exactly(made: int, rate: float) -> None:
    """1e6 rate^k is one after log(1e-6) / log(rate) rounds."""
    merits = 1e6 * rate ** np.arange(1, made + 1)
    if merits[-1] > 1:
        assert rounds_left(merits) == pytest.approx(np.log(1e-6) / np.log(rate) - made)


def test_rounds_that_went_back_do_not_count() -> None:
    merits = 1e6 * 0.5 ** np.arange(1, 13)
    back = merits.copy()
    back[[2, 5, 9]] = [1e9, np.inf, np.nan]
    assert rounds_left(back) == pytest.approx(rounds_left(merits))


def test_what_cannot_be_said() -> None:
    assert rounds_left(np.array([5.0, 0.5])) == 0
    assert np.isinf(rounds_left(np.full(9, 7.0)))
    assert np.isnan(rounds_left(np.array([])))
    assert np.isnan(rounds_left(np.array([9.0, 8.0, 7.0])))
    assert np.isnan(rounds_left(np.full(9, np.nan)))
