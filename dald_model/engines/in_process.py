"""Engine without another process: the reference for those that have some."""

from __future__ import annotations

from concurrent.futures import Future

from dald_model.engines.residents import Residents
from dald_model.validate import argument, check_whole


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
        self._hosts = [InProcessHost(f"host {at}") for at in range(hosts)]

    def hosts(self) -> list[InProcessHost]:
        """See :class:`dald_model.engines.engine.Engine`."""
        return self._hosts

    def __repr__(self) -> str:
        return f"InProcess(hosts={self._count})"


class InProcessHost:
    """A host that answers before it is waited for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._residents = Residents()

    def send(self, message: bytes) -> Future[bytes]:
        """See :class:`dald_model.engines.engine.Host`."""
        reply: Future[bytes] = Future()
        reply.set_result(self._residents.handle(message))
        return reply

    def restart(self) -> None:
        """See :class:`dald_model.engines.engine.Host`."""
        self._residents = Residents()
