"""Engines: where groups of clients are solved, and what is sent to them.

``solve(engine=None)`` solves them in this process. :class:`Processes` has processes on this
machine, :class:`Ray` actors on a cluster, :class:`MPI` the ranks of a job; :class:`InProcess`
sends the same messages without a process, as the reference. Another engine, of another machine or
framework, is an object with ``hosts()``, ``retries`` and ``deadline`` (:class:`Engine`), whose
hosts take bytes and give bytes (:class:`Host`), from a
:class:`Residents` where the clients are: what is sent, what is asked
again, deadlines and the exactly-once of answers are the same for all. :func:`sent` lists what
leaves a client.

These bring clients to hosts. Where data may not travel at all, clients are declared at their sites
(:class:`dald_model.Site`), and a :class:`dald_model.Federation` solves them: by :class:`Flower` and
:mod:`dald_model.engines.flower`, or in this process, to try it, by :class:`Sites`. And where no
process is to coordinate, each declares its part of a model: :class:`dald_model.Peer`.
"""

from dald_model.engines import flower
from dald_model.engines.engine import Engine, Host, HostLostError, Reply
from dald_model.engines.flower import Flower
from dald_model.engines.in_process import InProcess, Sites
from dald_model.engines.mpi_ranks import MPI
from dald_model.engines.message_table import sent
from dald_model.engines.failover import Loss
from dald_model.engines.processes import Processes
from dald_model.engines.ray_actors import Ray
from dald_model.engines.hosted_clients import Residents

__all__ = [
    "MPI",
    "Engine",
    "Flower",
    "Host",
    "HostLostError",
    "InProcess",
    "Loss",
    "Processes",
    "Ray",
    "Reply",
    "Residents",
    "Sites",
    "flower",
    "sent",
]
