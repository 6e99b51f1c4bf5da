"""Model: the declaration of a problem with many owners, and the entry point to solving it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import networkx as nx
from cvxpy.constraints.constraint import Constraint

from dald_model import display, drawing
from dald_model.client import Client, check_name, declare_client
from dald_model.consensus import Agreement, check_sides, read_equality
from dald_model.errors import DeclarationError
from dald_model.sharing import check_reach, consensus_form, owners_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dald_model.algorithms import Algorithm
    from dald_model.compiler import Compiled
    from dald_model.iterate import Iterate
    from dald_model.result import Result
    from dald_model.sequence import Sequence
    from dald_model.solvers.base import Solver
    from dald_model.stopping import Stopping


class Model:
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

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x = [cp.Variable(name=f"x{i}") for i in range(3)]
    >>> model = dm.Model("three numbers")
    >>> for i in range(3):
    ...     client = model.client(f"owner {i}", cp.square(x[i] - i))
    >>> model.consensus(x[0] == x[1], x[1] == x[2])
    >>> print(round(model.solve().value, 4))
    2.0
    """

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self._clients: dict[Hashable, Client] = {}
        self._agreements: list[Agreement] = []
        # Who uses a variable, and which equalities it stands in: a declaration looks only at what
        # it touches, so that declaring many clients stays linear.
        self._owners: dict[int, list[Hashable]] = {}
        self._standing: dict[int, list[Agreement]] = {}
        self._topology: nx.Graph | None = None
        self._compiled: Compiled | None = None

    @property
    def clients(self) -> Mapping[Hashable, Client]:
        """The declared clients by name, in order of declaration; servers are not among them."""
        return dict(self._clients)

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """The declared consensus equalities, in order of declaration."""
        return tuple(self._agreements)

    @property
    def shared(self) -> list[cp.Variable]:
        """The variables that several clients use, in order of declaration."""
        found = {v.id: v for c in self._clients.values() for v in c.variables}
        return [v for key, v in found.items() if len(self._owners[key]) > 1]

    @property
    def variables(self) -> list[cp.Variable]:
        """All variables, each once: the clients' in order of declaration, then the servers'."""
        sides = (side for a in self._agreements for side in (a.left, a.right))
        owned = (v for client in self._clients.values() for v in client.variables)
        held = (v for side in sides for v in side.variables())
        return list({v.id: v for v in chain(owned, held)}.values())

    @property
    def constraints(self) -> list[Constraint]:
        """All constraints, each once: the clients' own, then the consensus equalities."""
        stated = [rule for client in self._clients.values() for rule in client.constraints]
        stated += [a.constraint for a in self._agreements if a.constraint is not None]
        return list({rule.id: rule for rule in stated}.values())

    @property
    def maximises(self) -> bool:
        """Whether every client maximises; the whole is then a maximisation."""
        goals = [client.objective for client in self._clients.values()]
        return bool(goals) and all(isinstance(goal, cp.Maximize) for goal in goals)

    @property
    def graph(self) -> nx.Graph | None:
        """The graph given to :meth:`topology`; None where a server agrees with everybody."""
        return self._topology

    def client(self, name: Hashable, objective: Any, constraints: Iterable[Any] = ()) -> Client:
        """Declare a client.

        Parameters
        ----------
        name : Hashable
            Any networkx node: what messages, results and graphs call the client.
        objective : cp.Minimize, cp.Maximize or scalar cp.Expression
            The client's share of the objective; a bare expression is minimised.
        constraints : iterable of cvxpy constraints
            The client's own constraints.

        Returns
        -------
        Client

        Raises
        ------
        DeclarationError
            If the name is taken, the objective or a constraint is not DCP, a variable is
            complex, boolean or integer, or the data hold NaN or inf.
        """
        check_name(name)
        if name in self._clients:
            raise DeclarationError(
                f"client {name!r} is declared already; expected a new name for each client"
            )
        client = declare_client(name, objective, constraints)
        touched = {id(a): a for v in client.variables for a in self._standing.get(v.id, ())}
        mine = {v.id: [*self._owners.get(v.id, ()), name] for v in client.variables}
        for agreement in touched.values():
            check_sides(agreement, ChainMap(mine, self._owners))
        self._owners |= mine
        self._clients[name] = client
        self._compiled = None
        return client

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
        """
        agreements = [read_equality(given) for given in {id(g): g for g in equalities}.values()]
        for agreement in agreements:  # all or none
            check_sides(agreement, self._owners)
        for agreement in agreements:
            near = self._standing.get(agreement.left.variables()[0].id, ())
            if all(agreement.constraint is not known.constraint for known in near):
                self.agree(agreement)

    def agree(self, agreement: Agreement) -> None:
        """Declare one consensus equality that was read already; users call :meth:`consensus`."""
        check_sides(agreement, self._owners)
        for v in (*agreement.left.variables(), *agreement.right.variables()):
            self._standing.setdefault(v.id, []).append(agreement)
        self._agreements.append(agreement)
        self._compiled = None

    def topology(self, graph: nx.Graph | None) -> None:
        """Let clients agree on their shared variables peer to peer (Fed-DALD-DC).

        Parameters
        ----------
        graph : networkx.Graph or None
            Nodes are client names, edges say who talks to whom. ``None`` brings back the server
            (Fed-DALD-CC).

        Raises
        ------
        DeclarationError
            If a node is no client, a client that shares a variable is missing, no variable is
            shared, or the clients that share one cannot reach one another.
        """
        if graph is not None:
            self._check_topology(graph)
        self._topology = None if graph is None else graph.copy()  # the user's may change
        self._compiled = None

    def _check_topology(self, graph: nx.Graph) -> None:
        if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
            raise DeclarationError(
                f"topology: given {type(graph).__name__}, expected an undirected networkx.Graph "
                "whose nodes are client names; the order of clients is solve's option sequence"
            )
        unknown = [node for node in graph if node not in self._clients]
        if unknown:
            raise DeclarationError(
                f"topology: {', '.join(map(repr, unknown))} is no client of {self.name!r}; "
                f"expected nodes among {', '.join(map(repr, self._clients))}"
            )
        loop = next(nx.selfloop_edges(graph), None)
        if loop is not None:
            raise DeclarationError(
                f"topology: client {loop[0]!r} has an edge to itself, expected edges between two "
                "clients; remove it"
            )
        shared = self.shared
        if not shared:
            raise DeclarationError(
                f"topology: no variable of {self.name!r} is used by several clients, so a graph "
                "has nothing to connect; use model.consensus(...), or share a variable"
            )
        owners = owners_of(self._clients.values())
        for variable in shared:
            check_reach(variable, owners[variable.id], graph)

    def monolithic(self) -> cp.Problem:
        """The all-in-one (AIO) problem: one cvxpy problem over everybody's data.

        Returns
        -------
        cp.Problem
            The sum of the objectives under all constraints, the consensus equalities last. It is
            a maximisation if every client maximises.
        """
        clients, rules = self._clients.values(), self.constraints
        if self.maximises:
            return cp.Problem(cp.Maximize(sum(c.objective.expr for c in clients)), rules)
        return cp.Problem(cp.Minimize(sum(c.cost for c in clients)), rules)

    def compile(self, *, rho: Any = 1.0) -> Compiled:
        r"""Take the model apart into one subproblem a client; see :class:`Compiled`.

        Compiled once: later calls return the same object until the declaration changes.

        Parameters
        ----------
        rho : float, dict, array or penalty rule
            What the Parameters for :math:`\rho` are set to; multipliers and neighbour values are
            set to zero.
        """
        # The entry point looks down the pipeline; at module level this would be a cycle.
        from dald_model.compiler import Compiled
        from dald_model.penalty import as_rule

        if self._compiled is None:
            if not self._clients:
                raise DeclarationError(
                    f"model {self.name!r} has no clients; declare them with model.client(...)"
                )
            form = consensus_form(self._clients, self._agreements, self._topology)
            stated = copy(self)  # results stay what they are when clients are added later
            stated._clients, stated._agreements = dict(self._clients), list(self._agreements)
            stated._owners = dict(self._owners)
            self._compiled = Compiled(stated, form)
        self._compiled.reset(as_rule(rho).init(self._compiled))
        return self._compiled

    def solve(
        self,
        *,
        algorithm: Algorithm | None = None,
        sequence: Sequence | None = None,
        stopping: Stopping | None = None,
        rho: Any = None,
        solver: Solver | str | Mapping[Any, Solver | str] | None = None,
        accuracy: float | None = None,
        online: Any = None,
        start: Result | None = None,
        metrics: Mapping[str, Callable[[Iterate], Any]] | None = None,
        eps_pri: float = 1e-6,
        eps_dual: float = 1e-6,
        max_rounds: int = 1000,
        verbose: bool = False,
    ) -> Result:
        """Solve by distributed augmented-Lagrangian decomposition.

        Every variable's ``value`` and every constraint's ``dual_value`` are set as by
        ``cp.Problem.solve``. The options are explained at
        :func:`dald_model.coordinator.coordinate`; none of them needs to be set.
        """
        from dald_model.coordinator import coordinate

        return coordinate(
            self.compile(),
            algorithm=algorithm,
            sequence=sequence,
            stopping=stopping,
            rho=rho,
            solver=solver,
            accuracy=accuracy,
            online=online,
            start=start,
            metrics=metrics,
            eps_pri=eps_pri,
            eps_dual=eps_dual,
            max_rounds=max_rounds,
            verbose=verbose,
        )

    def draw(self) -> Figure:
        """The consensus graph, servers included; :meth:`Compiled.draw` has the order.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        DeclarationError
            If the model cannot be compiled yet.
        """
        # What is compiled stays as it is: compiling again would reset its Parameters.
        return drawing.graph_plot(self.compile() if self._compiled is None else self._compiled)

    def __str__(self) -> str:
        return display.model_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return display.model_html(self)
