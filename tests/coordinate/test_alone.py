"""Answers of clients by themselves: of those with the same numbers one is asked for all."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate import alone


def test_clients_with_the_same_numbers_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = np.array([1.0, 2.0]), np.array([-3.0, 4.0])
    costs = [(1.0, near), (1.0, near), (1.0, far), (2.0, far), (1.0, near)]
    model, x = dm.Model("distances"), [cp.Variable(2) for _ in costs]
    for at, (weight, centre) in enumerate(costs):
        model.client(at, weight * cp.norm(x[at] - centre))
    model.consensus(*(one == x[0] for one in x[1:]))
    compiled, asked = model.compile(), []
    one_answer = alone.answer_alone
    monkeypatch.setattr(
        alone, "answer_alone", lambda sub: asked.append(sub.name) or one_answer(sub)
    )
    found = alone.answers_alone(compiled[name] for name in range(len(costs)))
    assert asked == [0, 2, 3]
    for answer, (_, centre) in zip(found, costs, strict=True):  # the minimum of a distance
        np.testing.assert_allclose(answer, centre, atol=1e-5)


@pytest.mark.parametrize("unit", 10.0 ** np.arange(-6, 7, 3))
def test_a_cone_program_says_how_long_its_variables_are(unit: float) -> None:
    """Rows x / u <= 3 and x / u >= -2 are as large in x as on the right at 3 u and 2 u.

    So is |z - 1| in z at 1, and its rows say that of each variable for itself.
    """
    model, x, y, z = dm.Model("a box"), cp.Variable(2), cp.Variable(2), cp.Variable()
    goal = cp.max(x) / unit + cp.abs(z - 1)
    model.client("boxed", goal, [x / unit <= 3, x / unit >= -2])
    model.client("other", cp.sum_squares(y))
    model.consensus(x == y)
    compiled = model.compile()
    found = compiled["boxed"].spread(alone.rough_lengths(compiled["boxed"]))
    assert found[x.id] == pytest.approx(unit)
    assert found[z.id] == pytest.approx(1.0)
