"""What is said about who solves which client, to the letter, and what is refused."""

from __future__ import annotations

import itertools
import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Choice, Conic, Reference

A = np.arange(12.0).reshape(4, 3) % 5 - 2


@pytest.fixture(scope="module")
def compiled() -> dm.Compiled:
    model = dm.Model("kinds")
    x = {name: cp.Variable(3, name=name) for name in "abcdefg"}
    b = np.ones(4)
    model.client("quadratic", cp.sum_squares(A @ x["a"] - b))
    model.client("quadratic too", cp.sum_squares(A @ x["b"] + b))
    simplex = [x["c"] >= 0, cp.sum(x["c"]) == 1]
    model.client("bounded", cp.sum_squares(A @ x["c"] - b), simplex)
    model.client("lasso", cp.sum_squares(A @ x["d"] - b) + cp.norm1(x["d"]))
    model.client("logistic", cp.sum(cp.logistic(A @ x["e"])))
    model.client("ball", cp.sum(x["f"]), [cp.norm(x["f"]) <= 1])
    model.client("cone", cp.sum_squares(x["g"]) - cp.geo_mean(x["g"] + 1))
    z = cp.Variable(3, name="z")
    model.consensus(*[z == v for v in x.values()])
    return model.compile()


AUTO = """\
Solver layer
  clients                   number  solver      as                                            variables  rows     if it fails
  quadratic, quadratic too  2       factor      quadratic                                     7 -> 3     4 -> 0   conic, reference (CLARABEL)
  bounded                   1       active_set  quadratic, 1 equality row, 3 inequality rows  7 -> 3     8 -> 4   conic, reference (CLARABEL)
  lasso                     1       semismooth  quadratic, 3 abs terms                        10 -> 3    10 -> 0  conic, reference (CLARABEL)
  logistic                  1       newton      4 logistic terms                              15 -> 3    28 -> 0  conic, reference (CLARABEL)
  ball                      1       semismooth  1 ball term                                   4 -> 3     5 -> 0   conic, reference (CLARABEL)
  cone                      1       conic       cone program (SecondOrder)                    6          9        reference (CLARABEL)
  server                    1       average     server                                        3          0
  bounded by active_set, not by factor: it has 3 rows of inequalities
  lasso by semismooth, not by factor: it has non-smooth terms (abs)
  lasso, ball by semismooth, not by active_set: it has no rows
  logistic by newton, not by factor, active_set, semismooth: its objective has logistic terms, which are not quadratic
  ball by semismooth, not by factor: it has non-smooth terms (ball)
  cone by conic, not by factor, active_set, semismooth, newton, barrier, nuclear: its cone program has parts \
that are no quadratic and no known function
Coordination
  order: 2 levels one after the other, 7 clients at once
  by colour: every limit point of an inner loop minimises the augmented Lagrangian (Theorem 1); with
    one sweep per multiplier update the run converges on every graph in every order, if clients are
    convex and minimised exactly, for dual steps up to 1, from the round where rho stays fixed (see
    dald_model.coordinate.convergence; with two colours it is two-block ADMM)
  acceleration: Secant(directions=32) learns a model of each client's response; it needs a
    coordinator that sees the prices and values of all edges, as a server does, and adds nothing to
    the messages; for absent clients the models predict an answer, and start= keeps them; or, if
    clients have kinks, minimises the lower bounds from their answers and objectives; else
    Anderson(memory=20) mixes the last 20 outer loops; it needs 160 bytes of inner products per
    round over all edges; at most 224 bytes per round more than without"""  # noqa: E501 - as printed


def test_the_table_says_who_solves_whom_and_why(compiled: dm.Compiled) -> None:
    text = "\n".join(line.rstrip() for line in str(compiled.explain()).splitlines())
    assert text == AUTO
    assert repr(compiled.explain()) == str(compiled.explain("auto")) == str(compiled.explain(None))


def test_a_notebook_shows_the_same(compiled: dm.Compiled) -> None:
    html = compiled.explain()._repr_html_()
    text = re.sub(r"<[^>]+>", "\n", html)
    for reason in compiled.explain():
        for part in (reason.solver, reason.what, *reason.refusals.values()):
            assert part in text


def test_sizes_are_those_of_cvxpy_before_and_of_the_client_after(compiled: dm.Compiled) -> None:
    for reason in compiled.explain():
        if reason.solver == "average":
            assert reason.stated == reason.solved == (3, 0)
            continue
        client = compiled[reason.clients[0]].client
        problem = cp.Problem(cp.Minimize(client.cost), list(client.constraints))
        data: Any = problem.get_problem_data(cp.CLARABEL)[0]
        assert reason.stated == (data["A"].shape[1], data["A"].shape[0])
        if reason.solver != "conic":
            rows = {"bounded": 4}.get(str(reason.clients[0]), 0)
            assert reason.solved == (3, rows)


def test_every_client_is_named_once_and_by_the_solver_that_takes_it(compiled: dm.Compiled) -> None:
    for solver in ("auto", "conic", "reference", "scs", Conic(), {"lasso": "conic"}):
        found = compiled.explain(solver)
        names = [name for reason in found for name in reason.clients]
        assert sorted(map(str, names)) == sorted(map(str, compiled))
        choice = Choice(solver)
        for reason in found:
            for name in reason.clients:
                chain = [one.name for one in choice.chain(compiled[name])]
                assert chain == [reason.solver, *reason.then]


def test_a_solver_for_all_is_said_to_take_all_but_servers(compiled: dm.Compiled) -> None:
    found = {name: one for one in compiled.explain(solver="conic") for name in one.clients}
    assert {str(name): one.solver for name, one in found.items()} == {
        "quadratic": "conic",
        "quadratic too": "conic",
        "bounded": "conic",
        "lasso": "conic",
        "logistic": "conic",
        "ball": "conic",
        "cone": "conic",
        "server": "average",
    }
    assert found["bounded"].then == ("reference (CLARABEL)",)
    assert found["bounded"].solved == (3, 4)
    assert found["lasso"].solved == (6, 6)
    assert found["bounded"].refusals == {
        "factor": "it has 3 rows of inequalities",
        "newton": "it has no smooth term that is not quadratic",
        "barrier": "it has no smooth function in a constraint",
        "nuclear": "it has no nuclear norm",
    }


def test_the_reference_solves_what_was_stated(compiled: dm.Compiled) -> None:
    for given, name in (
        ("reference", "reference (CLARABEL)"),
        ("scs", "reference (SCS)"),
        (Reference("SCS"), "reference (SCS)"),
    ):
        for reason in compiled.explain(given):
            if reason.solver != "average":
                assert reason.solver == name
                assert reason.then == ()
                assert reason.solved == reason.stated


def test_clients_that_a_dict_does_not_name_are_left_to_auto(compiled: dm.Compiled) -> None:
    given = {"lasso": "conic", "logistic": "CLARABEL"}
    found = {name: one.solver for one in compiled.explain(given) for name in one.clients}
    auto = {name: one.solver for one in compiled.explain() for name in one.clients}
    assert found == auto | {"lasso": "conic", "logistic": "reference (CLARABEL)"}


def refused(compiled: dm.Compiled, given: Any) -> str:
    with pytest.raises(dm.OptionError) as caught:
        compiled.explain(given)
    return str(caught.value)


def test_what_is_no_solver_is_refused(compiled: dm.Compiled) -> None:
    objects = (
        "expected 'auto', the name of a solver or an object of dald_model.solvers such as "
        "Reference('OSQP')"
    )
    assert refused(compiled, "nope") == (
        "solver: given 'nope', expected 'auto', one of "
        f"{', '.join(map(repr, NAMED))}, or a cvxpy solver among "
        f"{', '.join(cp.installed_solvers())}"
    )
    assert refused(compiled, 3) == f"solver: given 3, {objects}"
    assert refused(compiled, Conic) == f"solver: given {Conic!r}, {objects}"
    assert refused(compiled, {"bounded": 4}) == f"solver: given 4, {objects}"
    assert refused(compiled, {"nobody": "conic"}) == (
        "solver: 'nobody' is no client; expected keys among 'quadratic', 'quadratic too', "
        "'bounded', 'lasso', 'logistic' and 3 more, 8 in all"
    )


def test_a_solver_that_cannot_take_a_client_is_refused_with_what_can(compiled: dm.Compiled) -> None:
    for given in ("factor", {"bounded": "factor"}):
        text = refused(compiled, given)
        assert text.startswith(
            "solver: 'factor' cannot take client 'bounded': it has 3 rows of inequalities; "
            "choose one of 'active_set', "
        )
        assert text.endswith(", or leave it to 'auto'")


def test_every_solver_that_a_refusal_offers_can_be_chosen(compiled: dm.Compiled) -> None:
    for given, client in (("factor", "bounded"), ("active_set", "ball"), ("newton", "cone")):
        text = refused(compiled, {client: given})
        offered = re.findall(r"'([^']*)'", text.split("choose one of")[1].split(", or leave")[0])
        assert offered
        for one in offered:
            assert client in [n for r in compiled.explain({client: one}) for n in r.clients]


def test_the_order_tells_its_levels_and_their_width() -> None:
    """A chain of five: one after the other in natural order, in two colours by default."""
    x = [cp.Variable(name=f"x{i}") for i in range(5)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.square(v - i))
    model.consensus(*[one == two for one, two in itertools.pairwise(x)])
    compiled = model.compile()
    natural = compiled.explain(sequence=dm.Sequence.natural())
    assert "order: 5 levels one after the other, 1 client at once" in str(natural)
    assert "order: 2 levels one after the other, 3 clients at once" in str(compiled.explain())
