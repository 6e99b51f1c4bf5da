"""Choice of the host at which each client is solved."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import RemoteClient
from dald_model.engines.placement import Placement
from dald_model.errors import OptionError
from dald_model.solvers.base import Solver
from dald_model.solvers.registry import NUMERICAL


def homes(
    compiled: Decomposition,
    chains: Mapping[Hashable, Sequence[Solver]],
    alike: Mapping[Hashable, Hashable],
    placement: Placement,
) -> dict[Hashable, int]:
    """Client -> the number of its host, of those who have one.

    Parameters
    ----------
    compiled : Decomposition
    chains : dict
        Client -> its solvers, in the order they are tried.
    alike : dict
        Client -> what the clients of a session have in common.
    placement : Placement

    Raises
    ------
    OptionError
        If nobody has.
    """
    sites = {
        name: sub.client.host
        for name, sub in compiled.items()
        if isinstance(sub.client, RemoteClient)
    }
    if sites:
        return sites
    levels = []
    for level in compiled.network.levels:
        groups: dict[Hashable, list[Subproblem]] = {}
        for name in level:
            sub = compiled[name]
            if chains[name][0] in NUMERICAL and not obstacle(sub):
                groups.setdefault(alike[name], []).append(sub)
        levels.append(list(groups.values()))
    if not any(levels):
        name = next(iter(compiled))
        why = obstacle(compiled[name]) or f"its solver is {chains[name][0].name!r}"
        raise OptionError(
            f"engine: no client can be solved elsewhere, {name!r} because {why}; expected one "
            f"with a solver among {', '.join(repr(one.name) for one in NUMERICAL)}; leave "
            "engine out"
        )
    return placement.homes(levels)


def obstacle(sub: Subproblem) -> str:
    """Why a client cannot be solved elsewhere; empty if it can."""
    if sub.client.is_hub:
        return "it is a server, which has no data"
    if sub.client.is_coupling:
        return "it is a coupling, which has no data"
    return "" if sub.form is not None else "cvxpy's canonical form of it could not be read"
