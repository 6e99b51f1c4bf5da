"""Terms of many clients that are met again with other numbers."""

import numpy as np
import pytest

from dald_model.compile.form import Term
from dald_model.compile.kinds import ABSOLUTE
from dald_model.solvers.arrays.terms import Terms


@pytest.mark.parametrize("moved", ["weights", "offsets", "matrices"])
def test_terms_that_are_met_again_have_the_values_of_their_numbers(moved: str) -> None:
    """The sums of w |A x + b|, whatever of them is another; those before keep their own."""
    rng = np.random.default_rng(0)
    count, rows, size = 3, 4, 5
    first = [[Term(ABSOLUTE, *_numbers(rng, rows, size), np.zeros(rows))] for _ in range(count)]
    second = []
    for (term,) in first:
        weight, matrix, offset = _numbers(rng, rows, size)
        change = {"weights": {"weight": weight}, "offsets": {"offset": offset}}
        second.append([term._replace(**change.get(moved, {"matrix": matrix, "weight": weight}))])
    terms = Terms(first, size)
    others = terms.again(second)
    which, x = np.array([2, 0]), rng.normal(size=(2, size))
    for found, own in ((others, second), (terms, first)):
        expected = [
            own[at][0].weight @ np.abs(own[at][0].matrix @ point + own[at][0].offset)
            for at, point in zip(which, x, strict=True)
        ]
        np.testing.assert_allclose(found.values(which, x), expected, rtol=1e-13)


def _numbers(
    rng: np.random.Generator, rows: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.uniform(1, 2, rows), rng.normal(size=(rows, size)), rng.normal(size=rows)
