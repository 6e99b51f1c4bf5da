"""Answers as plain Python: what they hold, and that JSON takes every ending."""

import json

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.models.mean import common_number


def test_a_result_is_told_by_names() -> None:
    result = common_number([0, 1, 2]).solve()
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["variables"] == {"w": pytest.approx(1.0)}
    assert told["value"] == pytest.approx(2.0)
    assert len(told["history"]) == told["rounds"] == result.rounds
    assert told["history"][-1]["objective"] == pytest.approx(2.0)


def test_an_infeasible_model_has_no_value_in_json() -> None:
    x, model = cp.Variable(name="x"), dm.Model("none")
    model.client("a", cp.square(x), [x >= 1])
    model.client("b", cp.square(x), [x <= 0])
    result = model.solve()
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert (told["status"], told["value"]) == ("infeasible", None)
    assert json.dumps(result.verify().to_dict(), allow_nan=False)


def test_arrays_and_numbers_that_are_not_finite() -> None:
    odd = {
        "dict": {1: np.array([[1.0, np.inf]]), "b": (np.int64(2), np.float32(0.5), np.nan, None)},
        "sparse": sp.eye_array(2),
    }
    metrics = {name: lambda at, one=one: one for name, one in odd.items()}
    last = common_number([0, 1, 2]).solve(metrics=metrics).to_dict()["history"][-1]
    assert last["dict"] == {"1": [[1.0, None]], "b": [2, 0.5, None, None]}
    assert last["sparse"] == [[1.0, 0.0], [0.0, 1.0]]
