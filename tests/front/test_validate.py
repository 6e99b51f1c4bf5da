"""Every number that a user gives: True is none, NaN is within no range, and text is refused."""

import math
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.datasets import load
from dald_model.solvers.prox import prox


def _solve(**options: Any) -> dm.Result:
    x = cp.Variable(), cp.Variable()
    model = dm.Model()
    for name, v in zip("ab", x, strict=True):
        model.client(name, cp.square(v))
    model.consensus(x[0] == x[1])
    return model.solve(**options)


LABELS = np.arange(40) % 2

REAL: dict[str, Callable[[Any], Any]] = {
    "eps_pri": lambda one: _solve(eps_pri=one),
    "eps_dual": lambda one: _solve(eps_dual=one),
    "accuracy": lambda one: _solve(accuracy=one),
    "rho": lambda one: _solve(rho=one),
    "rho of a client": lambda one: _solve(rho={"a": 1.0, "b": one}),
    "rho of entries": lambda one: _solve(rho=[one]),
    "DALD": dm.DALD,
    "ConsensusADMM": dm.ConsensusADMM,
    "EXTRA": dm.EXTRA,
    "FedDyn": dm.FedDyn,
    "DADMM": dm.DADMM,
    "ProximalPoint": dm.ProximalPoint,
    "GradientDescent": dm.GradientDescent,
    "NewtonMethod": dm.NewtonMethod,
    "mini-batches": lambda one: dm.MiniBatchGradientDescent(one, 1),
    "FedProx": dm.FedProx,
    "FedAvg": dm.FedAvg,
    "FedAvg weights": lambda one: dm.FedAvg(0.1, weights={"a": one}),
    "DGD": dm.DGD,
    "DGD weights": lambda one: _solve(algorithm=dm.DGD(0.1, {("a", "b"): one})),
    "AsynchronousDGD": dm.AsynchronousDGD,
    "JacobiGradientDescent": dm.JacobiGradientDescent,
    "BCGD": dm.BCGD,
    "BCPG": dm.BCPG,
    "ShrinkingTolerance start": lambda one: dm.ShrinkingTolerance(start=one),
    "ShrinkingTolerance factor": lambda one: dm.ShrinkingTolerance(factor=one),
    "GrowingBudget start": lambda one: dm.GrowingBudget(start=one),
    "GrowingBudget growth": lambda one: dm.GrowingBudget(growth=one),
    "Dropout": dm.Dropout,
    "LossyLinks": dm.LossyLinks,
    "GradientSteps": dm.solvers.GradientSteps,
    "NewtonSteps": lambda one: dm.solvers.NewtonSteps(damping=one),
    "prox": lambda one: prox(cp.norm1(cp.Variable(2)), np.zeros(2), one),
    "dirichlet": lambda one: dm.partition.dirichlet(LABELS, 2, one, 0),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "max_rounds": lambda one: _solve(max_rounds=one),
    "online": lambda one: _solve(online={one: dm.Change(absent=["a"])}),
    "FixedBudget": dm.FixedBudget,
    "ResidualBalancing period": lambda one: dm.ResidualBalancing(period=one),
    "ResidualBalancing changes": lambda one: dm.ResidualBalancing(changes=one),
    "random": dm.Sequence.random,
    "random seed": lambda one: dm.Sequence.random(1, one),
    "participating": dm.Sequence.participating,
    "essentially cyclic": dm.Sequence.essentially_cyclic,
    "greedy": dm.Sequence.greedy,
    "repeat": lambda one: dm.Sequence.repeat(["a"], one),
    "custom seed": lambda one: dm.Sequence.custom(lambda moment, rng: moment.live, one),
    "Dropout seed": lambda one: dm.Dropout(0.5, one),
    "LossyLinks seed": lambda one: dm.LossyLinks(0.5, one),
    "Stragglers": lambda one: dm.Stragglers({"a": one}),
    "FedAvg count": lambda one: dm.FedAvg(0.1, one),
    "FedAvg k": lambda one: dm.FedAvg(0.1, k=one),
    "FedAvg seed": lambda one: dm.FedAvg(0.1, seed=one),
    "StochasticGradientDescent seed": lambda one: dm.StochasticGradientDescent(0.1, seed=one),
    "StochasticNewton k": dm.StochasticNewton,
    "BCGD count": lambda one: dm.BCGD(0.1, one),
    "GradientSteps count": lambda one: dm.solvers.GradientSteps(0.1, one),
    "NewtonSteps count": dm.solvers.NewtonSteps,
    "split": lambda one: load("diabetes").split(one, 0),
    "even": lambda one: dm.partition.even(10, one, 0),
    "even seed": lambda one: dm.partition.even(10, 2, one),
    "label_skew": lambda one: dm.partition.label_skew(LABELS, 4, one, 0),
    "dirichlet smallest": lambda one: dm.partition.dirichlet(LABELS, 2, 1.0, 0, one),
    "alternating": lambda one: dm.partition.alternating(LABELS, one),
    "alternating seed": lambda one: dm.partition.alternating(LABELS, 2, one),
}


@pytest.mark.parametrize("given", [True, math.nan, math.inf, -1, "1", np.bool_(True)], ids=repr)
@pytest.mark.parametrize("where", REAL)
def test_what_is_no_real_number_is_refused(where: str, given: Any) -> None:
    with pytest.raises(dm.DaldError) as caught:
        REAL[where](given)
    assert "xpected" in str(caught.value)
    assert str(given) in str(caught.value)


@pytest.mark.parametrize("given", [True, math.nan, 1.0, -1, "1", None, np.bool_(True)], ids=repr)
@pytest.mark.parametrize("where", WHOLE)
def test_what_is_no_whole_number_is_refused(where: str, given: Any) -> None:
    if where == "FedAvg k" and given is None:
        pytest.skip("None is everybody")
    with pytest.raises(dm.DaldError) as caught:
        WHOLE[where](given)
    assert "xpected" in str(caught.value)
    assert str(given) in str(caught.value)


@pytest.mark.parametrize("given", [True, math.nan, 0.5, "1"], ids=repr)
def test_a_threshold_is_a_number_from_1(given: Any) -> None:
    with pytest.raises(dm.OptionError, match="expected period >= 1, threshold >= 1"):
        dm.ResidualBalancing(threshold=given)


def test_numbers_of_numpy_are_numbers() -> None:
    assert _solve(eps_pri=np.float32(1e-5), max_rounds=np.int64(50), rho=np.float64(1)).rounds < 50
    assert dm.Sequence.random(np.int8(2), np.uint8(3)).per_loop == 2  # pyright: ignore[reportArgumentType] - numpy's integers are integers
    assert dm.FixedBudget(np.int64(2)).ends(1, 2, 1.0, 0.0)  # pyright: ignore[reportArgumentType] - same
