"""The numbers of clients by name, made when asked for; those of many alike also at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from dald_model.compile.form import Form
from dald_model.compile.stacked_forms import Batch

Found = TypeVar("Found")


class Forms(Mapping[Hashable, Form]):
    """Client -> its form.

    Parameters
    ----------
    lowered : dict
        Client -> :class:`dald_model.compile.lowered.Lowered`.
    batches : list of Batch
        Those of quadratics and smooth terms alone that were lowered at once.
    """

    def __init__(self, lowered: Mapping[Hashable, Any], batches: list[Batch]) -> None:
        self._lowered, self.batches = lowered, batches

    def __getitem__(self, name: Hashable) -> Form:
        return self._lowered[name].form

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._lowered)

    def __len__(self) -> int:
        return len(self._lowered)


def batches_of(forms: Mapping[Hashable, Form]) -> list[Batch]:
    """Those of :class:`Forms`; of other clients by name none is known."""
    return forms.batches if isinstance(forms, Forms) else []


def of_each(forms: Mapping[Hashable, Form], of: Callable[[Form], Found]) -> list[Found]:
    """What is the same of clients that differ in numbers alone, of each client."""
    found: dict[Hashable, Any] = {}
    for batch in batches_of(forms):
        found |= dict.fromkeys(batch.names, of(batch.forms.like))
    return [found[name] if name in found else of(forms[name]) for name in forms]
