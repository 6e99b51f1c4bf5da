r"""Models of one loss over pooled data, :math:`\sum_i \phi(A_i x - b_i)`, and their true optimum.

Least squares is solved in rational arithmetic (:mod:`tests.answer.families.exact`). The other
losses are solved in orthonormal coordinates z of the pooled columns, A = Q T with z = T x, where
the problem is well conditioned whatever the condition of A; Q and T are found in extended
precision. Two solvers of cvxpy have to agree there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.answer.families.drawn import FLOOR, ULPS, Drawn, Truth, Values
from tests.answer.families.exact import Squares
from tests.answer.families.solvers import AGREE, DIGITS, least

HUBER: Any = 0.1
"""Where the Huber loss turns linear; residuals of the drawn data are about 1."""
DEPENDENT = 1e-15
"""A column with less than this share outside of the others is dependent: 1e4 extended ulps."""
FEW_DIGITS = 1e-4
"""A draw is skipped if rounding of x* to doubles changes F by more than this share of the scale."""


@dataclass(frozen=True)
class Loss:
    """A loss of residuals: for cvxpy, for arrays, and the second solver that knows it."""

    expression: Callable[[Any], Any]
    value: Callable[[np.ndarray], Any]
    second: str = ""


def _huber(u: np.ndarray) -> Any:
    far = np.abs(u)
    return np.sum(np.where(far <= HUBER, u * u, 2 * HUBER * far - HUBER * HUBER))


LOSSES = {
    "squares": Loss(cp.sum_squares, lambda u: np.sum(u * u)),
    "l1": Loss(cp.norm1, lambda u: np.sum(np.abs(u)), "HIGHS"),
    "huber": Loss(lambda u: cp.sum(cp.huber(u, HUBER)), _huber, "PIQP"),
    "logistic": Loss(
        lambda u: cp.sum(cp.logistic(u)), lambda u: np.sum(np.logaddexp(0 * u, u)), "SCS"
    ),
}


def pooled(
    family: str,
    kind: str,
    seed: int,
    loss: str,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    chain: bool = False,
) -> Drawn | None:
    """The model and its truth; None where the truth is not certain.

    With ``chain`` each owner has a variable of its own, equal to that of the next.
    """
    known = _of_squares(parts) if loss == "squares" else _of_loss(LOSSES[loss], parts)
    if known is None:
        return None
    optimum, x, paid, excess = known
    units = _units(parts)
    phi = LOSSES[loss].value
    costs = [_extended(A, b, x, phi) for A, b in parts]
    worth = sum(abs(cost - phi(b)) for cost, (_, b) in zip(costs, parts, strict=True))
    scale = max(paid, FLOOR * float(worth))
    grain = abs(excess(x)) + ULPS * float(sum(abs(cost) for cost in costs))
    if not (scale > 0 and grain <= FEW_DIGITS * scale):
        return None
    names = [f"x{at}" if chain else "w" for at in range(len(parts))]

    def mean(values: Values) -> np.ndarray:
        return np.mean([values[name] for name in names], axis=0)

    def apart(values: Values) -> float:
        size = max(1.0, float(np.abs(x / units).max()))
        off = [np.abs((values[name] - mean(values)) / units).max() for name in names]
        return float(max(off)) / size

    truth = Truth(
        optimum,
        scale,
        grain,
        lambda values: excess(mean(values)),
        apart,
        dict.fromkeys(names, units),
        dict.fromkeys(names, x),
    )

    def build() -> dm.Model:
        model = dm.Model(f"{family} {seed}")
        variables = {name: cp.Variable(len(x), name=name) for name in names}
        for at, (A, b) in enumerate(parts):
            model.client(f"owner {at}", LOSSES[loss].expression(A @ variables[names[at]] - b))
        for one, two in pairwise(names):
            if chain:
                model.consensus(variables[one] == variables[two])
        return model

    return Drawn(family, kind, seed, build, truth)


Known = tuple[float, np.ndarray, float, Callable[[np.ndarray], float]]
"""The optimum, a minimiser, the cost of consensus, and F - F* as a function of a point."""


def _of_squares(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Known:
    owners = [Squares.of(A, b) for A, b in parts]
    whole = owners[0]
    for one in owners[1:]:
        whole = whole + one
    best = whole.minimiser
    paid = sum(one.at(best) - one.least for one in owners)
    return float(whole.least), np.array([float(v) for v in best]), float(paid), whole.excess


def _of_loss(loss: Loss, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Known | None:
    A, b = np.vstack([A for A, _ in parts]), np.concatenate([b for _, b in parts])
    Q, T, kept = orthonormal(A)
    z = cp.Variable(Q.shape[1])
    found = least(loss.expression(Q.astype(float) @ z - b), [], [z], ("CLARABEL", loss.second))
    if found is None:
        return None
    at = np.asarray(found.values[0], dtype=np.longdouble)
    optimum = loss.value(Q @ at - b)
    paid = 0.0
    ends = np.cumsum([0, *(len(b) for _, b in parts)])
    for (own, right), start, stop in zip(parts, ends, ends[1:], strict=False):
        here = orthonormal(own)[0].astype(float)
        y = cp.Variable(here.shape[1])
        alone = least(loss.expression(here @ y - right), [], [y], ("CLARABEL",))
        if alone is None:
            return None
        paid += float(loss.value(Q[start:stop] @ at - right)) - alone.value
    scale = max(paid, FLOOR * float(abs(optimum - loss.value(b))))
    if found.apart > max(AGREE * scale, DIGITS * float(optimum)):
        return None
    x = np.zeros(A.shape[1])
    x[kept] = _back_substituted(T, at).astype(float)
    return (
        float(optimum),
        x,
        paid,
        lambda there: float(_extended(A, b, there, loss.value) - optimum),
    )


def _extended(A: np.ndarray, b: np.ndarray, x: np.ndarray, phi: Callable[..., Any]) -> Any:
    """The loss at a point, its residuals in extended precision."""
    return phi(A.astype(np.longdouble) @ np.asarray(x, dtype=np.longdouble) - b)


def _units(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The change of each entry that changes the pooled fit by as much as the data are large."""
    lengths = np.linalg.norm(np.vstack([A for A, _ in parts]), axis=0)
    size = np.linalg.norm(np.concatenate([b for _, b in parts])) or 1.0
    return size / np.where(lengths > 0, lengths, size)


def orthonormal(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Q, T and the independent columns, by Gram-Schmidt, each step twice, in extended precision."""
    columns: list[np.ndarray] = []
    weights: list[list[Any]] = []
    kept: list[int] = []
    for at, column in enumerate(A.astype(np.longdouble).T):
        left, row = column.copy(), [np.longdouble(0)] * len(columns)
        for _ in range(2):
            for k, q in enumerate(columns):
                share = q @ left
                row[k] += share
                left = left - share * q
        length = np.sqrt(left @ left)
        if length > DEPENDENT * np.sqrt(column @ column):
            columns.append(left / length)
            weights.append([*row, length])
            kept.append(at)
    T = np.zeros((len(kept), len(kept)), dtype=np.longdouble)
    for at, row in enumerate(weights):
        T[: len(row), at] = row
    return np.array(columns).reshape(len(kept), -1).T, T, kept


def _back_substituted(T: np.ndarray, z: np.ndarray) -> np.ndarray:
    x = np.zeros(len(z), dtype=np.longdouble)
    for at in reversed(range(len(z))):
        x[at] = (z[at] - T[at, at + 1 :] @ x[at + 1 :]) / T[at, at]
    return x
