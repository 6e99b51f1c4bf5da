"""List of what leaves a client, and what it is told, where it is solved at a host."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from dald_model.compile.decomposition import Decomposition
from dald_model.declare.remote import RemoteClient
from dald_model.engines.messages import ANSWERS_HELD
from dald_model.engines.placement import obstacle
from dald_model.engines.portable import pack, pack_edges
from dald_model.lazy_imports import pd
from dald_model.values import BYTES

TO, FROM = "to the client", "from the client"
NO_EDGE = ""
ONCE, CHANGED, ROUND, END = "once", "when changed", "each round", "at the end"


class Sent(NamedTuple):
    """One array between a client and the coordinator.

    Attributes
    ----------
    client : Hashable
    edge : Hashable
        The neighbour at the other end of the edge that it is of; "" where it is of the client.
    way : str
        :data:`TO` or :data:`FROM`.
    name : str
    size : int
        Entries.
    bytes : int
    when : str
        :data:`ONCE`, :data:`CHANGED`, :data:`ROUND` or :data:`END`.
    """

    client: Hashable
    edge: Hashable
    way: str
    name: str
    size: int
    bytes: int
    when: str


def sent(compiled: Decomposition) -> pd.DataFrame:
    r"""The messages between each client and the coordinator of a run with an engine, as a table.

    A round takes multipliers :math:`\mu` and the neighbours' values to a client, entry by entry of
    its edges, with penalties and natural units where they are others than before; and brings its
    point, which is all its variables, its objective, and of solvers that are not exact how far it
    is from minimising. What a solve makes of rows of data stays at the host: multipliers of the
    client's own constraints are asked for at the end of a run and with each checkpoint, of the best
    iterate, one a row.

    No array of a round has a row for each row of data; but points and prices are functions of the
    data. Who sees both in many rounds learns how the objective bends, which of least squares is the
    Gram matrix on what is shared; :class:`dald_model.Secant` does just that. And
    :func:`dald_model.pack` sends all data of a client, once: hosts are for who may have it. Of a
    client at its site (:class:`dald_model.Site`) only the edges are sent, in place of it; its point
    is what it shares. Before the first round it tells its minimiser, perhaps twice, and three more
    points, listed together as ``point``.

    Parameters
    ----------
    compiled : Compiled
        ``model.compile()``.

    Returns
    -------
    pandas.DataFrame
        A row an array: client, edge, way, name, size, bytes, when. Clients that stay in this
        process, such as servers and couplings, have none.

    Examples
    --------
    >>> import cvxpy as cp, dald_model as dm
    >>> x, model = cp.Variable(3), dm.Model("two")
    >>> for name in "ab":
    ...     _ = model.client(name, cp.sum_squares(x - len(name)))
    >>> table = dm.engines.sent(model.compile())
    >>> print(table[(table.client == "a") & (table.when == "each round")].to_string(index=False))
    client   edge             way         name  size  bytes       when
         a server   to the client           mu     3     24 each round
         a server   to the client   neighbours     3     24 each round
         a        from the client       points     3     24 each round
         a        from the client   objectives     1      8 each round
         a        from the client        slack     1      8 each round
         a        from the client slack_scaled     1      8 each round
    """
    found = [
        one
        for name, sub in compiled.items()
        if sub.client.is_remote or not obstacle(sub)
        for one in _of(name, compiled)
    ]
    return pd.DataFrame(found, columns=list(Sent._fields))


def _of(name: Hashable, compiled: Decomposition) -> list[Sent]:
    sub, form = compiled[name], compiled[name].form
    data = len(pack_edges(sub)) if sub.client.is_remote else len(pack(sub))
    found = [Sent(name, NO_EDGE, TO, "client", data, data, ONCE)]
    if isinstance(sub.client, RemoteClient):
        told = {"told": ANSWERS_HELD * sub.size, "weights": sub.size}
        found += [_floats(name, NO_EDGE, TO, what, size, ONCE) for what, size in told.items()]
        told = {"point": (1 + ANSWERS_HELD) * sub.size, "factor": ANSWERS_HELD}
        found += [_floats(name, NO_EDGE, FROM, what, size, ONCE) for what, size in told.items()]
    for (tail, head), slot in compiled.slots.items():
        if name in (tail, head):
            other, size = head if name == tail else tail, slot.stop - slot.start
            found += [_floats(name, other, TO, what, size, ROUND) for what in ("mu", "neighbours")]
            found.append(_floats(name, other, TO, "rho", size, CHANGED))
    found += [_floats(name, NO_EDGE, TO, what, sub.size, CHANGED) for what in ("lengths", "slopes")]
    found.append(_floats(name, NO_EDGE, FROM, "points", sub.size, ROUND))
    ones = ("objectives", "slack", "slack_scaled")
    found += [_floats(name, NO_EDGE, FROM, what, 1, ROUND) for what in ones]
    if form is None:  # a site keeps its multipliers
        return found
    rows = sum(form.heights) if form.complete else form.cone.rhs.size
    return [*found, _floats(name, NO_EDGE, FROM, "multipliers", rows, END)]


def _floats(client: Hashable, edge: Hashable, way: str, name: str, size: int, when: str) -> Sent:
    return Sent(client, edge, way, name, size, BYTES * size, when)
