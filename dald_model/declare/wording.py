"""Expressions, constraints and variables in a line of text, as a user would type them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import STACKED, DivExpression, NegExpression
from dald_model.values import flat

SUM, PRODUCT, ATOM = range(3)
"""How tightly a text binds: a sum, a product, what needs no brackets."""

NAMES = {
    "GeoMean": "geo_mean",
    "MatrixFrac": "matrix_frac",
    "Pnorm": "norm",
    "Power": "power",
    "QuadForm": "quad_form",
    "Sum": "sum",
    "Trace": "trace",
}
"""Classes of cvxpy -> the functions that users call, where the names differ."""
FEW = 4
"""The most entries of data that are printed as numbers."""
STRETCHED = ("Promote", "broadcast_to")
"""What cvxpy puts around numbers that meet vectors."""


def short(part: Any, width: int = 60) -> str:
    """The text of an expression, objective or constraint on one line, cut to ``width``.

    Data of more than a few entries are named by their shapes.
    """
    known = cp.Expression | cp.Constraint | cp.Minimize | cp.Maximize
    text = Wording(data=_few).of(part) if isinstance(part, known) else " ".join(str(part).split())
    return text if len(text) <= width else text[: width - 3] + "..."


def sized(variable: cp.Variable, name: str = "") -> str:
    """A variable's name with its shape, ``x[3]``; or another name."""
    return (name or variable.name()) + _shape(variable.shape)


def symbolic(part: Any, called: Mapping[int, str] = MappingProxyType({})) -> str:
    """A cvxpy expression or constraint with its data named by their shapes: ``[50x11] @ x``.

    ``called`` says by their ids what variables are called instead of their names.
    """
    return Wording(called, lambda data: _shape(data.shape)).of(part)


class Wording:
    """The text of cvxpy's trees, without defaults and stretched numbers that no user wrote.

    Signs, sums of squares and brackets are ours; what else there is says its own ``name()``, asked
    of a copy whose arguments say what stands here for them.

    Parameters
    ----------
    called : dict
        Id of a variable -> what it is called, where that is not its name.
    data : callable
        A constant with more than one entry -> its text; by default its numbers.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x = cp.Variable(3, name="x")
    >>> print(Wording().of(cp.sum_squares(x - 1) + cp.norm(x) <= 2 * cp.sum(x)))
    sum_squares(x + -1.0) + norm(x, 2) <= 2.0 * sum(x)
    """

    def __init__(
        self,
        called: Mapping[int, str] = MappingProxyType({}),
        data: Callable[[cp.Constant], str] = str,
    ) -> None:
        self._called, self._data = called, data

    def of(self, part: Any) -> str:
        """The text of an expression or a constraint, on one line."""
        if isinstance(part, cp.Constraint):  # `X >> 0` is `X - 0 >> 0` to cvxpy
            return self._own(part).replace(" + -0.0 >> 0", " >> 0")
        if isinstance(part, cp.Minimize | cp.Maximize):
            return f"{part.NAME} {self.of(part.expr)}"
        return self._written(part)[0]

    def _written(self, part: Any) -> tuple[str, int]:
        """The text, and how tightly it binds."""
        if isinstance(part, cp.Variable):
            return self._called.get(part.id) or part.name(), ATOM
        if isinstance(part, cp.Constant):
            return self._constant(part), ATOM
        if not part.args:
            return part.name(), ATOM
        kind = type(part).__name__
        is_reshaped = kind == "reshape" and part.size > 1 and part.shape != part.args[0].shape
        if kind in STRETCHED or (kind == "reshape" and not is_reshaped):
            return self._written(part.args[0])
        if isinstance(part, cp.AddExpression):
            return self._sum(part.args), SUM
        if isinstance(part, NegExpression):
            return f"-{self._within(part.args[0], PRODUCT)}", SUM
        if isinstance(part, cp.multiply) and not any(map(_is_number, part.args)):
            return f"multiply({', '.join(map(self.of, part.args))})", ATOM
        if isinstance(part, cp.MulExpression | cp.multiply | DivExpression):
            left, right = part.args
            said = f"{self._within(left, PRODUCT)} {part.OP_NAME} {self._within(right, ATOM)}"
            return said, PRODUCT
        if isinstance(part, STACKED):
            name = type(part).__name__.lower()
            return f"{name}([{', '.join(map(self.of, part.args))}])", ATOM
        if isinstance(part, cp.quad_over_lin) and part.args[1].is_constant():
            by = self._written(part.args[1])
            if by[0] in ("1", "1.0"):
                return f"sum_squares({self.of(part.args[0])})", ATOM
        return self._own(part), ATOM

    def _constant(self, part: cp.Constant) -> str:
        if part.size != 1:
            return " ".join(self._data(part).split())
        if part.is_complex():
            return str(part.value)
        return str(flat(part.value)[0].item())

    def _sum(self, terms: list[Any]) -> str:
        """Terms with their minus signs; a number keeps its own, so alike clients read alike."""
        said = self.of(terms[0])
        for term in terms[1:]:
            text = self.of(term)
            minus = isinstance(term, NegExpression)
            said += f" - {text.removeprefix('-')}" if minus else f" + {text}"
        return said

    def _within(self, part: Any, least: int) -> str:
        """A text in brackets where it binds less than it has to."""
        text, binds = self._written(part)
        return text if binds >= least else f"({text})"

    def _own(self, part: Any) -> str:
        """What cvxpy calls it, with our texts for its arguments, and without defaults."""
        kind = type(part).__name__
        asked = object.__new__(type(part))  # as cvxpy copies some from their arguments alone
        vars(asked).update(vars(part))
        is_indexed = kind in ("index", "special_index", "transpose")
        least = ATOM if is_indexed else SUM
        if kind == "special_index" and not isinstance(part.key, tuple):
            key = np.asarray(part.key)
            chosen = f"{part.size} entries" if key.size > FEW else key.tolist()
            return f"{self._within(part.args[0], ATOM)}[{chosen}]"
        asked.args = [Said(self._within(arg, least)) for arg in part.args]
        text = str(asked)
        public = NAMES.get(kind.removesuffix("Approx"), kind.removesuffix("Approx"))
        if text.startswith(f"{kind}("):
            text = public + text.removeprefix(kind)
        axis, keeps = getattr(part, "axis", None), getattr(part, "keepdims", False)
        given = f", axis={axis}" * (axis is not None) + ", keepdims=True" * bool(keeps)
        last = f", {axis}, {keeps})"
        return f"{text.removesuffix(last)}{given})" if text.endswith(last) else text


class Said:
    """An argument that is asked for its name alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def name(self) -> str:
        """The text."""
        return self._text

    __str__ = name


def _few(data: cp.Constant) -> str:
    return str(data) if data.size <= FEW else _shape(data.shape)


def _is_number(part: Any) -> bool:
    """Whether it is a scalar, stretched or not."""
    return part.is_scalar() or (type(part).__name__ in STRETCHED and part.args[0].is_scalar())


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{'x'.join(map(str, shape))}]" if shape else ""
