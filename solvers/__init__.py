"""The solver layer: one file a way to solve a subproblem."""

import warnings
from typing import Any

if __name__ == "solvers":
    raise ImportError("import dald_model.solvers, not solvers: a second copy of every class")

from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.registry import NAMED, Choice
from dald_model.solvers.exact.average import Average
from dald_model.solvers.base import Answers, Encoding, Multipliers, Session, Solver, Turn
from dald_model.solvers.exact.conic import Conic
from dald_model.solvers.exact.direct import Direct
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.inexact.local import GradientSteps, NewtonSteps, ProximalGradientSteps
from dald_model.solvers.exact.direct import Newton
from dald_model.solvers.exact.nonlinear import Nonlinear
from dald_model.solvers.prox.operators import Prox
from dald_model.solvers.exact.reference import Reference
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton
from dald_model.solvers.arrays.smooth import Smooth
from dald_model.solvers.exact.quadratic_step import Step, StepMethod

__all__ = [
    "NAMED",
    "ActiveSet",
    "Answers",
    "Average",
    "Choice",
    "Conic",
    "Direct",
    "Encoding",
    "Factor",
    "GradientSteps",
    "Multipliers",
    "Newton",
    "NewtonSteps",
    "Nonlinear",
    "Prox",
    "ProximalGradientSteps",
    "Reference",
    "SemismoothNewton",
    "Session",
    "Smooth",
    "Solver",
    "Step",
    "StepMethod",
    "Turn",
]

_REPLACED = {"Polyhedral": Conic, "Shrink": SemismoothNewton, "DualBoxQP": SemismoothNewton}
"""What is gone -> what does what it did."""


def __getattr__(name: str) -> Any:
    """A class that another one has replaced."""
    if name not in _REPLACED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = _REPLACED[name]
    text = f"dm.solvers.{name} is dm.solvers.{found.__name__} by now, which does what it did"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return found
