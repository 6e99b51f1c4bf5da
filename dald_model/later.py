"""Libraries that are imported when something of them is first used.

pandas takes a quarter of the time that cvxpy takes, and many a program prints no table.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


class Later(ModuleType):
    """A module that is imported with its first attribute."""

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self.__name__), name)
        return found


if not TYPE_CHECKING:
    pd = Later("pandas")

__all__ = ["Later", "pd"]
