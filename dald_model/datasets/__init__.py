"""The paper's data sets: Table 1's five regressions, Table 2's MNIST; four hospitals as clients.

Files are read from a folder when one is given, as the argument ``data`` or in the environment
variable ``DALD_DATA``; otherwise the hospitals come with the package (CC BY 4.0, see
``dald_model/datasets/heart/LICENCE.md``), and scikit-learn fetches the others where it can:

==========  =====================================================  ========================
set         files below the folder, as the publisher names them    without a folder
==========  =====================================================  ========================
diabetes    none: scikit-learn ships it                            the same
california  california/cal_housing.data                            fetch_california_housing
wine        uci/wine/winequality-{red,white}.csv                   OpenML 287
abalone     uci/abalone/abalone.data                               OpenML 183
ccpp        uci/ccpp/Folds5x2_pp.xlsx                              refused
hospitals   heart/processed.{cleveland,hungarian,switzerland,va}   the same files, with the
            .data                                                  package
mnist       mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz  OpenML 554
==========  =====================================================  ========================
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dald_model.errors import DatasetError
from dald_model.validate import is_whole
from dald_model.datasets.sources import HOSPITALS, REGRESSIONS, Folder, Source, mnist, read

Array = NDArray[np.float64]


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
        if not is_whole(parts, 1, rows):
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
    if name not in REGRESSIONS:
        raise DatasetError(
            f"There is no data set {name!r}. Expected: one of {', '.join(REGRESSIONS)}. "
            "Choose one of these; for the four hospitals call load_hospitals()."
        )
    return _assemble(name, REGRESSIONS[name], data)


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
        Folder laid out as the module says. Default: the environment variable ``DALD_DATA``;
        without that either, the files that the package holds.

    Returns
    -------
    dict of str to Dataset
        Raw values. `standardised_together` puts the hospitals on one scale.

    Raises
    ------
    DatasetError
        If the folder lacks a file, or a file is not the published table.
    """
    return {name: load_hospital(name, data) for name in HOSPITALS}


def load_hospital(name: str, data: Folder = None) -> Dataset:
    """Load the heart patients of one hospital, whose file alone is read; see `load_hospitals`.

    Raises
    ------
    DatasetError
        If there is no such hospital, the folder lacks its file, or that is not the published table.
    """
    if name not in HOSPITALS:
        known = ", ".join(HOSPITALS)
        raise DatasetError(f"There is no hospital {name!r}. Expected: one of {known}.")
    return _assemble(name, HOSPITALS[name], data)


def load_mnist(
    digits: tuple[int, int] = (3, 7), data: Folder = None, *, test: bool = False
) -> Dataset:
    """Load the images of two handwritten digits: the classification of the paper's Table 2.

    An image of 28 by 28 pixels is a row of 784 features ``pixel1``, ..., ``pixel784``, from left to
    right, then downwards: raw values from 0 (paper) to 255 (ink), as floats. Of 3 against 7

    =============  ======  ============  ============
    set            rows    3: target -1  7: target +1
    =============  ======  ============  ============
    training       12,396  6,131         6,265
    test           2,038   1,010         1,028
    =============  ======  ============  ============

    in the order of the files. The 12,396 rows take 78 MB. Features that are not scaled make the
    curvature of a loss large: a gradient step must be short (the paper's: 1e-4).

    Parameters
    ----------
    digits
        Two unlike digits: the one with target -1, then the one with target +1.
    data
        Folder laid out as the module says. Default: the environment variable ``DALD_DATA``;
        without that either, scikit-learn fetches all 70,000 images and caches them.
    test
        Whether to load the 10,000 images for tests, instead of the 60,000 for training.

    Raises
    ------
    DatasetError
        If the digits are no pair, the folder lacks a file, a download fails, or what came is not
        the published table.
    """
    if not (len(digits) == len(set(digits)) == 2 and set(digits) <= set(range(10))):
        raise DatasetError(
            f"MNIST cannot be loaded for the digits {digits!r}. Expected: two unlike digits from 0 "
            "to 9, the one with target -1 first. Choose two, such as (3, 7)."
        )
    return _assemble("mnist", mnist(digits, test), data)


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


def _assemble(name: str, source: Source, data: Folder) -> Dataset:
    table = read(name, source, data)
    values = table.to_numpy()
    return Dataset(
        name=name,
        title=source.title,
        features=np.ascontiguousarray(values[:, :-1]),
        target=np.ascontiguousarray(values[:, -1]),
        columns=tuple(table.columns[:-1]),
        source=source.source,
    )
