r"""Curvature of clients at sites, by secants between their answers.

A site tells nothing but answers. Besides its own minimiser :math:`x^0` it is asked for three: held
nearer to where the others are, all of it, one half of its entries, and the other half. With d the
way of such an answer x from :math:`x^0` and :math:`g = 2 c w \circ (t - x)` the gradient there, of
which the site tells c alone, entry k of a variable is as stiff as

.. math:: h_k = \sqrt{\sum\nolimits_i g_{ik}^2 \Big/ \sum\nolimits_i d_{ik}^2}

over the clients i that share it, and client i is :math:`g_i^\top d_i / \sum_l h_l d_{il}^2` times
as stiff. The way to the others leads along valleys of the objective, where it is too soft, and
halves that are drawn at random seldom do; but halves may lead out of the constraints, where it is
too stiff. So of both the geometric mean counts, and of clients with kinks, for which too soft costs
many times the rounds of too stiff, the halves: as a kink of steepness :math:`h_k d_k / 2`.

None of this can be proved, and the run takes what is small beside it for zero. So of three sites or
more none decides: what one says of lengths or stiffness counts at most ``UNEQUAL`` times what is
usual among them. And who answers as no convex function does is refused by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.scaling.curvature import Curvature
from dald_model.declare.remote import RemoteClient
from dald_model.engines.convexity import is_outside
from dald_model.errors import LostError

UNEQUAL = 100.0
"""How many times stiffer or softer a site may be than all sites that share its variables, and its
minimiser farther away than is usual: a scale that is wrong by as much costs at most 1.12 times the
rounds."""
ROUNDED_SQUARE = 1e-16
"""Share of the largest square of a distance from which on another one is rounding: sites are held
where they are then, as strongly as where they are farthest apart."""
SITES_OF_A_MEDIAN = 3
"""Sites of which the median is not what one of them says."""
Points = dict[Hashable, np.ndarray]


def moderated(compiled: Decomposition, own: Points) -> Points:
    """The minimisers of sites, those beyond ``UNEQUAL`` of the usual distance moved to there.

    That is the median of the distances from the median of an entry, or where that is zero the
    largest of its variable. Sites without a minimiser, NaN, have no say.
    """
    found = {name: point.copy() for name, point in own.items()}
    for columns in _Shared(compiled, own).columns.values():
        known = {name: at for name, at in columns.items() if not np.isnan(own[name]).any()}
        if len(known) < SITES_OF_A_MEDIAN:
            continue
        points = np.array([own[name][at] for name, at in known.items()])
        middle = np.median(points, axis=0)
        usual = np.median(np.abs(points - middle), axis=0)
        most = UNEQUAL * np.where(usual > 0, usual, usual.max())
        if most.any():
            for name, at in known.items():
                found[name][at] = np.clip(found[name][at], middle - most, middle + most)
    return found


def secants(
    compiled: Decomposition, own: Points, there: Points, minimisers: Points
) -> dict[Hashable, Curvature]:
    """Ask sites for their answers; gives what these tell of each.

    Parameters
    ----------
    compiled : Decomposition
    own : dict
        Client -> its minimiser, (m,); NaN where it has none.
    there : dict
        Client -> where the others are, (m,).
    minimisers : dict
        As ``own`` before they were :func:`moderated`: those that were moved say nothing of
        stiffness.

    Raises
    ------
    LostError
        If answers are not those of a convex function.
    """
    shared = _Shared(compiled, own)
    whole, halves = _answers(shared, own, there, minimisers)
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
    columns : dict
        Variable -> client -> where it is in the client's point.
    """

    def __init__(self, compiled: Decomposition, names: Mapping[Hashable, object]) -> None:
        self.clients: dict[Hashable, RemoteClient] = {}
        self.places: Points = {}
        self.columns: dict[str, dict[Hashable, slice]] = {}
        self.size, starts = 0, dict[str, int]()
        for name in names:
            client, places, begin = compiled[name].client, [], 0
            assert isinstance(client, RemoteClient)
            for v, called in zip(client.variables, client.names, strict=True):
                if called not in starts:
                    starts[called], self.size = self.size, self.size + v.size
                places.append(starts[called] + np.arange(v.size))
                mine = self.columns.setdefault(called, {})
                mine[name], begin = slice(begin, begin + v.size), begin + v.size
            self.clients[name], self.places[name] = client, np.concatenate(places)

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


def _answers(
    shared: _Shared, own: Points, there: Points, minimisers: Points
) -> tuple[_Secant, _Secant]:
    """The whole way, and the halves of which each entry takes the one in which it was moved."""
    begun = {name: np.where(np.isnan(own[name]), at, own[name]) for name, at in there.items()}
    apart = shared.sums({name: (begun[name] - at) ** 2 for name, at in there.items()})
    apart = apart / (apart.max(initial=0.0) or 1.0)
    apart = np.where(apart > ROUNDED_SQUARE, apart, 1.0)
    first = np.random.default_rng(0).permutation(shared.size) % 2 == 0
    waiting, asked = {}, {}
    for name, at in there.items():
        half, weights = first[shared.places[name]], 1 / apart[shared.places[name]]
        told = np.where([half | ~half, half, ~half], at, begun[name])
        asked[name] = told, weights
        waiting[name] = shared.clients[name].question("answer", told=told, weights=weights)
    answers = {name: wait() for name, wait in waiting.items()}
    factors = _moderate(np.array([answer["factor"] for answer in answers.values()]))
    whole, halves = _Secant({}, {}), _Secant({}, {})
    for (name, answer), factor in zip(answers.items(), factors, strict=True):
        (told, weights), half = asked[name], first[shared.places[name]]
        if is_outside(minimisers[name], told, weights, answer["point"]):
            raise LostError(
                f"engine: {name!r} gave answers before round 1 that are not those of one convex "
                "function: held nearer to other sites it went away from them; see that it runs "
                "with this version of dald_model and that its data stay the same"
            )
        is_its = np.array_equal(minimisers[name], own[name], equal_nan=True)
        moved = is_its & (there[name] != begun[name])  # else what there is is rounding
        prices = 2 * factor[:, None] * weights * (told - answer["point"])
        ways = np.where(moved, np.nan_to_num(answer["point"] - begun[name]), 0.0)
        prices = np.where(moved, np.nan_to_num(prices), 0.0)
        whole.ways[name], whole.prices[name] = ways[0], prices[0]
        halves.ways[name] = np.where(half, ways[1], ways[2])
        halves.prices[name] = np.where(half, prices[1], prices[2])
    return whole, halves


def _moderate(factors: np.ndarray) -> np.ndarray:
    """How strongly sites were held, (sites, 3), none ``UNEQUAL`` times more or less than usual."""
    is_known = ~np.isnan(factors).any(axis=1)
    if is_known.sum() < SITES_OF_A_MEDIAN:
        return factors
    usual = np.median(factors[is_known], axis=0)
    return np.clip(factors, usual / UNEQUAL, usual * UNEQUAL)
