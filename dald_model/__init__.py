"""A declarative modelling layer on cvxpy for problems with many owners.

Declare each client's objective and constraints and the consensus between them, solve by
distributed augmented-Lagrangian decomposition (Fed-DALD), and verify against the all-in-one solve.
"""

from dald_model import partition, solvers
from dald_model.algorithms import DALD
from dald_model.blocks import BCD, BCGD, BCPG, BSUM, ConsensusADMM, JacobiGradientDescent
from dald_model.client import Client
from dald_model.compare import Comparison, compare
from dald_model.compiler import Compiled
from dald_model.consensus import Edge
from dald_model.decompose import decompose
from dald_model.descent import (
    GradientDescent,
    MiniBatchGradientDescent,
    NewtonMethod,
    StochasticGradientDescent,
    StochasticNewton,
)
from dald_model.errors import (
    DaldError,
    DatasetError,
    DeclarationError,
    DecompositionError,
    DisconnectedError,
    OptionError,
    ResultError,
    SequenceError,
    SequenceWarning,
)
from dald_model.federated import (
    DistributedProximal,
    FedAvg,
    FedProx,
    ProximalGradient,
    ProximalPoint,
)
from dald_model.gossip import DGD, AsynchronousDGD, metropolis
from dald_model.iterate import Iterate
from dald_model.model import Model
from dald_model.moment import Moment
from dald_model.network import HierarchicalNetwork
from dald_model.online import Change, Dropout, LossyLinks, Stragglers
from dald_model.penalty import Fixed, ResidualBalancing
from dald_model.portable import Portable, pack, unpack
from dald_model.result import Result, Status
from dald_model.sequence import Sequence
from dald_model.stopping import FixedBudget, FixedTolerance, GrowingBudget, ShrinkingTolerance
from dald_model.subproblem import Subproblem
from dald_model.verify import Verification

__version__ = "0.1.0"

__all__ = [  # in reading order: declare, compile, coordinate, answer
    "Model",
    "Client",
    "Edge",
    "decompose",
    "Compiled",
    "Subproblem",
    "Portable",
    "pack",
    "unpack",
    "HierarchicalNetwork",
    "Sequence",
    "Moment",
    "Change",
    "Dropout",
    "Stragglers",
    "LossyLinks",
    "DALD",
    "ConsensusADMM",
    "ProximalPoint",
    "GradientDescent",
    "NewtonMethod",
    "MiniBatchGradientDescent",
    "StochasticGradientDescent",
    "StochasticNewton",
    "DistributedProximal",
    "FedProx",
    "FedAvg",
    "DGD",
    "AsynchronousDGD",
    "metropolis",
    "BCD",
    "JacobiGradientDescent",
    "BCGD",
    "BSUM",
    "ProximalGradient",
    "BCPG",
    "FixedTolerance",
    "ShrinkingTolerance",
    "GrowingBudget",
    "FixedBudget",
    "Fixed",
    "ResidualBalancing",
    "solvers",
    "partition",
    "Iterate",
    "compare",
    "Comparison",
    "Result",
    "Status",
    "Verification",
    "DaldError",
    "DeclarationError",
    "DisconnectedError",
    "DecompositionError",
    "SequenceError",
    "OptionError",
    "ResultError",
    "DatasetError",
    "SequenceWarning",
]
