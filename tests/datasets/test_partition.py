"""The ways to deal rows: each row once, what each promises, and their refusals."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dald_model.datasets import load
from dald_model.datasets.partition import (
    Rows,
    alternating,
    dirichlet,
    even,
    heterogeneity,
    label_skew,
)
from dald_model.errors import DeclarationError

# The training set has 6,131 threes and 6,265 sevens. Which rows they are changes no count.
_MNIST = np.random.default_rng(0).permutation(np.repeat([-1.0, 1.0], [6131, 6265]))
# Ten labels, unlike in number: 10 to 190 rows.
_TEN = np.random.default_rng(1).permutation(np.repeat(np.arange(10), np.arange(10, 200, 20)))

_WAYS: dict[str, Callable[[int], list[Rows]]] = {
    "even": lambda seed: even(len(_TEN), 7, seed),
    "alternating": lambda seed: alternating(_TEN > 5, 7, seed),
    "label_skew": lambda seed: label_skew(_TEN, 7, 2, seed),
    "dirichlet": lambda seed: dirichlet(_TEN, 7, 0.5, seed),
}


def _refuses(message: str):
    return pytest.raises(DeclarationError, match=f"^{re.escape(message)}$")


def _same(one: Sequence[Rows], other: Sequence[Rows]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# --- what all have in common ----------------------------------------------------------------------


@pytest.mark.parametrize("way", _WAYS)
def test_a_row_has_one_owner_and_the_seed_repeats_the_deal(way: str) -> None:
    parts = _WAYS[way](3)
    assert len(parts) == 7
    assert all(part.dtype == np.intp and len(part) > 0 for part in parts)
    dealt = np.sort(np.concatenate(parts))
    if way == "alternating":  # leaves rows out, as in the paper
        assert np.all(np.diff(dealt) > 0)
        assert 0 <= dealt[0] < dealt[-1] < len(_TEN)
    else:
        assert np.array_equal(dealt, np.arange(len(_TEN)))
    assert _same(parts, _WAYS[way](3))
    assert not _same([np.sort(part) for part in parts], [np.sort(part) for part in _WAYS[way](4)])


@pytest.mark.parametrize(
    "deal",
    [
        lambda target: alternating(target, 3),
        lambda target: label_skew(target, 3, 1, 0),
        lambda target: dirichlet(target, 3, 1.0, 0),
    ],
    ids=["alternating", "label_skew", "dirichlet"],
)
def test_labels_may_be_text(deal: Callable[[object], list[Rows]]) -> None:
    text = ["ill", "well"] * 20
    assert _same(deal(text), deal([1 if word == "well" else 0 for word in text]))


# --- even -----------------------------------------------------------------------------------------


def test_even_differs_by_one_row_and_is_the_split_of_a_dataset() -> None:
    parts = even(442, 4, seed=5)
    assert [len(part) for part in parts] == [111, 111, 110, 110]
    diabetes = load("diabetes")
    split = diabetes.split(4, seed=5)
    assert all(
        np.array_equal(diabetes.target[part], target)
        for part, (_, target) in zip(parts, split, strict=True)
    )


# --- alternating: the paper's partition -----------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "rows"),
    # Counted when the paper's Table 2 was reproduced.
    [(10, 7753), (1000, 8198)],
)
def test_alternating_deals_as_many_rows_of_mnist_as_the_paper(clients: int, rows: int) -> None:
    dealt = np.concatenate(alternating(_MNIST, clients))
    assert len(dealt) == rows
    assert len(np.unique(dealt)) == rows


def test_alternating_is_the_paper_s_recipe_step_by_step() -> None:
    threes, sevens = np.flatnonzero(_MNIST < 0), np.flatnonzero(_MNIST > 0)
    generator = np.random.RandomState(42)
    generator.shuffle(threes)
    generator.shuffle(sevens)
    for n in (10, 101):
        for i, part in enumerate(alternating(_MNIST, n)):
            few, many = slice(i, None, 4 * n), slice(i, None, n)
            expected = (threes[many], sevens[few]) if i % 2 == 0 else (threes[few], sevens[many])
            assert np.array_equal(part, np.concatenate(expected))


def test_alternating_goes_four_to_one_in_turn() -> None:
    target = np.repeat([0, 1], 400)
    parts = alternating(target, 10)
    assert [np.bincount(target[part]).tolist() for part in parts] == [[40, 10], [10, 40]] * 5
    assert heterogeneity(target, parts) == pytest.approx(0.3)


def test_alternating_refuses_other_than_two_classes() -> None:
    with _refuses(
        "The target has 3 distinct values. Expected: two classes, which alternate between the "
        "clients. Choose the rows of two classes, or deal more of them with label_skew or "
        "dirichlet."
    ):
        alternating([0, 1, 2], 1)


# --- label_skew -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "each"), [(10, 1), (10, 2), (7, 3), (25, 2), (1, 10)])
def test_label_skew_shows_each_client_few_labels(clients: int, each: int) -> None:
    parts = label_skew(_TEN, clients, each, seed=0)
    assert all(len(np.unique(_TEN[part])) <= each for part in parts)


def test_label_skew_of_labels_alike_in_number_deals_shards_alike_in_size() -> None:
    # McMahan et al.: 60,000 images, 100 clients, 200 shards of 300 images.
    target = np.repeat(np.arange(10), 6000)
    parts = label_skew(target, 100, 2, seed=0)
    assert {len(part) for part in parts} == {600}
    assert {int(count) for part in parts for count in np.bincount(target[part])} == {0, 300, 600}


def test_label_skew_cuts_so_that_the_largest_shard_is_smallest() -> None:
    # Six shards for 4, 20, 30 rows: 1, 2, 3 of them, so 4, 10, 10, 10, 10, 10 rows.
    parts = label_skew(np.repeat([0, 1, 2], [4, 20, 30]), 6, 1, seed=0)
    assert sorted(len(part) for part in parts) == [4, 10, 10, 10, 10, 10]


def test_label_skew_does_not_depend_on_the_order_of_the_rows_in_the_file() -> None:
    parts = label_skew(np.zeros(1000), 2, 1, seed=0)
    assert abs(parts[0].mean() - parts[1].mean()) < 100, "the rows of a label are shuffled"


@pytest.mark.parametrize(("clients", "each", "shards"), [(3, 3, 9), (100, 11, 1100), (3, 0, 0)])
def test_label_skew_refuses_shards_that_cannot_be_cut(clients: int, each: int, shards: int) -> None:
    with _refuses(
        f"{clients} clients with {each} labels each need {shards} shards. Expected: from 10, the "
        "number of labels, to 1000, the number of rows, so that every row is dealt and no shard is "
        "empty. Change clients or labels_per_client."
    ):
        label_skew(_TEN, clients, each, seed=0)


# --- dirichlet ------------------------------------------------------------------------------------


def test_dirichlet_is_the_less_skewed_the_larger_the_concentration() -> None:
    found = [
        np.mean([heterogeneity(_TEN, dirichlet(_TEN, 5, alpha, seed)) for seed in range(20)])
        for alpha in (0.1, 1.0, 10.0, 1000.0)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.5
    assert found[-1] < 0.03


@pytest.mark.slow
def test_dirichlet_deals_each_label_by_the_law() -> None:
    # The first of n shares of Dir(a, ..., a): mean 1 / n, variance (n - 1) / (n^2 (n a + 1)).
    target = np.zeros(10_000)
    shares = np.array([len(dirichlet(target, 4, 2.0, seed)[0]) for seed in range(2000)]) / 10_000
    assert shares.mean() == pytest.approx(1 / 4, abs=0.01)
    assert shares.var() == pytest.approx(3 / (16 * 9), rel=0.1)


@pytest.mark.parametrize("smallest", [1, 30, 60])
def test_dirichlet_leaves_each_client_the_smallest_number(smallest: int) -> None:
    parts = dirichlet(_TEN, 10, 1.0, seed=0, smallest=smallest)
    assert min(len(part) for part in parts) >= smallest
    assert sum(len(part) for part in parts) == len(_TEN)


def test_dirichlet_gives_up_with_a_remedy() -> None:
    with _refuses(
        "In 1000 draws with concentration 0.001 some of the 100 clients always had fewer than 1 "
        "rows. Expected: a draw that gives each of them so many. Raise concentration, or lower "
        "smallest or clients."
    ):
        dirichlet(_TEN, 100, 0.001, seed=0)


@pytest.mark.parametrize("concentration", [0.0, -1.0, np.inf, np.nan])
def test_dirichlet_refuses_a_concentration_that_is_none(concentration: float) -> None:
    with _refuses(
        f"The concentration is {concentration}. Expected: a positive number. Choose 0.1 for much "
        "skew, 100 for hardly any."
    ):
        dirichlet(_TEN, 5, concentration, seed=0)


@pytest.mark.parametrize("smallest", [0, 143])
def test_dirichlet_refuses_more_rows_than_there_are(smallest: int) -> None:
    with _refuses(
        f"7 clients cannot have {smallest} rows at least. Expected: from 1 to 142, their even "
        "share of 1000 rows. Change smallest or clients."
    ):
        dirichlet(_TEN, 7, 1.0, seed=0, smallest=smallest)


# --- heterogeneity --------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "expected"), [(1, 0.0), (2, 0.5), (10, 0.9)])
def test_a_client_a_class_gives_one_less_the_share_of_a_class(
    classes: int, expected: float
) -> None:
    target = np.repeat(np.arange(classes), 50)
    parts = label_skew(target, classes, 1, seed=0)
    assert heterogeneity(target, parts) == pytest.approx(expected)


def test_heterogeneity_by_hand_counts_clients_not_rows_and_only_rows_that_are_dealt() -> None:
    # Three rows of label 0 at one client, one of label 1 at the other: pooled 3/4 and 1/4,
    # distances 1/4 and 3/4. The last rows are nobody's.
    target = [0, 0, 0, 1, 1, 1, 2]
    found = heterogeneity(target, [np.array([0, 1, 2]), np.array([3])])
    assert isinstance(found, float)
    assert found == pytest.approx(0.5)
    assert heterogeneity(target, [np.array([0, 3]), np.array([1, 4])]) == 0.0


@pytest.mark.parametrize("parts", [[], [np.array([0]), np.array([], dtype=np.intp)]])
def test_heterogeneity_refuses_clients_without_rows(parts: list[Rows]) -> None:
    with _refuses(
        "A distribution of labels is missing. Expected: at least one client, and rows at each. "
        "Leave the clients without rows out."
    ):
        heterogeneity([0, 1], parts)


# --- refusals in common ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deal",
    [
        lambda clients: even(4, clients, 0),
        lambda clients: label_skew([0, 1, 0, 1], clients, 1, 0),
        lambda clients: dirichlet([0, 1, 0, 1], clients, 1.0, 0),
    ],
    ids=["even", "label_skew", "dirichlet"],
)
@pytest.mark.parametrize("clients", [0, 5])
def test_clients_without_rows_are_refused(deal: Callable[[int], list[Rows]], clients: int) -> None:
    with _refuses(
        f"The rows cannot be dealt to {clients} clients. Expected: from 1 to 4, the number of "
        "rows, so that none is without rows. Choose a number in that range."
    ):
        deal(clients)


def test_alternating_refuses_more_clients_than_rows_of_the_rarer_class() -> None:
    assert [len(part) for part in alternating([0, 0, 1, 1, 1], 2)] == [2, 2]
    with _refuses(
        "The rows cannot be dealt to 3 clients. Expected: from 1 to 2, the number of rows of the "
        "rarer class, so that none is without rows. Choose a number in that range."
    ):
        alternating([0, 0, 1, 1, 1], 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda target: label_skew(target, 20, 20, 0),
        lambda target: dirichlet(target, 3, 1.0, 0),
        lambda target: heterogeneity(target, even(len(target), 3, 0)),
    ],
    ids=["label_skew", "dirichlet", "heterogeneity"],
)
def test_a_regression_s_target_is_refused_until_it_is_binned(
    use: Callable[[np.ndarray], object],
) -> None:
    scores = load("diabetes").target
    with _refuses(
        "A target of shape (442,) has 214 distinct values. Expected: labels in one dimension, few "
        "of them. Bin the target of a regression first, such as with numpy.digitize(target, "
        "numpy.quantile(target, [0.25, 0.5, 0.75]))."
    ):
        use(scores)
    use(np.digitize(scores, np.quantile(scores, [0.25, 0.5, 0.75])))


def test_a_target_of_two_dimensions_is_refused() -> None:
    with pytest.raises(DeclarationError, match=re.escape("A target of shape (2, 2) has 2 dist")):
        label_skew([[0, 1], [1, 0]], 2, 1, seed=0)


# --- arguments that mean nothing ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deal", "message"),
    [
        (lambda: even(_any(20.5), 3, 0), "The number of rows is 20.5, expected a whole number"),
        (lambda: even(_any("x"), 3, 0), "The number of rows is 'x', expected a whole number"),
        (lambda: even(_any(True), 1, 0), "The number of rows is True, expected a whole number"),
        (lambda: alternating(_TEN > 5, 7, 2**32), "The seed is 4294967296. Expected: a whole"),
        (lambda: alternating(_any([0, None] * 4), 3), "The target is of type object or holds NaN."),
        (lambda: label_skew([0.0, np.nan] * 4, 1, 2, 0), "The target is of type float64 or holds"),
        (lambda: heterogeneity(_TEN, _any(5)), "The parts are of type int. Expected: a list of"),
        (lambda: heterogeneity(_TEN, _any(None)), "The parts are of type NoneType. Expected: a"),
        (lambda: heterogeneity(_TEN, _any([3, 4])), "Part 0 is 3. Expected: a list of indices"),
        (lambda: heterogeneity(_TEN, _any([[0], [10**6]])), "Part 1 is [1000000]. Expected: a"),
        (lambda: heterogeneity(_TEN, _any([[0], [-1]])), "Part 1 is [-1]. Expected: a list of"),
        (lambda: heterogeneity(_TEN, _any([[0.5]])), "Part 0 is [0.5]. Expected: a list of"),
        (lambda: heterogeneity(_TEN, _any([[True]])), "Part 0 is [True]. Expected: a list of"),
    ],
)
def test_arguments_that_mean_nothing(deal: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError, match=f"^{re.escape(message)}"):
        deal()


def _any(value: Any) -> Any:
    """What no type checker would let through."""
    return value
