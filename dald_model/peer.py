"""Peer: one process's part of a model that has no centre."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, NoReturn, Self

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model.answer.result import Result
from dald_model.coordinate.acceleration.anderson import Anderson
from dald_model.coordinate.peers import AmongPeers
from dald_model.coordinate.status import Status
from dald_model.coordinate.stopping import FixedBudget
from dald_model.declare.checked import check_name
from dald_model.declare.remote import Neighbour, neighbour
from dald_model.declare.wording import short
from dald_model.engines.mpi_ranks import Peers
from dald_model.errors import DeclarationError, DisconnectedError, OptionError
from dald_model.model import Model
from dald_model.schedule.network import HierarchicalNetwork, part_of, safest
from dald_model.schedule.sequence import Sequence
from dald_model.text import listed, parted

GIVEN = (
    "rho",
    "stopping",
    "acceleration",
    "solver",
    "accuracy",
    "eps_pri",
    "eps_dual",
    "max_rounds",
    "start",
)
"""Options of a solve that mean something in a process which has a part of the model."""


class Peer(Model):
    r"""The part of a model that is in this process of an MPI job, where none coordinates.

    Every rank declares its own clients, with its own data, and which of them agree with clients of
    other ranks; then all solve together, each in the same one loop as ever over its part:

    .. math:: \min_{x} \sum_{i} f_i(x_i) \quad \text{s.t. } x_i \in X_i, \;
        G_{ij} x_i + g_{ij} = G_{ji} x_j + g_{ji}

    After each stage of a round neighbours tell each other where their sides of an edge are, and
    nobody else. The loop decides by norms, sums and flags over all ranks (Allreduce).
    So a rank holds its clients, their edges and the names of all clients, and nobody has the state
    of the whole; a round sends the entries of an edge between ranks once each way. Iterates are
    those of one process with the same ``rho``, ``stopping`` and ``acceleration``.

    There is no coordinator who could measure or learn: residuals and accuracies are in the units
    of the variables; runs begin at zero with penalties of one, which are balanced. So scale
    variables and objectives to about one. By default prices are updated every round, accelerated by
    :class:`Anderson`. Given may be ``rho``, ``stopping``, ``acceleration`` (that one, or None),
    ``solver``, ``accuracy``, ``eps_pri``, ``eps_dual``, ``max_rounds`` and ``start``, the same at
    all ranks.

    Printed and explained is this part by itself. Whether clients can agree at all is not proved:
    who cannot end "stalled", or at the round limit. A client that fails ends the run of all ranks.
    A rank that dies ends the job, as ``-m mpi4py`` has it end where others would wait for ever;
    there are no checkpoints, but ``result.save`` at each rank and ``start=dm.load(path, peer)``.

    Parameters
    ----------
    name : str

    Attributes
    ----------
    rank, size : int
        The number of this rank, from 0, and how many there are.

    Raises
    ------
    OptionError
        If mpi4py is not installed.

    Examples
    --------
    A script that is started by ``mpiexec -n 4 python -m mpi4py SCRIPT``, one number at each rank:

    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> def ring():
    ...     peer, x = dm.Peer("ring"), cp.Variable(name="x")
    ...     peer.client(peer.rank, cp.square(x - peer.rank))
    ...     for other in {(peer.rank + step) % peer.size for step in (-1, 1)} - {peer.rank}:
    ...         peer.agree_with(other, x)
    ...     return peer
    >>> print(ring().solve().status)  # doctest: +SKIP
    optimal
    """

    def __init__(self, name: str = "peer") -> None:
        super().__init__(name)
        self._peers = Peers()
        self.rank, self.size = self._peers.rank, self._peers.size
        self.may_part = True  # they may hang together by others
        self._edges: dict[Hashable, dict[Hashable, list[cp.Variable]]] = {}

    def agree_with(self, other: Hashable, *sides: Any) -> None:
        """Declare that a client of this rank agrees with one of another, which declares it, too.

        Parameters
        ----------
        other : Hashable
            The other client's name.
        *sides : cp.Expression
            Affine expressions in the variables of one client of this rank. The other rank has as
            many, of the same shapes, in the same order.

        Raises
        ------
        DeclarationError
            If ``other`` is a client of this rank, or a side is none.
        """
        check_name(other)
        if other in self.clients and not isinstance(self.clients[other], Neighbour):
            raise DeclarationError(
                f"agree_with: {other!r} is a client of this process; expected one of another; take "
                "consensus(x == y)"
            )
        given = [cp.Expression.cast_to_const(side) for side in sides]
        for owner, side in [(self._owner(side), side) for side in given]:  # all or none
            mine = self._edges.setdefault(other, {}).setdefault(owner, [])
            there = cp.Variable(side.shape, name=f"{other} for {owner}, {len(mine) + 1}")
            mine.append(there)
            self._owners[there.id] = [other]
            held = [v for each in self._edges[other].values() for v in each]
            self._clients[other] = neighbour(other, held)
            self.consensus(side == there)

    def _owner(self, side: cp.Expression) -> Hashable:
        """The client of this process whose variables a side is in."""
        owners = {name for v in side.variables() for name in self._owners.get(v.id, ())}
        if len(owners) != 1 or not side.is_affine():
            raise DeclarationError(
                f"agree_with: given {short(side)}, expected an affine expression in the variables "
                "of one client of this process; declare the client first"
            )
        return owners.pop()

    def solve(self, **options: Any) -> Any:
        """See :meth:`Model.solve`, with the options that the class names; all ranks call it.

        Returns
        -------
        Result
            With the variables of this rank, and the ``value`` of the whole.

        Raises
        ------
        OptionError
            If another option is given, or ranks were given different ones.
        DeclarationError
            If two ranks have a client of one name, or do not declare the same of an edge.
        DisconnectedError
            If not all clients of all ranks hang together.
        """
        for option, given in options.items():
            if option not in GIVEN:
                raise OptionError(
                    f"{option}: given {given!r} in a process that has a part of the model, "
                    f"expected options among {listed(GIVEN)}; solve the whole model in one "
                    "process, or with an engine such as dm.engines.MPI()"
                )
        if isinstance(options.get("rho"), Mapping | np.ndarray | list | tuple):
            raise OptionError(
                f"rho: given {options['rho']!r} in a process that has a part of the model, "
                "expected a number or dm.ResidualBalancing(), which mean the same at all ranks"
            )
        if not isinstance(options.get("acceleration"), Anderson | None):
            raise OptionError(
                f"acceleration: given {options['acceleration']!r}, which learns of single clients "
                "what no process knows of all, expected dm.Anderson(), or None"
            )
        among, order = self._meet(options)
        sequence = Sequence("by colour", partial(part_of, order))
        mixes = Anderson() if "stopping" not in options else None
        options = {"stopping": FixedBudget(1), "acceleration": mixes} | options
        options |= {"engine": among, "sequence": sequence}
        result = super().solve(**options)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # which ends the job: others wait for this rank
        result.value = among.sum(result.value)
        return result

    def couple(self, *given: Any, **options: Any) -> NoReturn:
        """Refused: a coupling would be a centre to its clients.

        Raises
        ------
        DeclarationError
        """
        raise DeclarationError(
            f"{self.name!r}: couplings are not supported among processes, expected consensus; "
            "declare the whole model in one process, or for an engine such as dm.engines.MPI()"
        )

    def _meet(self, options: dict[str, Any]) -> tuple[AmongPeers, HierarchicalNetwork]:
        """Learn who is where and who meets whom; gives also the order of all."""
        compiled = self.compile()
        said = self._said(options)
        told = [ast.literal_eval(one.decode()) for one in self._peers.gathered(said)]
        owners: dict[Hashable, int] = {}
        for rank, (names, _, given) in enumerate(told):
            if given != told[0][2]:
                raise OptionError(
                    f"peer: ranks 0 and {rank} were given the options {told[0][2]} and {given}, "
                    "expected the same at all"
                )
            for name in names:
                if name in owners:
                    raise DeclarationError(
                        f"peer: ranks {owners[name]} and {rank} both have a client {name!r}, "
                        "expected a name of its own for each client"
                    )
                owners[name] = rank
        declared = {(one, other): shapes for _, edges, _ in told for one, other, shapes in edges}
        for (one, other), shapes in declared.items():
            at, there = owners[one], owners.get(other)
            same = declared.get((other, one), []) if there not in (at, None) else shapes
            if there is None or same != shapes:
                raise DeclarationError(
                    f"peer: client {one!r} of rank {at} agrees with {other!r} on the shapes "
                    f"{shapes}, but "
                    + ("no rank has that client" if there is None else f"{other!r} on {same}")
                    + "; expected the same at both, in the same order"
                )
        places = {name: at for at, name in enumerate(owners)}
        graph = nx.Graph()  # in an order that does not depend on who is where
        graph.add_nodes_from(owners)
        for one, other in sorted(
            declared, key=lambda ends: sorted((places[ends[0]], places[ends[1]]))
        ):
            graph.add_edge(one, other)
        pieces = list(nx.connected_components(graph))
        if len(pieces) > 1:
            raise DisconnectedError(
                f"peer: the clients of all ranks fall into {len(pieces)} parts: {parted(pieces)}; "
                "expected one connected graph (Remark 1 of the paper); add agree_with between them"
            )
        return AmongPeers(self._peers, compiled, owners), safest(graph)

    def _said(self, options: dict[str, Any]) -> bytes:
        """Clients of this rank, what each agrees on with whom, and options, as others read it."""
        compiled, names, edges = self.compile(), [], []
        for name, sub in compiled.items():
            if not isinstance(sub.client, Neighbour):
                names.append(name)
        for edge in compiled.edges:
            one, other = edge.ends
            if isinstance(compiled[one].client, Neighbour):
                one, other = other, one
            edges.append((one, other, [side.shape for side in edge.given(one)]))
        given = {key: _named(value) for key, value in sorted(options.items()) if key != "solver"}
        said = repr((names, edges, given))
        try:
            ast.literal_eval(said)
        except (SyntaxError, ValueError) as error:
            raise DeclarationError(
                f"peer: the names of clients {listed(names)} mean nothing in another process, "
                "expected text, numbers, or tuples of these"
            ) from error
        return said.encode()

    def _anew(self) -> Self:
        """A copy is of the same ranks."""
        found = super()._anew()
        found._edges = {name: dict(mine) for name, mine in self._edges.items()}
        return found


def _named(value: Any) -> str:
    """An option as ranks can compare it."""
    is_plain = isinstance(value, int | float) or is_dataclass(value)
    return repr(value) if is_plain and not isinstance(value, Result) else type(value).__name__
