r"""Rules for the penalty :math:`\rho`: an ``init`` and an ``update`` each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.scaling.natural_units import natural_units
from dald_model.coordinate.state import State
from dald_model.declare.consensus import Edge
from dald_model.engines.dispatch import SolverLayer
from dald_model.errors import OptionError
from dald_model.text import listed
from dald_model.validate import is_number, is_whole

BALANCED_BY = 1e3
"""How many times the natural penalty balancing may go to, or which part of it."""
RHO_LEAST, RHO_MOST = 1e-75, 1e75
"""The range of a penalty that a user gives: its fourth power is neither zero nor infinite."""


@runtime_checkable
class PenaltyRule(Protocol):
    r"""Rule for :math:`\rho`, entry by entry over all edges; it enters as :math:`\rho^2`."""

    def init(self, compiled: Decomposition) -> np.ndarray:
        """The penalties of the first outer loop, shape (Q,)."""
        ...

    def update(self, state: State, outer: int) -> np.ndarray:
        """The penalties after outer loop ``outer``: ``state.rho`` itself where they stay."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Fixed penalties.

    ``value`` is a number; an array over all entries of all edges; or a dict whose keys are
    clients or pairs of clients and whose values are numbers or arrays of the edge's size. An edge
    takes the value of its pair, else the geometric mean over those of its ends that are named.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(rho=dm.Fixed(1.0)).status)
    optimal
    """

    value: Any = 1.0

    def init(self, compiled: Decomposition) -> np.ndarray:
        """See :class:`PenaltyRule`.

        Raises
        ------
        OptionError
            If a value is not positive and finite, a shape does not fit, a name is unknown or an
            edge is left without penalty.
        """
        rho = np.empty(compiled.size)
        if not isinstance(self.value, Mapping):
            rho[:] = _positive(self.value, compiled.size, "rho")
            return rho
        for key in self.value:
            known = key in compiled or (
                isinstance(key, tuple) and len(key) == 2 and compiled.graph.has_edge(*key)
            )
            if not known:
                raise OptionError(
                    f"rho: {key!r} is neither a client nor a pair of neighbours; expected keys "
                    f"among {listed(compiled)} or pairs such as "
                    f"{compiled.edges[0].ends!r}"
                )
        for edge in compiled.edges:
            rho[compiled.slots[edge.ends]] = self._of(edge)
        return rho

    def _of(self, edge: Edge) -> np.ndarray:
        named: list[Hashable] = [
            pair for pair in (edge.ends, edge.ends[::-1]) if pair in self.value
        ]
        named = named[:1] or [name for name in edge.ends if name in self.value]
        if not named:
            raise OptionError(
                f"rho: the edge {edge.ends!r} has no penalty; add {edge.tail!r}, {edge.head!r} or "
                f"{edge.ends!r} to the dict"
            )
        found = [_positive(self.value[key], edge.size, f"rho[{key!r}]") for key in named]
        return np.exp(np.mean(np.log(found), axis=0))

    def update(self, state: State, outer: int) -> np.ndarray:
        return state.rho


@dataclass(frozen=True)
class ResidualBalancing:
    r"""Initial penalty from curvature, then residual balancing: the default.

    The start is the natural penalty of :class:`dald_model.coordinate.scaling.units.Units`. Then,
    every ``period`` outer loops, with

    .. math::
        t = \frac{\|\rho \circ \mathcal C\|}{\|\rho \circ \mathcal D\|}, \qquad
        \rho^2 \leftarrow \sqrt{t} \, \rho^2 \quad\text{if } t \notin [1/\tau, \tau],

    where :math:`\sqrt t` is kept within [0.1, 10] and :math:`\tau` is ``threshold``. Both norms
    are in root units of the objective, so the rule is indifferent to the units of the objective
    and of the variables, also where the variables' units are mixed. (The textbook rule of He, Yang
    and Wang 2000 compares norms in different units; the normalised one of Wohlberg 2017 lets one
    large entry drive the penalty of all others down.) After ``changes`` changes the
    penalty stays, which keeps the convergence theory of a fixed one; and it stays within a factor
    ``BALANCED_BY`` of the natural one.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(rho=dm.ResidualBalancing()).status)
    optimal
    """

    start: Any = None
    period: int = 10
    threshold: float = 2.0
    changes: int = 50

    def __post_init__(self) -> None:
        counts = is_whole(self.period, 1) and is_whole(self.changes, 0)
        if not (counts and is_number(self.threshold) and self.threshold >= 1):
            raise OptionError(
                f"ResidualBalancing: given period={self.period!r}, threshold={self.threshold!r}, "
                f"changes={self.changes!r}; expected period >= 1, threshold >= 1, changes >= 0"
            )

    def init(self, compiled: Decomposition) -> np.ndarray:
        if self.start is None:
            return natural_units(compiled, SolverLayer(compiled, None)).penalty
        return Fixed(self.start).init(compiled)

    def update(self, state: State, outer: int) -> np.ndarray:
        if outer % self.period or outer > self.period * self.changes:
            return state.rho
        rho, norm = state.rho, state.reduce.norm
        primal, dual = norm(rho * state.primal), norm(rho * state.dual)
        if max(primal, dual) == 0.0:
            return rho
        with np.errstate(divide="ignore"):  # one of them may be zero: exact solvers make it so
            ratio = primal / dual
        if 1 / self.threshold <= ratio <= self.threshold:
            return rho
        changed = rho * np.sqrt(np.clip(np.sqrt(ratio), 0.1, 10.0))
        least, most = state.units.penalty / BALANCED_BY, state.units.penalty * BALANCED_BY
        return np.clip(changed, np.minimum(least, rho), np.maximum(most, rho))


def as_rule(rho: Any) -> PenaltyRule:
    """Read the option ``rho``: a rule, or anything that :class:`Fixed` takes; None is default."""
    if rho is None:
        return ResidualBalancing()
    if isinstance(rho, ResidualBalancing | Fixed):  # to ask for a protocol takes longer
        return rho
    is_rule = isinstance(rho, PenaltyRule) and not isinstance(rho, type)
    return rho if is_rule else Fixed(rho)


def _positive(value: Any, size: int, what: str) -> np.ndarray:
    try:
        if np.asarray(value).dtype.kind in "bcSU":
            raise TypeError("truth values, complex numbers and text are no penalties")
        given = np.asarray(value, dtype=float)
        filled = np.broadcast_to(given.reshape(-1, order="F") if given.ndim else given, (size,))
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"{what}: given {value!r}, expected a positive number or an array of {size} of them"
        ) from error
    if not (np.isfinite(filled).all() and (filled > 0).all()):
        raise OptionError(
            f"{what}: given {value!r}, expected positive finite numbers; the penalty enters as "
            "its square, a zero would drop the consensus constraint"
        )
    if filled.min() < RHO_LEAST or filled.max() > RHO_MOST:
        raise OptionError(
            f"{what}: given {value!r}, expected numbers from {RHO_LEAST:g} to {RHO_MOST:g}; the "
            "penalty enters as its square, and the square of that must still be a number; measure "
            "the data in other units"
        )
    return filled
