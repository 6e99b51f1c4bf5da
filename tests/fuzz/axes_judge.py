"""Runs the model at a point of the axes and judges status, certificate and ``verify`` by the truth.

The label of an answer comes from :mod:`tests.answer.families.drawn`, so from the truth alone.
"""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dald_model as dm
from tests.fuzz.axes import is_ordinary, point
from tests.fuzz.crossed import Crossed, crossed
from tests.fuzz.entry import options, solved
from tests.fuzz.judge import TimeoutReached, limited
from tests.fuzz.pairs import Row

SECONDS = 120
"""Work per model: forty owners and a thousand rounds take a minute."""
FAILURES = (
    "crash",
    "wrong",
    "false certificate",
    "false verification",
    "false refusal",
    "exception",
    "broken",
)
"""What must never happen. A false refusal is a right answer that a witness fails; where it says
"cannot be judged" the verdict is "unproved", which is no failure. Other verdicts are "right",
"borderline", "honest" (no optimum claimed), "doubtful" (no certain truth), "refused", "timeout"."""


@dataclass(frozen=True)
class AxesVerdict:
    """What came of a seed: its point, the verdict, and what each witness said."""

    seed: int
    row: Row
    verdict: str
    status: str = ""
    label: str = ""
    rounds: int = 0
    certificate: str = ""
    verify: str = ""
    error: float = np.nan
    seconds: float = np.nan
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it must never happen."""
        return self.verdict in FAILURES

    @property
    def is_ordinary(self) -> bool:
        """Whether nearly all of its kind have to end optimal and right."""
        return is_ordinary(self.row)

    def flat(self) -> dict[str, Any]:
        """A row of the table, an axis per column."""
        found = asdict(self)
        return {**found.pop("row"), **found}


def judge_axes(seed: int) -> AxesVerdict:
    """Draw the model of a seed and judge it; nothing that it raises ends the run."""
    return judge_row(point(seed), seed)


def judge_row(row: Row, seed: int) -> AxesVerdict:
    """The same for any point of the axes."""
    begun = time.process_time()
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = crossed(row, seed)
            found = _run(row, model, seed) if model else {"verdict": "doubtful"}
    except TimeoutReached:
        found: dict[str, Any] = {"verdict": "timeout"}
    except Exception as error:  # of the harness itself, which then has judged nothing
        found = {"verdict": "broken", "detail": f"{type(error).__name__}: {error}"}
    return AxesVerdict(seed, row, seconds=time.process_time() - begun, **found)


def _run(row: Row, model: Crossed, seed: int) -> dict[str, Any]:
    try:
        result = solved(row, model, seed)
        if not result.recovered.values:  # of a solver's error before the first round
            return {"verdict": "honest", "status": str(result.status), "detail": result.detail}
        checks = {} if row["entry point"] == "sites" else witnesses(result)
    except dm.DaldError as error:
        return {"verdict": "refused", "detail": f"{type(error).__name__}: {error}"}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | TimeoutReached):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
        return {"verdict": "exception", "detail": f"{type(error).__name__} {where}: {error}"}
    return judged(model, result, checks, options(row, seed).get("gap"))


def witnesses(result: Any) -> dict[str, Any]:
    """Both, also of a status that claims no answer: they must not pass a wrong one either."""
    return {"certificate": result.certificate(), "verify": result.verify()}


def judged(
    model: Crossed, result: Any, checks: dict[str, Any], gap: float | None = None
) -> dict[str, Any]:
    """The verdict on a result: the worst of what its status and its witnesses say.

    A status "certified" is measured by the gap that was asked for, witnesses by their own.
    """
    truth = model.drawn.truth
    label = truth.label(result)
    asked = truth.label(result, gap) if gap else label
    said = {name: outcome(check) for name, check in checks.items()}
    claims = result.status in ("optimal", "certified")
    wrong_claim = str(result.status) in ("infeasible", "unbounded")
    found = {
        "status": str(result.status),
        "rounds": result.rounds,
        "label": label,
        "error": abs(float(result.value) - truth.optimum) / truth.scale,
        "detail": f"{result.value:.8g} for {truth.optimum:.8g}, scale {truth.scale:.2g}",
        **said,
    }
    return {"verdict": _verdict(label, asked, said, claims, wrong_claim), **found}


def _verdict(label: str, asked: str, said: dict[str, str], claims: bool, wrong_claim: bool) -> str:
    if wrong_claim or (claims and asked == "wrong"):
        return "wrong"
    if label == "wrong":
        for name, verdict in (
            ("verify", "false verification"),
            ("certificate", "false certificate"),
        ):
            if said.get(name) == "passed":
                return verdict
    if not claims:
        return "honest"
    if label == "right" and "failed" in said.values():
        return "false refusal"
    if label == "right" and "cannot be judged" in said.values():
        return "unproved"
    return "right" if "right" in (label, asked) else "borderline"


def outcome(check: Any) -> str:
    """Say "passed", "failed" or "cannot be judged"; of a witness without that word, by ``ok``."""
    return getattr(check, "outcome", None) or ("passed" if check.ok else "failed")
