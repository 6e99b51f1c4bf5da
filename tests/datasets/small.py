"""A table small enough to check by hand."""

import numpy as np

from dald_model.datasets import Dataset


def small(name: str = "small", columns: tuple[str, ...] = ("grows", "stays")) -> Dataset:
    return Dataset(
        name=name,
        title="Small",
        features=np.array([[1.0, 0.1], [2.0, 0.1], [3.0, 0.1]]),
        target=np.array([10.0, 20.0, 30.0]),
        columns=columns,
        source="made up",
    )
