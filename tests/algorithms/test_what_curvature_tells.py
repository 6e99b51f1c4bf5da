"""What a curious coordinator learns of owners: from single arrays, and from their sums."""

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm


class Curious:
    """An aggregator that writes down what each owner shows, and the sums."""

    def __init__(self) -> None:
        self.single: list[list[np.ndarray]] = []
        self.sums: list[np.ndarray] = []

    def total(self, arrays: Sequence[Any]) -> Any:
        found = sum(arrays[1:], arrays[0])
        if np.ndim(found) == 2:
            self.single.append([np.array(one) for one in arrays])
        self.sums.append(np.array(found))
        return found

    def least(self, numbers: Sequence[float]) -> float:
        return min(numbers)


def observed(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curious:
    """What is seen of a least squares fit of owners with these records."""
    model, w, seen = dm.Model("owners"), cp.Variable(3, name="w"), Curious()
    for at, (rows, right) in enumerate(parts):
        model.client(at, cp.sum_squares(rows @ w - right))
    assert model.solve(algorithm=dm.InteriorPoint(aggregator=seen)).status == "optimal"
    return seen


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(count, 3)), rng.normal(size=count)


def test_a_single_owners_curvature_is_its_record() -> None:
    """The units are the coordinator's own, so that it can take them out: columns of pooled norm."""
    rows, right = records(12)
    seen = observed([(rows[:1], right[:1]), (rows[1:], right[1:])])
    values, vectors = np.linalg.eigh(seen.single[0][0])
    assert np.abs(values[:-1]).max() <= 1e-12 * values[-1]
    shown = vectors[:, -1] * np.sqrt(values[-1])
    whole = sum(seen.single[0])
    # Both are in the units of the variables; of the pooled Gram matrix G the owner has the share
    gram = rows.T @ rows
    units = np.sqrt(np.diag(whole) / np.diag(gram))
    found = shown / units
    assert min(np.abs(found - rows[0]).max(), np.abs(found + rows[0]).max()) <= 1e-10


def test_sums_are_those_of_the_pooled_records_whoever_has_which() -> None:
    """So from them no coordinator can say which of three owners has a record.

    But for one number a round: the sum of the owners' steepest slopes, which is of each owner's.
    """
    rows, right = records(12)
    splits = [np.split(order, [2, 7]) for order in (np.arange(12), np.arange(12)[::-1])]
    one, other = (observed([(rows[at], right[at]) for at in split]) for split in splits)
    assert len(one.sums) == len(other.sums)
    for ours, theirs in zip(one.sums, other.sums, strict=True):
        told = np.arange(ours.size) != (5 if ours.size == 7 else -1)  # the sixth of seven numbers
        mine, yours = np.ravel(ours)[told], np.ravel(theirs)[told]
        np.testing.assert_allclose(mine, yours, rtol=1e-9, atol=1e-9)


def test_of_two_owners_each_knows_the_other() -> None:
    rows, right = records(12)
    seen = observed([(rows[:5], right[:5]), (rows[5:], right[5:])])
    mine, theirs = seen.single[0]
    whole = next(one for one in seen.sums if one.ndim == 2)
    np.testing.assert_allclose(whole - mine, theirs, rtol=1e-12, atol=1e-12)


def test_weights_that_change_tell_few_records_apart() -> None:
    r"""Round by round :math:`\sum_k w_k a_k a_k^\top` of a logistic loss: the changes."""
    rows, _ = records(2)
    model, w, seen = dm.Model("owners"), cp.Variable(3, name="w"), Curious()
    model.client("few", cp.sum(cp.logistic(rows @ w)) + cp.sum_squares(w - 2))
    model.client("other", cp.sum_squares(w + 1))
    assert model.solve(algorithm=dm.InteriorPoint(aggregator=seen)).status == "optimal"
    shown, upper = [one[0] for one in seen.single], np.triu_indices(3)
    moved = np.array([(one - shown[0])[upper] for one in shown[1:]])
    _, sizes, directions = np.linalg.svd(moved)
    assert np.sum(sizes > 1e-9 * sizes[0]) == len(rows)
    # The changes span two of six dimensions, those of the records: each of them is found there
    units = np.sqrt(np.diag(seen.single[0][1]))
    for row in rows:
        record = np.outer(units * row, units * row)[upper]
        outside = directions[len(rows) :] @ record
        assert np.abs(outside).max() <= 1e-6 * np.abs(record).max()
