"""What a user can name: the public names in reading order, their first lines and signatures."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import dald_model as dm
from dald_model import estimators
from dald_model.cli import main

NAMES = """
Model Site Federation Peer Client Edge Coupling decompose from_matrices from_linopy from_mps
Compiled Subproblem Portable pack unpack
HierarchicalNetwork Sequence Moment Change Dropout Stragglers LossyLinks Unanswered
DALD ConsensusADMM ProximalPoint GradientDescent InteriorPoint NewtonMethod MiniBatchGradientDescent
StochasticGradientDescent StochasticNewton DistributedProximal FedProx FedAvg DGD AsynchronousDGD
metropolis EXTRA FedDyn FedADMM SCAFFOLD DADMM LinearisedADMM DouglasRachford PDHG
BCD JacobiGradientDescent BCGD BSUM ProximalGradient BCPG
FixedTolerance ShrinkingTolerance GrowingBudget FixedBudget Fixed ResidualBalancing
Hybrid Secant Anderson
solvers engines partition Iterate compare Comparison
Result resume load SavedAnswer Status Verification Certificate
DaldError DeclarationError DisconnectedError DecompositionError SequenceError OptionError
TopologyError ResultError RunError LostError CopyError DatasetError MissingError SequenceWarning
"""
"""In reading order: declare, compile, coordinate, answer."""

SIGNATURES = {
    dm.Model: """
        client(self, name, objective, constraints=(), *, nonconvex=False)
        consensus(self, *equalities)
        topology(self, graph)
        compile(self, *, rho=None)
        monolithic(self)
        solve(model, *, algorithm=None, disclose=None, sequence=None, stopping=None, rho=None, \
solver=None, accuracy=None, \
acceleration=Hybrid(secant=Secant(directions=32), anderson=Anderson(memory=20)), \
online=None, engine=None, checkpoint=None, every=10, start=None, metrics=None, callback=None, \
eps_pri=1e-06, eps_dual=1e-06, gap=None, max_rounds=1000, time_limit=None, starts=None, \
verbose=False)
        latex(self, client=None)
        draw(self)
        """,
    dm.Compiled: """
        explain(self, solver=None, *, sequence=None, algorithm=None, stopping=None, \
acceleration=Hybrid(secant=Secant(directions=32), anderson=Anderson(memory=20)), disclose=None)
        draw(self, sequence=None)
        """,
    dm.Result: """
        apply(self)
        plot(self)
        table(self)
        save(self, path)
        verify(self, *, aio=True, solver=None, \
            tol_objective=0.0001, tol_feasibility=0.0001, tol_dual=0.0001)
        """,
    dm.Sequence: """
        natural()
        levels(levels)
        from_root(root, depth_first=False)
        from_matrix(matrix)
        partial(*subsets)
        random(k, seed=0)
        participating(k, seed=0)
        jacobi()
        essentially_cyclic(k, seed=0)
        greedy(k)
        custom(choose, seed=0, label='custom')
        repeat(clients, times=2)
        alternate(*sequences)
        along(self, other)
        network(self, graph, servers=())
        explain(self)
        """,
}
"""Names, kinds and defaults of the arguments; the annotations are pyright's."""


def signature(thing: Any) -> str:
    found = inspect.signature(thing)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def test_the_public_names_are_these_in_this_order() -> None:
    assert dm.__all__ == NAMES.split()


@pytest.mark.parametrize("name", dm.__all__)
def test_a_public_name_is_there_and_its_documentation_opens_with_a_sentence(name: str) -> None:
    thing = getattr(dm, name)
    first = (thing.__doc__ or "").strip().split("\n")[0]
    assert first.endswith(".")
    assert not first.startswith(f"{name}("), "a dataclass without a docstring of its own"


def test_what_took_the_place_of_aladin_is_said() -> None:
    package: Any = dm
    with pytest.raises(
        AttributeError, match=r'gone; take model.solve\(disclose="curvature"\), by dm.InteriorPoint'
    ):
        _ = package.ALADIN


def test_what_a_notebook_offers_behind_a_dot() -> None:
    assert dm.__dir__() == [*NAMES.split(), "__version__"]
    made = """natural levels from_root from_matrix partial random participating jacobi
    essentially_cyclic greedy custom repeat alternate along"""
    assert set(dir(dm.Sequence)) == set(made.split())
    assert {"explain", "network", "along"} <= set(dir(dm.Sequence.natural()))


METHODS = {
    dm.Model: "client consensus couple topology compile monolithic solve latex draw",
    dm.Compiled: "explain",
    dm.Result: "verify certificate table save",
    dm.Sequence: " ".join(dir(dm.Sequence)) + " explain network",
}
OBJECTS = NAMES.split()[NAMES.split().index("Moment") : NAMES.split().index("solvers")]


def test_methods_algorithms_and_options_have_an_example_that_runs_as_a_doctest() -> None:
    things = {name: getattr(dm, name) for name in [*OBJECTS, "Iterate", "compare", "load"]}
    things |= {f"{o.__name__}.{n}": getattr(o, n) for o, ns in METHODS.items() for n in ns.split()}
    assert [name for name, thing in things.items() if ">>> " not in (thing.__doc__ or "")] == []
    assert len(things) > 60


def test_signatures_in_help_are_as_they_were_written() -> None:
    """With numpy's types spelled out one of them takes twenty lines."""
    for name in ("dirichlet", "label_skew", "even", "heterogeneity"):
        said = str(inspect.signature(getattr(dm.partition, name)))
        assert "_typing" not in said
        assert len(said) < 200


@pytest.mark.parametrize("owner", SIGNATURES, ids=lambda owner: owner.__name__)
def test_a_signature_is_this_text_and_every_method_is_documented(owner: type) -> None:
    lines = [" ".join(line.split()) for line in SIGNATURES[owner].strip().split("\n")]
    names = [line.split("(")[0] for line in lines]
    assert [name + signature(getattr(owner, name)) for name in names] == lines
    assert all(getattr(owner, name).__doc__ for name in names)


def test_help_on_solve_explains_every_option() -> None:
    method = dm.Model("any").solve
    assert method.__name__ == "solve"
    for option in inspect.signature(method).parameters:
        assert option in (method.__doc__ or "").split("Returns")[0].split("Parameters")[1]


@pytest.mark.parametrize("name", [*dm.__all__, *estimators.__all__])
def test_every_public_class_and_function_has_an_example(name: str) -> None:
    """Doctest runs them."""
    named: Any = getattr(dm, name, None) or getattr(estimators, name)
    if inspect.isclass(named) or inspect.isfunction(named):
        assert ">>>" in (inspect.getdoc(named) or "")


def test_what_is_heavy_is_loaded_when_it_is_needed() -> None:
    """The package itself imports nothing but cvxpy; the command and the gallery no more."""
    code = """
        import sys, cvxpy
        before = set(sys.modules)
        import dald_model
        print([name for name in set(sys.modules) - before if "." in name or name != "dald_model"])
        for code in (
            "import dald_model.cli; dald_model.cli.main([])",
            "import dald_model.models.ridge, dald_model.models.logistic",
            "import dald_model.models.hospitals",
        ):
            exec(code)
            late = {"sklearn", "matplotlib", "openpyxl", "pandas", "tqdm"}
            print(sorted(late & set(sys.modules)))
    """
    said = subprocess.run(
        [sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n" * 4


def test_solve_takes_a_file_whose_model_is_a_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lazy.py"
    file.write_text(
        "import cvxpy as cp, dald_model as dm\n"
        "def model():\n"
        "    w, made = cp.Variable(), dm.Model('lazy')\n"
        "    made.client('a', cp.square(w - 1)), made.client('b', cp.square(w - 3))\n"
        "    return made\n"
    )
    assert main(["solve", str(file)]) == 0
    assert "Verification of 'lazy': passed" in capsys.readouterr().out
    file.write_text("def model():\n    return 3\n")
    assert main(["solve", str(file)]) == 2
    assert "`model` is of type int, expected dald_model.Model" in capsys.readouterr().err


def test_type_checkers_are_told_the_same_names_from_the_same_modules() -> None:
    stub = Path(dm.__file__).with_name("__init__.pyi").read_text()
    told: dict[str, str] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            told |= {alias.name: node.module for alias in node.names}
        if isinstance(node, ast.Assign):
            assert ast.literal_eval(node.value) == dm.__all__
    for name, module in told.items():
        found = getattr(dm, name)
        home = found if inspect.ismodule(found) else sys.modules[module]
        assert found is home or found is getattr(home, name)
    assert set(told) == set(dm.__all__)
