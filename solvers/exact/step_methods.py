"""Choice of a step method: the first that takes the rows and the nonsmooth terms of the clients."""

from __future__ import annotations

from collections.abc import Sequence

from dald_model.compile.form import Form
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.exact.dual_box import DualBoxQP
from dald_model.solvers.exact.quadratic_step import StepMethod
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton

METHODS: tuple[type[StepMethod], ...] = (Factor, ActiveSet, DualBoxQP, SemismoothNewton)
"""In this order: a factor is cheaper than rows, and rows than terms."""


def refusal(form: Form) -> str:
    """The reasons of all step methods; empty if one takes the form."""
    reasons = [method.refuses(form) for method in METHODS]
    return "" if "" in reasons else "; ".join(dict.fromkeys(reasons))


def step_method(forms: Sequence[Form]) -> type[StepMethod]:
    """The first method that takes all forms, of which each was not refused by :func:`refusal`."""
    for method in METHODS:
        if not any(method.refuses(form) for form in forms):
            return method
    raise ValueError("no step method takes all of these clients")
