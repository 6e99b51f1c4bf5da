"""Diagnoses: the cause is named, and the first line to type mends it."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

COUNT = 12


def chain(loss: Any = cp.sum_squares) -> tuple[dm.Model, float]:
    """Clients of ten rows along a path, and the optimum of all rows together for squares."""
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(COUNT, 10, 3)), rng.normal(size=(COUNT, 10))
    w, model = cp.Variable(3, name="w"), dm.Model("chain")
    for at in range(COUNT):
        model.client(at, loss(A[at] @ w - b[at]))
    model.topology(nx.path_graph(COUNT))
    rows, targets = A.reshape(-1, 3), b.reshape(-1)
    best = np.linalg.lstsq(rows, targets)[0]
    return model, float(((rows @ best - targets) ** 2).sum())


def follow(line: str, model: dm.Model, result: dm.Result) -> dm.Result:
    """Type the line."""
    return eval(line, {"model": model, "result": result, "dm": dm})


BALANCED = "model.solve(start=result, rho=dm.ResidualBalancing())"
AGAIN = "model.solve(start=result)"


@pytest.mark.parametrize(
    ("options", "said", "remedy"),
    [
        ({"max_rounds": 3}, "not enough rounds", AGAIN),
        ({"acceleration": None, "max_rounds": 9}, "acceleration=None was given", AGAIN),
        (
            {"stopping": dm.ShrinkingTolerance(), "max_rounds": 20},
            "lets an outer loop have several rounds",
            AGAIN,
        ),
        ({"rho": 1e-4, "max_rounds": 40}, "times the natural one", BALANCED),
        (
            {"rho": 1e4, "acceleration": None, "max_rounds": 40},
            "times the natural one",
            BALANCED,
        ),
        ({"eps_pri": 0, "eps_dual": 0, "max_rounds": 9}, "the tolerances were zero", AGAIN),
        (
            {"sequence": dm.Sequence.random(k=3, seed=0), "max_rounds": 9},
            "another order from round to round",
            AGAIN,
        ),
        (
            {"algorithm": dm.DGD(step=1e-3), "max_rounds": 9},
            "the algorithm is not dm.DALD",
            AGAIN,
        ),
        ({"eps_pri": 0.1, "eps_dual": 0.1}, "verify() asks for more", AGAIN),
    ],
    ids=lambda one: str(one)[:40] if isinstance(one, dict) else "",
)
def test_the_cause_is_named_and_the_first_line_mends_it(
    options: dict[str, Any], said: str, remedy: str
) -> None:
    model, best = chain()
    result = model.solve(**options)
    found = result.diagnose()
    assert said in found.findings[0].said
    assert found.remedies[0] == remedy
    mended = follow(remedy, model, result)
    assert mended.status == "optimal"
    assert mended.value == pytest.approx(best, rel=1e-6)


def test_the_penalty_of_the_slowest_entry_stands_beside_the_natural_one() -> None:
    model, _ = chain()
    natural = dm.ResidualBalancing().init(model.compile())
    result = model.solve(rho=100 * natural, acceleration=None, max_rounds=12)
    slowest = result.diagnose().slowest
    np.testing.assert_allclose(slowest["rho / natural"], 100)
    at, state = result.compiled.slots, result.state
    assert state is not None
    for _, row in slowest.iterrows():
        entry = at[row["edge"]].start + int(row["variable"][2])
        assert row["variable"] in ("w[0]", "w[1]", "w[2]")
        assert row["rho"] == state.rho[entry]
        assert row["primal"] == abs(state.primal[entry]) / state.units.lengths[entry]


def test_kinks_and_absent_clients_are_named() -> None:
    model, _ = chain(cp.norm1)
    found = model.solve(online=dm.Dropout(0.4, seed=1), max_rounds=5).diagnose()
    absent, kinks, *_ = (one.said for one in found.findings)
    assert "clients were absent in a round on average" in absent
    assert kinks.startswith("12 clients of 12, first 0, with kinks or without curvature")


def test_couplings_without_curvature_are_named_where_no_client_is() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("market")
    model.client("a", cp.square(x - 1))
    model.client("b", cp.square(y - 4))
    model.couple(x + y <= 3, name="balance")
    said = [one.said for one in model.solve(max_rounds=1).diagnose().findings]
    assert said[0].startswith("1 coupling, first 'balance', with kinks or without curvature")


def test_an_answer_of_many_rounds_says_why_without_a_line_to_type() -> None:
    model, best = chain()
    result = model.solve(acceleration=None, rho=3.0)
    assert (result.status, result.rounds > 100) == ("optimal", True)
    assert result.value == pytest.approx(best, rel=1e-6)
    found = result.diagnose()
    assert [one.said for one in found.findings] == [
        "nothing was accelerated: acceleration=None was given; news crosses the consensus graph "
        "in 11 rounds, its diameter"
    ]
    assert found.remedies == []


def test_plain_runs_foretell_their_rounds() -> None:
    """The estimate is of the very run that the line to type goes on with."""
    model, _ = chain()
    whole = model.solve(acceleration=None)
    result = model.solve(acceleration=None, max_rounds=whole.rounds // 2)
    half = result.diagnose()
    assert whole.rounds / 4 <= half.rounds_left <= whole.rounds
    line = half.remedies[-1]
    assert line.startswith("model.solve(start=result, max_rounds=")
    more = follow(line.replace(", max", ", acceleration=None, max"), model, result)
    assert more.status == "optimal"


def test_what_is_proved_or_raised_is_told_again() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("apart")
    model.client("a", cp.square(x), [x >= 1])
    model.client("b", cp.square(y), [y <= 0])
    model.consensus(x == y)
    result = model.solve()
    assert result.status == "infeasible"
    found = result.diagnose()
    assert [one.said for one in found.findings] == [result.detail]
    assert found.remedies == []


@pytest.mark.parametrize("status", ["infeasible", "solver_error"])
def test_of_a_run_that_ended_before_its_first_round(status: str) -> None:
    is_error = status == "solver_error"
    w, model = cp.Variable(name="w"), dm.Model("at once")
    model.client("a", cp.exp(w), [w <= 1] if is_error else [w >= 1, w <= 0])
    model.client("b", cp.square(w - 1))
    failing = dm.solvers.Reference("CLARABEL", max_iter=1)
    result = model.solve(solver=failing if is_error else "auto")
    assert (result.status, result.rounds) == (status, 0)
    found = result.diagnose()
    assert [one.said for one in found.findings] == [result.detail]
    assert result.detail in str(found)


def test_a_diagnosis_word_for_word() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    model = dm.Model("two numbers")
    model.client("a", cp.square(x - 1))
    model.client("b", cp.sum_squares(y - np.array([4.0, 0.0])))
    model.consensus(x == y[0])
    # By hand: alone they answer 1 and 4, so X = sqrt(E / h) / 4 = 3 / 4 with h = 2, E = h 3^2, and
    # rho^2 = h / 2. From zero, as a penalty is given: x = (1 + 0) / 2 = 0.5, y = (4 + 0.5) / 2 =
    # 2.25, which moved by 2.25 and is 1.75 away; over X that is 3 and 7 / 3.
    found = model.solve(rho=1.0, acceleration=None, max_rounds=1).diagnose()
    assert (
        str(found)
        == """\
Diagnosis of 'two numbers': round_limit after 1 round
  residuals  primal 2.3e+00 and dual 3.0e+00 of 1e-06 and 1e-06 that were asked for
  proposals  none: acceleration=None was given
The largest residuals, beside natural lengths and slopes:
  edge       variable  primal   dual     rho      rho / natural
  'a' - 'b'  x         2.3e+00  3.0e+00  1.0e+00  1.0e+00
- nothing was accelerated: acceleration=None was given
- it had not enough rounds
To try, the most promising first:
  model.solve(start=result)"""
    )


def test_a_sum_over_pairs_is_to_be_taken_apart() -> None:
    """What is said to be typed gives the same optimum."""

    def street(*, apart: bool) -> tuple[dm.Model, list[cp.Variable]]:
        x = [cp.Variable(2, name=f"x{i}") for i in range(4)]
        model = dm.Model("street")
        for i in range(4):
            model.client(i, cp.sum_squares(x[i] - [i, i**2]))
        terms = [0.5 * cp.norm(x[i] - x[i + 1]) for i in range(3)]
        for one in terms if apart else [sum(terms)]:
            model.couple(objective=one)
        return model, x

    slow = street(apart=False)[0].solve(max_rounds=2, acceleration=None).diagnose()
    said = [one.said for one in slow.findings if "sum of 3 terms" in one.said]
    assert len(said) == 1
    assert "model.couple(objective=term) for each" in said[0]
    taken, _ = street(apart=True)
    assert not any("terms in" in one.said for one in taken.solve(max_rounds=2).diagnose().findings)
    whole = street(apart=False)[0].monolithic().solve()
    assert taken.solve().value == pytest.approx(whole, rel=1e-6)
