"""What is no data set is refused, with what was expected and what to do."""

import gzip
import re
from pathlib import Path
from urllib.error import HTTPError, URLError

import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from dald_model.datasets import load, load_hospitals, load_mnist, standardised_together
from dald_model.errors import DatasetError
from tests.datasets.small import small

_WINE_REMEDY = (
    "Expected: the published table, 6497 rows. Put uci/wine/winequality-red.csv and "
    "uci/wine/winequality-white.csv from https://archive.ics.uci.edu/dataset/186 into a folder, "
    "and give that folder as the argument data or in the environment variable DALD_DATA."
)


def _refuses(message: str):
    return pytest.raises(DatasetError, match=f"^{re.escape(message)}$")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with _refuses(
        "There is no data set 'iris'. Expected: one of diabetes, california, wine, abalone, ccpp. "
        "Choose one of these; for the four hospitals call load_hospitals()."
    ):
        load("iris")


@pytest.mark.parametrize("name", ["california", "wine", "abalone", "ccpp"])
def test_a_folder_that_lacks_the_file_is_refused_with_the_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=re.escape(f"{name} could not be loaded from {tmp_path}")
    ):
        load(name, data=tmp_path)


def test_a_missing_file_names_given_expected_and_remedy(tmp_path: Path) -> None:
    red, white = (tmp_path / "uci" / "wine" / f"winequality-{one}.csv" for one in ("red", "white"))
    with _refuses(
        f"wine could not be loaded from {red} and {white}: [Errno 2] No such file or directory: "
        f"'{red}'. {_WINE_REMEDY}"
    ) as refusal:
        load("wine", data=tmp_path)
    assert isinstance(refusal.value.__cause__, FileNotFoundError)


def test_hospitals_of_an_empty_folder_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "heart" / "processed.cleveland.data"
    with pytest.raises(DatasetError, match=re.escape(f"cleveland could not be loaded from {file}")):
        load_hospitals(data=tmp_path)


def test_the_power_plant_has_no_download() -> None:
    with _refuses(
        "ccpp has no download to rely on, and no data folder was given. Expected: the published "
        "table, 9568 rows, in uci/ccpp/Folds5x2_pp.xlsx below that folder. Put "
        "uci/ccpp/Folds5x2_pp.xlsx from https://archive.ics.uci.edu/dataset/294 into a folder, "
        "and give that folder as the argument data or in the environment variable DALD_DATA."
    ):
        load("ccpp")


def test_a_folder_goes_before_the_files_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DALD_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=re.escape(str(tmp_path))):
        load_hospitals()


@pytest.mark.parametrize(
    "failure",
    [
        URLError("no route"),
        HTTPError("https://api.openml.org", 503, "busy", None, None),  # pyright: ignore[reportArgumentType] (urllib itself passes None)
        TimeoutError("too slow"),
        ValueError("md5 checksum does not match"),
    ],
    ids=lambda failure: type(failure).__name__,
)
@pytest.mark.parametrize("name", ["california", "wine", "abalone"])
def test_a_failed_download_is_refused_from_its_cause(
    name: str, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(**_: object) -> None:
        raise failure

    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", fetch)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(DatasetError) as refusal:
        load(name)
    assert refusal.value.__cause__ is failure
    message = str(refusal.value)
    assert message.startswith(f"{name} could not be loaded through scikit-learn: {failure}. ")
    assert "Expected: the published table" in message
    assert "DALD_DATA" in message


def test_a_failed_download_of_wine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with _refuses(
        "wine could not be loaded through scikit-learn: <urlopen error no route>. " + _WINE_REMEDY
    ):
        load("wine")


def test_a_download_of_other_length_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: object) -> Bunch:
        return Bunch(data=pd.DataFrame({"alcohol": [9.4]}), target=pd.Series([5], name="quality"))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with _refuses(f"wine loaded through scikit-learn has 1 usable rows. {_WINE_REMEDY}"):
        load("wine")


def test_a_download_with_other_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: object) -> Bunch:
        return Bunch(data=pd.DataFrame({"size": [1.0]}), target=pd.Series([5], name="age"))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(DatasetError, match="abalone could not be loaded") as refusal:
        load("abalone")
    assert isinstance(refusal.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("california", "california/cal_housing.data", "longitude,latitude\n"),
        ("abalone", "uci/abalone/abalone.data", "X,0.4,0.3,0.1,0.5,0.2,0.1,0.1,15\n"),
        ("ccpp", "uci/ccpp/Folds5x2_pp.xlsx", "not a workbook"),
    ],
)
def test_a_damaged_file_is_refused(name: str, file: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(DatasetError, match=re.escape(f"{name} could not be loaded from {path}: ")):
        load(name, data=tmp_path)


def test_a_shortened_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "uci" / "abalone" / "abalone.data"
    path.parent.mkdir(parents=True)
    path.write_text("M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\n")
    with pytest.raises(
        DatasetError,
        match=re.escape(f"abalone loaded from {path} has 1 usable rows. Expected: the published"),
    ):
        load("abalone", data=tmp_path)


_MNIST_REMEDY = (
    "Expected: the published table, 12396 rows. Put mnist/train-images-idx3-ubyte.gz and "
    "mnist/train-labels-idx1-ubyte.gz from https://ossci-datasets.s3.amazonaws.com/mnist into a "
    "folder, and give that folder as the argument data or in the environment variable DALD_DATA."
)


@pytest.mark.parametrize("digits", [(3, 3), (3,), (3, 10), (3, 7, 8), (-1, 7), ("3", "7")])
def test_digits_that_are_no_pair_are_refused(digits: tuple[int, int]) -> None:
    with _refuses(
        f"MNIST cannot be loaded for the digits {digits!r}. Expected: two unlike digits from 0 to "
        "9, the one with target -1 first. Choose two, such as (3, 7)."
    ):
        load_mnist(digits)


def test_a_failed_download_of_mnist_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with _refuses(
        f"mnist could not be loaded through scikit-learn: <urlopen error no route>. {_MNIST_REMEDY}"
    ):
        load_mnist()


def _idx(shape: tuple[int, ...], content: bytes) -> bytes:
    header = bytes([0, 0, 8, len(shape)])
    return gzip.compress(header + b"".join(size.to_bytes(4, "big") for size in shape) + content)


_IMAGES = _idx((2, 28, 28), bytes(2 * 784))
_LABELS = _idx((2,), bytes([3, 7]))


@pytest.mark.parametrize(
    ("images", "labels", "reason"),
    [
        (_IMAGES, None, "could not be loaded"),
        (b"not packed", _LABELS, "Not a gzipped file"),
        (_IMAGES[:-12], _LABELS, "end-of-stream"),
        (_IMAGES[:10] + b"\xff" * 10, _LABELS, "invalid block type"),
        (_IMAGES[:-8] + bytes(8), _LABELS, "CRC check failed"),
        (gzip.compress(b"no"), _LABELS, "is not an IDX file of unsigned bytes"),
        (gzip.compress(b"a,b,c,d,e"), _LABELS, "is not an IDX file of unsigned bytes"),
        (gzip.compress(bytes([0, 0, 8, 3, 0])), _LABELS, "buffer size"),
        (_idx((3, 28, 28), bytes(2 * 784)), _LABELS, "cannot reshape"),
        (_IMAGES, _idx((3,), bytes([3, 7, 1])), "2 images have 3 labels"),
        (_IMAGES, _LABELS, "has 2 usable rows"),
    ],
    ids=[
        *("missing", "not packed", "shortened", "damaged", "altered", "three bytes", "text"),
        *("short header", "fewer than said", "unlike", "fewer than published"),
    ],
)
def test_damaged_files_of_mnist_are_refused(
    images: bytes, labels: bytes | None, reason: str, tmp_path: Path
) -> None:
    for name, content in (("images-idx3", images), ("labels-idx1", labels)):
        path = tmp_path / "mnist" / f"train-{name}-ubyte.gz"
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    with pytest.raises(DatasetError, match=re.escape(reason)) as refusal:
        load_mnist(data=tmp_path)
    assert str(refusal.value).endswith(_MNIST_REMEDY)


@pytest.mark.parametrize("parts", [0, 4])
def test_a_split_without_a_row_for_each_part_is_refused(parts: int) -> None:
    with _refuses(
        f"small cannot be split into {parts} parts. Expected: from 1 to its 3 rows. "
        "Choose a number in that range."
    ):
        small().split(parts, seed=0)


def test_sets_with_other_columns_share_no_scale() -> None:
    with _refuses(
        "The data sets (one, two) have no scale in common. Expected: at least one set, and all "
        "with the same columns. Scale unlike sets one by one, with Dataset.standardised()."
    ):
        standardised_together({"one": small(), "two": small(columns=("other", "stays"))})


def test_no_set_has_no_scale() -> None:
    with pytest.raises(DatasetError, match=re.escape("The data sets (none given) have no scale")):
        standardised_together({})
