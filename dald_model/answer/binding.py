"""A saved answer on its model, which was declared again: matched by names and shapes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dald_model.answer.result import Result
from dald_model.answer.saving import meant, outline, taken
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.recovered import Recovered
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.state import State
from dald_model.errors import ResultError
from dald_model.text import listed
from dald_model.values import flat


def bound(
    saved: Any, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], compiled: Decomposition
) -> Result:
    """The result of a saved answer on a compiled model, see :meth:`SavedAnswer.on`.

    Raises
    ------
    ResultError
        If the model is another one.
    """
    matched = _Matched(header, compiled)
    points: dict[Hashable, np.ndarray] = {}
    for name, copies in saved._copies.items():
        points[name] = np.concatenate([flat(copy) for copy in copies])
    recovered = Recovered({}, {}, {}, {})
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray] = {}
    if points:
        mu = np.concatenate([saved.multipliers[ends] for ends in matched.ends])
        mu = mu[matched.entries] * matched.signs
        recovered = compiled.recover(points, saved._duals, mu, saved.left)
        multipliers = {ends: mu[slot].copy() for ends, slot in compiled.slots.items()}
    values = taken(arrays["given"], header["given shapes"])
    return Result(
        status=saved.status,
        value=saved.value,
        rounds=saved.rounds,
        answer_round=saved.answer_round,
        history=saved.history,
        recovered=recovered,
        multipliers=multipliers,
        compiled=compiled,
        seconds=saved.seconds,
        eps_pri=saved.eps_pri,
        eps_dual=saved.eps_dual,
        culprit=saved.culprit,
        detail=saved.detail,
        fallbacks=saved.fallbacks,
        left=saved.left,
        dropped=saved.dropped,
        state=matched.state(arrays) if "last.mu" in arrays else None,
        given=tuple(zip(matched.parameters, values, strict=True)),
    )


class _Matched:
    """Where the entries of a saved answer are in a compiled model.

    Attributes
    ----------
    ends : list
        The edges as they were saved.
    entries, signs : ndarray, shape (Q,)
        Where an entry of the model's edges was in the saved ones, and -1 where the ends of its
        edge have changed places since.
    parameters : list
    """

    def __init__(self, header: Mapping[str, Any], compiled: Decomposition) -> None:
        self._header, self._compiled = header, compiled
        self._model: str = compiled.model.name
        self._clients()
        self._variables()
        self._rules()
        self.ends, self.entries, self.signs = self._edges()
        self.parameters = self._parameters()

    def _clients(self) -> None:
        then = [meant(name) for name, _ in self._header["clients"]]
        now = self._compiled
        missing = [name for name in then if name not in now]
        new = [name for name in now if name not in set(then)]
        if missing or new:
            lacks = f"lacks {listed(missing)}" if missing else ""
            has = f"has {listed(new)} besides" if new else ""
            self._refuse(
                f"the model {' and '.join(filter(None, [lacks, has]))}",
                f"its {len(then)} clients, couplings and servers",
            )

    def _variables(self) -> None:
        theirs = {v.id: v for v in self._compiled.model.variables}
        place: dict[int, int] = {}
        for told, places in self._header["at"]:
            name = meant(told)
            ids = [self._compiled.origins[v.id] for v in self._compiled[name].variables]
            shapes = [tuple(self._header["shapes"][at]) for at in places]
            names = [self._header["variables"][at] for at in places]
            now = [theirs[key].name() if key in theirs else None for key in ids]
            found = [v.shape for v in self._compiled[name].variables]
            if list(map(_known, names)) != list(map(_known, now)) or shapes != found:
                self._refuse(f"client {name!r} has {_sized(now, found)}", _sized(names, shapes))
            if any(place.setdefault(at, key) != key for at, key in zip(places, ids, strict=True)):
                self._refuse(
                    f"client {name!r} shares other variables with others than it did",
                    "the same ones shared",
                )

    def _rules(self) -> None:
        stated = self._compiled.model.stated
        for told, then in self._header["rules"]:
            now = list(map(outline, stated[meant(told)].constraints))
            if now != then:
                pairs = enumerate(zip(now, then, strict=False))
                at = next((k for k, (a, b) in pairs if a != b), None)
                what = (
                    f"{len(now)} constraints" if at is None else f"as constraint {at} {now[at]!r}"
                )
                expected = f"{len(then)}" if at is None else f"{then[at]!r} (# is any number)"
                self._refuse(f"{meant(told)!r} has {what}", expected)

    def _edges(self) -> tuple[list[Any], np.ndarray, np.ndarray]:
        compiled = self._compiled
        then = {tuple(map(meant, ends)): parts for ends, parts in self._header["edges"]}
        stops = np.cumsum([parts[-1][1] for parts in then.values()])
        starts = dict(zip(then, stops - [parts[-1][1] for parts in then.values()], strict=True))
        if len(then) != len(compiled.edges):
            self._refuse(f"the model has {len(compiled.edges)} edges", f"{len(then)}")
        entries, signs = np.zeros(compiled.size, dtype=int), np.ones(compiled.size)
        for edge in compiled.edges:
            ends = edge.ends if edge.ends in then else edge.ends[::-1]
            now = [[outline(part.agreement), part.stop] for part in edge.parts]
            if ends not in then or then[ends] != now:
                what = "what it has" if ends not in then else f"{then[ends]}"
                self._refuse(f"the edge {edge.ends!r} is {now}", what)
            slot = compiled.slots[edge.ends]
            entries[slot] = starts[ends] + np.arange(edge.size)
            signs[slot] = 1.0 if ends == edge.ends else -1.0
        return list(then), entries, signs

    def _parameters(self) -> list[Any]:
        now = self._compiled.model.parameters
        told = self._header["given"], list(map(tuple, self._header["given shapes"]))
        names, shapes = [p.name() for p in now], [p.shape for p in now]
        if list(map(_known, names)) != list(map(_known, told[0])) or shapes != told[1]:
            self._refuse(f"the Parameters are {_sized(names, shapes)}", _sized(*told))
        return now

    def state(self, arrays: Mapping[str, np.ndarray]) -> State:
        """The last iterate, to go on from."""
        compiled, entries = self._compiled, self.entries
        layout = [(meant(name), size) for name, size in self._header["layout"]]
        stops = np.cumsum([size for _, size in layout])
        then = {
            n: np.arange(stop - size, stop) for (n, size), stop in zip(layout, stops, strict=True)
        }
        order = np.concatenate([then[name] for name in compiled.layout])
        units = {
            each.name: arrays[f"units.{each.name}"][order if "point" in each.name else entries]
            for each in fields(Units)
            if each.name != "start"
        }
        points = {name: arrays["last.points"][then[name]] for name in compiled}
        state = State.start(
            compiled,
            arrays["last.rho"][entries],
            Units(**units, start=arrays["units.start"][order]),
            points,
        )
        state.mu = arrays["last.mu"][entries] * self.signs
        return state

    def _refuse(self, given: str, expected: str) -> None:
        raise ResultError(
            f"load: the answer was saved of another model than {self._model!r}: {given}, expected "
            f"{expected}; declare the model as it was, or read the answer by names, dm.load(path)"
        )


def _known(name: str | None) -> str | None:
    """A name as far as a user gave it: cvxpy numbers the others anew in each process."""
    return re.sub(r"^(var|param)\d+$", r"\1", name) if name else name


def _sized(names: list[Any], shapes: list[Any]) -> str:
    said = [
        f"{name or 'a variable of the compiler'} of shape {tuple(shape)}"
        for name, shape in zip(names, shapes, strict=True)
    ]
    return ", ".join(said) or "none"
