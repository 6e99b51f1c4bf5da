"""Parts of a problem in arrays: what may be divided entry by entry, and who depends on what.

A sum, a sum of squares or a sum of absolute values over an array is a sum over its entries, and a
comparison of arrays a comparison of entries: each may be another owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import DivExpression, Equality, Inequality, NegExpression, Sum
from dald_model.declare.affine import affine_parts, explicit
from dald_model.declare.client import summands
from dald_model.declare.dependence import dependence
from dald_model.declare.entries import places
from dald_model.declare.picked import picked

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
    """A problem taken apart as far as entries can be told.

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

    def __init__(self, problem: cp.Problem) -> None:
        self.problem = problem
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
        if not isinstance(rule, Inequality | Equality) or rule.expr.size < 2:
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
            used = np.unique(
                np.concatenate(
                    [
                        dependence(one, self._labels, self.size).indices
                        for one in _expressions(whole)
                    ]
                )
            )
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
