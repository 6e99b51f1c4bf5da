"""The declaration of a model: clients, consensus equalities and topology, checked at once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Self

from dald_model.declare.alike import Clients
from dald_model.declare.by_entry import Owning, by_entry
from dald_model.declare.checked import check_name, declare_client
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, check_sides, read_equality
from dald_model.declare.couplings import Coupling, declare_coupling, fresh
from dald_model.declare.declared import Declared
from dald_model.declare.topology import checked_topology, rings
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import nx
from dald_model.validate import check_flag


class Declaration(Declared):
    r"""Clients, each with an objective and constraints, and the consensus between them.

    .. math::
        \min_{x_1, \dots, x_n} \sum_{i=1}^n f_i(x_i)
        \quad \text{s.t. } x_i \in X_i, \;
        G_{ij} x_i + g_{ij} = G_{ji} x_j + g_{ji} \text{ for every edge } (i, j)

    which is the paper's problem (8) where a server agrees with everybody and (16) where clients
    agree with their neighbours.

    Parameters
    ----------
    name : str
        What tables and messages call the model.
    """

    def __init__(self, name: str = "model") -> None:
        super().__init__(name)
        self._others: dict[str, Self] = {}  # over other topologies

    @property
    def clients(self) -> Clients:
        """The declared clients by name, in order of declaration; servers are not among them.

        Called, it declares many that are alike: ``model.clients(frame.groupby("school"), lambda
        rows: ...)``, see :class:`dald_model.declare.alike.Clients`.
        """
        return Clients(self._clients, self)

    def client(
        self,
        name: Hashable,
        objective: Any,
        constraints: Iterable[Any] = (),
        *,
        nonconvex: bool = False,
    ) -> Client:
        """Declare a client.

        Parameters
        ----------
        name : Hashable
            Any networkx node: what messages, results and graphs call the client.
        objective : cp.Minimize, cp.Maximize or scalar cp.Expression
            The client's share of the objective; a bare expression is minimised.
        constraints : iterable of cvxpy constraints
            The client's own constraints.
        nonconvex : bool
            Whether objective and constraints need not be convex: smooth non-linear expressions by
            cvxpy's DNLP rules. The model then ends "stationary", see
            :mod:`dald_model.answer.stationarity`; it starts at the variables' ``value``. Needs the
            extra ``nonconvex``.

        Returns
        -------
        Client

        Raises
        ------
        DeclarationError
            If the name is taken, the objective or a constraint is not DCP, a variable is
            complex, boolean or integer, or the data hold NaN or inf.
        MissingError
            If ``nonconvex`` is True and no solver of non-linear programs is installed.

        Examples
        --------
        >>> import cvxpy as cp
        >>> import dald_model as dm
        >>> x, model = cp.Variable(2, name="x"), dm.Model("hospitals")
        >>> model.client("hospital 0", cp.norm1(x - [1, 2]), [x >= 0, cp.sum(x) <= 1])
        Client 'hospital 0': minimize norm1(x - [2]) over x[2], 2 constraints
        """
        check_name(name)
        self._check_new(name, "client")
        check_flag(f"client {name!r}: given nonconvex=", nonconvex)
        client = declare_client(name, objective, constraints, nonconvex)
        self.enter([client])
        return client

    def enter(self, clients: Iterable[Client]) -> None:
        """Declare clients that were checked by themselves; users call :meth:`client`.

        Raises
        ------
        DeclarationError
            If a name is taken, or a consensus equality would mix clients; then none is declared.
        """
        entered = list(clients)
        for client in entered:
            self._check_new(client.name, "client")
        used = [(v.id, client.name) for client in entered for v in client.variables]
        touched = {id(a): a for key, _ in used for a in self._standing.get(key, ())}
        if touched:
            mine = {key: list(self._owners.get(key, ())) for key, _ in used}
            for key, name in used:
                mine[key].append(name)
            owners = ChainMap(mine, self._owners)
            users_of = None
            if any(len(names) > 1 for names in mine.values()):
                among = self._clients | {client.name: client for client in entered}
                users_of = Owning(by_entry(among, self._couplings, self._agreements), owners)
            for agreement in touched.values():
                check_sides(agreement, owners, users_of)
        for key, name in used:
            self._owners.setdefault(key, []).append(name)
        self._clients |= {client.name: client for client in entered}
        self._changed()

    def couple(
        self,
        *given: Any,
        objective: Any = None,
        constraints: Iterable[Any] = (),
        name: Hashable = None,
    ) -> Coupling:
        """Declare a coupling: any DCP constraints and objective over variables of several clients.

        ``model.couple(cp.sum(cp.hstack(x)) == demand)`` is a market, whose price is the dual value
        of the equality; budgets, cones and objectives on edges are written alike. A coupling is
        solved like a client, without data: each party shares the affine part that is needed of
        it, and of a loss of its own, as in ``loss <= t``, a bound. What nobody else uses, such as
        this ``t``, belongs to the coupling.

        Personalised models are of these too: ``model.couple(objective=weight * cp.norm(w0 - w1))``
        is soft consensus of two clients; of more take a coupling for each pair, as one norm is
        solved in closed form and a sum of them is not. With a variable that all use no coupling is
        needed: a client adds ``weight * cp.sum_squares(mine - shared)`` to its objective, or has
        ``shared + mine`` in it.

        Parameters
        ----------
        *given : cvxpy constraints
        objective : cp.Minimize, cp.Maximize or scalar cp.Expression
            Added to the clients' objectives; a bare expression is minimised.
        constraints : iterable of cvxpy constraints
            More of them, as :meth:`client` takes them.
        name : Hashable
            What messages, results and graphs call it; "coupling", "coupling 2", ... by default.

        Returns
        -------
        Coupling

        Raises
        ------
        DeclarationError
            If the name is taken or a part is not DCP.

        Examples
        --------
        >>> import cvxpy as cp
        >>> import dald_model as dm
        >>> x, model = [cp.Variable(name=f"x{i}") for i in range(3)], dm.Model("market")
        >>> for i in range(3):
        ...     client = model.client(f"area {i}", cp.square(x[i] - i))
        >>> balance = sum(x) == 6  # each has to give 1 more than it wants
        >>> coupling = model.couple(balance, name="balance")
        >>> model.solve().status, round(float(balance.dual_value), 3)
        (<Status.OPTIMAL: 'optimal'>, -2.0)
        """
        if name is None:
            name = fresh("coupling", self.stated)
        check_name(name)
        self._check_new(name, "coupling")
        coupling = declare_coupling(name, given, objective, constraints)
        self._couplings[name] = coupling
        self._changed()
        return coupling

    def _check_new(self, name: Hashable, kind: str) -> None:
        """Refuse a name that a client or a coupling has."""
        for known in (self._clients, self._couplings):
            if name in known:
                also = "" if known[name].kind == kind else f", as a {known[name].kind}"
                raise DeclarationError(
                    f"{kind} {name!r} is declared already{also}; expected a new name for each "
                    f"{kind}"
                )

    def consensus(self, *equalities: Any) -> None:
        """Declare consensus equalities between clients.

        Each side is an affine expression in the variables of one client, of any shape:
        ``x0 == x1``, ``x0[:4] == x1[:4]``, ``M @ x0 == x1``. A variable that no client owns
        becomes a server: ``model.consensus(*[z == xi for xi in x])``.

        Raises
        ------
        DeclarationError
            If a side is not affine, mixes two clients or holds no variable, both sides belong to
            one client, or the shapes differ.

        Examples
        --------
        >>> import cvxpy as cp
        >>> import dald_model as dm
        >>> x, model = [cp.Variable(2, name=f"x{i}") for i in range(3)], dm.Model("three")
        >>> for i in range(3):
        ...     client = model.client(i, cp.sum_squares(x[i] - i))
        >>> model.consensus(x[0] == x[1], x[1][0] == 2 * x[2][1])
        >>> print(model.solve().status)
        optimal
        """
        agreements = [read_equality(given) for given in {id(g): g for g in equalities}.values()]
        self._check_sides(agreements)  # all or none
        for agreement in agreements:
            near = self._standing.get(agreement.left.variables()[0].id, ())
            if all(agreement.constraint is not known.constraint for known in near):
                self._agree(agreement)

    def agree(self, agreement: ConsensusEquality) -> None:
        """Declare one consensus equality that was read already; users call :meth:`consensus`."""
        self._check_sides([agreement])
        self._agree(agreement)

    def _check_sides(self, agreements: Sequence[ConsensusEquality]) -> None:
        held = {v.id for a in agreements for side in (a.left, a.right) for v in side.variables()}
        is_shared = any(len(self._owners.get(key, ())) > 1 for key in held)
        users_of = Owning(self.by_entry, self._owners) if is_shared else None
        for agreement in agreements:
            check_sides(agreement, self._owners, users_of)

    def _agree(self, agreement: ConsensusEquality) -> None:
        for v in (*agreement.left.variables(), *agreement.right.variables()):
            self._standing.setdefault(v.id, []).append(agreement)
        self._agreements.append(agreement)
        self._changed()

    def topology(self, graph: nx.Graph | str | None) -> None:
        """Let clients agree on their shared variables peer to peer (Fed-DALD-DC).

        Parameters
        ----------
        graph : networkx.Graph, "server" or None
            Nodes are client names, edges say who talks to whom. ``None`` brings back the server
            (Fed-DALD-CC), where it is needed: variables of two clients each are edges between
            these. ``"server"`` asks for it in any case, which sends twice as much a round; on
            cubic graphs of 16 and 60 clients plain runs then took 1.5 and 1.8 times the rounds,
            accelerated ones as many (table 8 of ``make bench``).

        Raises
        ------
        DeclarationError
            If a node is no client, a client that shares a variable is missing, no variable is
            shared, or the clients that share one cannot reach one another.

        Examples
        --------
        >>> import networkx as nx
        >>> from dald_model.models.mean import common_number
        >>> model = common_number([0, 1, 2])
        >>> model.topology(nx.cycle_graph(3))
        >>> list(model.compile()), len(model.compile().edges)
        ([0, 1, 2], 3)
        """
        self._is_served = isinstance(graph, str) and graph == "server"
        if graph is None or self._is_served:
            self._topology = None
        else:
            self._topology = checked_topology(
                graph, self.name, self.by_entry.clients, self._shared_pieces
            )
        self._changed()

    def ways(self) -> Iterator[Self]:
        """The model as it is, and if its topology was left open also over a server and a ring.

        An algorithm takes the first that it can run over, see :func:`dald_model.options.opened`.
        """
        yield self
        if self.shared and self.graph is None and not self.is_served:
            yield from (self.over("server"), self.over("ring"))

    def over(self, topology: nx.Graph | str) -> Self:
        """The same clients over a graph, a "server", or a "ring" of those who share a variable."""
        key = topology if isinstance(topology, str) else None
        if key is not None and key in self._others:
            return self._others[key]
        found, graph = copy(self), topology
        if key == "ring":
            graph = rings(self.by_entry.clients.values(), self._shared_pieces)
        found.topology(graph)
        found.adopted = "a server" if found.is_served else f"a {key or 'graph'} of clients"
        if key is not None:
            self._others[key] = found
        return found

    def _changed(self) -> None:
        """Called after every declaration."""
        self._others.clear()
        self._by_entry = None

    def _anew(self) -> Self:
        """One of this kind and name with nothing declared."""
        return type(self)(self.name)

    def __copy__(self) -> Self:
        """A declaration of its own: what is declared later in one is not in the other."""
        found = self._anew()
        found._clients, found._agreements = dict(self._clients), list(self._agreements)
        found._couplings = dict(self._couplings)
        found._owners = {key: list(names) for key, names in self._owners.items()}
        found._standing = {key: list(among) for key, among in self._standing.items()}
        found._is_served, found.may_part = self._is_served, self.may_part
        found.adopted, found._by_entry = self.adopted, self._by_entry
        found.divided = self.divided
        found._topology = None if self._topology is None else self._topology.copy()
        return found
