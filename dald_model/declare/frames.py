"""Frames of pandas that a client's function is given: they meet cvxpy's expressions as arrays do.

``frame @ w`` and ``series - expression`` are pandas' own products and differences, entry by entry,
which know no expressions; ``expression - series`` is cvxpy's. So a client's function is given
frames of classes of their own, which leave arithmetic with an expression to cvxpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import cvxpy as cp

from dald_model.lazy_imports import pd

if TYPE_CHECKING:
    from pandas import DataFrame, Series

OPERATORS = ("add", "sub", "mul", "truediv", "matmul", "le", "ge", "eq")


def met_by_cvxpy(own: Any) -> Any:
    """A client's data, where frames and series meet cvxpy's expressions as arrays do.

    Others, and what lies deeper than one list, tuple or dict, are left as they are.
    """
    if isinstance(own, tuple | list) and type(own) in (tuple, list):
        return type(own)(map(_met, own))
    if type(own) is dict:
        return {key: _met(value) for key, value in own.items()}
    return _met(own)


def _met(own: Any) -> Any:
    kind = type(own)
    if kind.__module__.partition(".")[0] != "pandas":  # pandas is not imported for this
        return own
    frame, series = _classes()
    if kind is pd.DataFrame:
        return frame(own)
    return series(own) if kind is pd.Series else own


def _operation(name: str, pandas: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    # A series times an expression is meant entry by entry, which cvxpy writes as a function
    by_arrays = cp.multiply if name == "mul" else getattr(operator, name)

    def operation(self: Any, other: Any) -> Any:
        if isinstance(other, cp.Expression):
            return by_arrays(cp.Constant(self.to_numpy()), other)
        return pandas(self, other)

    return operation


@cache
def _classes() -> tuple[type[DataFrame], type[Series]]:
    """Subclasses of both, made when pandas is there; what is taken out of them is of them, too."""

    class Frame(pd.DataFrame):
        @property
        def _constructor(self) -> Any:
            return Frame

        @property
        def _constructor_sliced(self) -> Any:
            return Column

    class Column(pd.Series):
        @property
        def _constructor(self) -> Any:
            return Column

        @property
        def _constructor_expanddim(self) -> Any:
            return Frame

    for kind in (Frame, Column):
        for name in OPERATORS:
            setattr(kind, f"__{name}__", _operation(name, getattr(kind, f"__{name}__")))
        kind.__hash__ = None  # pyright: ignore[reportAttributeAccessIssue] - as pandas' own
    return Frame, Column
