"""The command `dald`: what it prints, writes and returns."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dald_model as dm
from dald_model.cli import CODES, OF_STATUS, main
from dald_model.experiments import figure5, table1, table2
from tests.paths import GALLERY

MODEL = """
import cvxpy as cp
import dald_model as dm

x = [cp.Variable(name=f"x{i}") for i in range(3)]
model = dm.Model("three numbers")
for i in range(3):
    model.client(f"owner {i}", cp.square(x[i] - i))
model.consensus(x[0] == x[1], x[1] == x[2])

if __name__ == "__main__":
    raise SystemExit("dald solve must leave this block alone")
"""


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        file = tmp_path / "script.py"
        file.write_text(text)
        return str(file)

    return write


# --- demo -----------------------------------------------------------------------------------------


def test_the_demo_tells_problem_model_convergence_and_verification(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DALD_DATA", raising=False)
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    heads = [line for line in text.split("\n") if re.fullmatch("[A-Z: ]+", line)]
    assert [head for head in heads if head.strip()] == [
        "THE PROBLEM",
        "THE MODEL",
        "FIRST WAY: A SERVER",
        "SECOND WAY: NEIGHBOURS",
        "THE ANSWER",
    ]
    assert "  hospital 1, 148 patients    2958.8337\n" in text
    assert "Model 'linear regression': 3 clients\n" in text
    assert text.count("  round    apart   moving  objective\n      1  ") == 2
    assert text.count("status           optimal (both residuals met their tolerances)\n") == 2
    assert text.count("Verification of 'linear regression': passed\n") == 2
    # The paper's AIO figure, three times over.
    assert text.endswith(
        "Mean squared error over all 442 patients\n"
        "  through a server           2859.6963\n"
        "  among neighbours           2859.6963\n"
        "  all patients in one place  2859.6963\n"
    )


# --- models ---------------------------------------------------------------------------------------


def test_the_gallery_is_listed_by_first_lines_and_copied_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    files = {file.stem: file for file in GALLERY.glob("[!_]*.py")}
    assert listed.keys() == files.keys()
    assert all(said in files[name].read_text() for name, said in listed.items())
    assert main(["models", "market", "mean", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "market.py").read_text() == files["market"].read_text()
    assert (tmp_path / "mean.py").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["models", "markt"], "there is no 'markt' in the gallery; expected a name that `dald"),
        (["models", "mean", "--to", "nowhere"], "there is no folder 'nowhere'; create it first"),
        (["solve", "markt"], "did you mean market?"),
    ],
)
def test_a_name_that_is_not_in_the_gallery_is_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    assert said in capsys.readouterr().err


def test_a_copy_does_not_replace_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mean.py").write_text("mine")
    assert main(["models", "market", "mean", "--to", str(tmp_path)]) == 2
    assert "exists and is not replaced; remove it first" in capsys.readouterr().err
    assert (tmp_path / "mean.py").read_text() == "mine"
    assert not (tmp_path / "market.py").exists()


def test_a_model_of_the_gallery_is_solved_by_name_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At its reference value, which is scipy's."""
    assert main(["solve", "market", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["result"]["status"] == "optimal"
    assert told["result"]["value"] == pytest.approx(84.1275, rel=1e-6)
    assert told["result"]["variables"]["produced by wind"] == pytest.approx(3.0)
    assert told["verification"]["ok"] is True


# --- solve ----------------------------------------------------------------------------------------


def test_solve_prints_the_model_the_result_and_the_verification(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", script(MODEL)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Model 'three numbers': 3 clients\n")
    assert "Result of 'three numbers'\n  status           optimal (" in text
    assert "Verification of 'three numbers': passed\n" in text


def test_solve_takes_a_gallery_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(GALLERY / "portfolio.py")]) == 0
    assert "Verification of 'portfolio': passed\n" in capsys.readouterr().out


PAIR = """
import cvxpy as cp
import dald_model as dm

x = cp.Variable(name="x")
model = dm.Model("pair")
model.client("a", {a}, {rules})
model.client("b", {b}, [x <= 0])
"""


@pytest.mark.parametrize(
    ("a", "b", "rules", "more", "code", "status"),
    [
        ("cp.square(x)", "cp.square(x + 1)", "[]", [], 0, "optimal"),
        ("cp.square(x)", "cp.square(x)", "[x >= 1]", [], 3, "infeasible"),
        ("x", "x", "[]", [], 4, "unbounded"),
        ("cp.square(x)", "cp.square(x + 1)", "[]", ["--max-rounds", "1"], 5, "round_limit"),
    ],
)
def test_the_exit_code_says_the_status(
    a: str,
    b: str,
    rules: str,
    more: list[str],
    code: int,
    status: str,
    script: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = script(PAIR.format(a=a, b=b, rules=rules))
    assert main(["solve", file, *more]) == code
    text = capsys.readouterr().out
    assert f"status           {status} (" in text
    assert "Verification of 'pair'" in text


def test_every_status_has_an_exit_code_that_help_explains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["solve", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "exit codes:\n    0  an optimum or a stationary point was found, and its" in text
    for status in dm.Status:
        code = OF_STATUS.get(status, 0)
        assert (code == 0) == status.has_answer
        assert f"\n  {code:>3}  {CODES[code]}" in text


def test_an_answer_that_fails_its_verification_is_exit_code_1(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = dm.Model.solve

    def solve(model: dm.Model, **options: Any) -> dm.Result:
        return replace(honest(model, **options), value=17.0)

    monkeypatch.setattr(dm.Model, "solve", solve)
    assert main(["solve", script(MODEL)]) == 1
    assert "Verification of 'three numbers': FAILED (reported value)" in capsys.readouterr().out


def test_an_interruption_is_exit_code_130(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = script(MODEL + "\nmodel.compile()\n")

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dald_model.coordinate.run.Run.go", interrupt)
        assert main(["solve", file]) == 130
    text = capsys.readouterr().out
    assert "status   interrupted (" in text
    assert "Verification" not in text
    monkeypatch.setattr("dald_model.model.Model.compile", interrupt)
    assert main(["solve", file]) == 130
    assert capsys.readouterr().err == "dald: interrupted\n"


def test_solve_passes_solver_and_verbose_on(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", script(MODEL), "--solver", "OSQP", "--verbose"]) == 0
    assert "round" in capsys.readouterr().err, "the progress bar"


def test_a_script_may_import_its_neighbours(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "neighbour_of_the_script.py").write_text(MODEL)
    before = list(sys.path)
    assert main(["solve", script("from neighbour_of_the_script import model")]) == 0
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x = 1",
            "dald: error: {file} defines no `model`; expected a dald_model.Model of that name at "
            "the top level of the file, not below `if __name__ == '__main__':`\n",
        ),
        (
            "import cvxpy as cp\nmodel = cp.Problem(cp.Minimize(0))",
            "dald: error: in {file} `model` is of type Problem, expected dald_model.Model; make "
            "one of a cvxpy problem by dald_model.decompose(problem)\n",
        ),
        (
            "import dald_model as dm\nmodel = dm.Model('empty')",
            "dald: error: model 'empty' has no clients; declare them with model.client(...)\n",
        ),
        (
            "from dald_model.datasets import load\nload('iris')",
            "dald: error: There is no data set 'iris'. Expected: one of diabetes, california, "
            "wine, abalone, ccpp. Choose one of these; for the four hospitals call "
            "load_hospitals().\n",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_on_stderr(
    text: str, message: str, script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script(text)
    assert main(["solve", file]) == 2
    printed = capsys.readouterr()
    assert printed.err == message.format(file=file)
    assert printed.out == ""


def test_a_file_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "nowhere.py"]) == 2
    assert capsys.readouterr().err == (
        "dald: error: there is neither a file nor a model of the gallery 'nowhere.py'; expected a "
        "Python file that defines `model`, or a name that `dald models` lists\n"
    )


def test_wrong_options_of_solve(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", script(MODEL), "--max-rounds", "0"]) == 2
    assert "max_rounds: given 0, expected a whole number from 1" in capsys.readouterr().err
    assert main(["solve", script(MODEL), "--solver", "CPLEKS"]) == 2
    assert "solver: given 'CPLEKS', expected 'auto', one of 'average'," in capsys.readouterr().err


def test_an_error_of_the_script_itself_keeps_its_traceback(script: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        main(["solve", script("1 / 0")])


# --- table1 ---------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 1 without its minute of work; tests/experiments/test_table1.py does that."""

    def compare(dataset: Any) -> list[dict[str, Any]]:
        common = {"set": dataset.name, "title": dataset.title, "rows": 442, "mse": 2.0, "r2": 0.5}
        run = {"nodes": [2.0] * 3, "rounds": 70, "relative_gap": 1e-9, "status": "optimal"}
        lines = [common | {"method": m} for m in (table1.PAPER_AIO, table1.PAPER_DALD)]
        lines.append(common | {"method": table1.AIO, "relative_gap": 0.0})
        return lines + [common | run | {"method": method} for method in table1.WAYS]

    monkeypatch.setattr(table1, "compare", compare)


@pytest.fixture
def only_diabetes(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "PAPER", {"diabetes": table1.PAPER["diabetes"]})


@pytest.mark.usefixtures("only_diabetes")
def test_table1_prints_the_table_and_writes_it_as_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table1.csv"
    assert main(["table1", "--csv", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Table 1: linear regression with three nodes in a chain")
    assert printed.out.endswith(
        f"\nWritten to {file}: set, rows, method, mse, r2, rounds, relative_gap\n"
    )
    assert re.sub(r"\d+ s", "# s", printed.err) == "Diabetes: 442 rows, # s\n"

    lines = file.read_text().split("\n")
    assert lines[0] == "set,rows,method,mse,r2,rounds,relative_gap"
    assert lines[1] == "diabetes,442,AIO paper,2.0,0.5,,"
    assert lines[4] == "diabetes,442,DALD-CC,2.0,0.5,70,1e-09"
    data = pd.read_csv(file)
    assert list(data.method) == ["AIO paper", "DALD paper", "AIO", *table1.WAYS]


@pytest.mark.usefixtures("quick")
def test_a_missing_set_is_told_and_the_others_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table1", "--data", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "  Diabetes   442     2.0000    2.0000" in printed.out
    assert "\nwine is missing from the table. wine could not be loaded from " in printed.out
    assert printed.err.endswith("dald: 4 of 5 sets are missing: california, wine, abalone, ccpp\n")


@pytest.mark.usefixtures("only_diabetes")
def test_a_table_that_does_not_reach_aio_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "AGREEMENT", 1e-12)
    assert main(["table1"]) == 1


def test_a_csv_in_no_folder_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table1", "--csv", str(tmp_path / "none" / "table1.csv")]) == 2
    assert capsys.readouterr().err == (
        f"dald: error: --csv {tmp_path / 'none' / 'table1.csv'}: there is no folder "
        f"{tmp_path.resolve() / 'none'}\n"
    )


# --- table2 and figure5 ---------------------------------------------------------------------------


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Table 2 and Figure 5 without their hour of work; what they were asked for."""
    asked: list[tuple[Any, ...]] = []

    def run_table(*arguments: Any, tell: Any) -> pd.DataFrame:
        asked.append(arguments)
        tell("1 of 1: n = 10")
        cells = [cell for cell in table2.PRINTED if cell.clients in arguments[0]]
        lines = [(*cell, *table2.PRINTED[cell]) for cell in cells]
        return pd.DataFrame(lines, columns=table2.COLUMNS)

    def run_figure(*arguments: Any, tell: Any) -> pd.DataFrame:
        asked.append(arguments)
        tell("n = 10, FedProx: 2 rounds, 0 s")
        lines = [
            (n, method, at, 90.0 + at * (method != "FedProx"), 50.0)
            for n in arguments[0]
            for method in ("FedProx", "Fed-DALD-CC", "Fed-DALD-DC")
            for at in (1, 2)
        ]
        return pd.DataFrame(lines, columns=figure5.COLUMNS)

    monkeypatch.setattr(table2, "table2", run_table)
    monkeypatch.setattr(figure5, "figure5", run_figure)
    return asked


def test_table2_prints_ours_beside_the_papers_and_writes_the_data(
    experiment: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table2.csv"
    assert main(["table2", "--n", "10", "10", "--divisor", "paper", "--csv", str(file)]) == 0
    assert experiment == [
        ([10], (0.0, 1e-4, 1e-3, 1e-2), (1000, 3000), "paper", None, 1, None),
    ]
    shown = capsys.readouterr()
    assert shown.out.startswith("Table 2: sparse logistic regression on MNIST's 3 against 7, the ")
    assert (
        "\n24 of 24 cells agree with print, in mean and deviation, to both decimals.\n" in shown.out
    )
    assert shown.out.endswith(
        f"\nWritten to {file}: clients, lambda, method, iterations, accuracy_mean_percent, "
        "accuracy_std_1e-4\n"
    )
    assert shown.err == "1 of 1: n = 10\n"
    assert file.read_text().split("\n")[:2] == [
        "clients,lambda,method,iterations,accuracy_mean_percent,accuracy_std_1e-4",
        "10,0.0,FedProx,1000,97.43,27.11",
    ]


def test_table2_passes_its_options_on(experiment: list[Any], tmp_path: Path) -> None:
    keep = tmp_path / "cells.csv"
    options = ["--lambdas", "0", "5e-4", "--iters", "20", "7", "--jobs", "2", "--data", "there"]
    assert main(["table2", "--n", "12", *options, "--keep", str(keep)]) == 0
    assert experiment == [([12], [0.0, 5e-4], [20, 7], "equation", "there", 2, keep)]


def test_a_cell_of_table2_that_should_agree_and_does_not_is_exit_code_1(
    experiment: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = table2.table2([10], tell=print)
    changed = (wrong.method == "Fed-DALD-CC") & (wrong.iterations == 1000)
    wrong.loc[changed, "accuracy_mean_percent"] += 0.01
    monkeypatch.setattr(table2, "table2", lambda *arguments, tell: wrong)
    assert main(["table2", "--n", "10", "--divisor", "paper"]) == 1
    assert main(["table2", "--n", "10"]) == 0, "by equation (31) it is not meant to agree"


def test_figure5_draws_and_says_where_the_curves_end(
    experiment: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "five.png"
    assert main(["figure5", "--n", "10", "--rounds", "2", "--out", str(file)]) == 0
    assert experiment == [([10], 2, "equation", None, 1)]
    assert file.read_bytes()[:4] == b"\x89PNG"
    shown = capsys.readouterr()
    assert "  n = 10    Fed-DALD-DC   92.00    50.00\n" in shown.out
    assert "  n = 10    FedProx is below both others in every round\n" in shown.out
    assert shown.out.endswith(f"\nDrawn in {file}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table2", "--n", "0"], "argument --n: given '0', expected a whole number from 1"),
        (["table2", "--iters", "1.5"], "argument --iters: given '1.5', expected a whole number"),
        (["table2", "--lambdas", "-1"], "expected"),
        (["table2", "--lambdas", "nan"], "argument --lambdas: given 'nan', expected a number from"),
        (["table2", "--divisor", "785"], "argument --divisor: invalid choice: '785'"),
        (["figure5", "--rounds", "x"], "argument --rounds: given 'x', expected a whole number"),
    ],
)
def test_wrong_options_of_the_experiment(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


def test_the_experiment_without_mnist_or_without_a_place_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("table2", "figure5"):
        assert main([command, "--data", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert said.startswith("dald: error: mnist could not be loaded from ")
        assert (
            "Put mnist/train-images-idx3-ubyte.gz and mnist/train-labels-idx1-ubyte.gz from" in said
        )
    for command, option in (("table2", "--csv"), ("table2", "--keep"), ("figure5", "--out")):
        assert main([command, option, str(tmp_path / "none" / "file.png")]) == 2
        assert f"error: {option} {tmp_path / 'none'}" in capsys.readouterr().err
    assert main(["figure5", "--out", str(tmp_path / "five.txt")]) == 2
    assert "expected a name that ends in .png, .pdf or .svg" in capsys.readouterr().err


# --- the command as such --------------------------------------------------------------------------


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"dald_model {dm.__version__}\n"


def test_without_a_command_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: dald [-h] [--version] COMMAND ...\n")


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fly"])
    assert "invalid choice: 'fly'" in capsys.readouterr().err


@pytest.mark.slow
def test_it_also_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dald_model", "--help"], capture_output=True, text=True, check=True
    )
    commands = ["demo", "table1", "table2", "figure5", "solve"]
    assert [c for c in commands if f"\n    {c} " in done.stdout] == commands
