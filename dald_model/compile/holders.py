"""Who holds what stands in a coupling: the client that uses its variables and has its data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp

from dald_model.declare.client import Client
from dald_model.declare.consensus import Owners
from dald_model.declare.outline import frozen
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError


class Holder(NamedTuple):
    """The client that holds a part of a coupling."""

    name: Hashable


class Holders:
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

    def of(self, part: cp.Expression, where: str) -> Holder | None:
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
            return Holder(able[0])
        for name in able:
            if name not in self._data:
                client = self._clients[name]
                self._data[name] = _data(client.objective, *client.constraints)
            if data <= self._data[name]:
                return Holder(name)
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
