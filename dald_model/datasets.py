"""The paper's data sets: the five regressions of Table 1, and four hospitals for natural clients.

The package holds no data. Files are read from a folder when one is given, as the argument ``data``
or in the environment variable ``DALD_DATA``; otherwise scikit-learn fetches them where it can:

==========  =====================================================  ========================
set         files below the folder, as the publisher names them    without a folder
==========  =====================================================  ========================
diabetes    none: scikit-learn ships it                            the same
california  california/cal_housing.data                            fetch_california_housing
wine        uci/wine/winequality-{red,white}.csv                   OpenML 287
abalone     uci/abalone/abalone.data                               OpenML 183
ccpp        uci/ccpp/Folds5x2_pp.xlsx                              refused
hospitals   heart/processed.{cleveland,hungarian,switzerland,va}   refused
            .data
==========  =====================================================  ========================
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dald_model.errors import DatasetError

Array = NDArray[np.float64]
Folder = str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class Dataset:
    r"""Rows :math:`(a_k, b_k)` of a regression or a classification.

    Attributes
    ----------
    name
        What this module calls it.
    title
        What the paper calls it; for a hospital, its place.
    features
        Shape ``(rows, m)``, row :math:`a_k`, without a column of ones for the intercept.
    target
        Shape ``(rows,)``, entry :math:`b_k`.
    columns
        The ``m`` names of the features, in order.
    source
        The publication to cite.
    """

    name: str
    title: str
    features: Array = field(repr=False)
    target: Array = field(repr=False)
    columns: tuple[str, ...]
    source: str

    def standardised(self) -> "Dataset":
        """The same rows with each feature at mean 0 and variance 1 (divisor: rows).

        A constant column has no variance to scale and becomes 0. The target is kept.
        """
        return standardised_together({self.name: self})[self.name]

    def split(self, parts: int, seed: int) -> list[tuple[Array, Array]]:
        """Deal the rows at random into parts, whose sizes differ by one row at most.

        The paper does not state how it splits its rows, so no seed gives its parts: a figure
        obtained on a split must quote `parts` and `seed`.

        Parameters
        ----------
        parts
            From 1 to the number of rows.
        seed
            Seed of the ``numpy.random.default_rng`` that permutes the rows.

        Returns
        -------
        list of (features, target)
            Together the parts hold each row once.

        Raises
        ------
        DatasetError
            If `parts` is out of range.
        """
        rows = len(self.target)
        if not 1 <= parts <= rows:
            raise DatasetError(
                f"{self.name} cannot be split into {parts} parts. Expected: from 1 to its {rows} "
                "rows. Choose a number in that range."
            )
        order = np.random.default_rng(seed).permutation(rows)
        return [(self.features[part], self.target[part]) for part in np.array_split(order, parts)]


def load(name: str, data: Folder = None) -> Dataset:
    """Load one of the five regressions of the paper's Table 1.

    ==========  ======  ========  ====================================================
    name        rows    features  target
    ==========  ======  ========  ====================================================
    diabetes    442     10        disease progression after a year, a score
    california  20,640  8         median house value of a block group, 100,000 USD
    wine        6,497   11        quality, a grade
    abalone     4,177   9         rings, a count (the age in years less 1.5)
    ccpp        9,568   4         net hourly electrical output, MW
    ==========  ======  ========  ====================================================

    Features are in the publisher's units, except that scikit-learn ships those of diabetes centred,
    with the squares of each column summing to 1. Least squares with an intercept over all rows
    gives the paper's AIO column. For that

    * california has the eight features scikit-learn derives (income, averages a household, ...);
    * wine is red and white together, though the paper states the 4,898 rows of white alone;
    * abalone's sex, a category, becomes ``sex_I`` and ``sex_M``: a third indicator would add up
      with these to the column of ones, and the coefficients would not be unique;
    * ccpp is the first of five sheets, all with the same rows, shuffled.

    A folder gives wine's red rows first. OpenML promises no order, so the same seed may split a
    downloaded set otherwise.

    Parameters
    ----------
    name
        A name of the table above.
    data
        Folder laid out as the module says. Default: the environment variable ``DALD_DATA``;
        without that either, scikit-learn fetches the set and caches it.

    Raises
    ------
    DatasetError
        If the name is unknown, the folder lacks a file, a download fails or does not exist, or
        what came is not the published table.
    """
    if name not in _REGRESSIONS:
        raise DatasetError(
            f"There is no data set {name!r}. Expected: one of {', '.join(_REGRESSIONS)}. "
            "Choose one of these; for the four hospitals call load_hospitals()."
        )
    return _assemble(name, _REGRESSIONS[name], data)


def load_hospitals(data: Folder = None) -> dict[str, Dataset]:
    """Load the heart patients of four hospitals: the clients of a classification.

    ===========  ====================================  =============  =========  =========
    key          hospital                              rows in file   rows kept  target +1
    ===========  ====================================  =============  =========  =========
    cleveland    Cleveland Clinic Foundation           303            303        139
    hungary      Hungarian Institute of Cardiology     294            292        105
    switzerland  University Hospitals Zurich, Basel    123            116        108
    long_beach   V.A. Medical Center, Long Beach       200            140        110
    ===========  ====================================  =============  =========  =========

    The target is +1 where the file diagnoses a heart disease (``num > 0``), else -1. All have the
    same eleven features: age (years), sex (1 = male), cp_2, cp_3, cp_4 (chest pain; 1, typical
    angina, is the dropped level), trestbps (blood pressure at rest, mm Hg), restecg_1, restecg_2
    (electrocardiogram at rest; 0, normal, is dropped), thalach (highest heart rate, per minute),
    exang (1 = exercise brings angina) and oldpeak (ST depression by exercise).

    Left out are chol (0, that is missing, in all of Switzerland), ca, thal and slope (mostly
    missing outside Cleveland) and fbs (missing in 75 of Switzerland's rows). A row that lacks
    a kept column is dropped, and so is the one, in Long Beach, whose blood pressure is 0.

    Parameters
    ----------
    data
        Folder laid out as the module says. Default: the environment variable ``DALD_DATA``.

    Returns
    -------
    dict of str to Dataset
        Raw values. `standardised_together` puts the hospitals on one scale.

    Raises
    ------
    DatasetError
        If no folder is given, it lacks a file, or a file is not the published table.
    """
    return {name: _assemble(name, recipe, data) for name, recipe in _HOSPITALS.items()}


def standardised_together(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """The same sets on one scale: each feature has mean 0 and variance 1 over all their rows.

    Clients that agree on a coefficient must agree on its unit, and `Dataset.standardised`, called
    on each, would give each its own. A column constant over all rows becomes 0.

    Raises
    ------
    DatasetError
        If the sets do not have the same columns.
    """
    if len({dataset.columns for dataset in datasets.values()}) != 1:
        raise DatasetError(
            f"The data sets ({', '.join(datasets) or 'none given'}) have no scale in common. "
            "Expected: at least one set, and all with the same columns. Scale unlike sets one "
            "by one, with Dataset.standardised()."
        )
    pooled = np.concatenate([dataset.features for dataset in datasets.values()])
    # Rounding can give a constant column a tiny deviation, so compare its values instead.
    constant = np.ptp(pooled, axis=0) == 0
    centre = np.where(constant, pooled[0], pooled.mean(axis=0))
    scale = np.where(constant, 1.0, pooled.std(axis=0))
    return {
        name: replace(dataset, features=(dataset.features - centre) / scale)
        for name, dataset in datasets.items()
    }


@dataclass(frozen=True)
class _Recipe:
    """Where a set comes from, and how many rows must come."""

    title: str
    rows: int
    # Called with the paths of `files`, or with none to download. Returns the features in order,
    # then the target.
    table: Callable[..., pd.DataFrame]
    source: str
    page: str
    files: tuple[str, ...]
    downloads: bool = True


def _assemble(name: str, recipe: _Recipe, data: Folder) -> Dataset:
    folder = data or os.environ.get("DALD_DATA")
    paths = [Path(folder, file) for file in recipe.files] if folder else []
    origin = f"from {' and '.join(map(str, paths))}" if paths else "through scikit-learn"
    expected = f"Expected: the published table, {recipe.rows} rows"
    remedy = (
        f"Put {' and '.join(recipe.files)} from {recipe.page} into a folder, and give that folder "
        "as the argument data or in the environment variable DALD_DATA."
        if recipe.files
        else "Reinstall scikit-learn, which ships it."
    )
    if not paths and not recipe.downloads:
        raise DatasetError(
            f"{name} has no download to rely on, and no data folder was given. {expected}, in "
            f"{recipe.files[0]} below that folder. {remedy}"
        )
    try:
        table = recipe.table(*paths).astype(np.float64)
    # Beyond the file system and the network: scikit-learn and pandas raise ValueError for damaged
    # content, KeyError is another table's columns, BadZipFile is a damaged xlsx.
    except (OSError, HTTPException, ValueError, KeyError, BadZipFile) as error:
        raise DatasetError(
            f"{name} could not be loaded {origin}: {error}. {expected}. {remedy}"
        ) from error
    if len(table) != recipe.rows:
        raise DatasetError(
            f"{name} loaded {origin} has {len(table)} usable rows. {expected}. {remedy}"
        )
    values = table.to_numpy()
    return Dataset(
        name=name,
        title=recipe.title,
        features=np.ascontiguousarray(values[:, :-1]),
        target=np.ascontiguousarray(values[:, -1]),
        columns=tuple(table.columns[:-1]),
        source=recipe.source,
    )


# scikit-learn takes seconds to import: only what needs it pays.


def _diabetes() -> pd.DataFrame:
    from sklearn import datasets

    return _joined(datasets.load_diabetes(as_frame=True))


def _california(*paths: Path) -> pd.DataFrame:
    if not paths:
        from sklearn import datasets

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


def _openml(number: int) -> pd.DataFrame:
    from sklearn import datasets

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


_REGRESSIONS = {
    "diabetes": _Recipe(
        title="Diabetes",
        rows=442,
        table=_diabetes,
        source="Efron, Hastie, Johnstone, Tibshirani (2004): Least angle regression. Annals of "
        "Statistics 32(2).",
        page="https://scikit-learn.org",
        files=(),
    ),
    "california": _Recipe(
        title="California Housing",
        rows=20640,
        table=_california,
        source="Pace, Barry (1997): Sparse spatial autoregressions. Statistics and Probability "
        "Letters 33(3). StatLib.",
        # scikit-learn's copy: StatLib's archive holds the same rows in a file of other columns.
        page="https://ndownloader.figshare.com/files/5976036 (cal_housing.tgz)",
        files=("california/cal_housing.data",),
    ),
    "wine": _Recipe(
        title="Wine Quality",
        rows=6497,
        table=_wine,
        source="Cortez, Cerdeira, Almeida, Matos, Reis (2009): Modeling wine preferences by data "
        "mining from physicochemical properties. Decision Support Systems 47(4). UCI id 186.",
        page="https://archive.ics.uci.edu/dataset/186",
        files=("uci/wine/winequality-red.csv", "uci/wine/winequality-white.csv"),
    ),
    "abalone": _Recipe(
        title="Abalone",
        rows=4177,
        table=_abalone,
        source="Nash, Sellers, Talbot, Cawthorn, Ford (1994): The population biology of abalone in "
        "Tasmania. Sea Fisheries Division, Technical Report 48. UCI id 1.",
        page="https://archive.ics.uci.edu/dataset/1",
        files=("uci/abalone/abalone.data",),
    ),
    "ccpp": _Recipe(
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

_HOSPITALS = {
    name: _Recipe(
        title=title,
        rows=rows,
        table=_hospital,
        source="Janosi, Steinbrunn, Pfisterer, Detrano (1989): Heart disease. UCI id 45.",
        page="https://archive.ics.uci.edu/dataset/45",
        files=(f"heart/processed.{file}.data",),
        downloads=False,
    )
    for name, title, rows, file in (
        ("cleveland", "Cleveland", 303, "cleveland"),
        ("hungary", "Hungary", 292, "hungarian"),
        ("switzerland", "Switzerland", 116, "switzerland"),
        ("long_beach", "Long Beach VA", 140, "va"),
    )
}
