r"""Curvature of clients at sites, by secants between their answers.

A site tells nothing but answers. Besides its own minimiser :math:`x^0` it is asked for three: held
nearer to where the others are, all of it, one half of its entries, and the other half. With d the
way of such an answer from :math:`x^0` and g its price, entry k of a variable is as stiff as

.. math:: h_k = \sqrt{\sum\nolimits_i g_{ik}^2 \Big/ \sum\nolimits_i d_{ik}^2}

over the clients i that share it, and client i is :math:`g_i^\top d_i / \sum_l h_l d_{il}^2` times
as stiff. The way to the others leads along valleys of the objective, where it is too soft, and
halves that are drawn at random seldom do; but halves may lead out of the constraints, where it is
too stiff. So of both the geometric mean counts, and of clients with kinks, for which too soft costs
many times the rounds of too stiff, the halves: as a kink of steepness :math:`h_k d_k / 2`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.curvature import Curvature
from dald_model.declare.remote import RemoteClient

UNEQUAL = 100.0
"""How many times stiffer or softer a site may be than all sites that share its variables: a scale
that is wrong by as much costs at most 1.12 times the rounds."""
Points = dict[Hashable, np.ndarray]


def secants(compiled: Decomposition, own: Points, there: Points) -> dict[Hashable, Curvature]:
    """Ask sites for their answers; gives what these tell of each.

    Parameters
    ----------
    compiled : Decomposition
    own : dict
        Client -> its minimiser, (m,); NaN where it has none.
    there : dict
        Client -> where the others are, (m,).
    """
    shared = _Shared(compiled, own)
    whole, halves = _answers(shared, own, there)
    stiff = _mean(whole.stiffness(shared), halves.stiffness(shared))
    sharp = halves.stiffness(shared)
    reach = halves.reach(shared)
    found = {}
    for name, places in shared.places.items():
        is_angular = shared.clients[name].is_angular
        secant, mine = (halves, sharp[places]) if is_angular else (whole, stiff[places])
        share = 1.0 if np.isnan(own[name]).any() else secant.share(name, mine)
        bent = np.clip(share, 1 / UNEQUAL, UNEQUAL) * mine
        nothing, kinks = np.zeros(bent.size), bent * reach[places] / 2
        found[name] = Curvature.secant(*((nothing, kinks) if is_angular else (bent, nothing)))
    return found


def _mean(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The geometric mean, or what there is where one is zero."""
    return np.where((one > 0) & (other > 0), np.sqrt(one * other), np.maximum(one, other))


class _Shared:
    """The entries of all variables that sites share.

    Attributes
    ----------
    clients, places : dict
        Client -> it, and the number of each of its entries.
    """

    def __init__(self, compiled: Decomposition, names: Mapping[Hashable, object]) -> None:
        self.clients: dict[Hashable, RemoteClient] = {}
        self.places: Points = {}
        self.size, starts = 0, dict[str, int]()
        for name in names:
            sub, places = compiled[name], []
            assert isinstance(sub.client, RemoteClient)
            for v in sub.variables:
                if v.name() not in starts:
                    starts[v.name()], self.size = self.size, self.size + v.size
                places.append(starts[v.name()] + np.arange(v.size))
            self.clients[name], self.places[name] = sub.client, np.concatenate(places)

    def sums(self, given: Points) -> np.ndarray:
        """The sums over clients, entry by entry."""
        found = np.zeros(self.size)
        for name, one in given.items():
            np.add.at(found, self.places[name], one)
        return found


class _Secant(NamedTuple):
    """Client -> the way from its minimiser to an answer, and the price of the answer."""

    ways: Points
    prices: Points

    def stiffness(self, shared: _Shared) -> np.ndarray:
        """Prices for ways, over all clients; zero where nobody has moved."""
        ways, prices = (shared.sums({n: x**2 for n, x in each.items()}) for each in self)
        return np.sqrt(np.divide(prices, ways, out=np.zeros(shared.size), where=ways > 0))

    def reach(self, shared: _Shared) -> np.ndarray:
        """The length of the ways, over all clients."""
        users = shared.sums({name: np.ones(way.size) for name, way in self.ways.items()})
        return np.sqrt(shared.sums({n: x**2 for n, x in self.ways.items()}) / users)

    def share(self, name: Hashable, stiff: np.ndarray) -> float:
        """How many times as stiff a client is."""
        energy = float(stiff @ self.ways[name] ** 2)
        return float(self.prices[name] @ self.ways[name]) / energy if energy > 0 else 1.0


def _answers(shared: _Shared, own: Points, there: Points) -> tuple[_Secant, _Secant]:
    """The whole way, and the halves of which each entry takes the one in which it was moved."""
    begun = {name: np.where(np.isnan(own[name]), at, own[name]) for name, at in there.items()}
    apart = shared.sums({name: (begun[name] - at) ** 2 for name, at in there.items()})
    apart = np.where(apart > 0, apart, apart.max(initial=0.0) or 1.0)
    first = np.random.default_rng(0).permutation(shared.size) % 2 == 0
    waiting = {}
    for name, at in there.items():
        half, weights = first[shared.places[name]], 1 / apart[shared.places[name]]
        told = np.where([half | ~half, half, ~half], at, begun[name])
        waiting[name] = shared.clients[name].question("answer", told=told, weights=weights)
    whole, halves = _Secant({}, {}), _Secant({}, {})
    for name, wait in waiting.items():
        answer, half = wait(), first[shared.places[name]]
        moved = there[name] != begun[name]  # else what there is is rounding
        ways = np.where(moved, np.nan_to_num(answer["point"] - begun[name]), 0.0)
        prices = np.where(moved, np.nan_to_num(answer["price"]), 0.0)
        whole.ways[name], whole.prices[name] = ways[0], prices[0]
        halves.ways[name] = np.where(half, ways[1], ways[2])
        halves.prices[name] = np.where(half, prices[1], prices[2])
    return whole, halves
