r"""Orders that run away or never converge: neighbours side by side, one participant peer to peer.

Clients are :math:`\tfrac h2 (x_i - c_i)^2`, so that a run is a linear map whose spectral radius
says what becomes of it.
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

JACOBI = dm.Sequence.jacobi()
PAIR = [(0, 1)]
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]


def squares(n: int, edges: list[tuple[int, int]], h: float = 0.02) -> dm.Model:
    """Clients h (x - i)^2 / 2; the optimum is the mean of the i."""
    x = [cp.Variable(name=f"x{i}") for i in range(n)]
    model = dm.Model("squares")
    for i in range(n):
        model.client(i, h / 2 * cp.square(x[i] - i))
    model.consensus(*[x[a] == x[b] for a, b in edges])
    return model


def radius(n: int, edges: list[tuple[int, int]], sweeps: int, h: float, w: float) -> float:
    """Of (x, mu) -> (x, mu): sweeps side by side, then an update; less the ones of the cycles."""
    q = len(edges)
    A = np.zeros((q, n))
    for at, (a, b) in enumerate(edges):
        A[at, a], A[at, b] = 1, -1
    degrees = np.diag(A.T @ A)
    bend = np.diag(1 / (h + w * degrees))
    sweep = np.eye(n + q)
    sweep[:n] = bend @ np.hstack([w * (np.diag(degrees) - A.T @ A), -A.T])
    update = np.eye(n + q)
    update[n:, :n] = w * A
    values = np.linalg.eigvals(update @ np.linalg.matrix_power(sweep, sweeps))
    return float(np.abs(values[np.argsort(np.abs(values - 1))[q - n + 1 :]]).max())


def test_two_clients_without_curvature_have_the_radius_that_is_told() -> None:
    assert radius(2, PAIR, 1, 0.0, 1.0) == pytest.approx(1 + np.sqrt(2), abs=1e-12)
    for n, edges in ((2, PAIR), (4, RING), (5, [(0, i) for i in range(1, 5)])):
        assert radius(n, edges, 21, 1e-4, 1.0) == pytest.approx(2.41, abs=5e-3)
        assert radius(n, edges, 2, 1e-4, 1.0) < 1


@pytest.mark.parametrize(
    ("options", "edges", "sweeps"),
    [
        ({"algorithm": dm.ConsensusADMM()}, PAIR, 1),
        ({"stopping": dm.FixedBudget(5)}, PAIR, 5),
        ({"stopping": dm.FixedBudget(1)}, RING, 1),
    ],
)
def test_few_sweeps_side_by_side_diverge_as_the_spectrum_says_and_are_warned_of(
    options: dict[str, Any], edges: list[tuple[int, int]], sweeps: int
) -> None:
    n = 1 + max(map(max, edges))
    with pytest.warns(dm.SequenceWarning) as caught:
        result = squares(n, edges).solve(sequence=JACOBI, rho=1.0, max_rounds=400, **options)
    assert [str(one.message) for one in caught] == [
        f"Sequence('Jacobi') with FixedBudget(v_max={sweeps}) may diverge: neighbours are solved "
        "side by side, each with the other's value of before, and multipliers that follow after "
        "few sweeps overshoot, on two clients by a factor of up to 2.41 an update; take an order "
        "such as dm.Sequence.natural(), or the default stopping"
    ]
    assert caught[0].filename == __file__
    assert result.status == "diverged"
    ends = result.history.groupby("outer").primal.last().to_numpy()[-9:-1]
    grown = (ends[-1] / ends[0]) ** (1 / 7)
    assert grown == pytest.approx(radius(n, edges, sweeps, 0.02, 2.0), rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"sequence": JACOBI},
        {"sequence": JACOBI, "algorithm": dm.BCD()},
        {"algorithm": dm.JacobiGradientDescent(0.1, multipliers=True), "rho": 1.0},
    ],
    ids=["default stopping", "no multipliers", "short steps"],
)
def test_what_does_not_run_away_is_not_warned_of(options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = squares(4, RING, h=1.0).solve(**options)
    assert result.status in ("optimal", "settled")


def test_one_participant_peer_to_peer_never_moves_a_multiplier_and_is_warned_of() -> None:
    with pytest.warns(dm.SequenceWarning) as caught:
        result = squares(4, RING, h=1.0).solve(
            sequence=dm.Sequence.participating(1), rho=1.0, max_rounds=300, acceleration=None
        )
    assert [str(one.message) for one in caught] == [
        "Sequence('1 participating') draws one client a round, but 0 and 1 agree peer to peer: "
        "their multiplier moves only in rounds in which both take part, so never, and without "
        "acceleration the run does not converge; take dm.Sequence.participating(2) or more, or "
        "dm.Sequence.random(1), which closes each outer loop by a full cycle"
    ]
    assert caught[0].filename == __file__
    assert result.status != "optimal"
    assert result.history.primal.min() > 0.1, "they agree on the mean only with multipliers"
    # What the state holds, not the estimates of the last round, which the clients balanced.
    assert result.state is not None
    assert not result.state.mu.any()


@pytest.mark.parametrize("k", [1, 2])
def test_participants_with_a_server_or_two_at_a_time_are_not_warned_of(k: int) -> None:
    x = cp.Variable(name="x")
    model = dm.Model()
    if k == 1:  # every edge ends at the server, which always takes part
        for i in range(4):
            model.client(i, cp.square(x - i) / 2)
    else:
        model = squares(4, RING, h=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = model.solve(sequence=dm.Sequence.participating(k), rho=1.0, max_rounds=300)
    found = [value for name in range(4) for value in result[name].values()]
    assert found == pytest.approx([1.5] * 4, abs=0.05)


def test_what_is_known_of_them_is_told() -> None:
    one = dm.Sequence.participating(1).explain()
    assert "peer to peer the multiplier of an edge moves only where both of its clients" in one
    assert "nothing is proved, and with one client never" in one
    assert "by a factor of up to 2.41 a sweep" in JACOBI.explain()
    full = dm.Sequence.natural().explain()
    assert "minimised exactly, for dual steps up to 1, from the round where rho stays fixed" in full
