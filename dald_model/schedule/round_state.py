"""The state of a run before an inner loop, as strategies and schedules see it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

Staleness = Mapping[Hashable, float]
"""Client -> how far its neighbours have moved since it was last solved (max norm)."""


class Residuals(NamedTuple):
    r"""Primal and dual residual of an iterate, in the max norm.

    Attributes
    ----------
    primal : float
        :math:`\|\mathcal C^{k,v}\|_\infty`, in the units of the variables.
    dual : float
        :math:`\|\mathcal D^{k,v}\|_\infty`, in the units of the variables.
    primal_scaled : float
        What is held against ``eps_pri``: the largest :math:`|\mathcal C_r| / X_r` of all entries.
    dual_scaled : float
        What is held against ``eps_dual``: the largest of :math:`|\mathcal D_r| / X_r`, of
        :math:`s_r / M_r` with the violation of stationarity
        :math:`s_r = 2 \rho_r^2 |\mathcal D_r|` (equation A2-3), and of what solvers that are not
        exact leave of their clients' gradients, relative to M. Without :math:`s` a large penalty,
        under which variables hardly move, would pass for an optimum.

        Lengths X and slopes M are the natural units of
        :mod:`dald_model.coordinate.scaling.units`, which follow the user's units and know no
        origin. So with tolerances of 1e-6 the clients agree to a millionth of how far apart they
        would be alone; the error of the objective is proved at the end of the run, not read off
        the residuals.
    slack : float
        The largest :math:`g_i \in \partial_i \Lambda_\rho` of any client, condition (29): how far
        the solver layer is from minimising; 0 where it does. In the units of the gradient.
    """

    primal: float
    dual: float
    primal_scaled: float
    dual_scaled: float
    slack: float = 0.0


@dataclass(frozen=True)
class Moment:
    """The number, the clients and the residuals of the inner loop about to begin.

    Attributes
    ----------
    round, outer, inner : int
        Its number in the run, that of its outer loop, and its own within that; all from 1.
    live : tuple
        The clients and servers that are there, in the order of declaration, servers last.
    servers : tuple
        Those among all clients that are servers.
    everybody : bool
        Whether nobody left.
    closing : bool
        Whether it may be the last of its outer loop, as far as is known before it.
    residuals : Residuals
        After the inner loop before; infinite before the first.
    unanswered : dict
        Client -> in how many rounds in a row an engine has had no answer from it, of those that
        did not answer last; see :class:`dald_model.Unanswered`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> seen = []
    >>> result = common_number([0, 1, 2]).solve(online=lambda moment: seen.append(moment.round))
    >>> seen[0], len(seen) == result.rounds
    (1, True)
    """

    round: int
    outer: int
    inner: int
    live: tuple[Hashable, ...]
    servers: tuple[Hashable, ...]
    everybody: bool
    closing: bool
    residuals: Residuals
    stale: Callable[[], Staleness] = field(repr=False)
    unanswered: Mapping[Hashable, int] = field(default_factory=dict, repr=False)

    @cached_property
    def staleness(self) -> Staleness:
        """See :data:`Staleness`; worked out when first asked for."""
        return self.stale()
