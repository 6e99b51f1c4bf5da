r"""Exponential, logarithm and entropy: :math:`e^u`, :math:`-\log u` and :math:`u \log u`."""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, combined


class Exponential(Kind):
    r""":math:`e^u`, the least t with :math:`(u, 1, t)` in the exponential cone."""

    name = "exp"

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        if component.exponential is None:
            return None
        t, (one, two, three) = component.exponential
        factor = three[0].get(t, 0.0)
        if two != ({}, 1.0) or three != ({t: factor}, 0.0) or t in one[0]:
            return None
        if component.q[t] <= 0 or factor <= 0:
            return None
        return Recognised(self, [one], None, t, 1 / factor)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        power = np.exp(u)
        return power, power, power


class Logarithm(Kind):
    r""":math:`-\log u`, the least -t with :math:`(t, 1, u)` in the exponential cone.

    Of a number c > 0 for 1 it is :math:`-c \log u + c \log c`, as of Poisson counts c.
    """

    name = "log"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        lowered = _lowered(component)
        if lowered is None:
            return None
        t, scale, (row, count), three = lowered
        if row or count <= 0 or t in three[0]:
            return None
        rest = ({}, float(np.log(count))) if count != 1.0 else None
        return Recognised(self, [three], rest, t, scale * count)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        inverse = 1 / u
        return np.where(u > 0, -np.log(u), np.inf), -inverse, inverse**2


class Entropy(Kind):
    r""":math:`u \log u`, the least -t with :math:`(t, u, c)` in the cone, c > 0 a number."""

    name = "entropy"
    is_positive = True
    is_of_entries = True

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        lowered = _lowered(component)
        if lowered is None:
            return None
        t, scale, two, three = lowered
        if three[0] or three[1] <= 0 or t in two[0]:
            return None
        return Recognised(self, [two], combined((-np.log(three[1]), two)), t, scale)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; finite at zero."""
        logarithm = np.log(u)
        value = np.where(u > 0, u * logarithm, np.where(u == 0, 0.0, np.inf))
        return value, logarithm + 1, 1 / u


def _lowered(component: Component) -> tuple[int, float, tuple, tuple] | None:
    """The column t and its unit where its cost pulls it up, and the second and third row."""
    if component.exponential is None:
        return None
    t, (one, two, three) = component.exponential
    if set(one[0]) != {t} or one[1] or one[0][t] <= 0 or component.q[t] >= 0:
        return None
    return t, 1 / one[0][t], two, three
