"""The public names for type checkers: those of ``__init__.py``."""

from dald_model import engines, solvers
from dald_model.datasets import partition
from dald_model.algorithms.dald import DALD
from dald_model.algorithms.block_coordinate import (
    BCD,
    BCGD,
    BCPG,
    BSUM,
    ConsensusADMM,
    JacobiGradientDescent,
)
from dald_model.declare.client import Client
from dald_model.comparison import Comparison, compare
from dald_model.compiled import Compiled
from dald_model.declare.consensus import Edge
from dald_model.declare.couplings import Coupling
from dald_model.decomposing import decompose
from dald_model.matrices import from_matrices
from dald_model.other_tools import from_linopy, from_mps
from dald_model.algorithms.gradient import (
    GradientDescent,
    MiniBatchGradientDescent,
    StochasticGradientDescent,
)
from dald_model.algorithms.interior_point import InteriorPoint
from dald_model.algorithms.newton import NewtonMethod, StochasticNewton
from dald_model.errors import (
    CopyError,
    DaldError,
    DatasetError,
    DeclarationError,
    DecompositionError,
    DisconnectedError,
    OptionError,
    LostError,
    MissingError,
    ResultError,
    RunError,
    SequenceError,
    SequenceWarning,
    TopologyError,
)
from dald_model.algorithms.proximal import (
    DistributedProximal,
    ProximalGradient,
    ProximalPoint,
)
from dald_model.algorithms.federated import FedAvg, FedProx
from dald_model.algorithms.decentralised import DGD, AsynchronousDGD, metropolis
from dald_model.algorithms.with_multipliers import DADMM, EXTRA, FedDyn
from dald_model.algorithms.federated_multipliers import SCAFFOLD, FedADMM
from dald_model.algorithms.splitting import PDHG, DouglasRachford, LinearisedADMM
from dald_model.coordinate.iterate import Iterate
from dald_model.federation import Federation
from dald_model.peer import Peer
from dald_model.model import Model
from dald_model.site import Site
from dald_model.schedule.round_state import Moment
from dald_model.schedule.network import HierarchicalNetwork
from dald_model.schedule.changes import Change, Dropout, LossyLinks, Stragglers
from dald_model.schedule.changes import Unanswered
from dald_model.coordinate.acceleration.anderson import Anderson
from dald_model.coordinate.acceleration.hybrid import Hybrid
from dald_model.coordinate.acceleration.secant import Secant
from dald_model.coordinate.penalty import Fixed, ResidualBalancing
from dald_model.engines.portable import Portable, pack, unpack
from dald_model.answer.certificate import Certificate
from dald_model.answer.result import Result
from dald_model.answer.saved import SavedAnswer, load
from dald_model.resuming import resume
from dald_model.coordinate.status import Status
from dald_model.schedule.sequence import Sequence
from dald_model.coordinate.stopping import (
    FixedBudget,
    FixedTolerance,
    GrowingBudget,
    ShrinkingTolerance,
)
from dald_model.compile.subproblem import Subproblem
from dald_model.answer.verification import Verification

__version__: str

__all__ = [  # in reading order: declare, compile, coordinate, answer
    "Model",
    "Site",
    "Federation",
    "Peer",
    "Client",
    "Edge",
    "Coupling",
    "decompose",
    "from_matrices",
    "from_linopy",
    "from_mps",
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
    "Unanswered",
    "DALD",
    "ConsensusADMM",
    "ProximalPoint",
    "GradientDescent",
    "InteriorPoint",
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
    "EXTRA",
    "FedDyn",
    "FedADMM",
    "SCAFFOLD",
    "DADMM",
    "LinearisedADMM",
    "DouglasRachford",
    "PDHG",
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
    "Hybrid",
    "Secant",
    "Anderson",
    "solvers",
    "engines",
    "partition",
    "Iterate",
    "compare",
    "Comparison",
    "Result",
    "resume",
    "load",
    "SavedAnswer",
    "Status",
    "Verification",
    "Certificate",
    "DaldError",
    "DeclarationError",
    "DisconnectedError",
    "DecompositionError",
    "SequenceError",
    "OptionError",
    "TopologyError",
    "ResultError",
    "RunError",
    "LostError",
    "CopyError",
    "DatasetError",
    "MissingError",
    "SequenceWarning",
]

def __dir__() -> list[str]: ...
