"""Many alike clients from a function of each one's data: against pooled least squares."""

from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import dald_model as dm
from tests.expect import near, says

FEATURES = ["a", "b"]


def pupils() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    school = np.repeat([f"school {i}" for i in range(6)], [3, 5, 8, 4, 9, 3])
    table = pd.DataFrame(rng.normal(size=(school.size, 2)), columns=FEATURES)
    return table.assign(school=school, score=rng.normal(size=school.size))


def of(w: cp.Variable) -> Any:
    def squares(rows: pd.DataFrame) -> cp.Expression:
        return cp.sum_squares(rows[FEATURES].to_numpy() @ w - rows["score"].to_numpy())

    return squares


def pairs(frame: pd.DataFrame) -> list[tuple[Any, pd.DataFrame]]:
    return [(key, own) for key, own in frame.groupby("school")]


@pytest.mark.parametrize(
    "data",
    [lambda f: f.groupby("school"), lambda f: dict(pairs(f)), pairs, lambda f: iter(pairs(f))],
    ids=["groupby", "dict", "list", "iterator"],
)
def test_groups_mappings_and_pairs_declare_a_client_a_key(data: Any) -> None:
    frame, w, model = pupils(), cp.Variable(2, name="w"), dm.Model("schools")
    found = model.clients(data(frame), of(w))
    assert list(found) == list(model.clients) == sorted(set(frame["school"]))
    assert all(model.clients[name] is client for name, client in found.items())
    result = model.solve()
    best = np.linalg.lstsq(frame[FEATURES].to_numpy(), frame["score"].to_numpy())[0]
    assert result[w] == near(best)
    assert result.verify().ok


def test_a_function_may_return_constraints_too() -> None:
    x, wishes = cp.Variable(3, name="x"), [1.0, 2.0, 6.0]
    model = dm.Model()
    model.clients(enumerate(wishes), lambda wish: (cp.sum_squares(x - wish), [cp.sum(x) <= wish]))
    assert [len(one.constraints) for one in model.clients.values()] == [1, 1, 1]
    assert model.solve()[x] == near(np.full(3, 1 / 3))  # the mean is 3, the least sum is 1


def test_more_clients_are_added_to_those_there() -> None:
    frame, w, model = pupils(), cp.Variable(2), dm.Model()
    model.client("school board", cp.sum_squares(w))
    assert len(model.clients(frame.groupby("school"), of(w))) == 6
    assert len(model.clients) == 7
    with pytest.raises(dm.DeclarationError, match="client 'school 0' is declared already"):
        model.clients(frame.groupby("school"), of(w))


W = cp.Variable(2, name="w")


@pytest.mark.parametrize(
    ("data", "function", "parts"),
    [
        (pupils(), of(W), ["clients: the data of type DataFrame give str", "groupby('school')"]),
        (3, of(W), ["given data of type int", "a dict, or pairs"]),
        ("ab", of(W), ["given data of type str"]),
        ({}, of(W), ["the data are empty"]),
        ({"a": 1}, 3, ["second argument is of type int", "a function that takes one client's"]),
        ([("a", 1), ("a", 2)], lambda own: cp.square(W[0]), ["the key 'a' twice", "group them"]),
        ([(None, 1)], lambda own: cp.square(W[0]), ["the name is of type NoneType"]),
        ({"a": 1}, lambda own: own["b"], ["client 'a': the function raised TypeError", "type int"]),
        ({"a": 1}, lambda own: None, ["client 'a': the objective is NoneType"]),
        ({"a": 1}, lambda own: cp.sqrt(W[0]), ["client 'a'", "expected convex"]),
        ({"a": 1}, lambda own: (W[0], [], 3), ["client 'a'", "returned 3 things"]),
        ({"a": 1}, lambda own: [W >= 0, W <= 1], ["returned 2 things", "an objective"]),
        ({"a": [1.0, np.nan]}, lambda own: cp.sum_squares(W - own), ["client 'a'", "1 NaN"]),
    ],
)
def test_what_cannot_be_declared_says_what_was_expected(
    data: Any, function: Any, parts: list[str]
) -> None:
    model = dm.Model()
    with pytest.raises(dm.DeclarationError) as caught:
        model.clients(data, function)
    says(caught.value, *parts)
    assert not model.clients


def test_all_are_declared_or_none() -> None:
    w, model = cp.Variable(2), dm.Model()
    for name in ("first", "second"):
        model.client(name, cp.sum_squares(w))
    compiled = model.compile()

    def bad(own: int) -> cp.Expression:
        return cp.sum_squares(w - own) if own < 3 else -cp.sum_squares(w)

    with pytest.raises(dm.DeclarationError, match="client 3: the objective"):
        model.clients({at: at for at in range(5)}, bad)
    assert list(model.clients) == ["first", "second"]
    assert model.compile() is compiled


def test_consensus_that_would_mix_new_clients_is_refused_for_all() -> None:
    x, y, z = (cp.Variable(name=name) for name in "xyz")
    model = dm.Model()
    model.client("x", cp.square(x))
    model.consensus(x == y + z)
    with pytest.raises(dm.DeclarationError, match="y of 'p', z of 'q'"):
        model.clients({"p": y, "q": z}, cp.square)
    assert list(model.clients) == ["x"]


def test_of_clients_that_differ_in_data_few_trees_are_kept_or_made() -> None:
    frame, w, model = pupils(), cp.Variable(2, name="w"), dm.Model("schools")
    same = frame.groupby("school").head(3)  # as many rows each
    found = model.clients(same.groupby("school"), of(w))
    result = model.solve()
    pooled = np.linalg.lstsq(same[FEATURES], same["score"])[0]
    np.testing.assert_allclose(result[w], pooled, rtol=1e-5, atol=1e-6)
    # But of the first, and of those that are compared with it when they are compiled
    made = [name for name, one in found.items() if "objective" in vars(one)]
    assert made == ["school 0", "school 1", "school 2", "school 4"]
    residuals = same[FEATURES].to_numpy() @ pooled - same["score"].to_numpy()
    np.testing.assert_allclose(result.value, residuals @ residuals, rtol=1e-9)
    check = result.verify()
    assert check.ok, check


def test_their_expressions_are_made_when_asked_for() -> None:
    frame, w, model = pupils(), cp.Variable(2, name="w"), dm.Model("schools")
    same, cost = frame.groupby("school").head(3), of(w)
    found = model.clients(same.groupby("school"), lambda rows: cp.Maximize(-cost(rows)))
    rng = np.random.default_rng(1)
    for name, rows in same.groupby("school"):
        own = -cost(rows)
        assert model.maximises
        for value in rng.normal(size=(3, 2)):
            w.value = value
            at = found[name].cost_at({w.id: value})
            np.testing.assert_allclose(at, -own.value, rtol=1e-13)
            np.testing.assert_allclose(found[name].objective.expr.value, own.value, rtol=1e-13)
        assert str(found[name].objective) == f"maximize {own}"


def test_outside_of_a_domain_a_cost_has_no_value() -> None:
    x, model = cp.Variable(2, name="x"), dm.Model("logarithms")
    data = {at: np.array([1.0, at]) for at in (1, 2, 3)}
    found = model.clients(data, lambda row: -cp.sum(cp.log(cp.multiply(row, x))))
    assert "objective" not in vars(found[3])
    with np.errstate(invalid="ignore"):
        assert np.isnan(found[3].cost_at({x.id: np.array([1.0, -1.0])}))
    np.testing.assert_allclose(found[3].cost_at({x.id: np.ones(2)}), -np.log(3))


def test_constraints_stay_the_objects_that_the_function_made() -> None:
    x, rules, model = cp.Variable(name="x"), {}, dm.Model("bounds")

    def bounded(pair: tuple[int, float]) -> Any:
        name, wish = pair
        rules[name] = x >= wish
        return cp.square(x - wish), [rules[name]]

    model.clients({name: (name, float(name)) for name in range(3)}, bounded)
    assert model.solve().status == "optimal"
    # Twice the distances from 0, 1 and 2 to the highest bound, and nothing else pushes
    prices = [float(rules[name].dual_value) for name in range(3)]
    np.testing.assert_allclose(prices, [0.0, 0.0, 6.0], atol=1e-5)


@pytest.mark.parametrize(
    ("objective", "power"),
    [
        (lambda rows, w: cp.sum_squares(rows[FEATURES] @ w - rows.score), 0),
        (lambda rows, w: cp.sum_squares(rows["score"] - rows[FEATURES].astype(float) @ w), 0),
        (lambda rows, w: cp.sum_squares(rows.score * (rows[FEATURES] @ w) - rows.score**2), 1),
    ],
    ids=["frame on the left", "series on the left", "entry by entry"],
)
def test_frames_meet_expressions_as_arrays_do(objective: Any, power: int) -> None:
    """Least squares of all rows, each times its score to this power."""
    frame, w, model = pupils(), cp.Variable(2, name="w"), dm.Model("frames")
    model.clients(frame.groupby("school"), lambda rows: objective(rows, w))
    score = frame["score"].to_numpy()
    rows, wanted = score[:, None] ** power * frame[FEATURES].to_numpy(), score ** (power + 1)
    assert model.solve()[w] == near(np.linalg.lstsq(rows, wanted, rcond=None)[0])
