r"""An objective in common: one function that all clients have, each with a linear one of its own.

.. math:: f_i(x) = \sum_k w_{ik}\, g_k(x) + q_i^\top x, \qquad w_{ik} > 0,

as negative logarithms of likelihoods of exponential families are, of which :math:`q_i` are the
sufficient statistics. The server holds :math:`\sum_{ik} w_{ik}\, g_k` once, and the clients their
linear functions. Then a client's price is :math:`-q_i` from its first answer on, and the rounds
are proximal steps of the whole problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import cvxpy as cp

from dald_model._cvxpy import PRODUCTS, DivExpression, NegExpression
from dald_model.declare.client import Client, summands, unique_variables
from dald_model.declare.common_rules import NOTHING, CommonRules, Reader
from dald_model.declare.consensus import Owners


def common_objective(clients: Sequence[Client], owners: Owners) -> CommonRules:
    """What a server holds of clients' objectives, where the rest of each is linear; see the module.

    That is nothing unless all clients are convex, share all variables and have no constraints; nor
    if they are quadratic, as rounds are as few then (3) and clients at once are cheaper than one.
    """
    variables = clients[0].variables
    if len(clients) == 1 or any(len(owners[v.id]) < len(clients) for v in variables):
        return NOTHING
    if any(on for v in variables for kept, on in v.attributes.items() if kept != "symmetric"):
        return NOTHING
    if any(c.kind != Client.kind or c.is_constrained or not c.is_convex for c in clients):
        return NOTHING
    if any(len(c.variables) > len(variables) for c in clients):
        return NOTHING
    reader, keys = Reader(owners), set[Hashable]()
    factors, left = dict[Hashable, float](), dict[Hashable, Client]()
    bases: dict[Hashable, cp.Expression] = {}
    for client in clients:
        terms = summands(client.cost)
        bent = [_factored(term) for term in terms if not term.is_affine()]
        own = {reader.key(base): base for _, base in bent}
        if not own or own.keys() != (keys or own.keys()):
            return NOTHING
        keys = set(own)
        bases |= own
        for factor, base in bent:
            factors[reader.key(base)] = factors.get(reader.key(base), 0.0) + factor
        flat = [term for term in terms if term.is_affine()]
        if [v.id for v in unique_variables(flat)] != [v.id for v in client.variables]:
            flat = [*(0.0 * cp.sum(v) for v in client.variables), *flat]
        rest = sum(flat[1:], flat[0])
        goal = cp.Maximize(-rest) if client.maximises else cp.Minimize(rest)
        left[client.name] = Client(client.name, goal)
    if all(base.is_quadratic() for base in bases.values()):
        return NOTHING
    first, *others = [factor * bases[key] for key, factor in factors.items()]
    return CommonRules(clients=left, cost=sum(others, first))


def _factored(term: cp.Expression) -> tuple[float, cp.Expression]:
    """A number and an expression of which a term is the product."""
    if isinstance(term, NegExpression):
        factor, base = _factored(term.args[0])
        return -factor, base
    if isinstance(term, PRODUCTS):
        one, two = term.args
        if isinstance(one, cp.Constant) and not isinstance(term, DivExpression):
            one, two = two, one
        if isinstance(two, cp.Constant) and two.is_scalar():
            factor, base = _factored(one)
            own = float(two.value)
            return factor / own if isinstance(term, DivExpression) else factor * own, base
    return 1.0, term
