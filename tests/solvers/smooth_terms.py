"""Forms with smooth terms of each kind, and what cvxpy's atoms make of them."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from dald_model.compile.form import Form, Quadratic, Rows, Term
from dald_model.compile.kinds import named

BOUND = 0.7


def make_form(
    terms: Sequence[Term],
    *,
    quadratic: np.ndarray | None = None,
    equalities: tuple[np.ndarray, np.ndarray] | None = None,
    inequalities: tuple[np.ndarray, np.ndarray] | None = None,
    complete: bool = True,
) -> Form:
    size = terms[0].matrix.shape[1]
    none = (np.zeros((0, size)), np.zeros(0))
    return Form(
        size,
        Quadratic(np.zeros((size, size)) if quadratic is None else quadratic, np.zeros(size), 0.5),
        Rows(*(equalities or none)),
        Rows(*(inequalities or none)),
        tuple(terms),
        complete,
        lambda: cast(Any, None),  # no test asks for the cone program
    )


def make_term(kind: str, matrix: Any, offset: Any = None, weight: Any = None) -> Term:
    width = 3 if kind in ("logsumexp", "norm") else 1
    count = matrix.shape[0] // width
    return Term(
        named(kind),
        np.ones(count) if weight is None else weight,
        matrix,
        np.zeros(matrix.shape[0]) if offset is None else offset,
        np.full(count, BOUND if kind == "huber" else 0.0),
        width,
    )
