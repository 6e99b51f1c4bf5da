"""Participation strategies: the subset of clients solved in an inner loop (Section V-A)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dald_model.errors import SequenceError
from dald_model.schedule.checks import check_fairness
from dald_model.schedule.network import HierarchicalNetwork, Levels
from dald_model.schedule.round_state import Moment
from dald_model.validate import check_clients

Chooser = Callable[[Moment, np.random.Generator], Iterable[Hashable]]
"""A user's function: the clients of the next inner loop, in any order."""


class Strategy:
    """The choice of the clients of an inner loop.

    ``name`` and ``label`` are what tables call it, and ``known`` is what is known of its
    convergence; ``per_loop`` is how many clients an inner loop solves, about, and None where it
    solves them all.
    """

    name: ClassVar[str]
    known: ClassVar[str]

    @property
    def label(self) -> str:
        """See the class."""
        return self.name

    @property
    def per_loop(self) -> int | None:
        """See the class."""
        return None

    def check(self, network: HierarchicalNetwork) -> None:
        """Refuse names that the network does not have."""

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        """The stages of one inner loop: clients of a stage are solved side by side."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Counted(Strategy):
    """So many clients an inner loop."""

    k: int

    @property
    def label(self) -> str:
        return f"{self.name} {self.k}"

    @property
    def per_loop(self) -> int | None:
        return self.k


KNOWN_OF_ALL = (
    "every limit point of an inner loop minimises the augmented Lagrangian (Theorem 1); with one "
    "sweep per multiplier update the run converges on every graph in every order, if clients are "
    "convex and minimised exactly, for dual steps up to 1, from the round where rho stays fixed "
    "(see dald_model.coordinate.convergence; with two colours it is two-block ADMM)"
)


@dataclass(frozen=True)
class Everybody(Strategy):
    """Full cycle: every client in each inner loop, in the order of the network."""

    name, known = "full cycle", KNOWN_OF_ALL

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        return alive(network, moment)


@dataclass(frozen=True)
class Jacobi(Strategy):
    """Jacobi coordination: everybody at once, with the others' values of the round before."""

    name = "Jacobi"
    known = (
        "the form of (60): for gradient steps that are short enough, as in DGD (57); exact "
        "minimisation side by side diverges where multipliers follow after few sweeps, by a factor "
        "of up to 2.41 a sweep (see dald_model.coordinate.convergence): take an order, or inner "
        "loops that end by a tolerance"
    )

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        return [list(moment.live)]


@dataclass(frozen=True)
class Participation(Strategy):
    """Partial participation: ``k`` clients drawn with equal probability, and every server.

    A client that does not take part stays out until it is drawn again: no full cycle closes an
    outer loop, and the multipliers of its edges stay. So of two clients that agree peer to peer
    both must be drawn for their multiplier to move, and ``k`` must be 2 at least.
    """

    k: int
    seed: int
    at_once: bool = False

    name = "participating"
    known = (
        "all clients are drawn with the same positive probability (Remark 1); with a server and "
        "multipliers it is ADMM with random activation, which converges almost surely to the "
        "optimum (Wei and Ozdaglar 2013), without them a stochastic method, which does not at a "
        "constant step; peer to peer the multiplier of an edge moves only where both of its "
        "clients are drawn together, of which nothing is proved, and with one client never"
    )

    @property
    def label(self) -> str:
        return f"{self.k} participating"

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        names = [name for name in moment.live if name not in moment.servers]
        generator = np.random.default_rng((self.seed, moment.round))
        picked = generator.choice(len(names), size=min(self.k, len(names)), replace=False)
        chosen = [names[i] for i in sorted(picked)]
        return [chosen] if self.at_once else only(network, moment, [*chosen, *moment.servers])


@dataclass(frozen=True)
class Given(Strategy):
    """Partial cycle: given subsets in turn, the first in the first inner loop."""

    subsets: tuple[tuple[Hashable, ...], ...]
    where: str = "partial"

    name = "partial"
    known = (
        "who stands in no subset is solved only by the full cycle that closes an outer loop, so "
        "Theorem 1 holds as soon as the subsets together are everybody (Remark 1)"
    )

    @property
    def label(self) -> str:
        return "partial " + " / ".join(",".join(map(str, subset)) for subset in self.subsets)

    @property
    def per_loop(self) -> int:
        return max(1, round(float(np.mean([len(subset) for subset in self.subsets]))))

    def check(self, network: HierarchicalNetwork) -> None:
        names = [name for subset in self.subsets for name in subset]
        check_clients("sequence: ", names, network, SequenceError, f" in {self.where}")

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        return only(network, moment, self.subsets[(moment.inner - 1) % len(self.subsets)])


@dataclass(frozen=True)
class Random(_Counted):
    """Partial cycle: ``k`` clients drawn with equal probability."""

    seed: int

    name = "random"
    known = (
        "all clients are drawn with the same positive probability, so each is solved infinitely "
        "often with probability 1, which is what Remark 1 asks; the inner loop is then randomised "
        "block descent, which converges almost surely (Razaviyayn, Hong and Luo 2013)"
    )

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        names, generator = moment.live, np.random.default_rng((self.seed, moment.round))
        picked = generator.choice(len(names), size=min(self.k, len(names)), replace=False)
        return only(network, moment, [names[i] for i in picked])


@dataclass(frozen=True)
class EssentiallyCyclic(_Counted):
    """Partial cycle: ``k`` clients a loop, dealt from a pack that is shuffled when it is empty."""

    seed: int

    name = "essentially cyclic"
    known = (
        "with T = ceil(n/k) everybody is solved at least once in any 2T - 1 loops: the essentially "
        "cyclic rule, under which block descent converges surely, not only with probability 1 "
        "(Tseng 2001)"
    )

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        pack, deal = divmod(moment.round - 1, -(-len(network) // self.k))
        names = list(network)  # also of those who left: the pack must not depend on them
        order = np.random.default_rng((self.seed, pack)).permutation(len(names))
        dealt = order[deal * self.k : (deal + 1) * self.k]
        return only(network, moment, [names[i] for i in dealt])


@dataclass(frozen=True)
class Greedy(_Counted):
    """Partial cycle: the ``k`` clients whose neighbours have moved most since their turn."""

    name = "greedy"
    known = (
        "everybody is considered in each loop (Remark 1), those with the largest residual are "
        "taken; of smooth strongly convex clients the largest residual alone converges linearly "
        "(Nutini et al. 2015), else the closing full cycles are what is known to help"
    )

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        ranked = sorted(moment.live, key=lambda name: -moment.staleness[name])
        return only(network, moment, ranked[: self.k])


@dataclass(frozen=True)
class Custom(Strategy):
    """Partial cycle: clients chosen by a user's function."""

    choose: Chooser
    called: str
    seed: int

    known = "checked by draws: everybody is considered with equal probability (Remark 1)"

    @property
    def label(self) -> str:
        return self.called

    @property
    def per_loop(self) -> int:
        """See :class:`Strategy`: one at least."""
        return 1

    def check(self, network: HierarchicalNetwork) -> None:
        """See :class:`Strategy`; also that everybody is considered alike."""
        check_fairness(self.label, list(network), lambda moment: self._names(network, moment))

    def stages(self, network: HierarchicalNetwork, moment: Moment) -> Levels:
        return only(network, moment, self._names(network, moment))

    def _names(self, network: HierarchicalNetwork, moment: Moment) -> list[Hashable]:
        found: Any = self.choose(moment, np.random.default_rng((self.seed, moment.round)))
        if isinstance(found, str) or not isinstance(found, Iterable):
            raise SequenceError(
                f"{self.label}: the function returned {found!r}, expected a list of clients"
            )
        names = list(found)
        check_clients("sequence: ", names, network, SequenceError, f" in {self.label}")
        return names


def alive(network: HierarchicalNetwork, moment: Moment) -> Levels:
    """The levels of a network, without those who left."""
    return network.levels if moment.everybody else only(network, moment, moment.live)


def only(network: HierarchicalNetwork, moment: Moment, names: Iterable[Hashable]) -> Levels:
    """The levels of a network, of some names and of these only who is there."""
    chosen = set(names) if moment.everybody else set(names) & set(moment.live)
    stages = [[name for name in level if name in chosen] for level in network.levels]
    return [stage for stage in stages if stage]
