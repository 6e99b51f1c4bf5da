"""Parts of a problem in arrays: what may be divided entry by entry, and who depends on what.

A sum, a sum of squares or a sum of absolute values over an array is a sum over its entries, and a
comparison of arrays a comparison of entries: each may be another owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    INDEX,
    STACKED,
    AffAtom,
    DivExpression,
    Elementwise,
    Equality,
    Inequality,
    NegExpression,
    Promote,
    Sum,
)
from dald_model.declare.affine import affine_parts, explicit, operator_of
from dald_model.declare.client import summands
from dald_model.declare.picked import picked, places, selected

Build = Callable[[np.ndarray], Any]
"""Some entries -> the part of these alone."""


class Part(NamedTuple):
    """A summand of the objective or a constraint, of a problem in arrays.

    Attributes
    ----------
    whole : cp.Expression or cp.Constraint
        As it was written, or as a summand of it.
    array : cp.Expression or None
        Whose entries it may be divided by; None where it is one.
    build : callable
        The part of some of these entries.
    uses : csr_array, shape (entries, all entries of variables)
        What each of the entries depends on; of one that cannot be divided one row.
    """

    whole: Any
    array: Any
    build: Build
    uses: Any

    def of(self, entries: np.ndarray) -> Any:
        """The part of some entries; as it was written if these are all."""
        is_all = self.array is None or entries.size == self.uses.shape[0]
        return self.whole if is_all else self.build(entries)


class ArrayProblem:
    """A problem taken apart as far as entries can be told, or into whole summands and constraints.

    Attributes
    ----------
    variables : list of cp.Variable
    starts : dict
        Variable id -> where its entries lie among all.
    size : int
        The number of all entries.
    terms, rules : list of Part
    constants : list
        Summands and constraints without variables.
    """

    def __init__(self, problem: cp.Problem, *, whole: bool = False) -> None:
        self.problem, self._is_whole = problem, whole
        self.variables = problem.variables()
        stops = np.cumsum([v.size for v in self.variables])
        self.size = int(stops[-1]) if stops.size else 0
        self.starts = {
            v.id: int(stop) - v.size for v, stop in zip(self.variables, stops, strict=True)
        }
        self._labels = {v.id: self.starts[v.id] + np.arange(v.size) for v in self.variables}
        goals = summands(problem.objective.args[0])
        stated = [*goals, *problem.constraints]
        self.constants = [one for one in stated if not one.variables()]
        self.terms = [
            part for one in goals if one.variables() for part in self._separated(one, one)
        ]
        self.rules = [self._of_rule(one) for one in problem.constraints if one.variables()]

    @property
    def parts(self) -> list[Part]:
        """Both."""
        return [*self.terms, *self.rules]

    def picked(self, entries: np.ndarray) -> Iterator[Any]:
        """Some of all entries, as an expression of each variable."""
        for v in self.variables:
            start = self.starts[v.id]
            mine = entries[(entries >= start) & (entries < start + v.size)] - start
            if mine.size:
                yield v if mine.size == v.size else picked(v, mine)

    def _separated(self, term: Any, whole: Any) -> Iterator[Part]:
        """A scalar expression as sums over arrays."""
        if self._is_whole:
            yield self._part(whole, None, lambda _: whole)
            return
        if isinstance(term, NegExpression):
            yield from (
                _mapped(part, lambda x: -x) for part in self._separated(term.args[0], term.args[0])
            )
            return
        if isinstance(term, cp.multiply | cp.MulExpression | DivExpression) and all(
            arg.is_scalar() for arg in term.args
        ):
            at = next((k for k, arg in enumerate(term.args) if arg.is_constant()), None)
            if at is not None and not (isinstance(term, DivExpression) and at == 0):
                inner = term.args[1 - at]
                weighed = _weighed(term, at)
                yield from (_mapped(part, weighed) for part in self._separated(inner, inner))
                return
        inner = term.args[0] if term.args else None
        if isinstance(term, Sum) and term.is_scalar():
            if isinstance(inner, cp.AddExpression) and all(
                arg.shape == inner.shape for arg in inner.args
            ):
                for arg in inner.args:
                    if arg.variables():
                        yield from self._separated(cp.sum(arg), cp.sum(arg))
                    else:
                        self.constants.append(cp.sum(arg))
                return
            yield self._part(whole, inner, lambda at: cp.sum(picked(inner, at)))
        elif isinstance(term, cp.quad_over_lin) and term.args[1].is_constant() and term.is_scalar():
            yield self._part(whole, inner, lambda at: term.copy([picked(inner, at), term.args[1]]))
        elif isinstance(term, cp.norm1) and term.is_scalar():
            yield self._part(whole, inner, lambda at: cp.norm1(picked(inner, at)))
        elif term.is_affine() and not term.parameters() and len(term.args) > 0:
            yield from self._of_affine(term)
        else:
            yield self._part(whole, None, lambda _: whole)

    def _of_affine(self, term: Any) -> Iterator[Part]:
        """A linear function by its entries."""
        coefficients, offset = affine_parts(term)
        if offset.any():
            self.constants.append(cp.Constant(float(offset.sum())))
        for v in term.variables():
            if v.id in coefficients:
                row = sp.csr_array(explicit(coefficients[v.id], v.size)).toarray().reshape(-1)
                scaled = cp.multiply(row.reshape(v.shape, order="F"), v)
                yield self._part(
                    cp.sum(scaled), scaled, lambda at, row=row, v=v: row[at] @ picked(v, at)
                )

    def _of_rule(self, rule: cp.Constraint) -> Part:
        is_divisible = isinstance(rule, Inequality | Equality) and rule.expr.size > 1
        if self._is_whole or not is_divisible:
            return self._part(rule, None, lambda _: rule)
        sides, shape, is_equal = rule.args, rule.expr.shape, isinstance(rule, Equality)

        def build(at: np.ndarray) -> cp.Constraint:
            left, right = (
                side
                if side.is_scalar()
                else picked(
                    side, np.broadcast_to(places(side.shape), shape).reshape(-1, order="F")[at]
                )
                for side in sides
            )
            return left == right if is_equal else left <= right

        return self._part(rule, rule.expr, build)

    def _part(self, whole: Any, array: Any, build: Build) -> Part:
        if array is not None and array.size > 1:
            uses = dependence(array, self._labels, self.size)
        else:
            array = None
            found = [self._labels[v.id] for v in whole.variables()]
            if not self._is_whole:
                its = _expressions(whole)
                found = [dependence(one, self._labels, self.size).indices for one in its]
            used = np.unique(np.concatenate(found))
            uses = sp.csr_array((np.ones(used.size), used, [0, used.size]), (1, self.size))
        return Part(whole, array, build, uses)


def _expressions(part: Any) -> Sequence[Any]:
    return part.args if isinstance(part, cp.Constraint) else [part]


def _mapped(part: Part, change: Callable[[Any], Any]) -> Part:
    return part._replace(whole=change(part.whole), build=lambda at: change(part.build(at)))


def _weighed(term: Any, at: int) -> Callable[[Any], Any]:
    """What multiplies another as the term's constant does."""
    constant = term.args[at]
    return lambda x: x / constant if isinstance(term, DivExpression) else constant * x


def dependence(node: Any, labels: Mapping[int, np.ndarray], count: int) -> sp.csr_array:
    """Which of so many labels each entry of an expression depends on, column-major.

    Parameters
    ----------
    node : cp.Expression
    labels : dict
        Variable id -> the label of each of its entries, flat.
    count : int
        How many labels there are.

    Returns
    -------
    csr_array, shape (node.size, count)
        Not zero where an entry depends on a label.
    """
    if isinstance(node, cp.Variable):
        own = labels[node.id]
        data = np.ones(own.size), own, np.arange(own.size + 1)
        return sp.csr_array(data, shape=(own.size, count))
    if not node.variables():
        return sp.csr_array((node.size, count))
    parts = [dependence(arg, labels, count) for arg in node.args]
    if isinstance(node, INDEX):
        return sp.csr_array(parts[0][selected(node).reshape(-1, order="F")])
    if isinstance(node, Elementwise | cp.AddExpression | cp.multiply | Promote | cp.broadcast_to):
        return _sum(
            [p[_repeated(a.shape, node.shape)] for p, a in zip(parts, node.args, strict=True)]
        )
    if isinstance(node, (*STACKED, cp.reshape, cp.transpose)):
        stops = np.cumsum([arg.size for arg in node.args])
        starts = [int(stop) - arg.size for arg, stop in zip(node.args, stops, strict=True)]
        each = [places(arg.shape) + at for arg, at in zip(node.args, starts, strict=True)]
        taken = np.asarray(node.numeric(each)).reshape(-1, order="F").astype(int)
        return sp.csr_array(sp.csr_array(sp.vstack(parts))[taken])
    axis = getattr(node, "axis", None)
    if axis is not None and len(node.args) == 1 and node.shape != node.args[0].shape:
        whole = places(node.shape)
        whole = whole if node.keepdims else np.expand_dims(whole, axis)
        its = np.broadcast_to(whole, node.args[0].shape).reshape(-1, order="F")
        each = np.arange(its.size)
        return sp.csr_array((np.ones(its.size), (its, each)), (node.size, its.size)) @ parts[0]
    fixed = [arg.is_constant() for arg in node.args]
    is_known = not any(arg.parameters() for arg, held in zip(node.args, fixed, strict=True) if held)
    if isinstance(node, AffAtom) and not isinstance(node, Sum) and is_known and not all(fixed):
        free = [part for part, held in zip(parts, fixed, strict=True) if not held]
        if free and (any(fixed) or not isinstance(node, cp.MulExpression)):
            blocks = operator_of(node, fixed)[0]
            return _sum([abs(b) @ part for b, part in zip(blocks, free, strict=True)])
    any_of = sp.csr_array(_sum([sp.csr_array(part.sum(axis=0).reshape(1, -1)) for part in parts]))
    return sp.csr_array(np.ones((node.size, 1))) @ any_of


def _repeated(shape: tuple[int, ...], to: tuple[int, ...]) -> np.ndarray:
    """Of each entry of a shape, the place in one that is repeated to it."""
    return np.broadcast_to(places(shape), to).reshape(-1, order="F")


def _sum(parts: list[Any]) -> sp.csr_array:
    return sp.csr_array(sum(parts[1:], parts[0]))
