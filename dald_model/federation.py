"""Federation: a model whose clients are declared at their sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Self

import cvxpy as cp
import numpy as np

from dald_model.algorithms.interior_point import InteriorPoint, check_consent
from dald_model.declare.remote import RemoteClient, remote_client
from dald_model.engines.engine import Engine, Host, HostLostError
from dald_model.engines.messages import admitted, introduction, question
from dald_model.engines.wire import NUMBERS, Expected, Message, encode
from dald_model.errors import DeclarationError, LostError, OptionError
from dald_model.model import Model
from dald_model.text import counted
from dald_model.values import others_turn

REFUSED = {
    "engine": "the federation has its own",
    "solver": "each site chooses its own",
    "gap": "a certificate needs the objectives",
    "algorithm": "dm.DALD() alone needs nothing of a client but its answers; dm.InteriorPoint() is "
    "for sites that show curvature",
}
"""Options of a solve that mean nothing where only what is shared is known, and why."""


class Federation(Model):
    r"""A model whose clients are at the sites of an engine, each declared there by a :class:`Site`.

    Every site is asked once to introduce itself; sites that share a variable of the same name and
    shape agree on it, through a server or, after :meth:`topology`, peer to peer by way of the
    coordinator. Then it is a model like any other: ``solve`` has the options of one in a single
    process but ``engine``, ``solver``, ``algorithm`` and ``gap``, and its iterates up to scales,
    which come from the sites' answers alone; a run that was written to a file goes on by
    ``dm.resume(path, federation, engine=federation.engine)``. Nothing can be verified here, as
    nobody here has an objective.

    Each reply is checked against what was asked, and each answer against those before: answers of
    one convex function have prices that rise along every way between two points, and without kinks
    they lie on or above every tangent. A site whose answers do not, by more than the accuracy
    explains that it was asked for, counts as one without an answer: it is named, and
    ``online=dm.Unanswered()`` goes on without it. Of three sites or more none decides the scales.
    Not seen is a site that answers for another convex function all along: with data of its own
    making, a constant added to the objective, or always the same point. Nor is curvature compared,
    of ``disclose="curvature"``.

    Parameters
    ----------
    engine : Engine
        One client a host, such as :class:`dald_model.engines.Flower`, or
        :class:`dald_model.engines.Sites` for sites in this process.
    name : str

    Raises
    ------
    OptionError
        If ``engine`` is none.
    DeclarationError
        If two sites have one name, or a variable has two shapes.
    LostError
        If a site does not answer, or not as a site does; it names the site and the field.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> def at(place):
    ...     w, offset = cp.Variable(name="w"), cp.Variable(name="offset")
    ...     loss = cp.square(w + offset - place) + cp.square(offset)
    ...     return dm.Site(f"site {place}", loss, shared=[w])
    >>> federation = dm.Federation(dm.engines.Sites([at(0), at(1), at(5)]))
    >>> result = federation.solve()
    >>> print(result.status, round(float(result["w"]), 4))
    optimal 2.0
    """

    def __init__(self, engine: Engine, name: str = "federation") -> None:
        if not isinstance(engine, Engine):
            raise OptionError(
                f"federation: given {engine!r}, expected an engine whose hosts are sites, such as "
                "dm.engines.Flower(grid, sites=3), or dm.engines.Sites([...]) in this process"
            )
        super().__init__(name)
        self.engine = engine
        known: dict[str, cp.Variable] = {}
        hosts = engine.hosts()
        for at, (said, _) in enumerate(_introductions(engine, hosts)):
            site, shared = said["name"], []
            for variable, shape in said["shared"]:
                one = known.setdefault(variable, cp.Variable(tuple(shape), name=variable))
                if list(one.shape) != shape:
                    raise DeclarationError(
                        f"federation: site {site!r} shares {variable!r} of shape {tuple(shape)}, "
                        f"expected {one.shape} as at another site; give one of them another name"
                    )
                shared.append(one)
            if site in self.clients:
                raise DeclarationError(
                    f"federation: {hosts[at].name} introduces itself as {site!r}, as another site "
                    "does; give each a name of its own"
                )
            asked = partial(_ask, engine, hosts[at], sum(one.size for one in shared))
            self.enter([remote_client(site, shared, asked, at, said)])

    def solve(self, **options: Any) -> Any:
        """See :meth:`Model.solve`; each round waits for all sites.

        Raises
        ------
        OptionError
            If an option is given that needs the objectives here.
        """
        is_curved = isinstance(options.get("algorithm"), InteriorPoint)
        if is_curved or options.get("disclose") == "curvature":
            check_consent({one.name: one.disclose for one in self.sites})
        for option, why in REFUSED.items():
            if options.get(option) is not None and not (is_curved and option == "algorithm"):
                raise OptionError(
                    f"{option}: given {options[option]!r} for a federation, where {why}; leave it "
                    "out"
                )
        return super().solve(engine=self.engine, **options)

    @property
    def sites(self) -> list[RemoteClient]:
        """The clients of the sites."""
        return [one for one in self.clients.values() if isinstance(one, RemoteClient)]

    def couple(self, *given: Any, **options: Any) -> NoReturn:
        """Refused: couplings see parts of clients that sites do not share.

        Raises
        ------
        DeclarationError
        """
        raise DeclarationError(
            f"{self.name!r}: couplings of sites are not supported, expected consensus; have the "
            "sites share a variable"
        )

    def _anew(self) -> Self:
        """Copies ask nobody."""
        found = type(self).__new__(type(self))
        Model.__init__(found, self.name)
        found.engine = self.engine
        return found


def _introductions(engine: Engine, hosts: Sequence[Host]) -> list[Message]:
    """How each host introduces itself, all asked at once.

    Raises
    ------
    RunError
        If one does not.
    """
    asked = [_Question(engine, host, "introduce", {}, introduction) for host in hosts]
    return [one.received() for one in asked]


def _ask(
    engine: Engine, host: Host, size: int, kind: str, arrays: Mapping[str, np.ndarray]
) -> Callable[[], dict[str, np.ndarray]]:
    """Begin to ask one host, which shares so many entries; gives what waits for its arrays."""
    asked = _Question(engine, host, kind, arrays, question(kind, size))
    return lambda: asked.received().arrays


class _Question:
    """A question that is on its way."""

    def __init__(
        self,
        engine: Engine,
        host: Host,
        kind: str,
        arrays: Mapping[str, np.ndarray],
        expected: Expected,
    ) -> None:
        self._engine, self._host, self._expected = engine, host, expected
        self._number = next(NUMBERS)
        self._message = encode({"number": self._number, "question": kind}, arrays)
        self._reply = host.send(self._message)

    def received(self) -> Message:
        """Wait for the reply; where none comes, or it is refused, ask again."""
        engine, host = self._engine, self._host
        error: Exception | None = None
        for _ in range(engine.retries + 1):
            try:
                if error is not None:
                    host.restart()
                    self._reply = host.send(self._message)
                with others_turn():  # a site in a thread of this process may compile
                    reply = self._reply.result(engine.deadline)
                return admitted(reply, self._number, self._expected)
            except (TimeoutError, HostLostError) as lost:
                error = lost
        said = str(error) or f"no reply within {engine.deadline} s"
        raise LostError(
            f"engine: {host.name} was asked {counted(engine.retries + 1, 'time')} before round 1 "
            f"and gave no answer that can be used ({said}); see that the site runs with this "
            "version of dald_model, or allow a longer deadline"
        )
