"""Engine of sites in this process: what a federation is tried on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from dald_model.engines.engine import HostLostError
from dald_model.errors import OptionError


class Answering(Protocol):
    """What a host needs of :class:`dald_model.Site`."""

    name: str

    def handle(self, message: bytes) -> bytes:
        """The reply to a message."""
        ...


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
        """See :class:`dald_model.engines.engine.Engine`."""
        return self._hosts

    def __repr__(self) -> str:
        return f"Sites({', '.join(host.name for host in self._hosts)})"


class SiteHost:
    """A site that answers before it is waited for."""

    def __init__(self, site: Answering) -> None:
        self.name, self._site = site.name, site

    def send(self, message: bytes) -> Future[bytes]:
        """See :class:`dald_model.engines.engine.Host`."""
        reply: Future[bytes] = Future()
        try:
            reply.set_result(self._site.handle(message))
        except Exception as error:  # as of a site elsewhere, which would not reply
            reply.set_exception(HostLostError(f"it raised {type(error).__name__}: {error}"))
        return reply

    def restart(self) -> None:
        """See :class:`dald_model.engines.engine.Host`; what it holds is the site's own."""
