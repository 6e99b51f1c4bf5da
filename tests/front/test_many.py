"""Many clients are told by kind: ten lines, a small table in a notebook, five names in an error."""

from __future__ import annotations

import re
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

LINES, BYTES = 10, 5000


def schools(count: int) -> dm.Model:
    """Classes of 4, 5, ... 35 rows in turn, every third without a constraint."""
    w = cp.Variable(7, name="w")
    model = dm.Model("schools")
    for i in range(count):
        rows = 4 + i % 32
        A, b = np.ones((rows, 7)), np.arange(float(rows))
        model.client(f"school {i}", cp.norm1(A @ w - b) / rows, [w >= 0] if i % 3 else [])
    return model


def chain(count: int, name: str = "x{}") -> dm.Model:
    x = [cp.Variable(3, name=name.format(i)) for i in range(count)]
    model = dm.Model("chain")
    for i in range(count):
        model.client(i, cp.sum_squares(x[i] - i) + cp.norm1(x[i]), [x[i] >= -5.0])
    model.consensus(*[x[i] == x[i + 1] for i in range(count - 1)])
    return model


def cities(count: int) -> dm.Model:
    """Names without numbers, and variables of their own called after them."""
    w = cp.Variable(3, name="w")
    model = dm.Model("cities")
    for i in range(count):
        city = "".join(chr(97 + (i // 26**k) % 26) for k in range(3))
        own = cp.Variable(3, name=f"own_{city}")
        model.client(city, cp.sum_squares(own - np.arange(3.0)) + cp.sum_squares(own - w))
    return model


def strangers(count: int) -> dm.Model:
    """Every client of another kind than the others."""
    w = cp.Variable(name="w")
    model = dm.Model("strangers")
    for i in range(count):
        model.client(i, sum([cp.square(w)] * (i + 1)))
    return model


def is_small(thing: Any) -> bool:
    lines = str(thing).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 150
    assert len(thing._repr_html_()) < BYTES
    return True


@pytest.mark.parametrize(("make", "count"), [(chain, 160), (cities, 160), (strangers, 25)])
def test_many_clients_are_ten_lines_and_a_small_table(make: Any, count: int) -> None:
    model = make(count)
    assert is_small(model)
    assert is_small(model.compile())
    assert is_small(model.solve(max_rounds=1).duals)


@pytest.mark.slow
def test_a_thousand_clients_are_no_more_lines() -> None:
    model = chain(1000)
    assert is_small(model)
    assert is_small(model.compile())


def test_a_model_of_schools_word_for_word() -> None:
    text = """\
Model 'schools': 160 clients
  clients        number  objective                                         variables  constraints
  school 0..159  54      minimize norm1([4..35x7] @ w - [4..35]) / 4.0...  w[7]*      0
  school 1..158  106     minimize norm1([4..35x7] @ w - [4..35]) / 4.0...  w[7]*      1
  * shared through a server: w"""
    assert str(schools(160)) == text
    text = """\
Compiled 'schools': 161 subproblems, 160 edges, 1120 consensus constraints
  clients          number  level  variables  coupled  neighbours
  school 0..159    160     1      7          7        server
  server (server)  1       2      7          1120     160 clients"""
    assert str(schools(160).compile()) == text


def test_a_chain_word_for_word() -> None:
    text = """\
Model 'chain': 160 clients
  clients  number  objective                                         variables    constraints
  0..159   160     minimize sum_squares(x0..159 + -159.0..-0.0) ...  x0..159[3]  1
  consensus: 159
    x0..158 == x1..159 (159)"""
    assert re.sub(r" +", " ", str(chain(160))) == re.sub(r" +", " ", text)
    assert "0..159   160     1..2   3          3..6     1..2 clients" in str(chain(160).compile())


def test_twenty_clients_are_told_one_by_one() -> None:
    assert len(str(chain(20)).splitlines()) == 2 + 20 + 14
    assert len(str(chain(20).compile()).splitlines()) == 2 + 20


def test_an_explanation_has_one_line_a_kind_whatever_the_numbers_of_rows() -> None:
    found = schools(96).compile().explain()
    assert [(one.solver, len(one.clients), one.what) for one in found] == [
        ("semismooth", 32, "4..35 abs terms"),
        ("semismooth", 64, "4..35 abs terms, 7 inequality rows"),
        ("average", 1, "server"),
    ]
    # |a @ w - b| <= t, two rows and a t for each row of data, beside the seven entries of w
    assert (found[0].least_stated, found[0].stated) == ((7 + 4, 2 * 4), (7 + 35, 2 * 35))
    lines = str(found).splitlines()
    assert re.sub(r" +", " ", lines[2]) == (
        " school 0..93 32 semismooth 4..35 abs terms 11..42 -> 7 8..70 -> 0 "
        "conic, reference (CLARABEL)"
    )
    assert len(lines[: lines.index("Coordination")]) < 16


# --- one of many ----------------------------------------------------------------------------------


def test_a_client_an_edge_and_a_coupling() -> None:
    model = schools(6)
    client = model.clients["school 1"]
    assert str(client) == (
        "Client 'school 1'\n  minimize norm1([5x7] @ w - [5]) / 5.0\n    0.0 <= w\n  over w[7]"
    )
    said = "Client 'school 1': minimize norm1([5x7] @ w - [5]) / 5.0 over w[7], 1 constraint"
    assert repr(client) == said
    assert "over w[7]" in client._repr_html_()
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    pair = dm.Model()
    for i in range(3):
        pair.client(i, cp.sum_squares(x[i]))
    pair.consensus(*[x[0][k] == x[1][k] for k in (0, 1)], x[1] == x[2])
    one, two = pair.compile().edges
    assert repr(one) == "Edge 0 - 1, 2 entries: x0[0] == x1[0]; x0[1] == x1[1]"
    assert repr(two) == "Edge 1 - 2, 2 entries: x1 == x2"
    pair.couple(x[0] <= x[2], name="order")
    order = pair.couplings["order"]
    assert repr(order) == "Coupling 'order': subject to over x0[2], x2[2], 1 constraint"
    assert order._repr_html_()


def test_dual_values_are_told_by_constraint() -> None:
    """Of (x_i - i)^2 with x_0 == x_1 >= -5: both at 1/2, at a price of 1."""
    x = [cp.Variable(name=f"x{i}") for i in range(2)]
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.square(x[i] - i), [x[i] >= -5])
    model.consensus(x[0] == x[1])
    assert (
        str(model.solve().duals)
        == """\
Dual values of 3 constraints
  constraint  entries  least  largest
  -5.0 <= x0  1        0      0
  -5.0 <= x1  1        0      0
  x0 == x1    1        -1     -1"""
    )


def test_a_server_of_many_does_not_print_them_all() -> None:
    text = str(schools(160).compile()["server"])
    assert text.splitlines()[0] == "Subproblem of 'server'"
    assert "... and so on for all of the 160 neighbours j: school 0..159" in text
    assert len(text.splitlines()) == 4


# --- errors ---------------------------------------------------------------------------------------

FIVE = "'school 0', 'school 1', 'school 2', 'school 3', 'school 4' and 30 more, 35 in all"


def test_errors_name_five_clients_and_how_many_there_are() -> None:
    model = schools(35)
    w = model.variables[0]
    compiled, result = model.compile(), model.solve(max_rounds=1)
    six = FIVE.replace("30 more, 35", "31 more, 36")
    asks = [
        (lambda: result["nobody"], six),
        (lambda: compiled["nobody"], six),
        (lambda: model.topology(nx.path_graph(9)), FIVE),
        (lambda: model.topology(nx.empty_graph(model.clients)), "35 parts: {'school 0'}; "),
        (lambda: model.solve(rho={"nobody": 1.0}), six),
        (lambda: model.solve(sequence=dm.Sequence.partial(["nobody"])), six),
        (lambda: model.consensus(w == cp.Variable(7)), FIVE),
    ]
    for ask, said in asks:
        with pytest.raises(dm.DaldError) as caught:
            ask()
        assert said in str(caught.value)
        assert len(str(caught.value)) < 600
