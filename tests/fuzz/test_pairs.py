"""Every pair of choices occurs in every block of seeds, counted here by another way."""

from itertools import combinations, product

import numpy as np
import pytest

from tests.fuzz.axes import AXES, BLOCK, allowed, point
from tests.fuzz.pairs import covering

BLOCKS = range(0, 30, 3)


def test_a_small_cover_is_complete_and_smaller_than_all_rows() -> None:
    axes = dict.fromkeys("abcd", ("0", "1", "2"))
    rows = covering(axes, lambda _: True, np.random.default_rng(0))
    for one, two in combinations(axes, 2):
        assert {(row[one], row[two]) for row in rows} == set(product("012", repeat=2))
    assert 9 <= len(rows) <= 15  # 9 is the least, as two axes alone have as many pairs; 81 are all


def test_a_forbidden_pair_is_in_no_row() -> None:
    axes = {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")}
    rows = covering(axes, lambda pair: pair != (("a", "0"), ("b", "1")), np.random.default_rng(0))
    assert {(row["a"], row["b"]) for row in rows} == {("0", "0"), ("1", "0"), ("1", "1")}


def test_a_pair_that_stands_in_no_row_is_told() -> None:
    """0 of a forbids both choices of c."""
    axes = {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")}
    with pytest.raises(ValueError, match="no row"):
        covering(axes, lambda pair: pair[0] != ("a", "0") or "c" not in pair[1][0], _rng())


@pytest.mark.parametrize("block", BLOCKS)
def test_each_block_of_seeds_covers_all_pairs(block: int) -> None:
    rows = [point(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)]
    for row in rows:
        assert set(row) == set(AXES)
    for one, two in combinations(sorted(AXES), 2):
        wanted = {(a, b) for a, b in product(AXES[one], AXES[two]) if allowed(((one, a), (two, b)))}
        assert {(row[one], row[two]) for row in rows} == wanted


def test_a_point_is_that_of_its_seed() -> None:
    assert point(5) == point(5)
    assert point(5) != point(5 + BLOCK)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
