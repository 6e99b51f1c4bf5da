"""Mutants of all that crosses a boundary, and what reads them: ``python -m tests.engines.mutants``.

Each is refused by an error of this package, or read; ``python -m tests.engines.mutants 200000``
tries so many and prints how many of each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dald_model as dm
from dald_model.models.mean import common_number
from tests.engines import misbehaving
from tests.engines.messages import DamagedError, decode, encode
from tests.engines.tampered import packed

OTHERS = (None, True, 7, -1, 1e300, "x", "", [], {}, [[1]], {"a": 1})
"""What a field of a header may be instead."""


class Target(NamedTuple):
    """Sound bytes, and what reads such: False where they are refused."""

    sound: list[bytes]
    read: Callable[[bytes], bool]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """With one to five other bytes, or another value in the header where there is one."""
    if rng.random() < 0.5:
        try:
            said, arrays = decode(data)
        except DamagedError:  # a file
            pass
        else:
            field = str(rng.choice([*said, "more"]))
            return encode(said | {field: OTHERS[rng.integers(len(OTHERS))]}, arrays)
    found = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        found[rng.integers(len(found))] = rng.integers(256)
    return bytes(found)


@cache
def targets() -> dict[str, Target]:
    """By name."""
    asked, replied, listening = [], [], misbehaving.site(0)
    handle = listening.handle

    def heard(message: bytes) -> bytes:
        asked.append(message)
        replied.append(handle(message))
        return replied[-1]

    vars(listening)["handle"] = heard
    dm.Federation(dm.engines.Sites([listening, misbehaving.site(1)])).solve(max_rounds=4)
    model, site = common_number([0, 1, 5]), misbehaving.site(0)
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    run, answer = folder / "run.npz", folder / "answer.npz"
    model.solve(checkpoint=run, max_rounds=2).save(answer)

    def answered(data: bytes) -> bool:
        return "error" not in decode(site.handle(data)).said

    def of_file(read: Callable[[Path], Any]) -> Callable[[bytes], bool]:
        def is_read(data: bytes) -> bool:
            path = folder / "mutant.npz"
            path.write_bytes(data)
            return not _refuses(lambda: read(path), dm.DaldError)

        return is_read

    return {
        "packed clients": Target(
            list(packed()), lambda data: not _refuses(lambda: dm.unpack(data), dm.OptionError)
        ),
        "replies": Target(replied, lambda data: not _refuses(lambda: decode(data), DamagedError)),
        "messages to a site": Target(asked, answered),
        "checkpoints": Target(
            [run.read_bytes()],
            of_file(lambda path: dm.resume(path, model, checkpoint=None)),
        ),
        "saved answers": Target([answer.read_bytes()], of_file(dm.load)),
    }


def _refuses(read: Callable[[], Any], error: type[Exception]) -> bool:
    try:
        read()
    except error:
        return True
    return False


def tried(name: str, count: int, seed: int = 0) -> Counter[str]:
    """How many of so many mutants were read and refused; any other error is raised."""
    target, rng, found = targets()[name], np.random.default_rng(seed), Counter[str]()
    for at in range(count):
        mutant = mutated(target.sound[at % len(target.sound)], rng)
        with np.errstate(all="ignore"):
            found["read" if target.read(mutant) else "refused"] += 1
    return found


if __name__ == "__main__":
    given = int(sys.argv[1]) if sys.argv[1:] else 10_000
    for each in targets():
        began = time.process_time()
        ends = tried(each, given // len(targets()), seed=given)
        print(f"{each:20} {dict(ends)} ({time.process_time() - began:.0f} s)", flush=True)
