"""Natural units of a problem: the scales in which residuals and accuracies are measured.

They are hints, measured once by :mod:`dald_model.coordinate.scaling.natural_units`; see there for
the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dald_model.compile.decomposition import Decomposition


@dataclass(frozen=True)
class Units:
    r"""Natural units, see the module.

    Attributes
    ----------
    lengths, slopes : ndarray, shape (Q,)
        :math:`X_r` and :math:`M_r` of the edges.
    point_lengths, point_slopes : ndarray
        The same as lengths and slopes for all clients' variables, one after the other.
    penalty : ndarray, shape (Q,)
        The natural penalty, :math:`\rho_r^2 = h_r / 2` with the spread of the curvatures, and with
        kinks ten times as stiff, but those at variables of zero: prices turn on a far shorter way
        than that between the minimisers.
    start : ndarray
        Where the clients' variables start, one after the other.
    """

    lengths: np.ndarray
    slopes: np.ndarray
    point_lengths: np.ndarray
    point_slopes: np.ndarray
    penalty: np.ndarray
    start: np.ndarray

    @classmethod
    def plain(cls, compiled: Decomposition) -> Units:
        """Ones: the user's own units, and a start at zero."""

        def made() -> Units:
            size = sum(sub.size for sub in compiled.values())
            edges, points = np.ones(compiled.size), np.ones(size)
            return cls(edges, edges, points, points, edges, np.zeros(size))

        return compiled.stacked.known("plain units", made)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
