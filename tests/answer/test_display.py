"""What is printed, word for word, with times masked; and that HTML and plots hold the same."""

import re
from typing import Any
from xml.etree import ElementTree

import cvxpy as cp
import matplotlib as mpl
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

mpl.use("Agg")


def masked(thing: Any) -> str:
    """The printed text with seconds masked."""
    return re.sub(r"\d+\.\d\d s\b", "#.## s", str(thing))


def cells(html: str) -> list[list[str]]:
    """The rows of all tables; fails if the HTML is not well-formed."""
    tree = ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def hospitals() -> dm.Model:
    """Three hospitals and data whose shapes are told, not their numbers."""
    A, b = np.arange(60.0).reshape(20, 3), np.arange(20.0)
    x = [cp.Variable(3, name=f"x{i}") for i in range(3)]
    model = dm.Model("three hospitals")
    for i in range(3):
        model.client(f"hospital {i}", cp.norm1(A @ x[i] - b), [x[i] >= -5] if i else [])
    model.consensus(x[0] == x[1], x[1][:2] == x[2][:2])
    return model


def numbers() -> tuple[dm.Model, cp.Variable, cp.Variable]:
    """Minimise (x - 2)^2 + (y + 3)^2 + 3 with x == y: 15.5 at -1/2.

    With rho = 1, from zero: (1, -1) and mu = 4, then (-1/2, -3/4) and mu = 9/2; in the end 5.
    """
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("two numbers")
    model.client("a", cp.square(x - 2))
    model.client("b", cp.square(y + 3) + 3)
    model.consensus(x == y)
    return model, x, y


# --- Model ----------------------------------------------------------------------------------------


def test_an_empty_model() -> None:
    assert str(dm.Model("nothing yet")) == "Model 'nothing yet': 0 clients"
    assert dm.Model("nothing yet")._repr_html_()


def test_a_model_with_equalities() -> None:
    model = hospitals()
    text = """\
Model 'three hospitals': 3 clients
  client      objective                           variables  constraints
  hospital 0  minimize norm1([20x3] @ x0 - [20])  x0[3]      0
  hospital 1  minimize norm1([20x3] @ x1 - [20])  x1[3]      1
  hospital 2  minimize norm1([20x3] @ x2 - [20])  x2[3]      1
  consensus
    x0 == x1
    x1[0:2] == x2[0:2]"""
    assert str(model) == text
    assert repr(model) == str(model)


def test_a_model_with_a_shared_variable_and_mixed_senses() -> None:
    w, u = cp.Variable((2, 2), name="w"), cp.Variable(name="u")
    model = dm.Model("shared")
    model.client(1, cp.Maximize(u - cp.norm1(w)), [u <= 1, u >= 0])
    model.client((2, "b"), cp.Minimize(cp.max(w)))
    model.client("c", 0, [w >= 1])
    table = """\
Model 'shared': 3 clients
  client    objective              variables   constraints
  1         maximize u - norm1(w)  u, w[2x2]*  2
  (2, 'b')  minimize max(w)        w[2x2]*     0
  c         minimize 0.0           w[2x2]*     1
"""
    assert str(model) == table + "  * shared through a server: w"
    model.topology(nx.Graph([(1, "c"), ("c", (2, "b"))], name="wire"))
    assert str(model) == table + ("  * shared over Graph named 'wire' with 3 nodes and 2 edges: w")


def test_many_equalities_are_cut() -> None:
    v = [cp.Variable(name=f"v{i}") for i in range(15)]
    model = dm.Model()
    for i in range(15):
        model.client(i, cp.exp(v[i]))
    model.consensus(*[v[i] == v[i + 1] for i in range(14)])
    lines = str(model).splitlines()
    assert lines[-3:] == ["    v10 == v11", "    v11 == v12", "    ... and 2 more"]


def test_long_objectives_and_many_variables_are_cut() -> None:
    v = [cp.Variable(name=f"variable number {i}") for i in range(9)]
    model = dm.Model()
    model.client("a", sum(cp.exp(u) for u in v))
    line = str(model).splitlines()[2]
    assert line.count("...") == 2
    assert len(line) < 120


def test_a_model_in_a_notebook() -> None:
    model = hospitals()
    rows = cells(model._repr_html_())
    assert rows[0] == ["client", "objective", "variables", "constraints"]
    assert rows[2] == ["hospital 1", "minimize norm1([20x3] @ x1 - [20])", "x1[3]", "1"]
    assert "x1[0:2] == x2[0:2]" in model._repr_html_()


def test_names_cannot_break_a_notebook() -> None:
    x, y = cp.Variable(name="x<1>"), cp.Variable(name="y & z")
    model = dm.Model("<b>bold</b> & co")
    model.client("<script>", cp.exp(x), [x >= -1])
    model.client("&amp;", cp.exp(y))
    model.consensus(x == y)
    result = model.solve(rho=1.0, max_rounds=2)
    for thing in (model, model.compile(), result, result.verify()):
        html = thing._repr_html_()
        assert "<script>" not in html
        assert "<b>bold" not in html
        assert cells(html)
    assert cells(model._repr_html_())[1][0] == "<script>"
    assert "<b>bold</b> & co" in str(model)


# --- Compiled and Subproblem ----------------------------------------------------------------------


def test_a_compiled_model() -> None:
    compiled = hospitals().compile()
    text = """\
Compiled 'three hospitals': 3 subproblems, 2 edges, 5 consensus constraints
  client      level  variables  coupled  neighbours
  hospital 0  1      3          3        hospital 1
  hospital 1  2      3          5        hospital 0, hospital 2
  hospital 2  1      3          2        hospital 1"""
    assert str(compiled) == text
    assert repr(compiled) == str(compiled)
    rows = cells(compiled._repr_html_())
    assert rows[0] == ["client", "level", "variables", "coupled", "neighbours"]
    assert rows[2] == ["hospital 1", "2", "3", "5", "hospital 0, hospital 2"]


def test_a_compiled_model_with_a_server() -> None:
    w = cp.Variable(2, name="w")
    model = dm.Model("star")
    for name in "ab":
        model.client(name, cp.sum(cp.exp(w)))
    text = """\
Compiled 'star': 3 subproblems, 2 edges, 4 consensus constraints
  client           level  variables  coupled  neighbours
  a                1      2          2        server
  b                1      2          2        server
  server (server)  2      2          4        a, b"""
    assert str(model.compile()) == text


def test_a_subproblem_is_the_augmented_lagrangian() -> None:
    sub = hospitals().compile()["hospital 1"]
    squares = "sum_squares(multiply(rho[{0}], C[{0}]))"
    text = f"""\
Subproblem of 'hospital 1'
  minimize norm1([20x3] @ x1 - [20]) + mu[hospital 0] @ C[hospital 0] + \
{squares.format("hospital 0")} + mu[hospital 2] @ C[hospital 2] + {squares.format("hospital 2")}
    -5.0 <= x1
    C[hospital 0] == neighbours[hospital 0] - hstack([x1])
    C[hospital 2] == hstack([x1[0:2]]) - neighbours[hospital 2]"""
    assert str(sub) == text
    assert repr(sub) == text


# --- Result ---------------------------------------------------------------------------------------


def test_a_result_that_is_optimal() -> None:
    model, _, _ = numbers()
    result = model.solve(rho=1.0, stopping=dm.FixedBudget(v_max=2))
    lines = masked(result).splitlines()
    assert lines[0] == "Result of 'two numbers'"
    assert lines[1] == "  status           optimal (both residuals met their tolerances)"
    assert lines[2].split() == ["value", f"{result.value:.8g}"]
    assert lines[3].split()[:2] == ["rounds", str(result.rounds)]
    assert [line.split("  ")[1] for line in lines[1:]] == [
        "status",
        "value",
        "rounds",
        "primal residual",
        "dual residual",
        "clients",
        "time",
    ]
    assert lines[-1] == "  time             #.## s"


def test_a_result_at_its_round_limit_word_for_word() -> None:
    """They are 1/4 apart, y moved by as much; alone they are O = 5 apart, so X = O/4 = 5/4."""
    model, _, _ = numbers()
    result = model.solve(rho=1.0, max_rounds=2)
    text = """\
Result of 'two numbers'
  status           round_limit (max_rounds was reached before the tolerances)
  detail           after 2 rounds; see result.diagnose()
  value            14.3125
  rounds           2
  primal residual  2.0e-01, allowed 1e-06
  dual residual    2.0e-01, allowed 1e-06
  clients          2
  time             #.## s"""
    assert masked(result) == text
    assert masked(repr(result)) == text


def test_a_result_without_a_point_leaves_out_what_has_no_answer() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("impossible")
    model.client("a", cp.exp(x), [x >= 1, x <= 0])
    model.client("b", cp.exp(y))
    model.consensus(x == y)
    result = model.solve(solver="reference")
    text = """\
Result of 'impossible'
  status   infeasible (no point satisfies all constraints)
  culprit  'a'
  detail   client 'a' is infeasible: no point satisfies its own constraints and the domain of its \
objective, since these contradict each other: 1.0 <= x of client 'a' (misses by 1); \
x <= 0.0 of client 'a' (misses by 1); relax one of them (CLARABEL: infeasible)
  value    inf
  clients  2
  time     #.## s"""
    assert masked(result) == text
    text = """\
Verification of 'impossible': passed
  distributed  inf  infeasible  #.## s, 0 rounds
  all-in-one   inf  infeasible  #.## s
  check   difference  measured by  share    allowed      where
  status  0.0e+00                  0.0e+00  0e+00    ok  infeasible, AIO infeasible"""
    assert masked(result.verify()) == text


def test_a_result_tells_which_solver_failed_first() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("impossible")
    model.client("a", cp.square(x), [x >= 1, x <= 0])
    model.client("b", cp.exp(y))
    model.consensus(x == y)
    result = model.solve()
    text = """\
Result of 'impossible'
  status     infeasible (no point satisfies all constraints)
  culprit    'a'
  detail     client 'a' is infeasible: no point satisfies its own constraints and the domain of \
its objective, since these contradict each other: 1.0 <= x of client 'a' (misses by 1); \
x <= 0.0 of client 'a' (misses by 1); relax one of them (CLARABEL: infeasible)
  value      inf
  fallbacks  2, first client 'a' in round 1: from active_set to conic (no minimiser to working \
accuracy)
  clients    2
  time       #.## s"""
    assert masked(result) == text
    told = dict(cells(result._repr_html_()))
    assert told["fallbacks"] in text


def test_a_result_in_a_notebook_holds_the_same() -> None:
    model, _, _ = numbers()
    result = model.solve(rho=1.0, max_rounds=2)
    told = dict(cells(result._repr_html_()))
    for line in str(result).splitlines()[1:]:
        key, value = re.split(r"  +", line.strip(), maxsplit=1)
        assert told.pop(key) == value
    assert not told


def test_a_verification_names_what_failed_and_by_how_much() -> None:
    """Alone they choose 2 and -3, at a cost of 3; together -1/2, at 3 + 25/2 = 15.5.

    After two rounds they are 1/4 apart and have 14.3125, 1.1875 less, as they break the consensus;
    what they pay there is 14.3125 - 3 = 11.3125.
    """
    model, _, _ = numbers()
    check = model.solve(rho=1.0, max_rounds=2).verify()
    lines = masked(check).splitlines()
    assert lines[0] == (
        "Verification of 'two numbers': FAILED (objective gap, in plain sight, gap to the bound, "
        "constraint violation, consensus violation, multipliers)"
    )
    assert lines[1] == "  distributed        14.3125  round_limit  #.## s, 2 rounds"
    assert lines[3] == "  all-in-one         15.5     optimal      #.## s"
    # 15.5 - 14.3125 = 1.1875
    row = next(line for line in lines if line.startswith("  objective gap"))
    assert row.split()[2:] == ["1.2e+00", "1.1e+01", "1.0e-01", "1e-04", "FAILED"]
    row = next(line for line in lines if line.startswith("  consensus violation"))
    assert row.split()[2] == "2.5e-01"
    assert row.endswith("FAILED  edge ('a', 'b')")
    html = cells(check._repr_html_())
    assert any("objective gap" in line and "FAILED" in line for line in html)


def test_a_verification_that_passed_in_one_line_each() -> None:
    model, _, _ = numbers()
    lines = str(model.solve().verify()).splitlines()
    assert lines[0] == "Verification of 'two numbers': passed"
    assert len(lines) == 1 + 4 + 1 + 10
    assert lines[2].startswith("  certificate        15.5")
    assert lines[2].endswith("by client solves alone")
    assert lines[3].startswith("  all-in-one         15.5")
    assert lines[4].startswith("  cost of consensus  12.5")
    assert all(" ok" in line for line in lines[6:14])
    assert all(" info" in line for line in lines[14:16])


# --- Explanation ----------------------------------------------------------------------------------


def star() -> dm.Model:
    """A client for each of three solvers, and two for one of them."""
    w = cp.Variable(2, name="w")
    model = dm.Model("star")
    model.client("a", cp.sum(cp.exp(w)))
    model.client("b", cp.norm1(w - 1), [w >= 0])
    model.client("c", cp.sum_squares(w))
    model.client("d", cp.sum_squares(w - 1))
    return model


def test_an_explanation_word_for_word() -> None:
    explanation = star().compile().explain()
    text = """\
Solver layer
  clients  number  solver      as                              variables  rows    if it fails
  a        1       newton      2 exp terms                     4 -> 2     6 -> 0  conic, \
reference (CLARABEL)
  b        1       semismooth  2 abs terms, 2 inequality rows  4 -> 2     6 -> 2  conic, \
reference (CLARABEL)
  c, d     2       factor      quadratic                       2          0       conic, \
reference (CLARABEL)
  server   1       average     server                          2          0
  a by newton, not by factor, active_set, semismooth: its objective \
has exp terms, which are not quadratic
  b by semismooth, not by factor: it has 2 rows of inequalities
  b by semismooth, not by active_set: it has non-smooth terms (abs)
Coordination
  order: 2 levels one after the other, 4 clients at once
  by colour: every limit point of an inner loop minimises the augmented Lagrangian (Theorem 1); with
    one sweep per multiplier update the run converges on every graph in every order, if clients are
    convex and minimised exactly, for dual steps up to 1, from the round where rho stays fixed (see
    dald_model.coordinate.convergence; with two colours it is two-block ADMM)
  acceleration: Secant(directions=32) learns a model of each client's response; it needs a
    coordinator that sees the prices and values of all edges, as a server does, and adds nothing to
    the messages; for absent clients the models predict an answer, and start= keeps them; or, if
    clients have kinks, minimises the lower bounds from their answers and objectives; else
    Anderson(memory=20) mixes the last 20 outer loops; it needs 160 bytes of inner products per
    round over all edges; at most 96 bytes per round more than without"""
    assert str(explanation) == text
    assert repr(explanation) == text
    html = explanation._repr_html_()
    rows = cells(html)
    assert rows[0] == ["clients", "number", "solver", "as", "variables", "rows", "if it fails"]
    assert rows[3] == ["c, d", "2", "factor", "quadratic", *"20", "conic, reference (CLARABEL)"]
    assert "b by semismooth, not by active_set: it has non-smooth terms (abs)" in html


def test_an_explanation_of_solvers_that_were_named() -> None:
    """Who was not chosen although able has no reason against it, and is not told."""
    explanation = star().compile().explain({"a": "OSQP", "d": "conic"})
    lines = str(explanation).splitlines()
    assert lines[2].split() == [*"a1", "reference", "(OSQP)", *"2", "exp", "terms", *"46"]
    assert [one.solver for one in explanation] == [
        "reference (OSQP)",
        "semismooth",
        "factor",
        "conic",
        "average",
    ]
    assert not any(line.endswith(": ") for line in lines)
    assert "factor" not in explanation[3].refusals


# --- plots ----------------------------------------------------------------------------------------


def curves(axis: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    lines = [line.get_xydata().T for line in axis.get_lines()]
    return [(x, y) for x, y in lines if len(x) > 2]  # no straight marks


def test_the_plot_has_three_panels_with_the_curves_of_the_history() -> None:
    model, _, _ = numbers()
    result = model.solve(acceleration=None)
    figure = result.plot()
    residuals, objective, penalty = figure.axes
    titles = [axis.get_title().lower() for axis in figure.axes]
    assert all(word in title for word, title in zip(TITLES, titles, strict=True))
    assert all(axis.get_xlabel() == "round" for axis in figure.axes)
    assert all(axis.get_yscale() == "log" for axis in figure.axes)
    history, rounds = result.history, np.arange(1, result.rounds + 1)
    primal, dual = curves(residuals)
    assert (primal[0] == rounds).all()
    assert any((primal[1] == history[c]).all() for c in ("primal", "primal_scaled"))
    assert any((dual[1] == history[c]).all() for c in ("dual", "dual_scaled"))
    ((where, gap),) = curves(objective)
    final = history.objective.iloc[-1]
    away = abs(history.objective - final)
    assert gap == pytest.approx(away[where].to_numpy() / away.max())
    ((_, rho),) = curves(penalty)
    assert (rho == history.rho).all()
    assert "two numbers" in figure.get_suptitle()
    assert "optimal" in figure.get_suptitle()


TITLES = ("residuals", "objective gap", "penalty")


def test_a_plot_can_be_drawn_of_every_run() -> None:
    model, _, _ = numbers()
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    still = dm.Model("still")
    still.client("a", cp.square(x))
    still.client("b", cp.square(y))
    still.consensus(x == y)
    runs = [
        model.solve(max_rounds=1),
        model.solve(algorithm=dm.DALD(dual_step=3.0)),
        still.solve(max_rounds=5),  # all residuals are zero
        still.solve(max_rounds=5, eps_pri=0),
    ]
    for result in runs:
        figure = result.plot()
        figure.canvas.draw()
        assert len(figure.axes) == 3
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == [], "a notebook shows the figure once, and none stays open"


def test_a_verification_is_drawn_with_what_is_allowed_beside_what_was_measured() -> None:
    model, _, _ = numbers()
    check = model.solve(rho=1.0, max_rounds=2).verify()
    figure = check.plot()
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == [row.check for row in check.rows]
    failed = {height: measured for measured, height in marks(axis, "X")}
    assert failed == {k: row.measured for k, row in enumerate(check.rows) if row in check.failures}
    assert [x for x, _ in marks(axis, "|")] == [row.allowed for row in check.rows if row.allowed]
    assert "FAILED" in figure.get_suptitle()
    assert "passed" in model.solve().verify().plot().get_suptitle()


def marks(axis: Any, marker: str) -> list[list[float]]:
    """Where the single marks of one kind stand."""
    lines = [line for line in axis.get_lines() if line.get_marker() == marker]
    return [line.get_xydata()[0].tolist() for line in lines if len(line.get_xydata()) == 1]
