"""What `make check` leaves out: tests that take long, and all but the first case of the others."""

from __future__ import annotations

import gc

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slow: left out by `make check`, as it takes long or is one more case of a test"
    )


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first case of a test stands for the others; notebooks, which take longest, begin."""
    items.sort(key=lambda item: "test_notebooks" not in item.nodeid)
    seen: set[str] = set()
    for item in items:
        test = item.nodeid.split("[")[0]
        if test in seen:
            item.add_marker("slow")
        seen.add(test)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not walk it again and again (a sixth of CPU)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
