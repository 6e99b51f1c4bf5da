"""Which numbers of the clients' forms a program is made of, to be read again of other forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from dald_model.compile.form import Form, Term
from dald_model.compile.stacked_forms import Batch

Read = Callable[[Form], Any]
"""What is taken of a form."""
Source = tuple[int, Read] | tuple[None, Any]
"""Of which of the forms, and what is taken of it; or what is of many that stay as they are."""
MATRIX, ROOT = attrgetter("quadratic.matrix"), attrgetter("quadratic.root")
LINEAR, CONSTANT = attrgetter("quadratic.linear"), attrgetter("quadratic.constant")
EQUALITIES, INEQUALITIES = attrgetter("equalities.rhs"), attrgetter("inequalities.rhs")
CONES = tuple(attrgetter(f"cone.{name}") for name in ("matrix", "linear", "constant"))


@dataclass
class Numbers:
    """The sources of a program, in the order in which it has them.

    Attributes
    ----------
    names : list
        Whose forms are read one by one.
    is_read : ndarray of bool
        Of which of these their own terms are taken, else their cone programs.
    batches : list
        The others, which have no Parameter of the user's.
    linear, constants, quadratics, roots : list
        Of the objective.
    rights, weights : dict
        Right sides by the key of their rows, and weights of the heads there.
    smooth : dict
        Terms by kind and width.
    is_whole : bool
        Whether nothing of them was replaced by other numbers.
    columns : ndarray
        Of which variables ``linear`` is.
    """

    names: list[Any] = field(default_factory=list)
    is_read: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    batches: list[Batch] = field(default_factory=list)
    linear: list[Source] = field(default_factory=list)
    constants: list[Source] = field(default_factory=list)
    quadratics: list[Source] = field(default_factory=list)
    roots: list[Source] = field(default_factory=list)
    rights: dict[Any, list[Source]] = field(default_factory=dict)
    weights: dict[Any, list[Source]] = field(default_factory=dict)
    smooth: dict[Any, list[Source]] = field(default_factory=dict)
    is_whole: bool = True
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    def are_of(self, forms: Sequence[Form], before: Sequence[Form]) -> bool:
        """Whether forms differ from others, that the program was made of, in these alone."""
        return self.is_whole and all(map(_differ_in_numbers, forms, before, self.is_read.tolist()))


def taken(forms: Sequence[Form], sources: Sequence[Source]) -> list[Any]:
    """What is taken of these forms."""
    return [read if at is None else read(forms[at]) for at, read in sources]


def whole_term(at: int) -> Read:
    """A term itself."""
    return partial(_whole_term, at)


def of_term(at: int, name: str) -> Read:
    """What a term has."""
    return partial(_of_term, at, name)


def of_ball(at: int) -> Read:
    """Radius and offset of each ball of a term, one after the other."""
    return partial(_of_ball, at)


def of_cone(part: slice) -> Read:
    """Right sides of a cone program."""
    return partial(_of_cone, part)


def _whole_term(at: int, form: Form) -> Term:
    return form.terms[at]


def _of_term(at: int, name: str, form: Form) -> np.ndarray:
    return getattr(form.terms[at], name)


def _of_ball(at: int, form: Form) -> np.ndarray:
    term = form.terms[at]
    return np.column_stack([term.parameter, term.offset.reshape(-1, term.width)]).ravel()


def _of_cone(part: slice, form: Form) -> np.ndarray:
    return form.cone.rhs[part]


def _differ_in_numbers(one: Form, two: Form, is_read: bool) -> bool:
    """Whether no row differs, and costs in numbers alone."""
    if one is two:
        return True
    if not is_read:
        now, then = one.cone, two.cone
        is_same = now.rows is then.rows and now.cones == then.cones
        return is_same and bool(now.matrix.nnz) == bool(then.matrix.nnz)
    root, before = one.quadratic.root, two.quadratic.root
    return (
        one.complete == two.complete
        and one.valued == two.valued
        and one.equalities.matrix is two.equalities.matrix
        and one.inequalities.matrix is two.inequalities.matrix
        and (root is before or (root is not None and before is not None))
        and (root is None or bool(root.shape[0]) == bool(before.shape[0]))
        and (one.terms is two.terms or _are_alike(one.terms, two.terms))
    )


def _are_alike(terms: Sequence[Term], others: Sequence[Term]) -> bool:
    pairs = zip(terms, others, strict=False)
    return len(terms) == len(others) and all(
        one.matrix is two.matrix and one.kind is two.kind and one.weight.size == two.weight.size
        for one, two in pairs
    )
