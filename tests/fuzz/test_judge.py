"""The judge sees what is planted; the shrinker keeps what fails, and nothing else."""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.fuzz import judge as judging
from tests.fuzz.case import Case, Link, Owner, Units, Unknown
from tests.fuzz.judge import judge
from tests.fuzz.multipliers import dual_gap
from tests.fuzz.reference import Reference, reference, solved
from tests.fuzz.shrink import smallest

PLAIN = Case(
    0,
    (Unknown("y0", (2,)), Unknown("y1", (2,)), Unknown("y2", (2,))),
    (
        Owner("c0", ("y0",), ("cp.sum_squares(x0 - 1.0)",)),
        Owner("c1", ("y1",), ("cp.sum_squares(x1 + 1.0)", "0.5 * cp.norm1(x1)"), ("x1 <= 3.0",)),
        Owner("c2", ("y2",), ("cp.sum_squares(x2)",), ("x2 >= -1.0",)),
    ),
    (Link("x0", "x1"), Link("x1", "x2")),
    options=(("max_rounds", "400"),),
)
"""The optimum is zero: 3 x^2 + 2 + |x| / 2 in each of two entries, so 4."""


def _result(
    values: dict[str, float], value: float, status: str = "optimal", ok: bool = True
) -> Any:
    """A result that claims what it is told to."""

    class Claimed(dict):
        def verify(self) -> Any:
            rows = [] if ok else [type("Row", (), {"check": "objective gap"})]
            return type("Check", (), {"ok": ok, "failures": rows})()

    variables = {f"c{at}": f"y{at}" for at in range(3)}
    named = {
        client: {type("V", (), {"name": lambda self, n=n: n})(): np.full(2, values[client])}
        for client, n in variables.items()
    }
    found = Claimed(named)
    told = {"status": dm.Status(status), "value": value, "rounds": 7, "detail": ""}
    for name, one in told.items():
        setattr(found, name, one)
    return found


def _judged(monkeypatch: pytest.MonkeyPatch, given: Any, case: Case = PLAIN) -> str:
    def answer(_: Case) -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    monkeypatch.setattr(judging, "solve", answer)
    monkeypatch.setattr(judging, "dual_gap", lambda *_: 0.0)  # it has a test of its own
    return judge(case).verdict


AGREED = {"c0": 0.0, "c1": 0.0, "c2": 0.0}
APART = {"c0": 1e-3, "c1": 0.0, "c2": 0.0}
OFF = {"c0": 0.05, "c1": 0.05, "c2": 0.05}


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (_result(AGREED, 4.0), "right"),
        (_result(AGREED, 4.0, ok=False), "false verification"),
        (_result(APART, 4.0), "false verification"),
        (_result(APART, 4.0, ok=False), "wrong"),
        (_result(OFF, 4.065, ok=False), "wrong"),
        (_result(AGREED, 4.1, ok=False), "wrong"),
        (_result(AGREED, 4.0, "stalled"), "honest"),
        (_result(AGREED, np.inf, "infeasible"), "dishonest"),
        (_result(AGREED, -np.inf, "unbounded"), "dishonest"),
        (TypeError("foreign"), "exception"),
        (dm.OptionError("ours"), "refused"),
    ],
)
def test_what_is_planted_is_seen(given: Any, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _judged(monkeypatch, given) == verdict


def test_an_optimum_of_what_has_none_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = replace(PLAIN.owners[0], rules=("x0 >= 4.0",))
    infeasible = replace(PLAIN, owners=(apart, *PLAIN.owners[1:]))
    assert _judged(monkeypatch, _result(AGREED, 4.0), infeasible) == "wrong"
    claimed = _result(AGREED, np.inf, "infeasible")
    assert _judged(monkeypatch, claimed, infeasible) == "right"


def test_the_reference_is_the_closed_form() -> None:
    known = reference(replace(PLAIN, units=Units(1e3, 1e-3, 50.0)))
    assert known.status == "optimal"
    assert known.value == pytest.approx(4.0, abs=1e-6)
    # Alone and at most 1 from zero: client 0 goes to 1 and saves 2; client 1 to -0.75, where
    # 2 (0.0625 + 0.375) = 0.875, and saves 1.125; client 2 stays.
    assert known.variation == pytest.approx(3.125, abs=1e-5)


def test_an_answer_in_other_units_is_judged_in_ordinary_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units = Units(1e-3, 1e4, 2.0)
    at = dict.fromkeys(AGREED, 1e4 * (0.0 + 2.0))
    case = replace(PLAIN, units=units)
    assert _judged(monkeypatch, _result(at, 4e-3), case) == "right"
    off = dict.fromkeys(AGREED, 1e4 * (0.05 + 2.0))
    assert _judged(monkeypatch, _result(off, 4e-3), case) == "false verification"


def test_the_shrinker_keeps_what_fails_and_nothing_else() -> None:
    def fails(case: Case) -> bool:
        return any("norm1" in term for owner in case.owners for term in owner.terms)

    small = smallest(replace(PLAIN, units=Units(1e3, 1e-3, 50.0), maximises=True), fails)
    assert [owner.terms for owner in small.owners if owner.name == "c1"] == [
        ("0.5 * cp.norm1(x1)",)
    ]
    assert len(small.owners) == 2
    assert [owner.rules for owner in small.owners] == [(), ()]
    assert small.units == Units()
    assert not small.options
    assert not small.maximises


@pytest.mark.parametrize("units", [Units(), Units(1e-3, 1e2, 0.0)])
@pytest.mark.parametrize("is_shared", [False, True])
def test_multipliers_are_judged_by_the_bound_they_give(units: Units, is_shared: bool) -> None:
    """Of the optimum; with a price that is off by d it falls short by a multiple of d^2."""
    case = replace(PLAIN, units=units, options=())
    if is_shared:
        owners = tuple(
            replace(
                one,
                unknowns=("y0",),
                terms=tuple(t.replace("x" + one.name[1], "x0") for t in one.terms),
                rules=(),
            )
            for one in PLAIN.owners
        )
        case = replace(case, unknowns=PLAIN.unknowns[:1], owners=owners, links=())
    known, result = reference(case), judging.solve(case)
    assert result.status == "optimal"
    assert abs(dual_gap(case, known, result)) < 1e-5
    for price in result.multipliers.values():
        price += 0.1 * units.objective / units.variable
    for price in result.duals.values():
        price += 0.1 * units.objective / units.variable
    assert dual_gap(case, known, result) > 1e-3


SERVED = replace(
    PLAIN,
    unknowns=(*PLAIN.unknowns, Unknown("y9", (2,))),
    links=tuple(Link("x9", f"x{at}") for at in range(3)),
)
"""The same by way of a server, which no owner has the value of."""


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (_result(AGREED, 4.0), "right"),
        (_result(APART, 4.0, ok=False), "wrong"),
        (_result({"c0": 0.3, "c1": -0.3, "c2": 0.0}, 2.76, ok=False), "wrong"),
    ],
)
def test_clients_of_a_server_have_to_agree(
    given: Any, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _judged(monkeypatch, given, SERVED) == verdict


def test_a_feasible_answer_below_the_reference_leaves_it_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where cvxpy compiles something else than what it evaluates."""
    monkeypatch.setattr(judging, "reference", _too_high)
    assert _judged(monkeypatch, _result(AGREED, 4.0)) == "doubtful"
    assert _judged(monkeypatch, _result(AGREED, 3.0)) != "doubtful"
    assert _judged(monkeypatch, _result(APART, 4.0)) != "doubtful"


def _too_high(case: Case) -> Reference:
    found = reference(case)
    found.value += 1.0
    found.confirm = lambda: None
    return found


def test_a_steep_constraint_is_violated_by_the_way_to_where_it_holds() -> None:
    """1 / x <= 10 is by 0.1 where x is 0.099; a flat one by its value where that is less."""
    x = cp.Variable(name="x")
    cases = [(cp.inv_pos(x) <= 10, 0.099, 1e-3), (cp.square(x) <= 1e-4, 0.02, 3e-4)]
    for rule, at, expected in cases:
        known = Reference(Any, {}, {"a": [rule]}, [], {"x": x})  # pyright: ignore[reportArgumentType]
        found = known.violation({"a": {"x": np.array(at)}})
        assert found == pytest.approx(expected, rel=0.01)


def test_what_cvxpy_cannot_compile_leaves_it_in_doubt() -> None:
    """It joins the exponents of power cones of several sizes, which numpy refuses."""
    x = cp.Variable(7)
    rules: list[cp.Constraint] = [
        cp.PowConeND(x[:3], x[3], np.array([0.2, 0.3, 0.5])),
        cp.PowConeND(x[:4], x[4], np.array([0.2, 0.3, 0.2, 0.3])),
    ]
    assert solved(cp.Problem(cp.Minimize(cp.sum(x)), rules), "CLARABEL")[0] == "error"
