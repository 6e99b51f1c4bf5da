"""The decomposed programme in LaTeX, word for word, with the user's names."""

from __future__ import annotations

import re
from typing import Any

import cvxpy as cp
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

import dald_model as dm

mpl.use("Agg")
A, b, c = np.arange(12.0).reshape(4, 3), np.arange(4.0), np.arange(3.0)
x, X = cp.Variable(3, name="x"), cp.Variable((3, 3), name="X", symmetric=True)
lam = cp.Parameter(nonneg=True, name="lambda")

FORMULAS: dict[str, Any] = {
    r"\lVert A x - b \rVert_2^2": cp.sum_squares(A @ x - b),
    r"\lVert x \rVert_{2}": cp.norm(x),
    r"\lVert X \rVert_F": cp.norm(X, "fro"),
    r"\lVert x \rVert_{\infty} + \lambda \lVert x \rVert_{1}": cp.norm_inf(x) + lam * cp.norm1(x),
    r"\textstyle\sum \log\left( 1 + e^{b \circ A x} \right)": cp.sum(
        cp.logistic(cp.multiply(-b, A @ x))
    ),
    r"x^\top A x": cp.quad_form(x, np.diag([1.0, 2.0, 3.0])),
    r"\left( x[0] - 1 \right)_+": cp.pos(x[0] - 1),
    r"\frac{\left( x[0] - 1 \right)^{2}}{5}": cp.square(x[0] - 1) / 5,
    r"\frac{\lVert x \rVert_2^2}{2}": cp.quad_over_lin(x, 2),
    r"-\textstyle\sum \log\left( x \right)": -cp.sum(cp.log(x)),
    r"\max\left( x[0], 1 \right) + 2 \lvert x[1] \rvert": cp.maximum(x[0], 1) + 2 * cp.abs(x[1]),
    r"0 \leq \min\left( x[0], 1 \right) - 2 \lvert x[1] \rvert": (
        cp.minimum(x[0], 1) - 2 * cp.abs(x[1]) >= 0
    ),
    r"\lVert X \rVert_{*} + \operatorname{tr}\left( X \right)": cp.normNuc(X) + cp.trace(X),
    r"\operatorname{sum\_largest}_{2}\left( x \right)": cp.sum_largest(x, 2),
    r"b^\top x": c @ x,
    r"e^{x[1]} - \sqrt{x[0]}": cp.exp(x[1]) - cp.sqrt(x[0]),
    r"-5 \leq x": x >= -5,
    r"X \succeq 0": X >> 0,
    r"\lVert x[1:3] \rVert_2 \leq x[0]": cp.SOC(x[0], x[1:]),
}


def parses(text: str) -> bool:
    """Whether it is mathematics: by matplotlib, which lacks a few of LaTeX's commands."""
    swaps = {r"\textstyle": "", r"\top": "T", r"\operatorname": r"\mathrm", r"\lvert": "|"}
    swaps |= {r"\rvert": "|", r"\lVert": r"\|", r"\rVert": r"\|", r"\_": "", r"\quad": ""}
    for command, known in swaps.items():
        text = text.replace(command, known)
    MathTextParser("agg").parse(f"${text}$")
    return True


def lines(text: str) -> list[str]:
    """What stands in the aligned lines, label and column marks aside."""
    body = [
        line for line in text.splitlines() if line and not line.startswith((r"\begin", r"\end"))
    ]
    return [line.removesuffix(r" \\").split("& ", 1)[-1].split(" && ")[0] for line in body]


@pytest.mark.parametrize("expected", FORMULAS)
def test_a_formula_word_for_word(expected: str) -> None:
    """As one client's objective or constraint."""
    part, model = FORMULAS[expected], dm.Model()
    v, *_ = part.variables()
    other = cp.Variable(v.shape, name="other")
    is_rule = isinstance(part, cp.Constraint)
    model.client("one", cp.sum_squares(v) if is_rule else part, [part] if is_rule else [])
    model.client("two", cp.sum_squares(other))
    model.consensus(v == other)
    objective, rule, *_ = lines(model.latex("one"))
    said = rule if is_rule else objective.split(r" \textstyle\sum_j")[0][:-2]
    assert said == expected
    assert parses(expected)


def test_three_hospitals_word_for_word() -> None:
    y = [cp.Variable(3, name=f"y{i}") for i in range(3)]
    model = dm.Model("three hospitals")
    for i in range(3):
        model.client(f"h {i}", cp.sum_squares(A @ y[i] - b), [y[i] >= -i] if i else [])
    model.consensus(y[0] == y[1], y[1][:2] == y[2][:2])
    text = r"""\begin{aligned}
\min_{y_{0}, y_{1}, y_{2}} \quad & \lVert A_{\text{h 0}} y_{0} - b_{\text{h 0}} \rVert_2^2 && \text{h 0} \\
& {} + \lVert A_{\text{h 1}} y_{1} - b_{\text{h 1}} \rVert_2^2 && \text{h 1} \\
& {} + \lVert A_{\text{h 2}} y_{2} - b_{\text{h 2}} \rVert_2^2 && \text{h 2} \\
\text{s.t.} \quad & -1 \leq y_{1} && \text{h 1} \\
& -2 \leq y_{2} && \text{h 2} \\
& y_{0} = y_{1} \\
& y_{1}[0:2] = y_{2}[0:2]
\end{aligned}"""  # noqa: E501 - as printed
    found = model.latex()
    assert found.split("\n\n")[0] == text
    assert found._repr_latex_().startswith("$$\n\\begin{aligned}")
    assert found._repr_latex_().count("$$") == 2 * 3
    text = r"""\begin{aligned}
\min_{y_{1}} \quad & \lVert A y_{1} - b \rVert_2^2 + \textstyle\sum_j \mu_j^\top \mathcal{C}_j + \lVert \rho_j \circ \mathcal{C}_j \rVert_2^2 && \text{h 1} \\
\text{s.t.} \quad & -1 \leq y_{1} \\
& \mathcal{C}_{\text{h 0}} = z_{\text{h 0}} - y_{1} \\
& \mathcal{C}_{\text{h 2}} = y_{1}[0:2] - z_{\text{h 2}}
\end{aligned}"""  # noqa: E501 - as printed
    assert model.latex("h 1") == text
    assert all(map(parses, lines(found)))
    with pytest.raises(dm.ResultError, match="'nobody' is no client"):
        model.latex("nobody")


def test_many_clients_are_a_sum_over_an_index() -> None:
    w, model = cp.Variable(3, name="w"), dm.Model("schools")
    for i in range(160):
        own = cp.Variable(3)
        goal = cp.norm1(np.ones((i + 2, 3)) @ own - np.arange(i + 2.0)) / (i + 2)
        model.client(f"school {i}", goal + cp.sum_squares(own - w), [own >= 0])
    found = model.latex()
    first, second, third = lines(found.split("\n\n")[0])
    goal = r"\frac{\lVert A_{i} x_{i} - b_{i} \rVert_{1}}{\alpha_{i}}"
    goal += r" + \lVert x_{i} - w_{i} \rVert_2^2"
    assert first == rf"\sum_{{i=1}}^{{160}} \left( {goal} \right)"
    assert second == r"0 \leq x_{i} \quad i = 1, \dots, 160"
    assert third == r"w_{i} = w \quad i = 1, \dots, 160"
    assert r"\min_{x_{i}, w_{i}} \quad" in found
    assert r"\text{school 0..159}" in found
    assert len(found) < 1500


def test_shared_variables_peer_to_peer_couplings_and_maximisation() -> None:
    w, u = cp.Variable(2, name="w"), cp.Variable(name="u_a")
    model = dm.Model("odd $names$")
    model.client("a", cp.Maximize(-cp.sum_squares(w) + u))
    model.client("b & c", cp.Maximize(-cp.norm1(w - 3)))
    v = cp.Variable(name="v")
    model.client("c", cp.Maximize(-cp.square(v)))
    model.couple(u + v <= 1, name="50 %")
    found = lines(model.latex().split("\n\n")[0])
    assert found == [
        r"-\lVert w_{\text{a}} \rVert_2^2 + u_{\text{a}}",
        r"-\lVert w_{\text{b \& c}} - 3 \rVert_{1}",
        r"-v^{2}",
        r"u_{\text{a}} + v \leq 1",
        r"w_{\text{a}} = w_{\text{b \& c}}",
    ]
    assert model.latex().startswith("\\begin{aligned}\n\\max_{")
    assert r"\text{50 \%}" in model.latex()
    model.topology("server")
    assert r"w_{\text{a}} = w_{\text{b \& c}} = w" in model.latex()
    assert not re.search(r"_\{[^{}]*\}_\{", model.latex()), "a double index is no LaTeX"
