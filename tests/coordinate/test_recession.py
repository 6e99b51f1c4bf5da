"""Directions along which an objective falls for ever, on problems whose truth is plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.cli import OF_STATUS
from dald_model.coordinate.certificates import Joint
from dald_model.coordinate.recession import Recession, falls_forever, is_attained
from dald_model.coordinate.scaling.units import Units
from dald_model.deadline import TimeUpError, within
from tests.expect import says

UNITS = [1e-6, 1.0, 1e6]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3))
SEPARATED = np.sign(ROWS @ np.array([1.0, -2.0, 0.5]))
MIXED = SEPARATED * np.where(np.arange(30) < 3, -1, 1)
DOSE = np.array([2.0, 4, 5, 5, 5, 7, 10] + [0] * 18 + [1] * 10)
ILL = np.r_[np.ones(7), -np.ones(28)]


def asked(model: dm.Model, at: float = 0.0) -> Recession | None:
    """From a point whose entries are all the same."""
    compiled = model.compile()
    return falls_forever(compiled, {name: np.full(sub.size, at) for name, sub in compiled.items()})


def test_quadratics_and_kinks_below_zero_nowhere_are_known_to_have_a_minimiser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a program of all: of wide owners it took a minute each, past any time limit."""
    w, model = cp.Variable(3, name="w"), dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(ROWS[2 * i : 2 * i + 2] @ w - 1) + cp.norm1(w), [w >= -1])

    def made(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Joint, "of", made)
    assert asked(model) is None


@pytest.mark.parametrize("fall", [cp.sum, lambda w: cp.sum(cp.exp(w))], ids=["line", "exp"])
def test_what_may_fall_for_ever_is_not_known_to_have_one(
    fall: Callable[[cp.Variable], Any],
) -> None:
    w, model = cp.Variable(3, name="w"), dm.Model()
    model.client("one", fall(w))
    model.client("other", 0 * cp.sum(w))
    assert not is_attained(model.compile())


def test_programs_of_all_are_made_within_the_time_limit() -> None:
    model = loss(cp.Variable(3, name="w"), MIXED, logistic)
    compiled = model.compile()
    with within(1e-9), pytest.raises(TimeUpError):
        Joint.of(compiled, Units.plain(compiled))


def loss(
    w: cp.Variable, labels: np.ndarray, of: Callable[[Any], Any], unit: float = 1.0
) -> dm.Model:
    """Three owners of ten rows each, with a loss of the margins."""
    model = dm.Model("loss")
    for i in range(3):
        mine = slice(10 * i, 10 * i + 10)
        model.client(i, of(cp.multiply(labels[mine], (ROWS[mine] / unit) @ w)))
    return model


def logistic(margins: Any) -> Any:
    return cp.sum(cp.logistic(-margins))


LOSSES: dict[str, Callable[[Any], Any]] = {
    "logistic": logistic,
    "exponential": lambda margins: cp.sum(cp.exp(-margins)),
    "log_sum_exp": lambda margins: cp.log_sum_exp(cp.hstack([0, -margins])),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("of", LOSSES)
def test_separated_data_have_no_minimiser(of: str, unit: float) -> None:
    """All margins rise along the direction, as long as it may be."""
    w = cp.Variable(3, name="w")
    found = asked(loss(w, SEPARATED, LOSSES[of], unit))
    assert found is not None
    assert not found.is_unbounded
    assert found.termination.status == dm.Status.NO_MINIMISER
    assert found.fall > 1
    for move in found.direction.values():
        margins = SEPARATED * (ROWS @ move)
        assert margins.min() > 1e-3 * margins.max() > 0
    says(
        found.said, "no minimiser: it keeps falling along w[0] = +0.", ", w[1] = -1", "sum_squares"
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("of", LOSSES)
def test_data_that_are_not_separated_have_one(of: str, unit: float) -> None:
    assert asked(loss(cp.Variable(3, name="w"), MIXED, LOSSES[of], unit)) is None


def test_the_infant_data_of_a_dose_and_from_where_the_run_ends() -> None:
    """Of cvxpy/cvxpy#1755: an offset and a dose, and 35 patients who are separated at 1.5."""
    b, model = cp.Variable(2, name="b"), dm.Model("separated")
    for i in range(3):
        some = slice(i, None, 3)
        rows = np.c_[np.ones(len(DOSE)), DOSE][some]
        model.client(i, cp.sum(cp.logistic(cp.multiply(-ILL[some], rows @ b))))
    result = model.solve()
    assert result.state is not None
    compiled = result.compiled
    points = {name: result.state.points[part] for name, part in compiled.columns.items()}
    found = falls_forever(compiled, points)
    assert found is not None
    assert 0 < found.fall <= result.value * (1 + 1e-5)
    offset, slope = found.direction[0]
    assert slope > 0
    assert 1 < -offset / slope < 2
    says(found.said, "the objective has no minimiser", "b[0] = -1, b[1] = +0.")


ONE: dict[str, Callable[[Any], Any]] = {
    "reciprocal": cp.inv_pos,
    "its third power": lambda x: cp.power(x, -3),
    "its root": lambda x: cp.power(x, -0.5),
    "exponential": lambda x: cp.exp(-x),
    "logistic": lambda x: cp.logistic(-x),
    "hyperbola": lambda x: cp.norm(cp.hstack([x, 1])) - x,
    "ratio with a fixed numerator": lambda x: cp.quad_over_lin(cp.Constant([1.0, 2.0]), x),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_variable_that_come_down_to_zero(name: str, unit: float) -> None:
    x, model = cp.Variable(name="x"), dm.Model("one")
    model.client("a", ONE[name](x / unit))
    model.client("b", cp.pos(-x / unit))
    found = asked(model, unit)
    assert found is not None
    assert found.client == "a"
    assert 0 < found.fall <= float(ONE[name](cp.Constant(1.0)).value) + 1e-9
    assert found.direction["a"] > 0
    np.testing.assert_allclose(found.direction["a"], found.direction["b"])
    says(found.said, "no minimiser: it keeps falling along x = +1; bound the variables")


def test_one_that_is_maximised_rises() -> None:
    x, model = cp.Variable(name="x"), dm.Model("maximised")
    for i in range(2):
        model.client(i, cp.Maximize(-cp.exp(-x)))
    found = asked(model)
    assert found is not None
    says(found.said, "the objective has no maximiser: it keeps rising along x = +1")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ["logarithm", "slope"])
def test_what_falls_without_bound_is_told_apart(name: str, unit: float) -> None:
    x, model = cp.Variable(name="x"), dm.Model("endless")
    model.client("a", -cp.log(x / unit) if name == "logarithm" else cp.exp(-x / unit) - x / unit)
    model.client("b", cp.exp(-x / unit))
    found = asked(model, unit)
    assert found is not None
    assert found.is_unbounded
    assert found.termination.status == dm.Status.UNBOUNDED
    says(found.said, "the objective falls without bound along x = +1; add a constraint")


@pytest.mark.parametrize("unit", UNITS)
def test_owners_without_minimisers_alone_may_have_one_together(unit: float) -> None:
    """One falls to the right, the other to the left."""
    x, model = cp.Variable(name="x"), dm.Model("two")
    model.client("right", cp.exp(-x / unit))
    model.client("left", cp.exp(x / unit))
    assert asked(model) is None


def test_copies_edges_and_couplings_hold_a_direction() -> None:
    """Along x alone client a falls; it is held by consensus, a coupling, or by neither."""
    for held in ("consensus", "coupling", "neither"):
        x, y, z = (cp.Variable(name=name) for name in "xyz")
        model = dm.Model("held")
        model.client("a", cp.exp(-x))
        model.client("b", cp.square(y - 1) + cp.square(z))
        if held == "consensus":
            model.consensus(x == y)
        elif held == "coupling":
            model.couple(x + y <= 5)
        else:
            model.couple(x >= y)
        found = asked(model)
        assert (found is None) == (held != "neither")
        if found is not None:
            says(found.said, "falling along x = +1;")
            np.testing.assert_allclose(found.direction["b"], 0, atol=1e-9)


def _box(w: cp.Variable, model: dm.Model) -> None:
    model.client("box", 0 * cp.sum(w), [cp.abs(w) <= 50])


def _half_box(w: cp.Variable, model: dm.Model) -> None:
    model.client("half", 0 * cp.sum(w), [w >= -50])


def _ball(w: cp.Variable, model: dm.Model) -> None:
    model.client("ball", 0 * cp.sum(w), [cp.norm(w) <= 50])


def _ridge(w: cp.Variable, model: dm.Model) -> None:
    model.client("ridge", 1e-6 * cp.sum_squares(w))


def _lasso(w: cp.Variable, model: dm.Model) -> None:
    model.client("lasso", 1e-6 * cp.norm1(w))


def _group(w: cp.Variable, model: dm.Model) -> None:
    model.client("group", 1e-6 * cp.norm(w))


@pytest.mark.parametrize("hold", [_box, _half_box, _ball, _ridge, _lasso, _group])
def test_separated_data_that_are_held_have_a_minimiser(hold: Any) -> None:
    w = cp.Variable(3, name="w")
    model = loss(w, SEPARATED, logistic)
    hold(w, model)
    assert asked(model) is None


WITH_MINIMISERS: dict[str, Callable[[Any], Any]] = {
    "rank-deficient least squares": lambda w: cp.sum_squares(ROWS[:2] @ w - 1),
    "hinge": lambda w: cp.sum(cp.pos(1 - cp.multiply(SEPARATED, ROWS @ w))),
    "squared hinge": lambda w: cp.sum_squares(cp.pos(1 - cp.multiply(SEPARATED, ROWS @ w))),
    "hinge and norm": lambda w: cp.norm(cp.pos(1 - cp.multiply(SEPARATED, ROWS @ w))),
    "Huber": lambda w: cp.sum(cp.huber(ROWS[:2] @ w - 1)),
    "flat face": lambda w: cp.maximum(0, w[0], w[1] - 3),
    "norm less a slope": lambda w: cp.norm(w) - w[0],
    "quadratic over linear": lambda w: cp.quad_over_lin(w[0], w[1]),
    "entropy": lambda w: -cp.sum(cp.entr(w)),
    "relative entropy": lambda w: cp.kl_div(w[0], w[1]) + cp.abs(w[2]),
    "Poisson": lambda w: cp.sum(cp.exp(ROWS @ w)) - np.arange(30) % 3 @ ROWS @ w,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", WITH_MINIMISERS)
def test_what_ends_flat_or_is_flat_has_minimisers(name: str, unit: float) -> None:
    w, model = cp.Variable(3, name="w"), dm.Model("flat")
    model.client("a", WITH_MINIMISERS[name](w / unit))
    model.client("b", cp.pos(-w[0] / unit))
    assert asked(model, unit) is None


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_data_that_all_but_separate_have_a_minimiser(share: float) -> None:
    """One row contradicts another with this share of its length."""
    w, model = cp.Variable(2, name="w"), dm.Model("nearly")
    model.client("a", cp.logistic(-w[0] - w[1]) + cp.logistic(w[0]))
    model.client("b", cp.logistic(-share * w[1]) + cp.logistic(share * w[1]))
    assert asked(model) is None


def test_the_direction_of_many_is_cut_short() -> None:
    x, model = cp.Variable(9, name="x"), dm.Model("many")
    for i in range(2):
        model.client(i, cp.sum(cp.exp(-x)))
    found = asked(model)
    assert found is not None
    says(found.said, "x[5] = +1", " and 3 more; bound")


def test_the_finding_of_a_run_that_ends_so() -> None:
    """The diagnosis says no more than the direction: more rounds would not help."""
    w = cp.Variable(3, name="w")
    found = asked(model := loss(w, SEPARATED, logistic))
    assert found is not None
    result = model.solve(max_rounds=20)
    status, culprit, detail = found.termination
    ended = replace(result, status=status, culprit=culprit, detail=detail)
    assert not ended.status.has_answer
    assert ended.diagnose().findings == ((found.said, ""),)
    assert OF_STATUS[status] == 5


def test_what_a_site_keeps_is_not_known() -> None:
    """There is no cone program of it here."""
    x = cp.Variable(name="x")
    sites = [dm.Site(name, cp.exp(-x), shared=[x]) for name in "ab"]
    federation = dm.Federation(dm.engines.Sites(sites))
    compiled = federation.solve(max_rounds=1).compiled
    assert (
        falls_forever(compiled, {name: np.zeros(sub.size) for name, sub in compiled.items()})
        is None
    )
