r"""Values, gradients and second derivatives of the smooth functions :math:`\varphi`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


class Oracle(NamedTuple):
    r"""One :math:`\varphi`, elementwise.

    ``first(u, bound)`` gives :math:`\varphi` and :math:`\varphi'`, ``second(u, bound)`` gives
    :math:`\varphi''`. Outside of the domain the value is infinite and the rest means nothing.
    """

    first: Callable[[np.ndarray, np.ndarray], Pair]
    second: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _logistic(u: np.ndarray, bound: np.ndarray) -> Pair:
    decay = np.exp(-np.abs(u))
    slope = np.where(u < 0, decay, 1.0) / (1 + decay)
    return np.maximum(u, 0) + np.log1p(decay), slope


def _logistic_second(u: np.ndarray, bound: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(u))
    return decay / (1 + decay) ** 2


def _huber(u: np.ndarray, bound: np.ndarray) -> Pair:
    near = np.clip(u, -bound, bound)
    return near * (u - near / 2), near


def _exp(u: np.ndarray, bound: np.ndarray) -> Pair:
    power = np.exp(u)
    return power, power


def _log(u: np.ndarray, bound: np.ndarray) -> Pair:
    return np.where(u > 0, -np.log(u), np.inf), -1 / u


def _entropy(u: np.ndarray, bound: np.ndarray) -> Pair:
    logarithm = np.log(u)
    value = np.where(u > 0, u * logarithm, np.where(u == 0, 0.0, np.inf))
    return value, logarithm + 1


def _hinge(u: np.ndarray, bound: np.ndarray) -> Pair:
    beyond = np.maximum(u, 0)
    return beyond**2 / 2, beyond


def logsumexp(u: np.ndarray) -> Pair:
    """Over the last axis; the gradient is the softmax."""
    top = u.max(axis=-1, keepdims=True)
    powers = np.exp(u - top)
    total = powers.sum(axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], powers / total


SCALAR = {
    "logistic": Oracle(_logistic, _logistic_second),
    "huber": Oracle(_huber, lambda u, bound: (np.abs(u) <= bound).astype(float)),
    "exp": Oracle(_exp, lambda u, bound: np.exp(u)),
    "log": Oracle(_log, lambda u, bound: 1 / u**2),
    "entropy": Oracle(_entropy, lambda u, bound: 1 / u),
    "hinge": Oracle(_hinge, lambda u, bound: (u > 0).astype(float)),
}
"""All smooth kinds but ``logsumexp``, which takes several arguments."""

POSITIVE = ("log", "entropy")
"""Kinds that are finite for positive arguments only."""

SMOOTH = (*SCALAR, "logsumexp")
