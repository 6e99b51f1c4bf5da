"""Seeds judged by several processes, also where one of them dies."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

T = TypeVar("T")

BATCH = 400
"""Cases before the processes are started anew, which bounds their memory."""


def in_batches(
    judge: Callable[[int], T], seeds: Sequence[int], processes: int, crashed: Callable[[int], T]
) -> Iterator[T]:
    """``judge(seed)`` of each as it comes; ``crashed(seed)`` where it kills its process."""
    context = multiprocessing.get_context("spawn")
    for at in range(0, len(seeds), BATCH):
        batch = seeds[at : at + BATCH]
        done: set[int] = set()
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            tasks: dict[Future[T], int] = {pool.submit(judge, s): s for s in batch}
            try:
                for task in as_completed(tasks):
                    yield task.result()
                    done.add(tasks[task])
            except BrokenProcessPool:
                pass
        for seed in batch:  # one of them has killed its process; alone, it kills but itself
            if seed not in done:
                yield _alone(judge, seed, crashed)


def _alone(judge: Callable[[int], T], seed: int, crashed: Callable[[int], T]) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(judge, seed).result()
        except BrokenProcessPool:
            return crashed(seed)
