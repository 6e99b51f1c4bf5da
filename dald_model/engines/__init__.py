"""Engines: where groups of clients are solved, and what is sent to them."""

from dald_model.engines.engine import Engine, Host, HostLostError, Reply
from dald_model.engines.in_process import InProcess
from dald_model.engines.outgoing import sent
from dald_model.engines.placement import Loss
from dald_model.engines.processes import Processes

__all__ = ["Engine", "Host", "HostLostError", "InProcess", "Loss", "Processes", "Reply", "sent"]
