"""Engines without another process: the references for those that have some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from dald_model.engines.engine import HostLostError
from dald_model.engines.hosted_clients import Residents
from dald_model.errors import OptionError
from dald_model.validate import argument, check_whole


class Answering(Protocol):
    """An object that answers messages, such as :class:`dald_model.Site`."""

    name: str

    def handle(self, message: bytes) -> bytes:
        """The reply to a message."""
        ...


class OwnHost:
    """A host in this process.

    ``begins`` makes the object that answers, at first and after a restart. A message whose answer
    raises counts as one without a reply.
    """

    def __init__(self, name: str, begins: Callable[[], Residents | Answering]) -> None:
        self.name, self._begins = name, begins
        self._answering = begins()

    def send(self, message: bytes) -> Future[bytes]:
        reply: Future[bytes] = Future()
        try:
            reply.set_result(self._answering.handle(message))
        except Exception as error:
            reply.set_exception(HostLostError(f"it raised {type(error).__name__}: {error}"))
        return reply

    def restart(self) -> None:
        self._answering = self._begins()


class InProcess:
    """Hosts in this process, each behind the messages of an engine.

    What ``engine=None`` does, by way of packed clients and bytes: every other engine of as many
    hosts gives these iterates bit for bit, as it sends the same messages.

    Parameters
    ----------
    hosts : int

    Raises
    ------
    OptionError
        If ``hosts`` is no whole number from 1.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(engine=dm.engines.InProcess(2)).status)
    optimal
    """

    retries, deadline = 0, None
    interchangeable = True

    def __init__(self, hosts: int = 1) -> None:
        self._count = hosts
        check_whole(argument(self, "hosts"), hosts)
        self._hosts = [OwnHost(f"host {at}", Residents) for at in range(hosts)]

    def hosts(self) -> list[OwnHost]:
        return self._hosts

    def __repr__(self) -> str:
        return f"InProcess(hosts={self._count})"


class Sites:
    """Sites in this process, each behind the messages that it would get elsewhere.

    The reference of an engine that brings them to real sites, and a rehearsal of a federation
    before anybody is connected: the messages are the same, byte for byte but for their numbers.

    Parameters
    ----------
    sites : sequence of dald_model.Site

    Raises
    ------
    OptionError
        If there is none.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> w = [cp.Variable(2, name="w") for _ in range(2)]
    >>> sites = [dm.Site(f"site {i}", cp.sum_squares(w[i] - i), shared=[w[i]]) for i in range(2)]
    >>> result = dm.Federation(dm.engines.Sites(sites)).solve()
    >>> print(result["w"].round(4))
    [0.5 0.5]
    """

    retries, deadline = 0, None
    interchangeable = False

    def __init__(self, sites: Sequence[Answering]) -> None:
        if not sites:
            raise OptionError("Sites: given none, expected at least one dm.Site(...)")
        self._hosts = [SiteHost(site) for site in sites]

    def hosts(self) -> list[SiteHost]:
        return self._hosts

    def __repr__(self) -> str:
        return f"Sites({', '.join(host.name for host in self._hosts)})"


class SiteHost(OwnHost):
    """A site, whose own is what it holds, through a restart too."""

    def __init__(self, site: Answering) -> None:
        super().__init__(site.name, lambda: site)
