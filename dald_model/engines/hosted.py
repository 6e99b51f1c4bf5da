"""Clients of interior points at one host, and their answers to calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dald_model.solvers.interior.calls import flat, taken
from dald_model.solvers.interior.member import Member

Arrays = dict[str, np.ndarray]
BROKEN = (np.linalg.LinAlgError, RuntimeError, ValueError)
"""What a client raises whose arithmetic ended."""


class HostedMembers:
    """The clients of interior points at one host, by the group that they came in.

    Parameters
    ----------
    open_one : callable
        (data, columns, seen) -> the member.
    """

    def __init__(self, open_one: Callable[[bytes, np.ndarray, np.ndarray], Member]) -> None:
        self._open_one = open_one
        self._groups: dict[int, list[Member]] = {}

    def answered(self, said: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """What is said to a message to members."""
        number = said["members"]
        if "open" in said:
            return self._open(number, said["open"], arrays), {}
        if "close" in said:
            self._groups.pop(number, None)
            return {}, {}
        if number not in self._groups:
            return {"forgotten": "it was started anew, and has not who is asked"}, {}
        found: Arrays = {}
        names, first = said["calls"], said["silent"]
        for at, member in enumerate(self._groups[number]):
            calls = taken(names, arrays[f"{at}"], member.sizes)
            try:
                with np.errstate(all="ignore"):
                    results = [getattr(member, name)(*values) for name, *values in calls]
            except BROKEN as error:
                return {"broken": f"{type(error).__name__}: {error}"}, {}
            told = [flat(one) for one in results[first:]]
            found[f"{at}"] = np.concatenate([np.zeros(0), *told])
        return {}, found

    def _open(self, number: int, count: int, arrays: Arrays) -> dict[str, Any]:
        opened = []
        for at in range(count):
            columns, seen = arrays[f"columns {at}"], arrays[f"seen {at}"].astype(bool)
            if seen.size <= columns.max(initial=-1) or columns.min(initial=0) < 0:
                raise ValueError("interior point: the numbers of a client's variables are none")
            try:
                opened.append(self._open_one(arrays[f"data {at}"].tobytes(), columns, seen))
            except NotImplementedError as error:
                return {"error": f"there is no interior point for its cone {error}"}
        self._groups[number] = opened
        told = [(one.seen, one.sizes) for one in opened]
        return {"seen": [[*seen, *sizes] for seen, sizes in told]}
