"""Values by name: of one client's variables, and of all of them as a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.errors import ResultError
from dald_model.lazy_imports import pd
from dald_model.text import counted, listed, shortened


class ClientValues(Mapping[Any, Any]):
    """The values of the variables at one client, by the variable or by its name.

    Iterating gives what it was made with: the variables of a result, the names of one that was
    loaded without its model.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x = [cp.Variable(name=f"x{i}") for i in range(2)]
    >>> model = dm.Model("two numbers")
    >>> owners = [model.client(f"owner {i}", cp.square(x[i] - 2 * i)) for i in range(2)]
    >>> model.consensus(x[0] == x[1])
    >>> result = model.solve()
    >>> print(round(float(result["owner 0"]["x0"]), 3), round(float(result["owner 0"][x[0]]), 3))
    1.0 1.0
    """

    def __init__(self, client: Hashable, values: Mapping[Any, Any]) -> None:
        self._client, self._values = client, values

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            names = [one if isinstance(one, str) else one.name() for one in self._values]
            found = chosen(key, names, list(self._values))
            if found is not None:
                return self._values[found]
        elif isinstance(key, Hashable) and key in self._values:
            return self._values[key]
        asked = key.name() if isinstance(key, cp.Variable) else key
        raise ResultError(
            f"result: client {self._client!r} has no variable {asked!r}; expected one of "
            f"{listed(_name(one) for one in self._values)}"
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        said = (f"{_name(one)}: {shortened(str(v), 60)}" for one, v in self._values.items())
        return f"{{{', '.join(said)}}}"


def chosen(name: Any, names: Sequence[str], among: Sequence[Any]) -> Any:
    """The one of this name; None where nobody has it.

    Raises
    ------
    ResultError
        If several have it.
    """
    found = [one for one, other in zip(among, names, strict=True) if other == name]
    if len(found) > 1:
        raise ResultError(
            f"result: {counted(len(found), 'variable')} are called {name!r}, expected a name of "
            "one; ask by the variable itself, or at one client, as in result[client][name]"
        )
    return found[0] if found else None


class Column(NamedTuple):
    """What the table tells of one variable: its name, its value, and the copies at clients."""

    name: str
    value: np.ndarray
    copies: Sequence[np.ndarray]


def table(columns: Iterable[Column]) -> pd.DataFrame:
    """One row an entry of a variable, see :meth:`Result.table`."""
    names: list[str] = []
    entries: list[Any] = []
    values, clients, apart = [np.zeros(0)], [np.zeros(0, dtype=int)], [np.zeros(0)]
    for one in columns:
        dense = np.asarray(one.value, dtype=float)
        size = dense.size
        names += size * [one.name]
        entries += _entries(dense.shape)
        values.append(dense.reshape(-1))
        copies = np.reshape(one.copies, (len(one.copies), size)) if one.copies else values[-1][None]
        has = np.isfinite(copies)  # who uses other entries of an array has none of this
        clients.append(has.sum(axis=0) if one.copies else np.zeros(size, dtype=int))
        most = np.where(has, copies, -np.inf).max(axis=0, initial=-np.inf)
        least = np.where(has, copies, np.inf).min(axis=0, initial=np.inf)
        apart.append(np.where(has.any(axis=0), most - least, 0.0))
    return pd.DataFrame(
        {
            "value": np.concatenate(values),
            "clients": np.concatenate(clients),
            "apart": np.concatenate(apart),
        },
        index=pd.MultiIndex.from_arrays([names, entries], names=["variable", "entry"]),
    )


def _entries(shape: tuple[int, ...]) -> list[Any]:
    """Where each entry stands: a number in a vector, a pair in a matrix, nothing in a scalar."""
    if not shape:
        return [""]
    return list(range(shape[0])) if len(shape) == 1 else list(np.ndindex(shape))


def _name(one: Any) -> str:
    name: Callable[[], str] | None = getattr(one, "name", None)
    return one if name is None else name()
