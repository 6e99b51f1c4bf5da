"""The star of a server and its clients, as server algorithms need it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.errors import OptionError, TopologyError
from dald_model.solvers.arrays.augmented import copies


@dataclass(frozen=True)
class Star:
    """Clients that share all their variables through one server.

    Attributes
    ----------
    server : Hashable
    clients : list
        Without the server.
    """

    compiled: Decomposition
    server: Hashable
    clients: list[Hashable]

    @classmethod
    def of(cls, compiled: Decomposition, who: str, *, projects: bool = False) -> Star:
        """Read a model as a star, whose server only averages unless the method ``projects``.

        Raises
        ------
        OptionError
            If it has no server or several, or a client that has a variable of its own, or agrees
            on something else than its variables.
        """
        if len(compiled.servers) != 1:
            raise TopologyError(
                f"algorithm: {who} is for clients that share their variables through one server, "
                f"but {compiled.model.name!r} has {len(compiled.servers)} servers; use one "
                "cp.Variable in all clients, without a graph, ask for a server by "
                'model.topology("server"), or declare one: model.consensus(z == x)'
            )
        server = compiled.servers[0]
        is_whole = compiled.form.common.cost is None
        if server not in compiled.averages and not (projects and is_whole):
            raise TopologyError(
                f"algorithm: {who} is for a server that only averages, but {server!r} holds what "
                'the clients have in common; ask for one by model.topology("server")'
            )
        clients = [name for name in compiled if name != server]
        for name in clients:
            if set(compiled.graph[name]) != {server} or not is_copy(compiled[name]):
                raise OptionError(
                    f"algorithm: {who} needs client {name!r} to share all its variables with the "
                    f"server {server!r} and with nobody else, entry by entry; it has private "
                    "variables, another neighbour or a consensus of other expressions; DALD and "
                    "ConsensusADMM take it"
                )
        return cls(compiled, server, clients)

    def require(self, who: str, reason: Callable[[Subproblem], str]) -> None:
        """Refuse clients for which ``reason`` is not empty.

        Raises
        ------
        OptionError
            Naming the first and what is in the way.
        """
        require(self.compiled, self.clients, who, reason)


def require(
    compiled: Decomposition, clients: list[Hashable], who: str, reason: Callable[[Subproblem], str]
) -> None:
    """See :meth:`Star.require`."""
    for name in clients:
        why = reason(compiled[name])
        if why:
            raise OptionError(
                f"algorithm: {who} cannot take client {name!r}: {why}; choose an algorithm that "
                "minimises clients exactly, such as DALD, ConsensusADMM or FedProx, or one with "
                "proximal steps, such as BCPG"
            )


def is_copy(sub: Subproblem) -> bool:
    """Whether the sides of a client's edges are its variables, each entry once and nothing else."""
    return copies(sub, is_ordered=False) == 1


def is_identity(sub: Subproblem) -> bool:
    """Whether every edge of a client is about all its variables, entry by entry."""
    return copies(sub, is_ordered=False) == len(sub.others)
