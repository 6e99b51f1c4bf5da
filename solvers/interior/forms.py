"""The numbers of clients by name, made when asked for; those of many alike also at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from dald_model.compile.form import Form
from dald_model.compile.stacked_forms import StackedForms

Found = TypeVar("Found")


class Batch:
    """Clients whose forms are among stacked ones: their names, and which of them they are."""

    def __init__(self, forms: StackedForms, names: list[Hashable], at: Sequence[int]) -> None:
        self.forms, self.names, self.at = forms, names, np.array(at)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return self.forms is other.forms and self.names == other.names

    __hash__ = object.__hash__

    def own(self, stack: np.ndarray) -> np.ndarray:
        """Of an array of the stacked forms what these clients have, (n, ...)."""
        return self.forms.of(stack, self.at)


class Forms(Mapping[Hashable, Form]):
    """Client -> its form.

    Parameters
    ----------
    lowered : dict
        Client -> :class:`dald_model.compile.lowered.Lowered`.
    """

    def __init__(self, lowered: Mapping[Hashable, Any]) -> None:
        self._lowered = lowered

    def __getitem__(self, name: Hashable) -> Form:
        return self._lowered[name].form

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._lowered)

    def __len__(self) -> int:
        return len(self._lowered)

    @cached_property
    def batches(self) -> list[Batch]:
        """Those of quadratics and smooth terms alone that were lowered at once."""
        found: dict[int, tuple[StackedForms, list[Hashable], list[int]]] = {}
        for name, one in self._lowered.items():
            if one.together is not None:
                forms, at = one.together
                _, names, places = found.setdefault(id(forms), (forms, [], []))
                names.append(name)
                places.append(at)
        return [Batch(f, n, p) for f, n, p in found.values() if f.is_plain]


def batches_of(forms: Mapping[Hashable, Form]) -> list[Batch]:
    """Those of :class:`Forms`; of other clients by name none is known."""
    return forms.batches if isinstance(forms, Forms) else []


def of_each(forms: Mapping[Hashable, Form], of: Callable[[Form], Found]) -> list[Found]:
    """What is the same of clients that differ in numbers alone, of each client."""
    found: dict[Hashable, Any] = {}
    for batch in batches_of(forms):
        found |= dict.fromkeys(batch.names, of(batch.forms.like))
    return [found[name] if name in found else of(forms[name]) for name in forms]
