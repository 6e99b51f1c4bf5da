"""What the classical algorithms say of models not of their class, and of options they set."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm
from tests.algorithms.small import (
    GOSSIP,
    STAR,
    Build,
    agreed,
    alone,
    kind,
    named,
    peers,
    private,
    refused,
    shared,
)

# --- models of another class ----------------------------------------------------------------------


@named(STAR)
def test_peers_instead_of_a_server(algorithm: Any) -> None:
    refused(
        peers(),
        algorithm,
        f"algorithm: {kind(algorithm)} is for clients that share their variables through one "
        "server, but 'shared' has 0 servers; use one cp.Variable in all clients, without "
        'a graph, ask for a server by model.topology("server"), or declare one: '
        "model.consensus(z == x)",
    )


@named(STAR)
@pytest.mark.parametrize(
    ("build", "who"),
    [
        pytest.param(private, "two", id="private variable"),
        pytest.param(lambda: agreed(lambda x, y, z: [z == x, z == 2 * y]), "two", id="scaled"),
        pytest.param(lambda: agreed(lambda x, y, z: [z == x, z == y + 1]), "two", id="shifted"),
        pytest.param(lambda: agreed(lambda x, y, z: [z[0] == x[0], z == y]), "one", id="part"),
        pytest.param(lambda: agreed(lambda x, y, z: [z == x, z == y, x == y]), "one", id="friend"),
    ],
)
def test_clients_that_share_something_else_than_their_variables(
    algorithm: Any, build: Build, who: str
) -> None:
    refused(
        build(),
        algorithm,
        f"algorithm: {kind(algorithm)} needs client {who!r} to share all its variables with the "
        "server 'server' and with nobody else, entry by entry; it has private variables, another "
        "neighbour or a consensus of other expressions; DALD and ConsensusADMM take it",
    )


def test_a_server_whose_entries_are_summed() -> None:
    x, y, z = cp.Variable(name="x"), cp.Variable(2, name="y"), cp.Variable(2, name="z")
    model = dm.Model("summed")
    model.client("one", cp.square(x - 1))
    model.client("two", cp.sum_squares(y))
    model.consensus(cp.sum(z) == x, z == y)
    refused(
        model,
        dm.GradientDescent(0.1),
        "algorithm: GradientDescent needs each entry that clients share to be one of the server "
        "'server', not a sum of several; DALD and ConsensusADMM take any consensus",
    )


@pytest.mark.parametrize(
    ("algorithm", "instead"),
    [(dm.ProximalPoint(1.0), "DistributedProximal"), (dm.ProximalGradient(0.1), "BCPG")],
)
def test_several_clients_for_a_method_of_one(algorithm: Any, instead: str) -> None:
    refused(
        shared(),
        algorithm,
        f"algorithm: {kind(algorithm)} is for n = 1, but 'shared' has 2 clients; take {instead}, "
        "or declare one client and a server: model.client(name, objective) and "
        "model.consensus(z == x)",
    )


@named(GOSSIP)
def test_a_server_instead_of_peers(algorithm: Any) -> None:
    model = shared()
    model.topology("server")  # left open, it would be a ring
    refused(
        model,
        algorithm,
        f"algorithm: {kind(algorithm)} is peer to peer, but 'shared' has the server 'server'; say "
        "who talks to whom by model.topology(graph)",
    )


@named(GOSSIP)
@pytest.mark.parametrize(
    "agreement",
    [lambda x, y, z: [x[0] == y[0]], lambda x, y, z: [x == 2 * y], lambda x, y, z: [x == y + 1]],
    ids=["part", "scaled", "shifted"],
)
def test_peers_that_share_something_else_than_their_variables(
    algorithm: Any, agreement: Any
) -> None:
    who = "one" if agreement(*(cp.Variable(2) for _ in "xyz"))[0].args[0].size == 1 else "two"
    model = agreed(agreement)
    if who == "two":  # 2 y and y + 1 are the second's sides
        assert model.compile()["one"].sides[0].shape == (2, 2)
    refused(
        model,
        algorithm,
        f"algorithm: {kind(algorithm)} needs client {who!r} to share all its variables, entry by "
        "entry, with each of its neighbours; DALD and ConsensusADMM take any consensus",
    )


REMEDY = (
    "choose an algorithm that minimises clients exactly, such as DALD, ConsensusADMM or FedProx, "
    "or one with proximal steps, such as BCPG"
)
COPYING = STAR[:5]
"""Those that take gradients where the server stands."""
STEPPING = [dm.BCGD(0.1), dm.JacobiGradientDescent(0.1)]
"""Those whose solver layer is GradientSteps, also where there are constraints."""
PROJECTING = [dm.FedAvg(0.1), *GOSSIP]
"""Those that project on the constraints of a client."""


def on(algorithm: Any, *args: Any, **options: Any) -> dm.Model:
    return (peers if algorithm in GOSSIP else shared)(*args, **options)


ROUGH = [
    pytest.param(lambda w: cp.sum_squares(w) + cp.norm1(w), "abs", id="absolute values"),
    pytest.param(lambda w: cp.sum_squares(w) + cp.norm(w - 1), "norm", id="norm"),
    pytest.param(lambda w: cp.norm(w) + cp.norm1(w), "norm and abs", id="both"),
]


@pytest.mark.parametrize(("cost", "terms"), ROUGH)
@pytest.mark.parametrize(
    ("algorithm", "hint"),
    [
        *((one, "") for one in [*COPYING, *PROJECTING]),
        *((one, ": use ProximalGradientSteps") for one in STEPPING),
    ],
)
def test_an_objective_without_a_gradient(algorithm: Any, hint: str, cost: Any, terms: str) -> None:
    said = f"its objective has {terms} terms{hint}"
    refused(
        on(algorithm, cost),
        algorithm,
        f"algorithm: {kind(algorithm)} cannot take client 'two': {said}; {REMEDY}",
    )


@named([*COPYING, *STEPPING, *PROJECTING, dm.BCPG(0.1)])
def test_an_objective_of_which_nothing_is_known(algorithm: Any) -> None:
    said = "its objective has parts that are no quadratic and no known function"
    refused(
        on(algorithm, lambda w: cp.sum_squares(w) + cp.norm(w, 4)),
        algorithm,
        f"algorithm: {kind(algorithm)} cannot take client 'two': {said}; {REMEDY}",
    )


@named([dm.NewtonMethod(), dm.StochasticNewton()])
def test_an_objective_without_hessians(algorithm: Any) -> None:
    said = "its objective is known to cvxpy only, which gives no Hessians"
    refused(
        shared(lambda w: cp.square(cp.sum_squares(w))),
        algorithm,
        f"algorithm: {kind(algorithm)} cannot take client 'two': {said}; {REMEDY}",
    )


RULES: list[Any] = [
    pytest.param(lambda one: on(one, rules=lambda w: [w >= 1]), "two", id="inequality"),
    pytest.param(lambda one: on(one, rules=lambda w: [cp.sum(w) == 1]), "two", id="equality"),
    pytest.param(lambda one: on(one, rules=lambda w: [cp.norm(w) <= 1]), "two", id="ball"),
    pytest.param(lambda one: on(one, nonneg=True), "one", id="attribute"),
]


@pytest.mark.parametrize(("build", "who"), RULES)
@named(STEPPING)
def test_constraints(algorithm: Any, build: Any, who: str) -> None:
    said = "it has constraints: use ProximalGradientSteps"
    refused(
        build(algorithm),
        algorithm,
        f"algorithm: {kind(algorithm)} cannot take client {who!r}: {said}; {REMEDY}",
    )


@pytest.mark.parametrize(("build", "who"), RULES)
@named(COPYING)
def test_constraints_of_methods_that_copy(algorithm: Any, build: Any, who: str) -> None:
    said = "it has constraints"
    if kind(algorithm).endswith("GradientDescent"):
        said += " of its own, and the server projects on those alone that every client states"
        said += " (without model.topology)"
    refused(
        build(algorithm),
        algorithm,
        f"algorithm: {kind(algorithm)} cannot take client {who!r}: {said}; {REMEDY}",
    )


def test_newton_outside_of_the_domain_ends_in_a_status() -> None:
    result = shared(lambda w: -cp.sum(cp.log(w))).solve(algorithm=dm.NewtonMethod())
    assert (result.status, result.culprit) == ("solver_error", "server")
    assert "the iterate left the domain of an objective" in result.detail


# --- options that the algorithm sets --------------------------------------------------------------

SETS_BOTH = [*STAR[:5], dm.FedAvg(0.1)]


@named([*SETS_BOTH, dm.DistributedProximal(1.0), dm.FedProx(1.0)])
def test_a_penalty_besides_that_of_the_algorithm(algorithm: Any) -> None:
    refused(
        shared(),
        algorithm,
        f"rho: given 2.0, but {algorithm!r} sets it; leave rho out, or choose by the algorithm's "
        "own arguments",
        rho=2.0,
    )


@named([*SETS_BOTH, dm.BCGD(0.1), dm.BCPG(0.1), dm.JacobiGradientDescent(0.1)])
def test_a_solver_besides_that_of_the_algorithm(algorithm: Any) -> None:
    refused(
        shared(),
        algorithm,
        f"solver: given 'conic', but {algorithm!r} sets it; leave solver out, or choose by the "
        "algorithm's own arguments",
        solver="conic",
    )


@named(GOSSIP)
def test_a_penalty_or_solver_besides_mixing(algorithm: Any) -> None:
    for what, given in (("rho", 2.0), ("solver", "conic")):
        said = (
            f"{what}: given {given!r}, but {algorithm!r} sets it; leave {what} out, or choose by "
            "the algorithm's own arguments"
        )
        refused(peers(), algorithm, said, **{what: given})


def test_a_penalty_or_solver_besides_that_of_the_methods_of_one_client() -> None:
    model = alone(cp.sum_squares)
    for algorithm in (dm.ProximalPoint(1.0), dm.ProximalGradient(0.1)):
        said = f"rho: given 2.0, but {algorithm!r} sets it"
        own = "leave rho out, or choose by the algorithm's own arguments"
        refused(model, algorithm, f"{said}; {own}", rho=2.0)
    model.solve(algorithm=dm.ProximalPoint(1.0), solver="conic")


@pytest.mark.parametrize(
    ("given", "said", "remedy"),
    [
        ("fedprox", "'fedprox'", "did you mean dm.FedProx(...)?"),
        (dm.FedProx, "the class FedProx", "call it, as in dm.FedProx(...)"),
    ],
)
def test_no_algorithm(given: Any, said: str, remedy: str) -> None:
    expected = f"algorithm: given {said}, expected an object such as dm.DALD(); {remedy}"
    refused(shared(), given, expected)
