"""Every pair of choices occurs in every block of seeds, counted here by another way."""

from itertools import combinations, product

import pytest

from tests.fuzz.axes import AXES, BLOCK, allowed, point

BLOCKS = range(0, 30, 3)


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
