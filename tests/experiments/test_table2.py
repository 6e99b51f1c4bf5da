"""Table 2 and Figure 5: the conventions by plain numpy, known cells of the paper, the report."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import dald_model as dm
from dald_model.datasets import Array, Dataset, load_mnist
from dald_model.errors import DatasetError, ResultError
from dald_model.experiments import figure5, table2
from dald_model.experiments import mnist_federated as experiment
from dald_model.experiments import table2_report as table2_text
from dald_model.experiments.mnist_federated import (
    CC,
    DC,
    EQUATION,
    FEDPROX,
    METHODS,
    PAPER,
    Figures,
    Images,
    Setting,
)
from dald_model.experiments.table2 import CLIENTS, DIFFERING, PRINTED, ROUNDS, WEIGHTS, Cell
from tests.paths import DATA, MANUAL, ROOT

needs_mnist = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"DALD_DATA is not set and {DATA} does not exist: no MNIST here"
)


@pytest.fixture(scope="module")
def few() -> Dataset:
    """Every twentieth image: 620 rows, which show as well what the program does."""
    every = load_mnist(data=DATA)
    return replace(every, features=every.features[::20].copy(), target=every.target[::20].copy())


@pytest.fixture
def rows(few: Dataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[Images]:
    """The same for the program, which gets them whenever it loads MNIST."""
    monkeypatch.setattr(experiment, "load_mnist", lambda data: few)
    experiment.images.cache_clear()
    yield experiment.images()
    experiment.images.cache_clear()


# --- the conventions ------------------------------------------------------------------------------


def by_hand(setting: Setting, rounds: int, data: Dataset) -> Array:
    """The clients' own vectors by the paper's formulas in plain numpy, with all 784 pixels."""
    n, target = setting.clients, data.target
    generator = np.random.RandomState(42)
    threes, sevens = np.flatnonzero(target < 0), np.flatnonzero(target > 0)
    generator.shuffle(threes)
    generator.shuffle(sevens)
    parts = [
        np.concatenate(
            [threes[i::n], sevens[i :: 4 * n]] if i % 2 == 0 else [threes[i :: 4 * n], sevens[i::n]]
        )
        for i in range(n)
    ]
    rows = np.column_stack([data.features, np.ones(len(target))])
    total, wide = rows.shape
    x, alpha = np.zeros((n, wide)), 1e-4

    def step(i: int, pull: Array) -> Array:
        A, b = rows[parts[i]], target[parts[i]]
        margin = b * (A @ x[i])
        slope = -(A.T @ (b / (1 + np.exp(margin)))) / total
        ahead = x[i] - alpha * (slope + pull)
        return np.sign(ahead) * np.maximum(np.abs(ahead) - setting.weight * alpha, 0)

    server, price = np.zeros(wide), np.zeros((n, wide))  # price: mu_i, or mu_{i,i+1} of the chain
    for _ in range(rounds):
        if setting.method == DC:
            for i in range(n):
                pull = np.zeros(wide)
                if i > 0:
                    pull += 2 * (x[i] - x[i - 1]) - price[i - 1]
                if i < n - 1:
                    pull += 2 * (x[i] - x[i + 1]) + price[i]
                x[i] = step(i, pull)
            price[:-1] += 2 * (x[:-1] - x[1:])
        else:  # mu_i is the price of x_i - x_hat
            x = np.array([step(i, 2 * (x[i] - server) + price[i]) for i in range(n)])
            divisor = 785 if setting.divisor == PAPER else n
            server = (x.sum(axis=0) + price.sum(axis=0) / 2) / divisor
            if setting.method == CC:
                price += 2 * (x - server)
    return x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "divisor", "clients"),
    [
        (FEDPROX, EQUATION, 10),
        (FEDPROX, PAPER, 10),
        (CC, EQUATION, 10),
        (CC, PAPER, 10),
        (DC, EQUATION, 10),
        (DC, EQUATION, 7),
    ],
)
@needs_mnist
def test_the_library_runs_the_papers_formulas(
    method: str, divisor: str, clients: int, few: Dataset, rows: Images
) -> None:
    setting = Setting(clients, 1e-2, method, divisor)
    expected = by_hand(setting, 12, few)
    # The second part of the run goes on from the first.
    found = experiment.follow(setting, [5, 12], rows, np.copy)
    assert list(found) == [5, 12]
    used = np.append(few.features.any(axis=0), True)
    assert not expected[:, ~used].any(), "pixels that are 0 in all images have coefficients 0"
    np.testing.assert_allclose(found[12], expected[:, used], rtol=0, atol=1e-10)
    scores = np.column_stack([few.features, np.ones(len(few.target))]) @ expected.T
    accuracy = np.mean(np.sign(scores) == few.target[:, None], axis=0)
    np.testing.assert_allclose(rows.accuracy(found[12]), accuracy, rtol=0, atol=1e-15)


@pytest.mark.slow
@needs_mnist
def test_every_round_is_measured(rows: Images) -> None:
    for method in (FEDPROX, DC):
        setting = Setting(4, 1e-3, method)
        each = experiment.follow(setting, [3], rows, rows.accuracy, every_round=True)
        some = experiment.follow(setting, [1, 3], rows, rows.accuracy)
        assert list(each) == [1, 2, 3]
        for goal, values in some.items():
            np.testing.assert_array_equal(each[goal], values)


def test_a_tie_is_wrong_and_the_deviation_is_that_of_the_population() -> None:
    rows = Images(np.array([[1.0], [2.0], [-1.0], [0.0]]), np.array([1.0, -1.0, -1.0, 1.0]))
    accuracy = rows.accuracy(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]))
    assert accuracy.tolist() == [0.5, 0.0, 0.5]
    assert Figures.of(np.array([0.5, 0.7])) == pytest.approx((60.0, 1000.0))


@needs_mnist
def test_a_run_that_ends_too_early_is_told(rows: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "STEP", 1e300)
    with pytest.raises(ResultError, match=r"method='Fed-DALD-CC'.* of 9 rounds: .*expected all"):
        experiment.follow(Setting(2, 0.0, CC), [9], rows, rows.accuracy)


def test_the_server_divides_what_has_one_kind_of_edge_only() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("one", cp.sum_squares(x - 1))
    model.client("two", cp.sum_squares(y - [3, 5]))
    z = cp.Variable(2, name="z")
    model.consensus(x == z, 2 * y == z)
    compiled = model.compile()
    solver = experiment.DividedBy(4)
    assert solver.name == "sum over 4"
    assert solver.refuses(compiled["one"]) == "it is no server"
    model = dm.Model()
    model.client("one", cp.sum_squares(x - 1))
    model.client("two", cp.sum_squares(x - [3, 5]))
    (server,) = model.compile().servers
    assert solver.refuses(model.compile()[server]) == ""
    # The server's first turn: without multipliers half of the mean, as four is twice two.
    after = model.solve(solver={server: solver}, max_rounds=1, eps_pri=0, eps_dual=0, rho=1.0)
    copies = [after[name][x] for name in ("one", "two")]
    np.testing.assert_allclose(after[x], np.sum(copies, axis=0) / 4)


# --- known cells ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("method", "weight"), [(FEDPROX, 1e-3), (CC, 1e-3), (DC, 0.0), (DC, 1e-3)])
@needs_mnist
def test_cells_have_the_printed_figures(method: str, weight: float) -> None:
    found, _ = table2.run(Setting(10, weight, method, PAPER), [1000], DATA)
    paper = PRINTED[Cell(10, weight, method, 1000)]
    assert (f"{found[1000].mean:.2f}", f"{found[1000].deviation:.2f}") == (
        f"{paper.mean:.2f}",
        f"{paper.deviation:.2f}",
    )


def test_the_printed_table_is_the_published_one() -> None:
    assert list(PRINTED) == [Cell(*cell) for cell in product(CLIENTS, WEIGHTS, METHODS, ROUNDS)]
    assert PRINTED[Cell(10, 0.0, DC, 1000)] == (98.8, 2.14)
    assert PRINTED[Cell(10, 1e-3, DC, 1000)] == (98.78, 2.23)
    assert PRINTED[Cell(1000, 1e-2, DC, 3000)] == (95.29, 35.06)
    file = DATA.parent / "design" / "table2_paper.csv"
    if file.is_file():
        published = pd.read_csv(file)
        assert list(published.columns) == table2.COLUMNS
        ours = pd.DataFrame([(*c, *f) for c, f in PRINTED.items()], columns=table2.COLUMNS)
        pd.testing.assert_frame_equal(ours, published)


def kept() -> Iterator[tuple[Cell, list[tuple[str, ...]], bool]]:
    """The cells of notebooks/TABLE2.md: the paper's, ours by 785, by (31); whether it was run."""
    for line in (ROOT / "notebooks" / "TABLE2.md").read_text().splitlines():
        columns = [column.strip() for column in line.strip("| ").split("|")]
        if len(columns) == 7 and columns[3].isdigit():
            n, weight, method, rounds = columns[:4]
            name = method if method == FEDPROX else f"Fed-{method}"
            cell = Cell(int(n), float(weight), name, int(rounds))
            figures = [tuple(re.findall(r"[\d.]+", column)) for column in columns[4:]]
            yield cell, figures, "†" not in columns[5]


def test_the_counts_that_are_told_are_those_of_the_table() -> None:
    cells = list(kept())
    assert [cell for cell, _, _ in cells] == list(PRINTED)
    for cell, (paper, _, _), _ in cells:
        assert paper == tuple(f"{value:.2f}" for value in PRINTED[cell])
    same = {cell for cell, (paper, by_785, _), _ in cells if by_785 == paper}
    by_equation = {cell for cell, (paper, _, by_31), _ in cells if by_31 == paper}
    assert set(PRINTED) - same == DIFFERING
    for cell, (paper, by_785, _), _ in cells:
        if cell in DIFFERING:
            assert [ours == theirs for ours, theirs in zip(by_785, paper, strict=True)] in (
                [True, False],
                [False, True],
            )
    ran = same & {cell for cell, _, was_run in cells if was_run}
    manual = one_line((MANUAL / "algorithms.md").read_text())
    assert f"{len(same)} of its {len(PRINTED)} cells come out to both printed decimals" in manual
    assert f"{len(ran)} of them run through the library" in manual
    assert f"which is equation (31), {len(by_equation)} do." in manual


# --- the report -----------------------------------------------------------------------------------


def frame(**changes: float) -> pd.DataFrame:
    """The paper's figures of n = 10 as ours, but for the means after 1,000 rounds at lambda 0."""
    lines = []
    for cell, figures in PRINTED.items():
        if cell.clients == 10:
            change = changes.get(cell.method.replace("-", "_"), 0.0)
            is_changed = cell.weight == 0 and cell.rounds == 1000
            lines.append((*cell, figures.mean + is_changed * change, figures.deviation))
    return pd.DataFrame(lines, columns=table2.COLUMNS)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_report_puts_ours_beside_the_papers() -> None:
    table = frame(Fed_DALD_CC=1.36, FedProx=0.004)
    assert table2_text.surprises(table, PAPER) == [Cell(10, 0.0, CC, 1000)]
    assert table2_text.surprises(table, EQUATION) == []
    text = table2_text.table2_text(table, PAPER)
    assert (
        "       n  lambda method      rounds    paper    ours   diff     paper    ours    diff\n"
        "      10       0 FedProx       1000    97.43   97.43  +0.00     27.11   27.11   +0.00\n"
        "      10       0 FedProx       3000    97.42   97.42  +0.00     31.35   31.35   +0.00\n"
        "      10       0 Fed-DALD-CC   1000    97.44   98.80  +1.36     15.66   15.66   +0.00 *\n"
    ) in text
    assert "23 of 24 cells agree with print, in mean and deviation, to both decimals." in text
    assert (
        "NOT EXPECTED to differ, but these do:\n"
        "  n = 10, lambda = 0, Fed-DALD-CC, 1,000 rounds: paper 97.44 / 15.66, ours 98.80 / 15.66\n"
    ) in text
    assert max(map(len, text.split("\n"))) <= 100


@pytest.mark.parametrize("divisor", [EQUATION, PAPER])
def test_the_report_tells_of_the_slip(divisor: str) -> None:
    text = one_line(table2_text.table2_text(frame(), divisor))
    assert "The server divides by " + {EQUATION: "n, eq", PAPER: "785, as"}[divisor] in text
    assert "come from a division by 785, the number of coefficients (784 pixels and the" in text
    assert f"Run --divisor {EQUATION if divisor == PAPER else PAPER} for" in text
    assert "24 of 24 cells agree" in text
    assert "NOT EXPECTED" not in text


def test_by_equation_31_only_cells_without_a_server_must_agree() -> None:
    table = frame(Fed_DALD_CC=1.36, Fed_DALD_DC=0.01)
    assert table2_text.surprises(table, EQUATION) == [Cell(10, 0.0, DC, 1000)]
    text = one_line(table2_text.table2_text(table, EQUATION))
    assert "22 of 24 cells agree" in text
    assert "Of Fed-DALD-DC, which has no server, 7 of 8 do" in text
    assert "Fed-DALD-CC, 1,000 rounds: paper" not in text


def test_cells_that_are_known_to_differ_are_named_with_both_values() -> None:
    known = sorted(DIFFERING)
    assert len(known) == 7
    lines = [(*cell, PRINTED[cell].mean - 0.1, PRINTED[cell].deviation) for cell in known]
    table = pd.DataFrame(lines, columns=table2.COLUMNS)
    assert table2_text.surprises(table, PAPER) == []
    text = table2_text.table2_text(table, PAPER)
    assert "0 of 7 cells agree" in text
    assert (
        "In these cells one of the two printed numbers is ours and the other is not, probably a "
        "slip in print:\n  n = "
    ) in text
    assert text.count(", ours ") == 7


def test_cells_that_are_not_in_the_paper() -> None:
    table = pd.DataFrame([(12, 0.5, DC, 7, 50.0, 1.0)], columns=table2.COLUMNS)
    text = table2_text.table2_text(table, PAPER)
    assert (
        "      12     0.5 Fed-DALD-DC      7        -   50.00      -         -    1.00       -\n"
        in text
    )
    assert "None of these cells is in the paper's table." in text
    assert table2_text.surprises(table, PAPER) == []


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("rows")
@needs_mnist
def test_a_table_is_in_the_papers_order_and_what_was_kept_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Setting, list[int]]] = []

    def run(setting: Setting, rounds: list[int], data: Any) -> tuple[dict[int, Figures], float]:
        ran.append((setting, rounds))
        return {at: Figures(setting.clients + at / 16, 1 / 3) for at in rounds}, 7.0

    monkeypatch.setattr(table2, "run", run)
    told: list[str] = []
    keep = tmp_path / "cells.csv"
    paper = table2.table2([4], [1e-4], [1, 2], PAPER, keep=keep, tell=told.append)
    assert list(paper.columns) == table2.COLUMNS
    assert paper[["method", "iterations"]].to_numpy().tolist() == [
        [method, at] for method in METHODS for at in (1, 2)
    ]
    assert told[0] == "1 of 3: n = 4, lambda = 0.0001, FedProx: 4.06/0.33, 4.12/0.33; 7 s"
    assert [one.divisor for one, _ in ran] == [PAPER, PAPER, EQUATION]

    ran.clear()
    both = table2.table2([4, 6], [1e-4], [1, 2], EQUATION, keep=keep)
    assert [(one.clients, one.method) for one, _ in ran] == [
        *((6, method) for method in METHODS),
        (4, FEDPROX),
        (4, CC),
    ], "the longest first"
    pd.testing.assert_frame_equal(both[both["clients"] == 4], paper)
    ran.clear()
    pd.testing.assert_frame_equal(
        table2.table2([4], [1e-4], [2], PAPER, keep=keep),
        paper[paper["iterations"] == 2].reset_index(drop=True),
    )
    assert ran == []
    keep.write_text("a,b\n1,2\n")
    with pytest.raises(DatasetError, match=r"cells.csv has the columns a, b; expected a file that"):
        table2.table2([4], keep=keep)


def test_several_processes_do_the_same_work() -> None:
    settings = [Setting(n, 0.0, CC) for n in (3, 2, 1)]
    expected = [(one, one.clients) for one in settings]
    assert list(experiment.over(settings, getattr, ("clients",), jobs=1)) == expected
    # getattr stands for work: what a process of its own runs must be importable there.
    assert sorted(experiment.over(settings, getattr, ("clients",), jobs=2)) == expected[::-1]


def test_what_to_do_without_mnist_is_told(tmp_path: Path) -> None:
    for run in (table2.table2, figure5.figure5):
        with pytest.raises(DatasetError, match=r"train-images-idx3-ubyte.gz .*Put .* a folder"):
            run(data=tmp_path)


# --- figure 5 -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("rows")
@needs_mnist
def test_the_figure_has_a_panel_a_size_and_a_curve_a_method() -> None:
    curves = figure5.figure5([2, 4], 20)
    assert list(curves.columns) == figure5.COLUMNS
    assert len(curves) == 2 * 3 * 20
    drawn = figure5.figure5_plot(curves, EQUATION)
    left, right = drawn.axes
    assert (left.get_title(), right.get_title()) == ("n = 2 clients", "n = 4 clients")
    assert left.get_ylabel() == "accuracy of the clients, %"
    assert right.get_xlabel() == "round"
    assert [text.get_text() for text in right.get_legend().get_texts()] == list(METHODS)
    assert "equation (31)" in drawn.get_suptitle()
    for axis, size in ((left, 2), (right, 4)):
        assert len(axis.collections) == 3, "the bands"
        for line, method in zip(axis.get_lines(), METHODS, strict=True):
            part = curves[(curves["clients"] == size) & (curves["method"] == method)]
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 21))
            np.testing.assert_array_equal(line.get_ydata(), part["accuracy_mean_percent"])


@pytest.mark.slow
@needs_mnist
def test_fedprox_is_below_both_others_after_the_rounds_of_the_figure() -> None:
    every = experiment.images(DATA)
    found = {
        method: Figures.of(
            experiment.follow(Setting(10, 1e-3, method), [300], every, every.accuracy)[300]
        )
        for method in METHODS
    }
    assert found[FEDPROX].mean < found[CC].mean - 0.5
    assert found[FEDPROX].mean < found[DC].mean - 0.5
    assert found[FEDPROX].deviation > 1.5 * max(found[CC].deviation, found[DC].deviation)


def test_the_text_of_the_figure_says_from_when_on_fedprox_is_below() -> None:
    means = {FEDPROX: [50.0, 60.0, 61.0], CC: [49.0, 70.0, 80.0], DC: [51.0, 65.0, 75.0]}
    lines = [
        (10, method, at, mean, 12.0)
        for method, values in means.items()
        for at, mean in enumerate(values, start=1)
    ]
    text = figure5.figure5_text(pd.DataFrame(lines, columns=figure5.COLUMNS))
    assert "  n = 10    Fed-DALD-CC   80.00    12.00\n" in text
    assert text.endswith("FedProx is below both others from round 2 on")
