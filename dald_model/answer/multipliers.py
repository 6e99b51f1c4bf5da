r"""Multipliers that prove more: any are valid in a bound, so the best of a few counts.

The reported ones are first projected so that the prices of servers, which have no objective,
vanish. Where these do not prove enough, slopes of smooth clients say better ones: with gradients
:math:`g_i` and Hessians :math:`H_i` at x

.. math:: \min_\mu \sum_i \| g_i + p_i(\mu) \|^2_{H_i^{-1}},

which leaves what does not balance to the stiffest clients, where it costs least. Prices of other
clients stay as they are reported.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from dald_model.answer.bound import Parts, free_servers
from dald_model.compile.decomposition import Decomposition

MOST = 1_000
"""Multipliers up to which better ones are sought: the matrices for it are dense."""
HELD = 1e3
"""How much more than a slope a reported price counts that is to stay."""
PROJECTED = 1e-15
"""Relative accuracy of the projection, which is of small integers."""


def balanced(compiled: Decomposition, mu: np.ndarray) -> np.ndarray:
    """The nearest multipliers for which no server has a price."""
    servers = free_servers(compiled)
    if not servers:
        return mu
    rows = compiled.stacked.known(("prices", servers), lambda: _price_map(compiled, servers))
    return mu - spla.lsqr(rows, rows @ mu, atol=PROJECTED, btol=PROJECTED)[0]


def improved(
    compiled: Decomposition,
    parts: Parts,
    at: np.ndarray,
    mu: np.ndarray,
    lengths: np.ndarray,
) -> np.ndarray | None:
    """Better multipliers, see the module; None where there are too many to ask.

    ``lengths``, (Q,), are those of the edges' entries: prices are counted in their inverses, as
    factors of entries in other units would mix their digits.
    """
    if mu.size > MOST:
        return None
    units = 1 / lengths
    free = np.diag(units)
    if free_servers(compiled):
        rows = _price_map(compiled, free_servers(compiled)).toarray() * units
        rows /= np.abs(rows).max(axis=1, keepdims=True)
        _, sizes, right = np.linalg.svd(rows)
        free = units[:, None] * right[int((sizes > PROJECTED**0.5 * sizes[0]).sum()) :].T
    rows, wanted = [], []
    for group in parts.groups:
        x = at[group.columns]
        slopes = group.gradients(x)
        if not np.isfinite(slopes).all():
            return None
        for name, slope, metric in zip(group.names, slopes, group.metrics(x), strict=True):
            rows.append(metric @ _price_map(compiled, (name,)).toarray())
            wanted.append(-metric @ slope)
    for name in parts.cones:
        own = _price_map(compiled, (name,)).toarray()
        rows.append(HELD * own)
        wanted.append(HELD * (own @ mu))
    if not rows:
        return None
    matrix = np.vstack(rows)
    along = matrix @ free
    sizes = np.linalg.norm(along, axis=0)
    sizes[sizes == 0] = 1.0
    left = np.concatenate(wanted) - matrix @ mu
    return mu + free @ (np.linalg.lstsq(along / sizes, left, rcond=PROJECTED)[0] / sizes)


def _price_map(compiled: Decomposition, names: tuple[Hashable, ...]) -> sp.csr_array:
    """The matrix from multipliers to the prices of some clients' variables."""
    parts = []
    for name in names:
        sub = compiled[name]
        own = sub.entries.size
        signs = sp.csr_array((sub.signs, (np.arange(own), sub.entries)), shape=(own, compiled.size))
        parts.append(sp.csr_array(sub.sides[0]).T @ signs)
    return sp.csr_array(sp.vstack(parts))
