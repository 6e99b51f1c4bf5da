"""What a curious coordinator reconstructs of a site: each sentence of the manual's page, tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.engines.messages import decode, encode
from tests.engines.test_sites import Listening, at_sites

PATIENT, RISK = np.array([63.0, 1.0, 145.0, 233.0]), 1.0
"""Age, sex, pressure and cholesterol of one patient, and what is to be fitted."""
NUMBERS: Iterator[int] = count(1)


def least_squares(rows: np.ndarray, right: np.ndarray, ridge: float = 0.0) -> dm.Site:
    w = cp.Variable(rows.shape[1], name="w")
    loss = cp.sum_squares(rows @ w - right) + ridge * cp.sum_squares(w)
    return dm.Site("clinic", loss, shared=[w])


def asked(site: dm.Site, question: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    message = encode({"number": next(NUMBERS), "question": question}, arrays)
    found = decode(site.handle(message))
    assert "error" not in found.said
    return found.arrays


def gradients(site: dm.Site, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Answers and prices near to these points, as any coordinator may ask for."""
    found = [asked(site, "answer", told=np.array([p] * 3), weights=np.ones(p.size)) for p in points]
    answers = np.array([one["point"][0] for one in found])
    return answers, 2 * np.array([one["factor"][:1] for one in found]) * (points - answers)


def heard(sites: list[dm.Site], **options: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Messages and replies of a run, as pairs of what is said and the arrays."""
    engine: Any = dm.engines.Sites(sites)
    engine._hosts = hosts = [Listening(site) for site in sites]
    assert dm.Federation(engine).solve(**options).status == "optimal"
    pairs = [zip(host.passed[::2], host.passed[1::2], strict=True) for host in hosts]
    return [({**decode(m).said}, decode(r).arrays) for each in pairs for m, r in each]


def test_before_it_is_asked_to_solve_a_site_tells_words_alone() -> None:
    site = least_squares(PATIENT[None], np.array([RISK]))
    assert asked(site, "introduce") == {}


@pytest.mark.parametrize("kind", ["least squares", "logistic", "lasso"])
def test_by_answers_points_prices_and_objectives_are_all_that_leaves(kind: str) -> None:
    names = Counter[str]()
    for said, arrays in heard(at_sites(kind)):
        if "question" not in said:
            names.update(name.rpartition(".")[2] for name in arrays)
        else:
            wanted = {"introduce": set(), "alone": {"point"}, "hold": {"point"}}
            assert arrays.keys() == wanted.get(said["question"], {"point", "factor"})
    assert names.keys() <= {"points", "objectives", "slack", "slack_scaled", *MULTIPLIERS}


MULTIPLIERS = ("values", "lengths", "encodings")
"""Of a site: none, at the end of a run."""


def test_by_curvature_no_answer_is_asked_for_before_the_first_round() -> None:
    questions = {
        said["question"]
        for said, _ in heard(at_sites("lasso", "curvature"), disclose="curvature")
        if "question" in said
    }
    assert questions == {"introduce"}


def test_two_answers_of_one_record_are_that_record() -> None:
    """The prices differ along the record, by its length; the ridge is no secret."""
    site, ridge = least_squares(PATIENT[None], np.array([RISK]), ridge=0.01), 0.01
    asked(site, "alone")
    points, prices = gradients(site, np.array([np.ones(4), np.arange(4.0)]))
    (way,), (turn,) = np.diff(points, axis=0), np.diff(prices, axis=0)
    turn = turn - 2 * ridge * way
    found = turn / np.sqrt(2 * turn @ way)
    np.testing.assert_allclose(found * np.sign(found[0]), PATIENT, rtol=1e-3)


def test_who_has_one_record_is_refused_at_its_own_declaration() -> None:
    w = cp.Variable(4, name="w")
    with pytest.raises(dm.DeclarationError, match="'clinic': its objective is made of 1 record"):
        dm.Site("clinic", cp.square(PATIENT @ w - RISK), shared=[w], records=1)


def drawn(records: int, size: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(records)
    return rng.normal(size=(records, size)), rng.normal(size=records)


def gram(site: dm.Site, size: int) -> np.ndarray:
    """The Hessian, from as many differences of answers and prices as there are entries."""
    points, prices = gradients(site, np.vstack([np.zeros(size), 3 * np.eye(size)]))
    ways, turns = np.diff(points, axis=0), np.diff(prices, axis=0)
    return np.linalg.solve(ways, turns)


def test_one_answer_more_than_entries_is_the_gram_matrix_of_least_squares() -> None:
    rows, right = drawn(30)
    found = gram(least_squares(rows, right), 4)
    np.testing.assert_allclose(found / 2, rows.T @ rows, rtol=1e-5, atol=1e-5)


def test_of_no_more_records_than_entries_it_has_their_span() -> None:
    """Which is why the default least number is one more."""
    rows, right = drawn(2)
    values, vectors = np.linalg.eigh(gram(least_squares(rows, right, ridge=1e-6), 4))
    span, wanted = vectors[:, -2:], np.linalg.qr(rows.T)[0]
    assert values[1] <= 1e-4 * values[-1]
    np.testing.assert_allclose(span @ span.T, wanted @ wanted.T, atol=1e-3)


def test_records_that_are_turned_into_each_other_answer_alike() -> None:
    """So no answer of least squares says more of records than the Gram matrix with the target."""
    rows, right = drawn(30)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    one, other = least_squares(rows, right), least_squares(turned @ rows, turned @ right)
    for site in (one, other):
        asked(site, "alone")
    points = np.random.default_rng(1).normal(size=(5, 4))
    for mine, theirs in zip(gradients(one, points), gradients(other, points), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
