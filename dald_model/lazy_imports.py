"""Lazy imports of libraries, and what to install where one is missing.

pandas takes a quarter of the time that cvxpy takes to import, and many programs print no table.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dald_model.errors import MissingError

if TYPE_CHECKING:
    import pandas as pd


class LazyModule(ModuleType):
    """A module that is imported with its first attribute."""

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self.__name__), name)
        return found


def optional(module: str, extra: str, purpose: str) -> Any:
    """A module of a library that only an extra of this package installs.

    Parameters
    ----------
    module : str
        Its import name, such as ``"matplotlib.pyplot"``.
    extra : str
        The extra of this package that installs it, such as ``"plot"``.
    purpose : str
        What it is needed for, the first words of the error.

    Raises
    ------
    MissingError
        If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingError(
            f"{purpose}: the library {library} is not installed; expected it beside dald_model: "
            f'pip install "dald_model[{extra}]", or [all] for every optional library'
        ) from error


if not TYPE_CHECKING:
    pd = LazyModule("pandas")

__all__ = ["LazyModule", "optional", "pd"]
