"""The iterates of one process at the ranks of an MPI job, and honest ends where a rank dies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dald_model as dm
from dald_model.engines import MPI, mpi_ranks
from tests.engines.declared import ENVIRONMENT, block, left, market

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
SCRIPT = Path(__file__).with_name("by_mpi.py")


def mpiexec(*words: object, ranks: int = 3) -> subprocess.CompletedProcess[str]:
    """Run a job."""
    pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
    if MPIEXEC is None:
        pytest.skip("there is no mpiexec")
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False
    )


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(dm.OptionError, match=r'pip install "dald_model\[mpi\]"'):
        MPI()
    with pytest.raises(dm.OptionError, match="MPI: given deadline=-1, expected a positive number"):
        MPI(deadline=-1)


def test_a_job_of_one_rank_is_told_how_to_start_one_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class World:
        size, rank = 1, 0

    class Stub:
        COMM_WORLD = World

    monkeypatch.setattr(mpi_ranks, "library", lambda: Stub)
    with pytest.raises(dm.OptionError, match=r"one rank, .*mpiexec -n 4 python -m mpi4py SCRIPT"):
        MPI()


def test_its_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With hosts of this process: jobs of ranks are tested below."""
    monkeypatch.setattr(dm.engines, "MPI", lambda: dm.engines.InProcess(3))
    exec(block(MPI), {})
    assert capsys.readouterr().out == "optimal\n"


def test_the_command_solves_a_file_whose_model_is_declared_at_rank_0_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "print('declared')\nfrom tests.engines.declared import market\nmodel = market()\n"
    )
    ended = mpiexec("-m", "dald_model", "solve", file, ranks=2)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("declared") == 1
    assert "Verification of 'market': passed" in ended.stdout


@pytest.mark.skipif(not Path("/proc").exists(), reason="/proc tells which processes there are")
def test_a_job_that_lost_a_rank_ends_and_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    ended = mpiexec(SCRIPT, "killed", 0, file, ranks=2)
    assert ended.returncode != 0
    assert not left("by_mpi.py killed")
    here = market().solve(metrics={"strike": lambda _: 0})
    found = dm.resume(file, model := market(), metrics={"strike": lambda _: 0})
    assert model.compile() is found.compiled
    assert (found.status, found.rounds) == ("optimal", here.rounds)
    assert found.verify().ok


@pytest.mark.skipif(not Path("/proc").exists(), reason="/proc tells which processes there are")
def test_it_gives_the_iterates_of_as_many_hosts_here_and_says_who_is_lost() -> None:
    ended = mpiexec(SCRIPT, "late", 2)
    assert ended.returncode == 1, ended.stderr
    said = [line for line in ended.stdout.splitlines() if line.startswith("told: ")]
    assert len(said) == 4, ended.stderr
    same, curvature, moved, lost = said
    assert (same, curvature) == ("told: same", "told: curvature True True")
    assert moved.startswith("told: optimal True Loss(round=4, host='rank 2', clients=('area")
    assert "no reply within 2.0 s; its clients are at rank 1 now" in moved
    assert lost.startswith("told: lost 3 engine: rank 1 was lost 1 time in round 4")
    assert "no reply within 2.0 s" in lost
    assert not left("by_mpi.py late")
