"""No test of data looks into the network, or into a folder of the user's."""

from pathlib import Path

import pytest
import sklearn.datasets

from tests.paths import DATA


@pytest.fixture(autouse=True)
def _no_network_and_no_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test names its folder and its fetcher; one left out must fail, not download."""
    monkeypatch.delenv("DALD_DATA", raising=False)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a test tried to download a data set")

    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", refuse)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)


@pytest.fixture
def folder() -> Path:
    if not DATA.is_dir():
        pytest.skip(f"DALD_DATA is not set and {DATA} does not exist: no published files here")
    return DATA
