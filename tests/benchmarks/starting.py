"""Table 13: from the start of python to an answer, in imports of cvxpy."""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from tests.benchmarks import common

ROOT = Path(__file__).parents[2]
REPEATS = 7
"""Fresh processes of each, in turn; medians count."""


def programs() -> dict[str, str]:
    """What is run, the first example of the README among it."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    return {
        "import cvxpy": "import cvxpy",
        "import dald_model": "import dald_model",
        "the README's first example, verified": example[1],
    }


def spent(code: str) -> float:
    """Processor seconds of a fresh process, which finds Python's files compiled."""
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=given)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table() -> str:
    common.say("13 starting")
    codes = programs()
    for code in codes.values():
        spent(code)  # compiles python's files where they are not yet
    rounds = [[spent(code) for code in codes.values()] for _ in range(REPEATS)]
    found = [statistics.median(one) for one in zip(*rounds, strict=True)]
    lines = [
        [name, common.number(one / found[0]), common.number(1e3 * one)]
        for name, one in zip(codes, found, strict=True)
    ]
    return (
        "## 13. Starting up\n\n"
        f"Processor seconds of fresh processes, medians of {REPEATS} of each in turn.\n\n"
        + common.markdown(["program", "over import cvxpy", "ms"], lines)
    )
