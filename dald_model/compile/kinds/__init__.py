"""The kinds of terms: one class each, with everything that is particular to it.

A new kind is a class here and a line below.
"""

from __future__ import annotations

from dald_model.compile.kinds.piecewise import ABSOLUTE, Linear
from dald_model.compile.kinds.smooth import Cube
from dald_model.compile.kinds.smooth import Entropy, Exponential, Logarithm
from dald_model.compile.kinds.piecewise import SquaredHinge
from dald_model.compile.kinds.piecewise import Huber
from dald_model.compile.kinds.kind import Kind
from dald_model.compile.kinds.smooth import Logistic, LogSumExp
from dald_model.compile.kinds.norm import SQUARES, Ball, Norm, SquareBall
from dald_model.compile.kinds.smooth import Quartic
from dald_model.compile.kinds.smooth import Reciprocal
from dald_model.compile.kinds.spectral import LogDet

KINDS: tuple[Kind, ...] = (
    Linear(),
    ABSOLUTE,
    SquaredHinge(),
    Huber(),
    Cube(),
    Quartic(),
    Reciprocal(),
    Exponential(),
    Logarithm(),
    Entropy(),
    Logistic(),
    LogSumExp(),
    LogDet(),
    Norm(),
    Ball(),
    SquareBall(),
    SQUARES,
)
"""All that are recognised; a component is of the first that reads it."""


def named(name: str) -> Kind:
    """The kind of this name.

    Raises
    ------
    KeyError
        If there is none.
    """
    return {kind.name: kind for kind in KINDS}[name]
