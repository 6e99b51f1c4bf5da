"""The comparison's judge agrees with other methods, refuses wrong answers, and eight peers ran."""

import json

import numpy as np
import pytest

from tests.benchmarks.peers import by_hand, judge
from tests.benchmarks.peers.__main__ import FILE, NAMES
from tests.benchmarks.peers.tasks import tasks


@pytest.mark.parametrize("name", tasks())
def test_a_reference_is_that_of_a_second_method_and_of_admm_by_hand(name: str) -> None:
    assert judge.reference(name).apart < 1e-6
    found = judge.judged(name, getattr(by_hand, name)(tasks()[name]).x)
    assert found["error"] < 1e-5
    assert abs(found["value"]) < 1e-7
    assert found["violation"] < 1e-7


@pytest.mark.parametrize("name", ["least_squares", "market"])
def test_a_wrong_answer_has_an_error_and_a_violation(name: str) -> None:
    found = judge.judged(name, -np.ones_like(judge.reference(name).x))
    assert found["error"] > 0.1
    assert found["violation"] > 0.1


def test_eight_peers_ran_and_every_peer_has_a_script_and_requirements() -> None:
    recorded = json.loads(FILE.read_text())["peers"]
    ran = [name for name, one in recorded.items() if any("error" in row for row in one["rows"])]
    assert len(ran) >= 8
    assert sorted(recorded) == NAMES
    assert all((FILE.parent / "peers" / f"{name}.py").exists() for name in NAMES)
