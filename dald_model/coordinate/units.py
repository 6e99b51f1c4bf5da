r"""Natural units of a problem: the scales in which residuals and accuracies are measured.

A residual is large or small beside something. Beside one, or beside the size of the variables, the
verdict would depend on the units of the user; so here it is beside what the problem itself shows
before the run. For entry r of an edge let

* :math:`O_r` be how far apart the ends would be if every client answered alone
  (:mod:`dald_model.coordinate.own_answers`): the length over which they bargain,
* :math:`h_r` be the stiffness of the objectives along it: their curvature, or where they have none
  what they change over that length, :math:`2 |f(x + O) - f(x)| / O^2`.

A consensus equality has the energy :math:`E = \max_r h_r O_r^2` over its entries, in the units of
the objective, and its entries have the lengths and slopes

.. math:: X_r = \tfrac14 \sqrt{E / h_r}, \qquad M_r = h_r X_r.

Multiply the objective by s, and E and M are multiplied by s. Measure a variable in other units, and
its X and M follow. Move the origin, and nothing changes: :math:`O_r` is a difference, and a run
starts where the clients' own answers are, or nearer to where they bend. Who has no answer, and has
those of others at a pole of its objective, counts as where it answers if held as stiffly as they
bend: what it changes by at a pole is no energy that anybody bargains for. Where all answers are the
same to all digits that solvers have, or there is only one, the length is how far an answer moves
for a price like the slopes that meet there, or else what the largest energy of all makes it; where
no edge says anything, it is the distance from zero. No length is more than 100 times :math:`O_r`:
where nothing bends between the answers :math:`h_r` is that of rounding errors, and is raised.

They are found by :func:`dald_model.coordinate.measurement.natural_units`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from dald_model.compile.decomposition import Decomposition


@dataclass(frozen=True)
class Units:
    r"""Natural units, see the module.

    Attributes
    ----------
    lengths, slopes : ndarray, shape (Q,)
        :math:`X_r` and :math:`M_r` of the edges.
    kinks : ndarray, shape (Q,)
        How steep the terms without a gradient are along each entry, at the steeper end.
    point_lengths, point_slopes : ndarray
        The same as lengths and slopes for all clients' variables, one after the other.
    penalty : ndarray, shape (Q,)
        The natural penalty, :math:`\rho_r^2 = h_r / 2` with the spread of the curvatures, and with
        kinks 16 times as stiff, but those at variables of zero: prices turn on a far shorter way
        than that between the answers. Large clients that their constraints hold count four times as
        stiff.
    start : ndarray
        Where the clients' variables start, one after the other.
    """

    lengths: np.ndarray
    slopes: np.ndarray
    kinks: np.ndarray
    point_lengths: np.ndarray
    point_slopes: np.ndarray
    penalty: np.ndarray
    start: np.ndarray

    @classmethod
    def plain(cls, compiled: Decomposition) -> Units:
        """Ones: the user's own units, and a start at zero."""
        size = sum(sub.size for sub in compiled.values())
        edges, points = np.ones(compiled.size), np.ones(size)
        return cls(edges, edges, np.zeros(compiled.size), points, points, edges, np.zeros(size))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def energy(self) -> float:
        """The sum of the edges' energies over all entries."""
        return float(self.lengths @ self.slopes)
