"""The solver layer: one file a way to solve a subproblem."""

if __name__ == "solvers":
    raise ImportError("import dald_model.solvers, not solvers: a second copy of every class")

from dald_model.solvers.average import Average
from dald_model.solvers.base import Answer, Request, Solver
from dald_model.solvers.reference import Reference

__all__ = ["Answer", "Average", "Reference", "Request", "Solver"]
