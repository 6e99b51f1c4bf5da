r"""Logistic and log-sum-exp: :math:`\log(1 + e^u)` and :math:`\log \sum_k e^{u_k}`."""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised


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
