r"""Proximal operators in closed form, of many sets of variables of one width at once.

Parikh and Boyd 2014, chapter 6; the simplex by sorting as in Held, Wolfe and Crowder 1974. All take
the values, shape (G, width), then :math:`\alpha`, then what the sets are.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Kind


def around(
    kind: Kind,
    values: np.ndarray,
    alpha: float,
    weight: np.ndarray,
    parameter: np.ndarray,
    centre: np.ndarray,
) -> np.ndarray:
    r""":math:`w \varphi(x - a)` of a joint kind."""
    return centre + kind.prox(values - centre, alpha * weight, parameter)


def on_simplices(
    values: np.ndarray, alpha: float, total: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    r""":math:`\{x \ge l, \sum x = \sum l + t\}`."""
    offset = values - lower
    # By the largest entry, so that far points lose no digits in the sums
    offset -= offset.max(axis=1, keepdims=True)
    ordered = -np.sort(-offset, axis=1)
    surplus = (np.cumsum(ordered, axis=1) - total[:, None]) / np.arange(1, offset.shape[1] + 1)
    count = np.count_nonzero(ordered > surplus, axis=1)
    level = np.take_along_axis(surplus, np.maximum(count, 1)[:, None] - 1, axis=1)
    return lower + np.maximum(offset - level, 0.0)


def on_full_simplices(
    values: np.ndarray, alpha: float, total: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    r""":math:`\{x \ge l, \sum x \le \sum l + t\}`."""
    found = np.maximum(values, lower)
    is_over = (found - lower).sum(axis=1) > total
    if is_over.any():
        found[is_over] = on_simplices(values[is_over], alpha, total[is_over], lower[is_over])
    return found


def on_planes(
    rows: np.ndarray, inverse: np.ndarray, values: np.ndarray, alpha: float, right: np.ndarray
) -> np.ndarray:
    r""":math:`\{E x = e\}` with the pseudoinverse of E."""
    return values - (values @ rows.T - right) @ inverse.T
