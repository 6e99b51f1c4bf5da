"""Sources of the data sets: published files, or scikit-learn's fetchers."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dald_model.errors import DatasetError
from dald_model.lazy_imports import optional, pd

Folder = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Source:
    """The source of a data set, and its number of rows."""

    title: str
    rows: int
    # Called with the paths of `files`, or with none to download. Returns the features in order,
    # then the target.
    table: Callable[..., pd.DataFrame]
    source: str
    page: str
    files: tuple[str, ...]
    downloads: bool = True
    ships: bool = False  # whether the package holds the files, below this folder


def read(name: str, source: Source, data: Folder) -> pd.DataFrame:
    """The table of a set, features in order and then the target, as floats.

    Raises
    ------
    DatasetError
        If no source has it, or what came is not the published table.
    """
    shipped = Path(__file__).parent if source.ships else None
    folder = data or os.environ.get("DALD_DATA") or shipped
    paths = [Path(folder, file) for file in source.files] if folder else []
    origin = f"from {' and '.join(map(str, paths))}" if paths else "through scikit-learn"
    expected = f"Expected: the published table, {source.rows} rows"
    remedy = (
        f"Put {' and '.join(source.files)} from {source.page} into a folder, and give that folder "
        "as the argument data or in the environment variable DALD_DATA."
        if source.files
        else "Reinstall scikit-learn, which ships it."
    )
    if not paths and not source.downloads:
        raise DatasetError(
            f"{name} has no download to rely on, and no data folder was given. {expected}, in "
            f"{source.files[0]} below that folder. {remedy}"
        )
    try:
        table = source.table(*paths).astype(np.float64)
    # Beyond the file system and the network: scikit-learn and pandas raise ValueError for damaged
    # content, KeyError is another table's columns, BadZipFile is a damaged xlsx, EOFError a
    # shortened gz and zlib's error a damaged one.
    except (
        *(OSError, HTTPException, ValueError, KeyError, BadZipFile),
        *(EOFError, zlib.error),
    ) as error:
        raise DatasetError(
            f"{name} could not be loaded {origin}: {error}. {expected}. {remedy}"
        ) from error
    if len(table) != source.rows:
        raise DatasetError(
            f"{name} loaded {origin} has {len(table)} usable rows. {expected}. {remedy}"
        )
    return table


# scikit-learn takes seconds to import: only what needs it pays.


def _diabetes() -> pd.DataFrame:
    datasets = optional("sklearn.datasets", "data", "diabetes")
    return _joined(datasets.load_diabetes(as_frame=True))


def _california(*paths: Path) -> pd.DataFrame:
    if not paths:
        datasets = optional("sklearn.datasets", "data", "california")
        return _joined(datasets.fetch_california_housing(as_frame=True))
    columns = [
        *("longitude", "latitude", "age", "rooms", "bedrooms"),
        *("population", "households", "income", "value"),
    ]
    raw = pd.read_csv(*paths, names=columns)
    # scikit-learn's names, order and arithmetic, so that both ways give the same numbers.
    return pd.DataFrame(
        {
            "MedInc": raw["income"],
            "HouseAge": raw["age"],
            "AveRooms": raw["rooms"] / raw["households"],
            "AveBedrms": raw["bedrooms"] / raw["households"],
            "Population": raw["population"],
            "AveOccup": raw["population"] / raw["households"],
            "Latitude": raw["latitude"],
            "Longitude": raw["longitude"],
            "MedHouseVal": raw["value"] / 100_000.0,
        }
    )


def _wine(*paths: Path) -> pd.DataFrame:
    if not paths:
        return _openml(287)
    colours = [pd.read_csv(path, sep=";") for path in paths]
    return _plain(pd.concat(colours, ignore_index=True))


def _abalone(*paths: Path) -> pd.DataFrame:
    columns = [
        *("sex", "length", "diameter", "height"),
        *("whole_weight", "shucked_weight", "viscera_weight", "shell_weight", "rings"),
    ]
    if paths:
        raw = pd.read_csv(*paths, names=columns)
    else:
        raw = _openml(183).rename(columns={"class_number_of_rings": "rings"})[columns]
    return _encoded(raw, "sex", ("F", "I", "M"))


def _ccpp(path: Path) -> pd.DataFrame:
    optional("openpyxl", "data", "ccpp")  # pandas reads workbooks with it
    return pd.read_excel(path, sheet_name="Sheet1")


def _hospital(path: Path) -> pd.DataFrame:
    columns = [
        *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
        *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"),
    ]
    raw = pd.read_csv(path, names=columns, na_values="?")
    kept = raw.drop(columns=["chol", "fbs", "slope", "ca", "thal"]).dropna()
    # No living patient has a blood pressure of 0: it was not taken.
    kept = kept[kept["trestbps"] != 0]
    kept = kept.assign(num=np.where(kept["num"] > 0, 1.0, -1.0))
    return _encoded(_encoded(kept, "cp", (1, 2, 3, 4)), "restecg", (0, 1, 2))


def _digits(digits: tuple[int, int], test: bool, *paths: Path) -> pd.DataFrame:
    """The rows of two digits, in the order of the files; the last column is -1 or +1."""
    if paths:
        images, labels = (_idx(path) for path in paths)
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images have {len(labels)} labels")
        images = images.reshape(len(images), -1)
    else:
        datasets = optional("sklearn.datasets", "data", "digits")
        bunch: Any = datasets.fetch_openml(data_id=554, as_frame=True)
        # OpenML has the 60,000 rows for training first; the labels are a category of text.
        rows = slice(60_000, None) if test else slice(60_000)
        images, labels = bunch.data[rows].to_numpy(), bunch.target[rows].astype(int).to_numpy()
    # Choose before the pixels become floats, which take eight times the memory.
    kept = np.isin(labels, digits)
    target = np.where(labels[kept] == digits[1], 1.0, -1.0)
    table = np.column_stack([images[kept], target])
    return pd.DataFrame(
        table, columns=[*(f"pixel{at + 1}" for at in range(images.shape[1])), "target"]
    )


def _idx(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A file of bytes in the IDX format, as the page of MNIST describes it.

    Two bytes 0, the type 8 (unsigned bytes), the number of dimensions, each dimension as a
    big-endian integer of four bytes, then the entries, the last dimension fastest.
    """
    with gzip.open(path) as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(int)
    # Raises ValueError if there are more or fewer entries than the shape says.
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _openml(number: int) -> pd.DataFrame:
    datasets = optional("sklearn.datasets", "data", f"data set {number} of OpenML")
    return _plain(_joined(datasets.fetch_openml(data_id=number, as_frame=True)))


def _joined(bunch: Any) -> pd.DataFrame:
    """Put scikit-learn's target behind its features, wherever it stood in the file."""
    return pd.concat([bunch.data, bunch.target], axis=1)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Spell UCI's ``fixed acidity`` and OpenML's ``fixed.acidity`` alike."""
    return table.rename(columns=lambda column: re.sub(r"\W+", "_", column).lower())


def _encoded(table: pd.DataFrame, column: str, levels: tuple[object, ...]) -> pd.DataFrame:
    """Put one indicator for each level but the first where the column of the category was.

    The levels are given, not looked up, so that a hospital without one has its column all the same.
    """
    strange = set(table[column]) - set(levels)
    if strange:
        raise ValueError(f"column {column} holds {strange}, beyond {levels}")
    place = list(table.columns).index(column)
    indicators = {f"{column}_{level}": table[column] == level for level in levels[1:]}
    return pd.concat(
        [table.iloc[:, :place], pd.DataFrame(indicators), table.iloc[:, place + 1 :]], axis=1
    )


REGRESSIONS = {
    "diabetes": Source(
        title="Diabetes",
        rows=442,
        table=_diabetes,
        source="Efron, Hastie, Johnstone, Tibshirani (2004): Least angle regression. Annals of "
        "Statistics 32(2).",
        page="https://scikit-learn.org",
        files=(),
    ),
    "california": Source(
        title="California Housing",
        rows=20640,
        table=_california,
        source="Pace, Barry (1997): Sparse spatial autoregressions. Statistics and Probability "
        "Letters 33(3). StatLib.",
        # scikit-learn's copy: StatLib's archive holds the same rows in a file of other columns.
        page="https://ndownloader.figshare.com/files/5976036 (cal_housing.tgz)",
        files=("california/cal_housing.data",),
    ),
    "wine": Source(
        title="Wine Quality",
        rows=6497,
        table=_wine,
        source="Cortez, Cerdeira, Almeida, Matos, Reis (2009): Modeling wine preferences by data "
        "mining from physicochemical properties. Decision Support Systems 47(4). UCI id 186.",
        page="https://archive.ics.uci.edu/dataset/186",
        files=("uci/wine/winequality-red.csv", "uci/wine/winequality-white.csv"),
    ),
    "abalone": Source(
        title="Abalone",
        rows=4177,
        table=_abalone,
        source="Nash, Sellers, Talbot, Cawthorn, Ford (1994): The population biology of abalone in "
        "Tasmania. Sea Fisheries Division, Technical Report 48. UCI id 1.",
        page="https://archive.ics.uci.edu/dataset/1",
        files=("uci/abalone/abalone.data",),
    ),
    "ccpp": Source(
        title="Combined Cycle Power Plant",
        rows=9568,
        table=_ccpp,
        source="Tufekci (2014): Prediction of full load electrical power output of a base load "
        "operated combined cycle power plant using machine learning methods. International "
        "Journal of Electrical Power and Energy Systems 60. UCI id 294.",
        page="https://archive.ics.uci.edu/dataset/294",
        files=("uci/ccpp/Folds5x2_pp.xlsx",),
        downloads=False,
    ),
}

HOSPITALS = {
    name: Source(
        title=title,
        rows=rows,
        table=_hospital,
        source="Janosi, Steinbrunn, Pfisterer, Detrano (1989): Heart disease. UCI id 45.",
        page="https://archive.ics.uci.edu/dataset/45",
        files=(f"heart/processed.{file}.data",),
        ships=True,
    )
    for name, title, rows, file in (
        ("cleveland", "Cleveland", 303, "cleveland"),
        ("hungary", "Hungary", 292, "hungarian"),
        ("switzerland", "Switzerland", 116, "switzerland"),
        ("long_beach", "Long Beach VA", 140, "va"),
    )
}

# How many images of 0, 1, ..., 9 each file of MNIST has.
DIGITS = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "t10k": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}


def mnist(digits: tuple[int, int], test: bool) -> Source:
    """The source of the images of two digits, targets -1 and +1."""
    name = "t10k" if test else "train"
    return Source(
        title=f"MNIST {digits[0]} against {digits[1]}" + ", test" * test,
        rows=sum(DIGITS[name][digit] for digit in digits),
        table=partial(_digits, digits, test),
        source="LeCun, Bottou, Bengio, Haffner (1998): Gradient-based learning applied to document "
        "recognition. Proceedings of the IEEE 86(11).",
        # The address that torchvision fetches from: that of the authors refuses downloads.
        page="https://ossci-datasets.s3.amazonaws.com/mnist",
        files=(f"mnist/{name}-images-idx3-ubyte.gz", f"mnist/{name}-labels-idx1-ubyte.gz"),
    )
