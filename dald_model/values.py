"""Values of cvxpy objects as plain numbers, and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

BYTES = 8
"""Of one number that is sent."""

REFUSALS = (
    AssertionError,
    AttributeError,
    NotImplementedError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
    cp.SolverError,
)
"""What cvxpy raises where it cannot compute a value or a gradient: of a perspective at the edge of
its domain, of a matrix that is not symmetric, of a sum of which a summand has no gradient."""


def flat(value: Any) -> np.ndarray:
    """A cvxpy value, dense or sparse, as a column-major vector of floats."""
    known: Any = value
    if type(known) is np.ndarray and known.dtype == float:  # as most are
        return known.reshape(-1, order="F")
    dense = value.toarray() if sp.issparse(value) else value
    return np.asarray(dense, dtype=float).reshape(-1, order="F")


def number(value: Any) -> float:
    """A scalar cvxpy value as a float; NaN where cvxpy has none."""
    return float("nan") if value is None else float(np.real(flat(value)[0]))


def evaluated(expression: cp.Expression) -> float:
    """The value of a scalar expression; NaN where cvxpy has none or refuses to compute it."""
    try:
        return number(expression.value)
    except REFUSALS:
        return float("nan")


def entries(expression: cp.Expression) -> np.ndarray:
    """The entries of an expression's value, flat; NaN where cvxpy has none or refuses."""
    try:
        value = expression.value
    except REFUSALS:
        value = None
    return np.full(expression.size, np.nan) if value is None else flat(value)


def violated(rule: cp.Constraint) -> np.ndarray:
    """By how much a constraint is violated, flat; NaN where cvxpy refuses to say."""
    try:
        return flat(rule.violation())
    except REFUSALS:
        return np.array([np.nan])


def is_inside(domain: Iterable[cp.Constraint]) -> bool:
    """Whether the present values are in a domain."""
    with np.errstate(all="ignore"):
        return all(bool((violated(rule) <= 0).all()) for rule in domain)


def largest(value: Any) -> float:
    """The largest absolute entry of a value; 0 of an empty one."""
    return float(np.abs(flat(value)).max(initial=0.0))


def is_panic(error: BaseException) -> bool:
    """Whether a solver written in Rust, as Clarabel is, gave up: by no :class:`Exception`."""
    return type(error).__name__ == "PanicException"


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a solver's panic as what cvxpy raises where one fails."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise cp.SolverError(f"the solver panicked ({error})") from error


class _Turn(local):
    """How often this thread is in its turn."""

    depth = 0


_turns, _mine = Lock(), _Turn()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """What reads or sets values of variables, or has cvxpy compile: threads take turns.

    A variable has one value, in whatever model it stands, and of cvxpy and of Python's list of
    warnings to ignore there is one in a process. A thread that is in it may enter it again.
    """
    if not _mine.depth:
        _turns.acquire()
    _mine.depth += 1
    try:
        yield
    finally:
        _mine.depth -= 1
        if not _mine.depth:
            _turns.release()


@contextmanager
def others_turn() -> Iterator[None]:
    """Give other threads the turn meanwhile: this one waits, perhaps for one of them."""
    if not _mine.depth:
        yield
        return
    _turns.release()
    try:
        yield
    finally:
        _turns.acquire()


def _renew() -> None:
    """Forget, in a forked process, a thread of the parent that was in it and is not here."""
    global _turns
    _turns = Lock()
    if _mine.depth:
        _turns.acquire()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def preserved(variables: Iterable[cp.Variable]) -> Iterator[None]:
    """Give variables (also dual variables) their values back afterwards."""
    with warnings.catch_warnings():
        # cvxpy warns of reading what was declared sparse; it is only put back
        warnings.simplefilter("ignore", RuntimeWarning)
        kept = [(v, v.value) for v in variables]
    try:
        yield
    finally:
        for v, value in kept:
            v.save_value(value)


@contextmanager
def undisturbed(variables: Iterable[cp.Variable]) -> Iterator[None]:
    """Set values of variables, which have their own back afterwards, and evaluate in silence."""
    known = {v.id: v for v in variables}
    with preserved(known.values()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@contextmanager
def holding(values: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """Give variables or Parameters these values, and their own back afterwards."""
    pairs = list(values)
    with preserved([leaf for leaf, _ in pairs]):
        for leaf, value in pairs:
            leaf.save_value(value)
        yield


@contextmanager
def unset(variables: Iterable[cp.Variable]) -> Iterator[None]:
    """Take the values of variables away, and give them back afterwards."""
    with holding((v, None) for v in variables):
        yield
