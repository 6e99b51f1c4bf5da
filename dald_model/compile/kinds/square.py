r"""Square: :math:`u^2/2`, for quadratics that are kept as their root; no component is one."""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind


class Square(Kind):
    """See the module."""

    name = "square"
    most_curved = 1.0

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        return u * u / 2, u, np.ones(u.shape)


SQUARE = Square()
