"""The comparison with other packages: ``make peers``, or ``python -m tests.benchmarks.peers NAME``.

As in benchopt, the tasks, the judge and each peer are files of their own. A peer is a script with
``PEERS`` and a file of pinned requirements; it runs in this environment where that has them, else
in one below ``build/peers``, and is judged here. ``--record`` writes ``peers.json``, of which
``python -m tests.manual.numbers`` makes the manual's tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.benchmarks.panel import commit
from tests.benchmarks.peers import judge
from tests.benchmarks.peers.tasks import tasks
from tests.paths import ROOT

HERE = Path(__file__).parent
FILE = HERE.with_name("peers.json")
NAMES = sorted(file.stem for file in HERE.glob("*.txt"))
LIMIT = 300
"""Seconds for one peer, and for the installation of its environment."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description=__doc__)
    parser.add_argument("name", nargs="*", help="peers; all if none is named")
    parser.add_argument("--list", action="store_true", help="peers and their requirements")
    parser.add_argument("--record", action="store_true", help="write what was run to peers.json")
    given = parser.parse_args()
    unknown = set(given.name) - set(NAMES)
    if unknown:
        parser.error(f"no peer is named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if given.list:
        for name in NAMES:
            print(f"{name:16} {', '.join(requirements(name))}")
        return 0
    found = {name: run(name) for name in given.name or NAMES}
    if given.record:
        kept = json.loads(FILE.read_text())["peers"] if FILE.exists() else {}
        FILE.write_text(frozen({name: (kept | found)[name] for name in sorted(kept | found)}))
    return 0


def requirements(name: str) -> list[str]:
    return (HERE / f"{name}.txt").read_text().split()


def run(name: str) -> dict[str, Any]:
    """Rows of a peer, judged; if it cannot be installed or stops early, the reason in one line."""
    found: dict[str, Any] = {"commit": commit(), "requires": requirements(name), "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.jsonl"
        file.touch()
        try:
            command = [interpreter(name), "-m", "tests.benchmarks.peers.one", name, str(file)]
            _call(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
        except subprocess.TimeoutExpired:
            found["failed"] = f"stopped after {LIMIT} s"
        except subprocess.CalledProcessError as error:
            found["failed"] = (error.stderr.strip().splitlines() or ["no message"])[-1][:160]
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if "x" in row:
                row |= judge.judged(row["task"], row.pop("x"))
            found["rows"].append(row)
            print(name, row, flush=True)
    if "failed" in found:
        print(name, found["failed"], flush=True)
    return found


def interpreter(name: str) -> str:
    """Path of this Python if it has what the peer requires, else of the environment's own."""
    if all(_is_here(one) for one in requirements(name)):
        return sys.executable
    own = ROOT / "build" / "peers" / name
    if not (own / "installed").exists():
        _call([sys.executable, "-m", "venv", str(own)])
        _call([str(own / "bin" / "pip"), "install", "-q", *requirements(name)])
        (own / "installed").touch()
    return str(own / "bin" / "python")


def _is_here(requirement: str) -> bool:
    package, _, version = requirement.partition("==")
    try:
        return metadata.version(package) == version or not version
    except metadata.PackageNotFoundError:
        return False


def _call(command: list[str], **options: Any) -> None:
    subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=LIMIT, **options
    )


def frozen(found: dict[str, Any]) -> str:
    """Rows with commit, machine and how well the reference is known, a row a line."""
    head = {
        "commit": commit(),
        "machine": f"{os.cpu_count()} cores {platform.machine()}, Python "
        f"{platform.python_version()}, one thread, beside other work",
        "references_apart": {name: judge.reference(name).apart for name in tasks()},
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    peers = []
    for name, one in found.items():
        rows = ",\n".join(json.dumps({k: _short(v) for k, v in row.items()}) for row in one["rows"])
        rest = json.dumps({key: value for key, value in one.items() if key != "rows"})[1:-1]
        peers.append(f'{json.dumps(name)}: {{{rest}, "rows": [\n{rows}\n]}}')
    return "{\n" + ",\n".join([*lines, '"peers": {\n' + ",\n".join(peers) + "\n}"]) + "\n}\n"


def _short(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
