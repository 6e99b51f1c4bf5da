r"""Block-coordinate methods: an inner loop of DALD by itself (Section V-B.3).

They minimise the augmented Lagrangian (24) at fixed multipliers, :math:`\mathcal F = \Psi + \Pi`,
over the clients as blocks: a sum of objectives of one block each and squared differences
:math:`\|\rho \circ \mathcal C\|^2` between two. So a coupled objective such as
:math:`f_1(x_1) + f_2(x_2) + \|A_1 x_1 + A_2 x_2 - b\|^2` is written as the consensus
``A1 @ x1 == b - A2 @ x2`` with ``rho=1``. With ``multipliers=True`` the multipliers follow, once a
sweep: DALD with an inexact solver layer, as in the paper's Section VI-B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from dald_model.algorithms.dald import DALD, UPDATE, Choices, Described, remedy
from dald_model.algorithms.server_topology import require
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Goal, Method, kept
from dald_model.coordinate.stopping import FixedBudget, FixedTolerance
from dald_model.errors import OptionError
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.base import Solver
from dald_model.solvers.inexact.local import GradientSteps, LocalSteps, ProximalGradientSteps
from dald_model.solvers.inexact.surrogate import MakeSurrogate, Surrogate
from dald_model.validate import argument, check_positive, check_whole


@dataclass(frozen=True)
class ConsensusADMM(Described):
    """Consensus ADMM: DALD with (B4) and :math:`v_{max} = 1`.

    Parameters
    ----------
    dual_step : float
        See :class:`DALD`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.ConsensusADMM())
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    dual_step: float = 1.0

    def __post_init__(self) -> None:
        check_positive(
            argument(self, "dual_step"), self.dual_step, "a positive number (1 is the paper's)"
        )

    def open(self, compiled: Decomposition) -> Method:
        return Method(
            DALD(self.dual_step).update,
            stopping=FixedBudget(1),
            dual_step=self.dual_step,
            remedy=remedy(self.dual_step),
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("dual_step"),
            coordination="one sweep an outer loop: (B4) with v_max = 1",
        )


class _Blocks(Described):
    """Methods of this file, over the clients as blocks."""

    multipliers: bool

    def _blocks(self, layer: str, *named: str) -> Choices:
        """What they say, in Gauss-Seidel order."""
        given = [self._given(*named)] * bool(named) + ["multipliers=True"] * self.multipliers
        return Choices(
            ", ".join(given),
            mu=UPDATE if self.multipliers else "fixed at 0: one inner loop, which minimises (24)",
            rho="the option rho: it weighs the coupling of the blocks",
            coordination="Gauss-Seidel",
            layer=layer,
        )


@dataclass(frozen=True)
class BCD(_Blocks):
    """Block coordinate descent, equation (59): one client after the other, exactly.

    Parameters
    ----------
    multipliers : bool
        Whether the multipliers follow; see the module.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.BCD())
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    multipliers: bool = False

    def open(self, compiled: Decomposition) -> Method:
        return _inner(self.multipliers)

    def _says(self) -> Choices:
        return self._blocks("exact minimisation, (59)")


@dataclass(frozen=True)
class JacobiGradientDescent(_Blocks):
    r"""Gradient descent on the whole as a Jacobi iteration, equations (60) and (61).

    .. math:: x_i^{k+1} = x_i^k - \alpha \nabla_i \mathcal F(x^k)

    Parameters
    ----------
    step : float
        :math:`\alpha`; it converges below :math:`2 / L`, L the largest eigenvalue of the Hessian
        of :math:`\mathcal F`.
    multipliers : bool
        Whether the multipliers follow; see the module.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.JacobiGradientDescent(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    step: float
    multipliers: bool = False

    def __post_init__(self) -> None:
        check_positive(argument(self, "step"), self.step)

    def open(self, compiled: Decomposition) -> Method:
        steps, name = GradientSteps(self.step), type(self).__name__
        return _inner(self.multipliers, compiled, name, steps, Sequence.jacobi(), servers=True)

    def _says(self) -> Choices:
        return self._blocks("one gradient step, (60), which minimises (61)", "step")._replace(
            coordination="everybody at once, with the values of the round before (Jacobi)"
        )


@dataclass(frozen=True)
class _LocalSteps(_Blocks):
    """Gauss-Seidel with some local steps per turn."""

    step: float
    count: int = 1
    multipliers: bool = False

    steps: ClassVar[Callable[..., Solver]]
    layer: ClassVar[str]

    def __post_init__(self) -> None:
        check_positive(argument(self, "step"), self.step)
        check_whole(argument(self, "count"), self.count)

    def open(self, compiled: Decomposition) -> Method:
        steps = type(self).steps(self.step, self.count)
        return _inner(self.multipliers, compiled, type(self).__name__, steps)

    def _says(self) -> Choices:
        return self._blocks(f"W = {self.count} {self.layer}", "step", "count")


class BCGD(_LocalSteps):
    """Block coordinate gradient descent: (61) in Gauss-Seidel order.

    Parameters
    ----------
    step : float
    count : int
        W, gradient steps per turn; with more and more it is :class:`BCD`.
    multipliers : bool
        Whether the multipliers follow; see the module.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.BCGD(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    steps, layer = GradientSteps, "gradient steps, (61)"


class BCPG(_LocalSteps):
    r"""Block coordinate proximal gradient, equation (65), and (66) where :math:`\pi` is a 1-norm.

    .. math::
        x_i^{k+1} = \operatorname{prox}_{\alpha\pi_i}\big(x_i^k - \alpha\nabla_i\psi_i(x_i^k,
        x_j^k, x_e^{k+1})\big)

    Parameters
    ----------
    step, count, multipliers :
        As of :class:`BCGD`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.BCPG(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    steps, layer = ProximalGradientSteps, "proximal gradient steps, (64), (65)"


@dataclass(frozen=True)
class BSUM(_Blocks):
    r"""Block successive upper-bound minimisation (Razaviyayn, Hong and Luo 2013).

    Each client minimises :math:`u_i(x_i; x_i^k)` in place of its :math:`f_i`, with the augmented
    terms as they are.

    Parameters
    ----------
    surrogate : callable
        (client, at) -> cvxpy expression :math:`u_i` in the client's variables, with ``at`` a dict
        from each of these to a ``cp.Parameter`` that holds its value :math:`x_i^k`; or a pair of
        that and a function ``refresh({variable: value})`` which sets further Parameters of yours,
        such as a gradient, before each turn. It must be convex and DPP, lie above the client's
        objective and touch it at :math:`x_i^k`: both are checked along the iterates, see
        :class:`dald_model.solvers.inexact.surrogate.Surrogate`.
    multipliers : bool
        Whether the multipliers follow; see the module.

    Examples
    --------
    A client's own objective and a square around where it is lie above it, and touch it there:

    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> def above(client, at):
    ...     ((w, here),) = at.items()
    ...     return client.cost + cp.square(w - here)
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.BSUM(above))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    surrogate: MakeSurrogate
    multipliers: bool = False

    def __post_init__(self) -> None:
        if not callable(self.surrogate):
            raise OptionError(
                f"BSUM: given {self.surrogate!r}, expected a function of a client and its point "
                "that returns a cvxpy expression"
            )

    def open(self, compiled: Decomposition) -> Method:
        return _inner(self.multipliers, compiled, "BSUM", Surrogate(self.surrogate))

    def _says(self) -> Choices:
        said = self._blocks("exact minimisation of an upper bound that touches at the last point")
        return said._replace(arguments=", ".join(filter(None, ["surrogate", said.arguments])))


def _inner(
    multipliers: bool,
    compiled: Decomposition | None = None,
    who: str = "",
    steps: Solver | None = None,
    sequence: Sequence | None = None,
    servers: bool = False,
) -> Method:
    solver: Any = None
    if compiled is not None and steps is not None:
        names = [n for n in compiled if servers or not compiled[n].client.is_server]
        require(compiled, names, who, steps.refuses)
        solver = dict.fromkeys(names, steps)
    return Method(
        DALD().update if multipliers else kept,
        sequence=sequence,
        stopping=FixedBudget(1) if multipliers else FixedTolerance(),
        solver=solver,
        goal=Goal.OPTIMUM if multipliers else Goal.FIXED_POINT,
        remedy="a smaller step" if isinstance(steps, LocalSteps) else Method.remedy,
    )
