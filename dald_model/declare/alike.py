"""Clients that are alike: one function of each one's data declares them all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol

import cvxpy as cp

from dald_model.declare.checked import check_name, declare_client
from dald_model.declare.client import Client
from dald_model.declare.frames import met_by_cvxpy
from dald_model.declare.lazy_client import AlikeClient, Datum
from dald_model.declare.structure_key import Shape, StructureKey
from dald_model.declare.traced import traced
from dald_model.errors import DeclarationError
from dald_model.gc_pause import gc_paused

WANTED = (
    "expected what gives a key and its data, such as frame.groupby('school'), a dict, or pairs of "
    "a name and data"
)

Kind = tuple[StructureKey, tuple[Shape, ...]]
"""What clients have in common that differ in numbers alone."""


class Declaring(Protocol):
    """What takes clients that were checked by themselves: a declaration."""

    def enter(self, clients: Iterable[Client]) -> None:
        """Declare all of them, or none."""
        ...


class Clients(dict[Hashable, Client]):
    """The declared clients by name, in order; called, it declares many that are alike.

    ``model.clients["school 3"]`` is a client, ``model.clients(data, function)`` declares one for
    each key of the data.
    """

    def __init__(self, known: Mapping[Hashable, Client], model: Declaring) -> None:
        super().__init__(known)
        self._model = model

    @gc_paused
    def __call__(self, data: Any, function: Callable[[Any], Any]) -> dict[Hashable, Client]:
        """Declare a client for each key of some data.

        The same as ``model.client(key, function(own))`` for each key and its ``own`` data, but all
        are declared, or none. Of clients that differ in their data alone the data are kept, and
        expressions and constraints are made again when they are asked for, as by
        ``model.clients[key].constraints``, whose dual values are those of the last solve. A
        constraint that holds no owner's data is one object of all.

        Of owners whose data have the same structure and shapes the function is called for three: it
        is traced with cvxpy Parameters in place of arrays, frames and floats, and two drawn owners
        are declared with their own data and compared. A function that branches on its data, takes
        them through numpy or makes variables is called for each owner; the log ``dald_model`` says
        so, and why, at level INFO. So the function should do nothing but return its expressions.

        Parameters
        ----------
        data : pandas groupby, Mapping or iterable of pairs
            Key -> the client's data; the keys are the clients' names.
        function : callable
            Of one client's data; returns its objective, or its objective and its constraints.
            Frames and series of pandas in the data meet expressions as arrays do:
            ``cp.sum_squares(rows[["age", "dose"]] @ w - rows["score"])``.

        Returns
        -------
        dict
            The new clients by name.

        Raises
        ------
        DeclarationError
            As :meth:`Model.client`, naming the client; if the function raises, whose exception is
            its cause; and if there is no data, or a key comes twice.

        Examples
        --------
        >>> import cvxpy as cp, pandas as pd
        >>> import dald_model as dm
        >>> frame = pd.DataFrame({"school": list("aabbb"), "score": [1.0, 3.0, 2.0, 4.0, 5.0]})
        >>> w, model = cp.Variable(name="w"), dm.Model("schools")
        >>> found = model.clients(
        ...     frame.groupby("school"), lambda rows: cp.sum_squares(rows["score"] - w)
        ... )
        >>> list(found), round(float(model.solve()[w]), 4)
        (['a', 'b'], 3.0)
        """
        if not callable(function):
            raise DeclarationError(
                f"clients: the second argument is of type {type(function).__name__}, expected a "
                "function that takes one client's data and returns its objective, or its objective "
                "and constraints"
            )
        pairs: dict[Hashable, Any] = {}
        for key, own in _pairs(data):
            check_name(key)
            if key in pairs:
                raise DeclarationError(
                    f"clients: the data have the key {key!r} twice, expected each client's data "
                    "under a key of its own; group them first, as by frame.groupby(...)"
                )
            pairs[key] = own
        known = traced(list(pairs.items()), lambda key, own: _declared(key, own, function))
        firsts: dict[Kind, Client] = {}
        found = {
            key: known.get(key) or _one_of_many(key, _declared(key, own, function), firsts)
            for key, own in pairs.items()
        }
        if not found:
            raise DeclarationError(f"clients: the data are empty; {WANTED}")
        self._model.enter(found.values())
        return found


def _one_of_many(
    key: Hashable,
    given: tuple[Any, Any],
    firsts: dict[tuple[StructureKey, tuple[Shape, ...]], Client],
) -> Client:
    """A client declared by itself; of one like another before, its data alone are kept."""
    client = declare_client(key, *given)
    known = client.leaves
    if known is None:
        return client
    first = firsts.setdefault((known.key, known.shapes), client)
    # Constraints stay the objects that the user may have kept, to ask for their prices
    if first is client or client.is_constrained:
        return client
    data = [Datum(one.value) for one in known.constants]
    return AlikeClient(key, first, known.variables, data)


def _pairs(data: Any) -> Iterable[tuple[Hashable, Any]]:
    """Keys and their data."""
    given = data.items() if isinstance(data, Mapping) else data
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DeclarationError(f"clients: given data of type {type(data).__name__}, {WANTED}")
    for each in given:
        if not (isinstance(each, tuple) and len(each) == 2):
            raise DeclarationError(
                f"clients: the data of type {type(data).__name__} give {type(each).__name__}, "
                f"{WANTED}"
            )
        yield each


def _declared(key: Hashable, own: Any, function: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Objective and constraints of one client."""
    try:
        given = function(met_by_cvxpy(own))
    except Exception as error:
        raise DeclarationError(
            f"client {key!r}: the function raised {type(error).__name__} ({error}) for its data of "
            f"type {type(own).__name__}"
        ) from error
    if isinstance(given, tuple | list):
        if len(given) != 2 or isinstance(given[0], cp.Constraint):
            raise DeclarationError(
                f"client {key!r}: the function returned {len(given)} things, expected an "
                "objective, or an objective and a list of constraints"
            )
        return given[0], given[1]
    return given, ()
