"""A model of which each rank of an MPI job has a part, and none the whole."""

from __future__ import annotations

from collections.abc import Iterator
from doctest import DocTestParser
from pathlib import Path
from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm
from dald_model.engines.mpi_ranks import Peers
from tests.engines.test_mpi import mpiexec

SCRIPT = Path(__file__).with_name("by_peers.py")
SAME = [f"told: {name} same round_limit" for name in ("path", "ring", "grid")]


class Alone(Peers):
    """One rank of several, of which the others say what they are told to."""

    others: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.rank, self.size = 0, 1 + len(self.others)

    def gathered(self, said: bytes) -> list[bytes]:
        return [said, *(repr(other).encode() for other in self.others)]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Alone]]:
    """What stands for the job."""
    monkeypatch.setattr("dald_model.peer.Peers", Alone)
    yield Alone
    Alone.others = ()


def two() -> tuple[dm.Peer, cp.Variable]:
    peer, x = dm.Peer("part"), cp.Variable(2, name="x")
    peer.client("a", cp.sum_squares(x))
    peer.agree_with("b", x[:1])
    return peer, x


def test_iterates_of_one_process_on_path_ring_and_grid_with_statuses_and_parts() -> None:
    ended = mpiexec(SCRIPT, ranks=4)
    assert ended.stdout.splitlines() == [
        *SAME,
        "told: grid same round_limit",  # accelerated
        "told: parts",
        "told: grid optimal",
        "told: failed",
        "told: peer: client 0 of rank 0 agrees with 1 on the shapes [(2,)], but 1 on [(1,)]; "
        "expected the same at both, in the same order",
    ], ended.stderr


def test_two_ranks_by_the_command_and_its_example(tmp_path: Path) -> None:
    """Of ranks 0 and 1 that want to be there the mean is one half, and so is the value."""
    file = tmp_path / "ring.py"
    *example, _ = DocTestParser().get_examples(dm.Peer.__doc__ or "")
    same = "from tests.front import by_peers\nlist(map(by_peers.same_iterates, by_peers.GRAPHS))"
    file.write_text("\n".join([same, *(one.source for one in example), "model = ring"]))
    ended = mpiexec("-m", "dald_model", "solve", "--peers", file, ranks=2)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[:3] == SAME
    assert ended.stdout.count("Result of 'ring'") == 1
    assert "status           optimal" in ended.stdout
    assert "value            0.5\n" in ended.stdout


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([(["a"], [], {})], r"ranks 0 and 1 both have a client 'a', expected a name of its own"),
        ([(["c"], [], {})], r"'a' of rank 0 agrees with 'b' .* but no rank has that client"),
        ([(["b"], [], {})], r"agrees with 'b' on the shapes \[\(1,\)\], but 'b' on \[\]; expected"),
        (
            [(["b"], [("b", "a", [(1,)])], {}), (["c"], [], {})],
            r"fall into 2 parts: .*expected one connected graph",
        ),
    ],
)
def test_what_ranks_declare_has_to_fit(rank: type[Alone], others: list[Any], said: str) -> None:
    rank.others = tuple(others)
    with pytest.raises(dm.DeclarationError, match=said):
        two()[0].solve()


def test_options_have_to_be_the_same_at_all_ranks(rank: type[Alone]) -> None:
    rank.others = ((["b"], [("b", "a", [(1,)])], {"rho": "2.0"}),)
    with pytest.raises(
        dm.OptionError, match=r"ranks 0 and 1 .* \{'rho': '1.0'\} and \{'rho': '2.0'\}"
    ):
        two()[0].solve(rho=1.0)
    with pytest.raises(dm.OptionError, match=r"rho: given \{'a': 2.0\} .*expected a number or"):
        two()[0].solve(rho={"a": 2.0})


def test_names_have_to_mean_the_same_elsewhere(rank: type[Alone]) -> None:
    peer, x = two()
    peer.client(name := object(), cp.sum_squares(y := cp.Variable(2, name="y")))
    peer.consensus(x == y)
    with pytest.raises(dm.DeclarationError, match="mean nothing in another process") as caught:
        peer.solve()
    assert repr(name) in str(caught.value)


def test_what_needs_a_centre_is_refused(rank: type[Alone]) -> None:
    peer, x = two()
    with pytest.raises(dm.OptionError, match=r"given Secant\(.* expected dm.Anderson\(\), or None"):
        peer.solve(acceleration=dm.Secant())
    with pytest.raises(
        dm.OptionError, match=r"gap: given 0.1 .* expected options among 'rho', 'st"
    ):
        peer.solve(gap=0.1)
    with pytest.raises(dm.DeclarationError, match="couplings are not supported among processes"):
        peer.couple(cp.sum(x) == 1)


def test_an_edge_needs_a_client_here_and_one_elsewhere(rank: type[Alone]) -> None:
    peer, x = two()
    with pytest.raises(dm.DeclarationError, match="'a' is a client of this process"):
        peer.agree_with("a", x)
    for side in (cp.Variable(), 3.0, cp.square(x)):
        with pytest.raises(dm.DeclarationError, match="expected an affine expression in the var"):
            peer.agree_with("b", x, side)
    assert len(peer.agreements) == 1  # all of them or none
