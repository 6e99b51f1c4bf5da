r"""Subproblem: one client's augmented Lagrangian as a DPP ``cp.Problem`` with its Parameters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model import display
from dald_model.client import Client
from dald_model.consensus import Edge, affine_map
from dald_model.values import flat


class Subproblem:
    r"""The local augmented Lagrangian of one client, equation (12) with a server and (20) without.

    .. math::
        \min_{x_i \in X_i} \; f_i(x_i)
        + \sum_{j \in \mathcal R_i} \mu_{ij}^\top \mathcal C_{ij}
        + \sum_{j \in \mathcal R_i} \|\rho_{ij} \circ \mathcal C_{ij}\|^2

    with :math:`\mathcal C_{ij} = \pm(G_{ij} x_i + g_{ij} - z_{ij})`, where :math:`z_{ij}` is the
    neighbour's side. The consensus constraint is a variable of the problem, tied to :math:`x_i`
    by an equality; so :math:`\mu`, :math:`\rho` and :math:`z` are three Parameters of a DPP
    problem, no constant is dropped, and ``problem.value`` is the augmented Lagrangian itself.

    Attributes
    ----------
    problem : cp.Problem
        To be solved by hand or by a solver of :mod:`dald_model.solvers`.
    mu, rho, neighbours : dict
        Neighbour -> Parameter of shape (size of the edge,): the multiplier, the penalty (it enters
        squared, without one half) and the value of the neighbour's side.
    client : Client
        Over the client's local variables.
    entries : ndarray of int, shape (q,)
        Where the client's edges lie in the vectors over all edges, see :class:`Compiled`.
    signs : ndarray, shape (q,)
        +1 where the client is the tail of the edge, -1 where it is the head.
    rows : ndarray of int, shape (q,)
        0 where the client is the tail, 1 where it is the head, see :class:`State`.
    """

    def __init__(self, client: Client, edges: Sequence[Edge], offsets: Sequence[int]) -> None:
        self.client = client
        self.name: Hashable = client.name
        self.variables = client.variables
        self._edges = list(edges)
        self._slices = _stack([e.size for e in edges])
        self.entries = np.concatenate(
            [np.arange(at, at + e.size) for at, e in zip(offsets, edges, strict=True)]
        )
        self.signs = np.concatenate([np.full(e.size, float(e.sign(self.name))) for e in edges])
        self.rows = (self.signs < 0).astype(int)
        self.mu: dict[Hashable, cp.Parameter] = {}
        self.rho: dict[Hashable, cp.Parameter] = {}
        self.neighbours: dict[Hashable, cp.Parameter] = {}

        lagrangian, ties = client.cost, []
        for edge in edges:
            other, size = edge.other(self.name), edge.size
            mu = self.mu[other] = cp.Parameter(size, name=f"mu[{other}]")
            rho = self.rho[other] = cp.Parameter(size, name=f"rho[{other}]", nonneg=True)
            value = self.neighbours[other] = cp.Parameter(size, name=f"neighbours[{other}]")
            gap = cp.Variable(size, name=f"C[{other}]")
            own = edge.side(self.name)
            ties.append(gap == (own - value if edge.sign(self.name) > 0 else value - own))
            lagrangian = lagrangian + mu @ gap + cp.sum_squares(cp.multiply(rho, gap))
        self.problem = cp.Problem(cp.Minimize(lagrangian), [*client.constraints, *ties])
        self._map: tuple[sp.csr_array, np.ndarray] | None = None

    @property
    def sides(self) -> tuple[sp.csr_array, np.ndarray]:
        """Matrix (q, m) and offset (q,) of the client's sides of its edges, stacked.

        ``m`` is the total size of :attr:`variables`. Computed once, unless a side holds a
        Parameter of the user's.
        """
        stacked = cp.hstack([e.side(self.name) for e in self._edges])
        if self._map is None or stacked.parameters():
            self._map = affine_map(stacked, self.variables)
        return self._map

    @property
    def size(self) -> int:
        """The number of scalar variables of the client, ``m``."""
        return sum(v.size for v in self.variables)

    def set(self, mu: np.ndarray, rho: np.ndarray, neighbours: np.ndarray) -> None:
        """Set the Parameters from vectors over the client's edges, each of shape (q,)."""
        for edge, part in zip(self._edges, self._slices, strict=True):
            other = edge.other(self.name)
            self.mu[other].value = mu[part]
            self.rho[other].value = rho[part]
            self.neighbours[other].value = neighbours[part]

    def point(self) -> np.ndarray:
        """The current values of :attr:`variables` as one vector, column-major, shape (m,)."""
        return np.concatenate([flat(v.value) for v in self.variables])

    def spread(self, point: np.ndarray) -> dict[int, np.ndarray]:
        """A vector of shape (m,) as arrays by variable id."""
        parts = _stack([v.size for v in self.variables])
        return {
            v.id: point[part].reshape(v.shape, order="F")
            for v, part in zip(self.variables, parts, strict=True)
        }

    def __str__(self) -> str:
        return display.subproblem_text(self)

    __repr__ = __str__


def _stack(sizes: Sequence[int]) -> list[slice]:
    stops = np.cumsum(sizes)
    return [slice(int(stop - size), int(stop)) for stop, size in zip(stops, sizes, strict=True)]
