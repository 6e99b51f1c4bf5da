"""The sum of objectives alike as one expression over stacked data, as one would write it by hand.

Of a thousand owners with a logistic loss each cvxpy compiles one atom of all their rows, where the
sum of a thousand atoms would take it longer than its solver.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    ENTRYWISE,
    PRODUCTS,
    DivExpression,
    NegExpression,
    Promote,
    Sum,
)
from dald_model.declare.client import Client


class NotStackedError(Exception):
    """Why a sum is taken term by term."""


def stacked_sum(clients: Iterable[Client]) -> cp.Expression | None:
    """What clients minimise in sum; of those with one structure over the same variables stacked.

    None where no two of them are.
    """
    alike: dict[Hashable, list[Client]] = {}
    for client in clients:
        known = client.leaves
        key = id(client) if known is None else (known.key, *(v.id for v in known.variables))
        alike.setdefault(key, []).append(client)
    terms: list[Any] = []
    is_stacked = False
    for some in alike.values():
        try:
            terms.append(some[0].cost if len(some) == 1 else _Stacking(some).total)
            is_stacked |= len(some) > 1
        except NotStackedError:
            terms += [client.cost for client in some]
    total: Any = sum(terms)
    return total if is_stacked else None


class _Stacking:
    """Clients alike, whose rows lie below one another; weights are one number a client."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._cost, self._count = clients[0].cost, len(clients)
        every = [known for client in clients if (known := client.leaves)]
        each = [known.constants for known in every]
        columns = [[c.value for c in column] for column in zip(*each, strict=True)]
        self._values = dict(zip(map(id, every[0].constants), columns, strict=True))
        self._own = {key for key, column in self._values.items() if not _are_one(column)}

    @property
    def total(self) -> cp.Expression:
        """The sum of the costs."""
        return self._total(self._cost, None)

    def _differs(self, node: Any) -> bool:
        return id(node) in self._own or any(map(self._differs, node.args))

    def _total(self, node: Any, weights: np.ndarray | None) -> Any:
        """The weighed sum over clients of what is a number of each."""
        kind = type(node)
        if weights is not None and weights.min() < 0:
            if weights.max() > 0:
                raise NotStackedError
            return -self._total(node, -weights)
        if not self._differs(node):
            return (self._count if weights is None else weights.sum()) * node
        if kind is NegExpression:
            return -self._total(node.args[0], weights)
        if kind is cp.AddExpression and all(arg.is_scalar() for arg in node.args):
            return sum(self._total(arg, weights) for arg in node.args)
        if kind in PRODUCTS and all(arg.is_scalar() for arg in node.args):
            at = int(kind is DivExpression or node.args[1].is_constant())
            factors = self._numbers(node.args[at])
            factors = 1 / factors if kind is DivExpression else factors
            return self._total(node.args[1 - at], factors * (1.0 if weights is None else weights))
        if kind is cp.MulExpression and node.args[0].ndim == node.args[1].ndim == 1:
            return self._product(node.args[0], node.args[1], weights)
        if kind in (Sum, cp.norm1) and node.is_scalar():
            return node.copy([self._weighed(node.args[0], weights)])
        if kind is cp.quad_over_lin and node.is_scalar() and not self._differs(node.args[1]):
            roots = None if weights is None else np.sqrt(weights)
            return node.copy([self._weighed(node.args[0], roots), node.args[1]])
        raise NotStackedError

    def _product(self, one: Any, other: Any, weights: np.ndarray | None) -> Any:
        """The weighed sum of inner products."""
        if self._differs(one) and self._differs(other):
            return self._rows(one) @ self._weighed(other, weights)
        vectors, same = (one, other) if self._differs(one) else (other, one)
        if id(vectors) not in self._values:
            raise NotStackedError
        each = np.ones(self._count) if weights is None else weights
        return sum(map(np.multiply, each, self._values[id(vectors)])) @ same

    def _weighed(self, node: Any, weights: np.ndarray | None) -> Any:
        """Stacked rows, those of each client times its number."""
        rows = self._rows(node)
        if weights is None:
            return rows
        each = np.repeat(weights, self._heights(node))
        return cp.multiply(each if rows.ndim == 1 else np.outer(each, np.ones(rows.shape[1])), rows)

    def _numbers(self, node: Any) -> np.ndarray:
        """A number of each client."""
        if not node.is_constant():
            raise NotStackedError
        if id(node) not in self._values:
            if type(node) not in ENTRYWISE:
                raise NotStackedError
            return np.broadcast_to(
                node.numeric([self._numbers(arg) for arg in node.args]), self._count
            )
        return np.array([float(np.asarray(one).item()) for one in self._values[id(node)]])

    def _heights(self, node: Any) -> list[int]:
        """The rows of each client."""
        if not node.args:
            return [np.shape(one)[0] for one in self._values[id(node)]]
        if type(node) is cp.MulExpression:
            return self._heights(node.args[0])
        return next(self._heights(arg) for arg in node.args if arg.ndim and self._differs(arg))

    def _rows(self, node: Any) -> Any:
        """The rows of all clients of a vector or a matrix."""
        kind = type(node)
        if not node.ndim or not self._differs(node):
            raise NotStackedError
        if id(node) in self._own:
            column = self._values[id(node)]
            is_sparse = sp.issparse(column[0])
            return cp.Constant(sp.vstack(column, "csr") if is_sparse else np.concatenate(column))
        if kind is cp.MulExpression and not self._differs(node.args[1]) and node.args[0].ndim == 2:
            return self._rows(node.args[0]) @ node.args[1]
        if isinstance(node, ENTRYWISE):
            return node.copy([self._entries(arg, node.shape) for arg in node.args])
        raise NotStackedError

    def _entries(self, node: Any, shape: tuple[int, ...]) -> Any:
        """The same of what is combined entry by entry: numbers that all have are repeated."""
        number = node.args[0] if type(node) is Promote else node
        if number.is_scalar() and not self._differs(number):
            return number
        if node.shape != shape:
            raise NotStackedError
        return self._rows(node)


def _are_one(column: Sequence[Any]) -> bool:
    """Whether a constant is the same of all clients."""
    first = column[0]
    return all(
        one is first or (not sp.issparse(first) and np.array_equal(one, first)) for one in column
    )
