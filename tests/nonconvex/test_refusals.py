"""What a model with clients that are not convex refuses, and in which words."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm


def model_of_two() -> dm.Model:
    x, model = cp.Variable(name="x", value=1.5), dm.Model("two")
    model.client("a", cp.power(x, 4) - 2 * cp.square(x), nonconvex=True)
    model.client("b", 0.2 * x)
    return model


def test_an_expression_that_is_not_convex_names_the_flag_and_the_extra() -> None:
    x, model = cp.Variable(2, name="x"), dm.Model("m")
    for wrong in (
        lambda: model.client("a", cp.sum(cp.log(1 + cp.square(x)))),
        lambda: model.client("a", cp.sum_squares(x), [cp.sum_squares(x) >= 1]),
    ):
        with pytest.raises(dm.DeclarationError) as caught:
            wrong()
        assert "client 'a'" in str(caught.value)
        assert 'nonconvex=True (needs pip install "dald_model[nonconvex]")' in str(caught.value)


@pytest.mark.parametrize(
    ("objective", "rules", "said"),
    [
        (lambda x: cp.sum(-cp.abs(x)), lambda x: [], "is no smooth non-linear expression"),
        (lambda x: cp.sum(x), lambda x: [cp.SOC(x[0], x)], "is of type SOC, expected an equality"),
    ],
)
def test_what_is_no_smooth_program(objective: Any, rules: Any, said: str) -> None:
    x = cp.Variable(2, name="x")
    with pytest.raises(dm.DeclarationError, match=said):
        dm.Model("m").client("a", objective(x), rules(x), nonconvex=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gap", 1e-3),
        ("acceleration", dm.Secant()),
        ("algorithm", dm.FedAvg(step=0.1, count=2)),
        ("engine", dm.engines.Processes(workers=2)),
        ("checkpoint", "run.npz"),
    ],
)
def test_options_that_assume_convexity_or_send_clients(option: str, value: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        model_of_two().solve(**{option: value})
    assert str(caught.value).startswith(f"{option}: given ")
    assert "client 'a' is declared with nonconvex=True" in str(caught.value)


def test_a_certificate_and_a_comparison() -> None:
    model = model_of_two()
    result = model.solve()
    with pytest.raises(dm.ResultError, match="no multipliers prove a bound; expected verify"):
        result.certificate()
    with pytest.raises(dm.ResultError, match="no multipliers prove a bound"):
        result.verify(aio=False)
    with pytest.raises(dm.OptionError, match="client 'a' is declared with nonconvex=True"):
        dm.compare(model, [dm.DALD()])


def test_starts_from_a_result() -> None:
    model = model_of_two()
    result = model.solve()
    with pytest.raises(dm.OptionError, match="starts: given 3 and a start=, expected one of the"):
        model.solve(starts=3, start=result)


def test_starts_of_a_convex_model() -> None:
    x, model = cp.Variable(name="x"), dm.Model("m")
    model.client("a", cp.square(x))
    model.client("b", cp.square(x - 1))
    with pytest.raises(dm.OptionError, match="every client of 'm' is convex"):
        model.solve(starts=3)


def test_a_missing_solver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL"])

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("dald_model.lazy_imports.import_module", missing)
    x = cp.Variable(name="x")
    with pytest.raises(dm.MissingError, match=r'pip install "dald_model\[nonconvex\]"'):
        dm.Model("m").client("a", -cp.square(x), nonconvex=True)
