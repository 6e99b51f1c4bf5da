"""Forms with smooth terms of each kind, and what cvxpy's atoms make of them."""

from collections.abc import Sequence
from typing import Any, cast

import cvxpy as cp
import numpy as np

from dald_model.compile.form import Form, Quadratic, Rows, Term
from dald_model.compile.kinds import KINDS, named
from dald_model.solvers.arrays.terms import Terms

ATOMS: dict[str, Any] = {
    "logistic": lambda u, bound: cp.logistic(u),
    "huber": lambda u, bound: cp.huber(u, bound) / 2,
    "cube": lambda u, bound: cp.power(cp.abs(u), 3),
    "reciprocal": lambda u, bound: cp.inv_pos(u),
    "quartic": lambda u, bound: cp.power(u, 4),
    "exp": lambda u, bound: cp.exp(u),
    "log": lambda u, bound: -cp.log(u),
    "entropy": lambda u, bound: -cp.entr(u),
    "hinge": lambda u, bound: cp.square(cp.pos(u)) / 2,
    "abs": lambda u, bound: cp.abs(u),
}


SMOOTH = [kind.name for kind in KINDS if kind.is_smooth and kind.name != "linear"]


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


def random_term(kind: str, rng: np.random.Generator, size: int = 4) -> Term:
    """Positive kinds have an inner point that is not zero."""
    matrix = rng.standard_normal((12, size))
    offset = rng.standard_normal(12)
    if named(kind).is_of_entries:  # of single variables: others are refused
        matrix = matrix * np.tile(np.eye(size), (12 // size, 1))
    if named(kind).is_positive:
        offset = 0.1 + rng.random(12) - matrix @ rng.standard_normal(size)
    return make_term(kind, matrix, offset, 0.5 + rng.random(4 if kind == "logsumexp" else 12))


def random_form(kind: str, rng: np.random.Generator, rest: str = "") -> Form:
    terms = [random_term(kind, rng)]
    rows = {}
    if rest == "abs":
        terms.append(make_term("abs", np.eye(4), rng.standard_normal(4), np.full(4, 0.5)))
    if rest == "rows":  # they hold at the same inner point as the domain
        solution = np.linalg.lstsq(terms[0].matrix, 1 - terms[0].offset, rcond=None)[0]
        inner = Terms([terms], 4).inner()[0] if named(kind).is_positive else solution
        rows = {
            "equalities": (np.ones((1, 4)), np.array([inner.sum()])),
            "inequalities": (np.eye(4), inner + 0.05),
        }
    return make_form(terms, quadratic=0.1 * np.diag(rng.random(4)), **rows)


def expression(term: Term, x: Any) -> Any:
    u = term.matrix @ x + term.offset
    if term.width == 1:
        return term.weight @ ATOMS[term.kind.name](u, BOUND)
    groups = [u[at : at + term.width] for at in range(0, len(term.offset), term.width)]
    atom = cp.log_sum_exp if term.kind.name == "logsumexp" else cp.norm2
    return sum(w * atom(group) for w, group in zip(term.weight, groups, strict=True))
