"""Engine of actors on a Ray cluster, of this machine or of many."""

from __future__ import annotations

import os
import time
import weakref
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from dald_model.engines.engine import HostLostError, Reply, check_patience
from dald_model.engines.hosted_clients import Residents
from dald_model.engines.io_thread import lost
from dald_model.engines.processes import environment
from dald_model.errors import OptionError
from dald_model.validate import argument, check_whole

LOCAL = "local"
"""The address that stands for a cluster of this engine's own, on this machine."""
READY = 300.0
"""Seconds that an actor may take to be placed, which is long where a machine has to start."""


class Ray:
    """Actors on a Ray cluster, in each of which a share of the clients stays.

    As :class:`dald_model.engines.Processes`, on more than one machine: clients travel once, as
    :func:`dald_model.pack` makes them; each actor is sent one message a stage of a round, in which
    are all of its clients, and iterates are those of :class:`dald_model.engines.InProcess` with as
    many hosts bit for bit. What travels are bytes of :mod:`dald_model.engines.wire`: no object of
    cvxpy, no function and no pickle of a model. The cluster's machines need ``dald_model[ray]``
    and the same version of Python.

    A round costs about 3 ms of the coordinator and 2 of each actor, beside the solving. So two
    hosts pay where a round of one process takes some 10 to 20 ms in its clients' solvers (table 15
    of ``tests/benchmarks/RESULTS.md``): eight clients of general cones with 20 variables. On one
    machine :class:`dald_model.engines.Processes` costs a third and starts faster: Ray is for
    clusters.

    Between the stages of a round the coordinator passes on what neighbours are told. Actors could
    wait for each other's replies without it: with messages that ask nothing a chain of eight stages
    took 5.8 ms for 9.7, 0.6 a stage. The default order has two or three stages, and every round
    ends at the coordinator, so that it would save a tenth, and is not built.

    An actor that dies with its process or machine, or has not replied by the ``deadline``, is
    replaced, wherever there is room, and its clients are packed, placed and asked again, also
    before the first round. Where that fails too, another actor has them as well for the rest of the
    run, and the next run shares all out anew; ``result.losses`` says all of it. Where that fails,
    :class:`dald_model.LostError` has the rounds before as its ``result``, or the run goes on
    without these clients, see :class:`dald_model.Unanswered`.

    The actors start with the first solve and stay for later ones until :meth:`close`, the end of a
    ``with`` block or of this process, however it ends. Of a session of Ray that is open already
    the engine is a guest: it is used, whatever the ``address``, and stays open.

    A cluster that is there already is joined by its ``address``, from the head's machine by
    ``"auto"``::

        ray start --head                                    # at the head
        ray start --address=HEAD:6379                       # at each other machine
        python -c "import dald_model as dm; dm.engines.Ray(address='auto')"

    Its token, ``~/.ray/auth_token`` of the head, has to be on each machine, and elsewhere than with
    ``"auto"`` Ray looks for it where the environment has ``RAY_AUTH_MODE=token``. Who can reach
    a cluster and has its token can run code in it: Ray's ports are for a network that you trust.

    Parameters
    ----------
    hosts : int, optional
        How many actors, each with a core of its own; default one a core of the cluster.
    address : str
        Of a cluster that is there, as ``ray.init`` takes it: ``"auto"``, ``"10.0.0.1:6379"``,
        ``"ray://..."``. By default one of this engine's own starts on this machine, in some
        seconds, with 0.4 GB of memory.
    retries : int
        How often in one round an actor is replaced, and then how many others are asked, before
        its clients count as lost.
    deadline : float, optional
        Seconds that an actor has for a reply, the first with the clients' data and
        factorisations; default as long as it takes.
    threads : int
        That the linear algebra of each actor may have.

    Raises
    ------
    OptionError
        If one of them means nothing, if Ray is not installed, or if the cluster is not there or
        has no room.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> with dm.engines.Ray(hosts=2) as engine:  # doctest: +SKIP
    ...     print(common_number([0, 1, 2]).solve(engine=engine).status)
    optimal
    """

    interchangeable = True

    def __init__(
        self,
        hosts: int | None = None,
        *,
        address: str = LOCAL,
        retries: int = 1,
        deadline: float | None = None,
        threads: int = 1,
    ) -> None:
        if hosts is not None:
            check_whole(argument(self, "hosts"), hosts)
        if not isinstance(address, str):
            raise OptionError(
                f"{argument(self, 'address')}{address!r}, expected text such as 'auto', or leave "
                "it out for a cluster of this machine"
            )
        check_patience(self, retries, deadline)
        check_whole(argument(self, "threads"), threads)
        self.retries, self.deadline, self.address = retries, deadline, address
        self._ray = _imported()
        self._count, self._threads = hosts, threads
        self._actors: list[Actor] = []
        self._end = weakref.finalize(self, _nothing)

    def hosts(self) -> list[Actor]:
        if not (self._actors and self._ray.is_initialized()):
            self._start()
        for actor in self._actors:
            actor.start()
        return self._actors

    def close(self) -> None:
        """End the actors, and the cluster if it is this engine's own; a later solve starts others.

        Other sessions and clusters of Ray are left alone.
        """
        self._end()
        self._actors = []

    def _start(self) -> None:
        ray = self._ray
        is_guest = ray.is_initialized()
        if not is_guest:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
            quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
            if self.address == LOCAL:
                cores = max(self._count or 0, os.cpu_count() or 1)
                quiet |= {"include_dashboard": False, "num_cpus": cores}
            try:
                ray.init(address=self.address, **quiet)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                raise OptionError(
                    f"Ray: no cluster answers at {self.address!r} ({error}); expected the address "
                    "of one that `ray start --head` began, with its token in ~/.ray/auth_token and "
                    "RAY_AUTH_MODE=token in the environment if it has one, or leave address out "
                    "for one of this machine"
                ) from error
        cores = int(ray.cluster_resources().get("CPU", 0))
        if (self._count or 1) > cores:
            raise OptionError(
                f"Ray: given hosts={self._count}, but the cluster has {cores} cores; each host "
                "takes one, give at most as many"
            )
        variables = environment(self._threads)
        if self.address != LOCAL:  # other machines have paths of their own
            del variables["PYTHONPATH"]
        made = ray.remote(num_cpus=1, max_restarts=0)(Resident)
        made = made.options(runtime_env={"env_vars": variables})
        self._actors = [Actor(f"actor {at}", ray, made) for at in range(self._count or cores)]
        self._end = weakref.finalize(self, _stop, ray, self._actors, is_guest)

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        hosts = "" if self._count is None else f"hosts={self._count}"
        address = "" if self.address == LOCAL else f"address={self.address!r}"
        return f"Ray({', '.join(part for part in (hosts, address) if part)})"


def _imported() -> ModuleType:
    try:
        # Its import takes longer than ours, and who has another engine need not have it.
        return import_module("ray")
    except ImportError as error:
        raise OptionError(
            "Ray: the package ray is not installed; "
            'pip install "dald_model[ray]", or take dm.engines.Processes(workers=2)'
        ) from error


def _nothing() -> None:
    """There is nothing to end yet."""


def _stop(ray: ModuleType, actors: list[Actor], is_guest: bool) -> None:
    if not ray.is_initialized():
        return
    for actor in actors:
        actor.stop()
    if not is_guest:
        ray.shutdown()


class Resident:
    """The class of an actor: bytes in, bytes out."""

    def __init__(self) -> None:
        self._residents = Residents()

    def handle(self, message: bytes) -> bytes:
        return self._residents.handle(message)

    def ready(self) -> int:
        """The number of its process, once it is there."""
        return os.getpid()


class Actor:
    """One actor, as a :class:`dald_model.engines.engine.Host`."""

    def __init__(self, name: str, ray: ModuleType, made: Any) -> None:
        self.name = name
        self._ray, self._made = ray, made
        self._actor: Any = None
        self.pid: int | None = None
        self._since = 0.0

    def start(self) -> None:
        """Begin the actor where there is none; it is waited for when it is first asked."""
        if self._actor is None:
            self._actor = self._made.remote()
            self._began, self._since = self._actor.ready.remote(), time.monotonic()

    def send(self, message: bytes) -> Reply:
        """See :class:`dald_model.engines.engine.Host`.

        Deadlines are for answers: that the cluster finds a place for a new actor is waited for.
        """
        if self._actor is None:
            return lost("there is no actor")
        try:
            if self.pid is None:
                self.pid = _waited(self._ray, self._began, max(0.0, self._left))
        except (TimeoutError, HostLostError) as error:
            return lost(str(error) or self._no_place)
        return ActorReply(self._ray, self._actor.handle.remote(message))

    def restart(self) -> None:
        """See :class:`dald_model.engines.engine.Host`; one without a place keeps on waiting."""
        if self._actor is not None and self.pid is None and self._left < 0:
            raise HostLostError(self._no_place)
        self.stop()
        self.start()

    @property
    def _left(self) -> float:
        """Seconds in which it has to be placed: all wait at the same time."""
        return self._since + READY - time.monotonic()

    @property
    def _no_place(self) -> str:
        return f"the cluster had no place for it within {READY:g} s"

    def stop(self) -> None:
        """End the actor, whatever it does."""
        actor, self._actor, self.pid = self._actor, None, None
        if actor is not None:
            self._ray.kill(actor, no_restart=True)


class ActorReply(NamedTuple):
    """See :class:`dald_model.engines.engine.Reply`."""

    ray: ModuleType
    reference: Any

    def result(self, timeout: float | None = None) -> bytes:
        return _waited(self.ray, self.reference, timeout)


def _waited(ray: ModuleType, reference: Any, timeout: float | None) -> Any:
    try:
        return ray.get(reference, timeout=timeout)
    except ray.exceptions.GetTimeoutError as error:
        raise TimeoutError from error
    except ray.exceptions.RayError as error:
        said = str(error).partition("\n")[0]
        raise HostLostError(f"{type(error).__name__}: {said}") from error
