"""Site: a client declared where its data are."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.curvature import is_angular
from dald_model.coordinate.scaling.local_minimisers import LocalMinimiser, LocalSearch
from dald_model.declare.client import Client
from dald_model.declare.remote import DISCLOSURES
from dald_model.declare.wording import short
from dald_model.engines.dispatch import SolverLayer
from dald_model.engines.portable import Portable
from dald_model.errors import DeclarationError, OptionError
from dald_model.model import Model
from dald_model.site_host import SiteClient
from dald_model.solvers.base import Session, Solver
from dald_model.solvers.registry import NUMERICAL, Choice
from dald_model.text import counted
from dald_model.validate import check_whole

Arrays = dict[str, np.ndarray]

LONGEST = 2**28
"""The most bytes of a message that is read from a socket, 256 MiB: a round of four million entries
takes that much."""


class Site:
    r"""A client that is declared where its data are, and answers a coordinator's messages there.

    .. math:: \min_{x, y} f(x, y) \quad \text{s.t. } (x, y) \in X

    of which the coordinator learns the names and shapes of the shared variables :math:`x`, whether
    the objective has kinks, and nothing of the private variables :math:`y`. It is told answers:

    * before the first round the minimiser :math:`x` of the client by itself, once more held weakly
      around others' where that is far from zero; and three answers held nearer to others, each with
      one number, how strongly: scales and default penalties of a run are secants between these;
    * in each round :math:`x` and the value of the objective, for prices and a hold that the
      coordinator chooses;
    * with ``disclose="curvature"``, where a federation asks for it, none of these but in each round
      Hessian and gradient on the shared variables of what is left once its own are eliminated, see
      :class:`dald_model.InteriorPoint`, and at the end the answer.

    An answer tells the gradient of the objective at a point, and both are functions of the data: of
    one record they are that record. :doc:`/learns` has what follows of them.

    A site has one coordinator at a time: what it did for another begins anew.

    Parameters
    ----------
    name : str
        What results and messages call it; each site of a federation has its own.
    objective, constraints :
        As of :meth:`Model.client`, over cvxpy variables of the site's own.
    shared : sequence of cp.Variable
        Those that it shares. A variable of the same name and shape at another site is the same one,
        so each needs a name.
    disclose : str
        What the owner allows: "answers", or "curvature": :class:`dald_model.InteriorPoint` may ask
        for Hessian and gradient on the shared variables as well, in each round. A federation that
        asks for more than this is refused, here and by name.
    records : int, optional
        How many records the objective is made of, which nobody is told; by default they are not
        counted, and no least number is asked for, as of a plant or a grid, whose objective is made
        of none. That is the owner's to decide: no coordinator can ask for it.
    least_records : int, optional
        The fewest with which the site takes part; default one more than it shares entries. From
        answers to m + 1 prices the Gram matrix of a least squares loss follows, and with up to m
        records its range is the span of these records; of one record, it is that record.

    Raises
    ------
    DeclarationError
        If the client is none, a shared variable has no name or is not in it, nobody but cvxpy can
        solve it, or it has fewer records than the least.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> w, offset = cp.Variable(2, name="w"), cp.Variable(name="offset")
    >>> site = dm.Site("hospital", cp.sum_squares(w + offset - [1, 3]), [w >= 0], shared=[w])
    >>> print(site)
    Site 'hospital': shares w[2], keeps 1 private variable, discloses answers, records not counted
    """

    def __init__(
        self,
        name: str,
        objective: Any,
        constraints: Iterable[Any] = (),
        *,
        shared: Sequence[cp.Variable],
        disclose: str = "answers",
        records: int | None = None,
        least_records: int | None = None,
    ) -> None:
        if disclose not in DISCLOSURES:
            raise OptionError(
                f'site {name!r}: disclose: given {disclose!r}, expected "answers" or "curvature"'
            )
        self.disclose = disclose
        model = Model(f"site {name!r}")
        client = model.client(name, objective, constraints)
        _check_shared(name, shared, client.variables)
        _check_records(name, records, least_records, sum(v.size for v in shared))
        self.name, self.shared, self.records = name, tuple(shared), records
        for v in shared:  # the coordinator is a server to it
            model.consensus(cp.Variable(v.shape, name=f"{v.name()}@coordinator") == v)
        self._compiled = model.compile()
        self._sub = self._compiled[name]
        if self._sub.form is None:
            raise DeclarationError(
                f"site {name!r}: cvxpy's canonical form of its client could not be read, expected "
                "one that a solver of dald_model.solvers takes; write it with other atoms"
            )
        self._residents = SiteClient(self)
        self._layer: SolverLayer | None = None
        self._is_warm = False
        self._search: LocalSearch | None = None
        self._local: LocalMinimiser | None = None

    def handle(self, message: bytes) -> bytes:
        """The reply to a message of a coordinator; what an engine has to bring here."""
        return self._residents.handle(message)

    def serve(self, address: str | Path | tuple[str, int], key: bytes | None = None) -> None:
        """Answer messages at a Unix socket, or at a port, until this process ends.

        The site's Flower client passes messages to it, see :class:`dald_model.engines.Flower`, so
        that only this process reads the data, which stay compiled from round to round.

        Parameters
        ----------
        address : path or tuple
            A path for a Unix socket. Every process that can open it can ask: put it into a folder
            of the site's own. Or host and port, ``("127.0.0.1", 9000)``, as on Windows.
        key : bytes
            Needed with a port, which has no owner: who asks has to have it
            (:mod:`multiprocessing.connection` compares digests). It encrypts nothing, so keep to
            this machine's 127.0.0.1.

        Raises
        ------
        OptionError
            If a port has no key, or this machine has no Unix sockets.
        """
        with _listener(self.name, address, key) as listener:
            while True:
                try:
                    with listener.accept() as caller:
                        caller.send_bytes(self.handle(caller.recv_bytes(LONGEST)))
                # The caller is gone, its message is too long, or it has not the key
                except (EOFError, OSError, AuthenticationError):
                    continue

    def introduction(self) -> dict[str, Any]:
        """The introduction that is sent before anything is asked: no number of it is of data."""
        self._search = self._local = self._layer = None  # of another coordinator
        return {
            "name": self.name,
            "shared": [[v.name(), list(v.shape)] for v in self.shared],
            "disclose": self.disclose,
            "is_exact": self.chain[0].is_exact,
            "is_angular": is_angular(self._sub),
        }

    def alone(self) -> Arrays:
        """The answer of the client by itself; NaN where it is unbounded."""
        self._search = None
        self._begin()
        return {"point": self.local.point[self.columns]}

    def hold(self, told: np.ndarray) -> Arrays:
        """The answer by itself, from where others are: it matters where it is not unique."""
        search = self._search or self._begin()
        search.hold(self.name, self.columns, told)
        self._local = search.of(self.name)
        return {"point": self._local.point[self.columns]}

    def respond(self, told: np.ndarray, weights: np.ndarray) -> Arrays:
        r"""Answers x nearer to points, one a row, and how strongly each was held there.

        x minimises :math:`f(x) + c \sum_k w_k (x_k - t_k)^2` for a point t, with c one number of
        the site's choice, the ``factor``, by which x is at least halfway there.
        """
        search = self._search or self._begin()
        found = [search.ask_at(self.name, self.columns, one, weights) for one in told]
        points, factors = zip(*found, strict=True)
        return {"point": np.array(points)[:, self.columns], "factor": np.array(factors)}

    @property
    def columns(self) -> np.ndarray:
        """Where the shared variables lie among those of the client."""
        starts = np.cumsum([0, *(v.size for v in self._sub.variables)])
        place = {v.id: at for v, at in zip(self._sub.variables, starts, strict=False)}
        return np.concatenate([place[v.id] + np.arange(v.size) for v in self.shared])

    @property
    def chain(self) -> list[Solver]:
        """The solvers of the client, in the order they are tried."""
        return [one for one in Choice(None).chain(self._sub) if one in NUMERICAL]

    @property
    def client(self) -> Client:
        """The client as it was declared."""
        return self._sub.client

    @property
    def sub(self) -> Subproblem:
        """The compiled client."""
        return self._sub

    @property
    def centre(self) -> np.ndarray:
        """The point around which a run has the client's numbers: zero, or where it is from far."""
        whole = np.zeros(0) if self._layer is None else self._layer.middle
        return whole[self._compiled.columns[self.name]] if whole.any() else np.zeros(self._sub.size)

    def open(self, whole: Portable, solver: Solver) -> Session:
        """A session of the client with its edges: once the one that measured it, if they are alike.

        It has a warm start and factors, as in a run of one process, which measures with the
        sessions that go on.
        """
        is_warm, self._is_warm = self._is_warm, False
        matrix, offset = self._sub.sides
        other = whole.sides[0]
        is_alike = matrix.shape == other.shape and not sp.csr_array(matrix - other).count_nonzero()
        is_alike = is_alike and np.array_equal(offset + matrix @ self.centre, whole.sides[1])
        is_alike = is_alike and np.array_equal(self._sub.signs, whole.signs)
        if is_warm and is_alike and self._layer is not None:
            return self._layer.batches((self.name,))[0].session
        data: Any = [whole]
        return solver.open(data)

    def private_units(
        self, lengths: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The natural units of all variables from those of the shared ones."""
        energy, known = float((lengths * slopes).max()), self.local.curvature
        bends = known.diagonal + 2 * known.kinks / lengths.max()
        own = np.abs(np.nan_to_num(self.local.point))
        long = np.sqrt(energy / np.where(bends > 0, bends, np.inf))
        long = np.where(long > 0, long, np.where(own > 0, own, lengths.max()))
        long[self.columns] = lengths
        steep = energy / long
        steep[self.columns] = slopes
        return long, steep

    @property
    def local(self) -> LocalMinimiser:
        """The local minimiser; a site that was started anew in a run has only its first."""
        if self._local is None:
            self._begin()
        assert self._local is not None
        return self._local

    def _begin(self) -> LocalSearch:
        """Find the client's answer by itself, by the first of its solvers that finds one."""
        for solver in self.chain:
            layer = SolverLayer(self._compiled, solver)
            search = LocalSearch(self._compiled, layer)
            search.ask_each([])
            found = search.of(self.name)
            is_first = self._search is None
            if is_first or not np.isnan(found.point).any():
                self._search, self._local = search, found
                self._layer, self._is_warm = layer, is_first
            if not np.isnan(found.point).any():
                break
        assert self._search is not None
        return self._search

    def __repr__(self) -> str:
        shared = ", ".join(f"{v.name()}{list(v.shape) or ''}" for v in self.shared)
        rest = self._sub.size - self.columns.size
        kept = counted(rest, "private variable")
        of = "records not counted" if self.records is None else counted(self.records, "record")
        return f"Site {self.name!r}: shares {shared}, keeps {kept}, discloses {self.disclose}, {of}"


def _listener(name: str, address: str | Path | tuple[str, int], key: bytes | None) -> Listener:
    where = f"site {name!r}: serve at {address!r}"
    if isinstance(address, tuple):
        if not key:
            raise OptionError(
                f"{where} needs a key, expected bytes that its callers have too: "
                "key=pathlib.Path('key').read_bytes(), of a file that only the site can read"
            )
        return Listener(address, "AF_INET", authkey=key)
    if not hasattr(socket, "AF_UNIX"):
        raise OptionError(
            f"{where}: this system has no Unix sockets, expected host and port and a key: "
            "serve(('127.0.0.1', 9000), key=...)"
        )
    Path(address).unlink(missing_ok=True)
    return Listener(str(address), "AF_UNIX", authkey=key)


def _check_shared(
    name: str, shared: Sequence[cp.Variable], variables: Sequence[cp.Variable]
) -> None:
    where, known = f"site {name!r}", {v.id for v in variables}
    if not shared:
        raise DeclarationError(f"{where}: shares no variable, expected one or more in shared=[...]")
    for v in shared:
        if not isinstance(v, cp.Variable):
            raise DeclarationError(
                f"{where}: shares {short(v)}, expected cvxpy Variables; share a variable that an "
                "equality ties to it"
            )
        if v.id not in known:
            raise DeclarationError(
                f"{where}: shares {v.name()!r}, which is neither in its objective nor in a "
                "constraint; leave it out of shared"
            )
        if v.name() == f"var{v.id}":
            raise DeclarationError(
                f"{where}: shares a variable without a name, by which other sites mean the same "
                "one; give it one, cp.Variable(3, name='w')"
            )
    if len({v.name() for v in shared}) < len(shared):
        raise DeclarationError(f"{where}: shares two variables of one name, expected a name each")


def _check_records(name: str, records: int | None, least: int | None, shared: int) -> None:
    where = f"site {name!r}"
    for option, given in (("records", records), ("least_records", least)):
        if given is not None:
            check_whole(f"{where}: {option}: given ", given, 0 if option == "records" else 1)
    if records is None:
        if least is not None:
            raise OptionError(
                f"{where}: least_records: given {least} without the number of records, expected "
                "both: records=len(rows)"
            )
        return
    least = shared + 1 if least is None else least
    if records < least:
        raise DeclarationError(
            f"{where}: its objective is made of {counted(records, 'record')}, expected at least "
            f"{least}, as fewer can be reconstructed from its answers; pool them with another "
            "site's, share fewer variables, or set least_records"
        )
