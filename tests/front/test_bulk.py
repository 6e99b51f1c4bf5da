"""What Python's collector goes through while there are very many objects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from dald_model import bulk


class Circle:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _all_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bulk, "MANY", 0)
    monkeypatch.setattr(bulk._Known, "collected", 0)
    monkeypatch.setattr(bulk._Known, "left", 0)
    yield
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def dropped() -> weakref.ref[Circle]:
    return weakref.ref(Circle())


def test_circles_of_before_are_left_until_afterwards() -> None:
    before = dropped()
    with bulk.spared():
        meanwhile = dropped()
        gc.collect()
        assert before() is not None
        assert meanwhile() is None
    gc.collect()
    assert before() is None


def test_what_is_made_uncollected_is_spared_as_well() -> None:
    with bulk.spared():
        with bulk.uncollected():
            made = dropped()
        gc.collect()
        assert made() is not None
    gc.collect()
    assert made() is None


def test_the_next_time_circles_are_looked_for_though_python_counts_none_of_them() -> None:
    made = dropped()
    with bulk.spared():
        pass
    with bulk.spared():
        assert made() is None


def test_what_a_user_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with bulk.spared(), bulk.uncollected():
            pass
        assert gc.get_freeze_count() >= count - 10
    finally:
        gc.unfreeze()


def test_an_error_within_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(ValueError, match="own"), bulk.spared(), bulk.uncollected():
        raise ValueError("own")
