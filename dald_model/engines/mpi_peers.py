"""Messages between the ranks of an MPI job that are peers: none of them coordinates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dald_model.engines.mpi_ranks import library, wait


class Peers:
    """The ranks of this job, each of which calls the same methods in the same order.

    Messages are buffers of numbers or bytes, never a pickle.

    Attributes
    ----------
    rank, size : int
        The number of this rank, from 0, and of all.

    Raises
    ------
    OptionError
        If mpi4py is not installed.
    """

    def __init__(self) -> None:
        self._mpi = library()
        self._world = self._mpi.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The largest of all ranks, entry by entry."""
        return self._reduced(values, self._mpi.MAX)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over all ranks, entry by entry."""
        return self._reduced(values, self._mpi.SUM)

    def gathered(self, said: bytes) -> list[bytes]:
        """The messages of all ranks, in their order."""
        sizes = np.empty(self.size, dtype=np.int64)
        mine = np.array([len(said)], dtype=np.int64)
        wait(self._world.Iallgather(mine, sizes).Test, None)
        found = np.empty(int(sizes.sum()), dtype=np.uint8)
        sent = np.frombuffer(said, dtype=np.uint8)
        wait(self._world.Iallgatherv(sent, [found, sizes]).Test, None)
        return [part.tobytes() for part in np.split(found, np.cumsum(sizes)[:-1])]

    def swapped(
        self, outgoing: Mapping[int, np.ndarray], incoming: Mapping[int, int]
    ) -> dict[int, np.ndarray]:
        """Send numbers to some ranks, and receive so many from some."""
        found = {rank: np.empty(size) for rank, size in incoming.items()}
        waiting = [self._world.Irecv(values, rank) for rank, values in found.items()]
        waiting += [self._world.Isend(values, rank) for rank, values in outgoing.items()]
        for each in waiting:
            wait(each.Test, None)
        return found

    def _reduced(self, values: np.ndarray, how: object) -> np.ndarray:
        found = np.empty_like(values)
        wait(self._world.Iallreduce(np.ascontiguousarray(values), found, how).Test, None)
        return found
