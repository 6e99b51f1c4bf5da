"""Answers of clients by themselves: of those with the same numbers one is asked for all."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate import alone, doubts, survey
from dald_model.engines.dispatch import SolverLayer


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


def test_who_is_kept_along_all_variables_is_asked_no_cone_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The median of b is the minimum of their distances plus a ridge that weighs less.

    A ridge under kinks slopes nowhere at zero, so a client held there looks dragged by its hold.
    """
    rng, model, x = np.random.default_rng(0), dm.Model("medians"), cp.Variable(3)
    targets = [centre + rng.normal(size=(41, 3)) for centre in (0.0, 1.0, 5.0)]
    for at, b in enumerate(targets):
        distances = cp.sum([cp.norm1(x - row) for row in b])
        model.client(at, distances + 1e-3 * cp.sum_squares(x))
    compiled = model.compile()
    for module in (alone, doubts, survey):
        monkeypatch.setattr(module, "answer_alone", lambda sub: pytest.fail(str(sub.name)))
    found = survey.own_answers(compiled, SolverLayer(compiled, "auto"))
    for at, b in enumerate(targets):
        answer = found.points[compiled.columns[at]]
        np.testing.assert_allclose(answer, np.median(b, axis=0), atol=1e-5)


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


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e3, 1e6])
def test_what_falls_for_ever_has_no_answer(unit: float) -> None:
    """Of 1 / (x1 x2) a solver's answer is as far out as it was patient, and in some units twice."""
    x, model = cp.Variable(2), dm.Model()
    model.client("falls", cp.inv_prod(unit * x))
    model.client("other", cp.sum_squares(unit * x))
    compiled = model.compile()
    assert np.isnan(alone.answer_alone(compiled["falls"])).all()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_nearest_point_inside_is_the_projection(unit: float) -> None:
    """On a box, and on the domain of a logarithm, whatever the objective wants."""
    x, y, model = cp.Variable(2), cp.Variable(), dm.Model()
    model.client("box", 1e3 * cp.norm1(x / unit), [x >= unit, x <= 3 * unit])
    model.client("log", -cp.log(y / unit))
    model.client("other", cp.sum_squares(x / unit) + (y / unit) ** 2)
    compiled = model.compile()
    lengths = np.full(2, unit)
    found = alone.nearest_inside(compiled["box"], unit * np.array([-5.0, 2.5]), lengths)
    assert found == pytest.approx(unit * np.array([1.0, 2.5]), rel=1e-5)
    found = alone.nearest_inside(compiled["log"], np.array([-2 * unit]), lengths[:1])
    assert found == pytest.approx(0.0, abs=1e-5 * unit)


def _disc(seen: cp.Expression) -> cp.Constraint:
    """Within a disc, said by a support function, which cvxpy alone knows."""
    s = cp.Variable(2)
    return cp.suppfunc(s, [cp.norm(s, 2) <= 1])(seen) <= 2.0


@pytest.mark.parametrize("is_bounded", [True, False])
def test_who_cvxpy_alone_knows_has_an_answer_if_it_is_bounded(is_bounded: bool) -> None:
    """Over a disc logarithms are least where it meets the diagonal; over a strip nowhere."""
    x = cp.Variable(2, name="x", pos=True)
    seen = x - 5.0 if is_bounded else np.array([[0.7, -0.7], [-0.3, 0.3]]) @ x
    model = dm.Model("logarithms")
    model.client("a", -cp.sum(cp.log1p(x)), [_disc(seen)])
    model.client("b", cp.sum_squares(x))
    answer = alone.answer_alone(model.compile()["a"])
    wanted = 5 + np.sqrt([2, 2]) if is_bounded else np.full(2, np.nan)
    np.testing.assert_allclose(answer, wanted, rtol=1e-5)
