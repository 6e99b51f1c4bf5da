"""What the classical algorithms say of themselves, word for word."""

from __future__ import annotations

from typing import Any

import pytest

import dald_model as dm
from tests.algorithms.small import kind

DESCENT = "mu_i = grad f_i(x_i) after the clients' turn, (36), (47)"
DRAWN = "mu_i = grad f_i(x_i) after the clients' turn, (47)"
STILL = "fixed at 0: one inner loop, which minimises (24)"
UPDATE = "mu + 2 rho o rho o C after every sweep, (15), (22)"
WEIGHS = "the option rho: it weighs the coupling of the blocks"
JACOBI = "everybody at once, with the values of the round before (Jacobi)"
MIXING = "the mixing weights p_ij take its place, (55), (57)"

EXPLAINED: list[tuple[Any, str, str, str, str, str]] = [
    (
        dm.ProximalPoint(0.5),
        "ProximalPoint(alpha=0.5)",
        "0, which is the optimal one, (32)",
        "1 / (2 rho^2) = alpha",
        "n = 1: the client, then the server, (33), (34)",
        "exact minimisation, (35), or the option solver",
    ),
    (
        dm.GradientDescent(0.1),
        "GradientDescent(step=0.1)",
        DESCENT,
        "1 / (2 rho^2) = n step, (31), with n the clients that have the entry",
        "clients, then the server, once a round: (38), (39); together (40)",
        "clients copy, x_i = server's value, (37), (38), (49); the server averages, (31), "
        "and projects on constraints that every client states",
    ),
    (
        dm.NewtonMethod(0.5),
        "NewtonMethod(damping=0.5)",
        DESCENT,
        "alpha^k I = inverse Hessian, (41): the server's penalty is a matrix",
        "clients, then the server, once a round: (42)",
        "clients copy, (38), (49); the server solves with the sum of the Hessians",
    ),
    (
        dm.MiniBatchGradientDescent(0.1, k=3, seed=7),
        "MiniBatchGradientDescent(step=0.1, k=3, seed=7)",
        DRAWN,
        "1 / (2 rho^2) = step, (48)",
        "partial cycle: 3 of the clients at random, then the server, which averages over these "
        "alone: (51), (52)",
        "clients copy, (49); the server averages, (31), (50), "
        "and projects on constraints that every client states",
    ),
    (
        dm.StochasticGradientDescent(0.1),
        "StochasticGradientDescent(step=0.1, k=1, seed=0)",
        DRAWN,
        "1 / (2 rho^2) = step, (48)",
        "partial cycle: 1 of the clients at random, then the server, which averages over these "
        "alone: (51), (52)",
        "clients copy, (49); the server averages, (31), (50), "
        "and projects on constraints that every client states",
    ),
    (
        dm.StochasticNewton(k=2, seed=1),
        "StochasticNewton(k=2, seed=1, damping=1)",
        DRAWN,
        "alpha_i^k I = inverse Hessian, as in (41)",
        "partial cycle: 2 of the clients at random, then the server: (51), (52)",
        "clients copy, (49); the server solves with the sum of their Hessians, (50)",
    ),
    (
        dm.DistributedProximal({"one": 1.0}),
        "DistributedProximal(alpha={'one': 1.0})",
        "0, (53); with the update (15) it is Fed-DALD-CC",
        "1 / (2 rho_i^2) = alpha_i, (53)",
        "all clients, then the server: (54), (55)",
        "exact minimisation, or the option solver",
    ),
    (
        dm.FedProx(0.1),
        "FedProx(alpha=0.1)",
        "0, (53); with the update (15) it is Fed-DALD-CC",
        "1 / (2 rho_i^2) = alpha_i, (53)",
        "all clients, then the server: (54), (55)",
        "exact minimisation, or the option solver",
    ),
    (
        dm.FedProx(0.1, k=3, weights={"one": 2.0}),
        "FedProx(alpha=0.1, k=3, seed=0, weights=...)",
        "0, (53); with the update (15) it is Fed-DALD-CC",
        "1 / (2 rho^2) = alpha, (53)",
        "3 of the clients at random, then the server, which averages over these: (54), (55)",
        "exact minimisation; the server averages by the weights, whatever rho",
    ),
    (
        dm.FedAvg(0.1, count=5),
        "FedAvg(step=0.1, count=5)",
        "0, (53)",
        "to 0+ in (54): the clients forget it; p_i = beta_i / sum beta in (55)",
        "all clients, then the server, which averages over these: (55)",
        "5 gradient steps from the server's value, (56)",
    ),
    (
        dm.FedAvg(0.1, count=5, k=2),
        "FedAvg(step=0.1, count=5)",
        "0, (53)",
        "to 0+ in (54): the clients forget it; p_i = beta_i / sum beta in (55)",
        "2 of the clients at random, then the server, which averages over these: (55)",
        "5 gradient steps from the server's value, (56)",
    ),
    (
        dm.DGD(1e-3),
        "DGD(step=0.001)",
        "0, (53)",
        MIXING,
        JACOBI,
        "one gradient step, (A4-1) with (55) gives (57), projected on constraints, (64)",
    ),
    (
        dm.DGD(lambda k: 1 / k),
        "DGD(step=a function of the round)",
        "0, (53)",
        MIXING,
        JACOBI,
        "one gradient step, (A4-1) with (55) gives (57), projected on constraints, (64)",
    ),
    (
        dm.AsynchronousDGD(1e-3, k=2),
        "AsynchronousDGD(step=0.001, k=2, seed=0)",
        "0, (53)",
        MIXING,
        "partial cycle: 2 of the clients at random, nobody waits",
        "one gradient step, (57), projected on constraints, (64)",
    ),
    (
        dm.ConsensusADMM(),
        "ConsensusADMM(dual_step=1)",
        UPDATE,
        "the option rho",
        "one sweep an outer loop: (B4) with v_max = 1",
        "exact minimisation, or the option solver",
    ),
    (
        dm.EXTRA(0.1),
        "EXTRA(step=0.1)",
        UPDATE,
        "rho_ij^2 = w_ij / (4 step) with the mixing weights w_ij",
        JACOBI,
        "one gradient step, (60)",
    ),
    (
        dm.FedDyn(0.1),
        "FedDyn(alpha=0.1)",
        UPDATE,
        "2 rho^2 = alpha",
        "the server, then all clients: (B4) with v_max = 1",
        "exact minimisation, or the option solver",
    ),
    (
        dm.FedADMM(0.1, k=3),
        "FedADMM(penalty=0.1)",
        "mu + 2 rho o rho o C after every sweep, of those who took part, (15)",
        "2 rho^2 = penalty",
        "the server, which averages over all, then 3 of the clients at random: (B4) with v_max = 1",
        "exact minimisation, or the option solver",
    ),
    (
        dm.SCAFFOLD(count=5),
        "SCAFFOLD(step=None, count=5)",
        UPDATE,
        "2 rho^2 = 1 / (count step); the clients forget it",
        "all clients, then the server: (B4) with v_max = 1",
        "5 gradient steps on f_i + mu_i' x_i from the server's value",
    ),
    (
        dm.DouglasRachford(0.5),
        "DouglasRachford(step=0.5)",
        UPDATE,
        "1 / (2 rho^2) = step",
        "the first client, then the second; or the server, then all clients: (B4) with v_max = 1",
        "exact minimisation, or the option solver",
    ),
    (
        dm.PDHG(0.1, 0.5),
        "PDHG(primal=0.1, dual=0.5)",
        UPDATE,
        "2 rho^2 = dual",
        "the first client, then the second: (B4) with v_max = 1",
        "the first client by one proximal gradient step, (64), (65); the second exactly",
    ),
    (
        dm.LinearisedADMM(0.5, 2.0),
        "LinearisedADMM(penalty=0.5, proximal=2)",
        UPDATE,
        "2 rho^2 = penalty",
        "the order of the model, (B4) with v_max = 1; peer to peer everybody at once (Jacobi)",
        "one gradient step of 1 / (penalty + proximal), (60); peer to peer of 1 / (2 penalty d_i + "
        "proximal) with d_i neighbours",
    ),
    (
        dm.DADMM(),
        "DADMM(dual_step=1)",
        UPDATE,
        "the option rho",
        "colour by colour, peer to peer: (B4) with v_max = 1",
        "exact minimisation, or the option solver",
    ),
    (dm.BCD(), "BCD()", STILL, WEIGHS, "Gauss-Seidel", "exact minimisation, (59)"),
    (
        dm.BCD(multipliers=True),
        "BCD(multipliers=True)",
        UPDATE,
        WEIGHS,
        "Gauss-Seidel",
        "exact minimisation, (59)",
    ),
    (
        dm.JacobiGradientDescent(0.1),
        "JacobiGradientDescent(step=0.1)",
        STILL,
        WEIGHS,
        JACOBI,
        "one gradient step, (60), which minimises (61)",
    ),
    (
        dm.BCGD(0.1, count=3, multipliers=True),
        "BCGD(step=0.1, count=3, multipliers=True)",
        UPDATE,
        WEIGHS,
        "Gauss-Seidel",
        "W = 3 gradient steps, (61)",
    ),
    (
        dm.BSUM(lambda client, at: 0),
        "BSUM(surrogate)",
        STILL,
        WEIGHS,
        "Gauss-Seidel",
        "exact minimisation of an upper bound that touches at the last point",
    ),
    (
        dm.ProximalGradient(0.1),
        "ProximalGradient(step=0.1)",
        "0",
        "1 / (2 rho^2) = step",
        "n = 1: the client, then the server",
        "the second-order surrogate (62) of the smooth part: one proximal step, (63), (64)",
    ),
    (
        dm.BCPG(0.1, count=2),
        "BCPG(step=0.1, count=2)",
        STILL,
        WEIGHS,
        "Gauss-Seidel",
        "W = 2 proximal gradient steps, (64), (65)",
    ),
]


@pytest.mark.parametrize(
    ("algorithm", "name", "mu", "rho", "coordination", "layer"),
    EXPLAINED,
    ids=[f"{kind(one)}-{at}" for at, (one, *_) in enumerate(EXPLAINED)],
)
def test_explain(
    algorithm: Any, name: str, mu: str, rho: str, coordination: str, layer: str
) -> None:
    assert algorithm.explain().splitlines() == [
        f"{name} is DALD with",
        f"  mu            {mu}",
        f"  rho           {rho}",
        f"  coordination  {coordination}",
        f"  solver layer  {layer}",
    ]


def test_explain_dald() -> None:
    assert dm.DALD(0.5).explain().splitlines() == [
        "DALD: Fed-DALD-CC (Algorithm 2) on a model with a server, Fed-DALD-DC (Algorithm 3) "
        "peer to peer",
        "  mu            mu + 2 * 0.5 rho o rho o C after each outer loop, (15), (22)",
        "  rho           the option rho",
        "  coordination  the option sequence: Gauss-Seidel along a hierarchical network, (13), "
        "(14), (21)",
        "  solver layer  exact minimisation of (12), (20), or the option solver",
    ]
