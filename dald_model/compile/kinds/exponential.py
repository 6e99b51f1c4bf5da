r"""Exponentials, logarithms, entropies, logistic functions and log-sum-exp."""

from __future__ import annotations

import numpy as np

from dald_model.compile.components import Component, Recognised, combined
from dald_model.compile.kinds.kind import Evaluated, Kind


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


class Logistic(Kind):
    r""":math:`\log(1 + e^u)`, which cvxpy writes as the log-sum-exp of u and zero."""

    name = "logistic"
    most_curved = 0.25

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        if component.log_sum_exp is None:
            return None
        top, arguments = component.log_sum_exp
        if len(arguments) != 2 or ({}, 0.0) not in arguments:
            return None
        return Recognised(self, [arguments[1 - arguments.index(({}, 0.0))]], None, top, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; in place, since memory for more arrays is asked of the system anew."""
        decay = np.exp(-np.abs(u))
        value = np.log1p(decay)
        value += np.maximum(u, 0)
        share = 1 + decay
        np.divide(1, share, out=share)
        decay *= share
        gradient = np.where(u < 0, decay, share)
        decay *= share
        return value, gradient, decay

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; without the quotients."""
        return np.maximum(u, 0) + np.log1p(np.exp(-np.abs(u)))

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; without the logarithm."""
        decay = np.exp(-np.abs(u))
        return np.where(u < 0, decay, 1.0) / (1 + decay)


class LogSumExp(Kind):
    r""":math:`\log \sum_k e^{u_k}`; the gradient p is the softmax."""

    name = "logsumexp"
    most_curved = 0.5
    is_joint = True
    inert = -np.inf

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        if component.log_sum_exp is None:
            return None
        top, arguments = component.log_sum_exp
        return Recognised(self, arguments, None, top, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        top = u.max(axis=-1, keepdims=True)
        shares = np.exp(u - top)
        total = shares.sum(axis=-1, keepdims=True)
        shares /= total
        return (top + np.log(total))[..., 0], shares, shares * (1 - shares)

    def root(
        self, rows: np.ndarray, u: np.ndarray, weight: np.ndarray, parameter: np.ndarray
    ) -> np.ndarray:
        r""":math:`\sqrt{w p_k}\,(a_k - \bar a)` with :math:`\bar a = \sum_k p_k a_k`."""
        shares = self.evaluate(u, parameter)[1]
        centred = rows - np.matmul(shares[..., None, :], rows)
        centred *= np.sqrt(weight[..., None] * shares)[..., None]
        return centred
