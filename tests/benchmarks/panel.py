"""The frozen panel: status, rounds and true gap of a hundred models, and what a change did to them.

``python -m tests.benchmarks --panel`` runs them and compares with ``panel.json``; with ``--freeze``
it writes that file, and with ``--record`` it writes the rounds of this commit to ``rounds.json``,
which the manual quotes. The optimal value is Clarabel's at tight tolerances on the all-in-one
problem, taken once, when the file is written.
"""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dald_model as dm
from tests.benchmarks import common
from tests.benchmarks.panel_cases import Make, panel
from tests.expect import number

FILE = Path(__file__).with_name("panel.json")
"""What is compared with."""
RECORD = Path(__file__).with_name("rounds.json")
"""Status and rounds at one commit, as the manual quotes them."""
LOOSE = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
"""What Clarabel is asked for where it does not reach :data:`common.TIGHT`."""
WRONG = 1e-4
"""A gap beyond is a wrong answer, as for ``verify``."""
ROUNDS = 1.1
"""What a change may cost, in the geometric mean of rounds."""
WORST = 8
"""Models that are printed, with the most rounds beside those frozen."""


class Found(NamedTuple):
    """What came of one model.

    ``gap`` is (value - best) / |best|, ``cpu`` seconds of the processor for compiling and solving
    in units of a fixed job's, timed just before: so figures of two machines can be compared.
    """

    status: str
    rounds: int
    gap: float
    cpu: float

    @property
    def is_wrong(self) -> bool:
        """Whether it is called optimal and is not."""
        return self.status == "optimal" and not abs(self.gap) <= WRONG


def run(make: Make, best: float) -> Found:
    """One model, declared anew and solved with every default."""
    model, unit = make(), _yardstick()
    with common.undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        try:
            result = model.solve()
        except dm.DaldError as error:
            return Found(type(error).__name__, 0, np.nan, np.nan)
        took = time.process_time() - begun
    gap = (result.value - best) / (abs(best) or 1.0)
    return Found(str(result.status), result.rounds, float(gap), took / unit)


def _yardstick() -> float:
    """Seconds of a fixed job of numpy's and Python's own."""
    matrix = np.random.default_rng(0).normal(size=(60, 60))
    begun, total = time.process_time(), 0.0
    for at in range(300):
        total += float(np.linalg.solve(matrix + at * np.eye(60), matrix[0]).sum())
        total += sum(k * k for k in range(300))
    return time.process_time() - begun


def best(make: Make) -> float:
    """The optimal value by Clarabel."""
    for options in (common.TIGHT, LOOSE, {}):
        problem = make().monolithic()
        with common.silent():
            problem.solve(solver="CLARABEL", **options)
        if problem.status == "optimal":
            break
    return number(problem.value)


def report(words: list[str], *, freeze: bool, record: bool) -> str:
    """Run the models whose names have one of these words, all if there is none, and compare."""
    frozen = json.loads(FILE.read_text()) if FILE.exists() else {}
    chosen = {
        name: make
        for name, make in panel().items()
        if not words or any(word in name for word in words)
    }
    found: dict[str, Found] = {}
    next(iter(chosen.values()))().solve()  # imports and the like
    for name, make in chosen.items():
        known = frozen.get(name, {}).get("best")
        optimum = best(make) if known is None else known
        found[name] = run(make, optimum)
        one = found[name]
        common.say(f"{name}: {one.status}, {one.rounds} rounds, gap {one.gap:.1e}, {one.cpu:.1f}")
        if freeze:
            frozen[name] = {"best": optimum, **_rounded(one)}
    if freeze:
        lines = [f"{json.dumps(name)}: {json.dumps(frozen[name])}" for name in frozen]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if record:
        models = {name: {"status": one.status, "rounds": one.rounds} for name, one in found.items()}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in models.items())
        RECORD.write_text(f'{{"commit": "{commit()}", "models": {{\n{lines}\n}}}}\n')
    return "\n".join(compared(found, frozen))


def commit() -> str:
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()


def _rounded(one: Found) -> dict[str, Any]:
    return one._asdict() | {"gap": float(f"{one.gap:.2g}"), "cpu": float(f"{one.cpu:.3g}")}


def compared(found: dict[str, Found], frozen: dict[str, dict[str, Any]]) -> list[str]:
    """The verdict, and the models that make it."""
    lines, ratios, cpus = [], {}, []
    for name, now in found.items():
        if name not in frozen:
            lines.append(f"not frozen: {name}")
            continue
        fields = {key: frozen[name][key] for key in Found._fields}
        then = Found(**fields)
        if now.status != then.status:
            lines.append(f"status: {name}: {then.status}, now {now.status} (gap {now.gap:.1e})")
        if now.is_wrong:
            lines.append(f"wrong: {name}: optimal, and {now.gap:.1e} off (was {then.gap:.1e})")
        if now.rounds and then.rounds:
            ratios[name] = now.rounds / then.rounds
            cpus.append((now.cpu, then.cpu))
    if not ratios:
        return lines
    mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
    now, then = np.array(cpus).T
    each = float(np.exp(np.log(now / then).mean()))
    worst = sorted(ratios, key=ratios.__getitem__, reverse=True)[:WORST]
    lines += [
        f"rounds: {mean:.3f}x in the geometric mean of {len(ratios)}, "
        f"worst {ratios[worst[0]]:.2f}x; at most {ROUNDS}x is allowed",
        f"CPU: {now.sum() / then.sum():.2f}x in sum, {each:.2f}x in the geometric mean",
        *(
            f"  {ratios[name]:.2f}x  {frozen[name]['rounds']} -> {found[name].rounds}  {name}"
            for name in worst
        ),
    ]
    return lines
