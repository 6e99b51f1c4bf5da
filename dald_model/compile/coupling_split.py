"""Couplings taken apart: what their parties share, and what is left to the coupling.

The affine parts of a coupling are replaced by what its parties share of them
(:mod:`dald_model.compile.shared_rows`); a convex function of one party's variables alone, such as
the loss in ``loss <= t``, by a variable of that party that bounds it. What is left holds no data
of any client, and is a client by itself with one edge per party.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality, is_affine_throughout, with_parts
from dald_model.compile.form import SPARSE_ROOT
from dald_model.compile.shared_rows import beside, product, shaped, shared_rows
from dald_model.declare.affine import affine_parts, explicit
from dald_model.declare.client import Client
from dald_model.declare.consensus import Owners
from dald_model.declare.consensus_form import Link
from dald_model.declare.couplings import Coupling, check_parties
from dald_model.declare.structure_key import frozen
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError


@dataclass(frozen=True, eq=False)
class TakenApart:
    """What becomes of some couplings.

    Attributes
    ----------
    clients : dict
        Each coupling that needs one as a client over variables of its own.
    bounds : dict
        Client -> further constraints on it, which bound what couplings need of it.
    links : list
        The edges between these.
    derived : dict
        Id of a variable made here -> its value as an expression in the user's variables.
    """

    clients: dict[Hashable, Client] = field(default_factory=dict)
    bounds: dict[Hashable, list[cp.Constraint]] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    derived: dict[int, cp.Expression] = field(default_factory=dict)

    def joined(self, clients: Mapping[Hashable, Client]) -> dict[Hashable, Client]:
        """The clients with their further constraints, and the couplings after them."""
        bounded = {
            name: replace(client, constraints=(*client.constraints, *self.bounds[name]))
            if name in self.bounds
            else client
            for name, client in clients.items()
        }
        return bounded | self.clients


def take_apart(
    couplings: Sequence[Coupling], clients: Mapping[Hashable, Client], owners: Owners
) -> TakenApart:
    """Take couplings apart.

    Parameters
    ----------
    couplings : sequence of Coupling
    clients : dict
    owners : dict
        Variable id -> the clients that use it.

    Raises
    ------
    DeclarationError
        If a coupling is over the variables of fewer than two clients, or holds data of a client
        and does not say of whom.
    """
    found = TakenApart()
    part_owners = PartOwners(clients, owners)
    for coupling in couplings:
        check_parties(coupling, owners)
        party = _parties(coupling, owners)
        link = _as_edge(coupling, party)
        if link is not None:
            found.links.append(link)
            continue
        splitter = _Splitter(coupling, party, part_owners)
        local = splitter.split()
        if not local.cost.is_convex() or not all(r.is_dcp(dpp=True) for r in local.constraints):
            # Curvature that rests on a sign
            splitter = _Splitter(coupling, party, part_owners, whole=True)
            local = splitter.split()
        found.clients[coupling.name] = local
        for name, rules in splitter.bounds.items():
            found.bounds.setdefault(name, []).extend(rules)
        found.links.extend(splitter.links)
        found.derived.update(splitter.derived)
    return found


def _parties(coupling: Coupling, owners: Owners) -> dict[int, Hashable]:
    """Variable id -> the one client that speaks for it; what nobody uses is not in it.

    Of several that share a variable it is the first that is a party for other reasons, so that a
    coupling has no more edges than it needs.
    """
    users = {v.id: owners[v.id] for v in coupling.variables if owners.get(v.id)}
    sure = {names[0] for names in users.values() if len(names) == 1}
    return {
        key: next((name for name in names if name in sure), names[0])
        for key, names in users.items()
    }


def _as_edge(coupling: Coupling, party: Mapping[int, Hashable]) -> Link | None:
    """The edge that a single equality of two clients is, such as ``x0 - x1 == 0``; else None."""
    if coupling.has_objective or len(coupling.constraints) != 1:
        return None
    rule = coupling.constraints[0]
    variables = rule.variables()
    if not isinstance(rule, Equality) or any(v.id not in party for v in variables):
        return None
    names = list(dict.fromkeys(party[v.id] for v in variables))
    if len(names) != 2 or not rule.size:
        return None
    zeros = {id(v): cp.Constant(np.zeros(v.shape)) for v in variables}
    others = [{id(v): zeros[id(v)] for v in variables if party[v.id] != name} for name in names]
    left = with_parts(rule.expr, others[0])
    right = with_parts(rule.expr, zeros) - with_parts(rule.expr, others[1])
    return Link(left, names[0], right, names[1], rule)


class _Piece(NamedTuple):
    """An affine expression of a coupling as matrices, by party and of the coupling's own."""

    expression: cp.Expression
    shares: dict[Hashable, int]  # party -> which of its blocks
    own: list[tuple[cp.Variable, sp.csr_array]]
    offset: np.ndarray


class _Splitter:
    """Takes one coupling apart.

    ``whole`` shares variables as they are, and so with their signs.
    """

    def __init__(
        self,
        coupling: Coupling,
        party: Mapping[int, Hashable],
        part_owners: PartOwners,
        whole: bool = False,
    ) -> None:
        self._coupling, self._party, self._whole = coupling, party, whole
        self._part_owners = part_owners
        self.bounds: dict[Hashable, list[cp.Constraint]] = {}
        self.links: list[Link] = []
        self.derived: dict[int, cp.Expression] = {}
        self._instead: dict[int, Any] = {}
        self._equal: list[cp.Constraint] = []
        self._pieces: list[_Piece] = []
        self._blocks: dict[Hashable, list[Any]] = {}
        names = dict.fromkeys(party.values())
        self._variables = {
            name: [v for v in coupling.variables if party.get(v.id) == name] for name in names
        }

    def split(self) -> Client:
        """What is left to the coupling."""
        coupling = self._coupling
        for part in (coupling.objective.expr, *coupling.constraints):
            self._visit(part)
        self._share()
        goal = type(coupling.objective)(with_parts(coupling.objective.expr, self._instead))
        rules = [with_parts(rule, self._instead) for rule in coupling.constraints]
        return Coupling(coupling.name, goal, (*rules, *self._equal))

    def _visit(self, node: Any) -> None:
        """Find what to put in the place of a part of the coupling."""
        if id(node) in self._instead:
            return
        names = {self._party.get(v.id) for v in node.variables()}
        if not names - {None}:
            return
        inside = node.args
        if isinstance(node, cp.perspective):  # which wants variables as they are
            for variable in node.variables():
                self._visit_whole(variable)
            return
        if self._whole and isinstance(node, cp.Variable):
            self._visit_whole(node)
            return
        if not self._whole and isinstance(node, cp.Expression):
            if not node.parameters() and is_affine_throughout(node):
                self._affine(node)
                return
            owner = self._part_owners.of(node, f"coupling {self._coupling.name!r}")
            if owner is not None:
                self._of_one(node, owner)
                return
        for argument in inside:
            self._visit(argument)

    def _affine(self, node: Any) -> None:
        """An affine expression without Parameters: its matrices by party."""
        coefficients, offset = affine_parts(node)
        variables = {v.id: v for v in node.variables()}
        own = [
            (v, _sparse(explicit(coefficients[key], v.size)))
            for key, v in variables.items()
            if key not in self._party
        ]
        shares = {}
        for name in dict.fromkeys(self._party[key] for key in variables if key in self._party):
            blocks = [
                _sparse(explicit(coefficients[v.id], v.size))
                if v.id in coefficients
                else sp.csr_array((node.size, v.size))
                for v in self._variables[name]
            ]
            shares[name] = len(self._blocks.setdefault(name, []))
            block = blocks[0] if len(blocks) == 1 else sp.csr_array(sp.hstack(blocks, "csr"))
            self._blocks[name].append(block)
        self._pieces.append(_Piece(node, shares, own, offset))
        self._instead[id(node)] = node  # until it is known what is shared

    def _of_one(self, node: cp.Expression, name: Hashable) -> None:
        """What one party alone knows: an affine side with Parameters, or a bound on a loss."""
        signs = {"nonneg": node.is_nonneg(), "nonpos": node.is_nonpos() and not node.is_nonneg()}
        called = f"{self._coupling.name}@{name}"
        if node.is_affine():
            side = cp.vec(node, order="F")
        else:
            bound = cp.Variable(node.shape, name=f"bound {called}")
            rule = node <= bound if node.is_convex() else node >= bound
            self.bounds.setdefault(name, []).append(rule)
            self.derived[bound.id] = node
            side = cp.vec(bound, order="F")
        local = cp.Variable(node.shape, name=f"share {called}", **signs)
        self._link(cp.vec(local, order="F"), name, side)
        self.derived[local.id] = node
        self._instead[id(node)] = local

    def _visit_whole(self, variable: cp.Variable) -> None:
        """A variable that is shared as it is, with its sign."""
        name = self._party.get(variable.id)
        if id(variable) in self._instead or name is None:
            return
        signs = {"nonneg": variable.is_nonneg(), "nonpos": variable.is_nonpos()}
        local = cp.Variable(
            variable.shape, name=f"{variable.name()}@{self._coupling.name}", **signs
        )
        self._link(local, name, variable)
        self.derived[local.id] = variable
        self._instead[id(variable)] = local

    def _share(self) -> None:
        """Settle what each party shares of its affine parts, and put that into their places."""
        sides: dict[Hashable, cp.Expression] = {}
        factors: dict[Hashable, list[Any]] = {}
        for name, blocks in self._blocks.items():
            whole = blocks[0] if len(blocks) == 1 else sp.vstack(blocks, "csr")
            basis, factor = shared_rows(whole)
            if not basis.shape[0]:  # zero times a variable asks nothing of its owner
                continue
            sides[name] = product(basis, self._variables[name])
            stops = np.cumsum([block.shape[0] for block in blocks])
            factors[name] = [factor]
            if len(blocks) > 1:
                factors[name] = [
                    factor[int(stop) - block.shape[0] : int(stop)]
                    for stop, block in zip(stops, blocks, strict=True)
                ]
        if not sides:
            return
        stops = np.cumsum([side.size for side in sides.values()])
        shared = cp.Variable(int(stops[-1]), name=f"shared@{self._coupling.name}")
        place = {
            name: slice(int(stop) - side.size, int(stop))
            for (name, side), stop in zip(sides.items(), stops, strict=True)
        }
        for name, side in sides.items():
            self._link(shared[place[name]], name, side)
        self.derived[shared.id] = cp.hstack(list(sides.values()))
        held = [
            [
                (place[name].start, factors[name][at])
                for name, at in piece.shares.items()
                if name in place
            ]
            for piece in self._pieces
        ]
        shapes = [(piece.offset.size, shared.size) for piece in self._pieces]
        matrices = [beside(*one) for one in zip(held, shapes, strict=True)]
        if self._coupling.constraints and not self._coupling.objective.expr.is_affine():
            shared, matrices = self._summed(shared, matrices)
        for piece, matrix in zip(self._pieces, matrices, strict=True):
            blocks = [(shared, matrix), *piece.own]
            parts: list[cp.Expression] = [product(m, [v]) for v, m in blocks if m.nnz]
            if piece.offset.any() or not parts:
                parts.append(cp.Constant(piece.offset))
            total = sum(parts[1:], parts[0])
            self._instead[id(piece.expression)] = shaped(total, piece.expression.shape)

    def _summed(self, shared: cp.Variable, matrices: list[Any]) -> tuple[cp.Variable, list[Any]]:
        """The few sums that a coupling with a limit and a cost sees, as variables of its own.

        A quadratic of them has as many entries as there are sums, of what is shared the square of
        the number of parties.
        """
        basis, factor = shared_rows(sp.vstack(matrices, "csr"))
        if shared.size < SPARSE_ROOT or 2 * basis.shape[0] > shared.size:
            return shared, matrices  # to dense solvers it is all one
        sums = cp.Variable(basis.shape[0], name=f"sums@{self._coupling.name}")
        self._equal.append(product(basis, [shared]) == sums)
        stops = np.cumsum([matrix.shape[0] for matrix in matrices])
        self.derived[sums.id] = basis @ self.derived[shared.id]
        return sums, [
            factor[int(stop) - matrix.shape[0] : int(stop)]
            for stop, matrix in zip(stops, matrices, strict=True)
        ]

    def _link(self, local: cp.Expression, name: Hashable, side: cp.Expression) -> None:
        self.links.append(Link(local, self._coupling.name, side, name))


def _sparse(matrix: Any) -> sp.csr_array:
    """The same as a sparse matrix; itself where it is one."""
    return matrix if isinstance(matrix, sp.csr_array) else sp.csr_array(matrix)


class PartOwners:
    """The clients, asked whose a part of a coupling is.

    Parameters
    ----------
    clients : dict
    owners : dict
        Variable id -> the clients that use it.
    """

    def __init__(self, clients: Mapping[Hashable, Client], owners: Owners) -> None:
        self._clients, self._owners = clients, owners
        self._data: dict[Hashable, set[Hashable]] = {}

    def of(self, part: cp.Expression, where: str) -> Hashable | None:
        """The one client that can compute a part; None where no client knows all its variables.

        Where several clients share all of them it is the one whose objective or constraints hold
        the part's data, so that no data leave their owner.

        Raises
        ------
        DeclarationError
            If none of several does.
        """
        users = [self._owners.get(v.id, ()) for v in part.variables()]
        able = [name for name in users[0] if all(name in others for others in users)]
        if not able:
            return None
        data = _data(part)
        if len(able) == 1 or not data:
            return able[0]
        for name in able:
            if name not in self._data:
                client = self._clients[name]
                self._data[name] = _data(client.objective, *client.constraints)
            if data <= self._data[name]:
                return name
        shared = ", ".join(repr(v.name()) for v in part.variables())
        named = ", ".join(map(repr, able[:4])) + (", ..." if len(able) > 4 else "")
        raise DeclarationError(
            f"{where}: {short(part)} is over {shared}, which the clients {named} share, and holds "
            "data that none of them has, expected the data of one of them; state it in its client, "
            "model.client(name, ..., [loss <= t]) with a t that clients share, or give each client "
            "variables of its own"
        )


def _data(*parts: Any) -> set[Hashable]:
    """The constants of expressions but for single numbers, by value."""
    return {frozen(c.value) for part in parts for c in part.constants() if c.size > 1}
