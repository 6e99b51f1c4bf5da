r"""Units per owner and per entry, and ill-conditioned coordinates, as a change of variables.

The user's variable of owner i is y, the natural one z = M D (y / u_i - o): u_i is the owner's unit,
D has one unit per entry, o an offset per entry, and M mixes entries, as collinear columns or the
powers of a polynomial do. The problem in z is always well scaled, so its optimum is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import cvxpy as cp
import numpy as np

from tests.answer.families.programs import Units

WINDOW = (5.0, 8.0)
"""Where a polynomial is measured: powers of such numbers are nearly collinear, as those of ages."""


@dataclass(frozen=True)
class Map:
    """z = T (y / unit) - shift."""

    T: np.ndarray
    shift: np.ndarray
    unit: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the owner's unit differs."""
        return not self.shift.any() and np.array_equal(self.T, np.eye(len(self.T)))


@dataclass
class Coordinates(Units):
    """Units of the families, with a map for each variable that owners agree on or share out."""

    maps: Mapping[str, Map] = field(default_factory=dict)

    def variable(self, name: str, *shape: int) -> cp.Expression:
        """A variable, in natural coordinates."""
        y = cp.Variable(shape, name=name)
        self.made[name] = y
        if name not in self.maps:
            return y
        given = self.maps[name]
        base = self._base(name)
        if given.is_plain:
            return base
        if np.count_nonzero(given.T - np.diag(np.diag(given.T))):
            return given.T @ base - given.shift
        return cp.multiply(np.diag(given.T), base) - given.shift

    def shared(self, one: str, other: str) -> cp.Constraint:
        """The consensus equality, each side in the same unit."""
        return self._base(one) == self._base(other)

    def _base(self, name: str) -> cp.Expression:
        unit = self.maps[name].unit if name in self.maps else 1.0
        return self.made[name] if unit == 1 else self.made[name] / unit

    def natural(self, name: str, value: np.ndarray) -> np.ndarray:
        """A value of the user's in natural coordinates."""
        value = np.asarray(value, dtype=float)
        if name not in self.maps:
            return value
        given = self.maps[name]
        return given.T @ (value / given.unit) - given.shift

    def user(self, name: str, value: np.ndarray) -> np.ndarray:
        """A value in natural coordinates as the user has it."""
        if name not in self.maps:
            return value
        given = self.maps[name]
        return given.unit * np.linalg.solve(given.T, value + given.shift)

    def unit(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The change of each entry that moves the natural point by one."""
        if name not in self.maps:
            return np.ones(shape)
        given = self.maps[name]
        return given.unit / np.linalg.norm(given.T, axis=0)

    @property
    def fresh(self) -> Coordinates:
        """The same coordinates, no variable made."""
        return replace(self, made={})


def maps(
    rng: np.random.Generator, names: list[str], size: int, condition: str, entry: str, owner: str
) -> dict[str, Map]:
    """The maps of the variables for three choices on the axes."""
    mixing = _mixing(rng, size, condition)
    powers = np.zeros(size)
    shift = np.zeros(size)
    if entry in ("1e3", "1e6"):
        powers = rng.permutation(np.linspace(-0.5, 0.5, size)) * float(entry[2:])
    if entry.startswith("offsets"):
        shift = 1e4 * rng.choice([-1.0, 1.0], size) * rng.uniform(0.5, 1, size)
    T = mixing * 10.0**-powers
    exponents = np.zeros(len(names))
    if owner.startswith("variables"):
        spread = np.linspace(-0.5, 0.5, len(names)) if len(names) > 1 else np.array([0.5])
        exponents = rng.permutation(spread) * float(owner[-1])
    moved = T @ shift
    return {
        name: Map(T, moved, float(10.0 ** round(by, 2)))
        for name, by in zip(names, exponents, strict=True)
    }


def _mixing(rng: np.random.Generator, size: int, condition: str) -> np.ndarray:
    if condition == "1" or size == 1:
        return np.eye(size)
    if condition.startswith("collinear"):
        return np.ones((size, size)) / size + 1e-4 * rng.normal(size=(size, size))
    if condition == "polynomial":
        t = np.linspace(*WINDOW, 4 * size)
        return np.linalg.qr(np.vander(t, size, increasing=True) / np.sqrt(len(t)))[1]
    turned = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return 10.0 ** -np.linspace(0, float(condition[2:]), size)[:, None] * turned
