"""Lazy imports of libraries and methods, and what to install where a library is missing.

pandas takes a quarter of the time that cvxpy takes to import, and many programs print no table.
networkx takes a sixth, and all that solves half of it, which a program pays when it first compiles.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dald_model.errors import MissingError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


class LazyModule(ModuleType):
    """A module that is imported with its first attribute."""

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self.__name__), name)
        return found


class LazyMethod:
    """A method that is a function of another module, which is imported with its first use."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        found = getattr(import_module(self._module), self._name)
        setattr(self._owner, self._name, found)
        return found.__get__(instance, owner)


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
    nx, pd = LazyModule("networkx"), LazyModule("pandas")

__all__ = ["LazyMethod", "LazyModule", "nx", "optional", "pd"]
