"""A saved answer, read without the model it is of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, overload

import cvxpy as cp
import numpy as np

from dald_model.answer import plots
from dald_model.answer.binding import bound
from dald_model.answer.by_name import ClientValues, Column, chosen, table
from dald_model.answer.result import Result, summary
from dald_model.answer.saving import meant, read, taken, told_history
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.status import Status
from dald_model.engines.assignment import Event
from dald_model.engines.failover import Loss
from dald_model.errors import ResultError
from dald_model.text import Bare, Heading, Part, Printed, listed, printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Compilable(Protocol):
    """What a result can be of: a :class:`dald_model.Model`."""

    name: str

    def compile(self) -> Decomposition: ...

    def ways(self) -> Iterable[Compilable]: ...


class SavedAnswer(Printed):
    """The answer of a run by names, without its model, as :func:`load` reads it.

    ``saved["w"]`` is the value of a variable, ``saved["area 0"]["x0"]`` that at a client. What
    needs the clients' objectives and constraints, such as ``verify()``, is asked of
    ``saved.on(model)``.

    Attributes
    ----------
    name : str
        Of the model.
    status, value, rounds, answer_round, history, seconds, eps_pri, eps_dual, culprit, detail, \
fallbacks, left, dropped :
        As of a :class:`Result`.
    multipliers : dict
        Pair of clients -> multiplier of their edge, flat.
    duals : dict
        Client or coupling -> the dual values of its own constraints, in the order in which they
        were declared; those of consensus equalities are the ``multipliers``.
    parameters : dict
        Name -> the value that the Parameter had.
    recalled, losses : tuple
        Empty: what a run knew of clients, and the hosts that it lost, are not kept.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> model = common_number([0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     model.solve().save(Path(folder, "answer.npz"))
    ...     saved = dm.load(Path(folder, "answer.npz"))
    >>> round(float(saved["w"]), 4), saved.on(model).verify().ok
    (1.0, True)
    """

    recalled: tuple[Hashable, ...] = ()
    losses: tuple[Loss, ...] = ()

    def __init__(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._header, self._arrays = header, arrays
        self.name: str = header["model"]
        self.status = Status(header["status"])
        self.value, self.seconds = float(header["value"]), float(header["seconds"])
        self.rounds, self.answer_round = int(header["rounds"]), int(header["answer_round"])
        self.eps_pri, self.eps_dual = map(float, header["eps"])
        self.detail: str = header["detail"]
        given = header["culprit"]
        self.culprit = meant(given[0]) if isinstance(given, list) else given
        self.fallbacks = tuple(Event(at, meant(n), *e) for at, n, *e in header["fallbacks"])
        self.left = {meant(name): at for name, at in header["left"]}
        self.dropped = {tuple(map(meant, ends)): at for ends, at in header["dropped"]}
        self.history: pd.DataFrame = told_history(header, arrays)
        self.clients = tuple(meant(name) for name, kind in header["clients"] if kind == "client")
        self._names: list[str | None] = header["variables"]
        self._values = taken(arrays["values"], header["shapes"])
        self._at = {meant(name): list(places) for name, places in header["at"]}
        copies = taken(
            arrays["copies"], [header["shapes"][k] for w in self._at.values() for k in w]
        )
        pool = iter(copies)
        self._copies = {name: [next(pool) for _ in places] for name, places in self._at.items()}
        pool = iter(taken(arrays["duals"], header["dual shapes"]))
        self._duals = {
            meant(name): tuple(tuple(next(pool) for _ in range(count)) for count in counts)
            for name, counts in header["duals"]
        }
        self.duals = {
            name: [rule[0] if len(rule) == 1 else list(rule) for rule in held]
            for name, held in self._duals.items()
        }
        ends = [tuple(map(meant, pair)) for pair, _ in header["edges"]]
        sizes = [[parts[-1][1]] for _, parts in header["edges"]] if self._values else []
        self.multipliers: dict[tuple[Hashable, ...], np.ndarray] = dict(
            zip(ends, taken(arrays["multipliers"], sizes), strict=False)
        )
        values = taken(arrays["given"], header["given shapes"])
        self.parameters = dict(zip(header["given"], values, strict=True))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, cp.Expression):
            raise ResultError(
                f"saved answer of {self.name!r}: given the cvxpy object {key}, which is of this "
                "process, expected a name; or dm.load(path, model), which knows the model's own"
            )
        known = [name for name in self._names if name is not None]
        if isinstance(key, Hashable) and key in self._copies:
            pairs = zip(self._at[key], self._copies[key], strict=True)
            held = dict(pairs)
            for whole, pieces in self._header.get("arrays", ()):
                its = [(held[at], entries) for at, entries in pieces if at in held]
                if its:  # an array of which the client uses some entries
                    held[whole] = np.full(self._values[whole].shape, np.nan)
                    for value, entries in its:
                        place = np.unravel_index(entries, held[whole].shape, order="F")
                        held[whole][place] = np.ravel(value, order="F")
            return ClientValues(key, {n: x for k, x in held.items() if (n := self._names[k])})
        found = chosen(key, [name or "" for name in self._names], self._values)
        if found is not None:
            return found
        raise ResultError(
            f"saved answer of {self.name!r}: {key!r} is neither a variable nor a client; expected "
            f"one of {listed(known)}, or one of {listed(self._copies)}"
        )

    def on(self, model: Compilable) -> Result:
        """The result on its model, which was declared again, in this process or another.

        It is what the run returned: it verifies, knows variables and constraints by themselves,
        sets their values by ``apply()``, and ``solve(start=...)`` goes on from it, with natural
        scales measured again and no learned models of clients. Parameters keep the values that they
        have; ``verify()`` compares with the problem that was solved.

        Raises
        ------
        ResultError
            If clients, edges, constraints, or names or shapes of variables are other ones.
        """
        refusals = []
        for way in model.ways():  # a topology may have been chosen for the algorithm
            try:
                return bound(self, self._header, self._arrays, way.compile())
            except ResultError as error:
                refusals.append(error)
        raise refusals[0]

    def table(self) -> pd.DataFrame:
        """One row per entry of a variable, as :meth:`Result.table`."""
        servers = {meant(name) for name, kind in self._header["clients"] if kind == "server"}
        copies: dict[int, list[np.ndarray]] = {at: [] for at in range(len(self._names))}
        for name, places in self._at.items():
            if name not in servers:
                for place, value in zip(places, self._copies[name], strict=True):
                    copies[place].append(value)
        return table(
            Column(name, value, copies[at])
            for at, (name, value) in enumerate(zip(self._names, self._values, strict=True))
            if name is not None
        )

    def plot(self) -> Figure:
        """Residuals, objective gap and rho against rounds, as :meth:`Result.plot`."""
        return plots.result_plot(self, self.name)

    def verify(self, *given: Any, **options: Any) -> NoReturn:
        """Refused: it takes the clients' objectives and constraints."""
        raise self._without_model("verify")

    def certificate(self, *given: Any, **options: Any) -> NoReturn:
        """Refused: it takes the clients' objectives and constraints."""
        raise self._without_model("certificate")

    def apply(self) -> NoReturn:
        """Refused: there are no variables to set."""
        raise self._without_model("apply")

    def _without_model(self, what: str) -> ResultError:
        return ResultError(
            f"{what}: a saved answer has neither objectives nor constraints nor variables, "
            f"expected it on its model; declare {self.name!r} again and take "
            f"saved.on(model).{what}(...)"
        )

    def report(self, *, wide: bool) -> list[Part]:
        """The summary."""
        head = Heading(f"Saved answer of {self.name!r}")
        return [head, Bare(summary(self, len(self.clients)))]


@overload
def load(path: Path | str) -> SavedAnswer: ...
@overload
def load(path: Path | str, model: Compilable) -> Result: ...
def load(path: Path | str, model: Compilable | None = None) -> SavedAnswer | Result:
    """Read what :meth:`Result.save` wrote.

    Parameters
    ----------
    path : str or Path
    model : Model
        The model that it is an answer of, declared again.

    Returns
    -------
    SavedAnswer or Result
        The answer by names; with a model the whole result, as of ``SavedAnswer.on``.

    Raises
    ------
    ResultError
        If the file cannot be read, or is of another model.

    Examples
    --------
    >>> import tempfile
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> def declared():
    ...     w, model = cp.Variable(name="w"), dm.Model("two numbers")
    ...     owners = [model.client(f"owner {i}", cp.square(w - 2 * i)) for i in range(2)]
    ...     return model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     declared().solve().save(f"{folder}/answer.npz")
    ...     saved = dm.load(f"{folder}/answer.npz")
    >>> print(saved.status, round(float(saved["w"]), 3))
    optimal 1.0
    >>> saved.on(declared()).verify().ok
    True
    """
    try:
        found = SavedAnswer(*read(path))
    except ResultError:
        raise
    except Exception as error:  # whatever another header than was written makes arrays raise
        raise ResultError(
            f"load: {str(path)!r} lacks what its header names ({printable(str(error), 200)}), "
            "expected a file that result.save(path) wrote; save the result again"
        ) from error
    return found if model is None else found.on(model)
