"""Expressions, constraints and variables in a line of text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import cvxpy as cp


def short(part: Any, width: int = 60) -> str:
    """The text of an expression, objective or constraint on one line, cut to ``width``."""
    text = _as_written(" ".join(str(part).split()))
    return text if len(text) <= width else text[: width - 3] + "..."


def sized(variable: cp.Variable, name: str = "") -> str:
    """A variable's name with its shape, ``x[3]``; or another name."""
    shape = "x".join(map(str, variable.shape))
    return (name or variable.name()) + (f"[{shape}]" if shape else "")


def symbolic(part: Any, called: Mapping[int, str] = MappingProxyType({})) -> str:
    """A cvxpy expression or constraint with its data named by their shapes: ``[50x11] @ x``.

    ``called`` says by their ids what variables are called instead of their names.
    """
    data = [c for c in part.constants() if c.size > 1]
    names = {id(c): cp.Parameter(c.shape, name=f"[{'x'.join(map(str, c.shape))}]") for c in data}
    if called:
        others = [v for v in part.variables() if v.id in called]
        names |= {id(v): cp.Variable(v.shape, name=called[v.id]) for v in others}
    try:
        named = part.tree_copy(names)
    except (ValueError, TypeError, NotImplementedError):
        named = part  # an atom that wants its data as numbers, such as quad_form
    return _as_written(" ".join(str(named).split()))


def _as_written(text: str) -> str:
    """What cvxpy prints, without what a user did not write: defaults and stretched scalars.

    >>> _as_written("quad_over_lin([9x2] @ w + Promote(c, (9,)), 1.0, None, False)")
    'sum_squares([9x2] @ w + c)'
    """
    text = text.replace(", None, False)", ")")
    text = re.sub(r"\b(Sum|Hstack|Vstack)\(", lambda found: found[0].lower(), text)
    text = re.sub(r"\breshape\(([^(),]+), \(1,\), F\)", r"\1", text)
    text = re.sub(r"\bPromote\(([^()\s]+), \(\d+(?:, \d+)*,?\)\)", r"\1", text)
    inside = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"  # parentheses, three deep
    return re.sub(rf"\bquad_over_lin\(({inside}), 1\.0\)", r"sum_squares(\1)", text)
