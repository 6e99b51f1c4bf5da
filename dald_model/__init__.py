"""A declarative modelling layer on cvxpy for problems with many owners.

Declare each client's objective and constraints and the consensus between them, solve by
distributed augmented-Lagrangian decomposition (Fed-DALD), and verify against the all-in-one solve.
"""

from importlib import import_module
from typing import Any

import cvxpy as cp

__version__ = "0.2.0"

_HOMES = {  # in reading order: declare, compile, coordinate, answer
    "Model": "dald_model.model",
    "Site": "dald_model.site",
    "Federation": "dald_model.federation",
    "Peer": "dald_model.peer",
    "Client": "dald_model.declare.client",
    "Edge": "dald_model.declare.consensus",
    "Coupling": "dald_model.declare.couplings",
    "decompose": "dald_model.decomposing",
    "from_matrices": "dald_model.matrices",
    "from_linopy": "dald_model.other_tools",
    "from_mps": "dald_model.other_tools",
    "Compiled": "dald_model.compiled",
    "Subproblem": "dald_model.compile.subproblem",
    "Portable": "dald_model.engines.portable",
    "pack": "dald_model.engines.portable",
    "unpack": "dald_model.engines.portable",
    "HierarchicalNetwork": "dald_model.schedule.network",
    "Sequence": "dald_model.schedule.sequence",
    "Moment": "dald_model.schedule.round_state",
    "Change": "dald_model.schedule.changes",
    "Dropout": "dald_model.schedule.changes",
    "Stragglers": "dald_model.schedule.changes",
    "LossyLinks": "dald_model.schedule.changes",
    "Unanswered": "dald_model.schedule.changes",
    "DALD": "dald_model.algorithms.dald",
    "ConsensusADMM": "dald_model.algorithms.block_coordinate",
    "ProximalPoint": "dald_model.algorithms.proximal",
    "GradientDescent": "dald_model.algorithms.gradient",
    "InteriorPoint": "dald_model.algorithms.interior_point",
    "NewtonMethod": "dald_model.algorithms.newton",
    "MiniBatchGradientDescent": "dald_model.algorithms.gradient",
    "StochasticGradientDescent": "dald_model.algorithms.gradient",
    "StochasticNewton": "dald_model.algorithms.newton",
    "DistributedProximal": "dald_model.algorithms.proximal",
    "FedProx": "dald_model.algorithms.federated",
    "FedAvg": "dald_model.algorithms.federated",
    "DGD": "dald_model.algorithms.decentralised",
    "AsynchronousDGD": "dald_model.algorithms.decentralised",
    "metropolis": "dald_model.algorithms.decentralised",
    "EXTRA": "dald_model.algorithms.with_multipliers",
    "FedDyn": "dald_model.algorithms.with_multipliers",
    "FedADMM": "dald_model.algorithms.federated_multipliers",
    "SCAFFOLD": "dald_model.algorithms.federated_multipliers",
    "DADMM": "dald_model.algorithms.with_multipliers",
    "LinearisedADMM": "dald_model.algorithms.splitting",
    "DouglasRachford": "dald_model.algorithms.splitting",
    "PDHG": "dald_model.algorithms.splitting",
    "BCD": "dald_model.algorithms.block_coordinate",
    "JacobiGradientDescent": "dald_model.algorithms.block_coordinate",
    "BCGD": "dald_model.algorithms.block_coordinate",
    "BSUM": "dald_model.algorithms.block_coordinate",
    "ProximalGradient": "dald_model.algorithms.proximal",
    "BCPG": "dald_model.algorithms.block_coordinate",
    "FixedTolerance": "dald_model.coordinate.stopping",
    "ShrinkingTolerance": "dald_model.coordinate.stopping",
    "GrowingBudget": "dald_model.coordinate.stopping",
    "FixedBudget": "dald_model.coordinate.stopping",
    "Fixed": "dald_model.coordinate.penalty",
    "ResidualBalancing": "dald_model.coordinate.penalty",
    "Hybrid": "dald_model.coordinate.acceleration.hybrid",
    "Secant": "dald_model.coordinate.acceleration.secant",
    "Anderson": "dald_model.coordinate.acceleration.anderson",
    "solvers": "dald_model.solvers",
    "engines": "dald_model.engines",
    "partition": "dald_model.datasets.partition",
    "Iterate": "dald_model.coordinate.iterate",
    "compare": "dald_model.comparison",
    "Comparison": "dald_model.comparison",
    "Result": "dald_model.answer.result",
    "resume": "dald_model.resuming",
    "load": "dald_model.answer.saved",
    "SavedAnswer": "dald_model.answer.saved",
    "Status": "dald_model.coordinate.status",
    "Verification": "dald_model.answer.verification",
    "Certificate": "dald_model.answer.certificate",
    "DaldError": "dald_model.errors",
    "DeclarationError": "dald_model.errors",
    "DisconnectedError": "dald_model.errors",
    "DecompositionError": "dald_model.errors",
    "SequenceError": "dald_model.errors",
    "OptionError": "dald_model.errors",
    "TopologyError": "dald_model.errors",
    "ResultError": "dald_model.errors",
    "RunError": "dald_model.errors",
    "LostError": "dald_model.errors",
    "CopyError": "dald_model.errors",
    "DatasetError": "dald_model.errors",
    "MissingError": "dald_model.errors",
    "SequenceWarning": "dald_model.errors",
}
"""Public name -> the module that it is in. Modules are imported with their first name: all of them
take as long as cvxpy. ``__init__.pyi`` says the same to type checkers."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - as in __init__.pyi


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name == "ALADIN":
        said = 'dm.ALADIN is gone; take model.solve(disclose="curvature"), by dm.InteriorPoint()'
        raise AttributeError(said)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_HOMES[name])
    is_module = _HOMES[name].endswith(f".{name}")
    found = globals()[name] = module if is_module else getattr(module, name)
    return found


def __dir__() -> list[str]:
    """What a notebook offers behind ``dm.``: the public names, not the modules they are from."""
    return [*__all__, "__version__"]


def _solve(problem: cp.Problem, *args: Any, **options: Any) -> Any:
    """What ``problem.solve(method="dald")`` calls."""
    return import_module("dald_model.decomposing").solve(problem, *args, **options)


cp.Problem.register_solve("dald", _solve)
