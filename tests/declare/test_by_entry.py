"""Ownership by entry: the matrix form is the vector form, whatever way entries are selected."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.declare.entries import used_entries

MANY, WIDE = 12, 3
rng = np.random.default_rng(0)
WEIGHTS, WISHES = rng.uniform(0.5, 4, (MANY, WIDE)), rng.uniform(0, 4, (MANY, WIDE))
BUDGET = WISHES.sum(axis=0) / 2


def market(rows, total) -> dm.Model:
    model = dm.Model("market")
    for i, row in enumerate(rows):
        cost = cp.sum(cp.multiply(WEIGHTS[i], cp.square(row - WISHES[i])))
        model.client(i, cost, [row >= 0, cp.sum(row) <= 6])
    model.couple(total <= BUDGET)
    return model


def vectors():
    rows = [cp.Variable(WIDE, name=f"y{i}") for i in range(MANY)]
    return market(rows, sum(rows))


def by_rows():
    whole = cp.Variable((MANY, WIDE), name="Y")
    return market([whole[i] for i in range(MANY)], cp.sum(whole, axis=0))


def by_columns():
    whole = cp.Variable((WIDE, MANY), name="Y")
    return market([whole[:, i] for i in range(MANY)], whole @ np.ones(MANY))


def by_signed_slices():
    whole = cp.Variable(MANY * WIDE, name="Y", nonneg=True)
    rows = [whole[WIDE * i : WIDE * (i + 1)] for i in range(MANY)]
    return market(rows, sum(rows))


def by_units():
    whole = cp.Variable((MANY, WIDE), name="Y")
    return market([unit @ whole for unit in np.eye(MANY)], cp.sum(whole.T, axis=1))


@pytest.mark.parametrize("form", [by_rows, by_columns, by_signed_slices, by_units])
def test_matrix_form_runs_as_vectors_do(form):
    model, result, plain = form(), form().solve(), vectors().solve()
    assert abs(result.rounds - plain.rounds) <= 2
    assert result.value == pytest.approx(model.monolithic().solve(), rel=1e-5)
    assert result.verify().ok
    assert not model.shared
    assert model.compile().size == vectors().compile().size


def test_entries_of_two_clients_alone_are_shared():
    x, model = cp.Variable((2, 5), name="X"), dm.Model("chain")
    for t in range(4):
        model.client(t, cp.sum_squares(x[:, t + 1] - t), [x[:, t + 1] <= x[:, t] + 1])
    compiled, result = model.compile(), model.solve()
    assert compiled.size == 3 * 2
    assert {edge.ends for edge in compiled.edges} == {(0, 1), (1, 2), (2, 3)}
    assert result.value == pytest.approx(model.monolithic().solve(), abs=1e-5)
    assert result["X"].shape == (2, 5)
    assert np.isnan(result[0]["X"][:, 2:]).all()
    assert model.shared == [x]


def test_answer_goes_by_the_users_array(tmp_path):
    model = by_rows()
    result = model.solve()
    result.save(tmp_path / "answer.npz")
    saved, (whole,) = dm.load(tmp_path / "answer.npz"), model.variables
    for found in (saved, saved.on(model)):
        assert found["Y"] == pytest.approx(result[whole])
        assert found[3]["Y"][3] == pytest.approx(result[whole][3])
    assert saved.on(model).verify().ok
    result.apply()
    total: Any = cp.sum(whole)
    assert total.value == pytest.approx(result["Y"].sum())
    assert repr(model.compile()[3].client) == (
        "Client 3: minimize sum(multiply([3], power(Y[3, :] - [3], 2.0))) over Y[3, :][3], 2 "
        "constraints"
    )


def test_consensus_speaks_of_entries():
    z, model = cp.Variable((3, 2), name="Z"), dm.Model("three")
    for i in range(3):
        model.client(i, cp.sum_squares(z[i] - i))
    model.consensus(z[0] == z[1], z[1][0] == 2 * z[2][1])
    result = model.solve()
    assert result.value == pytest.approx(model.monolithic().solve(), rel=1e-6)
    with pytest.raises(dm.DeclarationError, match="both sides belong to client 0"):
        model.consensus(z[0, 0] == z[0, 1])
    with pytest.raises(dm.DeclarationError, match="'Z' is used by the clients 0, 'all'"):
        model.client("all", cp.sum_squares(z))


def test_zeros_of_data_are_nobodys_business_but_incidences_select():
    w = cp.Variable(6, name="w")
    pictures = np.ones((4, 6))
    pictures[:, 0] = 0  # blank in all of them
    incidence = np.array([1.0, -1, 0, 0, 0, 0])
    assert used_entries([cp.sum_squares(pictures @ w)], {w.id}) == {w.id: None}
    assert used_entries([incidence @ w == 0], {w.id})[w.id].tolist() == [0, 1]


def test_weights_below_one_are_no_zeros():
    y, shift = cp.Variable(3, name="y"), cp.Variable(name="shift")
    weights = np.array([1.11, 0.76, 0.58])
    curved = np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.3], [0.1, 0.3, 1.0]])
    assert used_entries([cp.multiply(weights, y)], {y.id}) == {y.id: None}
    assert used_entries([cp.multiply([0.5, 0, 0], y)], {y.id})[y.id].tolist() == [0]
    model = dm.Model("scaled")
    model.client(0, cp.quad_form(cp.multiply(weights, y), cp.psd_wrap(curved)) - cp.sum(y))
    model.client(1, cp.sum_squares(y - 1 - shift) + cp.square(shift))
    result = model.solve()
    assert result.value == pytest.approx(model.monolithic().solve(), rel=1e-6)


def summed(y: cp.Variable) -> Any:
    return cp.sum(y, axis=1)


@pytest.mark.parametrize(
    ("select", "entries"),
    [
        (lambda y: y[1, 2], [7]),
        (lambda y: y[[0, 2]], [0, 2, 3, 5, 6, 8, 9, 11]),
        (lambda y: summed(y)[0], [0, 3, 6, 9]),
        (lambda y: cp.vec(y, order="F")[4:6], [4, 5]),
        (lambda y: cp.reshape(y, (4, 3), order="C")[0], [0, 3, 6]),
        (lambda y: cp.hstack([y[:, 0], y[:, 2]])[:4], [0, 1, 2, 6]),
        (lambda y: (2 * y.T - 1)[3], [9, 10, 11]),
        (lambda y: cp.trace(y[:, :3]), [0, 4, 8]),
        (lambda y: cp.diff(y, axis=1)[0, 0], [0, 3]),
        (lambda y: (y @ np.diag([1.0, 0, 0, 0])[:, 0])[1], [1]),
    ],
)
def test_entries_are_read_from_selections(select, entries):
    y = cp.Variable((3, 4))
    assert used_entries([cp.exp(select(y))], {y.id})[y.id].tolist() == entries


@pytest.mark.parametrize("mask", [np.ones((4, 4)), 1 - np.eye(4)], ids=["plain", "masked"])
def test_owners_of_a_symmetric_matrix_share_one_triangle(mask):
    """Of N |X - S|^2 + N w |mask * X|_1 the minimiser is the mean of all S, thresholded."""
    model, weight, draw = dm.Model("covariances"), 0.3, np.random.default_rng(1)
    whole, seen = cp.Variable((4, 4), symmetric=True, name="X"), draw.normal(size=(5, 4, 4))
    for i, matrix in enumerate(seen):
        kinks = 2 * weight * cp.sum(cp.abs(cp.multiply(mask, whole)))
        model.client(i, cp.sum_squares(whole - matrix) + kinks)
    compiled, result = model.compile(), model.solve()
    assert {edge.size for edge in compiled.edges} == {10}
    assert not any(sub.is_constrained for sub in compiled.values())
    mean = seen.mean(axis=0)
    mean = (mean + mean.T) / 2
    expected = np.sign(mean) * np.maximum(np.abs(mean) - weight * mask, 0)
    np.testing.assert_allclose(result[whole], expected, atol=1e-5)
    np.testing.assert_allclose(result[0]["X"], expected, atol=1e-4)
    assert result.verify().ok


def test_owners_of_columns_of_a_symmetric_matrix_share_what_mirrors_each_other():
    """Columns i and j have one entry in common, which is an edge of two."""
    draw = np.random.default_rng(2)
    whole, seen, model = cp.Variable((3, 3), symmetric=True), draw.normal(size=(3, 3)), dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(whole[:, i] - seen[i]))
    assert [edge.size for edge in model.compile().edges] == [1, 1, 1]
    result = model.solve()
    np.testing.assert_allclose(result[whole], (seen + seen.T) / 2, atol=1e-5)
    assert result.verify().ok
