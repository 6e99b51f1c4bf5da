"""The solver layer: one file a way to solve a subproblem."""

if __name__ == "solvers":
    raise ImportError("import dald_model.solvers, not solvers: a second copy of every class")

from dald_model.solvers.active_set import ActiveSet
from dald_model.solvers.auto import NAMED, Choice
from dald_model.solvers.average import Average
from dald_model.solvers.base import Answers, Session, Solver, Turn
from dald_model.solvers.conic import Conic
from dald_model.solvers.direct import Direct
from dald_model.solvers.factor import Factor
from dald_model.solvers.local import GradientSteps, NewtonSteps, ProximalGradientSteps
from dald_model.solvers.newton import Newton
from dald_model.solvers.operators import Prox
from dald_model.solvers.polyhedral import Polyhedral
from dald_model.solvers.proximal import Proximal
from dald_model.solvers.reference import Reference
from dald_model.solvers.shrink import Shrink
from dald_model.solvers.smooth import Smooth
from dald_model.solvers.step import Step, StepMethod

__all__ = [
    "NAMED",
    "ActiveSet",
    "Answers",
    "Average",
    "Choice",
    "Conic",
    "Direct",
    "Factor",
    "GradientSteps",
    "Newton",
    "NewtonSteps",
    "Polyhedral",
    "Prox",
    "Proximal",
    "ProximalGradientSteps",
    "Reference",
    "Session",
    "Shrink",
    "Smooth",
    "Solver",
    "Step",
    "StepMethod",
    "Turn",
]
