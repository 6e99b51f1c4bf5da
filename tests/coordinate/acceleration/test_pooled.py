r"""Models of clients that are alike, against closed forms.

Quadratic clients of Hessians :math:`H_i` answer by :math:`(I + H_i)^{-1}`. Where these are
:math:`c_i H` in units of each client's own, a few answers of many clients determine them; where
they have nothing in common, as many answers of a client as it has directions do.
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.coordinate.acceleration.pooled import PooledResponses
from dald_model.coordinate.acceleration.responses import Responses

SIZE, COUNT = 8, 30


def _answered(
    models: list[Responses], hessians: np.ndarray, rounds: int, rng: np.random.Generator
) -> np.ndarray:
    """Tell the models some rounds of answers; gives what they answer by."""
    responses = np.linalg.inv(np.eye(SIZE) + hessians)
    for _ in range(rounds):
        told = rng.normal(size=(len(hessians), SIZE))
        moved = np.einsum("nij,nj->ni", responses, told)
        for model in models:
            model.learn(moved, moved, told)
    return responses


def _errors(model: Responses, responses: np.ndarray) -> np.ndarray:
    return np.linalg.norm(model.response - responses, axis=(1, 2))


def test_alike_clients_of_any_size_are_known_from_few_rounds() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(SIZE, SIZE))
    unit = rng.uniform(0.5, 2.0, size=(COUNT, 1)) * np.ones(SIZE)
    sizes = 10.0 ** rng.uniform(-1, 1, size=(COUNT, 1, 1))
    hessians = sizes * (unit[:, :, None] * (root @ root.T) * unit[:, None, :])
    start = np.full(COUNT, 0.5)
    pooled, alone = PooledResponses(start, SIZE, unit), Responses(start, SIZE)
    responses = _answered([pooled, alone], hessians, 4, rng)
    wrong, wrong_alone = _errors(pooled, responses), _errors(alone, responses)
    assert wrong.mean() < 0.3 * wrong_alone.mean()
    assert wrong.mean() < 0.1 * np.linalg.norm(responses, axis=(1, 2)).mean()


def test_clients_with_nothing_in_common_are_known_from_their_own_answers() -> None:
    rng = np.random.default_rng(4)
    roots = rng.normal(size=(COUNT, SIZE, SIZE))
    model = PooledResponses(np.full(COUNT, 0.5), SIZE, np.ones((COUNT, SIZE)))
    responses = _answered([model], roots @ np.swapaxes(roots, 1, 2), SIZE, rng)
    assert _errors(model, responses).max() < 1e-4


def test_another_curvature_is_met_by_the_newest_answer() -> None:
    rng = np.random.default_rng(5)
    model = PooledResponses(np.full(COUNT, 0.5), SIZE, np.ones((COUNT, SIZE)))
    _answered([model], np.broadcast_to(np.eye(SIZE), (COUNT, SIZE, SIZE)), 3, rng)
    told = rng.normal(size=(COUNT, SIZE))
    model.learn(told, 0.1 * told, told)
    found = np.einsum("nij,nj->ni", model.response, told)
    np.testing.assert_allclose(found, 0.1 * told, atol=1e-12)
    np.testing.assert_allclose(model.response, np.swapaxes(model.response, 1, 2), atol=1e-12)


def test_who_does_not_answer_begins_as_the_others_are() -> None:
    rng = np.random.default_rng(6)
    root = rng.normal(size=(SIZE, SIZE))
    response = np.linalg.inv(np.eye(SIZE) + root @ root.T)
    model = PooledResponses(np.full(COUNT, 0.5), SIZE, np.ones((COUNT, SIZE)))
    for _ in range(4):
        told = rng.normal(size=(COUNT, SIZE))
        moved = told @ response
        told[0] = moved[0] = np.nan
        model.learn(moved, moved, told)
    assert np.linalg.norm(model.response[0] - response) < 0.15 * np.linalg.norm(response)


def test_alike_owners_of_many_columns_take_fewer_rounds_than_columns() -> None:
    """Rows of one distribution: a ridge regression of all of them in closed form."""
    rng = np.random.default_rng(7)
    columns, rows = 30, 120
    spread = rng.normal(size=(columns, columns)) / np.sqrt(columns)
    x, model = cp.Variable(columns, name="x"), dm.Model("alike owners")
    parts = []
    for name in range(20):
        A = rng.normal(size=(rows, columns)) @ spread
        b = rng.normal(size=rows) + A.sum(axis=1)
        parts.append((A, b))
        model.client(name, cp.sum_squares(A @ x - b) + cp.sum_squares(x))
    result = model.solve()
    A, b = (np.concatenate(one) for one in zip(*parts, strict=True))
    exact = np.linalg.solve(A.T @ A + len(parts) * np.eye(columns), A.T @ b)
    assert result.status == "optimal"
    assert result.rounds < columns
    np.testing.assert_allclose(result["x"], exact, atol=1e-4)
